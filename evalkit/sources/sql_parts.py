"""What is known of a part of an expression: how large its text, its integers, its plan may get."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from evalkit.sources.sql_words import UNITS, Refused

MOST_CHARACTERS = 100_000  # of an expression; a long list of ids fits
MOST_NESTED = 40  # parentheses, calls and CASE inside one another
MOST_IN_A_ROW = 250  # operators, or WHENs
MOST_PARTS = 5_000  # of what an expression stands for; a few forms repeat what they are given
MOST_COPIES = 100  # of a row's own text in one value
MOST_ADDED = 4_096  # characters in one value that the row does not have
MOST_OF_PATTERN = 1_000  # characters of a regular expression
MOST_YEARS = 100  # of an interval
N_OF_NUMBER = 32  # characters of a number or a time
IN_LISTS = "many values of one column stand in a list: item in (1, 2, 3)"


@dataclass(frozen=True, slots=True)
class SqlPart:
    """What is known of a part of an expression.

    Args:
        size: parts that Polars makes of it.
        depth: operators in a row.
        copies, added: its text is at most so many times the text of the row, and so much longer.
        literal: what it is, where it stands there as such.
        largest: the largest integer that it may be; None: it is none, or nobody knows.
        inside: the same of what a list holds.
        is_wide: it is computed with as many bits as it needs.
        is_nano: it may be a time or a span in nanoseconds, which go around in the year 2262.
        span: where it stands in what was written.
    """

    size: int = 1
    depth: int = 1
    copies: int = 0
    added: int = 0
    literal: str | int | None = None
    is_constant: bool = False
    largest: int | None = None
    inside: int | None = None
    is_wide: bool = False
    is_time: bool = False
    is_nano: bool = False
    span: tuple[int, int] = (0, 0)


def joined(parts: Sequence[SqlPart], *, n_in_a_row: int = 1, is_constant: bool = False) -> SqlPart:
    """A number or a truth that is made of parts."""
    size = 1 + sum(part.size for part in parts)
    depth = n_in_a_row + max(part.depth for part in parts)
    return SqlPart(size, depth, 0, N_OF_NUMBER, is_constant=is_constant)


def grown(part: SqlPart, copies: int, added: int) -> SqlPart:
    return replace(part, copies=copies, added=added)


def widest(part: SqlPart, parts: Sequence[SqlPart]) -> SqlPart:
    """Text that is one of the parts, or less of it."""
    return grown(
        part, max(each.copies for each in parts), max(N_OF_NUMBER, *(each.added for each in parts))
    )


def as_text(part: SqlPart) -> SqlPart:
    return grown(joined((part,)), part.copies, part.added + N_OF_NUMBER)


def largest_of(parts: Sequence[SqlPart]) -> int | None:
    """Of one of these integers; None where some are none."""
    known = [part.largest for part in parts if part.largest is not None]
    return max(known) if parts and len(known) == len(parts) else None


def check_pattern(part: SqlPart) -> None:
    if not isinstance(part.literal, str):
        raise Refused("a pattern is no text in quotes", "regexp_like(item, '^a')")
    if len(part.literal) > MOST_OF_PATTERN:
        raise Refused(f"a pattern has more than {MOST_OF_PATTERN:,} characters", IN_LISTS)


def check_interval(text: str, days: float) -> float:
    """The days of all intervals so far and this one, which go around where they are too many."""
    for number, unit in re.findall(r"(\d+(?:\.\d*)?)\s*([a-z]*)", text.lower()):
        days += float(number) * UNITS.get(unit, 1 / 86400)
    if days > 365.25 * MOST_YEARS:
        raise Refused(f"intervals have more than {MOST_YEARS} years", "interval '30 days'")
    return days


def check_size(part: SqlPart) -> SqlPart:
    if part.depth > MOST_IN_A_ROW:
        raise Refused(f"more than {MOST_IN_A_ROW} operators stand in a row", IN_LISTS)
    if part.size > MOST_PARTS:
        raise Refused(f"it stands for more than {MOST_PARTS:,} parts", IN_LISTS)
    return part


def check_growth(part: SqlPart) -> SqlPart:
    if part.copies > MOST_COPIES or part.added > MOST_ADDED:
        raise Refused(
            f"it makes text of more than {MOST_ADDED:,} characters, or of more than "
            f"{MOST_COPIES} times those of a row",
            "make shorter text",
        )
    return part


def _concat(name: str, parts: Sequence[SqlPart]) -> tuple[int, int]:
    several = [*parts, *([parts[0]] * len(parts) if name == "concat_ws" else [])]
    return sum(part.copies for part in several), sum(part.added for part in several)


def _pad(name: str, parts: Sequence[SqlPart]) -> tuple[int, int]:
    width = parts[1].literal if len(parts) > 1 else 0
    if not isinstance(width, int):
        raise Refused(f"{name}() pads to a width that is no number", f"{name}(item, 8, '0')")
    return parts[0].copies, max(width, parts[0].added)


def _replace(name: str, parts: Sequence[SqlPart]) -> tuple[int, int]:
    old, new = (parts[place].literal if len(parts) > place else "" for place in (1, 2))
    if not isinstance(new, str):
        raise Refused(f"{name}() puts in what is no text in quotes", f"{name}(item, 'a', 'b')")
    n_old = len(old) if isinstance(old, str) else 0
    times = -(-len(new) // n_old) if n_old else len(new) + 1
    return parts[0].copies * max(times, 1), parts[0].added * max(times, 1) + len(new)


def _between(name: str, parts: Sequence[SqlPart]) -> tuple[int, int]:
    """Elements of a list with text between them."""
    text = parts[1].literal if len(parts) > 1 else ""
    if not isinstance(text, str):
        raise Refused(f"{name}() puts in what is no text in quotes", f"{name}(items, ',')")
    return parts[0].copies * (1 + len(text)), parts[0].added * (1 + len(text))


def _by_format(name: str, parts: Sequence[SqlPart]) -> tuple[int, int]:
    return 16 * sum(part.copies for part in parts), 16 * sum(part.added for part in parts)


GROWTH: dict[str, Callable[[str, Sequence[SqlPart]], tuple[int, int]]] = {
    "concat": _concat,
    "concat_ws": _concat,
    "lpad": _pad,
    "rpad": _pad,
    "replace": _replace,
    "array_to_string": _between,
    "strftime": _by_format,
}
