"""What is asked of a report again and again, looked up once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from evalkit.report.entries import Estimate

Place: TypeAlias = tuple[str, str, str | None, str | None]  # model, metric, segmentation, segment

Asked: TypeAlias = tuple[str, frozenset[str]]  # a label without a profile, parameters written


class ReportIndex:
    """Names in their order, and every number by its place."""

    __slots__ = ("asked", "estimates", "labels", "models", "segments")

    def __init__(self, counted: Sequence[str], estimates: Sequence[Estimate]) -> None:
        self.asked: dict[Asked, str] | None = None  # read when it is first wanted
        self.estimates: dict[Place, Estimate] = {}
        for estimate in estimates:
            place = (estimate.model, estimate.metric, estimate.segmentation, estimate.segment)
            self.estimates.setdefault(place, estimate)
        places = self.estimates
        self.models = tuple(dict.fromkeys([*counted, *(model for model, *_ in places)]))
        self.labels = tuple(dict.fromkeys(label for _, label, *_ in places))
        self.segments = tuple(
            dict.fromkeys((rule, name) for *_, rule, name in places if name is not None)
        )


def it_has(names: Sequence[str]) -> str:
    """What there is to choose from, as a hint."""
    shown = ", ".join(names[:8]) + (", ..." if len(names) > 8 else "")
    return f"it has {shown}" if names else "it has none"
