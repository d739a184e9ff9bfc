"""A page of past experiments: offline against online effects, and what gates would have done."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from evalkit.report.html._markup import Html, el, join
from evalkit.report.html._plots import Spot, trade_plot
from evalkit.report.html._tables import behind, number_cell, table, text_cell
from evalkit.report.surrogates import Surrogates

if TYPE_CHECKING:
    import polars as pl

TITLES = {
    "numbers": "How well offline predicted online",
    "decisions": "Decisions offline and online",
    "past_gates": "Past gates over all experiments",
    "gates": "Every max_drop",
}
MOST_PLOTS = 6
MOST_NAMED = 8  # spots that have their names
REACH = 1.96


def surrogates_body(found: Surrogates) -> Html:
    """The sentence, the plot of both sides, and the tables."""
    told = [el("li", each) for each in found.warnings]
    parts = [
        el("p", f"{found.sentence}.", class_="verdict"),
        el("ul", told, class_="warnings") if told else None,
        el("h2", "Both sides", id="both"),
        el("div", list(_plots(found.experiments)), class_="plots"),
    ]
    for name, title in TITLES.items():
        if name in found.tables:
            shown = _table(found.tables[name])
            if name == "gates":
                shown = el("details", el("summary", "Numbers"), shown)
            parts += [el("h2", title, id=name), shown]
    return join(*parts)


def _plots(experiments: "pl.DataFrame") -> Iterator[Html]:
    has_metrics = "metric" in experiments.columns
    metrics = experiments["metric"].unique(maintain_order=True).to_list() if has_metrics else [None]
    for metric in metrics[:MOST_PLOTS]:
        rows = [e for e in experiments.to_dicts() if metric is None or e["metric"] == metric]
        spots = [_spot(row, is_named=len(rows) <= MOST_NAMED) for row in rows]
        title = f"online effect by offline difference{f' of {metric}' if metric else ''}"
        of_one = experiments if metric is None else experiments.filter(metric=metric)
        yield behind(trade_plot(spots, title, "offline difference"), _table(of_one), title)


def _spot(row: Mapping[str, object], *, is_named: bool) -> Spot:
    def limits(name: str) -> tuple[float, float, float]:
        value, error = float(str(row[name])), float(str(row[f"{name}_error"]))
        return value, value - REACH * error, value + REACH * error

    name = str(row.get("experiment") or "") if is_named else ""
    return Spot(name, 0, limits("offline"), limits("online"), is_best=False)


def _table(frame: "pl.DataFrame") -> Html:
    classes = ["text" if str(dtype) == "String" else None for dtype in frame.dtypes]
    head = [
        el("th", name.replace("_", " "), class_=each, scope="col")
        for name, each in zip(frame.columns, classes, strict=True)
    ]
    rows = [[_cell(value) for value in row] for row in frame.iter_rows()]
    return table(head, rows)


def _cell(value: object) -> Html:
    if isinstance(value, str):
        return text_cell(value)
    if value is None:
        return number_cell("–")
    return number_cell(f"{value:,}" if isinstance(value, int) else f"{value:.4g}")
