"""Interleaved lists of two models, read out by credits: who is preferred, impression by user."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl

from evalkit.config import hinted, our_columns
from evalkit.errors import DataError, RequestError
from evalkit.planning.counters import input_of
from evalkit.planning.work import MeasureOptions
from evalkit.report import Comparison, Estimate, Report
from evalkit.sources import Guessing, open_columns, reading
from evalkit.statistics.distributions import t_quantile
from evalkit.statistics.intervals import check_level
from evalkit.statistics.preferences import effective_number
from evalkit.statistics.ratios import by_shares
from evalkit.statistics.sample_ratio import binomial_p

from ._asked import ExperimentRequest
from ._statistics import Statistics
from .conclude import Conclusion
from .measure import Said, report_of
from .open import LocatedFiles

KEYS = ("unit", "user", "credit_a", "credit_b")
LEAST_USERS = 1.5  # of equal weight, below which the error of one user is not known
ROUNDING = 1e-12  # errors of users who all lean alike
METHODS = ("team-draft", "balanced", "probabilistic", "optimised", "pairwise")


@hinted
def evaluate_interleaving(
    impressions: object,
    *,
    models: Sequence[str],
    columns: Mapping[str, str] | None = None,
    method: str = "team-draft",
    level: float = 0.95,
    name: str = "interleaving",
) -> Report:
    """Which of two models people prefer, by the clicks credited to each in interleaved lists.

    An impression is won by the model with more credit. `delta` is (wins + ties / 2) / all - 1/2,
    positive where the second model wins; its limits, and the sign test, take users as the units.

    Args:
        impressions: a row an impression, with `user`, `credit_a` and `credit_b`.
        models: names of both; the second is the candidate.
        method: how lists were interleaved; told in the report.
    Raises:
        RequestError: not two models [wrong-type], no such method [unknown-key].
        DataError: columns are missing [missing-column], credits are no numbers [bad-values],
            an impression has no user [null-id].
    Source:
        Chapelle, Joachims, Radlinski and Yue 2012, Large-Scale Validation and Analysis of
        Interleaved Search Evaluation, ACM TOIS 30(1), section 4; Bell and McCaffrey 2002, Survey
        Methodology 28(2) (limits where users have unequally many impressions).
    Example:
        >>> seen = {"user": [1, 1, 2], "credit_a": [0, 0, 2], "credit_b": [1, 3, 0]}
        >>> found = evaluate_interleaving(pl.DataFrame(seen), models=["a", "b"]).comparisons[0]
        >>> round(found.delta, 4), found.wins, found.losses
        (0.1667, 1, 1)
    """
    _check(models, method)
    check_level(level)
    named = {"credit_a": "credit_a", "credit_b": "credit_b", **our_columns(columns, KEYS)}
    wanted: dict[str, Any] = {key: named[key] for key in KEYS if key in named}
    if "user" in wanted:
        wanted["unit"] = wanted.pop("user")
    work = MeasureOptions(threads=1)
    clock = work.started(None)
    table = open_columns(
        "impressions", LocatedFiles(given=impressions), wanted, Guessing(entry_point="python"),
        guessed=("unit",),
    )  # fmt: skip
    with reading(table):
        rows = table.frame.collect(engine="streaming")
    credits = [rows[key].cast(pl.Float64, strict=False) for key in ("credit_a", "credit_b")]
    n_bad = sum(int((~each.is_finite().fill_null(value=False)).sum()) for each in credits)
    if n_bad or not rows.height:
        message = f"{n_bad:,} credits are no numbers" if n_bad else "there are no impressions"
        hint = "an impression without a click has the credits 0 and 0"
        raise DataError(message, code="bad-values", at=table.at, hint=hint)
    if n_null := rows["unit"].null_count():
        message = f"{n_null:,} impressions have no user"
        hint = "leave them out: users are the units of the test"
        raise DataError(message, code="null-id", at=table.at, hint=hint)
    one, other = (each.to_numpy() for each in credits)
    scores = np.where(other > one, 1.0, np.where(other < one, -1.0, 0.0))
    users = rows.select(pl.col("unit"), pl.Series("score", scores))
    by_user = users.group_by("unit").agg(pl.col("score").sum(), pl.len().alias("n"))
    clock.stop("measure")
    comparison = _comparison(scores, by_user, models, level)
    share = 0.5 + comparison.delta
    estimates = [
        Estimate(model, "share", "share", None, {"method": method}, value, rows.height, 0)
        for model, value in zip(models, (1.0 - share, share), strict=True)
    ]
    n = by_user.height
    counts = {"impressions": rows.height, "users": n,
              "impressions_won": int((scores > 0).sum()),
              "impressions_lost": int((scores < 0).sum()),
              "impressions_tied": int((scores == 0).sum())}  # fmt: skip
    found = Conclusion(tuple(estimates), (comparison,))
    said = Said(found, dict.fromkeys(models, n), counts)
    statistics = Statistics(level=level, correction="none", baseline=models[0])
    asked = ExperimentRequest(name, dict.fromkeys(models, 1.0), (), statistics)
    return report_of(asked, said, [input_of(table, rows.height, "experiment")], clock, work)


def _check(models: Sequence[str], method: str) -> None:
    if len(models) != 2 or models[0] == models[1]:
        message = f"models are {models!r}, not two names"
        hint = 'models=["production", "candidate"]'
        raise RequestError(message, code="wrong-type", at="models", hint=hint)
    if method not in METHODS:
        message = f"no method of interleaving is called {method!r}"
        hint = f"one of {', '.join(METHODS)}"
        raise RequestError(message, code="unknown-key", at="method", hint=hint)


def _comparison(
    scores: "np.typing.NDArray[np.float64]",
    by_user: pl.DataFrame,
    models: Sequence[str],
    level: float,
) -> Comparison:
    sums, sizes = by_user["score"].to_numpy(), by_user["n"].cast(pl.Int64).to_numpy()
    wins, losses = int((sums > 0).sum()), int((sums < 0).sum())
    delta, n = 0.5 * float(scores.mean()), by_user.height
    error = half = math.nan
    if effective_number(sizes) >= LEAST_USERS:  # of users' sums over impressions: a ratio
        left = 0.5 * sums - delta * sizes
        df, factor = by_shares(left, sizes / sizes.sum())
        error = math.sqrt(math.fsum(left**2) * n / (n - 1) * factor) / float(sizes.sum())
        half = -t_quantile(0.5 * (1.0 - level), df or math.nan) * error
    p_value = binomial_p(wins, wins + losses, 0.5)
    verdict = "cannot tell"
    if p_value <= 1.0 - level and (wins - losses) * delta > 0.0:  # few may have most impressions
        verdict = "better" if wins > losses else "worse"
    is_known = error > ROUNDING
    return Comparison(
        baseline=models[0],
        candidate=models[1],
        metric="share",
        delta=delta,
        std_error=error if is_known else None,
        low=delta - half if is_known else None,
        high=delta + half if is_known else None,
        low_gate=delta - half if is_known else None,
        high_gate=delta + half if is_known else None,
        p_value=p_value,
        p_adjusted=p_value,
        test="sign",
        n_users=n,
        wins=wins,
        ties=n - wins - losses,
        losses=losses,
        verdict=verdict,
        value_baseline=0.5 - delta,
        value_candidate=0.5 + delta,
        statistic=delta / error if is_known else None,
    )
