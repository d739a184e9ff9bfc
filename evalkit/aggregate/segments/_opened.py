"""The tables that segments are read from: each once, however many segmentations it holds."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import polars as pl

from evalkit.config import Segmentation
from evalkit.errors import EvalkitError, noting
from evalkit.sources import OwnTable, Table, open_own_values, open_values

N_RELEVANT = "n_relevant"


@dataclass(frozen=True, slots=True)
class SegmentTable:
    """Segmentations that come from one table, opened but not read.

    Args:
        table: ids and `value_0`, `value_1`, ..., one for each name; None where the values are
            numbers of relevant items, which the truth knows.
        names: of the segmentations.
        rules: how each makes segments of its values.
        of_items: the ids are items.
    """

    table: Table | None
    names: tuple[str, ...]
    rules: tuple[Segmentation, ...]
    of_items: bool = False


def open_segments(
    named: dict[str, Segmentation],
    own: Sequence[tuple[OwnTable, object | None]],
    in_memory: Mapping[str, object],
    problems: list[EvalkitError],
) -> list[SegmentTable]:
    """Every table that segments are read from, opened.

    Args:
        named: the segmentations by name.
        own: the truth, or the tables of rows, for values that stand in them, each with what is in
            memory in place of its path.
        in_memory: tables of segmentations, by name, in place of theirs.
        problems: gets what is wrong with tables, which are left out.
    """
    together: dict[object, list[str]] = {}
    opened: list[SegmentTable] = []
    for name, rule in named.items():
        if rule.path is None and rule.by == N_RELEVANT:
            source: object = N_RELEVANT
        else:
            held = id(in_memory.get(name))
            source = (rule.path, rule.format, rule.header, rule.where, rule.user, rule.item, held)
        together.setdefault(source, []).append(name)
    for names in together.values():
        first, rules = named[names[0]], tuple(named[name] for name in names)
        table, bys = None, [rule.by for rule in rules]
        with noting(problems):
            if first.path is not None:
                held_table = in_memory.get(names[0])
                table = open_values(names[0], first, bys, own[0][0].columns.user, held_table)
            elif first.by != N_RELEVANT:
                table = _together([open_own_values(each, bys, held) for each, held in own])
            opened.append(SegmentTable(table, tuple(names), rules, first.item is not None))
    return opened


def _together(tables: Sequence[Table]) -> Table:
    """The rows of all tables as those of the first."""
    if len(tables) == 1:
        return tables[0]
    frames = [table.frame for table in tables]
    return tables[0].with_frame(pl.concat(frames, how="vertical_relaxed"), None)
