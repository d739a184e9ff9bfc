"""What experiments alone show: effects on one axis, and what was checked before any was read."""

from collections.abc import Sequence

from evalkit.report.entries import Comparison
from evalkit.report.html._detail import color_key
from evalkit.report.html._markup import Html, el, join
from evalkit.report.html._plots import Mark, Row, dot_plot
from evalkit.report.html._tables import number_cell, table, text_cell
from evalkit.report.record import Report

WIDE = 520.0


def judged_of(report: Report) -> Sequence[str]:
    """The leading metrics; of experiments those that are tested, not the raw ones beside them."""
    tested = {each.metric for each in report.comparisons if each.p_adjusted is not None}
    is_shown = report.kind != "experiment" or not tested
    return [label for label in report.leading if is_shown or label in tested]


def forest_plot(
    report: Report, baseline: str, comparisons: Sequence[Comparison]
) -> tuple[Html | None, set[str]]:
    """Relative effects of an experiment on one axis, and the metrics that are there: primary ones,
    then guardrails, then what else was tested.
    """
    order = {"primary": 0, "guardrail": 1}
    known = [e for e in comparisons if e.p_adjusted is not None and e.relative is not None]
    if report.kind != "experiment" or not known:
        return None, set()
    rows = []
    for metric in sorted(
        dict.fromkeys(each.metric for each in known),
        key=lambda name: min(order.get(e.family or "", 2) for e in known if e.metric == name),
    ):
        of = [each for each in known if each.metric == metric]
        marks = tuple(
            Mark(
                _percent(each.relative) or 0.0,
                _percent(each.relative_low),
                _percent(each.relative_high),
                report.models.index(each.candidate),
                (_percent(each.relative_low_adjusted), _percent(each.relative_high_adjusted)),
            )
            for each in of
        )
        verdict = of[0].shown_verdict if len(of) == 1 else ""
        rows.append(Row(metric, marks, verdict, _margin(report, of[0])))
    title = f"Effects in percent of {baseline}"
    about = ["Thick lines are limits of each metric by itself, thin ones of its whole family"]
    if any(row.against is not None for row in rows):
        about.append("a tick is the margin")
    plot = dot_plot(rows, title, zero=True, width=WIDE)
    figure = el("figure", el("figcaption", title), plot)
    key = color_key(report.models) if len(report.models) > 2 else None
    said = el("p", f"{'; '.join(about)}.", class_="soft")
    return join(el("div", figure, class_="plots wide"), key, said), {each.metric for each in known}


def _margin(report: Report, of: Comparison) -> float | None:
    """The effect that would be too bad, in percent."""
    estimate, margin = report.estimate(of.candidate, of.metric, None, None), of.margin_relative
    is_down = estimate is not None and estimate.higher_is_better is False
    return None if margin is None else (100.0 if is_down else -100.0) * margin


def _percent(number: float | None) -> float | None:
    return None if number is None else 100.0 * number


def checks_section(report: Report) -> Html | None:
    """Sample ratio, balance of covariates, trends: what must hold before effects are read."""
    if report.kind != "experiment" or not report.checks:
        return None
    rows = [
        [
            text_cell(each.check),
            el("td", el("b", each.verdict, class_=_WORDS.get(each.verdict)), class_="text"),
            text_cell(each.model or "all"),
            text_cell(each.segment or "all units", wrap=True),
            *(
                number_cell("–" if number is None else f"{number:.4g}")
                for number in (each.value, each.expected, each.p_value)
            ),
        ]
        for each in report.checks
    ]
    names = ("check", "verdict", "variant", "units or metric")
    head = [el("th", each, class_="text", scope="col") for each in names]
    shown = table([*head, "value", "expected", "p"], rows)
    return join(el("h2", "Checks", id="checks"), shown)


_WORDS = {"ok": "pass", "warn": "unclear", "fail": "fail"}
