"""Parameters of metrics: choices and numbers, with what they take and mean."""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass

NEEDED = "..."  # in a profile: a parameter that the library takes and gives no default
NO_CUTOFF = 2**62  # "no cutoff" as kernels see it
BELOW_ZERO = -5e-324  # what is above it is 0 or more

Value = str | float
Values = Mapping[str, Value]


@dataclass(frozen=True, slots=True)
class Parameter:
    """One choice that somebody may make; `choice`, `number` and `text` build it.

    `is_text`: any text, such as the name of a column; kernels are not given it. `tried` is
    another number than the default, for tests of all metrics. `is_late`: it is younger than
    reports of its metric, which leave its default out. `is_written`: every
    label has it.
    """

    name: str
    default: Value
    doc: str
    choices: tuple[str, ...] = ()  # empty for a number
    meanings: tuple[str, ...] = ()  # one for each choice
    above: float = -math.inf  # both limits are excluded
    below: float = math.inf
    is_whole: bool = False
    tried: float | None = None
    is_text: bool = False
    is_late: bool = False
    is_written: bool = False

    def encode(self, value: Value) -> int | float:
        """What the kernel gets: the place of a choice, or the number."""
        return self.choices.index(str(value)) if self.choices else float(value)

    def accepts(self, value: Value) -> bool:
        if self.choices:
            return value in self.choices
        if self.is_text:
            return isinstance(value, str) and not {"'", '"'} <= set(value)
        if not isinstance(value, (int, float)) or not self.above < value < self.below:
            return False
        return not self.is_whole or value == int(value)

    @property
    def domain(self) -> str:
        """The values it takes, in words."""
        if self.choices:
            *first, last = map(repr, self.choices)
            return f"{', '.join(first)} or {last}" if first else last
        if self.is_text:
            return "a text in quotes"
        limits = [
            f"{word} {write_value(limit)}"
            for word, limit in (("above", self.above), ("below", self.below))
            if math.isfinite(limit)
        ]
        if self.above == BELOW_ZERO:
            limits[0] = "of 0 or above"
        kind = "a whole number" if self.is_whole else "a number"
        return " ".join([kind, " and ".join(limits)]).strip()


def choice(
    name: str, choices: Mapping[str, str], *, doc: str, is_written: bool = False
) -> Parameter:
    """A parameter with named values, each with its meaning; the first one is the default.

    The kernel gets the place of the value: 0 for the first, 1 for the second.
    """
    names = tuple(choices)
    meanings = tuple(choices.values())
    return Parameter(name, names[0], doc, names, meanings, is_written=is_written)


def number(
    name: str,
    default: float,
    *,
    doc: str,
    above: float = -math.inf,
    below: float = math.inf,
    is_whole: bool = False,
    tried: float | None = None,
    is_written: bool = False,
) -> Parameter:
    """A parameter that is a finite number between two limits, neither of them included.

    Args:
        tried: another value than the default, which tests of all metrics take too.
        is_written: every label has it, be it the default.
    """
    return Parameter(
        name, float(default), doc, (), (), above, below, is_whole, tried, is_written=is_written
    )


def text(name: str, default: str, *, doc: str) -> Parameter:
    """A parameter that names something of the run; kernels are not given it."""
    return Parameter(name, default, doc, is_text=True)


def write_value(value: Value) -> str:
    """A parameter's value in the shortest form that reads back."""
    if isinstance(value, str):
        return value
    return str(int(value)) if value == int(value) and abs(value) < 1e15 else repr(float(value))


def read_number(text: str) -> float | None:
    """The number that a text is; `e` is Euler's."""
    if not re.fullmatch(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", text):
        return math.e if text == "e" else None
    value = float(text)
    return value if math.isfinite(value) else None
