"""The tables that segments are read from: each once, however many segmentations it holds."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from evalkit.config import LogTable, Segmentation, TruthTable
from evalkit.sources import Table, open_truth_values, open_values

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
    truth: TruthTable | LogTable,
    given: object | None,
    in_memory: Mapping[str, object],
    attempt: Callable[[Callable[[], SegmentTable]], None],
) -> None:
    """Open every table that segments are read from.

    Args:
        named: the segmentations by name.
        truth: the interactions, for values that stand in it.
        given: the interactions in memory, in place of their path.
        in_memory: tables of segmentations, by name, in place of theirs.
        attempt: takes each table, or notes why there is none.
    """
    together: dict[object, list[str]] = {}
    for name, rule in named.items():
        if rule.path is None and rule.by == N_RELEVANT:
            source: object = N_RELEVANT
        else:
            held = id(in_memory.get(name))
            source = (rule.path, rule.format, rule.where, rule.user, rule.item, held)
        together.setdefault(source, []).append(name)
    for names in together.values():
        held_table = in_memory.get(names[0])
        attempt(_opening(names, [named[name] for name in names], truth, given, held_table))


def _opening(
    names: Sequence[str],
    rules: Sequence[Segmentation],
    truth: TruthTable | LogTable,
    given: object | None,
    in_memory: object | None,
) -> Callable[[], SegmentTable]:
    bys = [rule.by for rule in rules]
    first = rules[0]

    def opening() -> SegmentTable:
        table: Table | None = None
        if first.path is not None:
            table = open_values(names[0], first, bys, truth.columns.user, in_memory)
        elif first.by != N_RELEVANT:
            table = open_truth_values(truth, bys, given)
        return SegmentTable(table, tuple(names), tuple(rules), of_items=first.item is not None)

    return opening
