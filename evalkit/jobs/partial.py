"""One share of the users measured, and what it leaves behind written to a file."""

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Unpack

from evalkit import pipeline
from evalkit.config import Config, hinted, load_config
from evalkit.errors import RequestError, check_file
from evalkit.planning.partials import MOST_SHARES, is_partial
from evalkit.planning.work import MeasureArguments

_SHARE = re.compile(r"([0-9]{1,9})/([0-9]{1,9})", re.ASCII)


def parse_share(text: str) -> tuple[int, int]:
    """Which share of how many a text such as `3/16` names.

    Raises:
        RequestError: it names none [bad-share].
    """
    found = _SHARE.fullmatch(text)
    if found is None:
        raise _no_share(f"{text!r} is no share", f"--share {text}")
    share = int(found[1]), int(found[2])
    check_share(share, at=f"--share {text}")
    return share


def check_share(share: tuple[int, int], *, at: str = "share") -> None:
    """Raise unless it is a share, from 1, and how many there are.

    Raises:
        RequestError: it is none [bad-share].
    """
    number, n_shares = share
    if not 1 <= n_shares <= MOST_SHARES:
        raise _no_share(f"there are 1 to {MOST_SHARES:,} shares, not {n_shares:,}", at)
    if not 1 <= number <= n_shares:
        raise _no_share(f"shares are counted from 1 to {n_shares:,}, and {number:,} is none", at)


def _no_share(message: str, at: str) -> RequestError:
    return RequestError(message, code="bad-share", at=at, hint="--share 1/4 is the first of four")


def check_target(path: Path) -> None:
    """Raise where no partial can be written, or something else would be lost; before any work.

    Raises:
        RequestError: no file can be written there, or there is one of another kind [bad-option].
        MachineError: the folder cannot be written [not-writable].
    """
    check_file(path, f"--out {path}")
    if path.is_file() and path.stat().st_size and not is_partial(path):
        message = "there is a file already, and it is no partial"
        hint = "name a new file, or an earlier partial"
        raise RequestError(message, code="bad-option", at=f"--out {path}", hint=hint)


def write_partial(
    config: Config,
    share: tuple[int, int],
    path: Path,
    **options: Unpack[MeasureArguments],
) -> None:
    """Measure one share of the users, and write what it leaves behind.

    Args:
        share: which, from 1, and how many there are.
        path: a new file, or an earlier partial, which is replaced when the new one is whole.
        options: as `pipeline.run_config` takes them; values of users are kept where they are asked
            for, also where the config does not.
    Raises:
        RequestError, DataError, MachineError: as `pipeline.run_config`, of what one share can tell.
    """
    if config.output.per_user or _gates_need_values(config):
        options["per_user"] = True
    pipeline.measure_partial(config, share, **options).write(path)


def _gates_need_values(config: Config) -> bool:
    if not config.gates:
        return False
    from evalkit.runs.gates import needs_values  # with all that reads past runs

    return bool(needs_values(config))


@hinted
def partial(
    config: str | os.PathLike[str],
    *,
    share: tuple[int, int],
    out: str | os.PathLike[str],
    overrides: Sequence[str] = (),
    variables: Mapping[str, str] | None = None,
    per_user: bool = False,
    sample: float | None = None,
    threads: int | None = None,
    memory_limit: int | None = None,
) -> Path:
    """The file of one share of the users, as `evalkit partial` writes it; `merge` reads all.

    Args:
        config: a TOML file.
        share: which, from 1, and how many there are.
        out: a new file, or an earlier partial, which is replaced when the new one is whole.
        overrides: `key=value` texts, as `--set` takes them.
        variables: values of the `{name}` places in paths and SQL.
        per_user: keep the values of users, also where the config does not ask for them.
        sample: share of the users to look at at all, drawn by a hash of their ids.
        threads: usable cores by default.
        memory_limit: bytes that this may take; above it the share is read in several passes.
    Raises:
        RequestError: the request is wrong [bad-share, ...].
        DataError: what one share can tell is wrong with the data; the rest is told by `merge`.
    Example:
        >>> import polars as pl
        >>> from tempfile import mkdtemp
        >>> folder = Path(mkdtemp())
        >>> truth = pl.DataFrame({"user": [1, 2, 3], "item": [10, 11, 12]})
        >>> truth.write_parquet(folder / "truth.parquet")
        >>> truth.with_columns(rank=1).write_parquet(folder / "als.parquet")
        >>> config = folder / "nightly.toml"
        >>> _ = config.write_text(
        ...     'truth.path = "truth.parquet"\\nmetrics.names = ["RR"]\\n'
        ...     '[[rankings]]\\nmodel = "als"\\npath = "als.parquet"'
        ... )
        >>> files = [partial(config, share=(i, 2), out=folder / f"part-{i}") for i in (1, 2)]
        >>> from evalkit import merge
        >>> merge(files).value("RR")
        1.0
    """
    path = Path(out)
    check_share(share)
    check_target(path)
    request = load_config(config, overrides=overrides, variables=variables)
    write_partial(
        request,
        share,
        path,
        sample=sample,
        threads=threads,
        memory_limit=memory_limit,
        per_user=per_user,
    )
    return path
