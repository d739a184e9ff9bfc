"""What every rendering shares: safe names, short names, numbers, and which value is best."""

import math
import re
import unicodedata
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from evalkit.errors import clean
from evalkit.metrics import RANKED_COUNTS, CountWords, declared
from evalkit.report.entries import Comparison, Estimate, Finding, ModelCounts, TruthCounts
from evalkit.report.record import Report, once
from evalkit.report.weights import effective_of

UNDEFINED = "-"
MOST_DECIMALS = 6
_FORMS = {decimals: (f"%.{decimals}f", 10.0 ** (2 - decimals)) for decimals in (6, 4, 2)}


def display_width(text: str) -> int:
    """Columns that a terminal needs for `text`: wide characters take two, combining ones none."""
    if text.isascii():
        return len(text)
    return sum(_columns(each) for each in text)


def _columns(character: str) -> int:
    if unicodedata.combining(character) or unicodedata.category(character) in ("Mn", "Me"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def pad(text: str, width: int, *, right: bool = False) -> str:
    """`text` filled with blanks to `width` columns."""
    blanks = " " * (width - display_width(text))
    return blanks + text if right else text + blanks


def lay_out(rows: Iterable[Sequence[str]], right: Container[int], gap: str = "  ") -> list[str]:
    """A line for each row; its cells stand below one another, columns of numbers on the right."""
    cells = [[clean(cell) for cell in row] for row in rows]
    widths = [max(map(display_width, column)) for column in zip(*cells, strict=True)]
    return [
        gap.join(pad(cell, widths[n], right=n in right) for n, cell in enumerate(row)).rstrip()
        for row in cells
    ]


def shorten(text: str, width: int) -> str:
    """`text` in at most `width` columns; its middle gives way, for ends tell versions apart."""
    if display_width(text) <= width:
        return text
    if width <= 1:
        return "…"[:width]
    tail_width = (width - 1) // 2
    head = _fitting(text, width - 1 - tail_width)
    tail = _fitting(text[::-1], tail_width)[::-1]
    while tail and _columns(tail[0]) == 0:  # an accent whose letter was cut off
        tail = tail[1:]
    return f"{head}…{tail}"


def _fitting(text: Iterable[str], width: int) -> str:
    shown = ""
    for letter in text:
        width -= _columns(letter)
        if width < 0:
            break
        shown += letter
    return shown


def shorten_all(names: Sequence[str], width: int) -> list[str]:
    """Clean names in at most `width` columns, no two the same while their number fits."""
    shown: list[str] = []
    for number, name in enumerate(names, start=1):
        short = shorten(clean(name), width)
        if short in shown:
            mark = f"#{number}"
            short = shorten(clean(name), max(width - len(mark), 1)) + mark
        shown.append(short)
    return shown


def show_values(values: Sequence[float]) -> list[str]:
    """Values of one column with as many decimals as its largest needs: 6, 4 or 2."""
    sizes = [abs(value) if math.isfinite(value) else -1.0 for value in values]
    largest = max(sizes, default=0.0)
    plain, least = _FORMS[6 if largest <= 1 else 4 if largest < 10_000 else 2]
    return [
        plain % (value + 0.0)  # no minus before zero
        if least <= size < 1e9 or size == 0.0
        else UNDEFINED
        if size < 0.0
        else f"{value:.4e}"
        for value, size in zip(values, sizes, strict=True)
    ]


def decimals_for(half_widths: Sequence[float], values: Sequence[float]) -> int:
    """Decimals that show two digits of the narrowest interval; four where there is none."""
    known = [abs(each) for each in half_widths if math.isfinite(each) and each != 0]
    if known:
        return min(max(1 - math.floor(math.log10(min(known))), 2), MOST_DECIMALS)
    largest = max((abs(value) for value in values if math.isfinite(value)), default=0.0)
    return 4 if largest < 100 else 2


def known_limits(low: float | None, high: float | None) -> tuple[float, float] | None:
    """Limits as they are shown; None where one of them is unknown, as of a single user."""
    known = low is not None and high is not None and math.isfinite(low) and math.isfinite(high)
    return (low, high) if known else None  # type: ignore[return-value]


class Limited(Protocol):
    """What may have limits."""

    @property
    def low(self) -> float | None: ...
    @property
    def high(self) -> float | None: ...


def half_widths(found: Iterable[Limited]) -> list[float]:
    """Half of each interval that is known."""
    return [
        (each.high - each.low) / 2
        for each in found
        if each.low is not None and each.high is not None
    ]


def decimals_of(found: Sequence[Estimate | Comparison | Finding]) -> int:
    """Decimals for a column of values, or of differences."""
    values = [each.value if isinstance(each, Estimate) else each.delta for each in found]
    return decimals_for(half_widths(found), values)


def show_level(level: float) -> str:
    """`95%`, `97.5%`, `99.995%`: as many digits as it takes to stay below 100."""
    shown = f"{100 * level:.4g}%"
    return shown if shown != "100%" else f"{100 * level:.12g}%"


_BARS = "▁▂▃▄▅▆▇█"


def sparkline(values: Sequence[float]) -> str:
    """One bar for each value between the least and the largest; `·` for none."""
    known = [value for value in values if math.isfinite(value)]
    if not known:
        return "·" * len(values)
    least, span = min(known), max(known) - min(known)
    steps = len(_BARS) - 1
    return "".join(
        _BARS[round((value - least) / span * steps) if span > 0 else steps // 2]
        if math.isfinite(value)
        else "·"
        for value in values
    )


class ShownValue(NamedTuple):
    """One value of a column."""

    model: str
    value: float
    text: str
    is_best: bool


@dataclass(frozen=True, slots=True)
class SegmentNumbers:
    """The numbers of one segment (or of all users): models by metrics."""

    segmentation: str | None
    segment: str | None
    models: tuple[str, ...]
    labels: tuple[str, ...]
    cells: dict[tuple[str, str], Estimate]  # (model, label)
    effective: Mapping[str, float] = field(default_factory=dict)  # rounds of logged feedback
    _shown: dict[str, list[ShownValue]] = field(default_factory=dict, init=False, compare=False)

    @property
    def title(self) -> str:
        """`activity = new`; nothing for all users."""
        return "" if self.segment is None else f"{self.segmentation} = {self.segment}"

    def effective_rounds(self) -> list[str]:
        """Of each model; nothing where rounds have no weights."""
        if not self.effective:
            return []
        known = (self.effective.get(model) for model in self.models)
        return [UNDEFINED if each is None else f"{each:,.0f}" for each in known]

    def of_label(self, label: str) -> list[Estimate | None]:
        """The numbers of one metric, model by model."""
        return [self.cells.get((model, label)) for model in self.models]

    def shown(self, label: str) -> list[ShownValue]:
        """The values of one metric, model by model, as every form shows them.

        None is best where there is nothing to choose from; without a number a value is NaN.
        """
        made = self._shown.get(label)
        if made is None:
            found = self.of_label(label)
            values = [math.nan if each is None else each.value for each in found]
            known = [value for value in values if value == value]
            best = math.nan
            if known and (low := min(known)) < (high := max(known)):
                is_higher = next(e.higher_is_better for e in found if e and e.value == e.value)
                best = math.nan if is_higher is None else high if is_higher else low
            are_best = [value == best for value in values]
            made = [*map(ShownValue, self.models, values, show_values(values), are_best)]
            self._shown[label] = made
        return made

    def best(self, label: str) -> frozenset[str]:
        """Models with the best value; nobody when there is nothing to choose from."""
        return frozenset(each.model for each in self.shown(label) if each.is_best)

    def n_users(self, model: str) -> int:
        """The users that most metrics of this model stand on: the largest number of any."""
        return max((each.n_users for each in self._of(model)), default=0)

    def _of(self, model: str) -> list[Estimate]:
        return [self.cells[model, label] for label in self.labels if (model, label) in self.cells]

    @property
    def common_n_users(self) -> int | None:
        """The users that every number stands on; None when they differ."""
        found = {each.n_users for each in self.cells.values()}
        return found.pop() if len(found) == 1 else None

    def user_notes(self) -> list[str]:
        """Which metrics stand on fewer users than the model's other metrics."""
        if self.common_n_users is not None:
            return []
        alike: dict[str, list[str]] = {}
        most = {model: self.n_users(model) for model in self.models}
        for label in self.labels:
            fewer = []
            for model in self.models:
                each = self.cells.get((model, label))
                if each is not None and each.n_users != most[model]:
                    fewer.append(f"{each.n_users:,} of {clean(model)}")
            if fewer:
                alike.setdefault(", ".join(fewer), []).append(clean(label))
        return [
            f"{', '.join(labels)} stand{'s' if len(labels) == 1 else ''} on fewer users: {fewer}"
            for fewer, labels in alike.items()
        ]


@once
def groups(report: Report) -> list[SegmentNumbers]:
    """All users first, then segments in the order of the report."""
    cells: dict[tuple[str | None, str | None], dict[tuple[str, str], Estimate]] = {}
    for estimate in report.estimates:
        segment = cells.setdefault((estimate.segmentation, estimate.segment), {})
        segment[estimate.model, estimate.metric] = estimate
    found = []
    of_report, effective = report.models, effective_of(report)
    for (segmentation, name), numbers in cells.items():
        shown = {model for model, _ in numbers}
        models = tuple(model for model in of_report if model in shown)
        labels = tuple(dict.fromkeys(label for _, label in numbers))
        rounds = {m: effective[name, m] for m in models if (name, m) in effective}
        found.append(SegmentNumbers(segmentation, name, models, labels, numbers, rounds))
    return found


def count_noun(number: int, noun: str) -> str:
    """`1 user`, `2,000 users`."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def count_words(report: Report) -> CountWords:
    """The words for the counts of a report."""
    return RANKED_COUNTS if report.kind == "rankings" else declared(report.kind).words


def units_of(report: Report) -> str:
    """Whose values they are: users, or units of judges."""
    return f"{count_words(report).unit}s"


def truth_notes(truth: TruthCounts, words: CountWords = RANKED_COUNTS) -> list[str]:
    """What the truth holds, and what was dropped or odd where it was."""
    notes = [
        *_row_notes(truth.rows, truth.rows_used, truth.rows_dropped.items()),
        count_noun(truth.users, words.unit),
        count_noun(truth.pairs, words.pair),
    ]
    if truth.users_without_relevant:
        notes.append(f"{count_noun(truth.users_without_relevant, 'user')} without relevant items")
    if truth.in_train:
        notes.append(f"{count_noun(truth.in_train, 'pair')} in train")
    if truth.newest:
        notes.append(f"newest row of {truth.newest}")
    return notes


def model_notes(model: ModelCounts, words: CountWords = RANKED_COUNTS) -> list[str]:
    """What a model's rankings hold, and what was dropped or odd where it was."""
    notes = [
        *_row_notes(model.rows, model.rows_used, model.rows_dropped.items()),
        count_noun(model.users, words.unit),
        words.depth.format(model.depth),
    ]
    among = " among relevant items" if model.duplicates_searched == "relevant" else ""
    for number, noun, said in (
        (model.users_without_ranking, words.unit, f" {words.without_ranking}"),
        (model.users_without_truth, words.unit, f" {words.without_truth}"),
        (model.duplicates, "duplicate", among),
        (model.seen_in_train, "row", " seen in train"),
        (model.bad_ranks, "user", " with gaps or repeats of ranks"),
        (model.ties, "tie", ""),
    ):
        if number:
            notes.append(count_noun(number, noun) + said)
    return notes


def _row_notes(rows: int, rows_used: int, dropped: Iterable[tuple[str, int]]) -> list[str]:
    reasons = [f"{number:,} {_words(reason)}" for reason, number in dropped if number]
    if not reasons:
        return [count_noun(rows, "row")]
    return [count_noun(rows, "row"), f"{rows_used:,} used", f"dropped: {', '.join(reasons)}"]


def _words(reason: str) -> str:
    return clean(reason).replace("_", " ").replace("-", " ")


def wrap(words: Sequence[str], *, first: str, width: int, separator: str) -> list[str]:
    """`first` and then `words`, joined by `separator` into lines of at most `width` columns.

    Later lines are indented by two blanks; a word that is longer than a line is cut into several.
    """
    lines = [first]
    fresh = True
    for number, word in enumerate(words):
        piece = word + (separator.rstrip() if number + 1 < len(words) else "")
        gap = "" if fresh and not lines[-1].strip() else " "
        if fresh and lines[-1].endswith(" "):
            gap = ""
        if display_width(lines[-1]) + len(gap) + display_width(piece) <= width:
            lines[-1] += gap + piece
            fresh = False
            continue
        if lines[-1].strip():
            lines.append("  ")
        while display_width(lines[-1]) + display_width(piece) > width:
            head = _fitting(piece, max(width - display_width(lines[-1]), 1))
            lines[-1] += head
            piece = piece[len(head) :]
            lines.append("  ")
        lines[-1] += piece
        fresh = False
    return [line.rstrip() for line in lines]


_BREAK = re.compile(r".+?(?:, |\(|$)")


def wrap_label(label: str, width: int) -> list[str]:
    """A metric label over as few lines as `width` allows, broken behind `(` and `, `."""
    lines = [""]
    for piece in _BREAK.findall(clean(label)):
        if lines[-1] and display_width(lines[-1] + piece.rstrip()) > width:
            lines.append("")
        lines[-1] += piece
        while display_width(lines[-1].rstrip()) > width:
            head = _fitting(lines[-1], width)
            lines[-1:] = [head, lines[-1][len(head) :]]
    return [line.rstrip() for line in lines]
