"""Files that are written whole or not at all."""

import os
import secrets
from pathlib import Path

from evalkit.errors import MachineError, RequestError, check_file


def path_of(value: object, argument: str, example: str) -> Path:
    """The path that an argument names.

    Raises:
        RequestError: it is neither text nor a path, or empty [wrong-type].
    """
    if isinstance(value, (str, os.PathLike)) and isinstance(os.fspath(value), str) and str(value):
        return Path(value)
    message = f"{argument} is {value!r:.80}, not text or a path"
    raise RequestError(message, code="wrong-type", at=argument, hint=f"pass {example!r}")


def write_whole(path: Path, content: bytes) -> None:
    """Put `content` in the place of a file; where that fails, what was there stays as it was.

    What is no regular file, as a pipe, is written to as it is.

    Raises:
        RequestError, MachineError: as `check_file`; the disk is full, or fails [write-failed].
    """
    place = path.resolve()
    if place.exists() and not place.is_file() and not place.is_dir():
        path.write_bytes(content)
        return
    check_file(place, str(path))
    fresh = place.with_name(f".{secrets.token_hex(8)}")
    try:
        with open(fresh, "xb") as file:
            file.write(content)
        os.replace(fresh, place)
    except OSError as error:
        message = f"the file cannot be written: {error.strerror or error}"
        hint = "name a file in a folder where there is room"
        raise MachineError(message, code="write-failed", at=str(path), hint=hint) from error
    finally:
        fresh.unlink(missing_ok=True)
