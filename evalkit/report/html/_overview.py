"""What a person looks at first: verdict, what changed, the models."""

import math
import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby

from evalkit.report import findings, text
from evalkit.report.answer import Answer, answer_of, best_first
from evalkit.report.comparisons import further_columns, how_corrected, show_p
from evalkit.report.decision import decision_kind
from evalkit.report.entries import Comparison, Estimate, Gate
from evalkit.report.html import _tables
from evalkit.report.html._experiment import forest_plot, judged_of
from evalkit.report.html._markup import Html, el, join, section
from evalkit.report.html._plots import Mark, Row, dot_plot
from evalkit.report.html._scale import show
from evalkit.report.nights import tell_nights
from evalkit.report.record import Report, finite, of_all_users
from evalkit.report.shown import definitions
from evalkit.report.turning import against
from evalkit.report.verdict import verdict_of

MOST_COLUMNS = 10
MOST_BASELINES = 3
MOST_COMPARISONS = 12
MOST_PASSED = 4  # gates beside others
MOST_FAILED = 3  # gates that the verdict names
_WORDS = {"pass": "pass", "fail": "fail", "cannot tell": "unclear"}
_SIGNS = {"pass": "✓", "fail": "✗", "cannot tell": "?"}


def verdict_section(report: Report) -> Html:
    """What is better, worse or undecided; how the gates went, and every one of them."""
    verdict, answer = verdict_of(report), answer_of(report)
    said, decides = answer.said, answer.decides
    kind, notes = _KINDS.get(answer.kind, ""), []
    if decides:
        kind = decision_kind(report)
    if report.gates:
        kind, decision = "fail" if not verdict.is_fine else kind if decides else "pass", said
        said = f"Failed: {verdict.failed} of {text.count_noun(len(report.gates), 'gate')}"
        if verdict.is_fine:
            said = f"Fine: {verdict.passed} of {text.count_noun(len(report.gates), 'gate')} passed"
            said += f", {verdict.unclear} cannot tell" if verdict.unclear else ""
        said, beside = (decision, said) if decides else (said, decision)
        notes = [f"{beside}."]
        failed = [f"{gate.message}." for gate in report.gates if gate.fails]
        notes += failed[:MOST_FAILED]
        if len(failed) > MOST_FAILED:
            notes.append(f"{len(failed) - MOST_FAILED} more below.")
    if report.warnings:
        notes.append(f"{text.count_noun(len(report.warnings), 'warning')}.")
    line = el("p", said, el("small", " ".join(notes)), class_=f"verdict {kind}".strip())
    over_nights = [el("p", each) for each in tell_nights(report.nights)]
    gates: Sequence[Gate] = report.gates
    if report.kind == "experiment":  # groups of units are no pairs
        gates = [replace(e, judged_by=e.judged_by.replace("paired", "apart")) for e in gates]
    return join(line, _tiles(report), *over_nights, _gates(gates))


def _gates(gates: Sequence[Gate]) -> Html | None:
    """What the gates found; many that passed are folded away."""
    passed = [each for each in gates if each.outcome == "pass"]
    others = [each for each in gates if each.outcome != "pass"]
    if not others or len(passed) <= MOST_PASSED:
        return _gate_table(gates) if gates else None
    said = el("summary", f"{text.count_noun(len(passed), 'gate')} passed")
    return join(_gate_table(others), el("details", said, _gate_table(passed)))


_KINDS = {"better": "pass", "worse": "fail", "undecided": "unclear"}
MOST_TILES = 4


def _tiles(report: Report) -> Html | None:
    """The leading metrics as large numbers: the best model of each, and what it is better by."""
    tiles = []
    for label in one_of_each_metric(judged_of(report))[:MOST_TILES]:
        answer = answer_of(report, label)
        best = next(iter(answer.models), "")
        found = report.estimate(best, label, None, None)
        if found is None or math.isnan(found.value):
            continue
        pair = answer.pairs.get(best)
        beside = None
        if pair is not None:
            digits = text.decimals_of([pair])
            kind = pair.verdict if pair.verdict in ("better", "worse") else None
            beside = join(
                f"{show(pair.delta, digits, signed=True)} to {pair.baseline}: ",
                el("b", pair.shown_verdict, class_=kind),
            )
        elif best == answer.reference:
            beside = join("no other model is ahead of it")
        tiles.append(
            el(
                "li",
                el("span", label),
                el("strong", show(found.value, text.decimals_of([found]))),
                el("span", best),
                el("small", beside) if beside is not None else None,
            )
        )
    return el("ul", tiles, class_="tiles") if tiles else None


def _gate_table(gates: Sequence[Gate]) -> Html:
    rows = []
    ordered = sorted(gates, key=lambda each: (not each.fails, each.outcome == "pass"))
    for gate in ordered:
        outcome = el(
            "b", f"{_SIGNS.get(gate.outcome, '')} {gate.outcome}", class_=_WORDS.get(gate.outcome)
        )
        if gate.outcome == "cannot tell" and gate.fails:
            outcome = join(outcome, " (fails)")
        where = f"{gate.segmentation} = {gate.segment}" if gate.segment is not None else "all users"
        rows.append(
            [
                el("td", outcome),
                _tables.text_cell(gate.metric),
                _tables.text_cell(gate.model or "truth"),
                _tables.text_cell(where),
                _tables.text_cell(gate.message, wrap=True),
                el(
                    "td",
                    _JUDGED.get(gate.judged_by, gate.judged_by),
                    _run_link(gate),
                    class_="text",
                ),
            ]
        )
    head = ["outcome", *(el("th", each, class_="text", scope="col") for each in _GATE_HEAD)]
    return _tables.table(head, rows, sortable=len(rows) > 3, class_="stack")


def _run_link(gate: Gate) -> Html | None:
    """A link to the page of the run that a gate compared with, a neighbour of this one."""
    run = gate.baseline_run
    if run is None or not RUN_ID.fullmatch(run) or "/" in (gate.baseline or ""):
        return None
    return el("i", el("a", run, href=f"../{run}/report.html"))


RUN_ID = re.compile(r"\d{8}-\d{6}-\d{3}-[0-9a-f]{6}")
_GATE_HEAD = ("metric", "model", "users", "what was found", "judged by")
_JUDGED = {
    "bound": "interval of the value",
    "paired": "interval of the paired difference",
    "apart": "interval of the difference",
    "independent": "independent intervals",
    "count": "count",
}


def changes_section(report: Report) -> Html | None:
    """Every other model against the baseline, over all users."""
    chosen = of_all_users(report).comparisons
    if not chosen:
        return None
    used = report.statistics
    parts: list[Html] = []
    answer = answer_of(report)
    named = used.baseline if used is not None else None
    reference = named if named and against(chosen, named) else answer.reference
    asked = against(chosen, reference) if reference else []
    if reference and asked:
        parts.append(_changes(report, reference, asked))
    else:
        baselines = list(dict.fromkeys(each.baseline for each in chosen))
        for baseline in baselines[:MOST_BASELINES]:
            of = [each for each in chosen if each.baseline == baseline]
            parts.append(_changes(report, baseline, of))
        if len(baselines) > MOST_BASELINES:
            note = f"Comparisons with {len(baselines) - MOST_BASELINES} more are in report.json."
            parts.append(el("p", note, class_="soft"))
    how = f"{reference} is the best of all by {answer.metric}. " if reference != named else ""
    if used is not None:
        corrected = how_corrected(used, chosen)
        paired = f"Paired by user; {text.show_level(used.level)} intervals; test: {used.test}. "
        apart = f"Groups of units apart; {text.show_level(used.level)} intervals. "
        how += apart if report.kind == "experiment" else paired
        if corrected:
            how += f"Verdicts, their p and limits are corrected: {corrected}. "
        if {"primary", "exploratory"} <= {each.family for each in chosen}:
            is_guarded = any(each.family == "guardrail" for each in chosen)
            how += (
                "Guardrails must all hold, uncorrected; what is neither is exploratory."
                * is_guarded
            )
            how += "Comparisons by other than primary metrics are exploratory." * (not is_guarded)
    return section(f"Compared with {reference}" if asked else "Compared", "changes", how, parts)


def findings_section(report: Report) -> Html | None:
    """The segments in which a model loses or gains against another."""
    if not findings.searches(report):
        return None
    note = (
        f"{findings.NOTE.capitalize()}." if report.findings else f"{findings.NOTHING.capitalize()}."
    )
    parts: list[Html] = []
    for found in findings.found_by_pair(report, most=findings.MOST_ON_PAPER):
        rows = [
            [
                el("td", el("b", kind, class_="worse" if kind == "loss" else "better")),
                _tables.text_cell(metric),
                _tables.text_cell(segment, wrap=True),
                el("td", delta, None if low == "-" else el("i", f"{low} … {high}")),
                _tables.number_cell(users),
            ]
            for kind, metric, segment, delta, low, high, users in found.rows
        ]
        head = [el("th", each, class_="text", scope="col") for each in findings.HEAD[:3]]
        more = f"{found.left_out} more are in report.json." if found.left_out else None
        shown = _tables.table([*head, "delta", "users"], rows)
        more = el("p", more, class_="soft") if more else None
        parts.append(el("div", el("h3", found.title), shown, more))
    shown = el("div", parts, class_="plots wide")
    return section(findings.TITLE.capitalize(), "findings", note, shown)


def _changes(report: Report, baseline: str, comparisons: Sequence[Comparison]) -> Html:
    series = {model: place for place, model in enumerate(report.models)}
    measured, plots = {each.metric for each in comparisons}, []
    forest, on_one_axis = forest_plot(report, baseline, comparisons)
    compared = [each for each in judged_of(report) if each in measured and each not in on_one_axis]
    for metric in one_of_each_metric(compared)[:4]:
        of = [
            each
            for model in answer_of(report, metric).models
            for each in comparisons
            if (each.metric, each.candidate) == (metric, model)
        ]
        rows = [
            Row(
                each.candidate,
                (Mark(each.delta, *each.judged_limits, series.get(each.candidate, 0)),),
                each.shown_verdict,
            )
            for each in of
        ]
        title = f"{metric}: difference to {baseline}"
        plots.append(el("figure", el("figcaption", title), dot_plot(rows, title, zero=True)))
    order = {label: place for place, label in enumerate(report.leading)}
    shown = sorted(comparisons, key=lambda each: order.get(each.metric, len(order)))
    numbers = comparison_table(shown[:MOST_COMPARISONS])
    if len(shown) > MOST_COMPARISONS:
        said = f"{MOST_COMPARISONS} of {len(shown)} comparisons with {baseline}"
        said += "; report.json has all"
        numbers = el("details", el("summary", said), numbers)
    return join(forest, el("div", plots, class_="plots") if plots else None, numbers)


def comparison_table(comparisons: Sequence[Comparison]) -> Html:
    """One row for each comparison."""
    by_metric = {
        metric: text.decimals_of([each for each in comparisons if each.metric == metric])
        for metric in {each.metric for each in comparisons}
    }
    further = further_columns(
        comparisons, lambda number, of: show(number or 0.0, by_metric[of.metric], signed=True)
    )
    head = [
        *("candidate", "baseline", "metric", "difference", "relative", "p"),
        *(el("th", column.head, scope="col", title=column.about) for column in further),
        *("wins", "ties", "losses", "users", "verdict"),
    ]
    rows = []
    for place, comparison in enumerate(comparisons):
        digits = by_metric[comparison.metric]
        ends = finite(comparison.low), finite(comparison.high)
        limits = _tables.limits_of(*ends, digits, " … ", signed=True)
        share = finite(comparison.relative)
        relative = "–" if share is None else show(100 * share, 1, signed=True) + " %"
        p_value = comparison.p_value if comparison.p_adjusted is None else comparison.p_adjusted
        kind = comparison.verdict if comparison.verdict in ("better", "worse") else None
        rows.append(
            [
                _tables.name_cell(comparison.candidate),
                _tables.text_cell(comparison.baseline),
                _tables.text_cell(comparison.metric),
                el(
                    "td",
                    show(comparison.delta, digits, signed=True),
                    _tables.caveat_mark(comparison.caveats),
                    limits,
                ),
                _tables.number_cell(relative),
                _tables.number_cell(show_p(p_value)),
                *(_tables.number_cell(column.cells[place]) for column in further),
                *map(
                    _count_cell,
                    (comparison.wins, comparison.ties, comparison.losses, comparison.n_users),
                ),
                el("td", el("b", comparison.shown_verdict, class_=kind), class_="text"),
            ]
        )
    return _tables.table(head, rows, pin=True)


def _count_cell(number: int | None) -> Html:
    return _tables.number_cell("–" if number is None else f"{number:,}")


def models_section(report: Report) -> Html:
    """Every model and metric over all users, and the first metric as a plot."""
    overall = [group for group in text.groups(report) if group.segment is None]
    if not overall:
        return join(el("h2", "Models", id="models"), el("p", "There are no numbers."))
    answer = answer_of(report)
    group = replace(overall[0], models=answer.models, labels=report.leading)
    users = group.common_n_users
    level = report.statistics.level if report.statistics is not None else None
    note = f"{text.count_noun(users, text.count_words(report).unit)}. " if users is not None else ""
    note += "Best first; bold is the best of a column"
    note += f"; small figures are {text.show_level(level)} intervals." if level else "."
    said = [*group.user_notes(), *definitions(report)]
    notes = [el("p", each, class_="soft") for each in said]
    tables = [
        model_table(group, labels, answer if place == 0 else None)
        for place, labels in enumerate(_blocks(group.labels))
    ]
    return section("Models", "models", note, tables, notes, _leading_plots(report, group))


def _blocks(labels: Sequence[str]) -> list[list[str]]:
    """Labels in tables as wide as paper; the cutoffs of one metric stay together."""
    blocks: list[list[str]] = [[]]
    for _, members in groupby(labels, key=_name_of):
        together = list(members)
        if blocks[-1] and len(blocks[-1]) + len(together) > MOST_COLUMNS:
            blocks.append([])
        blocks[-1] += together
    return blocks


def model_table(
    group: text.SegmentNumbers, shown: Sequence[str], answer: Answer | None = None
) -> Html:
    """Models by metrics; the cutoffs of one metric stand under its name.

    With an answer, each model's difference to the reference follows the metric that decides.
    """
    has_delta = answer is not None and answer.reference is not None
    decimals = {label: text.decimals_of(_column(group, label)) for label in shown}
    named = [(_name_of(label), label) for label in shown]
    has_cutoffs = any("@" in label for label in shown)
    above = None
    if has_cutoffs:
        cells = [
            el("th", name, class_="group", colspan=sum(1 for _ in members), scope="colgroup")
            for name, members in groupby(named, key=lambda each: each[0])
        ]
        above = el("tr", el("th", ""), el("th", "", class_="group") if has_delta else None, cells)
    head = [
        "model",
        *([f"{answer.metric} to {answer.reference}"] if has_delta and answer is not None else []),
        *(
            f"@{label.rpartition('@')[2]}" if "@" in label else (" " if has_cutoffs else label)
            for label in shown
        ),
    ]
    rows = []
    for model in group.models:
        cells = [
            _tables.estimate_cell(
                group.cells.get((model, label)), decimals[label], best=model in group.best(label)
            )
            for label in shown
        ]
        delta = [_delta_cell(answer, model)] if has_delta and answer is not None else []
        rows.append([_tables.name_cell(model), *delta, *cells])
    return _tables.table(head, rows, above=above, pin=True)


def _delta_cell(answer: Answer, model: str) -> Html:
    pair = answer.pairs.get(model)
    if pair is None:
        return el("td", "reference" if model == answer.reference else "–")
    digits = text.decimals_for(text.half_widths(answer.pairs.values()), [pair.delta])
    return el("td", _tables.judged(pair, digits), el("i", pair.shown_verdict))


def _name_of(label: str) -> str:
    return label.rpartition("@")[0] or label


def _column(group: text.SegmentNumbers, label: str) -> list[Estimate]:
    return [group.cells[model, label] for model in group.models if (model, label) in group.cells]


def _leading_plots(report: Report, group: text.SegmentNumbers) -> Html | None:
    """The first metrics, models from best to worst."""
    if len(group.models) < 2:
        return None
    figures = [
        el("figure", el("figcaption", f"{label}, best first"), metric_plot(report, found, title))
        for label in report.leading[:2]
        if (found := [each for each in _column(group, label) if not math.isnan(each.value)])
        for title in (f"{label} of every model",)
    ]
    if not figures:
        return None
    said = "Models that share a letter cannot be told apart by these users."
    note = el("p", said, class_="soft") if report.standings else None
    return join(el("div", figures, class_="plots"), note)


def metric_plot(report: Report, found: Sequence[Estimate], title: str) -> Html:
    """One metric, models from best to worst, with the letters of those that are alike."""
    series = {model: place for place, model in enumerate(report.models)}
    letters = {
        (standing.metric, model): letter
        for standing in report.standings
        for model, _, letter in standing.models
    }
    rows = [
        Row(
            each.model,
            (Mark(each.value, each.low, each.high, series[each.model]),),
            letters.get((each.metric, each.model), ""),
        )
        for each in best_first([each for each in found if not math.isnan(each.value)])
    ]
    return dot_plot(rows, title)


def one_of_each_metric(labels: Sequence[str]) -> list[str]:
    """Labels in their order, but the second cutoff of a metric after the first of all others."""
    seen: set[str] = set()
    first: list[str] = []
    others: list[str] = []
    for label in labels:
        name = label.rpartition("@")[0]
        (others if name and name in seen else first).append(label)
        seen.add(name)
    return first + others
