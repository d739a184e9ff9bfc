"""What plots draw, as rows, for figures by name."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from evalkit.report.html._markup import Html


@dataclass(frozen=True, slots=True)
class DrawnPlot:
    """One plot, and what it draws: a row for each mark, point or step."""

    kind: str
    title: str
    svg: Html
    rows: tuple[Mapping[str, Any], ...]


_DRAWN: ContextVar[list[DrawnPlot] | None] = ContextVar("drawn", default=None)


@contextmanager
def collecting() -> Iterator[list[DrawnPlot]]:
    """All plots that are drawn inside, in their order."""
    found: list[DrawnPlot] = []
    token = _DRAWN.set(found)
    try:
        yield found
    finally:
        _DRAWN.reset(token)


def noted(kind: str, title: str, svg: Html, rows: Iterable[Mapping[str, Any]]) -> Html:
    """The plot, noted where somebody collects."""
    found = _DRAWN.get()
    if found is not None:
        found.append(DrawnPlot(kind, title, svg, tuple(rows)))
    return svg
