"""How far segments are apart in rates of labels."""

from evalkit.report.html._markup import Html, el, join
from evalkit.report.html._scale import show
from evalkit.report.html._tables import limits_of, name_cell, table
from evalkit.report.record import Report
from evalkit.report.text import decimals_for

MOST_ROWS = 1_000


def gaps_section(report: Report) -> Html | None:
    """A row a model, metric and segmentation."""
    if not report.gaps:
        return None
    digits = decimals_for([], [gap.delta for gap in report.gaps])
    rows = []
    for gap in report.gaps[:MOST_ROWS]:
        limits = limits_of(gap.low, gap.high, digits)
        names = (gap.model, gap.metric, gap.segmentation, gap.highest, gap.lowest)
        rows.append([*map(name_cell, names), el("td", show(gap.delta, digits), limits)])
    head = ["model", "metric", "by", "highest", "lowest", "difference"]
    note = "The interval holds for all pairs of segments at once."
    return join(
        el("h3", "Largest differences between segments"),
        el("p", note, class_="soft"),
        table(head, rows, pin=True),
    )
