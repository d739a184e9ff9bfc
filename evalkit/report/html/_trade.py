"""What accuracy costs: models by a metric of accuracy and one of what their lists are like."""

import math
from collections.abc import Sequence

from evalkit.metrics import registry, registry_of
from evalkit.report.entries import Estimate
from evalkit.report.html._markup import Html, el, section
from evalkit.report.html._plots import Spot, trade_plot
from evalkit.report.html._tables import behind, estimate_cell, name_cell, table
from evalkit.report.record import Report
from evalkit.report.text import decimals_of

FIRST = ("novelty", "item_coverage")  # what is shown against accuracy, then the config's order
MOST_PLOTS = 3


def trade_section(report: Report) -> Html | None:
    """The first metric of accuracy against up to three of lists, where there are two models."""
    directed = [
        label
        for label in report.leading
        if (found := _of_all(report, label)) and found[0].higher_is_better is not None
    ]
    of_lists = [label for label in directed if _is_of_lists(_of_all(report, label)[0].name)]
    accuracy = next((label for label in directed if label not in of_lists), None)
    if accuracy is None or not of_lists:
        return None
    first = [each for name in FIRST for each in of_lists if _of_all(report, each)[0].name == name]
    seen: dict[str, str] = {}
    for label in (*first, *of_lists):
        seen.setdefault(_of_all(report, label)[0].name, label)
    figures = [_figure(report, accuracy, label) for label in [*seen.values()][:MOST_PLOTS]]
    drawn = [each for each in figures if each is not None]
    if not drawn:
        return None
    note = "On the dashed line no other model is at least as good in both, and better in one."
    return section("What it costs", "trade", note, el("div", drawn, class_="plots"))


def _is_of_lists(name: str) -> bool:
    """Whether a metric is one of lists, whose files are read last."""
    return name not in registry() and name in registry_of("lists")


def _of_all(report: Report, label: str) -> list[Estimate]:
    """A metric of every model, over all users."""
    found = (report.estimate(model, label, None, None) for model in report.models)
    return [each for each in found if each is not None]


def _figure(report: Report, across: str, up: str) -> Html | None:
    series = {model: place for place, model in enumerate(report.models)}
    ups = {each.model: each for each in _of_all(report, up)}
    pairs = [
        (each, ups[each.model])
        for each in _of_all(report, across)
        if each.model in ups and math.isfinite(each.value) and math.isfinite(ups[each.model].value)
    ]
    if len(pairs) < 2:
        return None
    front = pareto(pairs)
    spots = [
        Spot(
            x.model,
            series[x.model],
            (x.value, x.low, x.high),
            (y.value, y.low, y.high),
            x.model in front,
        )
        for x, y in pairs
    ]
    digits = [decimals_of([pair[side] for pair in pairs]) for side in (0, 1)]
    rows = [
        [
            name_cell(x.model),
            estimate_cell(x, digits[0], best=False),
            estimate_cell(y, digits[1], best=False),
            el("td", "yes" if x.model in front else "no"),
        ]
        for x, y in pairs
    ]
    numbers = table(["model", across, up, "on the front"], rows)
    down, left = (
        " (lower is better)" if each.higher_is_better is False else "" for each in pairs[0][::-1]
    )
    title = f"{up}{down} by {across}"
    return behind(trade_plot(spots, title, across + left), numbers, title)


def pareto(pairs: Sequence[tuple[Estimate, Estimate]]) -> list[str]:
    """The models that none of the others is as good as in both, and better in one."""

    def goods(pair: tuple[Estimate, Estimate]) -> tuple[float, ...]:
        return tuple(each.value if each.higher_is_better else -each.value for each in pair)

    points = {pair[0].model: goods(pair) for pair in pairs}
    return [
        model
        for model, mine in points.items()
        if not any(
            other != mine and all(a >= b for a, b in zip(other, mine, strict=True))
            for other in points.values()
        )
    ]
