"""The Python entry point: `evalkit.split`."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import cast

from evalkit.config import build_split, hinted
from evalkit.sources import Guessing, refuse_of_files, verifying
from evalkit.splits.make import Split, make_split


@hinted
def split(
    log: object,
    *,
    columns: Mapping[str, str | Sequence[str]] | None = None,
    out: str | os.PathLike[str] | None = None,
    name: str = "split",
    verify_pages: bool = True,
    **rule: object,
) -> Split:
    """Cut a log into train, validation and test.

    Args:
        log: a path (file, glob, folder, URL, or a list of them) or data in memory, as `evaluate`
            takes them.
        columns: our names (user, item, time, relevance) to the log's columns; those that are left
            out are guessed. User may be several.
        out: a new folder that gets the parts and `split.json`; None writes nothing.
        name: of the split.
        verify_pages: hold pages of local Parquet files against their checksums.
        rule: keys of `[split]` in a config: by, test, validation, folds, ties, like, ...
    Raises:
        RequestError: the request is wrong [bad-split, unknown-key, ...].
        DataError: the log is wrong, or does not fit the rule [empty-part, null-id, ...].
    Example:
        >>> import polars as pl
        >>> log = pl.DataFrame({"user": [1, 1, 1, 2, 2], "item": [7, 8, 9, 7, 9], "time": range(5)})
        >>> made = split(log, by="user", test=1)
        >>> made.part("test").collect()["item"].to_list()
        [9, 9]
    """
    is_path = isinstance(log, str | os.PathLike) or (
        isinstance(log, list | tuple) and all(isinstance(each, str | os.PathLike) for each in log)
    )
    section: dict[str, object] = {key: _plain(each) for key, each in rule.items()}
    if is_path:
        listed = [log] if isinstance(log, str | os.PathLike) else cast("list[object]", log)
        section["path"] = [os.fspath(cast(str, each)) for each in listed]
    else:
        refuse_of_files(section, "log")
    if columns is not None:
        section["columns"] = {key: _plain(each) for key, each in columns.items()}
    config = build_split({"split": section}, name=name, entry_point="python")
    with verifying(verify_pages):
        return make_split(
            config.split,
            given=None if is_path else log,
            guessing=Guessing("python", section="split"),
            out=None if out is None else Path(out),
            at="split",
        )


def _plain(value: object) -> object:
    """Tuples as lists, as TOML has them."""
    return list(value) if isinstance(value, tuple) else value
