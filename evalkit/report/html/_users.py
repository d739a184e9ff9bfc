"""Single users: who gains and who loses, and how values are spread."""

import math

from evalkit.report.answer import answer_of
from evalkit.report.differences import user_differences
from evalkit.report.html._grids import sorted_differences
from evalkit.report.html._markup import Html, el, join
from evalkit.report.html._plots import histogram
from evalkit.report.html._scale import show
from evalkit.report.html._tables import behind, number_cell, table
from evalkit.report.record import Report
from evalkit.report.text import count_noun, count_words, decimals_for, units_of

MOST_DISTRIBUTIONS = 6
MOST_DIFFERENCES = 4  # models whose users are drawn one by one
MOST_USERS = 200_000  # whose values a page reads


def users_section(report: Report, *, whole: bool = False) -> Html | None:
    """Who gains and who loses, user by user, and how values are spread."""
    parts = [_differences(report, whole=whole), _distributions(report)]
    if not any(parts):
        return None
    return join(el("h2", f"Single {units_of(report)}", id="users"), *parts)


def _differences(report: Report, *, whole: bool) -> Html | None:
    """Each model's differences to the reference by the metric that decides, sorted."""
    answer = answer_of(report)
    kept, reference = report.per_user_values, answer.reference
    most = max((each.n_users for each in answer.pairs.values()), default=0)
    if kept is None or reference is None or (most > MOST_USERS and not whole):
        return None
    of = report.estimate(reference, answer.metric, None, None)
    turned = of is not None and of.higher_is_better is False
    asked = {shown: label for label, shown in report.shown.items()}
    figures = []
    for model in [each for each in answer.models if each != reference][:MOST_DIFFERENCES]:
        found = user_differences(
            *(report, asked.get(answer.metric, answer.metric), reference, model),
            lower_is_better=turned,
        )
        if found is None:
            continue
        title = f"{answer.metric} user by user: {model} less {reference}"
        shares = [f"{share:.1%}" for share in (found.gain, found.same, found.lose)]
        told = (f"{shares[0]} gain", f"{shares[1]} the same", f"{shares[2]} lose")
        places = sorted({round(n * (len(found.points) - 1) / 10) for n in range(11)})
        rows = [
            [number_cell(f"{at:.1%}"), number_cell(f"{value:+.6f}")]
            for at, value in (found.points[place] for place in places)
        ]
        numbers = table(["users up to", "difference"], rows, sortable=False)
        plot = sorted_differences(found.points, told, title, turned=turned)
        said = el("p", f"{', '.join(told)}, of {count_noun(found.n_users, 'user')}.", class_="soft")
        figures.append(el("div", behind(plot, numbers, title), said))
    return el("div", figures, class_="plots") if figures else None


def _distributions(report: Report) -> Html | None:
    if not report.distributions:
        return None
    series = {model: place for place, model in enumerate(report.models)}
    labels = report.leading
    found = sorted(
        (each for each in report.distributions if all(map(math.isfinite, each.edges))),
        key=lambda each: labels.index(each.metric) if each.metric in labels else len(labels),
    )
    figures, counted = [], {each.metric: _counted(report, each.metric) for each in found}
    tallest: dict[str, int] = {}
    for each in found:
        tallest[each.metric] = max(tallest.get(each.metric, 0), *each.counts)
    for distribution in found[:MOST_DISTRIBUTIONS]:
        unit = counted[distribution.metric]
        title = f"{distribution.metric} of {distribution.model}: {unit} by value"
        color, most = series.get(distribution.model, 0), tallest[distribution.metric]
        plot = histogram(
            distribution.edges, distribution.counts, title, series=color, most=most, units=unit
        )
        total = max(sum(distribution.counts), 1)
        digits = decimals_for([], distribution.edges)
        rows = [
            [
                el("td", f"{show(low, digits)}–{show(high, digits)}"),
                number_cell(f"{count:,}"),
                number_cell(f"{100 * count / total:.1f} %"),
            ]
            for low, high, count in zip(
                distribution.edges, distribution.edges[1:], distribution.counts, strict=False
            )
            if count
        ]
        figures.append(
            behind(
                plot,
                table(["value", unit, "share"], rows),
                f"{distribution.metric}, {distribution.model}",
            )
        )
    told = " and ".join(dict.fromkeys(counted.values()))
    return join(
        el("p", f"How many {told} have which value; one scale for a metric.", class_="soft"),
        el("div", figures, class_="plots"),
    )


def _counted(report: Report, metric: str) -> str:
    """What a histogram counts: users, or rated pairs where it is of residuals."""
    return "pairs" if metric == "residual" else f"{count_words(report).unit}s"
