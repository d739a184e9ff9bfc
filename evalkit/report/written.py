"""Files that are written whole or not at all."""

import os
import secrets
from pathlib import Path


def write_whole(path: Path, content: bytes) -> None:
    """Put `content` in the place of a file; where that fails, what was there stays as it was.

    What is no regular file, as a pipe, is written to as it is.
    """
    place = path.resolve()
    if place.exists() and not place.is_file():
        path.write_bytes(content)
        return
    fresh = place.with_name(f".{secrets.token_hex(8)}")
    try:
        with open(fresh, "xb") as file:
            file.write(content)
        os.replace(fresh, place)
    except OSError as error:
        error.filename = str(path)
        raise
    finally:
        fresh.unlink(missing_ok=True)
