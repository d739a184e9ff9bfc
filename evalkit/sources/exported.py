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
    """`struct ArrowArray`, which is given back when nobody holds it any more."""

    def __del__(self) -> None:
        if self.release:
            self.release(self)


class ArrowSchema(ctypes.Structure):
    """`struct ArrowSchema`, of which nobody else holds what it says."""

    def __del__(self) -> None:
        if self.release:
            self.release(self)


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

_address_in = ctypes.pythonapi.PyCapsule_GetPointer
_address_in.restype, _address_in.argtypes = ADDRESS, (ctypes.py_object, ctypes.c_char_p)


def export_texts(texts: pl.Series) -> ArrowArray:
    """Texts or bytes in one array, as views.

    Raises:
        TypeError: Polars gives them in another form.
    """
    capsule = texts.rechunk().__arrow_c_stream__()
    stream = ArrowArrayStream.from_address(_address_in(capsule, b"arrow_array_stream"))
    schema, array = ArrowSchema(), ArrowArray()
    failed = stream.get_schema(stream, schema) or stream.get_next(stream, array)
    if failed or schema.format not in VIEWS or not array.release:
        raise TypeError(f"texts are not exported as views, but as {schema.format!r}")
    return array
