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
from evalkit.kinds.judges.estimates import FEW_JUDGES, corrected
from evalkit.kinds.judges.open import OWN, open_table, read_rows
from evalkit.kinds.judges.ratings import Ratings, read_ratings
from evalkit.planning.counters import input_of
from evalkit.planning.tables import Given
from evalkit.planning.work import MeasureOptions
from evalkit.report import Comparison, Estimate, Input, Report, Warning_
from evalkit.statistics.agreement import MISSING
from evalkit.statistics.distributions import t_quantile, t_two_sided
from evalkit.statistics.intervals import Interval

Run = Callable[[Config, MeasureOptions], Report]
_OF_USERS = ("margin", "search", "over_nights")  # what looks at users alone


def run_judged(config: Config, work: MeasureOptions, run: Run) -> Report:
    """The report of rankings against the judges' consensus.

    Args:
        run: gives the report of a config of rankings.
    Raises:
        RequestError: what one run over users alone can give is asked for [conflicting-keys].
        DataError: as `read_ratings`; there is one judge alone [few-judges].
    """
    for key in _OF_USERS:
        if getattr(config.statistics, key):
            raise RequestError(
                f"{key} looks at users alone, and judgements hold judges as well",
                code="conflicting-keys",
                at=config.at("statistics", key),
                hint="leave it out",
            )
    ratings, source = _read(config, work.given)
    judges = ratings.judges
    if len(judges) < 2:
        raise DataError(
            f"one judge alone, {judges[0]}: what others would say is not known",
            code="few-judges",
            at=source.paths[0] if source.paths else "truth",
            hint="path = ... in place of judgements takes these ratings as they are",
        )

    def evaluate(held: Sequence[str], **own: object) -> Report:
        inner, given = _with_consensus(config, work.given, ratings, held)
        return run(inner, replace(work, given=given, **own))  # type: ignore[arg-type]

    whole = evaluate(judges)
    without = [
        evaluate([other for other in judges if other != judge], per_user=False,
                 keep_parts=False, per_user_folder=None, opened=None, progress=None)
        for judge in judges
    ]  # fmt: skip
    comparisons, warnings = _compared(config, whole, without, judges)
    if len(judges) < FEW_JUDGES:
        message = f"{len(judges)} judges: limits that hold judges are rough below {FEW_JUDGES}"
        warnings.append(Warning_("few-judges", message))
    of_judges = replace(source, rows=int((ratings.codes != MISSING).sum()))
    return replace(
        whole,
        estimates=tuple(_estimated(config, whole, without)),
        comparisons=tuple(comparisons),
        warnings=(*whole.warnings, *warnings),
        inputs=tuple(of_judges if each.role == "truth" else each for each in whole.inputs),
        config=config.dump(),
    )


def with_consensus(config: Config, given: Given) -> tuple[Config, Given]:
    """A config of judgements, and its tables, with the consensus of all judges as the truth."""
    ratings, _ = _read(config, given)
    return _with_consensus(config, given, ratings, ratings.judges)


def _with_consensus(
    config: Config, given: Given, ratings: Ratings, judges: Sequence[str]
) -> tuple[Config, Given]:
    asked, units = config.truth, ratings.units
    assert asked is not None
    *users, item = units.columns
    columns = TruthColumns(user=tuple(users), item="item", relevance="relevance")
    plain = TruthTable(path=asked.path, columns=columns, threshold=asked.threshold)
    rule = ConsensusSection(method=asked.vote or "majority")
    values = pl.Series("relevance", vote(ratings.of(judges), ratings.levels, rule)[0].values)
    rated = units.rename({item: "item"}).with_columns(values).filter(values.is_not_nan())
    return config.model_copy(update={"truth": plain}), replace(given, truth=rated)


def _read(config: Config, given: Given) -> tuple[Ratings, Input]:
    asked = config.truth
    assert asked is not None
    columns = JudgesColumns(
        unit=(*asked.columns.user, asked.columns.item),
        judge=asked.columns.judge or "judge",
        rating=asked.columns.relevance or "rating",
    )
    own = {name: getattr(asked, name) for name in (*OWN, "files")}
    table = JudgesTable(**own, columns=columns)
    opened = open_table(table, (), given.truth, given.guessing(config), "truth")
    rows = read_rows(opened)
    source = input_of(opened, rows.height, "truth")
    return read_ratings(rows, table, (), at=opened.at), source


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


def _estimated(config: Config, whole: Report, without: Sequence[Report]) -> list[Estimate]:
    """Estimates with the judges' error in them."""

    def place(each: Estimate) -> tuple[str | None, ...]:
        return each.model, each.metric, each.segmentation, each.segment

    level, found = config.statistics.level, []
    bounds = {request.label: request.metric.bounds for request in config.requests}
    others = [{place(each): each.value for each in report.estimates} for report in without]
    for estimate in whole.estimates:
        moved = [own.get(place(estimate), math.nan) for own in others]
        error = error_of(estimate.std_error, estimate.df, estimate.n_users, moved)
        if error is None:
            found.append(replace(estimate, low=None, high=None))
            continue
        limits = error.limits(estimate.value, level).within(bounds[estimate.metric])
        if estimate.low is not None and estimate.high is not None:
            limits = limits.around(Interval(estimate.low, estimate.high))
        found.append(
            replace(
                estimate, low=limits.low, high=limits.high, std_error=error.std_error, df=error.df
            )
        )
    return found


def _compared(
    config: Config, whole: Report, without: Sequence[Report], judges: Sequence[str]
) -> tuple[list[Comparison], list[Warning_]]:
    """Comparisons with the judges' error in them, and verdicts that hang on one judge."""

    def place(each: Comparison) -> tuple[str | None, ...]:
        return each.baseline, each.candidate, each.metric, each.segmentation, each.segment

    chosen, level = config.statistics, config.statistics.level
    others = [{place(each): each.delta for each in report.comparisons} for report in without]
    found, errors, moves = [], [], []
    for compared in whole.comparisons:
        moved = [own.get(place(compared), math.nan) for own in others]
        error = error_of(compared.std_error, compared.df, compared.n_users, moved)
        fields: dict[str, object] = dict.fromkeys(
            ("low", "high", "p_value", "low_adjusted", "high_adjusted")
        )
        if error is not None:
            limits = error.limits(compared.delta, level)
            p = t_two_sided(compared.delta / error.std_error, error.df)
            fields = {
                **{"low": limits.low, "high": limits.high, "test": "t"},
                **{"std_error": error.std_error, "df": error.df},
                "p_value": max(p, compared.p_value or 0.0),  # never surer than over users alone
            }
        fields |= {"relative_low": None, "relative_high": None, "p_equivalent": None}
        found.append(replace(compared, p_not_inferior=None, **fields))  # type: ignore[arg-type]
        errors.append(error)
        moves.append(moved)
    better = {request.label: request.metric.higher_is_better for request in config.requests}
    judged, warnings = corrected(found, chosen, better), list[Warning_]()
    for number, (each, error, moved) in enumerate(zip(judged, errors, moves, strict=True)):
        if error is None or each.p_value is None or each.p_adjusted is None:
            continue
        alone = min(1 - level, (1 - level) * each.p_value / each.p_adjusted)
        single = error.limits(each.delta, 1 - alone)
        judged[number] = replace(each, low_adjusted=single.low, high_adjusted=single.high)
        if each.verdict in ("better", "worse") and each.segment is None:
            named = [
                judge
                for judge, delta in zip(judges, moved, strict=True)
                if error.limits(delta, level).holds(0.0)
            ]
            if named:
                message = (
                    f"{each.candidate} is {each.verdict} than {each.baseline} by {each.metric}, "
                    f"and without {', '.join(named[:3])} nobody could tell"
                )
                warnings.append(Warning_("hangs-on-one-judge", message, each.candidate))
    return judged, warnings
