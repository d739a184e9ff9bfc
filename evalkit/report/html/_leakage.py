"""A page that shows what a split gives away: days of train and test, boundaries, new items."""

from collections.abc import Mapping
from typing import Any

from evalkit.report.html._markup import Html, el, join
from evalkit.report.html._plots import Line, curve_plot
from evalkit.report.html._tables import number_cell, table, text_cell

_WIDTH = 1080.0
_MEANS = {
    "clean": "No row is in two parts, and no row of train is later than a held-out one.",
    "across-users": "Train has rows at or after the first held-out row, of other users.",
    "within-users": "Users have rows of train behind their own held-out rows.",
    "rows-shared": "The same rows are in train and in a held-out part.",
}


def leakage_body(leaks: Mapping[str, Any]) -> Html:
    """Verdict, counts, and plots of the first fold."""
    verdict = leaks["verdict"]
    counts = [
        [text_cell(name.replace("_", " ")), number_cell(_shown(count))]
        for name, count in sorted(leaks["counts"].items())
    ]
    fold = leaks["folds"][0]
    parts = [
        [text_cell(name), *(number_cell(f"{sized[key]:,}") for key in ("rows", "users", "items"))]
        for name, sized in fold["parts"].items()
    ]
    return join(
        el("section", el("h2", f"Verdict: {verdict}"), el("p", _MEANS[verdict]), id="verdict"),
        el("section", el("h2", "Parts"), table(["part", "rows", "users", "items"], parts)),
        el("section", el("h2", "Counts"), table(["count", "value"], counts)),
        _plots(fold.get("plots") or {}),
    )


def _shown(count: float) -> str:
    return f"{count:,}" if isinstance(count, int) else f"{count:.6g}"


def _plots(plots: Mapping[str, Any]) -> Html | None:
    if not plots:
        return None
    days = plots["days"]
    step = days[1] - days[0] if len(days) > 1 else 1
    every = "by day" if step == 1 else f"in {step:,} days each"
    titles = {
        f"Rows of each part, {every}": plots["rows"],
        f"First held-out row of each user, {every}": {"users": plots.get("boundaries", [])},
        f"First train row of each item, {every}": {"items": plots.get("items", [])},
    }
    shown = []
    for title, lines in titles.items():
        drawn = [
            _line(name, place, days, counts) for place, (name, counts) in enumerate(lines.items())
        ]
        if drawn and drawn[0].values:
            shown.append(el("h3", title))
            shown.append(curve_plot(drawn, title, f"days since {_day(days[0])}", width=_WIDTH))
    return el("section", el("h2", "In time"), *shown, id="time")


def _line(name: str, series: int, days: list[int], counts: list[int]) -> Line:
    xs = tuple(float(day - days[0]) for day in days[:-1])
    values = tuple(float(count) for count in counts)
    none = (None,) * len(values)
    return Line(name, series, xs[: len(values)], values, none, none)


def _day(number: int) -> str:
    from datetime import date, timedelta

    try:
        return (date(1970, 1, 1) + timedelta(days=number)).isoformat()
    except OverflowError:
        return f"day {number}"
