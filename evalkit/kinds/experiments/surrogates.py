"""Offline to online: which offline metric predicted what people did, and what its gates cost."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from functools import partial

import numpy as np
import polars as pl

from evalkit.config import hinted
from evalkit.errors import DataError
from evalkit.kernels.arrays import Floats
from evalkit.report.surrogates import Surrogates
from evalkit.sources import Guessing, open_columns, reading
from evalkit.statistics.intervals import NO_INTERVAL, Interval
from evalkit.statistics.past import (
    FEWEST,
    Past,
    Replayed,
    TrueEffects,
    agreement,
    best_drop,
    correlation_limits,
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
from .past_runs import HINT, PastRuns, is_runs, read_past

COLUMNS = ("offline", "offline_error", "online", "online_error")
WORDS = ("keep", "unclear", "ship")
UNRELIABLE = 0.5
GAIN = 0.01


@hinted
def surrogates(
    past: object,
    *,
    columns: Mapping[str, str] | None = None,
    online: str | None = None,
    pairs: Mapping[str, str] | None = None,
) -> Surrogates:
    """How well offline differences, and gates on them, predicted online effects.

    Args:
        past: a table with one row an experiment: offline, offline_error, online, online_error, and
            `metric` where there are several offline metrics. Errors of both sides are independent.
            Or finished runs of both sides: folders of runs, runs, reports.
        columns: our name -> column, of a table.
        online: the metric of experiments, of runs; by default the first primary one.
        pairs: an experiment's job -> its offline job, of runs; by default jobs of one name, or
            models that are called as variants are.
    Raises:
        DataError: columns are missing [missing-column], or numbers are [bad-values].
        RequestError: no runs go together [nothing-in-common], or several do [ambiguous-job].
    Example:
        >>> past = {"offline": [0.01, -0.02, 0.03], "offline_error": [0.001] * 3,
        ...         "online": [0.1, -0.1, 0.2], "online_error": [0.01] * 3}
        >>> found = surrogates(pl.DataFrame(past)).numbers
        >>> found.filter(pl.col("name") == "sign_agreement")["value"].item()
        1.0
    """
    runs = PastRuns()
    if is_runs(past):
        runs = read_past(past, online=online, pairs=pairs)
        rows, at = pl.DataFrame(runs.rows), "runs"
    else:
        rows, at = _read_table(past, columns)
    groups: dict[str | None, pl.DataFrame] = {None: rows}
    if "metric" in rows.columns:
        names = rows["metric"].cast(pl.String)
        groups = {name: rows.filter(names == name) for name in names.drop_nulls().unique().sort()}
    found = {name: _past_of(each, at) for name, each in groups.items()}
    tables: dict[str, list[dict[str, object]]] = {"numbers": [], "decisions": [], "gates": []}
    warnings = [f"left out: {each}; {HINT}" for each in runs.left_out]
    for name, surrogate in found.items():
        own = {} if name is None else {"metric": name}
        for table, made in zip(tables.values(), (_numbers, _decisions, _gates), strict=True):
            table += [{**own, **row} for row in made(surrogate)]
        warnings += [f"{name}: {told}" if name else told for told in _warnings(surrogate)]
    replayed = []
    for metric, kind, bound, is_lenient in runs.gates:
        if (past_of := found.get(metric)) is not None:
            drops = _drops(runs, groups[metric], metric, kind, bound)
            did = _replayed(past_of, replay(past_of, drops, is_lenient=is_lenient))
            replayed.append({"metric": metric, "gate": kind, "bound": bound, **did})
    numbers, decisions, gates = map(pl.DataFrame, tables.values())
    past_gates, told = pl.DataFrame(replayed), tuple(warnings)
    return Surrogates(numbers, decisions, gates, past_gates, rows, told, _sentence(found))


def _drops(
    runs: PastRuns, rows: pl.DataFrame, metric: str, kind: str, bound: float
) -> float | Floats:
    """The `max_drop` of a gate: of all, or of each experiment by its baseline."""
    if kind == "max_drop":
        return bound
    return np.array([bound * runs.values[name, metric] for name in rows["experiment"]])


def _read_table(past: object, columns: Mapping[str, str] | None) -> tuple[pl.DataFrame, str]:
    named = dict(columns or {})
    optional = ("experiment", "metric")
    wanted = {name: named.get(name, name) for name in COLUMNS}
    wanted |= {name: named[name] for name in optional if name in named}
    table = open_columns(
        "past", LocatedFiles(given=past), wanted, Guessing(entry_point="python"),
        guessed=optional, optional=optional,
    )  # fmt: skip
    with reading(table):
        return table.frame.collect(engine="streaming"), table.at


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
    yield row("kendall", kendall(past), _within(jackknifed(past, kendall), -1.0))
    yield row("sign_agreement", *agreement(past))
    yield row("sign_agreement_clear", *agreement(past, is_clear=True))
    yield row("true_correlation", _cut(found), correlation_limits(past))
    for name in ("slope", "slope_naive", "reliability_offline", "reliability_online"):
        limits = jackknifed(past, partial(_one_of, name=name))
        is_share = name.startswith("reliability")
        yield row(name, getattr(found, name), _within(limits, 0.0) if is_share else limits)
    worth = jackknifed(past, lambda some: GAIN * _one_of(some, name="slope"))
    yield row(f"worth_of_{GAIN}", GAIN * found.slope, worth)
    yield row("sign_trusted_from", sign_trusted_from(found))
    drop, cost = best_drop(past) if past.n > 2 else (math.nan, math.nan)
    yield row("best_max_drop", drop)
    yield row("cost_of_best_left_out", cost)
    yield row("n_experiments", float(past.n))


def _one_of(past: Past, name: str) -> float:
    """With one experiment fewer than it takes: one is left out."""
    return float(getattr(true_effects(past, fewest=FEWEST - 1), name))


def _within(limits: Interval, low: float) -> Interval:
    return limits.within((low, 1.0)) if limits.exists else limits


def _cut(found: TrueEffects) -> float:
    return (
        found.correlation
        if math.isnan(found.correlation)
        else min(1.0, max(-1.0, found.correlation))
    )


def _decisions(past: Past) -> Iterator[dict[str, object]]:
    for offline, counts in zip(WORDS, table_of_decisions(past), strict=True):
        for online, n in zip(WORDS, counts, strict=True):
            yield {"offline": offline, "online": online, "n": n}


def _gates(past: Past) -> Iterator[dict[str, object]]:
    for drop in drops_of(past):
        yield {"max_drop": drop, **_replayed(past, replay(past, drop))}


def _replayed(past: Past, found: Replayed) -> dict[str, object]:
    return {"experiments": past.n, **asdict(found)}


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
    scored = []
    for name, past in found.items():
        measured = pearson(past)[0]
        value = _cut(true_effects(past))
        if not math.isnan(measured):
            scored.append((measured if math.isnan(value) else value, measured, name, past))
    if not scored:
        return "nothing can be said: too few experiments, or effects that do not vary"
    value, _, name, past = max(scored, key=lambda each: each[:2])
    agreed, limits = agreement(past)[0], correlation_limits(past)
    shown = f" ({limits.low:.2f} … {limits.high:.2f})" if limits.exists else ""
    what = name or "the offline metric"
    best = " predicted best" if len(found) > 1 else ""
    slope, told = true_effects(past).slope, ""
    if not math.isnan(slope):
        worth = jackknifed(past, lambda some: GAIN * _one_of(some, name="slope"))
        ends = f" ({worth.low:+.3g} … {worth.high:+.3g})" if worth.exists else ""
        told = f"; an offline gain of {GAIN} was worth {GAIN * slope:+.3g}{ends} online"
    return (
        f"{what}{best}: correlation {value:.2f}{shown} with the online effect over {past.n} "
        f"experiments, one sign in {agreed:.0%} of them{told}"
    )
