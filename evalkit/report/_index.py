"""What is asked of a report again and again, looked up once."""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter, itemgetter
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from evalkit.report.entries import Estimate

Place: TypeAlias = tuple[str, str, str | None, str | None]  # model, metric, segmentation, segment

Asked: TypeAlias = tuple[str, frozenset[str]]  # a label without a profile, parameters written

_PLACE_OF = attrgetter("model", "metric", "segmentation", "segment")


class ReportIndex:
    """Names in their order, and every number by its place."""

    __slots__ = ("asked", "estimates", "labels", "models", "segments")

    def __init__(self, counted: Sequence[str], estimates: Sequence[Estimate]) -> None:
        self.asked: dict[Asked, str] | None = None  # read when it is first wanted
        places = [*map(_PLACE_OF, estimates)]
        self.estimates: dict[Place, Estimate] = dict(  # the first of a place
            zip(reversed(places), reversed(estimates), strict=True)
        )
        self.models = tuple(dict.fromkeys([*counted, *map(itemgetter(0), places)]))
        self.labels = tuple(dict.fromkeys(map(itemgetter(1), places)))
        segments = dict.fromkeys(map(itemgetter(2, 3), places))
        self.segments = tuple((rule, name) for rule, name in segments if name is not None)


def it_has(names: Sequence[str]) -> str:
    """What there is to choose from, as a hint."""
    shown = ", ".join(names[:8]) + (", ..." if len(names) > 8 else "")
    return f"it has {shown}" if names else "it has none"
