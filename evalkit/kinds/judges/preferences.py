"""Which of two models judges prefer: win rates, strengths, who cannot be told apart."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
import polars as pl

from evalkit.errors import DataError
from evalkit.inference.conclude import Inference
from evalkit.kinds.judges.estimates import estimate, used_statistics
from evalkit.metrics import Request
from evalkit.planning.record import RunResults
from evalkit.report import (
    Comparison,
    Counts,
    Estimate,
    ModelCounts,
    Standing,
    TruthCounts,
    Warning_,
)
from evalkit.statistics import preferences
from evalkit.statistics.agreement import Codes, Values
from evalkit.statistics.corrections import adjust
from evalkit.statistics.distributions import t_quantile, t_two_sided
from evalkit.statistics.intervals import NO_INTERVAL, Interval
from evalkit.statistics.tukey import group_letters

SHOWN_FIRST = "(shown first)"
FEW_JUDGES = 10


@dataclass(frozen=True, slots=True)
class Preferences:
    """Rows of comparisons; axes are those of `statistics.preferences`."""

    models: tuple[str, ...]
    judges: tuple[str, ...]
    first: Codes
    second: Codes
    outcomes: Values
    by: Codes
    n_null: int


def read_preferences(frame: pl.DataFrame, *, at: str) -> Preferences:
    """The comparisons of a table.

    Raises:
        DataError: a judge or model is null [null-id], a model is compared with itself
            [same-model], `preferred` says neither side [unknown-preference], or nobody preferred
            anything [empty-input].
    """
    names = ("judge", "first", "second", "preferred")
    rows = frame.select(pl.col(*names).cast(pl.String))
    nulls = rows.filter(pl.any_horizontal(pl.col("judge", "first", "second").is_null())).height
    if nulls:
        raise DataError(f"{nulls:,} rows have no judge or no model", code="null-id", at=at)
    n_null = rows["preferred"].null_count()
    rows = rows.drop_nulls()
    if not rows.height:
        raise DataError("no row has a preference", code="empty-input", at=at)
    if (same := rows.filter(pl.col("first") == pl.col("second"))).height:
        message = f"{same.height:,} rows compare {same['first'][0]!r} with itself"
        raise DataError(message, code="same-model", at=at, hint="where = ... leaves them out")
    said = pl.col("preferred")
    outcome = (
        pl.when(said == pl.col("first")).then(1.0)
        .when(said == pl.col("second")).then(0.0)
        .when(said.str.to_lowercase().is_in(["first", "left"])).then(1.0)
        .when(said.str.to_lowercase().is_in(["second", "right"])).then(0.0)
        .when(said.str.to_lowercase().is_in(["tie", "ties", "equal", "draw"])).then(0.5)
    )  # fmt: skip
    rows = rows.with_columns(outcome.alias("outcome"))
    strange = rows.filter(pl.col("outcome").is_null())
    if strange.height:
        raise DataError(
            f"{strange.height:,} rows prefer {strange['preferred'][0]!r}, which is none of the two",
            code="unknown-preference",
            at=at,
            hint="preferred is first, second, tie, or the name of the model",
        )
    models = sorted({*rows["first"], *rows["second"]})
    judges = sorted(set(rows["judge"]))
    place = {name: number for number, name in enumerate(models)}
    who = {name: number for number, name in enumerate(judges)}

    def codes(column: str, numbers: dict[str, int]) -> Codes:
        found: Codes = rows[column].replace_strict(numbers, return_dtype=pl.Int64).to_numpy()
        return found

    return Preferences(
        tuple(models), tuple(judges), codes("first", place), codes("second", place),
        rows["outcome"].to_numpy(), codes("judge", who), n_null,
    )  # fmt: skip


def conclude_preferences(config: Any, frame: pl.DataFrame, *, at: str) -> RunResults:
    """Estimates of all models, and every two of them compared."""
    found = read_preferences(frame, at=at)
    chosen = config.statistics
    warnings = list(_warnings(found))
    estimates: list[Estimate] = []
    comparisons: list[Comparison] = []
    standings: list[Standing] = []
    for request in config.requests:
        values, covariance, n_rows, n_judges = _measured(request, found)
        errors = np.sqrt(np.diag(covariance))
        estimates += [
            _estimate(
                request, model, values[place], errors[place], n_rows[place], n_judges, chosen.level
            )
            for place, model in enumerate(found.models)
        ]
        own = _compare(request, found, values, covariance, n_rows, n_judges, chosen)
        comparisons += own
        standings.append(_standing(request, found.models, values, own, chosen.level))
    bias = _position_bias(config, found, warnings)
    n = len(found.first)
    counts = {
        model: _counts_of(int(((found.first == place) | (found.second == place)).sum()))
        for place, model in enumerate(found.models)
    }
    truth = TruthCounts(
        frame.height, n, {"no_preference": found.n_null}, len(found.judges), 0, n, None
    )
    inference = Inference(
        estimates=(*estimates, *bias),
        comparisons=tuple(comparisons),
        standings=tuple(standings),
        findings=(),
        macros=(),
        used=used_statistics(config, len(comparisons)),
        warnings=(),
    )
    return RunResults(Counts(truth, counts), inference, warnings)


def _counts_of(n: int) -> ModelCounts:
    return ModelCounts(
        rows=n, rows_used=n, rows_dropped={}, users=n, users_without_ranking=0,
        users_without_truth=0, duplicates=0, duplicates_searched="all", seen_in_train=None,
        bad_ranks=0, ties=0, depth=n,
    )  # fmt: skip


def _measured(request: Request, found: Preferences) -> tuple[Values, Values, Codes, int]:
    """Values, their covariance, comparisons of each model, and the number of judges."""
    n_models, n_judges = len(found.models), len(found.judges)
    first, second, outcomes, by = found.first, found.second, found.outcomes, found.by
    n_rows = np.bincount(first, minlength=n_models) + np.bincount(second, minlength=n_models)
    if request.metric.name == "win-rate":
        rates = preferences.win_rates(first, second, outcomes, by, n_models=n_models)
        return rates.values, rates.covariance, n_rows, n_judges
    ties = str(dict(request.parameters)["ties"])
    kept = outcomes != (0.5 if ties == "drop" else np.nan)
    rows = [each[kept] for each in (first, second, outcomes, by)]
    strengths = preferences.bradley_terry(*rows, n_models=n_models, ties=ties)
    return strengths.values, strengths.covariance, n_rows, n_judges


def _limits(value: float, error: float, n_judges: int, level: float) -> Interval:
    if not math.isfinite(value) or not error > 0 or n_judges < 2:
        return NO_INTERVAL
    half = t_quantile((1 + level) / 2, n_judges - 1) * error
    return Interval(value - half, value + half)


def _estimate(
    request: Request,
    model: str,
    value: float,
    error: float,
    n_rows: int,
    n_judges: int,
    level: float,
) -> Estimate:
    interval = _limits(value, error, n_judges, level).within(request.metric.bounds)
    return estimate(
        request, model, float(value), interval, int(n_rows),
        std_error=None if math.isnan(error) else float(error), n_clusters=n_judges,
        df=float(n_judges - 1),
    )  # fmt: skip


def _compare(
    request: Request,
    found: Preferences,
    values: Values,
    covariance: Values,
    n_rows: Codes,
    n_judges: int,
    chosen: Any,
) -> list[Comparison]:
    """Every two models, corrected together."""
    drafts, p_values = [], []
    for one, other in combinations(range(len(found.models)), 2):
        delta = float(values[other] - values[one])
        square = covariance[one, one] + covariance[other, other] - 2 * covariance[one, other]
        error = math.sqrt(square) if square > 1e-18 else math.nan
        interval = _limits(delta, error, n_judges, chosen.level)
        p = t_two_sided(delta / error, n_judges - 1) if interval.exists else math.nan
        met = ((found.first == one) & (found.second == other)) | (
            (found.first == other) & (found.second == one)
        )
        won = np.where(found.first == other, found.outcomes, 1 - found.outcomes)[met]
        drafts.append((one, other, delta, error, interval, p, won))
        p_values.append(p)
    correction = "holm" if chosen.correction == "tukey" else chosen.correction
    adjusted = adjust(p_values, correction).p_adjusted
    comparisons = []
    for (one, other, delta, error, interval, p, won), p_adjusted in zip(
        drafts, adjusted, strict=True
    ):
        verdict = "cannot tell"
        if p_adjusted <= 1 - chosen.level:
            verdict = "better" if delta > 0 else "worse"
        comparisons.append(
            Comparison(
                baseline=found.models[one], candidate=found.models[other], metric=request.label,
                segmentation=None, segment=None, delta=delta,
                std_error=error if interval.exists else None,
                low=interval.low if interval.exists else None,
                high=interval.high if interval.exists else None,
                relative=None, relative_low=None, relative_high=None,
                p_value=p if interval.exists else None,
                p_adjusted=p_adjusted if interval.exists else None,
                effect_size=None, test="t", n_users=len(won), wins=int((won == 1).sum()),
                ties=int((won == 0.5).sum()), losses=int((won == 0).sum()), margin=None,
                verdict=verdict if interval.exists else "not tested", smallest_difference=None,
                users_needed=None, n_clusters=n_judges, df=float(n_judges - 1),
            )
        )  # fmt: skip
    return comparisons


def _standing(
    request: Request,
    models: Sequence[str],
    values: Values,
    comparisons: Sequence[Comparison],
    level: float,
) -> Standing:
    """Models from best to worst; those that share a letter cannot be told apart."""
    apart = {
        frozenset((comparison.baseline, comparison.candidate))
        for comparison in comparisons
        if comparison.p_adjusted is not None and comparison.p_adjusted <= 1 - level
    }
    order = np.argsort(-np.nan_to_num(values, nan=-np.inf), kind="stable")
    names = [models[place] for place in order]
    alike = [[frozenset((one, other)) not in apart for other in names] for one in names]
    letters = group_letters(alike)
    rows = zip(names, values[order].tolist(), letters, strict=True)
    return Standing(request.label, tuple(rows))


def _position_bias(config: Any, found: Preferences, warnings: list[Warning_]) -> Iterator[Estimate]:
    """How often the side that was shown first won."""
    rates = [request for request in config.requests if request.metric.name == "win-rate"]
    _, by = np.unique(found.by, return_inverse=True)
    parts = np.bincount(by, weights=found.outcomes).astype(np.float64)
    value, error = preferences.jackknife_error(parts, np.bincount(by).astype(np.float64))
    n_judges, level = len(found.judges), config.statistics.level
    interval = _limits(value, error, n_judges, level)
    if interval.exists and not interval.holds(0.5):
        warnings.append(
            Warning_(
                "position-bias",
                f"the side shown first won {100 * value:.1f} % ({100 * interval.low:.1f} … "
                f"{100 * interval.high:.1f}): show each pair in both orders",
            )
        )
    for request in rates[:1]:
        yield _estimate(request, SHOWN_FIRST, value, error, len(found.first), n_judges, level)


def _warnings(found: Preferences) -> Iterator[Warning_]:
    n_models = len(found.models)
    if len(found.judges) < FEW_JUDGES:
        yield Warning_(
            "few-judges", f"{len(found.judges)} judges: limits are rough below {FEW_JUDGES}"
        )
    groups = preferences.groups_that_met(found.first, found.second, n_models=n_models)
    if len(groups) > 1:
        named = "; ".join(", ".join(found.models[model] for model in group) for group in groups)
        yield Warning_("never-met", f"groups of models never met, strengths are undefined: {named}")
        return
    ladders = preferences.ladders(found.first, found.second, found.outcomes, n_models=n_models)
    if len(ladders) > 1:
        named = "; ".join(", ".join(found.models[model] for model in group) for group in ladders)
        message = f"models that won or lost everything against others have no strength: {named}"
        yield Warning_("unbeaten", message)
