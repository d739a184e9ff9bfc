"""The form of a file that its name does not tell, by its first bytes."""

import gzip

_HEAD = 1 << 16
MARKS = {b"PAR1": "parquet", b"ARROW1": "ipc"}
PACKED = {  # how files begin that are packed in another way, and what unpacks them
    b"BZh": "bunzip2 -k",
    b"\xfd7zXZ": "xz -dk",
    b"PK\x03\x04": "unzip",
}
_LOAD = "load it in Python, and pass what it holds to evalkit.evaluate, which takes frames, "
_LOAD += "dicts, lists and matrices"
OF_PROGRAMS = {  # endings, and what to do with such files
    (".npz", ".npy", ".pkl", ".pickle", ".pt", ".mat", ".h5"): _LOAD,
    (".xlsx", ".xls", ".ods"): "save the sheet as CSV",
}


def head_of(path: str) -> bytes:
    """The first bytes of a file, unpacked where it is gzip; none of what cannot be read."""
    try:
        with open(path, "rb") as file:
            is_gzip = file.read(2) == b"\x1f\x8b"
            file.seek(0)
            return (gzip.open(file) if is_gzip else file).read(_HEAD)
    except (OSError, EOFError):
        return b""


def format_by_head(path: str) -> str | None:
    """The format that the first bytes of a file tell; `csv` of other text, as far as it is any."""
    head = head_of(path)
    for mark, form in MARKS.items():
        if head.startswith(mark):
            return form
    lines = head.lstrip().split(b"\n", 2)
    if lines[0][:1] in (b"[", b"{"):
        is_object = lines[0].rstrip().endswith(b"}") and lines[1:] and lines[1][:1] == b"{"
        return "ndjson" if is_object else None
    return None if not head or b"\x00" in head or head.startswith(tuple(PACKED)) else "csv"
