"""Texts where Polars keeps them, by Arrow's C interface. Arrow's own library takes 40 MiB.

Source:
    Apache Arrow: The Arrow C data interface, The Arrow C stream interface, The Arrow PyCapsule
    interface.
"""

import ctypes
from typing import Any

import polars as pl

LONG, ADDRESS = ctypes.c_int64, ctypes.c_void_p
VIEWS = (b"vu", b"vz")  # how a type is spelled whose texts, or bytes, are kept as views


class ArrowArray(ctypes.Structure):
    """`struct ArrowArray`."""


class ArrowSchema(ctypes.Structure):
    """`struct ArrowSchema`."""


class ArrowArrayStream(ctypes.Structure):
    """`struct ArrowArrayStream`, which its capsule gives back."""


def _function(result: Any, *structures: type[ctypes.Structure]) -> Any:
    return ctypes.CFUNCTYPE(result, *map(ctypes.POINTER, structures))


ArrowArray._fields_ = [
    *((name, LONG) for name in ("length", "null_count", "offset", "n_buffers", "n_children")),
    ("buffers", ctypes.POINTER(ADDRESS)),
    *((name, ADDRESS) for name in ("children", "dictionary")),
    ("release", _function(None, ArrowArray)),
    ("private_data", ADDRESS),
]
ArrowSchema._fields_ = [
    ("format", ctypes.c_char_p),
    *((name, ADDRESS) for name in ("name", "metadata", "flags", "n_children")),
    *((name, ADDRESS) for name in ("children", "dictionary")),
    ("release", _function(None, ArrowSchema)),
    ("private_data", ADDRESS),
]
ArrowArrayStream._fields_ = [
    ("get_schema", _function(ctypes.c_int, ArrowArrayStream, ArrowSchema)),
    ("get_next", _function(ctypes.c_int, ArrowArrayStream, ArrowArray)),
    *((name, ADDRESS) for name in ("get_last_error", "release", "private_data")),
]


class OwnArray(ArrowArray):
    """One that is given back, and its memory with it, when nobody holds it any more."""

    def __del__(self) -> None:
        if self.release:
            self.release(self)


_find = ctypes.PYFUNCTYPE(ADDRESS, ctypes.py_object, ctypes.c_char_p)
_address_in = _find(("PyCapsule_GetPointer", ctypes.pythonapi))


def export_texts(column: pl.Series) -> OwnArray:
    """A column of texts or bytes as one array of views.

    Raises:
        TypeError: Polars gives them in another form.
    """
    capsule = column.rechunk().__arrow_c_stream__()
    stream = ArrowArrayStream.from_address(_address_in(capsule, b"arrow_array_stream"))
    schema, array = ArrowSchema(), OwnArray()
    failed = stream.get_schema(stream, schema) or stream.get_next(stream, array)
    form = schema.format
    if schema.release:
        schema.release(schema)
    if failed or form not in VIEWS or not array.release:
        raise TypeError(f"texts are not exported as views, but as {form!r}")
    return array
