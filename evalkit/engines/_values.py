"""Values of users, written by executors into a folder that they share with the driver.

A file's name carries its checksum, and a partial names the file. What an attempt leaves that was
killed, or that another one overtook, has no such name, and goes with the folder.
"""

import os
import secrets
from collections.abc import Iterable, Sequence
from contextlib import suppress
from hashlib import file_digest
from pathlib import Path

import polars as pl

from evalkit.config import Config
from evalkit.errors import MachineError
from evalkit.kinds.rankings.kind import RankingSums
from evalkit.planning.work import places_kept
from evalkit.report import PerUser, UserWriter

NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def write_values(
    folder: Path, number: int, config: Config, kept: bool | Sequence[str], sums: RankingSums
) -> list[str]:
    """The name of a new file with the values of a share, which leave its sums; none without users.

    Args:
        folder: exists; an executor that outlives the job finds it gone.
        number: of the share.
        kept: metrics; True: all.
    Raises:
        MachineError: the file cannot be written [spark-failed].
    """
    if not sums.users:
        return []
    own = {name: pl.concat(sums.users[name]) for name in sums.in_order}
    sums.users = {}
    values = PerUser(sums.origin.user_columns, _labels(config, kept), own)
    path = folder / f".{secrets.token_hex(16)}"
    try:
        with open(os.open(path, NEW, 0o644), "wb") as file:
            values.table().collect().write_parquet(file)
        name = f"{number:06}-{_digest(path)}.parquet"
        os.rename(path, folder / name)
    except OSError as error:
        with suppress(OSError):
            path.unlink()
        message = f"an executor cannot write values of users: {error.strerror or error}"
        hint = "runs go to a folder that executors share with this process; see docs/spark.md"
        raise MachineError(message, code="spark-failed", at=str(folder), hint=hint) from error
    return [name]


def values_of(
    folder: Path,
    names: Iterable[str],
    config: Config,
    kept: bool | Sequence[str],
    sums: RankingSums,
) -> PerUser:
    """The values of all users, in the files that partials name and no others.

    Args:
        sums: of all shares.
    Raises:
        MachineError: a file is not there as it was written [spark-failed].
    """
    columns, labels = sums.origin.user_columns, _labels(config, kept)
    paths = tuple(folder / name for name in sorted(names))
    for path in paths:
        try:
            is_whole = path.stem.endswith(f"-{_digest(path)}")
        except OSError:
            is_whole = False
        if not is_whole:
            message = "a file of values of users is not here as an executor wrote it"
            hint = "try again; nobody else may write into the folder of runs"
            raise MachineError(message, code="spark-failed", at=str(path), hint=hint)
    if not paths:
        return UserWriter(folder, columns, labels).finish(in_order=True)
    return PerUser(columns, labels, path=paths)


def _labels(config: Config, kept: bool | Sequence[str]) -> tuple[str, ...]:
    return tuple(config.requests[place].label for place in places_kept(config.requests, kept))


def _digest(path: Path) -> str:
    with open(path, "rb") as file:
        return file_digest(file, "sha256").hexdigest()
