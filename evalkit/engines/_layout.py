"""What a run reads, table by table, and the tables again where a share of its users is measured."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import polars as pl

from evalkit.aggregate.segments import SegmentTable
from evalkit.config import Config
from evalkit.kinds.experiments.kind import OpenedExperiment, plan_units
from evalkit.kinds.pointwise.open import RowTables, group_by
from evalkit.kinds.rankings.kind import inputs_of
from evalkit.planning.counters import input_of
from evalkit.planning.tables import Given, Tables, plan_ids_of
from evalkit.planning.work import Opened
from evalkit.report import Input
from evalkit.sources import Named, Table
from evalkit.sources.ids import IdPlan


class GivenPlace(NamedTuple):
    """What of `Given` a table stands for: one of it, or those of these numbers or names."""

    section: str
    keys: tuple[int | str | tuple[int, int], ...] = ()

    def of(self, given: Given) -> Any:
        """What is given there."""
        held = getattr(given, self.section)
        return (held[self.keys[0]] if held else None) if self.keys else held


@dataclass(frozen=True, slots=True)
class TablePart:
    """One table that is read.

    Args:
        table: as it was opened.
        used: its columns that are read, and their types.
        is_whole: every share takes all of it, as a table of items.
    """

    place: GivenPlace
    table: Table
    used: Mapping[str, pl.DataType]
    is_whole: bool = False


@dataclass(frozen=True, slots=True)
class Read:
    """What a run reads, of whatever kind.

    Args:
        config: with the columns that are read.
        parts: the tables whose rows are read, each once.
        logs: truth and rankings, or tables of ratings or labels.
        users: how users become keys.
        inputs: a record of every table.
    """

    config: Config
    parts: Sequence[TablePart]
    logs: Sequence[Table]
    users: IdPlan
    inputs: Sequence[Input]


def read_of(opened: Opened) -> Read:
    """What a run reads."""
    if isinstance(opened, Tables):
        users, _ = plan_ids_of(opened, 1)
        parts, inputs = _parts_of_rankings(opened), inputs_of(opened)
        return Read(opened.config, parts, opened.logs, users, inputs)
    if isinstance(opened, OpenedExperiment):
        inputs = [input_of(each, each.n_rows_hint() or 0, each.role) for each in opened.all]
        inputs[0] = replace(inputs[0], role="experiment")
        units = plan_units(opened.all)
        return Read(opened.config, _listed(opened.all), opened.all, units, inputs)
    assert isinstance(opened, RowTables)
    users = group_by("user", [*opened.rows, *opened.sources.tables], 1).plan
    inputs = [input_of(each, each.n_rows_hint() or 0, each.role) for each in opened.all]
    return Read(opened.config, _parts_of_rows(opened), opened.rows, users, inputs)


def _parts_of_rankings(tables: Tables) -> list[TablePart]:
    beside = [each for each in (tables.weight, tables.cluster) if each is not None]
    sources = [*tables.segments, *beside]
    own = [each.table for each in sources if _is_own(each) and each.table is not None]
    parts = [TablePart(GivenPlace("truth"), tables.truth, _together([tables.truth, *own]))]
    if tables.config.is_truthless:
        parts = []
    if tables.config.log is not None:
        (_, shown), *_ = tables.rankings
        parts = [
            TablePart(GivenPlace("truth"), tables.truth, _together([tables.truth, shown, *own]))
        ]
    else:
        parts += _listed([table for _, table in tables.rankings])
    for section in ("train", "users", "reference", "items"):
        table = getattr(tables, section)
        if table is not None:
            parts.append(TablePart(GivenPlace(section), table, table.used, section == "items"))
    parts += [
        TablePart(GivenPlace("earlier", ((place, number),)), table, table.used)
        for place, before in enumerate(tables.earlier)
        for number, table in enumerate(before)
    ]
    parts += _parts_of_segments(tables.segments)
    for weights in beside:
        if weights.table is not None and not _is_own(weights):
            parts.append(TablePart(GivenPlace("weight"), weights.table, weights.table.used))
    return parts


def _parts_of_rows(tables: RowTables) -> list[TablePart]:
    """Columns of theirs that make segments are read with them."""
    own = [each for each in tables.sources.tables if each not in tables.sources.inputs]
    parts = _listed(tables.rows)
    for number, part in enumerate(parts):
        alike = [each for each in own if each.role == part.table.role]
        parts[number] = replace(part, used=_together([*alike, part.table]))
    return parts + _parts_of_segments(tables.sources.segments)


def _listed(tables: Sequence[Table]) -> list[TablePart]:
    """Those that are read; baselines are made where train is."""
    return [
        TablePart(GivenPlace("rankings", (number,)), table, table.used)
        for number, table in enumerate(tables)
        if table.made is None
    ]


def _parts_of_segments(sources: Sequence[SegmentTable]) -> list[TablePart]:
    return [
        TablePart(GivenPlace("segments", each.names), each.table, each.table.used, each.of_items)
        for each in sources
        if each.table is not None and not _is_own(each)
    ]


def _is_own(source: SegmentTable) -> bool:
    """Whether its values stand in the truth, or in the rows that are measured."""
    return source.table is not None and not source.table.role.startswith("segments")


def _together(tables: Sequence[Table]) -> dict[str, pl.DataType]:
    return {name: dtype for table in tables for name, dtype in table.used.items()}


class LaidTable(NamedTuple):
    """One table among the rows of all.

    Args:
        types: of its columns that are read.
        users: what makes the user columns of them.
        at: how errors name it.
        whole: its rows, where every share takes them all.
    """

    place: GivenPlace
    types: Mapping[str, pl.DataType]
    users: tuple[pl.Expr, ...]
    at: str
    whole: pl.DataFrame | None = None


def given_of(
    kept: Sequence[LaidTable], rows: Mapping[int, pl.DataFrame], counts: Mapping[int, pl.DataFrame]
) -> Given:
    """The tables again, of one share of the users.

    Args:
        rows: by the number of the table; of those that have any.
        counts: as `Given` takes them.
    """
    numbers = [key for each in kept if each.place.section == "rankings" for key in each.place.keys]
    listed: list[object | None] = [None] * (1 + max(map(int, numbers), default=-1))  # type: ignore[arg-type]
    found: dict[str, Any] = {"rankings": listed, "segments": {}, "earlier": {}}
    for number, table in enumerate(kept):
        frame = table.whole if table.whole is not None else rows.get(number)
        named = Named(pl.DataFrame(schema=table.types) if frame is None else frame, table.at)
        if table.place.section == "rankings":
            listed[int(table.place.keys[0])] = named  # type: ignore[arg-type]
        elif table.place.section in ("segments", "earlier"):
            found[table.place.section] |= dict.fromkeys(table.place.keys, named)
        else:
            found[table.place.section] = named
    return Given(**found, is_share=True, counts=counts)
