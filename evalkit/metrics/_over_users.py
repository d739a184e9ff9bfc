"""Numbers over users that are not their mean: `fraction(nDCG@10, at_least=0.5)`, `gmean(MAP)`."""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from ..errors import RequestError
from ._parameters import Parameter, number, write_value

if TYPE_CHECKING:
    from numpy import float64
    from numpy.typing import NDArray

    Floats = NDArray[float64]


_LEVEL = number("at_least", 0.5, doc="The value from which on a user counts.")
_FLOOR = number("floor", 1e-5, doc="What smaller values count as.", above=0.0)
_Q = number("q", 0.1, doc="The share of users at or below.", above=0.0, below=1.0)
_SHARE = number("share", 0.1, doc="Of users, the worst.", above=0.0, below=1.0)

PARAMETERS: Mapping[str, Parameter | None] = {
    "fraction": _LEVEL,
    "gmean": _FLOOR,
    "median": None,
    "quantile": _Q,
    "tail_mean": _SHARE,
    "lowest": None,
    "highest": None,
}
ORDERED = ("median", "quantile", "tail_mean", "lowest", "highest")  # no means of anything
SUMMARIES = {
    "fraction": "The share of users with a value of at least {}.",
    "gmean": "The geometric mean over users, smaller values taken for {}.",
    "median": "The middle value of users; of an even number the mean of the two in the middle.",
    "quantile": "The smallest value with a share of at least {} of users at or below.",
    "tail_mean": "The mean of the worst {} of users.",
    "lowest": "The lowest value of a user.",
    "highest": "The highest value of a user.",
}
FORMULAS = {
    "fraction": "users with {} >= {} / users",
    "gmean": "exp(mean over users of log(max({}, {})))",
    "median": "median over users of {}",
    "quantile": "min x with users of {} <= x at least {} of users",
    "tail_mean": "mean of the lowest values of {}, of a share {} of users; the last one in part",
    "lowest": "min over users of {}",
    "highest": "max over users of {}",
}
SOURCES = {
    "fraction": "a share; Wilson 1927, JASA 22, p. 209",
    "gmean": "Robertson 2006, On GMAP, CIKM, p. 78",
    "median": "Woodruff 1952, JASA 47, p. 635: limits",
    "quantile": "Hyndman and Fan 1996, definition 1; Woodruff 1952, JASA 47, p. 635: limits",
    "tail_mean": "Rockafellar and Uryasev 2000, Journal of Risk 2(3), 21-41",
    "lowest": "the smallest value",
    "highest": "the largest value",
}

_CALL = re.compile(r"\s*(?P<how>[A-Za-z_]\w*)\s*\((?P<inner>.*)\)\s*", re.DOTALL)
_PIECES = re.compile(r"'[^']*'|\"[^\"]*\"|.", re.DOTALL)
_ARGUMENT = re.compile(r"\s*([A-Za-z_]\w*)\s*=\s*([^\s=]+)\s*")
_OPENS = re.compile(rf"\s*(?:{'|'.join([*PARAMETERS, 'f_of'])})\s*\(")


@dataclass(frozen=True, slots=True)
class OverUsers:
    """What is made of the values that users have of a metric.

    Args:
        how: a key of `PARAMETERS`.
        parameter: its value; NaN where it takes none.
        of: the `Metric`.
    """

    how: str
    parameter: float
    of: Any

    def spell(self, metric: str) -> str:
        """`fraction(nDCG@10, at_least=0.5)`."""
        own = PARAMETERS[self.how]
        return f"{self.how}({metric}{f', {own.name}={write_value(self.parameter)}' if own else ''})"

    def of_values(self, values: "Floats") -> "Floats":
        """What the number is the mean of; who has no value, or an infinite one, stays so."""
        import numpy as np

        if self.how in ORDERED:
            return values
        if self.how == "gmean":
            made = np.log(np.maximum(values, self.parameter))
        else:
            made = (values >= self.parameter).astype(np.float64)
        return np.where(np.isfinite(values), made, values)

    @property
    def bounds(self) -> tuple[float, float]:
        """Those of what the number is the mean of."""
        if self.how == "gmean":
            low, high = (max(each, self.parameter) for each in self.of.bounds)
            return math.log(low), math.log(high)
        return (0.0, 1.0) if self.how == "fraction" else self.of.bounds


@dataclass(frozen=True, slots=True)
class FOf:
    """The parts, which have no cutoff of their own, and how much more the second one weighs."""

    parts: tuple[Any, Any]
    beta: float

    def at(self, cutoff: int | None) -> tuple[Any, Any]:
        """The parts at a cutoff."""
        first, second = self.parts
        return replace(first, cutoff=cutoff), replace(second, cutoff=cutoff)

    def of(self, first: "Floats", second: "Floats") -> "Floats":
        """The F of the values of users, 0 where both are 0; what spoils a mean spoils this too."""
        import numpy as np

        weight = self.beta * self.beta
        with np.errstate(invalid="ignore"):
            below = weight * first + second
            made = (1.0 + weight) * first * second / np.where(below == 0.0, 1.0, below)
        return np.where(np.isfinite(below), made, below)


def opens_over_users(written: str) -> bool:
    """Whether an expression begins as one over users, or of two values of each."""
    return _OPENS.match(written) is not None


def split_call(written: str, at: str) -> tuple[str, str, str]:
    """What is made, of which metric, and the arguments behind it.

    Raises:
        RequestError: brackets do not fit [bad-metric-syntax].
    """
    call = _CALL.fullmatch(written)
    parts = split_arguments("" if call is None else call["inner"])
    if call is None or parts is None:
        message = f"{written!r} is no metric expression"
        hint = "write name(metric, parameter=value), such as fraction(nDCG@10, at_least=0.5)"
        raise RequestError(message, code="bad-metric-syntax", at=at, hint=hint)
    return call["how"], parts[0], ",".join(parts[1:])


def split_arguments(inner: str) -> list[str] | None:
    """What stands between commas outside of brackets; None where brackets do not fit."""
    parts, depth = [""], 0
    for piece in _PIECES.findall(inner):
        depth += (piece in "({") - (piece in ")}")
        if depth < 0:
            return None
        if piece == "," and not depth:
            parts.append("")
        else:
            parts[-1] += piece
    return None if depth else parts


def read_parameter(how: str, arguments: str, at: str) -> float:
    """The parameter of a number over users; its default where it is not written.

    Raises:
        RequestError: [bad-metric-syntax, unknown-parameter, bad-parameter-value].
    """
    own = PARAMETERS[how]
    if not arguments.strip():
        return math.nan if own is None else float(own.default)
    parts = _ARGUMENT.fullmatch(arguments)
    if parts is None:
        message = f"{arguments.strip()!r} is no parameter=value of {how}"
        hint = f"write {how}(metric)" if own is None else f"write {how}(metric, {own.name}=0.5)"
        raise RequestError(message, code="bad-metric-syntax", at=at, hint=hint)
    if own is None or parts[1] != own.name:
        hint = "it takes none" if own is None else f"it has {own.name}"
        message = f"{how} has no parameter {parts[1]!r}"
        raise RequestError(message, code="unknown-parameter", at=at, hint=hint)
    try:
        value = float(parts[2])
    except ValueError:
        value = math.nan
    if not (math.isfinite(value) and own.accepts(value)):
        message = f"{own.name} of {how} is {own.domain}, not {parts[2]!r}"
        hint = f"write {own.name}={own.default:g}, the default"
        raise RequestError(message, code="bad-parameter-value", at=at, hint=hint)
    return value
