"""A rule with every axis written out: what was set, what a library fixes, and defaults."""

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal
from zoneinfo import ZoneInfo

from evalkit.config import SplitSection
from evalkit.errors import RequestError
from evalkit.splits.libraries import LIBRARIES, PLAIN, check_library

_SPAN = re.compile(r"(\d+)\s*([smhdwSMHDW])")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 7 * 86400}
PER_SECOND = {"s": 1, "ms": 1000, "us": 1_000_000, "ns": 1_000_000_000}


@dataclass(frozen=True, slots=True)
class Span:
    """A length of time, and the calendar unit that it is counted in."""

    seconds: int
    unit: int


def read_span(value: object) -> Span | None:
    """The span that a text such as `7d` or `12h` names."""
    found = _SPAN.fullmatch(value.strip()) if isinstance(value, str) else None
    if found is None or not int(found[1]):
        return None
    unit = _SECONDS[found[2].lower()]
    return Span(int(found[1]) * unit, min(unit, 86400))


def read_moment(value: object, unit: str, zone: str) -> int | None:
    """The time of a moment, in the unit of the log; whole numbers are such times already."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if not isinstance(value, str):
        return None
    try:
        moment = datetime.fromisoformat(value)
    except ValueError:
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=ZoneInfo(zone))
    since = moment - datetime(1970, 1, 1, tzinfo=UTC)
    micros = (since.days * 86400 + since.seconds) * 1_000_000 + since.microseconds
    return micros * PER_SECOND[unit] // 1_000_000


def settle_rule(section: SplitSection, at: str = "split") -> SplitSection:
    """The section with every axis filled in, and `by` the rule that is followed.

    Raises:
        RequestError: an unknown library [unknown-choice], keys that do not go together
            [bad-split].
    """
    rule = _with_library(section, at)
    by = rule.by
    if by == "time" and (rule.folds or read_span(rule.test)):
        by = "window"
    elif by == "time" and (isinstance(rule.test, float) or rule.ratios):
        by = "time-ratio"
    elif by == "user" and read_span(rule.test):
        by = "user-span"
    ties = rule.ties
    if ties is None or ties == "unstable":
        ties = "together" if by == "time-ratio" and ties is None else "input"
    rule = rule.model_copy(update={"by": by, "ties": ties})
    _check(rule, section, at)
    return rule


def least_as_read(rule: SplitSection) -> float | None:
    """From which relevance on rows of a log are read; None: all are, also where repeats leave."""
    return rule.threshold if rule.threshold_in == "all" and rule.dedupe == "none" else None


def _kind(section: SplitSection) -> Literal["rows", "share", "time"]:
    if section.by.startswith("time") or section.by == "window":
        return "time"
    return "share" if section.ratios or isinstance(section.test, float) else "rows"


def axes_of(library: str, section: SplitSection) -> dict[str, object]:
    """The axes that a library fixes for such a split."""
    fixed = LIBRARIES[library]
    axes = {**PLAIN, **fixed.get("", {}), **fixed.get(_kind(section), {})}
    if "by" in axes and not isinstance(section.test, float) and not section.folds:
        del axes["by"]  # which a share is turned into alone
    rows = section.test
    if library == "replay-polars" and _kind(section) == "rows" and isinstance(rows, int):
        axes["min_rows"] = rows
    return axes


def _with_library(section: SplitSection, at: str) -> SplitSection:
    if section.like is None:
        return section
    check_library(section.like, at)
    axes = axes_of(section.like, section)
    unset = {key: each for key, each in axes.items() if key not in section.model_fields_set}
    if "by" in axes:
        unset["by"] = axes["by"]
    return section.model_copy(update=unset)


def _is_zone(name: str) -> bool:
    try:
        return bool(ZoneInfo(name))
    except (ValueError, OSError, KeyError):
        return False


_OF_ONE = ("user", "item", "users")  # rules that order the rows of one user or item
_SIZED = (
    *("time", "time-ratio", "time-quantile", "window", "user-span"),
    *("user", "item", "users", "rows"),
)
_FOLLOWED_BY = {  # rules that follow a key which others would pass over
    "folds": ("window", "user", "item", "users", "rows", "round-robin", "blocks"),
    "test": (*_SIZED, "new-users"),
    "validation": _SIZED,
    "ratios": ("time-ratio", "percentile-user", "user", "item", "users", "rows"),
    "fold_in": ("users",),
    "left_out": ("user", "item"),
    "train": ("window",),
    "end": ("window",),
    "zone": ("time", "window"),
    "seed": ("users", "rows"),
    "boundary": ("time", "window"),
    "min_rows": ("user", "item"),
    "order": _OF_ONE,
}


def _refuse_unfollowed(rule: SplitSection, refuse: Callable[[str, str], None]) -> None:
    """Refuse keys that say nothing of such a split, and would be passed over."""
    for name, rules in _FOLLOWED_BY.items():
        value = getattr(rule, name)
        is_drawn = name == "seed" and rule.order == "hash"
        if value != SplitSection.model_fields[name].get_default() and not (
            rule.by in rules or is_drawn
        ):
            also = 'order = "hash" draws rows, or ' if name == "seed" and rule.by in _OF_ONE else ""
            refuse(f"by = {rule.by!r} has no {name}", f"{also}leave {name} out")
    drawn = rule.by in ("users", "rows") and rule.folds
    for name in ("test", "validation"):
        if getattr(rule, name) is not None and (drawn or rule.ratios):
            other = "ratios" if rule.ratios else "folds"
            refuse(f"{other} say what is held out, and {name} says otherwise", f"leave {name} out")
    if rule.folds and rule.folds > 1 and rule.by in ("user", "item"):
        if rule.ratios or not isinstance(rule.test, int):
            refuse("folds of a share of rows would all be one", "test = 1, rows for each fold")
    if rule.left_out != "drop" and (rule.folds or 1) < 2:
        refuse("left_out is of several folds, and there is one", "folds = 2, or leave left_out out")
    if rule.below_min != "train" and not rule.min_rows:
        refuse("no min_rows says whose rows below_min is of", "min_rows = 5, or leave it out")
    if rule.by == "time-quantile" and not isinstance(rule.validation, float | None):
        refuse("by = 'time-quantile' takes shares", "validation = 0.1")
    if rule.min_train > 1 and rule.by not in _OF_ONE:
        refuse(f"by = {rule.by!r} has no min_train", "leave min_train out")


def _refuse_ties(ties: str | None, by: str, refuse: Callable[[str, str], None]) -> None:
    """Refuse ties that were asked for, and that such a split breaks otherwise."""
    if ties == "together" and by in _OF_ONE:
        refuse(f"by = {by!r} parts equal times", 'ties = "input", "first" or "item"')
    if ties == "item" and by == "item":
        refuse("rows of one item have no order by item", 'ties = "input" or "first"')
    if ties in ("first", "item") and by not in _OF_ONE:
        hint = 'ties = "together" or "input"' if by == "time-ratio" else "leave ties out"
        refuse(f"by = {by!r} has no ties = {ties!r}", hint)


def _refuse_idle(
    rule: SplitSection, section: SplitSection, refuse: Callable[[str, str], None]
) -> None:
    """Refuse keys that were written, and say nothing beside the others."""
    sizes = (rule.test, rule.validation)
    shares = rule.ratios or any(isinstance(each, float) for each in sizes)
    if section.rounding != "floor" and not (shares and rule.by in ("time-ratio", "user", "item")):
        refuse("no share is turned into a number of rows, to be rounded", "leave rounding out")
    if section.validation_of_rest and not isinstance(rule.validation, float):
        refuse("validation_of_rest is of a share", "validation = 0.1, or leave it out")
    if section.validation_of_rest and rule.by in ("users", "rows"):
        refuse(f"by = {rule.by!r} draws shares of all", "leave validation_of_rest out")
    if rule.zone != "UTC" and rule.end == "last":
        refuse("end = 'last' has no calendar, and so no zone", "leave zone out")
    if rule.train == "sliding" and (rule.folds or 1) < 2:
        refuse("train slides over several folds, and there is one", "folds = 2, or leave train out")
    if rule.threshold_in != "all" and rule.threshold is None:
        refuse("threshold_in is of a threshold, and there is none", "threshold = 4.0")
    if rule.core is not None and not (rule.core.user or rule.core.item):
        refuse("core asks for no row of users and of items", "core = { user = 5, item = 5 }")


def _check(rule: SplitSection, section: SplitSection, at: str) -> None:
    """Refuse what cannot be a split."""

    def refuse(message: str, hint: str) -> None:
        raise RequestError(message, code="bad-split", at=at, hint=hint)

    _refuse_unfollowed(rule, refuse)
    _refuse_ties(section.ties, rule.by, refuse)
    _refuse_idle(rule, section, refuse)
    sizes = [each for each in (rule.test, rule.validation) if isinstance(each, float)]
    if any(not 0 <= each < 1 for each in sizes) or sum(sizes) >= 1:
        refuse(
            f"shares of {' and '.join(map(str, sizes))} leave no train",
            "test = 0.1 is a share of a tenth; test = 1 is one row",
        )
    if rule.ratios and (
        len(rule.ratios) not in (2, 3) or not all(0 <= each < math.inf for each in rule.ratios)
    ):
        refuse(f"ratios are {rule.ratios}", "ratios = [0.8, 0.1, 0.1]: train, validation, test")
    if rule.ratios and rule.ratios[0] <= 0:
        refuse("ratios leave no train", "ratios = [0.8, 0.1, 0.1]: train, validation, test")
    needs_folds = rule.by in ("round-robin", "blocks")
    if rule.test is None and not rule.ratios and not needs_folds and not rule.folds:
        refuse("nothing says what is test", 'test = "7d", a moment, a share (0.1), or rows (1)')
    if needs_folds and (rule.folds or 0) < 2:
        refuse(f"by = {rule.by!r} has no folds", "folds = 5")
    if rule.by in ("new-users", "time-quantile") and not isinstance(rule.test, float):
        refuse(f"by = {rule.by!r} takes a share", "test = 0.1")
    if rule.by == "percentile-user" and not rule.ratios:
        refuse("by = 'percentile-user' takes ratios", "ratios = [0.8, 0.1, 0.1]")
    counted = ("user", "item", "users", "rows", "time-ratio")
    texts = [each for each in (rule.test, rule.validation) if isinstance(each, str)]
    if rule.by in counted and texts:
        refuse(f"{texts[0]!r} is no number of rows for by = {rule.by!r}", "test = 1, or 0.1")
    sized = [each for each in (rule.test, rule.validation) if each is not None]
    if rule.by == "user-span" and not all(map(read_span, sized)):
        refuse(f"{' and '.join(map(str, sized))} are not spans, both of them", 'test = "7d"')
    if not _is_zone(rule.zone):
        refuse(f"no time zone is called {rule.zone!r}", 'zone = "Europe/Berlin"')
    if rule.by == "window" and read_span(rule.test) is None:
        refuse(f"folds of {rule.test!r} have no width", 'test = "7d"')
    if rule.validation is not None and rule.by == "window" and read_span(rule.validation) is None:
        refuse(f"validation = {rule.validation!r} is no span, as test is", 'validation = "7d"')
    negative = [each for each in (rule.test, rule.validation) if isinstance(each, int) and each < 0]
    if negative and rule.by != "time":
        refuse(f"{negative[0]} rows are no part", "test = 1")
    moments = {"test": rule.test, "validation": rule.validation} if rule.by == "time" else {}
    for name, moment in moments.items():
        if moment is not None and read_moment(moment, "s", rule.zone) is None:
            is_test = name == "test"
            message = f"{name} = {moment!r} is no moment{'' if is_test else ', as test is'}"
            others = ', "2026-11-01 06:00", or "7d"' if is_test else ""
            refuse(message, f'{name} = "2026-11-01"{others}')
    if rule.write == "where" and rule.by not in ("time", "window", "time-ratio", "time-quantile"):
        refuse("write = 'where' needs one moment for all", 'by = "time", or write = "assignment"')
