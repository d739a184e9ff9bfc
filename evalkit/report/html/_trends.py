"""A page with one metric over the runs of a job."""

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from urllib.parse import quote

from evalkit.report.html._markup import Html, el, join
from evalkit.report.html._plots import Line, curve_plot, swatch
from evalkit.report.html._scale import show
from evalkit.report.html._tables import number_cell, table, text_cell
from evalkit.report.text import count_noun, decimals_for, half_widths, shorten
from evalkit.report.trend import PastRun, Point, Trend, days_of, order_of

WIDTH = 1080.0
MOST_FAILED = 3  # gates that a row of the index names


def trend_body(trends: Sequence[Trend]) -> Html:
    """A plot and a table for each job."""
    jobs = dict.fromkeys(trend.job for trend in trends)
    return join(_job(job, [trend for trend in trends if trend.job == job]) for job in jobs)


def _job(job: str, trends: Sequence[Trend]) -> Html:
    """The figure of a job, and a row for each place on its axis, the latest first."""
    first = trends[0]
    points = [point for trend in trends for point in trend.points]
    digits = decimals_for(half_widths(points), [point.value for point in points])
    is_by = first.by != "started"
    rows: dict[str, list[Point | None]] = {}
    for n, trend in enumerate(trends):
        for point in trend.points:
            at = point.at if is_by else point.run_id
            rows.setdefault(at, [None] * len(trends))[n] = point
    ordered = sorted(rows.values(), key=_place, reverse=True)
    head = ["run", "started", *([first.by] if is_by else []), "verdict"]
    head += [*(trend.model for trend in trends), "tags"]
    body = [_row(points, digits, is_by=is_by) for points in ordered]
    return join(el("h2", job), _figure(trends), table(head, body))


def _place(points: Sequence[Point | None]) -> tuple[tuple[float, str], str]:
    return max((order_of(each.at), each.run_id) for each in points if each is not None)


def _row(points: Sequence[Point | None], digits: int, *, is_by: bool) -> list[Html]:
    """One night: its latest run, and what each model had; others' runs beside their values."""
    said = max((each for each in points if each is not None), key=lambda each: each.run_id)
    named = said.run_id if said.page is None else el("a", said.run_id, href=quote(said.page))
    return [
        el("th", named, scope="row"),
        text_cell(said.started),
        *([text_cell(said.at)] if is_by else []),
        el("td", _verdict(said.is_fine), class_="text"),
        *(el("td", "–") if each is None else _cell(each, digits, said.run_id) for each in points),
        text_cell(" ".join(said.tags)),
    ]


def _figure(trends: Sequence[Trend]) -> Html:
    """A curve a model, whose colours a key tells."""
    standing = {point.run_id: point.at for trend in trends for point in trend.points}
    runs = sorted(standing, key=lambda each: (order_of(standing[each]), each))
    days = {run_id: days_of(at) for run_id, at in standing.items()}
    if any(each is None for each in days.values()):  # numbers and words: one after the other
        kinds = list(dict.fromkeys(standing[run_id] for run_id in runs))
        days = {run_id: float(kinds.index(at) + 1) for run_id, at in standing.items()}
        texts: Callable[[Sequence[float]], list[str]] = partial(_words, kinds)
    else:
        texts = dates
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
            replaced=tuple(point.replaced for point in trend.points),
        )
        for series, trend in enumerate(trends)
    ]
    first = trends[0]
    where = f", {first.segmentation} = {first.segment}" if first.segment is not None else ""
    title = f"{first.metric}{where} over {len(runs)} runs"
    plot = curve_plot(
        *(lines, title, first.by),
        bounds=list(dict.fromkeys(each for trend in trends for each in trend.bounds)),
        x_texts=texts,
        width=WIDTH if len(runs) > 12 else 560,
    )
    key = el("ul", (el("li", swatch(n), each.model) for n, each in enumerate(trends)), class_="key")
    again = any(point.replaced for trend in trends for point in trend.points)
    note = el("p", "Crosses: runs that a later one replaced.", class_="soft") if again else None
    shown = el("div", plot, class_="wide-plot", tabindex="0") if len(runs) > 12 else plot
    return join(key, el("figure", el("figcaption", title), shown), note)


def _cell(point: Point, digits: int, run_id: str) -> Html:
    """A value with its limits, where it was expected, and what is out of order."""
    found: list[Html | str] = [show(point.value, digits)]
    if point.low is not None and point.high is not None:
        found.append(el("i", f"{show(point.low, digits)}–{show(point.high, digits)}"))
    if point.expected_low is not None and point.expected_high is not None:
        low, high = show(point.expected_low, digits), show(point.expected_high, digits)
        found.append(el("i", f"expected {low}–{high}"))
    if point.replaced:
        found.append(el("i", f"replaced {', '.join(show(e, digits) for e in point.replaced)}"))
    if point.run_id != run_id:
        found.append(el("i", f"run {point.run_id}"))
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


def dates(places: Sequence[float]) -> list[str]:
    """Days since 1970 as dates; with the time where they are close to each other."""
    form = "%m-%d %H:%M" if max(places) - min(places) < 4 and any(p % 1 for p in places) else "%F"
    return [datetime.fromtimestamp(each * 86_400, UTC).strftime(form) for each in places]


def _words(kinds: Sequence[str], places: Sequence[float]) -> list[str]:
    whole = {float(number): kind for number, kind in enumerate(kinds, start=1)}
    return [shorten(whole.get(each, ""), 12) for each in places]


def index_body(runs: Sequence[PastRun], trends: Sequence[Trend]) -> Html:
    """A trend and a table of runs for each job, the latest first, with links to their pages."""
    parts = []
    for job in dict.fromkeys(each.job for each in runs):
        of = [each for each in runs if each.job == job]
        known = [each.value for each in of if each.value is not None]
        digits = decimals_for([], known)
        drawn = [each for each in trends if each.job == job]
        days = list(dict.fromkeys(key for each in of for key in each.variables))
        latest = {tuple(each.variables.items()): each.run_id for each in reversed(of)}
        rows = [
            [
                el("th", _linked(each), el("i", each.run_id), scope="row"),
                *(text_cell(each.variables.get(key, "")) for key in days),
                el("td", _verdict(each.is_fine), _replaced(each, latest), class_="text"),
                el("td", show(each.value, digits), el("i", each.best)),
                el("td", _failed(each.failed), el("i", each.answer), class_="wrap"),
                number_cell(count_noun(each.n_warnings, "warning") if each.n_warnings else ""),
                text_cell(" ".join(each.tags)),
            ]
            for each in of
        ]
        *places, verdict, found, tags = (
            el("th", each, scope="col", class_="text")
            for each in (*days, "verdict", "what was found", "tags")
        )
        head = ["started", *places, verdict, "best", found, "warnings", tags]
        parts += [el("h2", job), _figure(drawn) if drawn else join()]
        parts.append(table(head, rows, class_="stack"))
    return join(parts) if parts else el("p", "There are no runs.")


def _failed(messages: Sequence[str]) -> Html:
    """What failed, gate by gate."""
    more = len(messages) - MOST_FAILED
    shown = [el("div", el("b", "✗ ", class_="fail"), each) for each in messages[:MOST_FAILED]]
    return join(*shown, el("div", f"{more} more failed") if more > 0 else None)


def _replaced(run: PastRun, latest: Mapping[tuple[tuple[str, str], ...], str]) -> Html | None:
    """Said of a run whose variables a later one has, too."""
    later = latest[tuple(run.variables.items())]
    is_last = not run.variables or later == run.run_id
    return None if is_last else el("i", "run again later", title=later)


def _linked(run: PastRun) -> Html | str:
    started = run.started[:19].replace("T", " ")
    return started if run.page is None else el("a", started, href=quote(run.page))


def _verdict(is_fine: bool) -> Html:
    word, kind = ("fine", "pass") if is_fine else ("failed", "fail")
    return el("b", word, class_=kind)
