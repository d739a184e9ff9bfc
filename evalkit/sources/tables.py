"""Opens the tables of a config: truth, rankings, training log, joined log."""

# Long: a function for each kind of table.

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Protocol, TypeAlias, TypeVar

import polars as pl

from evalkit import config
from evalkit.errors import DataError, masked
from evalkit.sources import guess
from evalkit.sources._by_rows import by_rows
from evalkit.sources._source import Bare, Located, Source, open_source, versioned
from evalkit.sources.columns import (
    ORDER,
    ColumnPlan,
    Wanted,
    check_columns,
    plan_columns,
    put_in_order,
    typed_plan,
)
from evalkit.sources.delimited import Use, has_spaces
from evalkit.sources.failures import mapped
from evalkit.sources.guess import ChosenColumns, Columns, Guessing
from evalkit.sources.records import unpack_records
from evalkit.sources.row_order import RowScore, find_row_scores
from evalkit.sources.splits import Splitter, find_splitters
from evalkit.sources.suggestions import time_of_text
from evalkit.sources.table import Stored, Table, reading
from evalkit.sources.times import newest_second, with_times
from evalkit.sources.trec import Kind

_TEXT = (pl.String, pl.Categorical, pl.Enum)


def open_truth(
    table: config.TruthTable,
    given: object | None = None,
    guessing: Guessing = guess.BY_CONFIG,
    *,
    keys: Sequence[str] | None = None,
) -> Table:
    """The held-out interactions, lazily; `given` stands in for the paths.

    Args:
        keys: our names that are looked for where nobody wrote columns, as `time`.
    Raises:
        DataError: what `read_schema` and `choose_columns` raise, and missing-column, bad-sql,
            schema-differs, float-id, not-a-number, bad-type.
    """
    source = open_source("truth", table, given, guessing, kind="qrels")
    chosen = _choose("truth", table, source, guessing, keys)
    if source.is_trec:
        chosen = chosen.with_defaults(relevance="relevance")
    return _open("truth", source, chosen, table.where)


def open_rankings(
    table: config.RankingsTable, given: object | None = None, guessing: Guessing = guess.BY_CONFIG
) -> Table:
    """The rankings, lazily; raises as `open_truth` does. TREC runs are ordered by their score."""
    source = open_source("rankings", table, given, guessing, kind="run")
    chosen = _choose("rankings", table, source, guessing)
    if source.is_trec and "rank" not in chosen.columns:
        chosen = chosen.with_defaults(score="score")
    return by_rows(
        _open("rankings", source, chosen, table.where, model=table.model), table, guessing
    )


def open_train(
    table: config.TrainTable | config.UsersTable,
    given: object | None = None,
    guessing: Guessing = guess.BY_CONFIG,
    *,
    keys: Sequence[str] | None = None,
    role: str = "train",
) -> Table:
    """What the models had seen, lazily; raises as `open_truth` does.

    Args:
        keys: our names that are looked for where nobody wrote columns, as `time`.
        role: what messages call it; `users` where only these are read.
    """
    source = open_source(role, table, given, guessing, kind="qrels")
    return _open(role, source, _choose(role, table, source, guessing, keys), table.where)


def open_items(
    table: config.ItemsTable,
    given: object | None = None,
    guessing: Guessing = guess.BY_CONFIG,
    *,
    keys: Sequence[str] = (),
    groups: Sequence[str] = (),
) -> Table:
    """All items, lazily: `item`, `genres`, `vector_0`, ..., `published`, `group_0`, ...

    Args:
        keys: which of genres, vector and published are looked for where nobody named them.
        groups: further columns, or SQL expressions. Raises as `open_truth` does.
    """
    source = open_source("items", table, given, guessing, kind="qrels")
    chosen = _choose("items", table, source, guessing, ("item", *keys))
    named = [Wanted("by", f"group_{place}", text) for place, text in enumerate(groups)]
    return _open("items", source, chosen, table.where, named)


def open_split(
    table: config.SplitSection, given: object | None = None, guessing: Guessing = guess.BY_CONFIG
) -> tuple[Table, pl.LazyFrame]:
    """A log to be cut, lazily, and the same rows with all their own columns.

    Columns `user_0`, ..., `item`, and as present `time`, `relevance`; raises as `open_truth` does.
    """
    located = Bare(table.path or (), table.format, table.header, table.files)
    source = open_source("split", located, given, guessing, kind="qrels")
    chosen = _choose("split", table, source, guessing)
    opened = _open("split", source, chosen, table.where)
    uses: dict[str, Use] = {
        **dict.fromkeys(source.names, "any"),
        **{  # as they are read there, also from text files
            name: "number" if dtype.is_float() else "id"
            for name, dtype in opened.used.items()
            if dtype != pl.Boolean
        },
    }
    whole = source.frame(uses).select(source.names)
    if table.where is not None:
        plan = plan_columns("split", [], table.where, source.names, at=source.at)
        plan = typed_plan(plan, whole.collect_schema())
        assert plan.where is not None
        whole = whole.filter(plan.where)
    return opened, whole


def open_values(
    name: str,
    table: config.Segmentation,
    bys: Sequence[str],
    user: Sequence[str],
    given: object | None = None,
) -> Table:
    """Values of users, or of items, lazily: ids and `value_0`, `value_1`, ...

    Args:
        name: of the first segmentation that reads the table, for messages.
        table: its path and id columns.
        bys: for each value a column or SQL expression.
        user: the user columns of the truth, unless the table has its own.
        given: a table in memory, in place of the path.
    """
    assert table.path is not None
    bare = Bare(table.path, table.format, table.header, table.files)
    source = open_source("segments", bare, given, guess.BY_CONFIG, kind="qrels")
    values = [Wanted("by", f"value_{place}", text) for place, text in enumerate(bys)]
    chosen = ChosenColumns({"item": table.item} if table.item is not None else {})
    if table.item is None:
        lacking = [each for each in user if each.isidentifier() and each not in source.names]
        if table.user is None and len(user) > 1 and lacking:
            raise DataError(
                f"segments.{name} lacks {lacking!r} of the truth's user columns {list(user)!r}",
                code="missing-column",
                at=source.at,
                hint=f"join {', '.join(lacking)} to the table, or name fewer user columns for "
                "the truth and the rankings",
            )
        chosen = guess.choose_users(table.user, user, source.names)
    opened = _open("segments", source, chosen, table.where, values)
    return replace(opened, role=f"segments.{name}")


class AnyLocated(Located, Protocol):
    """Where a table is, or what stands in for it."""

    @property
    def given(self) -> object | None: ...


def open_columns(
    role: str,
    table: AnyLocated,
    columns: Mapping[str, str],
    guessing: Guessing = guess.BY_CONFIG,
    *,
    guessed: Sequence[str] = (),
    optional: Sequence[str] = (),
) -> Table:
    """A table with columns of any names, lazily: our name -> the table's, or SQL.

    Args:
        guessed: names that are looked for where `columns` lack them; `optional` may be missing.
    Raises:
        DataError: as `open_truth`; no column looks like one that is needed [missing-column].
    """
    source = open_source(role, table, table.given, guessing, kind="qrels")
    found = {key: guess.best_guess(key, source.names) for key in guessed if key not in columns}
    lacking = [key for key, name in found.items() if name is None and key not in optional]
    if lacking:
        spelled = ", ".join(f'{key} = "..."' for key in lacking)
        spelled = f"columns = {{ {spelled} }}"
        if guessing.entry_point == "options":
            spelled = " ".join(f"--set {role}.columns.{key}=COLUMN" for key in lacking)
        message = f"{role} has no column that looks like {' or '.join(map(repr, lacking))}"
        hint = f"name it, {spelled}; it has {guess.some_names(source.names)}"
        raise DataError(message, code="missing-column", at=source.at, hint=hint)
    named = {**columns, **{key: name for key, name in found.items() if name is not None}}
    if named.get("time") in source.names and (sql := time_of_text(source, named["time"])):
        named["time"] = sql
    wanted = [Wanted(key, key, text, "any") for key, text in named.items()]
    opened = _open(role, source, ChosenColumns({}), table.where, wanted)
    of_names = tuple(key for key, name in found.items() if name is not None)
    return replace(opened, chosen=ChosenColumns(named, of_names))


OwnTable: TypeAlias = config.TruthTable | config.LogTable | config.RatingsTable | config.LabelsTable


def open_own_values(table: OwnTable, bys: Sequence[str], given: object) -> Table:
    """Values of users that stand in the truth, or in rows: user columns and `value_0`, ...

    Args:
        table: with the columns that are read, as `settle` writes them.
    """
    kind: Kind = "run" if isinstance(table, config.LogTable) else "qrels"
    role = _OWN_ROLES.get(type(table), "truth")
    source = open_source(role, table, given, guess.BY_CONFIG, kind=kind)
    values = [Wanted("by", f"value_{place}", text) for place, text in enumerate(bys)]
    return _open(role, source, ChosenColumns({"user": table.columns.user}), table.where, values)


_OWN_ROLES = {config.RatingsTable: "ratings", config.LabelsTable: "labels"}


def open_log(
    table: config.LogTable,
    given: object | None = None,
    guessing: Guessing = guess.BY_CONFIG,
    *,
    keys: Sequence[str] | None = None,
) -> tuple[Table, Table]:
    """A joined log as truth and rankings over the same rows; raises as `open_truth` does.

    Rows whose label says that they are not relevant stay in the truth, as judged.
    """
    source = open_source("log", table, given, guessing, kind="run")
    both = _open("log", source, _choose("log", table, source, guessing, keys), table.where)
    both = by_rows(both, table, guessing)
    names = list(both.frame.collect_schema())
    order = [name for name in names if name not in ("rank", "score", "model")]
    truth = both.frame.select(order)
    rankings = both.frame.select([name for name in names if name not in ("relevance", "time")])
    return (
        replace(both, role="truth", frame=truth),
        replace(both, role="rankings", frame=rankings, model=table.model),
    )


def open_ratings(
    table: config.RatingsTable,
    given: object | None = None,
    guessing: Guessing = guess.BY_CONFIG,
    *,
    alone: bool,
) -> Table:
    """True ratings, lazily; `alone` where no table of predictions is to be joined.

    Columns `user_0`, ..., `rating` and, alone, `prediction`; `item` where it is read. Raises as
    `open_truth` does.
    """
    source = open_source("ratings", table, given, guessing, kind="qrels")
    if alone:
        chosen = _choose("ratings", table, source, guessing).with_defaults(prediction="prediction")
    else:
        keys = ("user", "item", "rating")
        chosen = _choose("ratings", table, source, guessing, keys).with_defaults(item="item")
    return _open("ratings", source, chosen, table.where, model=table.model)


def open_predictions(
    table: config.PredictionsTable,
    given: object | None = None,
    guessing: Guessing = guess.BY_CONFIG,
) -> Table:
    """Predicted ratings, lazily; raises as `open_truth` does."""
    source = open_source("predictions", table, given, guessing, kind="qrels")
    chosen = _choose("predictions", table, source, guessing)
    return _open("predictions", source, chosen, table.where, model=table.model)


def open_labels(
    table: config.LabelsTable, given: object | None = None, guessing: Guessing = guess.BY_CONFIG
) -> Table:
    """Scored rows with labels, lazily; raises as `open_truth` does."""
    source = open_source("labels", table, given, guessing, kind="qrels")
    chosen = _choose("labels", table, source, guessing)
    opened = _open("labels", source, chosen, table.where, model=table.model)
    if "time" not in chosen.columns:
        return opened
    if table.session_every is not None and opened.frame.collect_schema()["time"].is_integer():
        with reading(opened):
            newest_second(opened.frame, chosen.columns["time"], opened.at)
    return replace(opened, frame=with_times(opened.frame, table.session_every))


def open_section(
    role: str,
    table: config.KindTable,
    given: object | None = None,
    guessing: Guessing = guess.BY_CONFIG,
    *,
    numbers: Sequence[str] = (),
    anything: Sequence[str] = (),
) -> Table:
    """A table of a kind's own section, lazily; raises as `open_truth` does.

    Columns `user_0`, ... where it has users, and the others that its record names, as they are
    called there; those that must be given are looked for where nobody wrote them.

    Args:
        role: the section.
        numbers: columns that are numbers.
        anything: columns of any type; others are ids.
    """
    source = open_source(role, table, given, guessing, kind="qrels")
    own = type(table.columns).model_fields
    keys = [name for name, each in own.items() if each.default not in (None, ())]
    chosen = _choose(role, table, source, guessing, keys)
    uses: dict[str, Use] = {
        name: "number" if name in numbers else "any" if name in anything else "id" for name in own
    }
    wanted: list[Wanted] = []
    for name, texts in chosen.columns.items():
        if name in _OUTPUTS:
            continue
        if isinstance(texts, str) and own[name].default != ():
            wanted.append(Wanted(name, name, texts, uses[name]))
        else:  # a list of columns
            numbered = enumerate([texts] if isinstance(texts, str) else texts)
            wanted += [
                Wanted(name, f"{name}_{place}", text, uses[name]) for place, text in numbered
            ]
    return _open(role, source, chosen, table.where, wanted, model=getattr(table, "model", None))


Rows: TypeAlias = config.FormKeys | config.SplitSection
AnyTable = TypeVar("AnyTable", bound=config.FormKeys)


def settle(table: AnyTable, opened: Table) -> AnyTable:
    """The table with the columns that it is read by, where some of them were guessed."""
    if not opened.guessed:
        return table
    columns = type(table.columns).model_validate(dict(opened.columns))
    update: dict[str, object] = {"columns": columns}
    if "model" in opened.columns:
        update["model"] = None
    return table.model_copy(update=update)


def _choose(
    role: str, table: Rows, source: Source, guessing: Guessing, keys: Sequence[str] | None = None
) -> ChosenColumns:
    is_written = guessing.entry_point != "file" or "columns" in table.model_fields_set
    model = getattr(table, "model", None)
    if getattr(table, "ranked_by", None) == "rows":
        keys = [key for key in keys or guess.ROLE_KEYS[role] if key not in ("rank", "score")]
    chosen = guess.choose_columns(
        role,
        table.columns if is_written else None,
        source.names,
        guessing,
        keys=keys,
        has_model=model is not None and model not in guessing.unnamed,
        at=source.at,
    )
    if "time" in chosen.guessed and (sql := time_of_text(source, str(chosen.columns["time"]))):
        chosen = replace(chosen, columns={**chosen.columns, "time": sql})
    return chosen


def _groups(name: str, texts: Sequence[str]) -> list[Wanted]:
    return [Wanted(name, f"{name}_{place}", text) for place, text in enumerate(texts)]


_OUTPUTS = (  # in the order in which they stand in a frame
    *("user", "session", "item", "genres", "vector", "published"),
    *("time", "relevance", "rating", "prediction"),
    *("rank", "score", "label", "weight", "propensity", "model", ORDER),
)


def _wanted(role: str, columns: Columns) -> list[Wanted]:
    wanted = []
    for key in _OUTPUTS:
        texts = columns.get(key)
        if key in ("user", "session", "vector") and texts is not None:
            wanted += _groups(key, (texts,) if isinstance(texts, str) else texts)
        elif isinstance(texts, str):
            wanted.append(Wanted(key, "relevance" if (role, key) == _LABEL else key, texts))
    return wanted


_LABEL = ("log", "label")


def _open(
    role: str,
    source: Source,
    chosen: ChosenColumns,
    where: str | None,
    values: Sequence[Wanted] = (),
    *,
    model: str | None = None,
) -> Table:
    wanted = [*_wanted(role, chosen.columns), *values]
    plan = plan_columns(role, wanted, where, source.names, at=source.at)
    frame = source.frame(plan.uses)
    with mapped(source.at, lambda error: None):
        schema = frame.collect_schema()
    plan = unpack_records(typed_plan(plan, schema), schema)
    is_list = check_columns(plan, schema)
    applied = plan.apply(frame)
    settled = _settle(plan, applied)
    return Table(
        role=role,
        frame=settled,
        user_names=tuple(each.text for each in wanted if each.key == "user"),
        users=tuple(
            expression
            for each, expression in zip(plan.wanted, plan.expressions, strict=True)
            if each.key in ("user", "unit")
        ),
        at=source.at,
        is_list=is_list,
        paths=tuple(map(masked, versioned(source))),
        files=tuple(file.path for file in source.files),
        chosen=chosen,
        model=model,
        seems=source.seems,
        shape=source.shape,
        left_out=source.left_out,
        is_spaced=any(map(has_spaces, source.files)),
        _parts=source.files,
        _version=source.version,
        _kind=source.scan.kind if source.scan is not None else "qrels",
        _n_rows=source.n_rows,
        used={name: schema[name] for name in plan.uses},
        _is_whole=plan.where is None and ORDER not in chosen.columns,
        _stored=Stored(settled, frame, plan.stored() if settled is applied else {}),
        splitters=_splitters(source, plan),
        look_at_scores=_score_looker(role, source, plan, chosen, is_list=is_list),
    )


def _score_looker(
    role: str, source: Source, plan: ColumnPlan, chosen: ChosenColumns, *, is_list: bool
) -> Callable[[], tuple[RowScore, ...]] | None:
    """What looks at columns that may be scores, where none orders the rows."""
    if role not in ("rankings", "log") or {"rank", "score", ORDER} & set(chosen.columns):
        return None
    used = [root for each in plan.expressions for root in each.meta.root_names()]
    open_column = _opener(source, plan)
    return lambda: find_row_scores(
        source.schema(), used, source.files, is_list=is_list, open_column=open_column
    )


def _opener(source: Source, plan: ColumnPlan) -> Callable[[str], pl.LazyFrame]:
    """What opens another column, `value`, beside those of users and models."""
    lists = [
        (each, expression)
        for each, expression in zip(plan.wanted, plan.expressions, strict=True)
        if each.key in ("user", "model")
    ]
    needed = [expression for _, expression in lists] + ([] if plan.where is None else [plan.where])
    roots = {root for expression in needed for root in expression.meta.root_names()}

    def open_column(name: str) -> pl.LazyFrame:
        uses: dict[str, Use] = {root: plan.uses[root] for root in sorted(roots)}
        uses.setdefault(name, "any")
        frame = source.having(name).frame(uses)
        if plan.where is not None:
            frame = frame.filter(plan.where)
        own = [expression.alias(each.output) for each, expression in lists]
        return frame.select(*own, pl.col(name).alias("value"))

    return open_column


def _splitters(source: Source, plan: ColumnPlan) -> tuple[Splitter, ...]:
    """Columns that may say which rows are train, valid and test; no row is read."""
    opened = _opener(source, plan)

    def open_column(name: str) -> pl.LazyFrame:
        return opened(name).with_columns(pl.col("value").cast(pl.String)).rename({"value": "split"})

    used = [root for each in plan.expressions for root in each.meta.root_names()]
    return find_splitters(source.schema(), used, plan.where_text, open_column)


def _settle(plan: ColumnPlan, frame: pl.LazyFrame) -> pl.LazyFrame:
    """Model names as text, lists as lists, rows in their order."""
    schema = frame.collect_schema()
    casts = []
    for name, dtype in schema.items():
        if isinstance(dtype, pl.Array):
            casts.append(pl.col(name).cast(pl.List(dtype.inner)))
        elif name == "model" and dtype.base_type() not in _TEXT:
            casts.append(pl.col(name).cast(pl.String))
    frame = frame.with_columns(casts) if casts else frame
    return put_in_order(frame) if ORDER in schema else frame
