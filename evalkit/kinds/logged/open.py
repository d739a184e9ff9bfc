"""Opens the log and the tables of targets; no row is read."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import polars as pl

from evalkit.config import Config, KindTable, Record, Texts, key
from evalkit.errors import Errors, EvalkitError
from evalkit.kinds.logged.declaration import NUMBERS, OF_TARGETS, LoggedTable, Target
from evalkit.planning.tables import Given
from evalkit.sources import Table, open_section

_OWN = ("path", "table", "format", "header", "where")


class _LogColumns(Record):
    user: Texts = key((), "user")
    round: str | None = None
    reward: str = "reward"
    propensity: str = "propensity"
    predicted: str | None = None
    propensity_slate: str | None = None
    propensity_cascade: str | None = None
    propensity_group: str | None = None
    place: str | None = None
    target: Texts = key((), "probabilities of targets")
    context: Texts = key((), "what tables of targets are joined on, then the item")
    segment: Texts = key((), "by segmentation")


class _LogTable(KindTable):
    columns: _LogColumns


class _TargetColumns(Record):
    context: Texts = key((), "context and item")
    probability: str = "probability"


class _ListColumns(Record):
    context: Texts = key((), "context, place in the list and item")
    rank: str = key(..., "what place an item has")


class _RankedColumns(Record):
    user: Texts = ("user",)
    item: str = "item"
    rank: str = "rank"


class _TargetTable(KindTable):
    columns: _TargetColumns | _ListColumns


class _RankedTable(KindTable):
    columns: _RankedColumns = _RankedColumns()


@dataclass(frozen=True, slots=True)
class LoggedTables:
    """The log and the tables of targets, opened.

    Args:
        written: (target's place, its key) of each column `target_0`, ... of the log.
        contexts: columns `context_...` of the log by target that is a table, the item last.
        targets: tables by the target's place.
    """

    config: Config
    log: Table
    written: Sequence[tuple[int, str]]
    contexts: dict[int, tuple[str, ...]]
    targets: dict[int, Table]

    @property
    def all(self) -> list[Table]:
        """Every table with rows of its own."""
        return [self.log, *self.targets.values()]


def section_of(config: Config) -> LoggedTable:
    """The section of the log."""
    return cast("LoggedTable", config.logged)  # type: ignore[attr-defined]


def targets_of(config: Config) -> Sequence[Target]:
    """The targets in the order of the config, then rankings."""
    written = cast("Sequence[Target]", config.targets)  # type: ignore[attr-defined]
    users = section_of(config).columns.user or ()
    ranked = (
        Target(model=str(each.model), path=each.path, rank="rank", on=users)
        for each in config.rankings
    )
    return *written, *ranked


def open_logged(config: Config, given: Given) -> LoggedTables:
    """The log, and the tables of targets.

    Raises:
        DataError: a table is not there, or lacks a column [missing-column].
    """
    section, targets = section_of(config), targets_of(config)
    held = [*given.rankings, *([None] * (1 + len(targets)))]
    guessing = replace(given.guessing(config), section="logged")
    columns = {
        name: text
        for name, text in section.columns.model_dump(exclude_none=True).items()
        if name in _LogColumns.model_fields
    }
    written = [
        (place, name)
        for place, target in enumerate(targets)
        for name in OF_TARGETS
        if getattr(target, name) is not None
    ]
    if config.policies.units == "rounds":
        columns.pop("user", None)
    if "user" not in columns and "round" in columns:
        columns["user"] = (columns["round"],)
    contexts, texts = {}, list[str]()
    for place, target in enumerate(targets):
        if target.path:
            place_in_list = section.columns.position if target.rank else None
            own = (*target.on, *([place_in_list] if place_in_list else []))
            own = (*own, section.columns.item or "item")
            contexts[place] = tuple(f"context_{len(texts) + number}" for number in range(len(own)))
            texts += own
    asked = _LogColumns(
        **columns,
        place=section.columns.position,
        target=tuple(getattr(targets[place], name) for place, name in written),
        context=tuple(texts),
        segment=tuple(rule.by for rule in config.segments.named.values()),
    )
    log = _LogTable(**{name: getattr(section, name) for name in _OWN}, columns=asked)
    numbers = (*NUMBERS, "target", "place")
    try:
        opened = open_section(
            "logged", log, held[0], guessing, numbers=numbers, anything=("segment",)
        )
    except EvalkitError as error:
        for each in error.errors if isinstance(error, Errors) else (error,):
            _name_target(each)
        raise
    written_ones = len(targets) - len(config.rankings)
    tables = dict(_open_targets(section, targets[:written_ones], held[1:], guessing))
    lists = given.beside.rankings if given.beside else [None] * len(config.rankings)
    for number, (ranking, listed) in enumerate(zip(config.rankings, lists, strict=True)):
        written_keys: dict[str, Any] = {name: getattr(ranking, name) for name in _OWN}
        if "columns" in ranking.model_fields_set:
            named = ranking.columns.model_dump(include={"user", "item", "rank"}, exclude_unset=True)
            written_keys["columns"] = _RankedColumns(**named)
        ranked = _RankedTable(**written_keys)
        of_rankings = replace(guessing, section=f"rankings[{number}]")
        table = open_section("rankings", ranked, listed, of_rankings, numbers=("rank",))
        users = [name for name in table.frame.collect_schema().names() if name[:5] == "user_"]
        keys = [*users, *(["rank"] if section.columns.position else []), "item"]
        as_context = [pl.col(name).alias(f"context_{at}") for at, name in enumerate(keys)]
        frame = table.frame.select(*as_context, "rank")
        tables[written_ones + number] = replace(table, frame=frame)
    return LoggedTables(config, opened, written, contexts, tables)


def _name_target(error: EvalkitError) -> None:
    """Say what is wrong with a target's column by the key that it has there."""
    for own, written, value in (("target", "probability", r"\1"), ("context", "on", r"[\1]")):
        for pattern, new in (
            (
                rf"\b{own} = (.+?) under \[logged.columns\]",
                f"{written} = {value} under [[targets]]",
            ),
            (rf"logged\.columns\.{own}\b", "targets"),
            (rf"\b{own}(?= (?:=|is|must) )", written),
        ):
            error.message = re.sub(pattern, new, error.message)
            error.at = error.at and re.sub(pattern, new, error.at)
            error.hint = error.hint and re.sub(pattern, new, error.hint)


def _open_targets(
    section: LoggedTable, targets: Sequence[Target], held: Sequence[object | None], guessing: Any
) -> Iterator[tuple[int, Table]]:
    tables = iter(held)
    for place, target in enumerate(targets):
        if not target.path:
            continue
        columns: _TargetColumns | _ListColumns = _TargetColumns(context=(*target.on, "item"))
        if target.rank is not None:
            at = (target.rank,) if section.columns.position else ()
            columns = _ListColumns(context=(*target.on, *at, "item"), rank=target.rank)
        asked = _TargetTable(path=target.path, columns=columns)
        own = replace(guessing, section=f"targets[{place}]")
        yield (
            place,
            open_section("targets", asked, next(tables), own, numbers=("probability", "rank")),
        )
