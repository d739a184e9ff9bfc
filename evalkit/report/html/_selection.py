"""A page with the trials of a selection, and the one that was chosen."""

import math

from evalkit.report.html._markup import Html, el, join
from evalkit.report.html._plots import Mark, Row, dot_plot, scatter_plot
from evalkit.report.html._scale import show
from evalkit.report.html._tables import behind, name_cell, number_cell, table, text_cell
from evalkit.report.selection import (
    Selection,
    Trial,
    tell_alike,
    tell_confirmed,
    tell_tried,
    tell_worth,
)
from evalkit.report.text import decimals_for, half_widths, show_level

MOST_ROWS = 60


def selection_body(selection: Selection) -> Html:
    """What was chosen and what it is worth; trials, parameters, the race."""
    parts = [_verdict(selection), el("section", el("h2", "Trials"), *_trials(selection))]
    parameters = _parameters(selection)
    if parameters:
        parts.append(el("section", el("h2", "Parameters"), *parameters))
    if len(selection.rungs) > 1:
        parts.append(el("section", el("h2", "Race"), _race(selection)))
    return join(*parts)


def _verdict(selection: Selection) -> Html:
    """The winner in a sentence, what it is worth, and warnings."""
    low, high = selection.low, selection.high
    digits = decimals_for(half_widths([selection]), [selection.naive])
    said = f"{selection.winner} is chosen, with {selection.metric} {show(selection.naive, digits)}"
    said += f" ({show(low, digits)} … {show(high, digits)})"
    tried = f"{tell_alike(selection)}; {tell_tried(selection)}."
    told = [*tell_worth(selection)[1:], *tell_confirmed(selection)]
    warnings = [el("li", each.message) for each in selection.warnings]
    return join(
        el("p", said, el("small", tried), class_="verdict"),
        [el("p", f"{each[:1].upper()}{each[1:]}.") for each in told],
        el("p", f'Rule: "{selection.rule}"; {show_level(selection.level)} intervals.'),
        el("ul", warnings, class_="warnings") if warnings else None,
    )


def _trials(selection: Selection) -> list[Html]:
    shown = [each for each in selection.trials if each.value is not None]
    digits = decimals_for(half_widths(shown), [each.value or 0.0 for each in shown])
    title = f"{selection.metric} by trial"
    rows = [
        Row(each.model, (Mark(each.value or 0.0, each.low, each.high, _color(each, selection)),))
        for each in shown[:MOST_ROWS]
    ]
    cells = [
        [
            name_cell(each.model),
            text_cell("chosen" if each.model == selection.winner else each.state),
            number_cell(show(each.value, digits)),
            number_cell(f"{show(each.low, digits)}–{show(each.high, digits)}"),
            number_cell(show(each.delta, digits, signed=True)),
            text_cell("yes" if each.is_alike else ""),
            text_cell("; ".join([*each.unmet, *([each.reason] if each.reason else [])]), wrap=True),
        ]
        for each in selection.trials
    ]
    head = ["trial", "state", selection.metric, "interval", "from best", "like best", ""]
    plot = dot_plot(rows, title, width=760)
    said = el("p", f"{MOST_ROWS} of {len(shown)} trials are drawn.", class_="soft")
    return [
        el("figure", el("figcaption", title), plot),
        said if len(shown) > MOST_ROWS else join(),
        table(head, cells, pin=True),
    ]


def _color(trial: Trial, selection: Selection) -> int:
    return 1 if trial.model == selection.winner else 0 if trial.is_alike else 2


def _parameters(selection: Selection) -> list[Html]:
    """The metric by each parameter that is a number."""
    found = []
    shown = [each for each in selection.trials if each.value is not None]
    for name in dict.fromkeys(name for each in shown for name in each.parameters):
        pairs = [
            (x, each.value)
            for each in shown
            if isinstance(x := each.parameters.get(name), float)
            and each.value is not None
            and math.isfinite(x)
            and math.isfinite(each.value)
        ]
        if len({x for x, _ in pairs}) > 1:
            title = f"{selection.metric} by {name}"
            plot = scatter_plot([x for x, _ in pairs], [y for _, y in pairs], title, name)
            cells = [[number_cell(f"{x:g}"), number_cell(f"{y:.6f}")] for x, y in sorted(pairs)]
            found.append(behind(plot, table([name, selection.metric], cells), title))
    return found


def _race(selection: Selection) -> Html:
    rows = [
        [
            name_cell(f"{each.share:.0%} of the users"),
            number_cell(f"{each.n_users:,}"),
            number_cell(f"{len(each.measured):,}"),
            text_cell(", ".join(each.dropped), wrap=True),
        ]
        for each in selection.rungs
    ]
    dropped = el("th", "dropped", scope="col", class_="text")
    return table(["rung", "users", "trials", dropped], rows, sortable=False)
