"""Models over several data sets: one finished run of each, compared by mean ranks."""

from collections import Counter
from collections.abc import Sequence
from itertools import combinations

import numpy as np

from evalkit.errors import RequestError
from evalkit.report import Estimate, Report
from evalkit.report.across import TOO_FEW, Across, PairAcross
from evalkit.runs.history._truths import names_of_data
from evalkit.statistics.corrections import adjust
from evalkit.statistics.friedman import FEWEST_SETS, critical_difference, friedman_test, nemenyi_p
from evalkit.statistics.wilcoxon import count_outcomes, wilcoxon_test


def compare_across(
    runs: Sequence[tuple[str, Report]], metric: str | None, *, level: float = 0.95
) -> Across:
    """Models by name over data sets, by one metric.

    Args:
        runs: what a person calls each run, and its report; a run of each data set.
        metric: by default the leading one of the first run.
    Raises:
        RequestError: they have no two models, or not the metric, in common [nothing-in-common];
            two runs are of one data set [same-truth].
    """
    _refuse_copies(runs)
    label = runs[0][1].leading[0] if metric is None else runs[0][1].label_of(metric)
    found = [_estimates(report, label) for _, report in runs]
    every = list(dict.fromkeys(model for each in found for model in each))
    models = [model for model in every if all(model in each for each in found)]
    if len(models) < 2:
        message = f"the runs have {len(models)} models with {label} in common, and it takes two"
        hint = "give models of all data sets the same names: model = ... under [[rankings]]"
        raise RequestError(message, code="nothing-in-common", hint=hint)
    sign = -1.0 if found[0][models[0]].higher_is_better is False else 1.0
    rows = [[each[model].value for model in models] for each in found]
    tested = friedman_test([[sign * value for value in row] for row in rows])
    order = sorted(range(len(models)), key=lambda n: (tested.mean_ranks[n], models[n]))
    ranks = {models[n]: tested.mean_ranks[n] for n in order}
    n_sets, is_enough = len(rows), len(rows) >= FEWEST_SETS
    names = list(ranks)
    return Across(
        metric=label,
        lower_is_better=sign < 0,
        level=level,
        sets=_names(runs),
        models=tuple(names),
        values=tuple(tuple(row[n] for n in order) for row in rows),
        mean_ranks=tuple(ranks.values()),
        statistic=tested.statistic if is_enough and len(names) > 2 else None,
        p_value=tested.p_value if is_enough and len(names) > 2 else None,
        critical=critical_difference(len(names), n_sets, level=level) if is_enough else None,
        pairs=_pairs(names, ranks, [[sign * row[n] for n in order] for row in rows]),
        left_out=tuple(model for model in every if model not in models),
        note="" if is_enough else TOO_FEW.format(n=n_sets),
    )


def _estimates(report: Report, label: str) -> dict[str, Estimate]:
    return {
        each.model: each
        for each in report.estimates
        if each.metric == label and each.segment is None and np.isfinite(each.value)
    }


def _refuse_copies(runs: Sequence[tuple[str, Report]]) -> None:
    seen: dict[str, str] = {}
    for name, report in runs:
        prints = names_of_data(report)
        if shared := sorted(prints & seen.keys()):
            other = seen[shared[0]]
            message = f"{other} and {name} are of one data set, and would count twice"
            hint = "evalkit compare without --across compares them user by user"
            raise RequestError(message, code="same-truth", hint=hint)
        seen |= dict.fromkeys(prints, name)


def _names(runs: Sequence[tuple[str, Report]]) -> tuple[str, ...]:
    """Data sets by the names of their jobs, or of the runs where jobs share one."""
    counted = Counter(report.name for _, report in runs)
    return tuple(report.name if counted[report.name] == 1 else name for name, report in runs)


def _pairs(
    models: Sequence[str], ranks: dict[str, float], rows: Sequence[Sequence[float]]
) -> tuple[PairAcross, ...]:
    """Every two models, the better one first."""
    places = list(combinations(range(len(models)), 2))
    differences = [np.array([row[a] - row[b] for row in rows]) for a, b in places]
    n_sets = len(rows)
    is_enough = n_sets >= FEWEST_SETS
    tests = [wilcoxon_test(each).p_value if is_enough else float("nan") for each in differences]
    adjusted = adjust(tests, "holm").p_adjusted
    found = []
    for (a, b), difference, p_value in zip(places, differences, adjusted, strict=True):
        apart = ranks[models[b]] - ranks[models[a]]
        nemenyi = nemenyi_p(apart, len(models), n_sets) if is_enough else None
        outcomes = count_outcomes(difference)
        counts = outcomes.wins, outcomes.ties, outcomes.losses
        own = p_value if is_enough else None
        found.append(PairAcross(models[a], models[b], *counts, nemenyi, own))
    return tuple(found)
