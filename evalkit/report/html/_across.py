"""A page of models over several data sets: the critical-difference diagram, and its numbers."""

from evalkit.report.across import Across, tell_across
from evalkit.report.html._drawn import noted
from evalkit.report.html._markup import Html, el, join, number, terminal
from evalkit.report.html._plots import LETTER, _path, _svg, _text
from evalkit.report.html._scale import Scale
from evalkit.report.text import display_width

WIDTH = 640.0


def across_body(across: Across) -> Html:
    """The diagram, then what a terminal shows."""
    title = f"mean ranks of {across.metric} over {len(across.sets)} data sets"
    return join(
        el("figure", el("figcaption", title), difference_diagram(across, title)),
        terminal(tell_across(across)),
    )


def difference_diagram(across: Across, title: str) -> Html:
    """Mean ranks on an axis, 1 the best; a bar joins models that cannot be told apart."""
    n = len(across.models)
    longest = max(map(display_width, across.models)) * LETTER + 44
    left, right = longest, WIDTH - longest
    x = Scale(1.0, float(n), left, right)
    top, step = 52.0, 18.0
    bars = across.groups
    below = top + 10.0 + 7.0 * len(bars)
    half = (n + 1) // 2
    inside = [_path(f"M{number(left)} {number(top)}H{number(right)}", "zero")]
    for tick in range(1, n + 1):
        inside.append(_path(f"M{number(x(tick))} {number(top - 5)}V{number(top)}", "zero"))
        inside.append(_text(x(tick), top - 9, str(tick), anchor="m"))
    if across.critical is not None:
        end = left + (x(2.0) - x(1.0)) * across.critical
        inside.append(_path(f"M{number(left)} 10H{number(min(end, WIDTH - 4))}", "bar c1"))
        inside.append(_text(left, 26, f"critical difference {across.critical:.3f}"))
    for place, (model, rank) in enumerate(zip(across.models, across.mean_ranks, strict=True)):
        is_left = place < half
        y = below + step * (place + 1 if is_left else n - place)
        edge = left - 8 if is_left else right + 8
        line = f"M{number(x(rank))} {number(top)}V{number(y)}H{number(edge)}"
        inside.append(_path(line, "grid"))
        label = f"{model} {rank:.2f}"
        inside.append(_text(edge - 4 if is_left else edge + 4, y + 4, label, "name",
                            anchor="e" if is_left else ""))  # fmt: skip
    for number_of, (first, last) in enumerate(bars):
        y = top + 8.0 + 7.0 * number_of
        ends = x(across.mean_ranks[first]) - 3, x(across.mean_ranks[last]) + 3
        inside.append(_path(f"M{number(ends[0])} {number(y)}H{number(ends[1])}", "bar c0"))
    about = f"{n} models; bars join those that cannot be told apart; the text below has the ranks."
    svg = _svg(WIDTH, below + step * (half + 1), title, about, *inside)
    rows = (
        {"name": model, "value": rank, "letters": letters, "critical": across.critical}
        for model, rank, letters in zip(
            across.models, across.mean_ranks, across.letters, strict=True
        )
    )
    return noted("ranks", title, svg, rows)
