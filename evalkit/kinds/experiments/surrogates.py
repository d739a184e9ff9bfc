"""Offline to online: which offline metric predicted what people did, and what its gates cost."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import polars as pl

from evalkit.errors import DataError
from evalkit.sources import Guessing, open_columns, reading
from evalkit.statistics.intervals import NO_INTERVAL, Interval
from evalkit.statistics.past import (
    FEWEST,
    Past,
    agreement,
    best_drop,
    drops_of,
    jackknifed,
    kendall,
    pearson,
    replay,
    sign_trusted_from,
    table_of_decisions,
    true_effects,
)

from .open import LocatedFiles

COLUMNS = ("offline", "offline_error", "online", "online_error")
WORDS = ("keep", "unclear", "ship")
UNRELIABLE = 0.5
GAIN = 0.01


@dataclass(frozen=True, slots=True)
class Surrogates:
    """What past experiments say of an offline metric.

    Args:
        numbers: name, value, low, high; with several offline metrics `metric` before them.
        decisions: offline, online (keep, unclear, ship) and n.
        gates: every `max_drop` at which a gate changes: what it stopped, let through and cost.
        warnings: what makes the numbers weak.
        sentence: all of that, in words.
    """

    numbers: pl.DataFrame
    decisions: pl.DataFrame
    gates: pl.DataFrame
    warnings: tuple[str, ...]
    sentence: str

    def __str__(self) -> str:
        with pl.Config(tbl_rows=60, tbl_hide_dataframe_shape=True, fmt_str_lengths=60):
            parts = [self.sentence, *self.warnings, str(self.numbers), str(self.decisions)]
            return "\n".join([*parts, str(self.gates)])


def surrogates(past: object, *, columns: Mapping[str, str] | None = None) -> Surrogates:
    """How well offline differences, and gates on them, predicted online effects.

    Args:
        past: a table with one row an experiment: offline, offline_error, online, online_error, and
            `metric` where there are several offline metrics. Errors of both sides are independent.
        columns: our name -> column.
    Raises:
        DataError: columns are missing [missing-column], or numbers are [bad-values].
    Example:
        >>> past = {"offline": [0.01, -0.02, 0.03], "offline_error": [0.001] * 3,
        ...         "online": [0.1, -0.1, 0.2], "online_error": [0.01] * 3}
        >>> found = surrogates(pl.DataFrame(past)).numbers
        >>> found.filter(pl.col("name") == "sign_agreement")["value"].item()
        1.0
    """
    named = dict(columns or {})
    wanted = {name: named.get(name, name) for name in COLUMNS}
    if "metric" in named:
        wanted["metric"] = named["metric"]
    table = open_columns(
        "past", LocatedFiles(given=past), wanted, Guessing(entry_point="python"),
        guessed=("metric",), optional=("metric",),
    )  # fmt: skip
    with reading(table):
        rows = table.frame.collect(engine="streaming")
    groups: dict[str | None, pl.DataFrame] = {None: rows}
    if "metric" in rows.columns:
        names = rows["metric"].cast(pl.String)
        groups = {name: rows.filter(names == name) for name in names.drop_nulls().unique().sort()}
    found = {name: _past_of(each, table.at) for name, each in groups.items()}
    numbers, decisions, gates, warnings = [], [], [], []
    for name, surrogate in found.items():
        own = {} if name is None else {"metric": name}
        numbers += [{**own, **row} for row in _numbers(surrogate)]
        decisions += [{**own, **row} for row in _decisions(surrogate)]
        gates += [{**own, **row} for row in _gates(surrogate)]
        warnings += [f"{name}: {told}" if name else told for told in _warnings(surrogate)]
    return Surrogates(
        pl.DataFrame(numbers),
        pl.DataFrame(decisions),
        pl.DataFrame(gates),
        tuple(warnings),
        _sentence(found),
    )


def _past_of(rows: pl.DataFrame, at: str) -> Past:
    arrays = [rows[name].cast(pl.Float64, strict=False).to_numpy() for name in COLUMNS]
    is_error = [name.endswith("_error") for name in COLUMNS]
    for name, values, positive in zip(COLUMNS, arrays, is_error, strict=True):
        bad = ~np.isfinite(values) | (positive & ~(values > 0.0))
        if bad.any():
            raise DataError(
                f"{int(bad.sum()):,} experiments have no {name} that is a number"
                + (" above 0" if positive else ""),
                code="bad-values",
                at=at,
                hint="leave such experiments out",
            )
    return Past(*arrays)


def _numbers(past: Past) -> Iterator[dict[str, object]]:
    found = true_effects(past)

    def row(name: str, value: float, limits: Interval = NO_INTERVAL) -> dict[str, object]:
        def number(x: float) -> float | None:
            return float(x) if math.isfinite(x) else None

        return {
            "name": name,
            "value": number(value),
            "low": number(limits.low),
            "high": number(limits.high),
        }

    yield row("pearson", *pearson(past))
    yield row("kendall", kendall(past), jackknifed(past, kendall))
    yield row("sign_agreement", *agreement(past))
    yield row("sign_agreement_clear", *agreement(past, is_clear=True))
    for name in ("correlation", "slope", "slope_naive", "reliability_offline",
                 "reliability_online"):  # fmt: skip
        limits = jackknifed(past, partial(_one_of, name=name))
        shown = "true_correlation" if name == "correlation" else name
        if name == "correlation" and limits.exists:
            limits = limits.within((-1.0, 1.0))
        yield row(shown, getattr(found, name), limits)
    worth = jackknifed(past, lambda some: GAIN * true_effects(some).slope)
    yield row(f"worth_of_{GAIN}", GAIN * found.slope, worth)
    yield row("sign_trusted_from", sign_trusted_from(found))
    drop, cost = best_drop(past) if past.n > 2 else (math.nan, math.nan)
    yield row("best_max_drop", drop)
    yield row("cost_of_best_left_out", cost)
    yield row("n_experiments", float(past.n))


def _one_of(past: Past, name: str) -> float:
    return float(getattr(true_effects(past), name))


def _decisions(past: Past) -> Iterator[dict[str, object]]:
    for offline, counts in zip(WORDS, table_of_decisions(past), strict=True):
        for online, n in zip(WORDS, counts, strict=True):
            yield {"offline": offline, "online": online, "n": n}


def _gates(past: Past) -> Iterator[dict[str, object]]:
    for drop in drops_of(past):
        found = replay(past, drop)
        yield {
            "max_drop": found.max_drop,
            "winners": found.winners,
            "stopped_winners": found.stopped_winners,
            "losers": found.losers,
            "passed_losers": found.passed_losers,
            "cost": found.cost,
        }


def _warnings(past: Past) -> Iterator[str]:
    found = true_effects(past)
    if past.n < FEWEST:
        yield f"{past.n} experiments are too few to take errors out of the correlation: {FEWEST}"
    for side in ("offline", "online"):
        reliability = getattr(found, f"reliability_{side}")
        if reliability < UNRELIABLE:
            yield (
                f"{side} effects are mostly error (reliability {max(0.0, reliability):.2f}): what "
                "they say of each other is weak"
            )


def _sentence(found: Mapping[str | None, Past]) -> str:
    """Which metric predicted best, by the correlation of true effects, else of measured ones."""
    scored: list[tuple[float, str | None, Past]] = []
    for name, past in found.items():
        value = true_effects(past).correlation
        scored.append((value if math.isfinite(value) else pearson(past)[0], name, past))
    known: Sequence[tuple[float, str | None, Past]] = [e for e in scored if math.isfinite(e[0])]
    if not known:
        return "nothing can be said: too few experiments, or effects that do not vary"
    value, name, past = max(known, key=lambda each: each[0])
    agreed, _ = agreement(past)
    what = name or "the offline metric"
    best = " predicted best" if len(found) > 1 else ""
    return (
        f"{what}{best}: correlation {value:.2f} with the online effect over {past.n} experiments, "
        f"one sign in {agreed:.0%} of them"
    )
