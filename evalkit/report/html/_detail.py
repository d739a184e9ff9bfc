"""What a person looks at next: curves, segments, distributions, who beats whom."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence

from evalkit.report.entries import Curve, Graph
from evalkit.report.html import _plots, _tables
from evalkit.report.html._markup import Html, el, join, section
from evalkit.report.html._scale import show
from evalkit.report.record import Report, of_all_users
from evalkit.report.text import count_noun, decimals_for, decimals_of
from evalkit.report.turning import turned

MOST_POINTS = 24  # of a drawn curve
MOST_DRAWN = 28  # points of a graph
MOST_LISTED = 12  # of them in its table
MOST_CURVES = 2
OF_SHOWN = ("lorenz", "popularity", "exposure", "genres")  # kinds of graphs
PATH = "path-over-looks"
OF_WEIGHTS = ("path-of-caps", "weights")  # over powers of 2
THRESHOLDS = {"precision-recall-by-cutoff": "cutoff", "path-of-caps": "cap", "weights": "up to"}
DIAGONAL = ("roc", "calibration", "lorenz")


def color_key(models: Iterable[str]) -> Html:
    """Which colour is which model."""
    keys = (el("li", _plots.swatch(place), model) for place, model in enumerate(models))
    return el("ul", keys, class_="key")


def curves_section(report: Report) -> Html | None:
    """Metrics over their cutoffs."""
    curves = list(report.curves) or list(_curves_of_estimates(report))
    by_metric: dict[str, list[Curve]] = {}
    for curve in curves:
        if len(curve.cutoffs) > 1:
            by_metric.setdefault(curve.metric, []).append(curve)
    if not by_metric:
        return None
    series = {model: place for place, model in enumerate(report.models)}
    figures = []
    leading = [label.rpartition("@")[0] for label in report.leading]
    ordered = dict.fromkeys([*(each for each in leading if each in by_metric), *by_metric])
    for metric in list(ordered)[:MOST_CURVES]:
        of = by_metric[metric]
        lines = [_line(curve, series.get(curve.model, 0)) for curve in of]
        plot = _plots.curve_plot(lines, f"{metric} by cutoff", "cutoff")
        figures.append(_tables.behind(plot, _curve_table(of), metric))
    left_out = len(by_metric) - len(figures)
    note = f"{count_noun(left_out, 'more metric')} by cutoff: see report.json."
    drawn = el("div", figures, class_="plots")
    return section("By cutoff", "cutoffs", note if left_out > 0 else None, drawn)


def _line(curve: Curve, series: int) -> _plots.Line:
    """The curve to be drawn: every point of a short one; of a long one fewer, the deeper."""
    last = len(curve.cutoffs) - 1
    places = list(range(last + 1))
    if last >= MOST_POINTS:
        growing = (round(last * (step / (MOST_POINTS - 1)) ** 2) for step in range(MOST_POINTS))
        places = sorted({*range(5), *growing})
    return _plots.Line(
        curve.model,
        series,
        tuple(float(curve.cutoffs[place]) for place in places),
        tuple(curve.values[place] for place in places),
        tuple(curve.low[place] for place in places),
        tuple(curve.high[place] for place in places),
    )


def _curves_of_estimates(report: Report) -> Iterator[Curve]:
    found: dict[tuple[str, str], list[tuple[int, float, float | None, float | None]]] = {}
    for estimate in report.estimates:
        if estimate.cutoff is not None and estimate.segment is None:
            key = (estimate.metric.rpartition("@")[0], estimate.model)
            found.setdefault(key, []).append(
                (estimate.cutoff, estimate.value, estimate.low, estimate.high)
            )
    for (metric, model), points in found.items():
        cutoffs, values, low, high = zip(*sorted(points, key=lambda point: point[0]), strict=True)
        yield Curve(model, metric, cutoffs, values, low, high)


def _curve_table(curves: Sequence[Curve]) -> Html:
    cutoffs = sorted({cutoff for curve in curves for cutoff in curve.cutoffs})
    if len(cutoffs) > 8:
        wanted = {1, 5, 10, 20, 50, 100, 1000, cutoffs[0], cutoffs[-1]}
        cutoffs = [cutoff for cutoff in cutoffs if cutoff in wanted]
    widths = [
        (high - low) / 2
        for curve in curves
        for low, high in zip(curve.low, curve.high, strict=True)
        if low is not None and high is not None
    ]
    digits = decimals_for(widths, [value for curve in curves for value in curve.values])
    rows = []
    for curve in curves:
        known = {
            cutoff: (value, low, high)
            for cutoff, value, low, high in zip(
                curve.cutoffs, curve.values, curve.low, curve.high, strict=True
            )
        }
        cells = []
        for cutoff in cutoffs:
            value, low, high = known.get(cutoff, (math.nan, None, None))
            cells.append(_limited_cell(0, [value], [low], [high], digits))
        rows.append([_tables.name_cell(curve.model), *cells])
    return _tables.table(["model", *(f"@{cutoff}" for cutoff in cutoffs)], rows, pin=True)


_Limits = Sequence[float | None]


def graphs_section(report: Report) -> Html | None:
    """Curves of scored rows and of rating errors: ROC, calibration, ..."""
    return _graphs(report, "graphs", "Curves", of_shown=False)


def shown_section(report: Report) -> Html | None:
    """How lists are spread over items."""
    return _graphs(report, "shown", "What was shown", of_shown=True)


def _graphs(report: Report, at: str, name: str, *, of_shown: bool) -> Html | None:
    by_kind: dict[tuple[str, str], list[Graph]] = {}
    for graph in report.graphs:
        if len(graph.x) > 1 and (graph.kind in OF_SHOWN) == of_shown:
            by_kind.setdefault((graph.kind, graph.y_name), []).append(graph)
    if not by_kind:
        return None
    drawn = dict.fromkeys(graph.model for graphs in by_kind.values() for graph in graphs)
    series = {model: place for place, model in enumerate(dict.fromkeys((*report.models, *drawn)))}
    figures = []
    for (kind, _), graphs in by_kind.items():
        named = kind.upper() if kind in ("roc", "det") else kind.replace("-", " ").capitalize()
        if graphs[0].groups:
            figures.append(_groups_figure(graphs, series, f"{named}: {graphs[0].y_name}"))
            continue
        title = f"{named}: {graphs[0].y_name} by {graphs[0].x_name}"
        lines = [_thinned(graph, series.get(graph.model, 0)) for graph in graphs]
        x_texts = _powers_of_2 if kind in OF_WEIGHTS else None
        plot = _plots.curve_plot(
            lines, title, graphs[0].x_name, diagonal=kind in DIAGONAL, x_texts=x_texts
        )
        figures.append(_tables.behind(plot, _graph_table(graphs), title))
    has_bands = any(graph.low for graphs in by_kind.values() for graph in graphs)
    note = "A band is the interval of each point by itself, with users as drawn."
    if PATH in {kind for kind, _ in by_kind}:
        note += " That of a path over looks is its boundary: outside it, an effect is found, also "
        note += "where others of its family are tested."
    key = color_key(series) if len(series) > len(report.models) else None
    plots = el("div", figures, class_="plots")
    return section(name, at, note if has_bands else None, key, plots)


def _powers_of_2(places: Sequence[float]) -> list[str]:
    return [f"{2.0**place:.3g}" for place in places]


def _places(graph: Graph, most: int) -> list[int]:
    """About `most` of a graph's points, the first and the last among them."""
    last = len(graph.x) - 1
    step = max(1.0, last / (most - 1))
    return sorted({min(round(number * step), last) for number in range(most)} | {last})


def _thinned(graph: Graph, series: int) -> _plots.Line:
    places = _places(graph, MOST_DRAWN)
    nothing = (None,) * len(graph.x)
    limits = (graph.low, graph.high, graph.x_low, graph.x_high)
    return _plots.Line(
        graph.model,
        series,
        tuple(graph.x[place] for place in places),
        tuple(graph.y[place] for place in places),
        *(tuple((each or nothing)[place] for place in places) for each in limits),
    )


def _graph_table(graphs: Sequence[Graph]) -> Html:
    digits = decimals_for([], [each for graph in graphs for each in graph.y])
    rows = []
    for graph in graphs:
        for place in _places(graph, MOST_LISTED):
            cells = [_tables.name_cell(graph.model)]
            if graph.thresholds:
                cells.append(_tables.number_cell(f"{graph.thresholds[place]:.4g}"))
            cells.append(_limited_cell(place, graph.x, graph.x_low, graph.x_high, digits))
            cells.append(_limited_cell(place, graph.y, graph.low, graph.high, digits))
            rows.append(cells)
    from_ = THRESHOLDS.get(graphs[0].kind, "from score")
    head = ["model", *([from_] if graphs[0].thresholds else [])]
    return _tables.table([*head, graphs[0].x_name, graphs[0].y_name], rows, pin=True)


def _groups_figure(graphs: Sequence[Graph], series: Mapping[str, int], title: str) -> Html:
    """Groups as rows, a mark for each model; what they are held against as a line, and beside it.

    That is their share of the items, the same for all models, or of each model's users' train rows.
    """
    rows, lines = [], []
    of_all = len({graph.x for graph in graphs}) == 1
    against = graphs[:1] if of_all else graphs
    name = graphs[0].x_name
    title += f"; lines and percents: {name}"
    if len(graphs[0].groups) > MOST_DRAWN:
        title += f", the {MOST_DRAWN} groups with the most items; more are in report.json"
    digits = decimals_for([], [each for graph in graphs for each in (*graph.x, *graph.y)])
    for place, group in enumerate(graphs[0].groups[:MOST_DRAWN]):
        marks = tuple(
            _plots.Mark(g.y[place], *_limits_at(g.low, g.high, place), series.get(g.model, 0))
            for g in graphs
        )
        x = graphs[0].x[place]
        rows.append(_plots.Row(group, marks, f"{x:.1%}", x))
        cells = [_limited_cell(place, g.x, g.x_low, g.x_high, digits) for g in against]
        cells += [_limited_cell(place, g.y, g.low, g.high, digits) for g in graphs]
        lines.append([_tables.name_cell(group), *cells])
    head = [name] if of_all else [f"{graph.model}: {name}" for graph in graphs]
    numbers = _tables.table(["group", *head, *(g.model for g in graphs)], lines, pin=True)
    return _tables.behind(_plots.dot_plot(rows, title, zero=True), numbers, title)


def _limits_at(lows: _Limits, highs: _Limits, place: int) -> tuple[float | None, float | None]:
    return lows[place] if lows else None, highs[place] if highs else None


def _limited_cell(
    place: int, values: Sequence[float], lows: _Limits, highs: _Limits, digits: int
) -> Html:
    """A number with its limits, where it has some."""
    limits = _tables.limits_of(*_limits_at(lows, highs, place), digits)
    return el("td", show(values[place], digits), limits)


def matrix_section(report: Report) -> Html | None:
    """Every pair of models by the first metric that pairs were compared by."""
    overall = of_all_users(report).comparisons
    compared = {each.metric for each in overall}
    metric = next((label for label in report.leading if label in compared), None)
    if metric is None or len({each.baseline for each in overall}) < 2:
        return None
    pairs = [each for each in overall if each.metric == metric]
    of = {(each.candidate, each.baseline): each for each in map(turned, pairs)}
    of |= {(each.candidate, each.baseline): each for each in pairs}
    models = [model for model in report.models if any(model in pair for pair in of)]
    digits = decimals_of(pairs)
    rows = []
    for row in models:
        found = [of.get((row, column)) for column in models]
        cells = [
            el("td", "" if e is None else (_tables.judged(e, digits), el("i", e.verdict)))
            for e in found
        ]
        rows.append([_tables.name_cell(row), *cells])
    title = f"{metric}: row less column"
    numbers = _tables.table(["", *models], rows, caption=title, pin=True, sortable=False)
    return join(el("h2", "Every pair", id="pairs"), numbers)
