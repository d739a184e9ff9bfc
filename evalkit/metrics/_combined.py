"""One number of several metrics, as `hmean(nDCG@10, novelty@10)`."""

import math
import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace

from ..errors import EvalkitError, RequestError, did_you_mean
from ._declare import Combination, Metric, Request, metric
from ._parameters import text
from ._registry import fold, registry_of, spellings

FUNCTIONS = ("min", "mean", "hmean")
HINT = "write min, mean or hmean(nDCG@10, novelty@10), or 0.7 * nDCG@10 + 0.3 * novelty@10"

_WORD = r"[A-Za-z_][\w.-]*"
_CALL = re.compile(rf"\s*(?P<name>{'|'.join(FUNCTIONS)})\s*\((?P<inner>.*)\)\s*", re.DOTALL)
_OPENING = re.compile(rf"\s*(?:{'|'.join(FUNCTIONS)})\s*\(")
_PART = re.compile(
    rf"\s*(?P<part>{_WORD}\s*(?:\((?:[^()'\"]|'[^']*'|\"[^\"]*\")*\))?"
    r"\s*(?:@\s*(?:\{[^}]*\}|\w+))?)\s*"
)
_NUMBER = r"(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?"
_BEFORE = re.compile(rf"\s*(?P<sign>[+-]?)\s*(?:(?P<number>{_NUMBER})\s*\*)?")
_BEHIND = re.compile(rf"\*\s*(?P<number>{_NUMBER})\s*")


def combine(
    name: str,
    written: str,
    measured: Sequence[Request],
    read: Callable[[str], Sequence[Request]],
    *,
    others: Collection[str],
    known: Collection[Metric],
    at: str,
) -> Request:
    """A metric of that name, made of metrics that are measured.

    Args:
        written: the combination.
        read: what the name of a metric asks for.
        others: names of combinations.
        known: the metrics that there are.
    Raises:
        RequestError: what is written is no combination [bad-combination], or names no metric
            [unknown-metric], one of ratings or labels [metric-of-other-kind], or one that is not
            measured [metric-not-measured]; the name is taken [metric-name-taken].
    """
    if not re.fullmatch(r"[A-Za-z_][\w-]*", name) or fold(name) in FUNCTIONS:
        message = f"{name!r} cannot name a combination"
        raise _refused(message, at, "letters, digits, _ and -, and a letter first")
    if any(fold(name) in spellings(each) for each in known):
        message = f"the combination {name!r} has the name of a metric"
        raise RequestError(message, code="metric-name-taken", at=at, hint="give it another name")
    how, weights, texts = _read(written, at)
    parts: list[Request] = []
    for part_text in texts:
        part = _part(part_text, measured, read, others, at)
        if part in parts:
            raise _refused(f"{part.label} stands in {written!r} twice", at, HINT)
        if how == "hmean" and part.metric.bounds[0] < 0.0:
            message = f"{part.label} may be below 0, where no harmonic mean is"
            raise _refused(message, at, "write mean, min or a weighted sum")
        parts.append(part)
    if len(parts) < 2:
        raise _refused(f"{written!r} combines one metric alone", at, HINT)
    return _metric(name, written, Combination(how, tuple(parts), weights)).request()


def _refused(message: str, at: str, hint: str) -> RequestError:
    return RequestError(message, code="bad-combination", at=at, hint=hint)


def _read(written: str, at: str) -> tuple[str, tuple[float, ...], list[str]]:
    """What is done, the weight of each part, and the parts as they are written."""
    call = _CALL.fullmatch(written)
    if call is None and _OPENING.match(written) and ")" not in written:
        raise _stopped(written, len(written), ")", at)
    how = "sum" if call is None else call["name"]
    place, end = (0, len(written)) if call is None else call.span("inner")
    weights: list[float] = []
    texts: list[str] = []
    while True:
        weight = 1.0
        if call is None:
            before = _BEFORE.match(written, place)
            assert before is not None
            if texts and not before["sign"]:
                raise _stopped(written, place, "+ or -", at)
            weight, place = float(f"{before['sign']}{before['number'] or 1}"), before.end()
        part = _PART.match(written, place, end)
        if part is None:
            raise _stopped(written, place, "a metric", at)
        place = part.end()
        behind = _BEHIND.match(written, place) if call is None else None
        if behind is not None:
            weight, place = weight * float(behind["number"]), behind.end()
        if not math.isfinite(weight) or weight == 0.0:
            raise _refused(f"{part['part'].strip()} has the weight {weight:g}", at, HINT)
        weights.append(weight)
        texts.append(part["part"].strip())
        if place == end:
            return how, tuple(weights), texts
        if call is not None:
            if written[place] != ",":
                raise _stopped(written, place, "a comma", at)
            place += 1


def _stopped(written: str, place: int, wanted: str, at: str) -> RequestError:
    rest = written[place:].strip()
    found = f"before {rest[:20]!r}" if rest else "at the end"
    return _refused(f"{written!r} lacks {wanted} {found} (character {place + 1})", at, HINT)


def _part(
    written: str,
    measured: Sequence[Request],
    read: Callable[[str], Sequence[Request]],
    others: Collection[str],
    at: str,
) -> Request:
    """One part of a combination."""
    name = re.match(_WORD, written)
    assert name is not None
    if written in others or name[0] in FUNCTIONS:
        message = f"{written!r} is a combination itself, and combinations are of metrics"
        raise _refused(message, at, "write its parts out")
    try:
        found = read(written)
    except EvalkitError as error:
        kind = next((each for each in ("ratings", "labels") if _is_of(each, name[0])), None)
        if error.code != "unknown-metric" or kind is None:
            raise
        message = f"{name[0]} is a metric of {kind}, and rankings are measured"
        hint = "combine metrics of one config"
        raise RequestError(message, code="metric-of-other-kind", at=at, hint=hint) from error
    if any(each.metric.over_users is not None for each in found):
        message = f"{written!r} is no mean over users, and combinations are of means"
        raise _refused(message, at, HINT)
    if len(found) != 1:
        raise _refused(f"{written!r} is {len(found)} metrics", at, "one cutoff each")
    if found[0] not in measured:
        hint = did_you_mean(found[0].label, [each.label for each in measured], "add it there")
        message = f"{found[0].label} is not among metrics.names"
        raise RequestError(message, code="metric-not-measured", at=at, hint=hint)
    return found[0]


def _is_of(kind: str, name: str) -> bool:
    return any(fold(name) in spellings(each) for each in registry_of(kind).values())


def _metric(name: str, written: str, combination: Combination) -> Metric:
    declare = metric(
        name=name,
        summary="One number of several metrics of the run.",
        formula=written,
        latex="",
        source="the config",
        bounds=combination.bounds,
        undefined="a part has no value",
        higher_is_better=combination.higher_is_better,
        monotone=False,
        cutoff="never",
        parameters=(text("of", written, doc="What it is made of."),),
    )
    return replace(declare(_of_no_user), combined=combination)  # type: ignore[arg-type]


def _of_no_user() -> None:
    """A combination has no value of a user, only one of all of them."""
