"""F of two metrics of one user: `f_of(precision, recall, beta=2)@10`."""

import math
import re
from dataclasses import replace

from ..errors import RequestError
from ._declare import Metric, Request, metric
from ._measuring import is_made_of_users
from ._over_users import FOf, split_arguments
from ._parameters import write_value

_CALL = re.compile(r"\s*f_of\s*\((?P<inner>.*)\)\s*(?:@\s*(?P<cutoffs>[^@]*?))?\s*", re.DOTALL)
_BETA = re.compile(r"\s*beta\s*=\s*(\S+)\s*")
HINT = "write f_of(precision, recall)@10, or f_of(precision, recall, beta=2)@10"


def split_f_of(written: str, at: str) -> tuple[tuple[str, str], float, str | None] | None:
    """The two metrics, beta, and the cutoffs as they are written; None for another expression.

    Raises:
        RequestError: it is not what it begins as [bad-metric-syntax, bad-parameter-value].
    """
    if not re.match(r"\s*f_of\s*\(", written):
        return None
    call = _CALL.fullmatch(written)
    parts = split_arguments("" if call is None else call["inner"])
    beta = _BETA.fullmatch(parts.pop()) if parts is not None and len(parts) == 3 else None
    if call is None or parts is None or len(parts) != 2:
        raise not_two(written, at)
    try:
        weight = 1.0 if beta is None else float(beta[1])
    except ValueError:
        weight = math.nan
    if not 0.0 < weight < math.inf:
        message = f"beta of f_of is a number above 0, not {beta[1] if beta else ''!r}"
        raise RequestError(message, code="bad-parameter-value", at=at, hint=HINT)
    return (parts[0].strip(), parts[1].strip()), weight, call["cutoffs"]


def not_two(written: str, at: str) -> RequestError:
    """That an expression is not made of two metrics."""
    message = f"{written!r} is no F of two metrics"
    return RequestError(message, code="bad-metric-syntax", at=at, hint=HINT)


def f_of(parts: tuple[Request, Request], beta: float, at: str) -> Metric:
    """The metric of two that users have values of.

    Raises:
        RequestError: a part has a cutoff of its own [bad-cutoff], no value of each user
            [no-metric-of-users], or may be below 0 or better below [bad-parameter-value].
    """
    for part in parts:
        own = part.metric
        if part.cutoff is not None:
            message = f"{part.label} has a cutoff inside of f_of, whose own is that of both"
            raise RequestError(message, code="bad-cutoff", at=at, hint=HINT)
        is_plain = is_made_of_users(part) and own.lists is None and own.pair is None
        if own.kind != "rankings" or not is_plain:
            message = f"f_of is of the values of users, and {part.label} is no such metric of hits"
            raise RequestError(message, code="no-metric-of-users", at=at, hint=HINT)
        if own.bounds[0] < 0.0 or not own.higher_is_better:
            message = f"{part.label} is better where it is lower, or below 0: no F has it"
            raise RequestError(message, code="bad-parameter-value", at=at, hint=HINT)
    first, second = parts
    told = "" if beta == 1.0 else f", beta={write_value(beta)}"
    ends = [each.metric.bounds[1] for each in parts]
    declare = metric(
        name=f"f_of({first.label}, {second.label}{told})",
        summary=f"F of {first.label} and {second.label}, user by user; 0 where both are.",
        formula=f"(1 + beta^2) a b / (beta^2 a + b), a {first.label}, b {second.label}",
        latex=r"\frac{(1 + \beta^2) a b}{\beta^2 a + b}",
        source="van Rijsbergen 1979, Information Retrieval, 2nd edition, chapter 7",
        bounds=(0.0, 1.0 if max(ends) == 1.0 else math.inf),
        undefined="where one of both is",
        monotone=first.metric.monotone and second.metric.monotone,
    )
    return replace(declare(_of_two), pair=FOf(parts, beta))  # type: ignore[arg-type]


def _of_two() -> None:
    """It has no kernel: it is made of the values of two metrics."""
