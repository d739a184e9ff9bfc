"""The table that a terminal shows: models as rows, metrics as columns, oddities below."""

from collections import Counter
from dataclasses import dataclass

from evalkit.errors import clean
from evalkit.report import text
from evalkit.report.comparisons import comparison_lines, finding_lines
from evalkit.report.findings import searches
from evalkit.report.nights import tell_nights
from evalkit.report.record import Report
from evalkit.report.shown import definitions
from evalkit.report.weights import weight_rows

BOLD, YELLOW, RESET = "\x1b[1m", "\x1b[33m", "\x1b[0m"
NAME_WIDTH = 28
LABEL_WIDTH = 20
GAP = "  "
MIN_WIDTH = 40


@dataclass(frozen=True, slots=True)
class _Column:
    header: list[str]
    cells: list[str]
    best: list[bool]

    @property
    def width(self) -> int:
        return max(text.display_width(each) for each in [*self.header, *self.cells])


def render_table(report: Report, *, width: int, color: bool) -> str:
    """The report within `width` columns (40 at least): numbers, counts, warnings."""
    width = max(width, MIN_WIDTH)
    lines = [text.shorten(f"{clean(report.name)} (profile {clean(report.profile)})", width)]
    for group in text.groups(report):
        lines += ["", *group_lines(group, width=width, color=color)]
    if not report.estimates:
        lines += ["", "no numbers"]
    for each in definitions(report):
        lines += text.wrap(clean(each).split(), first="", width=width, separator="")
    lines += weight_lines(report, width)
    lines += comparison_lines(report, width=width)
    for each in tell_nights(report.nights):
        lines += text.wrap(clean(each).split(), first="", width=width, separator="")
    lines += finding_lines(report, width=width) if searches(report) else []
    lines += ["", *count_lines(report, width)]
    lines += warning_lines(report, width=width, color=color)
    return "\n".join(line.rstrip() for line in lines) + "\n"


def weight_lines(report: Report, width: int) -> list[str]:
    """What the weights of logged feedback are."""
    head, rows = weight_rows(report)
    if not rows:
        return []
    names = text.shorten_all([row[0] for row in rows], min(NAME_WIDTH, width // 2))
    columns = [
        _Column([name], [row[place] for row in rows], [False] * len(rows))
        for place, name in enumerate(head[1:], start=1)
    ]
    name_width = max(text.display_width(each) for each in [*names, "model"])
    lines = ["", "weights (! warned of)"]
    for block in _blocks(columns, width - name_width - len(GAP)):
        lines += _block_lines(names, name_width, block, color=False)
    return lines


def warning_lines(report: Report, *, width: int, color: bool, most: int | None = None) -> list[str]:
    """The warnings, and the models that they are about; of each code at most `most`."""
    lines: list[str] = []
    alike = Counter(each.code for each in report.warnings)
    told: Counter[str] = Counter()
    for warning in report.warnings:
        told[warning.code] += 1
        if most is not None and told[warning.code] > most:
            continue
        is_named = warning.model is None or repr(warning.model) in warning.message
        about = "" if is_named else f" ({clean(warning.model or '')})"
        others = alike[warning.code] - told[warning.code]
        if others and told[warning.code] == most:
            about += f"; and {others:,} more such warnings"
        words = f"{clean(warning.message)}{about}".split()
        first = f"warning[{text.shorten(clean(warning.code), width // 2)}]: "
        wrapped = text.wrap(words, first=first, width=width, separator="")
        if color:
            wrapped[0] = wrapped[0].replace("warning", f"{YELLOW}warning{RESET}", 1)
        lines += wrapped
    return lines


def group_lines(group: text.SegmentNumbers, *, width: int, color: bool) -> list[str]:
    """The numbers of one segment below its name and its users."""
    title, common = group.title, group.common_n_users
    if common is not None:
        users = text.count_noun(common, "user")
        title = f"{title}: {users}" if title else users
    lines = [text.shorten(clean(title), width)] if title else []
    return lines + number_lines(group, width=width, color=color)


def number_lines(group: text.SegmentNumbers, *, width: int, color: bool) -> list[str]:
    """Models by metrics; where there are more columns than a line holds, in blocks."""
    names = text.shorten_all(group.models, min(NAME_WIDTH, width // 2))
    name_width = max(text.display_width(each) for each in [*names, "model"])
    room = width - name_width - len(GAP)
    columns = []
    for label in group.labels:
        shown = group.shown(label)
        best = [each.is_best for each in shown]
        cells = [each.text + ("*" if each.is_best else " ") for each in shown]
        header = [f"{line} " for line in text.wrap_label(label, min(LABEL_WIDTH, room - 1))]
        columns.append(_Column(header, cells, best))
    if group.common_n_users is None:
        users = [f"{group.n_users(model):,}" for model in group.models]
        columns.insert(0, _Column(["users"], users, [False] * len(users)))
    if rounds := group.effective_rounds():
        head = ["effective", "rounds"]
        columns.append(_Column(head, rounds, [False] * len(rounds)))
    lines: list[str] = []
    for number, block in enumerate(_blocks(columns, room)):
        lines += [""] if number else []
        lines += _block_lines(names, name_width, block, color=color)
    if any(any(column.best) for column in columns):
        lines.append("* best")
    for note in group.user_notes():
        lines += text.wrap(note.split(" "), first="", width=width, separator="")
    return lines


def _blocks(columns: list[_Column], room: int) -> list[list[_Column]]:
    blocks: list[list[_Column]] = [[]]
    left = room
    for column in columns:
        needed = column.width + (len(GAP) if blocks[-1] else 0)
        if needed > left and blocks[-1]:
            blocks.append([])
            left, needed = room, column.width
        blocks[-1].append(column)
        left -= needed
    return blocks


def _block_lines(
    names: list[str], name_width: int, columns: list[_Column], *, color: bool
) -> list[str]:
    height = max(len(column.header) for column in columns)
    lines = []
    for row in range(height):
        first = "model" if row == height - 1 else ""
        line = text.pad(first, name_width)
        for column in columns:
            above = height - len(column.header)
            cell = column.header[row - above] if row >= above else ""
            line += GAP + text.pad(cell, column.width, right=True)
        lines.append(line)
    for row, name in enumerate(names):
        line = text.pad(name, name_width)
        for column in columns:
            cell = text.pad(column.cells[row], column.width, right=True)
            if color and column.best[row]:
                cell = f"{BOLD}{cell}{RESET}"
            line += GAP + cell
        lines.append(line)
    return lines


def count_lines(report: Report, width: int) -> list[str]:
    names = text.shorten_all(list(report.counts.models), min(NAME_WIDTH, width // 2))
    words = text.count_words(report)
    truth = text.truth_notes(report.counts.truth, words)
    lines = text.wrap(truth, first=f"{words.truth}: ", width=width, separator=";")
    for name, counts in zip(names, report.counts.models.values(), strict=True):
        lines += text.wrap(
            text.model_notes(counts, words), first=f"{name}: ", width=width, separator=";"
        )
    return lines
