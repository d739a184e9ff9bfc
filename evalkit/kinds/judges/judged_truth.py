"""Rankings held against what judges said: limits that hold users and judges.

The spread over users holds the judges' independent noise already. What they have in common (a judge
who is strict throughout) moves all users at once: it is found by leaving out one judge after the
other, with the consensus made anew each time.

Source:
    Efron and Tibshirani 1993, An Introduction to the Bootstrap, chapter 11 (the jackknife);
    Satterthwaite 1946, Biometrics Bulletin 2, 110-114 (degrees of freedom of a sum of variances).
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import polars as pl

from evalkit.config import Config, TruthColumns, TruthTable
from evalkit.errors import DataError, RequestError
from evalkit.kinds.judges.consensus import vote
from evalkit.kinds.judges.declaration import ConsensusSection, JudgesColumns, JudgesTable
from evalkit.kinds.judges.open import open_table, read_rows
from evalkit.kinds.judges.ratings import Ratings, read_ratings
from evalkit.planning.counters import input_of
from evalkit.planning.tables import Given
from evalkit.planning.work import MeasureOptions
from evalkit.report import Comparison, Estimate, Input, Report, Warning_
from evalkit.statistics.agreement import MISSING
from evalkit.statistics.corrections import adjust
from evalkit.statistics.distributions import t_quantile, t_two_sided
from evalkit.statistics.intervals import Interval

FEW_JUDGES = 10
Run = Callable[[Config, MeasureOptions], Report]


def run_judged(config: Config, work: MeasureOptions, run: Run) -> Report:
    """The report of rankings against the judges' consensus.

    Args:
        run: gives the report of a config of rankings.
    Raises:
        RequestError: what one run over users alone can give is asked for [conflicting-keys].
        DataError: as `read_ratings`; there is one judge alone [few-judges].
    """
    _refuse(config)
    ratings, source = _read(config, work.given)
    if len(ratings.judges) < 2:
        raise DataError(
            f"one judge alone, {ratings.judges[0]}: what others would say is not known",
            code="few-judges",
            at=source.paths[0] if source.paths else "truth",
            hint="path = ... in place of judgements takes these ratings as they are",
        )
    inner, rule = _without_judges(config, ratings)

    def evaluate(judges: Sequence[str], **own: object) -> Report:
        truth = _truth_of(ratings, judges, rule)
        given = replace(work.given, truth=truth)
        return run(inner, replace(work, given=given, **own))  # type: ignore[arg-type]

    whole = evaluate(ratings.judges)
    without = [
        evaluate([other for other in ratings.judges if other != judge], keep_users=False,
                 keep_parts=False, per_user_folder=None, opened=None, progress=None)
        for judge in ratings.judges
    ]  # fmt: skip
    return _joined(config, whole, without, ratings, source)


def with_consensus(config: Config, given: Given) -> tuple[Config, Given]:
    """A config of judgements, and its tables, with the consensus of all judges as the truth."""
    ratings, _ = _read(config, given)
    inner, rule = _without_judges(config, ratings)
    return inner, replace(given, truth=_truth_of(ratings, ratings.judges, rule))


def _without_judges(config: Config, ratings: Ratings) -> tuple[Config, ConsensusSection]:
    asked = config.truth
    assert asked is not None
    users = tuple(ratings.units.columns[:-1])
    columns = TruthColumns(user=users, item="item", relevance="relevance")
    plain = TruthTable(path=asked.path, columns=columns, threshold=asked.threshold)
    rule = ConsensusSection(method=asked.vote or "majority")
    return config.model_copy(update={"truth": plain}), rule


def _refuse(config: Config) -> None:
    statistics = config.statistics
    for key, value in (
        ("margin", statistics.margin),
        ("search", statistics.search),
        ("over_nights", statistics.over_nights),
    ):
        if value:
            raise RequestError(
                f"{key} looks at users alone, and judgements hold judges as well",
                code="conflicting-keys",
                at=config.at("statistics", key),
                hint="leave it out",
            )


def _read(config: Config, given: Given) -> tuple[Ratings, Input]:
    asked = config.truth
    assert asked is not None
    columns = asked.columns
    table = JudgesTable(
        path=asked.path,
        table=asked.table,
        format=asked.format,
        header=asked.header,
        files=asked.files,
        where=asked.where,
        columns=JudgesColumns(
            unit=(*columns.user, columns.item),
            judge=columns.judge or "judge",
            rating=columns.relevance or "rating",
        ),
    )
    opened = open_table(table, (), given.truth, given.guessing(config), "truth")
    rows = read_rows(opened)
    source = input_of(opened, rows.height, "truth")
    return read_ratings(rows, table, (), at=opened.at), source


def _truth_of(ratings: Ratings, judges: Sequence[str], rule: ConsensusSection) -> pl.DataFrame:
    """user_0, ..., item, relevance: of units that one of the judges rated."""
    found, _ = vote(ratings.of(judges), ratings.levels, rule)
    rated = ~np.isnan(found.values)
    return ratings.units.rename({ratings.units.columns[-1]: "item"}).with_columns(
        pl.Series("relevance", found.values)
    ).filter(pl.Series(rated))  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Error:
    """A standard error over users and judges, with its degrees of freedom."""

    std_error: float
    df: float

    def limits(self, value: float, level: float) -> Interval:
        """Student's limits."""
        half = t_quantile((1 + level) / 2, self.df) * self.std_error
        return Interval(value - half, value + half)


def error_of(
    std_error: float | None, df: float | None, n_users: int, moved: Sequence[float]
) -> _Error | None:
    """Users' error plus the delete-one-judge jackknife; None where either is unknown."""
    values = np.array(moved)
    if std_error is None or np.isnan(values).any() or n_users < 2:
        return None
    n = len(values)
    of_judges = (n - 1) / n * float(((values - values.mean()) ** 2).sum())
    of_users = std_error**2
    total = of_users + of_judges
    if total <= 0:
        return None
    own = df if df is not None else n_users - 1
    freedom = total**2 / (of_users**2 / own + of_judges**2 / (n - 1))
    return _Error(math.sqrt(total), freedom)


def _joined(
    config: Config, whole: Report, without: Sequence[Report], ratings: Ratings, source: Input
) -> Report:
    level = config.statistics.level
    bounds = {request.label: request.metric.bounds for request in config.requests}
    others = [_by_place(report) for report in without]
    estimates = []
    for estimate in whole.estimates:
        moved = [found.get(_place(estimate), math.nan) for found in others]
        error = error_of(estimate.std_error, estimate.df, estimate.n_users, moved)
        if error is None:
            estimates.append(replace(estimate, low=None, high=None))
            continue
        limits = error.limits(estimate.value, level).within(bounds[estimate.metric])
        if estimate.low is not None and estimate.high is not None:
            limits = limits.around(Interval(estimate.low, estimate.high))
        estimates.append(
            replace(
                estimate, low=limits.low, high=limits.high, std_error=error.std_error, df=error.df
            )
        )
    comparisons, hanging = _compared(config, whole, without, ratings.judges)
    warnings = [*whole.warnings, *hanging]
    if len(ratings.judges) < FEW_JUDGES:
        message = (
            f"{len(ratings.judges)} judges: limits that hold judges are rough below {FEW_JUDGES}"
        )
        warnings.append(Warning_("few-judges", message))
    n_ratings = int((ratings.codes != MISSING).sum())
    inputs = tuple(
        replace(source, rows=n_ratings) if each.role == "truth" else each for each in whole.inputs
    )
    return replace(
        whole,
        estimates=tuple(estimates),
        comparisons=tuple(comparisons),
        warnings=tuple(warnings),
        inputs=inputs,
        config=config.dump(),
    )


def _place(estimate: Estimate) -> tuple[str | None, ...]:
    return estimate.model, estimate.metric, estimate.segmentation, estimate.segment


def _by_place(report: Report) -> dict[tuple[str | None, ...], float]:
    return {_place(estimate): estimate.value for estimate in report.estimates}


def _pair(comparison: Comparison) -> tuple[str | None, ...]:
    return (
        *(comparison.baseline, comparison.candidate, comparison.metric),
        *(comparison.segmentation, comparison.segment),
    )


def _compared(
    config: Config, whole: Report, without: Sequence[Report], judges: Sequence[str]
) -> tuple[list[Comparison], list[Warning_]]:
    """Comparisons with the judges' error in them, and verdicts that hang on one judge."""
    chosen, level = config.statistics, config.statistics.level
    others = [{_pair(each): each for each in report.comparisons} for report in without]
    better = {request.label: request.metric.higher_is_better for request in config.requests}
    drafts: list[tuple[Comparison, _Error | None, float]] = []
    for comparison in whole.comparisons:
        found = [own.get(_pair(comparison)) for own in others]
        moved = [math.nan if each is None else each.delta for each in found]
        error = error_of(comparison.std_error, comparison.df, comparison.n_users, moved)
        p = math.nan
        if error is not None:
            p = t_two_sided(comparison.delta / error.std_error, error.df)
            p = max(p, comparison.p_value or 0.0)  # never surer than over users alone
        drafts.append((comparison, error, p))
    correction = "holm" if chosen.correction == "tukey" else chosen.correction
    judged: list[Comparison] = []
    warnings: list[Warning_] = []
    families = {comparison.family for comparison in whole.comparisons}
    adjusted = {
        family: iter(
            adjust([p for each, _, p in drafts if each.family == family], correction).p_adjusted
        )
        for family in families
    }
    for comparison, error, p in drafts:
        p_adjusted = next(adjusted[comparison.family])
        if error is None:
            judged.append(
                replace(
                    comparison, low=None, high=None, p_value=None, p_adjusted=None,
                    low_adjusted=None, high_adjusted=None, relative_low=None, relative_high=None,
                    verdict="not tested",
                )
            )  # fmt: skip
            continue
        limits = error.limits(comparison.delta, level)
        verdict = "cannot tell"
        if p_adjusted <= 1 - level and comparison.delta != 0:
            up = better[comparison.metric]
            verdict = (
                "different"
                if up is None
                else ("better" if (comparison.delta > 0) == up else "worse")
            )
        single = error.limits(comparison.delta, 1 - min(1 - level, (1 - level) * p / p_adjusted))
        judged.append(
            replace(
                comparison, std_error=error.std_error, df=error.df, low=limits.low,
                high=limits.high, p_value=p, p_adjusted=p_adjusted, low_adjusted=single.low,
                high_adjusted=single.high, relative_low=None, relative_high=None, test="t",
                verdict=verdict,
            )
        )  # fmt: skip
        if verdict in ("better", "worse") and comparison.segment is None:
            warnings += _hangs(judged[-1], others, judges, error, level)
    return judged, warnings


def _hangs(
    comparison: Comparison,
    others: Sequence[dict[tuple[str | None, ...], Comparison]],
    judges: Sequence[str],
    error: _Error,
    level: float,
) -> list[Warning_]:
    """A warning where the verdict is gone without one of the judges."""
    named = []
    for judge, own in zip(judges, others, strict=True):
        found = own.get(_pair(comparison))
        if found is None or not error.limits(found.delta, level).holds(0.0):
            continue
        named.append(judge)
    if not named:
        return []
    message = (
        f"{comparison.candidate} is {comparison.verdict} than {comparison.baseline} by "
        f"{comparison.metric}, and without {', '.join(named[:3])} nobody could tell"
    )
    return [Warning_("hangs-on-one-judge", message, comparison.candidate)]
