"""A page with one metric over the runs of a job."""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import partial
from urllib.parse import quote

from evalkit.report.html._markup import Html, el, join
from evalkit.report.html._plots import Line, curve_plot, swatch
from evalkit.report.html._scale import show
from evalkit.report.html._tables import number_cell, table, text_cell
from evalkit.report.text import count_noun, decimals_for, shorten
from evalkit.report.trend import PastRun, Point, Trend, days_of, order_of

WIDTH = 1080.0


def trend_body(trends: Sequence[Trend]) -> Html:
    """A plot and a table for each job."""
    jobs = dict.fromkeys(trend.job for trend in trends)
    return join(_job(job, [trend for trend in trends if trend.job == job]) for job in jobs)


def _job(job: str, trends: Sequence[Trend]) -> Html:
    standing = {point.run_id: point.at for trend in trends for point in trend.points}
    runs = sorted(standing, key=lambda each: (order_of(standing[each]), each))
    days = {run_id: days_of(at) for run_id, at in standing.items()}
    if any(each is None for each in days.values()):  # numbers and words: one after the other
        kinds = list(dict.fromkeys(standing[run_id] for run_id in runs))
        days = {run_id: float(kinds.index(at) + 1) for run_id, at in standing.items()}
        texts: Callable[[Sequence[float]], list[str]] = partial(_words, kinds)
    else:
        texts = _dates
    lines = [
        Line(
            trend.model,
            series,
            tuple(days[point.run_id] or 0.0 for point in trend.points),
            tuple(point.value for point in trend.points),
            tuple(point.low for point in trend.points),
            tuple(point.high for point in trend.points),
            expected=_drawn(trend),
            flagged=tuple(bool(point.signals) for point in trend.points),
        )
        for series, trend in enumerate(trends)
    ]
    first = trends[0]
    where = f", {first.segmentation} = {first.segment}" if first.segment is not None else ""
    title = f"{first.metric}{where} over {len(runs)} runs"
    widths = [
        (point.high - point.low) / 2
        for trend in trends
        for point in trend.points
        if point.low is not None and point.high is not None
    ]
    digits = decimals_for(widths, [p.value for trend in trends for p in trend.points])
    known = {(trend.model, point.run_id): point for trend in trends for point in trend.points}
    rows = []
    for run_id in reversed(runs):
        points = [known.get((trend.model, run_id)) for trend in trends]
        said = next(point for point in points if point is not None)
        named = run_id if said.page is None else el("a", run_id, href=quote(said.page))
        cells = [el("td") if point is None else _cell(point, digits) for point in points]
        rows.append(
            [
                el("th", named, scope="row"),
                text_cell(said.started),
                *([text_cell(said.at)] if first.by != "started" else []),
                el("td", _verdict(said.is_fine), class_="text"),
                *cells,
                text_cell(" ".join(said.tags)),
            ]
        )
    by = [first.by] if first.by != "started" else []
    head = ["run", "started", *by, "verdict", *(trend.model for trend in trends), "tags"]
    return join(
        el("h2", job),
        el("ul", (el("li", swatch(n), each.model) for n, each in enumerate(trends)), class_="key"),
        el(
            "figure",
            el("figcaption", title),
            curve_plot(
                *(lines, title, first.by),
                bounds=list(dict.fromkeys(each for trend in trends for each in trend.bounds)),
                x_texts=texts,
                width=WIDTH if len(runs) > 12 else 560,
            ),
        ),
        table(head, rows),
    )


def _cell(point: Point, digits: int) -> Html:
    """A value with its limits, where it was expected, and what is out of order."""
    found: list[Html | str] = [show(point.value, digits)]
    if point.low is not None and point.high is not None:
        found.append(el("i", f"{show(point.low, digits)}–{show(point.high, digits)}"))
    if point.expected_low is not None and point.expected_high is not None:
        low, high = show(point.expected_low, digits), show(point.expected_high, digits)
        found.append(el("i", f"expected {low}–{high}"))
    if point.signals:
        found.append(el("i", el("b", ", ".join(point.signals), class_="unclear")))
    return el("td", *found)


def _drawn(trend: Trend) -> tuple[tuple[float, float] | None, ...]:
    """Where each point was expected; None where that is so wide that it would flatten the rest."""
    seen = [
        each
        for point in trend.points
        for each in (point.value, point.low, point.high)
        if each is not None
    ]
    widest = 3.0 * (max(seen) - min(seen))
    return tuple(
        (low, high) if low is not None and high is not None and high - low <= widest else None
        for low, high in ((each.expected_low, each.expected_high) for each in trend.points)
    )


def _dates(places: Sequence[float]) -> list[str]:
    """Days since 1970 as dates; with the time where they are close to each other."""
    form = "%m-%d %H:%M" if max(places) - min(places) < 4 and any(p % 1 for p in places) else "%F"
    return [datetime.fromtimestamp(each * 86_400, UTC).strftime(form) for each in places]


def _words(kinds: Sequence[str], places: Sequence[float]) -> list[str]:
    whole = {float(number): kind for number, kind in enumerate(kinds, start=1)}
    return [shorten(whole.get(each, ""), 12) for each in places]


def index_body(runs: Sequence[PastRun]) -> Html:
    """A table of runs for each job, the latest first, with links to their pages."""
    parts = []
    for job in dict.fromkeys(each.job for each in runs):
        of = [each for each in runs if each.job == job]
        known = [each.value for each in of if each.value is not None]
        digits = decimals_for([], known)
        rows = [
            [
                el("th", _linked(each), el("i", each.run_id), scope="row"),
                el("td", _verdict(each.is_fine), class_="text"),
                el("td", show(each.value, digits), el("i", each.best)),
                text_cell(each.answer, wrap=True),
                number_cell(count_noun(each.n_warnings, "warning") if each.n_warnings else ""),
                text_cell(" ".join(each.tags)),
            ]
            for each in of
        ]
        verdict, found, tags = (
            el("th", each, scope="col", class_="text")
            for each in ("verdict", "what was found", "tags")
        )
        head = ["started", verdict, "best", found, "warnings", tags]
        parts += [el("h2", job), table(head, rows, class_="stack")]
    return join(parts) if parts else el("p", "There are no runs.")


def _linked(run: PastRun) -> Html | str:
    started = run.started[:19].replace("T", " ")
    return started if run.page is None else el("a", started, href=quote(run.page))


def _verdict(is_fine: bool) -> Html:
    word, kind = ("fine", "pass") if is_fine else ("failed", "fail")
    return el("b", word, class_=kind)
