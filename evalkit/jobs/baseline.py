"""`evalkit baseline`: the rankings of a baseline, as a frame or as a file."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import polars as pl

from evalkit.config import (
    Builtin,
    Columns,
    EntryPoint,
    TrainColumns,
    TrainTable,
    build_builtin,
    hinted,
    our_columns,
)
from evalkit.errors import CountedError, DataError, MachineError
from evalkit.item_lists.baselines import make_rankings, named_columns, needs_time
from evalkit.runs import replacing
from evalkit.sources import (
    Guessing,
    Named,
    Table,
    describe_given,
    frame_of,
    open_train,
    reading,
    with_all_users,
)

if TYPE_CHECKING:
    from evalkit.config import RankingsTable

ROWS_A_GROUP = 1 << 17


@hinted
def baseline(
    builtin: Builtin,
    *,
    train: object,
    users: object,
    k: int = 50,
    seen: Literal["drop", "keep"] | None = None,
    seed: int | None = None,
    half_life: str | None = None,
    window: str | None = None,
    by: Literal["time", "count"] | None = None,
    columns: Columns | None = None,
) -> pl.DataFrame:
    """The rankings of a baseline: user, item, rank; users, and items of equal worth, by their ids.

    Args:
        builtin: `popular` by the rows of train, `recent` by rows that count less with age, `last`
            a user's own items, `random`.
        train: what models had seen: a path or a table with user, item and, for `recent` and
            `last`, time; dicts and lists as `evaluate` takes them, where there is no time.
        users: the users who get a list: a path, a table or what `evaluate` takes, as the truth.
        k: items of a list.
        seen: `drop`, the default, leaves out what train has of the user, `keep` does not.
        seed: of `random`, 1 by default.
        half_life: of `recent`, the age at which a row counts half; `30d` by default.
        window: of `recent`, in place of it: only rows of that last span count.
        by: of `last`, `time` or `count` of the user's rows.
        columns: our names (user, item, time) to the tables' columns.
    Raises:
        RequestError: options that exclude each other, or are out of range.
        DataError: the data is wrong [missing-column, null-id, bad-time, empty-input, ...].
    Example:
        >>> import polars as pl
        >>> train = pl.DataFrame({"user": [1, 1, 2], "item": [7, 8, 8]})
        >>> baseline("popular", train=train, users=pl.DataFrame({"user": [2, 3]}), k=2).rows()
        [(2, 7, 1), (3, 8, 1), (3, 7, 2)]
    """
    asked = {
        "builtin": builtin,
        "k": k,
        "seen": seen,
        "seed": seed,
        "half_life": half_life,
        "window": window,
        "by": by,
    }
    rule = build_builtin(asked, {name: name for name in asked})
    given = _framed(train, "train"), _framed(users, "users")
    named = our_columns(columns, ("user", "item", "time"))
    table = open_baseline(rule, *given, columns=named, entry_point="python")
    with _reading(table):
        return _renamed(table).collect(engine="streaming")


def _framed(given: object, role: str) -> object:
    """Dicts, lists and matrices as frames, with users of nothing; what is a table stays."""
    if role == "users" and isinstance(given, Mapping) and [*given] == ["user"]:
        return pl.DataFrame(given)  # a column, and no user of that name
    frame = frame_of(given, role)
    if frame is None:
        return given
    frame = with_all_users(frame, given, None) if role == "users" else frame
    return Named(frame, describe_given(given, role))


def open_baseline(
    rule: "RankingsTable",
    train: object,
    users: object,
    *,
    columns: Columns | None,
    entry_point: EntryPoint,
) -> Table:
    """The rankings of a baseline, opened but not made."""
    own = {
        name: (each if isinstance(each, str) else tuple(each))
        for name, each in (columns or {}).items()
    }
    guessing = Guessing(entry_point, section="--train" if entry_point == "options" else "")
    keys = ("user", "item", "time") if needs_time(rule) else ("user", "item")
    known = {name: each for name, each in own.items() if name != "time" or "time" in keys}
    table = TrainTable(path=("memory",), columns=TrainColumns.model_validate(known))
    of_users = TrainColumns.model_validate({k: v for k, v in own.items() if k == "user"})
    only_users = TrainTable(path=("memory",), columns=of_users)
    return make_rankings(
        rule,
        open_train(table, train, guessing, keys=keys),
        open_train(only_users, users, Guessing(entry_point), keys=("user",), role="users"),
        null_ids="error",
    )


def write_baseline(table: Table, path: Path) -> int:
    """Write the rankings to a Parquet file, whole or not at all; how many rows there are.

    Raises:
        DataError: as `baseline`.
        MachineError: the file cannot be written [write-failed].
    """
    try:
        with replacing(path) as file, _reading(table):
            _renamed(table).sink_parquet(
                file,
                compression="zstd",
                row_group_size=ROWS_A_GROUP,
                maintain_order=True,
                engine="streaming",
            )
        return int(pl.scan_parquet(path, glob=False).select(pl.len()).collect().item())
    except OSError as error:
        message = f"the rankings cannot be written: {error.strerror or error}"
        hint = "name a file in a folder where there is room"
        raise MachineError(message, code="write-failed", at=str(path), hint=hint) from error


@contextmanager
def _reading(table: Table) -> Iterator[None]:
    """Read lists; both tables have rows, and hints name what can be done here.

    Raises:
        DataError: one has none [empty-input]; what reading raises.
    """
    for source in table.made.tables if table.made is not None else ():
        with reading(source):
            if source.frame.head(1).collect(engine="streaming").height:
                continue
        message, hint = f"{source.role} has no rows", "look at the path, and who writes it"
        raise DataError(message, code="empty-input", at=source.at, hint=hint)
    try:
        with reading(table):
            yield
    except DataError as error:
        if error.code == "null-id" or isinstance(error, CountedError):
            error.hint = "give tables without such rows"  # there is neither a where nor a policy
        raise


def _renamed(table: Table) -> pl.LazyFrame:
    return table.frame.rename(named_columns(table))
