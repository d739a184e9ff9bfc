# mypy: disable-error-code="no-untyped-call, no-untyped-def"
"""Room for a few numbers, on the stack of a kernel that allocates nothing."""

from typing import Any

from .decorator import intrinsic

ROOM = 1024  # numbers


def _make_room() -> Any:
    import numpy as np

    return np.empty(ROOM)


@intrinsic(_make_room)
def room(typing_context):
    """float64[ROOM] that hold no numbers yet, and are gone when the kernel returns."""
    from llvmlite import ir
    from numba.core import cgutils, types
    from numba.np import arrayobj

    kind: Any = types.Array(types.float64, 1, "C")

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        size, width = (context.get_constant(types.intp, each) for each in (ROOM, 8))
        pointer = cgutils.alloca_once(builder, ir.DoubleType(), size=ROOM)
        array = arrayobj.make_array(kind)(context, builder)
        arrayobj.populate_array(
            array, data=pointer, shape=[size], strides=[width], itemsize=width, meminfo=None
        )
        return array._getvalue()

    return kind(), generate
