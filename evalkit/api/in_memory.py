"""Tables that Python hands over: as sections of a config, and as frames that are in memory."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias, cast

from evalkit import sources
from evalkit.config import Columns, our_columns
from evalkit.errors import EvalkitError, RequestError
from evalkit.metrics import OwnMetric, name_metrics, parse_metrics

TableColumns: TypeAlias = Columns | Mapping[str, Columns] | None
MetricFiles: TypeAlias = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]
MEMORY = "memory"  # stands for a path where a table is in memory
TABLES = {  # and the columns of ours that each may have
    "truth": ("user", "item", "relevance", "propensity", "order"),
    "rankings": ("user", "item", "rank", "score", "model", "order"),
    "train": ("user", "item", "order"),
    "items": ("item", "genres", "vector", "published"),
    "users": ("user",),
}
OTHERS = ("truth", "train", "items", "users")  # of which there is one each
_FROM_THE_TOP = ("nDCG", "DCG", "CG", "recall", "precision", "hit", "hits", "RR", "AP")


def named_segments(name: str, rule: object, in_memory: dict[str, object]) -> object:
    """A segmentation as a config has it; a table in memory goes into `in_memory`."""
    if not isinstance(rule, Mapping) or "path" not in rule:
        return dict(rule) if isinstance(rule, Mapping) else rule
    table = taken_over(rule["path"], "segments")
    if table is not None:
        sources.refuse_of_files(rule, f"segments.{name}")
        in_memory[name] = table
    return {**rule, "path": paths_of(rule["path"])}


def add_table(
    section: str,
    table: object | None,
    columns: Mapping[str, object],
    tree: dict[str, object],
    in_memory: dict[str, object],
) -> None:
    """A table as a section of a config; one in memory goes into `in_memory`."""
    if table is None:
        return
    rule: Mapping[str, object] = {"path": table}
    if section == "items" and isinstance(table, Mapping) and "path" in table:
        rule = table
        if not is_path(rule["path"]):
            sources.refuse_of_files(rule, section)
    in_memory[section] = taken_over(rule["path"], section)
    tree[section] = {"columns": columns, **rule, "path": paths_of(rule["path"])}


def is_path(table: object) -> bool:
    """Whether a table is named by a path, or by several."""
    if isinstance(table, (str, os.PathLike)):
        return True
    return (
        isinstance(table, (list, tuple))
        and bool(table)
        and all(isinstance(each, (str, os.PathLike)) for each in table)
    )


def paths_of(table: object) -> list[str]:
    """Where a table lies, for a config; `MEMORY` where it is in memory."""
    if not is_path(table):
        return [MEMORY]
    if isinstance(table, (str, os.PathLike)):
        return [os.fspath(table)]
    return [os.fspath(each) for each in table]  # type: ignore[attr-defined]


def taken_over(table: object, role: str) -> object | None:
    """A table in memory, taken over once: a stream may not come a second time.

    A DataFrame of Spark stays where it is.
    """
    if is_path(table):
        return None
    if sources.is_spark(table):
        return table
    frame, n_rows = sources.open_given(table, role)
    if n_rows is None:
        return frame
    if isinstance(table, sources.Named):
        return table
    return sources.Named(frame.collect(), sources.describe_given(table, role))


@dataclass(frozen=True, slots=True)
class Listed:
    """One table: its columns as named, and its model where the rows do not name it.

    `is_ours` where nobody named the model, and a column of the table may; `earlier`: the model's
    lists before, oldest first.
    """

    model: str | None
    table: object
    columns: Columns
    is_ours: bool = False
    earlier: Sequence[object] = ()

    def section(self) -> dict[str, object]:
        """The table as a config has it."""
        found: dict[str, object] = {"path": paths_of(self.table), "columns": dict(self.columns)}
        if self.earlier:
            found["earlier"] = [paths_of(each)[0] for each in self.earlier]
        return found if self.model is None else {**found, "model": self.model}


def earlier_of(listed: Sequence[Listed]) -> dict[tuple[int, int], object]:
    """Lists before that are in memory, by the places of their rankings and of their own."""
    return {
        (place, number): taken
        for place, each in enumerate(listed)
        for number, table in enumerate(each.earlier)
        if (taken := taken_over(table, "earlier")) is not None
    }


def _has_earlier(table: object) -> bool:
    return isinstance(table, Mapping) and set(table) == {"path", "earlier"}


def keys_of(named: Columns, keys: Sequence[str]) -> Columns:
    """Those of the named columns that a table may have."""
    return {key: named[key] for key in keys if key in named}


def listed_of(
    tables: object, keys: Sequence[str], named: Columns, *, what: str = "tables"
) -> list[Listed]:
    """Tables by model, as the user gave them; one table alone is called `model`."""
    if isinstance(tables, Mapping):
        if not tables:
            code = "no-rankings" if what == "rankings" else "no-tables"
            raise RequestError(f"there are no {what}", code=code, hint='pass {"name": table}')
        return [Listed(str(name), table, keys_of(named, keys)) for name, table in tables.items()]
    if "model" in named:
        return [Listed(None, tables, keys_of(named, keys))]
    return [Listed("model", tables, keys_of(named, keys), is_ours=True)]


def unnamed_of(listed: Sequence[Listed]) -> frozenset[str]:
    """The names that a column of a table may replace."""
    return frozenset(each.model for each in listed if each.model is not None and each.is_ours)


def columns_of(columns: TableColumns, table: str) -> Columns:
    """The columns of one table, named for it alone, `{"truth": {...}}`, or for all tables.

    Raises:
        RequestError: a name stands for nothing [unknown-key].
    """
    if columns and all(isinstance(each, Mapping) for each in columns.values()):
        _check_tables(columns, "columns")
        return our_columns(cast(Columns, columns.get(table)), TABLES[table])
    known = list(dict.fromkeys(name for names in TABLES.values() for name in names))
    return keys_of(our_columns(cast(Columns, columns), known), TABLES[table])


def _check_tables(of: Mapping[str, object], argument: str) -> None:
    for table in of:
        if table not in TABLES:
            message = f"no table is called {table!r} here"
            hint = f"the keys are {', '.join(TABLES)}"
            raise RequestError(message, code="unknown-key", at=argument, hint=hint)


def add_floors(tree: dict[str, object], **floors: float | None) -> None:
    """Writes what numbers of the truth must reach into its section, where they are given."""
    given = {key: floor for key, floor in floors.items() if floor is not None}
    if given:
        tree["truth"] = {**cast("dict[str, object]", tree.get("truth", {})), **given}


def say_of_tables(tree: dict[str, object], said: Mapping[str, Mapping[str, str] | None]) -> None:
    """Writes `where` and `format` into the sections of their tables.

    Raises:
        RequestError: there is no such table [unknown-key], or no file [conflicting-keys].
    """
    for key, of in said.items():
        _check_tables(of or {}, key)
        for table, value in (of or {}).items():
            if table not in tree:
                message = f"{key} speaks of {table}, which is not given"
                hint = f"pass {table}=, or leave it out of {key}"
                raise RequestError(message, code="missing-key", at=key, hint=hint)
            found = tree[table]
            for section in found if isinstance(found, list) else [found]:
                own = cast("dict[str, object]", section)
                own[key] = value
                if own.get("path") == [MEMORY]:
                    sources.refuse_of_files({key: value}, table)


@dataclass(frozen=True, slots=True)
class GivenFrames:
    """Dicts, lists and matrices as frames; what is a table already stays as it is.

    Args:
        user_ids, item_ids: of the rows and columns of matrices.
        depth: how far matrices of scores are read.
        keeps_users: users of the truth who were given without any item are in it.
    """

    user_ids: sources.Ids
    item_ids: sources.Ids
    depth: int | None
    keeps_users: bool = False

    def table(self, table: object, role: str) -> object:
        if table is None or is_path(table):
            return table
        ids = {"users": self.user_ids, "items": self.item_ids}
        found = sources.frame_of(table, role, depth=self.depth, **ids)
        if found is None:
            return table
        if role == "truth" and self.keeps_users:
            found = sources.with_all_users(found, table, self.user_ids)
        at = sources.describe_given(table, role)
        if hasattr(table, "shape") and any(each is None for each in ids.values()):
            at = f"{at[:-1]}; user_ids= and item_ids= name its rows and columns)"
        return sources.Named(found, at, shape=self._shape_of(table))

    def _shape_of(self, table: object) -> sources.Shape:
        """Rows and columns of a matrix, or how many lists, where their numbers are ids."""
        if sources.are_lists(table):
            return (len(cast("list[object]", table)) if self.user_ids is None else None, None)
        shape = getattr(table, "shape", ())
        if len(shape) != 2:
            return (None, None)
        ids = (self.user_ids, self.item_ids)
        rows, columns = (int(n) if own is None else None for n, own in zip(shape, ids, strict=True))
        return (rows, columns)

    def rankings(self, rankings: object, truth: object) -> object:
        users = range(len(truth)) if isinstance(truth, list) else truth
        known = users if isinstance(users, Mapping | range) else ()
        is_table = not isinstance(rankings, Mapping) or sources.columns_in(rankings) is not None
        is_table = is_table or sources.is_one_ranking(cast("Mapping[Any, object]", rankings), known)
        own = [rankings] if is_table else list(cast("Mapping[str, object]", rankings).values())
        own = [each["path"] if _has_earlier(each) else each for each in own]  # type: ignore[index]
        sources.check_pairing(truth, own, self.user_ids, self.item_ids)
        if isinstance(rankings, Mapping) and not is_table:
            return {
                name: self.table(each["path"] if _has_earlier(each) else each, "rankings")
                for name, each in rankings.items()
            }
        return self.table(rankings, "rankings")

    def listed(self, rankings: object, truth: object, named: Columns) -> list[Listed]:
        """Rankings by model, with the lists before that stand beside them."""
        tables, keys = self.rankings(rankings, truth), TABLES["rankings"]
        found = listed_of(tables, keys, named, what="rankings")
        if not isinstance(rankings, Mapping) or not isinstance(tables, Mapping):
            return found
        earlier = {
            str(name): [self.table(each, "earlier") for each in own["earlier"]]
            for name, own in rankings.items()
            if _has_earlier(own)
        }
        return [replace(each, earlier=earlier.get(str(each.model), ())) for each in found]


def counts_users_of_nothing(
    metrics: Sequence[str | OwnMetric],
    profile: str,
    policies: Mapping[str, str | float] | None,
    threshold: float | None,
) -> bool:
    """Whether users without a relevant item may count, for all that is known before."""
    says = "no_relevant" in (policies or {}) or any("no_relevant" in str(each) for each in metrics)
    return (profile != "evalkit" or says) and (threshold is None or threshold > 0)


def depth_of(
    metrics: Sequence[str | OwnMetric], profile: str, policies: Mapping[str, str | float] | None
) -> int | None:
    """How deep a matrix of scores is read: to the deepest cutoff, or all of it, None.

    What lies below the cutoffs is left alone where no metric, profile or policy may look there.
    """
    if profile != "evalkit" or policies:
        return None
    try:
        requests = parse_metrics([each for each in metrics if isinstance(each, str)])
    except EvalkitError:
        return None
    cutoffs = [each.cutoff for each in requests if each.cutoff is not None]
    is_plain = all(each.metric.name in _FROM_THE_TOP and not each.given for each in requests)
    return max(cutoffs) if is_plain and cutoffs and len(cutoffs) == len(metrics) else None


def metrics_section(
    metrics: Sequence[str | OwnMetric],
    primary: str | Sequence[str],
    profile: str,
    combined: Mapping[str, str] | None = None,
    files: MetricFiles = (),
) -> dict[str, object]:
    """`[metrics]` of a config.

    Raises:
        RequestError: as `name_metrics`.
    """
    names, own = name_metrics(metrics)
    leads = primary if isinstance(primary, str) else list(primary)
    tree: dict[str, object] = {"names": names, "primary": leads, "profile": profile}
    given = [files] if isinstance(files, (str, os.PathLike)) else files
    if own or given:
        tree["files"] = [*(os.fspath(file) for file in given), *own]
    if combined:
        tree["combined"] = dict(combined)
    return tree
