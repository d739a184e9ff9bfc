"""Processor instructions that numba does not offer: atomic updates, prefetching, fused sums.

Threads share the arrays that the probe fills. Every update of them is one of these: a minimum, a
maximum or a sum, so the result is the same for every order in which threads come by.
With the JIT off, plain Python of the same meaning stands in.
"""

from collections.abc import Callable
from typing import Any

from .decorator import intrinsic


def _atomic(array: Any, value: Any, operation: str) -> tuple[Any, Callable[..., Any]] | None:
    from numba.core import cgutils, types
    from numba.np import arrayobj

    if not isinstance(array, types.Array) or array.ndim != 1:
        return None

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        pointer = arrayobj.make_array(signature.args[0])(context, builder, arguments[0]).data
        place = cgutils.gep_inbounds(builder, pointer, arguments[1])
        new = context.cast(builder, arguments[2], signature.args[2], array.dtype)
        return builder.atomic_rmw(operation, place, new, "monotonic")

    return array.dtype(array, types.intp, value), generate


def _add(array: Any, index: int, value: Any) -> Any:
    old = array[index]
    array[index] = old + value
    return old


def _lower(array: Any, index: int, value: Any) -> Any:
    old = array[index]
    array[index] = min(old, value)
    return old


def _raise(array: Any, index: int, value: Any) -> Any:
    old = array[index]
    array[index] = max(old, value)
    return old


@intrinsic(_add)
def atomic_add(typing_context, array, index, value):  # type: ignore[no-untyped-def]
    """Add to one element of an integer array; gives the element as it was."""
    return _atomic(array, value, "add")


@intrinsic(_lower)
def atomic_lower(typing_context, array, index, value):  # type: ignore[no-untyped-def]
    """Lower one element of a signed array to a value; gives the element as it was."""
    return _atomic(array, value, "min")


@intrinsic(_raise)
def atomic_raise(typing_context, array, index, value):  # type: ignore[no-untyped-def]
    """Raise one element of a signed array to a value; gives the element as it was."""
    return _atomic(array, value, "max")


def _fetch_nothing(*place: object) -> None:
    pass


@intrinsic(_fetch_nothing)
def prefetch(typing_context, array, index):  # type: ignore[no-untyped-def]
    """Ask for the cache line of one element ahead of its use; any index is allowed."""
    from numba.core import cgutils, types
    from numba.np import arrayobj

    if not isinstance(array, types.Array) or array.ndim != 1:
        return None

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        pointer = arrayobj.make_array(signature.args[0])(context, builder, arguments[0]).data
        return _ask_for(context, builder, cgutils.gep(builder, pointer, arguments[1]))

    return types.void(array, types.intp), generate


@intrinsic(_fetch_nothing)
def prefetch_at(typing_context, address):  # type: ignore[no-untyped-def]
    """Ask for the cache line of an address ahead of its use; any is allowed."""
    from llvmlite import ir
    from numba.core import types

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        place = builder.inttoptr(arguments[0], ir.IntType(8).as_pointer())
        return _ask_for(context, builder, place)

    return types.void(types.int64), generate


def _ask_for(context: Any, builder: Any, place: Any) -> Any:
    from llvmlite import ir
    from numba.core import cgutils

    byte_pointer, number = ir.IntType(8).as_pointer(), ir.IntType(32)
    function = cgutils.get_or_insert_function(
        builder.module,
        ir.FunctionType(ir.VoidType(), [byte_pointer, number, number, number]),
        "llvm.prefetch.p0i8",
    )
    address = builder.bitcast(place, byte_pointer)
    builder.call(function, [address, number(1), number(3), number(1)])
    return context.get_dummy_value()


def _word_at(address: int) -> Any:
    import ctypes

    import numpy as np

    return np.uint64(ctypes.c_uint64.from_address(int(address)).value)


@intrinsic(_word_at)
def word_at(typing_context, address):  # type: ignore[no-untyped-def]
    """The 8 bytes from an address on as a uint64; whoever asks keeps the memory there."""
    from llvmlite import ir
    from numba.core import types

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        place = builder.inttoptr(arguments[0], ir.IntType(64).as_pointer())
        return builder.load(place, align=1)

    return types.uint64(types.int64), generate


def _folded_product(one: Any, other: Any) -> Any:
    import numpy as np

    product = int(one) * int(other)
    return np.uint64((product ^ (product >> 64)) & ((1 << 64) - 1))


@intrinsic(_folded_product)
def folded_product(typing_context, one, other):  # type: ignore[no-untyped-def]
    """Both halves of the 128 bits of a product of two uint64, exclusive or."""
    from llvmlite import ir
    from numba.core import types

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        wide = ir.IntType(128)
        product = builder.mul(*(builder.zext(each, wide) for each in arguments))
        upper = builder.lshr(product, wide(64))
        return builder.trunc(builder.xor(product, upper), ir.IntType(64))

    return types.uint64(types.uint64, types.uint64), generate


def _bits(value: Any) -> Any:
    import numpy as np

    return np.float64(value).view(np.int64)


@intrinsic(_bits)
def float_bits(typing_context, value):  # type: ignore[no-untyped-def]
    """The bits of a float64 as an int64."""
    from llvmlite import ir
    from numba.core import types

    if value != types.float64:
        return None

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.bitcast(arguments[0], ir.IntType(64))

    return types.int64(types.float64), generate


def _square_error(value: Any) -> Any:
    from fractions import Fraction

    import numpy as np

    exact = Fraction(float(value)) ** 2
    return np.float64(exact - Fraction(float(value) * float(value)))


@intrinsic(_square_error)
def square_error(typing_context, value):  # type: ignore[no-untyped-def]
    """The square of a float64 less that square rounded, itself exact unless it underflows."""
    from numba.core import types

    if value != types.float64:
        return None

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        (factor,) = arguments
        rounded = builder.fmul(factor, factor)
        return builder.fma(factor, factor, builder.fneg(rounded))

    return types.float64(types.float64), generate
