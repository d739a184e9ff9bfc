"""Judges from Python: `evalkit.evaluate_judges`, `evaluate_preferences` and `judge_plan`."""

from collections.abc import Mapping, Sequence
from typing import Any

from evalkit.api import evaluate, in_memory
from evalkit.config import build_config, hinted, our_columns
from evalkit.kinds.judges.plan import JudgePlan, plan_of_config
from evalkit.pipeline import run_config
from evalkit.planning.tables import Given
from evalkit.report import Report


@hinted
def evaluate_judges(
    ratings: object,
    *,
    columns: in_memory.Columns | None = None,
    levels: Sequence[str | float] = (),
    kind: str = "ordinal",
    metrics: Sequence[str] = ("alpha", "AC", "agreement"),
    truth: Mapping[str, object] | None = None,
    judges: str = "these",
    models: Sequence[str] = (),
    profile: str = "evalkit",
    primary: str | Sequence[str] = (),
    segments: Mapping[str, object] | None = None,
    statistics: Mapping[str, object] | None = None,
    per_user: bool = False,
    name: str = "judges",
) -> Report:
    """How people who rated the same things agree, and what they say together.

    Args:
        ratings: one row a rating, a path or a table; or an export of Label Studio.
        columns: our names (unit, a column or several; judge, rating, time, gold; or `ratings`, one
            column a judge) to the table's columns.
        levels: what a rating may be, from low to high; those that were given by default.
        kind: of the levels: nominal, ordinal, interval or ratio.
        metrics: such as `["alpha", "cohen(weights='quadratic')", "ICC"]`. alpha, AC and agreement
            always stand beside them: one number of agreement alone misleads.
        truth: `{"method": "dawid-skene"}`, as `[judges.truth]` of a config; `report.truth` has it.
        judges: "these", or "others": limits that hold for other judges like them.
        models: judges that are models, held against the people.
        profile: whose conventions to follow: irrCAC, krippendorff, pingouin, sklearn, statsmodels.
        primary, segments, statistics, per_user, name: as `evaluate`; a segment is a column of the
            ratings.
    Raises:
        RequestError: the request is wrong [unknown-metric, missing-key, ...].
        DataError: the data is wrong [unknown-level, duplicate-rating, empty-input, ...].
    Example:
        >>> import polars as pl
        >>> rows = {"unit": [1, 1, 2, 2], "judge": ["a", "b", "a", "b"], "rating": [0, 0, 1, 1]}
        >>> evaluate_judges(pl.DataFrame(rows), levels=[0, 1]).value("agreement")
        1.0
    """
    named = our_columns(columns, ("unit", "judge", "rating", "ratings", "time", "gold"))
    long = () if "ratings" in named else ("judge", "rating")
    named = {key: key for key in ("unit", *long)} | named
    section = {
        **{"columns": named, "levels": list(levels), "kind": kind, "judges": judges},
        **{"models": list(models), "truth": dict(truth or {})},
    }
    tree: dict[str, object] = {
        "metrics": in_memory.metrics_section(metrics, primary, profile),
        "statistics": dict(statistics or {}),
        "segments": dict(segments or {}),
    }
    return _evaluate_judged(ratings, section, tree, name, per_user)


@hinted
def evaluate_preferences(
    table: object,
    *,
    columns: in_memory.Columns | None = None,
    metrics: Sequence[str] = ("win-rate", "bradley-terry"),
    statistics: Mapping[str, object] | None = None,
    name: str = "preferences",
) -> Report:
    """Which of two models judges prefer: win rates and strengths, judges as clusters.

    Args:
        table: one row a comparison.
        columns: our names (judge, first, second, preferred) to the table's columns; `preferred` is
            first, second, tie, or the name of a model.
        metrics: win-rate, bradley-terry, bradley-terry(ties='drop'), or 'davidson'.
        statistics, name: as `evaluate`.
    Raises:
        RequestError, DataError: as `evaluate_judges` does [unknown-preference, same-model, ...].
    Example:
        >>> import polars as pl
        >>> rows = {"judge": [1, 2], "first": ["a", "b"], "second": ["b", "a"]}
        >>> table = pl.DataFrame({**rows, "preferred": ["first", "tie"]})
        >>> evaluate_preferences(table).value("win-rate", model="a")
        0.75
    """
    keys = ("judge", "first", "second", "preferred")
    named = {key: key for key in keys} | our_columns(columns, keys)
    tree: dict[str, object] = {
        "metrics": in_memory.metrics_section(metrics, (), "evalkit"),
        "statistics": dict(statistics or {}),
    }
    return _evaluate_judged(table, {"columns": named}, tree, name, False)


@hinted
def judge_plan(
    truth: object,
    rankings: object,
    *,
    metric: str,
    n: int,
    models: Sequence[str] = (),
    relevance: float | None = None,
    columns: in_memory.TableColumns = None,
) -> JudgePlan:
    """Which unjudged pairs of user and item could turn the verdict on two models.

    Args:
        truth: judged pairs with their relevance; 0 is judged and not relevant.
        rankings: model name -> table, as `evaluate` takes them; the first is the reference.
        metric: one metric with a cutoff, as nDCG@10.
        n: pairs that can be judged.
        models: two of the rankings; all by default.
        relevance: of an item as relevant as can be; the largest of the truth by default.
        columns: as `evaluate`.
    Raises:
        RequestError: the metric has no cutoff [missing-cutoff], there are not two models, or
            nothing is unjudged [nothing-to-judge].
        DataError: as `evaluate`.
    Example:
        >>> import polars as pl
        >>> truth = pl.DataFrame({"user": [1, 1], "item": ["a", "b"], "relevance": [1, 0]})
        >>> lists = {"old": {1: ["a", "b"]}, "new": {1: ["c", "a"]}}
        >>> plan = judge_plan(truth, lists, metric="precision@1", n=5)
        >>> plan["item"].to_list(), plan.bounds["high"].to_list()
        (['c'], [0.0, -1.0])
    """
    taken = in_memory.GivenFrames(None, None, in_memory.depth_of([metric], "evalkit", None))
    listed = taken.listed(rankings, truth, in_memory.columns_of(columns, "rankings"))
    tree: dict[str, object] = {
        "metrics": in_memory.metrics_section([metric], (), "evalkit", None),
        "rankings": [each.section() for each in listed],
    }
    beside: dict[str, Any] = {}
    table = taken.table(truth, "truth")
    in_memory.add_table("truth", table, in_memory.columns_of(columns, "truth"), tree, beside)
    held = [in_memory.taken_over(each.table, "rankings") for each in listed]
    given = Given(rankings=held, unnamed=in_memory.unnamed_of(listed), **beside)
    config = build_config(tree, name="plan", unnamed=given.unnamed, entry_point="python")
    return plan_of_config(
        config, metric, given=given, n=n, models=models, relevance=relevance, evaluate=evaluate
    )


def _evaluate_judged(
    table: object, section: Mapping[str, object], tree: dict[str, object], name: str, per_user: bool
) -> Report:
    held = in_memory.taken_over(table, "judges")
    tree["judges"] = {"path": in_memory.paths_of(table), **section}
    config = build_config(tree, name=name, entry_point="python")
    return run_config(config, given=Given(rankings=[held]), per_user=per_user)
