"""The keys of [statistics] that experiments have, and the rules of comparing that they make."""

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from evalkit.errors import EvalkitError, RequestError, did_you_mean, noting, raise_all
from evalkit.statistics.corrections import CORRECTIONS
from evalkit.statistics.independent import Rules
from evalkit.statistics.paired import check_margin
from evalkit.statistics.spending import Sequential, bounds_of, rho_of

from ._refused import not_built

CHOICES: Mapping[str, tuple[str, ...]] = {
    "distribution": ("t", "normal"),
    "variance": ("welch", "pooled"),
    "relative": ("fieller", "delta", "log", "fixed"),
    "alternative": ("two-sided", "greater", "less"),
    "limits": ("auto", "newcombe", "wald", "percentile"),
    "sample_ratio": ("auto", "exact", "chi-squared"),
    "correction": CORRECTIONS,
    "family": ("report", "metric"),
    "clusters": ("cr2", "delta"),
}


@dataclass(frozen=True, slots=True)
class Statistics:
    """The keys of [statistics] that experiments have."""

    level: float = 0.95
    correction: str = "holm"
    family: str = "report"
    margin: float | None = None
    margin_relative: float | None = None
    baseline: str | None = None
    distribution: str = "t"
    variance: str = "welch"
    relative: str = "fieller"
    alternative: str = "two-sided"
    limits: str = "auto"
    sample_ratio: str = "auto"
    clusters: str = "cr2"
    cluster: str | None = None
    strata: tuple[str, ...] = ()
    power: float = 0.8
    search: bool = False
    min_users: int = 1
    tightest_at: float | None = None  # units of both variants: limits that are always valid
    spending: str | None = None
    final: float | None = None
    looks: tuple[float, ...] = ()  # shares of the final size at which somebody looked before

    @property
    def is_sequential(self) -> bool:
        """Whether the experiment is looked at more than once."""
        return self.tightest_at is not None or self.spending is not None

    def is_spent(self, n_units: int, earlier: Sequence[int] = ()) -> bool:
        """Whether an earlier look at the final size, or beyond it, left no error to this one."""
        if self.final is None:
            return False
        shares = (*self.looks, *(each / self.final for each in earlier))
        return any(1.0 <= each < n_units / self.final for each in shares)

    def is_plan(self, sequential: object) -> bool:
        """Whether an earlier look went by this plan, as far as anybody knows."""
        if sequential is None:
            return True
        with suppress(RequestError):
            other = _sequential(sequential)
            return all(getattr(self, key) == other[key] for key in other if key != "looks")
        return False

    def rules(self, n_units: int = 0, earlier: Sequence[int] = ()) -> Rules:
        """How two variants are compared, with so many units of all, of earlier looks as well."""
        spending = None
        if self.spending is not None and self.final is not None:
            here = min(1.0, max(1e-6, n_units / self.final))
            looks = {*self.looks, *(each / self.final for each in earlier)}
            shares = (*sorted(each for each in looks if 0.0 < each < here), here)
            spending = self.spending, () if self.is_spent(n_units, earlier) else shares
        sequential = None
        if self.tightest_at is not None:
            sequential = Sequential(self.tightest_at, self.level)
        return Rules(
            level=self.level,
            is_normal=self.distribution == "normal" or self.is_sequential,
            is_pooled=self.variance == "pooled",
            relative=self.relative,  # type: ignore[arg-type]
            alternative=self.alternative,  # type: ignore[arg-type]
            sequential=sequential,
            spending=spending,
        )

    def bounds(self, looks: Sequence[tuple[int, int]], n_tests: int = 1) -> list[float]:
        """Standard errors at which each look finds an effect, after the looks before it.

        Args:
            looks: units of all variants, and of both that are compared; ascending.
            n_tests: of the family, which share the error: the first step of Holm's.
        """
        sizes = [n_all for n_all, _ in looks]
        is_open = {n: not self.is_spent(n, sizes) for n in sizes}
        rules = self.rules(max((n for n in sizes if is_open[n]), default=max(sizes)), sizes)
        is_shared = self.correction in ("holm", "bonferroni")
        error = rules.error / n_tests if is_shared else rules.error
        if rules.spending is None or self.final is None:
            return [rules.reach(math.inf, n, error) for _, n in looks]
        kind, shares = rules.spending
        found = bounds_of(shares, kind, error=error) if shares else ()
        by_share = dict(zip(shares, found, strict=True))
        return [by_share[min(1.0, n / self.final)] if is_open[n] else math.inf for n in sizes]


def read_statistics(given: Mapping[str, object]) -> Statistics:
    """The keys of [statistics].

    Raises:
        RequestError: unknown-key, wrong-type, level-out-of-range, bad-margin, bad-sequential.
    """
    known: dict[str, Any] = {}
    errors: list[EvalkitError] = []
    fields = set(Statistics.__dataclass_fields__) - {"tightest_at", "spending", "final", "looks"}
    for key, value in given.items():
        with noting(errors):
            if key == "sequential":
                known |= _sequential(value)
            elif key not in fields:
                for text in (key, value):
                    not_built(str(text), f"statistics.{key}")
                message = f"statistics of experiments have no {key!r}"
                known_keys = {*fields, "sequential"}
                hint = did_you_mean(key, known_keys, f"{', '.join(sorted(known_keys))}")
                raise RequestError(message, code="unknown-key", at=f"statistics.{key}", hint=hint)
            elif key in CHOICES:
                if value not in CHOICES[key]:
                    raise _wrong(key, value, f"one of {', '.join(map(repr, CHOICES[key]))}")
                known[key] = value
            elif key in ("cluster", "baseline"):
                if value is not None and not isinstance(value, str):
                    raise _wrong(key, value, "a name")
                known[key] = value
            elif key == "strata":
                texts = [value] if isinstance(value, str) else value
                if not isinstance(texts, list | tuple) or not all(
                    isinstance(each, str) for each in texts
                ):
                    raise _wrong(key, value, 'columns: ["country"]')
                known[key] = tuple(texts)
            elif key == "search":
                if not isinstance(value, bool):
                    raise _wrong(key, value, "true or false")
                known[key] = value
            elif value is None:
                continue
            elif not isinstance(value, int | float) or isinstance(value, bool):
                raise _wrong(key, value, "a number")
            else:
                if key.startswith("margin"):
                    check_margin(float(value))
                known[key] = value
    raise_all(errors)
    if known.get("limits") == "percentile":  # what [statistics] has by default
        known["limits"] = "auto"
    found = Statistics(**known)
    found.rules()
    if found.margin is not None and found.margin_relative is not None:
        raise RequestError(
            "margin and margin_relative exclude each other",
            code="conflicting-keys",
            at="statistics.margin_relative",
            hint="keep one of them",
        )
    return found


def _wrong(key: str, value: object, wanted: str) -> RequestError:
    return RequestError(
        f"{key} is {value!r}", code="wrong-type", at=f"statistics.{key}", hint=f"it is {wanted}"
    )


_OF_SPENDING = {"spending", "final", "looks"}


def _sequential(value: object) -> dict[str, object]:
    hint = (
        'sequential = { method = "always-valid", tightest_at = 100000 }, or '
        '{ spending = "obrien-fleming", final = 400000 }'
    )
    is_size = is_spent = False
    if value is None or value == "no":
        return {"tightest_at": None, "spending": None, "final": None, "looks": ()}
    if isinstance(value, Mapping):
        number = value.get("tightest_at", value.get("final"))
        is_size = isinstance(number, int | float) and 0 < number < math.inf
        if is_size and value.get("method") == "always-valid" and len(value) == 2:
            return {"tightest_at": float(value["tightest_at"])}
        looks = value.get("looks", ())
        is_spent = isinstance(value.get("spending"), str) and set(value) <= _OF_SPENDING
        are_shares = isinstance(looks, list | tuple) and all(
            isinstance(each, int | float) and 0.0 < each <= 1.0 for each in looks
        )
        if is_size and is_spent and are_shares:
            if value["spending"] not in ("obrien-fleming", "pocock"):
                rho_of(value["spending"])
            earlier = tuple(sorted(map(float, looks)))
            return {"spending": value["spending"], "final": float(value["final"]), "looks": earlier}
    if isinstance(value, Mapping) and is_size and is_spent:
        hint = "looks are shares of the final size, above 0 and at most 1: looks = [0.25, 0.5]"
    raise RequestError(
        f"sequential is {value!r}", code="bad-sequential", at="statistics.sequential", hint=hint
    )
