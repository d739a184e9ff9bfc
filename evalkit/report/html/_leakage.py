"""A page that shows what a split gives away: days of train and test, boundaries, new items."""

from collections.abc import Mapping, Sequence
from typing import Any

from evalkit.report.html._markup import Html, el, join
from evalkit.report.html._plots import Line, curve_plot
from evalkit.report.html._tables import number_cell, table, text_cell
from evalkit.report.html._trends import dates
from evalkit.report.text import count_noun

_WIDTH = 1080.0
_MEANS = {
    "clean": "In time: no row is in two parts, and none of train is later than a held-out one.",
    "across-users": "Train has rows at or after the first held-out row, of other users.",
    "within-users": "Users have rows of train behind their own held-out rows.",
    "rows-shared": "The same rows are in train and in a held-out part.",
}


def leakage_body(leaks: Mapping[str, Any]) -> Html:
    """Verdict, counts, and plots of the first fold."""
    verdict, fold = leaks["verdict"], leaks["folds"][0]
    unknown = _unknown(fold)
    most = next((told for told, is_most in unknown if is_most), verdict)
    headline = most if verdict == "clean" else verdict
    others = [el("p", f"{told.capitalize()}.") for told, _ in unknown if told != headline]
    counts = [
        [text_cell(name.replace("_", " ")), number_cell(_shown(count))]
        for name, count in sorted(leaks["counts"].items())
    ]
    parts = [
        [text_cell(name), *(number_cell(f"{sized[key]:,}") for key in ("rows", "users", "items"))]
        for name, sized in fold["parts"].items()
    ]
    return join(
        el(
            "section",
            el("h2", f"Verdict: {headline}"),
            el("p", _MEANS[verdict]),
            *others,
            id="verdict",
        ),
        el("section", el("h2", "Parts"), table(["part", "rows", "users", "items"], parts)),
        el("section", el("h2", "Counts"), table(["count", "value"], counts)),
        _plots(fold.get("plots") or {}),
    )


def _unknown(fold: Mapping[str, Any]) -> list[tuple[str, bool]]:
    """Held-out users whom train lacks, part by part, and whether they are most."""
    found = []
    for name, held in fold["held_out"].items():
        new = held["users_never_in_train"]["users"]
        users = fold["parts"].get(name, {}).get("users", 0)
        if new and users:
            told = f"train lacks {new:,} of {count_noun(users, f'{name} user')}"
            found.append((told, 2 * new > users))
    return found


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
            plot = curve_plot(drawn, title, "day", x_texts=_days, width=_WIDTH)
            shown.append(el("div", plot, class_="wide-plot", tabindex="0"))
    return el("section", el("h2", "In time"), *shown, id="time")


def _line(name: str, series: int, days: list[int], counts: list[int]) -> Line:
    xs = tuple(map(float, days[:-1]))
    values = tuple(float(count) for count in counts)
    none = (None,) * len(values)
    return Line(name, series, xs[: len(values)], values, none, none)


def _days(places: Sequence[float]) -> list[str]:
    """Days since 1970 as dates, or their numbers where there are no such dates."""
    try:
        return dates(places)
    except (OverflowError, ValueError, OSError):
        return [f"day {each:g}" for each in places]
