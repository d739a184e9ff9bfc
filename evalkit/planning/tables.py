"""What a run will read, opened and checked: tables, the common keys of their ids, passes."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import polars as pl

from evalkit.aggregate.segments import SegmentTable, open_segments
from evalkit.aggregate.user_values.checks import by_relevance_rules, order_of
from evalkit.config import (
    Config,
    LogTable,
    RankingsTable,
    Segmentation,
    TruthColumns,
    TruthTable,
    check_files,
    read_split,
    refuse_layout,
    speaking,
)
from evalkit.config.credentials import storing
from evalkit.errors import DataError, EvalkitError, RequestError, noting, raise_all
from evalkit.planning._needs import columns_needed, groups_needed, lacking, naming_metrics
from evalkit.planning.meeting import listed_hint, with_guessed
from evalkit.sources import (
    ROLE_KEYS,
    Guessing,
    Table,
    open_items,
    open_log,
    open_rankings,
    open_train,
    open_truth,
    reading,
    settle,
    verifying,
)
from evalkit.sources.ids import IdPlan, plan_ids


@dataclass(frozen=True, slots=True)
class Given:
    """Tables that are in memory already, in place of the config's paths.

    Args:
        earlier: lists before, by the places of their rankings and of their path.
        unnamed: models whose names a column gives instead, where a table has one.
        is_share: the tables hold all rows of one share of the users, and no others.
        counts: `item`, and what its `rows` count in all of train, where there is a share of it; by
            the place of the baseline that is made of them.
        beside: those of rankings, where a log of another kind is what the others are.
    """

    truth: object | None = None
    rankings: Sequence[object | None] = ()
    train: object | None = None
    segments: Mapping[str, object] = field(default_factory=dict)
    weight: object | None = None
    unnamed: frozenset[str] = frozenset()
    items: object | None = None
    users: object | None = None
    reference: object | None = None
    earlier: Mapping[tuple[int, int], object] = field(default_factory=dict)
    is_share: bool = False
    counts: Mapping[int, pl.DataFrame] = field(default_factory=dict)
    beside: "Given | None" = None

    def guessing(self, config: Config) -> Guessing:
        """How columns are found that nobody named."""
        order, because = order_of(config)
        own = config.profile.score_column
        return Guessing(config.entry_point, order, because, self.unnamed, own_score=own)


@dataclass(frozen=True, slots=True)
class Tables:
    """Every log of a run, opened but not read.

    Args:
        config: with the columns that are read, where some of them were guessed.
        truth: without a row, where the config has none.
        items: `item` and, as named or needed, `genres`, `vector_0`, ..., `published`, `group_0`,
            ...: the columns that `groups` names.
        users: who should have got a list.
        reference: lists that others are held against, where they are no model's of the run.
        earlier: the lists before, beside `rankings`, oldest first.
    """

    config: Config
    truth: Table
    threshold: float | None
    rankings: Sequence[tuple[str | None, Table]]
    train: Table | None
    segments: Sequence[SegmentTable] = ()
    weight: SegmentTable | None = None
    cluster: SegmentTable | None = None
    items: Table | None = None
    groups: Sequence[str] = ()
    users: Table | None = None
    reference: Table | None = None
    earlier: Sequence[Sequence[Table]] = ()

    @property
    def logs(self) -> list[Table]:
        """Truth, rankings, training log."""
        truth = [] if self.config.is_truthless else [self.truth]
        rest = [] if self.train is None else [self.train]
        return [*truth, *(table for _, table in self.rankings), *rest]

    @property
    def context_tables(self) -> list[Table]:
        """What metrics of lists are given: items, users, other lists."""
        alone = [each for each in (self.items, self.users, self.reference) if each is not None]
        return [*alone, *(table for tables in self.earlier for table in tables)]

    @property
    def segment_tables(self) -> list[Table]:
        """The tables of users and of items that segments are read from."""
        sources = [*self.segments, self.weight] if self.weight is not None else self.segments
        tables = [each.table for each in sources if each.table is not None]
        return [table for table in tables if table.role != "truth"]

    @property
    def all(self) -> list[Table]:
        """Every table with rows of its own."""
        return [*self.logs, *self.context_tables, *self.segment_tables]


@contextmanager
def reading_as(config: Config) -> Iterator[None]:
    """A context in which tables are read, and errors told, as a config says."""
    with speaking(config.entry_point), storing(config.storage), verifying(config.verify_pages):
        yield


def open_tables(config: Config, given: Given) -> Tables:
    """Open every log; all that is wrong with any of them at once."""
    refuse_layout(config)
    if config.selection is not None and config.log is None and not config.rankings:
        raise RequestError(
            "there are no rankings to measure, but a table of trials",
            code="missing-key",
            at=config.at("selection", "trials"),
            hint="evalkit select CONFIG measures them",
        )
    with reading_as(config):
        return _open_tables(config, given)


def _open_tables(config: Config, given: Given) -> Tables:
    problems: list[EvalkitError] = []
    guessing = given.guessing(config)
    _check_parts(config)
    opened = _open_logs(config, given, guessing, problems)
    config = settle_columns(config, opened)
    ratios: dict[str, SegmentTable] = {}
    interactions = config.log or config.truth or _no_truth(config)
    if not opened["truth"]:  # what is wrong with it is told, and no more
        raise_all(problems)
    if opened["truth"][0].chosen.looks_otherwise and problems:
        if all(each.code == "row-order" for each in problems):  # their "scores" are relevances
            _check_order(opened["truth"][0], opened["rankings"])
    problems += lacking(config, opened)
    own = [(interactions, given.truth)]
    has_own = not config.is_truthless
    named = {
        name: rule
        for name, rule in config.segments.named.items()
        if has_own or rule.path is not None
    }
    segments = open_segments(named, own, given.segments, problems)
    statistics = config.statistics
    rules = {"weight": statistics.weight}
    if statistics.cluster is not None:
        rules["cluster"] = Segmentation(by=statistics.cluster)
    for name, rule in rules.items():
        if rule is not None and (has_own or rule.path is not None):
            held = {name: given.weight} if name == "weight" and given.weight is not None else {}
            for table in open_segments({name: rule}, own, held, problems):
                ratios[name] = table
    raise_all(problems)
    (truth,) = opened["truth"]
    if config.judges_age and "time" not in truth.columns:
        section = "truth" if config.log is None else "log"
        raise DataError(
            "a gate judges the age of the truth, which has no time",
            code="missing-column",
            at=truth.at,
            hint=f'time = "{truth.chosen.unread.get("time", "timestamp")}" under '
            f"[{section}.columns]",
        )
    _check_order(truth, opened["rankings"])
    _check_shapes(truth, opened["rankings"])
    models = [log.model for log in config.rankings] if config.log is None else [config.log.model]
    truth, threshold = by_relevance_rules(truth, interactions.threshold, config.policies)
    return Tables(
        config,
        truth,
        threshold,
        list(zip(models, opened["rankings"], strict=True)),
        next(iter(opened["train"]), None),
        segments,
        ratios.get("weight"),
        ratios.get("cluster"),
        next(iter(opened["items"]), None),
        [*groups_needed(config.requests)],
        next(iter(opened["users"]), None),
        next(iter(opened["reference"]), None),
        [opened[f"earlier of {place}"] for place in range(len(config.rankings))],
    )


def _check_order(truth: Table, rankings: Sequence[Table]) -> None:
    """Refuse a truth with ranks beside rankings with relevance, where nobody named columns."""
    if truth.chosen.looks_otherwise and all(each.chosen.looks_otherwise for each in rankings):
        message = "the truth has ranks and the rankings have relevance: they look swapped"
        hint = "give the truth first, or name the columns of user and item"
        raise DataError(message, code="swapped-tables", at=truth.at, hint=hint)


def _check_shapes(truth: Table, rankings: Sequence[Table]) -> None:
    """Refuse a matrix, or lists, without ids beside ids that are no numbers of its rows or columns.

    Raises:
        DataError: ids of the truth are outside of it, or those of either begin at 1 [bad-matrix].
    """
    for table in rankings:
        for place in (0, 1):
            _check_ids(truth, table, place, whole=True)
            _check_ids(table, truth, place, whole=False)


def _check_ids(table: Table, matrix: Table, place: int, *, whole: bool) -> None:
    """`whole`: every id must be a number of the matrix."""
    column, what, rows = (("user_0", "user", "rows"), ("item", "item", "columns"))[place]
    size, dtype = matrix.shape[place], table.frame.collect_schema().get(column)
    if size is None or table.shape[place] is not None or dtype is None or not dtype.is_integer():
        return
    ends = table.frame.select(pl.col(column).min().alias("low"), pl.col(column).max().alias("high"))
    with reading(table):
        low, high = ends.collect(engine="streaming").row(0)
    begins_at_one = low is not None and low >= 1 and high == size
    is_outside = low is not None and (low < 0 or high >= size)
    if not (begins_at_one or (whole and is_outside)):
        return
    hint = f"pass {what}_ids=..., one id for each of the {rows}"
    if begins_at_one:
        hint = f"pass {what}_ids=range(1, {size + 1}), if the {rows} are {what}s 1 to {size:,}"
    raise DataError(
        f"{matrix.role} has {size:,} {rows}, numbered from 0 to {size - 1:,}, and the {what}s of "
        f"{table.role} are {low:,} to {high:,}",
        code="bad-matrix",
        at=matrix.at,
        hint=hint,
    )


def _check_parts(config: Config) -> None:
    """Refuse parts of a split that are not as they were written."""
    for table in (config.truth, config.train):
        if table is not None and table.split is not None:
            check_files(Path(table.split), read_split(table.split), table.path)


def _open_logs(
    config: Config, given: Given, guessing: Guessing, problems: list[EvalkitError]
) -> dict[str, list[Table]]:
    """The tables of each section, of which those are missing that something is wrong with."""
    sections = ("truth", "rankings", "train", "items", "users", "reference")
    opened: dict[str, list[Table]] = {name: [] for name in sections}

    def attempt(section: str, action: Callable[[Guessing], Table], kept: str = "") -> None:
        with noting(problems):
            table = action(replace(guessing, section=section))
            opened.setdefault(kept or section.partition("[")[0], []).append(table)

    if config.log is not None:
        with noting(problems):
            section = replace(guessing, section="log")
            both = open_log(config.log, given.truth, section, keys=_with_time(config, "log"))
            opened |= {"truth": [both[0]], "rankings": [both[1]]}
    else:
        if config.truth is not None:
            keys = _with_time(config, "truth")
            attempt("truth", partial(open_truth, config.truth, given.truth, keys=keys))
        for place, table in enumerate(config.rankings):
            held = given.rankings[place] if place < len(given.rankings) else None
            if table.builtin is None:
                attempt(f"rankings[{place}]", partial(open_rankings, table, held))
            opened[f"earlier of {place}"] = []
            for number, path in enumerate(table.earlier):
                held = given.earlier.get((place, number))
                before = partial(_open_lists, "earlier", table, path, held)
                attempt(f"rankings[{place}]", before, f"earlier of {place}")
    if config.is_truthless and opened["rankings"]:
        opened["truth"] = [_empty_truth(opened["rankings"][0])]
    if config.train is not None:
        keys = None
        if any(each.builtin for each in config.rankings):
            from evalkit.item_lists.baselines import needs_time  # most runs need none

            keys = ("user", "item", "time") if any(map(needs_time, config.rankings)) else None
        attempt("train", partial(open_train, config.train, given.train, keys=keys))
    if opened["truth"] and opened["train"] and any(each.builtin for each in config.rankings):
        from evalkit.item_lists.baselines import make_rankings

        null_ids = config.policies.null_ids
        for place, table in enumerate(config.rankings):
            if table.builtin is not None:
                with noting(problems):
                    both = opened["train"][0], opened["truth"][0]
                    counts = given.counts.get(place)
                    made = make_rankings(table, *both, null_ids=null_ids, counts=counts)
                    opened["rankings"].insert(place, made)
    reference = config.metrics.reference
    if reference is not None and not config.reference_is_model:
        like = config.rankings[0] if config.log is None else config.log
        action = partial(_open_lists, "reference", _one_model(like), reference, given.reference)
        attempt("rankings[0]" if config.log is None else "log", action, "reference")
    if config.users is not None:
        attempt("users", partial(open_train, config.users, given.users, role="users"))
    if config.items is not None:
        needed, groups = columns_needed(config.requests), groups_needed(config.requests)
        opening = partial(open_items, config.items, given.items, keys=needed, groups=[*groups])
        with naming_metrics(groups, problems):
            attempt("items", opening)
    return opened


def _with_time(config: Config, role: str) -> tuple[str, ...] | None:
    """What columns are looked for where a gate judges the age of the truth."""
    return (*ROLE_KEYS[role], "time") if config.judges_age else None


def _one_model(table: RankingsTable | LogTable) -> RankingsTable:
    """How lists of one model are read that are written as a table's lists are."""
    columns = {name: getattr(table.columns, name) for name in table.columns.model_fields_set}
    columns = {name: each for name, each in columns.items() if name not in ("model", "label")}
    written = {"columns": columns} if "columns" in table.model_fields_set else {}
    own = {key: getattr(table, key) for key in ("path", "format", "header", "files", "where")}
    return RankingsTable.model_validate({**own, **written, "model": "reference"})


def _open_lists(
    role: str, like: RankingsTable, path: str, given: object | None, guessing: Guessing
) -> Table:
    """Lists of another model or of another day, read as the rankings of a table are."""
    table = open_rankings(like.model_copy(update={"path": (path,)}), given, guessing)
    return replace(table, role=role)


def _empty_truth(like: Table) -> Table:
    """Right answers of nobody, with ids of the same types."""
    schema = like.frame.collect_schema()
    types = {name: dtype for name, dtype in schema.items() if name.startswith("user_")}
    item = schema["item"]
    types["item"] = item.inner if isinstance(item, pl.List) else item  # type: ignore[assignment]
    return Table("truth", pl.LazyFrame(schema=types), like.user_names, "[truth]")


def _no_truth(config: Config) -> TruthTable:
    """What stands for [truth] in a config without one: the users of the first rankings."""
    columns = TruthColumns(user=config.rankings[0].columns.user)
    return TruthTable(path=(), columns=columns)


def settle_columns(config: Config, opened: Mapping[str, Sequence[Table]]) -> Config:
    """The config with the columns that its tables are read by, where some were guessed.

    Args:
        opened: the tables by section; a section that lacks one stays as it is.
    """
    update: dict[str, object] = {}
    if config.log is not None:
        opened = {**opened, "log": opened["truth"]}
    for section, tables in opened.items():
        written = getattr(config, section, None)
        if written is None or not any(table.guessed for table in tables):
            continue
        if not isinstance(written, tuple):
            update[section] = settle(written, tables[0])
        elif len(written) == len(tables):
            update[section] = tuple(map(settle, written, tables))
    return config.model_copy(update=update) if update else config


def plan_ids_of(tables: Tables, seed: int) -> tuple[IdPlan, IdPlan]:
    """How the users and the items of all tables become keys."""
    sources = [*tables.segments, tables.weight, tables.cluster]
    values = [each.table for each in sources if each is not None and each.table is not None]
    truth = [tables.truth] if tables.config.is_truthless else []
    with_ids = [*truth, *tables.logs, *tables.context_tables, *values]
    described = [(table, table.frame.collect_schema()) for table in with_ids]
    users = [
        (
            table.role,
            table.at,
            {name: dtype for name, dtype in schema.items() if name.startswith("user_")},
        )
        for table, schema in described
        if "user_0" in schema
    ]
    items, lists = [], set()
    for table, schema in described:
        if "item" not in schema:
            continue
        if isinstance(schema["item"], (pl.List, pl.Array)):
            lists.add((table.role, table.at))
        dtype = schema["item"]
        inner = dtype.inner if isinstance(dtype, (pl.List, pl.Array)) else dtype
        items.append((table.role, table.at, {"item": inner}))
    of_users, of_items = (
        {
            (table.role, table.at): column
            for table in with_ids
            if isinstance(column := table.columns.get(key), str)
        }
        for key in ("user", "item")
    )
    try:
        plans = (
            plan_ids("user", users, seed=seed, spelled=of_users),
            plan_ids("item", items, seed=seed, spelled=of_items, lists=lists),  # type: ignore[arg-type]
        )
        return replace(plans[0], by_kernel=True), replace(plans[1], by_kernel=True)
    except DataError as error:
        if error.code in ("id-kind", "bad-id-type"):
            error.hint = _hint_of_kinds(error, tables)
        raise


def _hint_of_kinds(error: DataError, tables: Tables) -> str:
    """How ids of two kinds become one: also where one is a list of them, as text."""
    config, truth = tables.config, tables.truth
    if ".item is " in error.message and not config.is_truthless:
        named = [(f"rankings[{n}]", each) for n, (_, each) in enumerate(tables.rankings)]
        if hint := listed_hint(named, truth, config.entry_point):
            return hint
    first = [each for each in tables.logs if each.at == error.at]  # the table that is told of
    return (
        with_guessed(error.hint, [*first, *tables.logs])
        if config.entry_point == "file"
        else error.hint
    )
