"""Plots of many small values as inline SVG: heat maps, and the differences of single users."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from evalkit.report.html._drawn import noted
from evalkit.report.html._markup import Html, el, number
from evalkit.report.html._plots import LETTER, WIDTH, _dashed, _path, _svg, _text, _y_axis
from evalkit.report.html._scale import Scale, spanning
from evalkit.report.text import display_width, shorten

MOST_NUMBERS = 120  # cells of a heat map that hold their numbers
STEPS = 6  # of colour, to either side
STRONGEST = 0.8
GAIN, LOSS = 0, 1  # colours


@dataclass(frozen=True, slots=True)
class HeatCell:
    """One value of a heat map, with what stands in it; those that hold are set off."""

    value: float
    shown: str
    is_bold: bool = False


def heat_map(
    rows: Sequence[str],
    columns: Sequence[str],
    cells: Sequence[Sequence[HeatCell | None]],
    title: str,
    *,
    is_signed: bool,
    turned: bool = False,
) -> Html:
    """Rows by columns: the stronger the colour, the larger the value.

    Args:
        cells: of each row, one a column; None where there is no value.
        is_signed: one colour above 0, another below; else from the least value to the largest.
        turned: what is below 0 is good.
    """
    values = [each.value for row in cells for each in row if each and math.isfinite(each.value)]
    low, high = (min(values), max(values)) if values else (0.0, 0.0)
    largest = max(abs(low), abs(high)) if is_signed else high - low
    has_numbers = len(values) <= MOST_NUMBERS
    longest = max(map(display_width, rows), default=0)
    left = min(longest * LETTER + 8, 150.0)
    left = math.ceil(left)
    step = math.floor(max(46 if has_numbers else 26, (WIDTH - left) / max(len(columns), 1)))
    tall, tilted = (20 if has_numbers else 14), step < 60
    top = 18.0
    if tilted:
        top += math.ceil(min(max(map(display_width, columns), default=0), 14) * 3.6)
    filled: dict[tuple[int, int], str] = {}
    inside: list[Html] = []
    for place, column in enumerate(columns):
        x, y = left + step * (place + 0.5), top - 6
        shown = shorten(column, 14 if tilted else int(step / LETTER))
        turn = f"rotate(-35 {number(x)} {number(y)})" if tilted else None
        inside.append(
            el("text", shown, x=number(x), y=number(y), class_="name", transform=turn,
               text_anchor=None if tilted else "middle")
        )  # fmt: skip
    texts: list[Html] = []
    for at, (name, row) in enumerate(zip(rows, cells, strict=True)):
        y = top + tall * at
        inside.append(_text(0, y + tall / 2 + 4, shorten(name, int(left / LETTER)), "name"))
        for place, cell in enumerate(row):
            if cell is None or not math.isfinite(cell.value):
                continue
            x = left + step * place
            share = (cell.value if is_signed else cell.value - low) / largest if largest else 0.0
            color = GAIN if (share >= 0) != turned else LOSS
            strength = math.ceil(abs(share) * STEPS)
            box = f"M{number(x)} {number(y + tall / 2)}h{number(step - 1)}"
            filled[color, strength] = filled.get((color, strength), "") + box
            if has_numbers:
                middle = x + step / 2, y + tall / 2 + 4
                kind = "cell strong" if cell.is_bold else "cell"
                texts.append(_text(*middle, cell.shown, kind))
    inside += [
        el(
            "path",
            class_=f"c{color}",
            stroke_width=tall - 1,
            stroke_opacity=f"{STRONGEST * strength / STEPS:.2f}",
            d=code,
        )
        for (color, strength), code in sorted(filled.items())
        if strength
    ]
    width = left + step * len(columns) + (24 if tilted else 0)
    about = f"{len(rows)} rows by {len(columns)} columns; the table below has the numbers."
    drawn: Iterator[dict[str, str | float | None]] = (
        {"name": name, "model": column, "value": cell.value}
        for name, row in zip(rows, cells, strict=True)
        for column, cell in zip(columns, row, strict=True)
        if cell is not None
    )
    svg = _svg(width, top + tall * len(rows) + 4, title, about, *inside, *texts)
    return noted("heat", title, svg, drawn)


def sorted_differences(
    points: Sequence[tuple[float, float]],
    told: tuple[str, str, str],
    title: str,
    *,
    turned: bool = False,
) -> Html:
    """Differences of users from the largest gain to the largest loss, as areas from 0.

    Args:
        points: share of the users up to here, and the difference there.
        told: what stands at gains, between, and at losses.
        turned: what is below 0 is good.
    """
    height, bottom, top, left = 190.0, 160.0, 8.0, 50.0
    y = spanning([*(value for _, value in points), 0.0], bottom, top)
    x = Scale(0.0, 1.0, left, WIDTH - 18)
    inside = _y_axis(y, left, x.end)
    inside += [_text(x(share), bottom + 14, f"{share:.0%}", anchor="m") for share in (0, 0.5, 1)]
    inside.append(_text(left, height - 2, "share of users"))
    up = -1.0 if turned else 1.0
    for color, sign in ((GAIN, up), (LOSS, -up)):
        of = [(x(at), y(value)) for at, value in points if value * sign > 0]
        if of:
            edge = "L".join(f"{number(at)} {number(value)}" for at, value in of)
            code = f"M{number(of[0][0])} {number(y(0))}L{edge}L{number(of[-1][0])} {number(y(0))}Z"
            inside.append(_path(code, f"area c{color} f{color}"))
    inside.append(_dashed((left, y(0.0)), (x.end, y(0.0))))
    gained, same, lost = told
    at_end = bottom - 20 if turned else top + 14
    inside.append(_text(x.end, at_end, gained, "f0", anchor="e"))
    inside.append(_text(x.end, at_end + 14, same, anchor="e"))
    inside.append(_text(left + 6, top + 14 if turned else bottom - 6, lost, "f1"))
    about = f"{gained}, {same}, {lost}; the table below has the numbers."
    rows: list[dict[str, str | float | None]] = [{"x": at, "value": each} for at, each in points]
    return noted("users", title, _svg(WIDTH, height, title, about, *inside), rows)
