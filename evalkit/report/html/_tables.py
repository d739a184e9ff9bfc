"""Tables of a page: numbers under one another, each with its interval."""

from collections.abc import Sequence

from evalkit.report.entries import Comparison, Estimate
from evalkit.report.html._markup import Child, Html, el, join
from evalkit.report.html._scale import show
from evalkit.report.text import known_limits


def table(
    head: Sequence[Child],
    rows: Sequence[Sequence[Html]],
    *,
    caption: str = "",
    above: Html | None = None,
    pin: bool = False,
    sortable: bool = True,
    class_: str = "",
) -> Html:
    """A table that scrolls inside itself where it is too wide; `rows` hold ready cells."""
    classes = " ".join(
        each for each, wanted in (("sortable", sortable), ("pin", pin), (class_, class_)) if wanted
    )
    inside = el(
        "table",
        el("caption", caption) if caption else None,
        el(
            "thead",
            above,
            el(
                "tr",
                (cell if isinstance(cell, Html) else el("th", cell, scope="col") for cell in head),
            ),
        ),
        el("tbody", (el("tr", row) for row in rows)),
        class_=classes or None,
    )
    return el("div", inside, class_="scroll", tabindex="0")


def name_cell(name: str) -> Html:
    """The head of a row."""
    return el("th", name, scope="row", title=name if len(name) > 24 else None)


def text_cell(value: str, *, wrap: bool = False) -> Html:
    """A cell of words."""
    return el("td", value, class_="wrap" if wrap else "text")


def number_cell(value: str) -> Html:
    """A cell of digits."""
    return el("td", value)


def estimate_cell(estimate: Estimate | None, decimals: int, *, best: bool) -> Html:
    """A value, bold where it is the best, over its interval."""
    if estimate is None:
        return el("td", "–")
    shown = join(show(estimate.value, decimals), caveat_mark(estimate.caveats))
    limits = limits_of(estimate.low, estimate.high, decimals)
    return el("td", shown, limits, class_="best" if best else None)


def limits_of(
    low: float | None,
    high: float | None,
    decimals: int,
    between: str = "–",
    *,
    signed: bool = False,
) -> Html | None:
    """The limits below a number, where it has some."""
    known = known_limits(low, high)
    if known is None:
        return None
    return el("i", between.join(show(end, decimals, signed=signed) for end in known))


def judged(pair: Comparison, digits: int) -> Html:
    """A difference, bold and in colour where the verdict says better or worse."""
    shown = show(pair.delta, digits, signed=True)
    is_told = pair.verdict in ("better", "worse")
    return el("b", shown, class_=pair.verdict) if is_told else join(shown)


def caveat_mark(caveats: str | None) -> Html | None:
    """A mark beside a number whose limits may say more than they know, and why they may."""
    return el("abbr", "!", title=caveats) if caveats else None


def behind(plot: Html | list[Html], numbers: Html, caption: str) -> Html:
    """A plot, or several across the page, the caption, and the numbers they are drawn from."""
    several = isinstance(plot, list) and len(plot) > 1
    return el(
        "figure",
        el("figcaption", caption),
        el("div", plot, class_="plots") if several else plot,
        el("details", el("summary", "Numbers"), numbers),
        class_="across" if several else None,
    )
