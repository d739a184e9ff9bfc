"""What logged feedback alone shows: estimators side by side, and what weights they stand on."""

from evalkit.report.html._markup import Html, el, join
from evalkit.report.html._plots import Mark, Row, dot_plot
from evalkit.report.html._tables import name_cell, number_cell, table
from evalkit.report.record import Report
from evalkit.report.weights import COLUMNS, EFFECTIVE, SHARES, weight_rows

LOGGING = "(logging)"
MOST_SEGMENTS = 100


def weights_section(report: Report) -> Html | None:
    """Estimators on one axis; effective rounds, large weights and support; by segment."""
    head, rows = weight_rows(report)
    if not rows:
        return None
    series = {model: place for place, model in enumerate(report.models)}
    found = {(each.check, each.model): each for each in report.checks if each.segment is None}
    values = []
    for label in report.labels:
        of = [each for each in report.estimates if (each.metric, each.segment) == (label, None)]
        if any(each.model == LOGGING for each in of):  # no metric of rankings has it
            marks = (Mark(each.value, each.low, each.high, series[each.model]) for each in of)
            values.append(Row(label, tuple(marks)))
    shares = []
    for name in SHARES:
        of_models = [(model, found.get((name, model))) for model in report.models]
        known = [
            (model, each.value) for model, each in of_models if each and each.value is not None
        ]
        if known:
            marks = (Mark(value, None, None, series[model]) for model, value in known)
            shares.append(Row(COLUMNS[name], tuple(marks)))
    plots = [("Estimators side by side", values), ("Shares of value, rounds and mass", shares)]
    figures = [
        el("figure", el("figcaption", title), dot_plot(of_plot, title, zero=True))
        for title, of_plot in plots
        if of_plot
    ]
    return join(
        el("h2", "Weights", id="weights"),
        table(head, [[name_cell(row[0]), *map(number_cell, row[1:])] for row in rows]),
        el("div", figures, class_="plots"),
        _by_segment(report),
    )


def _by_segment(report: Report) -> Html | None:
    """Effective rounds of each target in each segment."""
    found: dict[str, dict[str, str]] = {}
    for outcome in report.checks:
        if outcome.check == EFFECTIVE and outcome.segment is not None and outcome.model is not None:
            mark = "" if outcome.verdict == "ok" else " !"
            found.setdefault(outcome.segment, {})[outcome.model] = (
                f"{outcome.value or 0.0:,.0f}{mark}"
            )
    models = [model for model in report.models if any(model in of for of in found.values())]
    rows = [
        [name_cell(segment), *(number_cell(of.get(model, "–")) for model in models)]
        for segment, of in list(found.items())[:MOST_SEGMENTS]
    ]
    return table(["effective rounds of", *models], rows) if rows else None
