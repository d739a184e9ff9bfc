"""Plots as inline SVG: dots with intervals, curves with bands, histograms, trends.

Marks of one model are one path, so that a plot of hundreds of intervals stays small.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import KW_ONLY, dataclass
from itertools import pairwise
from typing import TypeGuard

from evalkit.report.html._drawn import noted
from evalkit.report.html._markup import Html, el, number, raw
from evalkit.report.html._scale import Scale, spanning, tick_texts
from evalkit.report.html._style import COLORS
from evalkit.report.text import display_width, shorten

WIDTH = 340
MOST_BANDS = 5  # of curves in one plot; more lie upon one another
TALL = 600.0  # pixels, from which on plots lie beside each other
LETTER = 6.1  # pixels a letter of 11 px takes, a little generously


@dataclass(frozen=True, slots=True)
class Mark:
    """One value with its limits, and wider ones; `series` chooses the colour."""

    value: float
    low: float | None
    high: float | None
    series: int = 0
    wider: tuple[float | None, float | None] = (None, None)


@dataclass(frozen=True, slots=True)
class Row:
    """One line of a dot plot: its name and its marks; and what these are held against."""

    name: str
    marks: tuple[Mark, ...]
    note: str = ""
    against: float | None = None


@dataclass(frozen=True, slots=True)
class Line:
    """One curve: points by x, limits of either where known.

    Args:
        expected: where a point was expected: dashed lines; None where that is not drawn.
        flagged: whether a point is ringed.
        replaced: earlier values at a point's place, drawn as crosses.
    """

    name: str
    series: int
    xs: tuple[float, ...]
    values: tuple[float, ...]
    low: tuple[float | None, ...]
    high: tuple[float | None, ...]
    x_low: tuple[float | None, ...] = ()
    x_high: tuple[float | None, ...] = ()
    _: KW_ONLY
    expected: tuple[tuple[float, float] | None, ...] = ()
    flagged: tuple[bool, ...] = ()
    replaced: tuple[tuple[float, ...], ...] = ()


def _svg(width: float, height: float, title: str, description: str, *inside: Html) -> Html:
    return el(
        "svg",
        el("title", title),
        el("desc", description),
        *inside,
        viewBox=f"0 0 {number(width)} {number(height)}",
        width=number(width),
        height=number(height),
        role="img",
        aria_label=title,
    )


def _path(code: str, class_: str) -> Html:
    return raw(f'<path class="{class_}" d="{code}"/>') if code else raw("")


def _dashed(start: tuple[float, float], end: tuple[float, float]) -> Html:
    (x1, y1), (x2, y2) = start, end
    return el("line", x1=x1, x2=x2, y1=y1, y2=y2, class_="zero", stroke_dasharray="3 3")


def _text(x: float, y: float, label: str, class_: str = "", anchor: str = "") -> Html:
    return el(
        "text",
        label,
        x=number(x) if x else None,
        y=number(y),
        class_=" ".join(each for each in (class_, anchor) if each) or None,
    )


def _y_axis(y: Scale, left: float, end: float) -> list[Html]:
    """Lines at four ticks or so, and their numbers to the left."""
    ticks = y.ticks(4)
    grid = "".join(f"M{number(left)} {number(y(tick))}H{number(end)}" for tick in ticks)
    shown = zip(ticks, tick_texts(ticks), strict=True)
    return [
        _path(grid, "grid"),
        *(_text(left - 5, y(tick) + 4, text, anchor="e") for tick, text in shown),
    ]


def _x_axis(scale: Scale, top: float, bottom: float) -> list[Html]:
    ticks = scale.ticks(3 if scale.end - scale.start < 180 else 4)
    lines = "".join(f"M{number(scale(tick))} {number(top)}V{number(bottom)}" for tick in ticks)
    return [_path(lines, "grid"), *_numbers_below(scale, ticks, bottom + 13)]


def _numbers_below(scale: Scale, ticks: Sequence[float], y: float) -> list[Html]:
    shown = zip(ticks, tick_texts(ticks), strict=True)
    return [_text(scale(tick), y, text, anchor="m") for tick, text in shown]


def _interval(scale: Scale, low: float | None, high: float | None, y: float) -> str:
    if not (_is_known(low) and _is_known(high)):
        return ""
    left, right = scale(low), scale(high)
    return f"M{number(left)} {number(y)}H{number(right)}"


def _is_known(limit: float | None) -> TypeGuard[float]:
    return limit is not None and math.isfinite(limit)


def dot_plot(
    rows: Sequence[Row],
    title: str,
    *,
    zero: bool = False,
    width: float = WIDTH,
    like: Sequence[Row] = (),
) -> Html:
    """Rows of dots with interval lines on a common axis; marks of one row lie side by side.

    Args:
        zero: draw a line at 0 and keep it inside.
        like: rows that axis, steps and room for names are taken of; by default those drawn.
    """
    like = like or rows
    most_marks = max((len(row.marks) for row in like), default=1)
    step = 5.0 if most_marks > 4 else 7.0
    height_of_row = _height_of_row(like)
    longest = max((display_width(row.name) for row in like), default=0)
    note = max((display_width(row.note) for row in like), default=0) * LETTER
    left = min(longest * LETTER + 8, width * 0.42)
    values = [
        value
        for row in like
        for mark in row.marks
        for value in (mark.value, mark.low, mark.high, *mark.wider)
        if value is not None
    ]
    values += [row.against for row in like if row.against is not None]
    if zero:
        values.append(0.0)
    scale = spanning(values, left, width - 12 - note)
    bottom = 4 + height_of_row * len(rows)
    inside = _x_axis(scale, 2, bottom)
    if most_marks > 1:
        between = (4 + height_of_row * place for place in range(1, len(rows)))
        inside.append(_path("".join(f"M0 {number(y)}H{number(width)}" for y in between), "grid"))
    if zero and scale.low <= 0 <= scale.high:
        inside.append(_path(f"M{number(scale(0.0))} 2V{number(bottom)}", "zero"))
    size = 2.8 if most_marks > 1 else 3.6
    intervals: dict[int, str] = {}
    wider: dict[int, str] = {}
    dots: dict[int, str] = {}
    for place, row in enumerate(rows):
        middle = 4 + height_of_row * (place + 0.5)
        shown = shorten(row.name, max(int((left - 6) / LETTER), 4))
        inside.append(_text(0, middle + 4, shown, "name"))
        if row.note:
            inside.append(_text(width, middle + 4, row.note, anchor="e"))
        if row.against is not None:
            half = height_of_row / 2 - 2
            code = f"M{number(scale(row.against))} {number(middle - half)}v{number(2 * half)}"
            inside.append(_path(code, "zero"))
        first = middle - step * (len(row.marks) - 1) / 2
        for n, mark in enumerate(row.marks):
            if not math.isfinite(mark.value):
                continue
            y, color = first + n * step, mark.series % COLORS
            intervals[color] = intervals.get(color, "") + _interval(scale, mark.low, mark.high, y)
            wider[color] = wider.get(color, "") + _interval(scale, *mark.wider, y)
            dots[color] = dots.get(color, "") + _shape(color, scale(mark.value), y, size)
    inside += [_path(code, f"bar c{color}") for color, code in intervals.items()]
    inside += [_path(code, f"bar thin c{color}") for color, code in wider.items() if code]
    inside += [_path(code, _drawn(color, small=most_marks > 1)) for color, code in dots.items()]
    about = f"{len(rows)} rows; dots are values, lines their intervals; the table below has them."
    marks = (
        {"name": row.name, "model": mark.series, "value": mark.value, "low": mark.low,
         "high": mark.high, "note": row.note}
        for row in rows
        for mark in row.marks
    )  # fmt: skip
    return noted("dots", title, _svg(width, bottom + 18, title, about, *inside), marks)


def dot_plots(rows: Sequence[Row], title: str, *, zero: bool = False) -> list[Html]:
    """The same, cut into up to three plots beside each other where one would be tall.

    All have one axis.
    """
    n_plots = min(3, max(1, math.ceil(_height_of_row(rows) * len(rows) / TALL)))
    most = math.ceil(len(rows) / n_plots) or 1
    parts = [rows[start : start + most] for start in range(0, max(len(rows), 1), most)]
    return [dot_plot(part, title, zero=zero, like=rows) for part in parts]


def _height_of_row(rows: Sequence[Row]) -> float:
    most_marks = max((len(row.marks) for row in rows), default=1)
    return max(19.0, most_marks * (5.0 if most_marks > 4 else 7.0) + 9.0)


def _shape(series: int, x: float, y: float, size: float) -> str:
    """A mark that is told by its shape, too: dot, square, diamond, triangle, in turn."""
    kind = series % 4
    if kind < 2:  # readers of PDF draw a dot of no length, and no square
        return f"M{number(x)} {number(y)}{'h.1' if kind else 'z'}"
    half, left = number(size), number(x - size)
    if kind == 2:
        return f"M{left} {number(y)}l{half}-{half} {half} {half}-{half} {half}z"
    return f"M{left} {number(y + size)}l{half}-{number(2 * size)} {half} {number(2 * size)}z"


def _drawn(series: int, *, small: bool) -> str:
    """The classes of such marks."""
    if series % 4 >= 2:
        return f"f{series}"
    square = " square" if series % 4 else ""
    return f"dot{square}{' small' if small else ''} c{series}"


def curve_plot(
    lines: Sequence[Line],
    title: str,
    x_label: str,
    *,
    diagonal: bool = False,
    bounds: Sequence[tuple[str, float]] = (),
    x_texts: Callable[[Sequence[float]], list[str]] | None = None,
    width: float = WIDTH,
) -> Html:
    """Curves with bands; names stand at the right ends.

    Args:
        diagonal: draw a dashed line where both axes show the same number.
        bounds: of gates, `("min", 0.12)`: dashed lines with their words.
        x_texts: what places on the x axis are called, where they are no numbers.
    """
    height, bottom, top, left = 210.0, 180.0, 8.0, 38.0
    names = [shorten(line.name, 16) for line in lines]
    label_width = max((display_width(name) for name in names), default=0) * LETTER + 10
    values = [
        value
        for line in lines
        for each in (line.values, line.low, line.high, *filter(None, line.expected), *line.replaced)
        for value in each
        if value is not None
    ]
    y = spanning([*values, *(bound for _, bound in bounds)], bottom, top)
    xs = sorted({x for line in lines for x in line.xs})
    x = Scale(xs[0], max(xs[-1], xs[0] + 1e-9), left, width - label_width)
    inside = _y_axis(y, left, x.end)
    taken = -1e9
    places = xs if len(xs) <= 12 else x.ticks(5)
    shown_xs = [f"{each:g}" for each in places] if x_texts is None else x_texts(places)
    room = max(16.0, max(map(display_width, shown_xs)) * LETTER) + 6
    for place, shown in zip(places, shown_xs, strict=True):
        if x(place) - taken >= room:
            inside.append(_text(x(place), bottom + 14, shown, anchor="m"))
            taken = x(place)
    for kind, bound in bounds:
        inside.append(_dashed((left, y(bound)), (x.end, y(bound))))
        inside.append(_text(left + 4, y(bound) - 4, f"{kind} {bound:g}"))
    inside.append(_text(left, height - 2, x_label))
    ends_of_both = max(x.low, y.low), min(x.high, y.high)
    if diagonal and ends_of_both[0] < ends_of_both[1]:
        inside.append(_dashed(*((x(each), y(each)) for each in ends_of_both)))
    for line in lines:
        inside += _curve(line, x, y, with_band=len(lines) <= MOST_BANDS)
    ends = sorted(
        (y(_last(line.values)), name, line.series) for line, name in zip(lines, names, strict=True)
    )
    floor = -1e9
    heights = []
    for at, _, _ in ends:
        floor = max(at, floor + 12)
        heights.append(floor)
    over = max(heights[-1] - bottom, 0.0) if heights else 0.0
    for at, (_, name, series) in zip(heights, ends, strict=True):
        inside.append(_text(x.end + 6, at - over + 4, name, f"f{series % COLORS}"))
    about = f"{len(lines)} curves; bands are their intervals; the table below has the numbers."
    points = (
        {"name": line.name, "x": at, "value": value, "low": low, "high": high}
        for line in lines
        for at, value, low, high in zip(line.xs, line.values, line.low, line.high, strict=True)
    )
    return noted("curves", title, _svg(width, height, title, about, *inside), points)


def _curve(line: Line, x: Scale, y: Scale, *, with_band: bool) -> list[Html]:
    color = line.series % COLORS
    known = [place for place, value in enumerate(line.values) if math.isfinite(value)]
    points = [f"{number(x(line.xs[place]))} {number(y(line.values[place]))}" for place in known]
    marks = []
    limits = [
        (x(line.xs[place]), low, high)
        for place in known
        if _is_known(low := line.low[place]) and _is_known(high := line.high[place])
    ]
    if len(limits) > 1 and with_band:
        above = [f"{number(at)} {number(y(high))}" for at, _, high in limits]
        below = [f"{number(at)} {number(y(low))}" for at, low, _ in reversed(limits)]
        marks.append(_path("M" + "L".join([*above, *below]) + "Z", f"band f{color}"))
    if points:
        marks.append(_path("M" + "L".join(points), f"curve c{color}"))
    if len(points) <= 12:
        across = "".join(
            f"M{number(x(low))} {number(y(line.values[place]))}H{number(x(high))}"
            for place in known
            if line.x_low
            and (low := line.x_low[place]) is not None
            and (high := line.x_high[place]) is not None
        )
        marks.append(_path(across, f"bar thin c{color}"))
        shapes = [_shape(color, x(line.xs[at]), y(line.values[at]), 2.8) for at in known]
        marks.append(_path("".join(shapes), _drawn(color, small=True)))
    steps = [(x(at), each) for at, each in zip(line.xs, line.expected, strict=False) if each]
    for side in (0, 1) if len(steps) > 1 else ():
        ends = "L".join(f"{number(at)} {number(y(each[side]))}" for at, each in steps)
        marks.append(_path(f"M{ends}", f"expected c{color}"))
    crosses = "".join(
        f"M{number(x(at) - 3)} {number(y(value) - 3)}l6 6m0-6l-6 6"
        for at, values in zip(line.xs, line.replaced, strict=False)
        for value in values
    )
    marks.append(_path(crosses, f"bar c{color}"))
    for at, value, flagged in zip(line.xs, line.values, line.flagged, strict=False):
        if flagged and math.isfinite(value):
            marks.append(el("circle", cx=number(x(at)), cy=number(y(value)), r=5, class_="flag"))
    return marks


def _last(values: Sequence[float]) -> float:
    return next((value for value in reversed(values) if math.isfinite(value)), 0.0)


def scatter_plot(xs: Sequence[float], values: Sequence[float], title: str, x_label: str) -> Html:
    """One dot for each pair of numbers."""
    height, bottom, top, left = 210.0, 180.0, 8.0, 50.0
    x, y = spanning(xs, left, WIDTH - 12), spanning(values, bottom, top)
    inside = [*_y_axis(y, left, x.end), *_numbers_below(x, x.ticks(4), bottom + 14)]
    inside.append(_text(left, height - 2, x_label))
    dots = "".join(f"M{number(x(a))} {number(y(b))}h0" for a, b in zip(xs, values, strict=True))
    inside.append(_path(dots, "dot c0"))
    about = f"{len(xs)} dots; the table below has the numbers."
    rows: list[dict[str, str | float | None]]
    rows = [{"x": a, "value": b} for a, b in zip(xs, values, strict=True)]
    return noted("scatter", title, _svg(WIDTH, height, title, about, *inside), rows)


@dataclass(frozen=True, slots=True)
class Spot:
    """A model by two numbers, each with its limits; whether it is on the front."""

    name: str
    series: int
    x: tuple[float, float | None, float | None]
    y: tuple[float, float | None, float | None]
    is_best: bool


def trade_plot(spots: Sequence[Spot], title: str, x_label: str) -> Html:
    """Models by two numbers, with their names, their intervals and a line along the front."""
    height, bottom, top, left = 230.0, 196.0, 12.0, 50.0
    names = max((display_width(shorten(spot.name, 14)) for spot in spots), default=0) * LETTER
    xs, ys = ([limit for spot in spots for limit in getattr(spot, axis)] for axis in "xy")
    x = spanning([each for each in xs if _is_known(each)], left, WIDTH - 14 - names)
    y = spanning([each for each in ys if _is_known(each)], bottom, top)
    inside = [*_y_axis(y, left, x.end), *_numbers_below(x, x.ticks(3), bottom + 14)]
    inside.append(_text(left, height - 2, x_label))
    front = sorted((x(spot.x[0]), y(spot.y[0])) for spot in spots if spot.is_best)
    inside += [_dashed(*pair) for pair in pairwise(front)]
    taken: list[float] = []
    for spot in sorted(spots, key=lambda each: -each.y[0]):
        color, (at, low, high), (above, floor, ceiling) = spot.series % COLORS, spot.x, spot.y
        lines = _interval(x, low, high, y(above))
        if _is_known(floor) and _is_known(ceiling):
            lines += f"M{number(x(at))} {number(y(floor))}V{number(y(ceiling))}"
        inside.append(_path(lines, f"bar thin c{color}"))
        inside.append(_path(_shape(color, x(at), y(above), 3.6), _drawn(color, small=False)))
        place = y(above) - 5
        while any(abs(place - other) < 12 for other in taken):
            place += 1
        taken.append(place)
        inside.append(_text(x(at) + 7, place, shorten(spot.name, 14), f"f{color}"))
    about = f"{len(spots)} models; lines are intervals; the table below has the numbers."
    columns = ("name", "x", "x_low", "x_high", "value", "low", "high")
    rows = (dict(zip(columns, (each.name, *each.x, *each.y), strict=True)) for each in spots)
    return noted("trade", title, _svg(WIDTH, height, title, about, *inside), rows)


def histogram(
    edges: Sequence[float],
    counts: Sequence[int],
    title: str,
    *,
    series: int,
    most: int,
    units: str = "users",
) -> Html:
    """Counts between edges as one outline; the height is the count, `most` the axis' end."""
    bottom, top = 84.0, 6.0
    x = Scale(edges[0], edges[-1] if edges[-1] > edges[0] else edges[0] + 1, 34, WIDTH - 8)
    y = Scale(0.0, max(most, 1), bottom, top)
    inside = _x_axis(x, bottom, bottom + 3)
    largest = max(counts)
    inside += [
        _text(29, y(largest) + 4, _short(largest), anchor="e"),
        _text(29, bottom, "0", anchor="e"),
        _path(f"M34 {number(bottom)}H{number(x.end)}", "grid"),
    ]
    outline = f"M{number(x(edges[0]))} {number(bottom)}" + "".join(
        f"V{number(y(count))}H{number(x(edge))}"
        for count, edge in zip(counts, edges[1:], strict=True)
    )
    color = series % COLORS
    inside.append(_path(f"{outline}V{number(bottom)}Z", f"area c{color} f{color}"))
    about = f"{sum(counts)} {units} in {len(counts)} steps; the table below has the counts."
    steps: Iterator[dict[str, str | float | None]] = (
        {"low": low, "high": high, "n": count}
        for (low, high), count in zip(pairwise(edges), counts, strict=True)
    )
    return noted("histogram", title, _svg(WIDTH, bottom + 18, title, about, *inside), steps)


def _short(count: int) -> str:
    for size, letter in ((1_000_000, "M"), (1_000, "k")):
        if count >= 10 * size:
            return f"{count // size}{letter}"
    return str(count)


def swatch(series: int) -> Html:
    """A dot of a series' colour, for keys."""
    color = series % COLORS
    dot = _path(_shape(color, 5, 5, 3.6), _drawn(color, small=False))
    return raw(f'<svg width="10" height="10" aria-hidden="true">{dot}</svg>')
