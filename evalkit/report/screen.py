"""What a terminal shows first: the verdict and what it rests on, in one screen."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import isfinite

from evalkit.errors import clean
from evalkit.report import terminal, text
from evalkit.report.answer import Answer, answer_of
from evalkit.report.comparisons import how_corrected, show_p
from evalkit.report.entries import Comparison, Estimate
from evalkit.report.findings import NOTHING, searches, standing_out
from evalkit.report.nights import tell_nights
from evalkit.report.record import Report
from evalkit.report.shown import definitions
from evalkit.report.turning import against
from evalkit.report.verdict import PASS, verdict_of

MOST_PRIMARY = 3
MOST_ALIKE = 2  # warnings of one code
MOST_MODELS = 12
MOST_OTHERS = 12  # metrics beside the primary ones
MOST_SEGMENTS = 5
MOST_ODD = 3  # models whose rows are told
FEW_MODELS = 6  # of which all those metrics have room
MOST_GATES = 8
ALL = "--full shows all"
TO_TEST = "--set statistics.pairs=all, or statistics.baseline=MODEL"


@dataclass(frozen=True, slots=True)
class Segment:
    """One model in one segment; `pair` is its comparison there, where there is one."""

    estimate: Estimate
    pair: Comparison | None = None

    @property
    def n_users(self) -> int:
        return (self.pair or self.estimate).n_users


def worst_segments(report: Report, answer: Answer) -> list[Segment]:
    """Segments by what they surely are at best, the worst first.

    Of models that are compared, by the upper limit of the difference less the difference over all
    users; otherwise by the upper limit of the best model's value.
    """
    estimates: dict[tuple[str, str | None, str | None], Estimate] = {
        (each.model, each.segmentation, each.segment): each
        for each in report.estimates
        if each.metric == answer.metric and each.segment is not None
    }
    overall = {model: pair.delta for model, pair in answer.pairs.items()}
    of_segments = [
        each
        for each in report.comparisons
        if each.metric == answer.metric and each.segment is not None
    ]
    if answer.reference is not None:
        of_segments = against(of_segments, answer.reference)
    found: list[tuple[float, Segment]] = []
    for pair in of_segments:
        estimate = estimates.get((pair.candidate, pair.segmentation, pair.segment))
        if estimate is None or pair.low is None or pair.high is None:
            continue
        is_down = estimate.higher_is_better is False
        beside = overall.get(pair.candidate, 0.0)
        order = -(pair.low - beside) if is_down else pair.high - beside
        found.append((order, Segment(estimate, pair)))
    if not of_segments:
        for estimate in estimates.values():
            if estimate.model == answer.models[0] and estimate.high is not None:
                is_down = estimate.higher_is_better is False
                order = -(estimate.low or 0.0) if is_down else estimate.high
                found.append((order, Segment(estimate)))
    return [each for _, each in sorted(found, key=lambda each: each[0])]


@dataclass(frozen=True, slots=True)
class _ScreenColumn:
    """Head and cells; `rank` says which columns go first where a line is too narrow, 0 none."""

    head: str
    cells: Sequence[str]
    rank: int = 0
    is_text: bool = False


def render_screen(report: Report, *, width: int, color: bool) -> str:
    """The report in one screen of `width` columns (40 at least); `render_table` has all of it."""
    width = max(width, terminal.MIN_WIDTH)
    answer = answer_of(report)
    lines = _said(f"{clean(report.name)}: {clean(answer.sentence)}", width)
    if color:
        lines = [f"{terminal.BOLD}{line}{terminal.RESET}" for line in lines]
    lines += _gate_lines(report, width)
    overall = next((each for each in text.groups(report) if each.segment is None), None)
    if overall is not None:
        primary = (report.primary or (answer.metric,))[:MOST_PRIMARY]
        for metric in primary:
            lines += ["", *_primary_lines(report, overall, answer_of(report, metric), width)]
        lines += _other_lines(overall, answer, primary, width=width, color=color)
        lines += _said("; ".join(map(clean, definitions(report))), width)
    lines += [line for each in tell_nights(report.nights) for line in _said(clean(each), width)]
    lines += terminal.weight_lines(report, width)
    lines += _segment_lines(report, answer, width)
    lines += ["", *_data_lines(report, width)]
    lines += terminal.warning_lines(report, width=width, color=color, most=MOST_ALIKE)
    return "\n".join(line.rstrip() for line in lines) + "\n"


def _said(sentence: str, width: int, *, indent: str = "") -> list[str]:
    words = sentence.split()
    return text.wrap(words, first=indent, width=width, separator="") if words else []


def _gate_lines(report: Report, width: int) -> list[str]:
    """How gates went, and those that did not pass."""
    if not report.gates:
        return []
    lines = _said(str(replace(verdict_of(report), warnings=0)), width)
    told = [each for each in report.gates if each.outcome != PASS]
    told.sort(key=lambda each: not each.fails)
    for gate in told[:MOST_GATES]:
        lines += _said(f"gate {gate.outcome}: {clean(gate.message)}", width, indent="  ")
    if len(told) > MOST_GATES:
        lines.append(f"  {len(told) - MOST_GATES} more; {ALL}")
    return lines


def _primary_lines(
    report: Report, overall: text.SegmentNumbers, answer: Answer, width: int
) -> list[str]:
    """One metric: models from best to worst, each with its interval and its paired verdict."""
    known = [model for model in answer.models if (model, answer.metric) in overall.cells]
    models = known[:MOST_MODELS]
    cells = [overall.cells[model, answer.metric] for model in models]
    digits = text.decimals_of(cells)
    columns = [
        _ScreenColumn("value", text.show_values([each.value for each in cells])),
        _ScreenColumn(
            "interval", [_limits((each.low, each.high), digits) for each in cells], rank=2
        ),
    ]
    pairs = [answer.pairs.get(model) for model in models]
    if answer.pairs:
        columns += _pair_columns(pairs, answer)
        columns.append(
            _ScreenColumn("p", [show_p(each.p_adjusted) if each else "" for each in pairs], 3)
        )
        verdicts = [each.shown_verdict if each else "" for each in pairs]
        if answer.reference in models:
            verdicts[models.index(answer.reference)] = "reference"
        columns.append(_ScreenColumn("verdict", verdicts, is_text=True))
    elif len(cells) > 1:
        ahead = [each.value - cells[0].value for each in cells]
        shown = [f"{each:+.{digits}f}" if isfinite(each) else "-" for each in ahead[1:]]
        columns.append(_ScreenColumn("delta", ["", *shown]))
    users = {each.n_users for each in cells}
    level = report.statistics.level if report.statistics is not None else 0.95
    said = [text.count_noun(users.pop(), text.count_words(report).unit)] if len(users) == 1 else []
    said.append(f"{text.show_level(level)} intervals")
    if answer.reference is not None:
        how = how_corrected(report.statistics, [each for each in pairs if each is not None])
        paired = "" if report.kind == "experiment" else "paired "
        said.append(f"{paired}differences to {clean(answer.reference)}")
        said[-1] += ", the best of all" if answer.is_picked else ""
        how = how or ("not corrected" if answer.is_picked and len(pairs) > 2 else "")
        said[-1] += f", {how}" if how else ""
    elif not answer.pairs and len(cells) > 1:
        said.append(f"differences to {clean(models[0])} are not tested: {TO_TEST}")
    lines = _said("; ".join(said), width)
    lines += _table(answer.metric, models, columns, width)
    if len(known) > len(models):
        lines.append(f"{text.count_noun(len(known) - len(models), 'more model')}; {ALL}")
    return lines


def _pair_columns(pairs: Sequence[Comparison | None], answer: Answer) -> list[_ScreenColumn]:
    """Differences and the limits that their verdicts go with, in the digits of those of all."""
    digits = text.decimals_of([*answer.pairs.values()])
    limits = [_limits(each.judged_limits, digits, sign="+") if each else "" for each in pairs]
    return [
        _ScreenColumn("delta", [f"{each.delta:+.{digits}f}" if each else "" for each in pairs]),
        _ScreenColumn("interval", limits, rank=1),
    ]


def _limits(of: tuple[float | None, float | None], digits: int, *, sign: str = "") -> str:
    known = text.known_limits(*of)
    if known is None:
        return text.UNDEFINED
    low, high = known
    return f"{low:{sign}.{digits}f} … {high:{sign}.{digits}f}"


def _table(
    head: str, names: Sequence[str], columns: Sequence[_ScreenColumn], width: int
) -> list[str]:
    """Rows by name; names are cut, and columns left out, before a number would be cut."""
    kept = list(columns)

    def size(column: _ScreenColumn) -> int:
        return len(terminal.GAP) + max(
            map(text.display_width, [column.head, *column.cells]), default=0
        )

    wanted = max(map(text.display_width, [head, *map(clean, names)]), default=0)
    while sum(map(size, kept)) + min(wanted, width // 4) > width and any(c.rank for c in kept):
        kept.remove(max(kept, key=lambda each: each.rank))
    room = max(min(wanted, terminal.NAME_WIDTH, width - sum(map(size, kept))), 6)
    first = [text.shorten(clean(head), room), *_cut(names, room)]
    lines = [text.pad(each, room) for each in first]
    for column in kept:
        of = size(column) - len(terminal.GAP)
        for place, cell in enumerate([column.head, *column.cells]):
            lines[place] += terminal.GAP + text.pad(cell, of, right=not column.is_text)
    return [text.shorten(line.rstrip(), width) for line in lines]


def _cut(names: Sequence[str], width: int) -> list[str]:
    """Clean names in so many columns; the same name is the same again."""
    known = list(dict.fromkeys(names))
    shown = dict(zip(known, text.shorten_all(known, width), strict=True))
    return [shown[each] for each in names]


def _other_lines(
    overall: text.SegmentNumbers, answer: Answer, primary: Sequence[str], *, width: int, color: bool
) -> list[str]:
    """The other metrics' points."""
    others = [label for label in overall.labels if label not in primary]
    if not others:
        return []
    models = answer.models[:MOST_MODELS]
    labels = others[: MOST_OTHERS if len(models) <= FEW_MODELS else MOST_OTHERS // 2]
    group = replace(overall, labels=tuple(labels), models=tuple(models))
    lines = ["", *terminal.number_lines(group, width=width, color=color)]
    if len(others) > len(labels):
        lines.append(f"{text.count_noun(len(others) - len(labels), 'more metric')}; {ALL}")
    return lines


def _segment_lines(report: Report, answer: Answer, width: int) -> list[str]:
    """What a search found, or else the segments that look worst by the primary metric."""
    how, units = "", text.units_of(report)
    if searches(report):
        found = standing_out(report)
        if not found:
            return ["", f"segments: {NOTHING}"]
        shown = found[:MOST_SEGMENTS]
        baselines = {each.baseline for each in found}
        whom = clean(found[0].baseline) if len(baselines) == 1 else "their baselines"
        title = f"segments that lose or gain most against {whom}, beside all {units}"
        columns = [
            _ScreenColumn("", [each.kind for each in shown], is_text=True),
            _ScreenColumn("model", _cut([each.candidate for each in shown], 16), is_text=True),
            _ScreenColumn(
                "metric", [text.shorten(clean(each.metric), 16) for each in shown], 2, is_text=True
            ),
            _ScreenColumn("delta", [f"{each.delta:+.4f}" for each in shown]),
            _ScreenColumn(units, [f"{each.n_users:,}" for each in shown], 1),
        ]
        names, total = [f"{each.segmentation} = {each.segment}" for each in shown], len(found)
    else:
        worst = worst_segments(report, answer)
        if not worst:
            return []
        title, total = f"segments that look worst by {clean(answer.metric)}", len(worst)
        shown_ = worst[:MOST_SEGMENTS]
        columns = [
            _ScreenColumn(
                "model", _cut([each.estimate.model for each in shown_], 16), is_text=True
            ),
            _ScreenColumn(units, [f"{each.n_users:,}" for each in shown_], 1),
        ]
        pairs = [each.pair for each in shown_]
        if any(pairs):
            of_worst = [each.pair for each in worst if each.pair is not None]
            how = how_corrected(report.statistics, of_worst)
            columns += _pair_columns(pairs, answer)
            columns.append(
                _ScreenColumn(
                    "verdict", [each.shown_verdict if each else "" for each in pairs], is_text=True
                )
            )
        else:
            cells = [each.estimate for each in shown_]
            digits = text.decimals_of(cells)
            columns.append(_ScreenColumn("value", text.show_values([each.value for each in cells])))
            limits = [_limits((each.low, each.high), digits) for each in cells]
            columns.append(_ScreenColumn("interval", limits, 2))
        places = [each.estimate for each in shown_]
        names = [f"{each.segmentation} = {each.segment}" for each in places]
    if total > len(names):
        title += f" ({len(names)} of {total:,}; {ALL})"
    title += f"; {how}" if how else ""
    return ["", *_said(title, width), *_table("segment", names, columns, width)]


def _data_lines(report: Report, width: int) -> list[str]:
    """What the truth holds, and the models whose rows are not all in order."""
    words = text.count_words(report)
    truth = text.truth_notes(report.counts.truth, words)
    lines = text.wrap(truth, first=f"{words.truth}: ", width=width, separator=";")
    noted = {model: text.model_notes(each, words) for model, each in report.counts.models.items()}
    odd = [model for model, notes in noted.items() if len(notes) > 3]  # rows, users and depth
    for model in odd[:MOST_ODD]:
        name = text.shorten(clean(model), min(terminal.NAME_WIDTH, width // 2))
        lines += text.wrap(noted[model], first=f"{name}: ", width=width, separator=";")
    if len(odd) > MOST_ODD:
        more = text.count_noun(len(odd) - MOST_ODD, "more model")
        lines += _said(f"{more} with odd rows; {ALL}", width)
    return lines
