"""Metrics by segment: differences or values, as dots and as a heat map."""

from collections.abc import Mapping, Sequence

from evalkit.report import text
from evalkit.report.answer import answer_of
from evalkit.report.comparisons import how_corrected
from evalkit.report.entries import Comparison
from evalkit.report.html import _plots, _tables
from evalkit.report.html._detail import color_key
from evalkit.report.html._grids import MOST_NUMBERS, HeatCell, heat_map
from evalkit.report.html._markup import Html, el, join
from evalkit.report.html._scale import show
from evalkit.report.record import Report
from evalkit.report.turning import against

MOST_CELLS = 1_000  # of segment tables: about 100 kB
MOST_ROWS = 1_000  # of differences between segments
FILES = "metrics.parquet or report.json"


def segments_section(report: Report, *, whole: bool = False) -> Html | None:
    """The metrics that decide by segment: differences to the reference, or else the values.

    Args:
        whole: draw also what is too large for a page.
    """
    by_segment = text.groups(report)
    of_segments = [group for group in by_segment if group.segment is not None]
    if not of_segments:
        return None
    overall = {group.segment: group for group in by_segment}.get(None)
    drawn = _largest(of_segments, MOST_CELLS)
    room = max(1, MOST_CELLS // max(sum(len(group.models) for group in drawn), 1))
    shown = (report.primary or report.leading[:1])[:room]
    parts: list[Html] = []
    for label in shown:
        pairs = _pairs_by_segment(report, label)
        figures = []
        for rule in dict.fromkeys(group.segmentation or "" for group in drawn):
            of = [group for group in drawn if group.segmentation == rule]
            few = whole or len(of) * len(report.models) <= MOST_NUMBERS
            heat = _heat_map(report, label, rule, of, pairs) if few and label == shown[0] else []
            if pairs:
                figures.append(_difference_figure(report, label, rule, of, pairs, heat))
            else:
                figures.append(_segment_figure(report, label, rule, of, overall, heat))
        parts += [el("h3", label), el("div", figures, class_="plots")]
    note = ""
    if len(drawn) < len(of_segments):
        n_drawn, n_all = f"{len(drawn):,}", f"{len(of_segments):,}"
        note = (
            f"{n_drawn} of {n_all} segments, those with the most users; the others are in {FILES}. "
        )
    if len(report.labels) > len(shown):
        more = text.count_noun(len(report.labels) - len(shown), "more metric")
        note += f"{more} by segment: see {FILES}."
    return join(
        el("h2", "By segment", id="segments"),
        color_key(report.models),
        el("p", note, class_="soft") if note else None,
        parts,
    )


_Place = tuple[str | None, str | None]
_Pairs = Mapping[_Place, Mapping[str, Comparison]]


def _pairs_by_segment(report: Report, label: str) -> _Pairs:
    """By segment, candidate -> its comparison with the reference; empty without a reference."""
    reference = answer_of(report, label).reference
    pairs = [each for each in report.comparisons if each.metric == label]
    found: dict[_Place, dict[str, Comparison]] = {}
    if reference is None or all(each.segment is None for each in pairs):
        return found
    for each in against(pairs, reference):
        found.setdefault((each.segmentation, each.segment), {})[each.candidate] = each
    return found


def _heat_map(
    report: Report, label: str, rule: str, of: Sequence[text.SegmentNumbers], pairs: _Pairs
) -> list[Html]:
    """Segments by models: differences to the reference, or else values."""
    reference = answer_of(report, label).reference if pairs else None
    columns = [model for model in answer_of(report, label).models if model != reference]
    if len(of) < 2 or len(columns) < 2:
        return []
    here = [pairs.get((rule, group.segment), {}) for group in of]
    deltas = [each for by_model in here for each in by_model.values()]
    found = [e for group in of for (_, named), e in group.cells.items() if named == label]
    decimals = text.decimals_of(deltas or found)
    cells = [[_heat_cell(group, by_model, model, label, decimals, is_signed=bool(pairs))
              for model in columns] for group, by_model in zip(of, here, strict=True)]  # fmt: skip
    title = f"{label} by {rule} and model"
    title += f": difference to {reference}" if reference else ""
    whole = report.estimate(columns[0], label, None, None)
    turned = whole is not None and whole.higher_is_better is False
    names = [group.segment or "" for group in of]
    return [heat_map(names, columns, cells, title, is_signed=bool(pairs), turned=turned)]


def _heat_cell(
    group: text.SegmentNumbers,
    by_model: Mapping[str, Comparison],
    model: str,
    label: str,
    decimals: int,
    *,
    is_signed: bool,
) -> HeatCell | None:
    if is_signed:
        pair = by_model.get(model)
        held = pair is not None and pair.verdict in ("better", "worse")
        if pair is None:
            return None
        return HeatCell(pair.delta, show(pair.delta, decimals, signed=True), held)
    found = group.cells.get((model, label))
    if found is None:
        return None
    return HeatCell(found.value, show(found.value, decimals), model in group.best(label))


def _difference_figure(
    report: Report,
    label: str,
    rule: str,
    of: Sequence[text.SegmentNumbers],
    pairs: _Pairs,
    heat: list[Html],
) -> Html:
    """Paired differences of every segment of a rule on one scale, all users on top."""
    series = {model: place for place, model in enumerate(report.models)}
    places: list[_Place] = [(None, None), *((rule, group.segment) for group in of)]
    all_pairs = [each for place in places for each in pairs.get(place, {}).values()]
    candidates = [model for model in report.models if any(c.candidate == model for c in all_pairs)]
    reference = all_pairs[0].baseline if all_pairs else ""
    digits = text.decimals_of(all_pairs)
    rows, lines = [], []
    for place in places:
        here = pairs.get(place, {})
        name = f"all {text.units_of(report)}" if place[1] is None else place[1]
        marks = (
            _plots.Mark(here[model].delta, here[model].low, here[model].high, series[model])
            for model in candidates
            if model in here
        )
        rows.append(_plots.Row(name, tuple(marks)))
        users = max((each.n_users for each in here.values()), default=0)
        cells = []
        for model in candidates:
            each = here.get(model)
            shown = "–" if each is None else _tables.judged(each, digits)
            limits = None if each is None else _tables.limits_of(each.low, each.high, digits, " … ")
            cells.append(el("td", shown, limits))
        lines.append([_tables.name_cell(name), _tables.number_cell(f"{users:,}"), *cells])
    title = f"{label} by {rule}: difference to {reference}"
    numbers = _tables.table([rule, text.units_of(report), *candidates], lines, pin=True)
    how = how_corrected(report.statistics, all_pairs)
    note = f"Limits stand by themselves; verdicts, in bold, are corrected: {how}." if how else None
    shown_behind = _tables.behind(
        [*heat, *_plots.dot_plots(rows, title, zero=True)], numbers, title
    )
    return join(shown_behind, el("p", note, class_="soft") if note else None)


def _largest(of: Sequence[text.SegmentNumbers], most_cells: int) -> list[text.SegmentNumbers]:
    """The segments with the most users, in their order, as far as the page has room for them."""
    if sum(len(group.models) for group in of) <= most_cells:
        return list(of)
    users = [max((group.n_users(model) for model in group.models), default=0) for group in of]
    left = most_cells
    kept: set[int] = set()
    for place in sorted(range(len(of)), key=lambda each: -users[each]):
        left -= len(of[place].models)
        if left < 0 and kept:
            break
        kept.add(place)
    return [of[place] for place in sorted(kept)]


def _segment_figure(
    report: Report,
    label: str,
    rule: str,
    of: Sequence[text.SegmentNumbers],
    overall: text.SegmentNumbers | None,
    heat: list[Html],
) -> Html:
    series = {model: place for place, model in enumerate(report.models)}
    together = ([overall] if overall is not None else []) + list(of)
    cells_of = [
        {m: e for (m, of_label), e in g.cells.items() if of_label == label} for g in together
    ]
    digits = text.decimals_of([each for found in cells_of for each in found.values()])
    rows, lines = [], []
    for group, found in zip(together, cells_of, strict=True):
        name = f"all {text.units_of(report)}" if group.segment is None else group.segment
        marks = (
            _plots.Mark(each.value, each.low, each.high, series[model])
            for model in group.models
            if (each := found.get(model)) is not None
        )
        rows.append(_plots.Row(name, tuple(marks)))
        users = max((group.n_users(model) for model in group.models), default=0)
        best = group.best(label)
        cells = [
            _tables.estimate_cell(found.get(model), digits, best=model in best)
            for model in report.models
        ]
        lines.append([_tables.name_cell(name), _tables.number_cell(f"{users:,}"), *cells])
    numbers = _tables.table([rule, text.units_of(report), *report.models], lines, pin=True)
    title = f"{label} by {rule}"
    return _tables.behind([*heat, *_plots.dot_plots(rows, title)], numbers, title)


def gaps_section(report: Report) -> Html | None:
    """How far segments are apart in rates of labels: a row a model, metric and segmentation."""
    if not report.gaps:
        return None
    digits = text.decimals_for([], [gap.delta for gap in report.gaps])
    rows = []
    for gap in report.gaps[:MOST_ROWS]:
        limits = _tables.limits_of(gap.low, gap.high, digits)
        names = (gap.model, gap.metric, gap.segmentation, gap.highest, gap.lowest)
        rows.append([*map(_tables.name_cell, names), el("td", show(gap.delta, digits), limits)])
    head = ["model", "metric", "by", "highest", "lowest", "difference"]
    note = "The interval holds for all pairs of segments at once."
    return join(
        el("h3", "Largest differences between segments"),
        el("p", note, class_="soft"),
        _tables.table(head, rows, pin=True),
    )
