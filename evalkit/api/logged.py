"""Logged feedback from Python: `evalkit.evaluate_logged`."""

from collections.abc import Mapping, Sequence
from typing import Any

from evalkit.api.in_memory import TABLES, metrics_section, paths_of, taken_over
from evalkit.config import Columns, build_config, hinted, our_columns
from evalkit.errors import RequestError
from evalkit.pipeline import run_config
from evalkit.planning.tables import Given
from evalkit.report import Report

COLUMNS = (
    *("user", "round", "item", "position", "reward", "propensity", "predicted"),
    *("propensity_slate", "propensity_cascade", "propensity_group"),
)
DEFAULTS = {"reward": "reward", "propensity": "propensity"}


@hinted
def evaluate_logged(
    log: object,
    targets: Mapping[str, Mapping[str, object]],
    *,
    metrics: Sequence[str] = ("SNIPS",),
    columns: Columns | Mapping[str, Columns] | None = None,
    profile: str = "evalkit",
    policies: Mapping[str, str | float] | None = None,
    segments: Mapping[str, object] | None = None,
    statistics: Mapping[str, object] | None = None,
    rankings: Mapping[str, object] | None = None,
    truth: object | None = None,
    max_weight_share: float | None = None,
    per_user: bool = False,
    threads: int | None = None,
    memory_limit: int | None = None,
    name: str = "logged",
) -> Report:
    """What other policies would have earned, from a log with known propensities.

    Args:
        log: one row a shown item: reward, propensity, and user, whose rounds vary together.
        targets: model name -> columns of the log (`probability`, `predicted`, ...), or a table of
            probabilities: `{"table": frame, "on": ["user"]}` with these columns, item, probability;
            or lists: `{"rankings": frame, "on": ["user"]}` with these columns, item, rank.
        metrics: such as `["SNIPS", "IPS(cap=10)", "DR"]`.
        columns: our names (user, round, item, position, reward, propensity, predicted,
            propensity_slate, propensity_cascade, propensity_group) to the log's columns; under
            "truth" and "rankings" those of these tables.
        profile: "obp" and "vw" take rounds as units, and errors as these libraries have them.
        segments: columns of the log, or SQL: `{"country": {"by": "country"}}`.
        rankings: model name -> its lists, which are targets too: the logged item has its rank.
        truth: what metrics of these lists, such as nDCG@10, are held against.
        max_weight_share: more of the value than this, carried by ten rounds, is warned of; 0.5.
        policies, statistics, per_user, threads, memory_limit, name: as `evaluate`.
    Raises:
        RequestError: the request is wrong [missing-key, unknown-metric, ...].
        DataError: the data is wrong [bad-propensity, no-overlap, not-a-distribution, ...].
    Example:
        >>> import polars as pl
        >>> log = pl.DataFrame({"reward": [1.0, 0.0], "propensity": [0.5, 0.5], "p": [0.9, 0.1]})
        >>> report = evaluate_logged(log, {"b": {"probability": "p"}})
        >>> round(report.value("SNIPS", model="b"), 9)
        0.9
    """
    if not targets and not rankings:
        hint = 'pass targets={"b": {"probability": "p"}}, its column of probabilities'
        raise RequestError("there are no targets", code="missing-key", at="targets", hint=hint)
    if truth is not None and not rankings:
        message = "truth judges the lists of rankings, and there are none"
        hint = 'pass rankings={"b": table}, or leave truth out'
        raise RequestError(message, code="conflicting-keys", at="truth", hint=hint)
    own: dict[str, Any] = dict(columns or {})
    beside = {
        key: our_columns(own.pop(key) if isinstance(own.get(key), Mapping) else {}, TABLES[key])
        for key in ("truth", "rankings")
    }
    named = DEFAULTS | our_columns(own, COLUMNS)
    held, listed = [taken_over(log, "logged")], []
    for model, target in targets.items():
        rule: dict[str, object] = {"model": model, **target}
        if "rankings" in rule:
            rule = {"rank": "rank", "table": rule.pop("rankings"), **rule}
        if "table" in rule:
            table = rule.pop("table")
            held.append(taken_over(table, "targets"))
            rule["path"] = paths_of(table)
        listed.append(rule)
    heavy = {} if max_weight_share is None else {"max_weight_share": max_weight_share}
    tree: dict[str, object] = {
        "logged": {"path": paths_of(log), "columns": named, **heavy},
        "targets": listed,
        "metrics": metrics_section(metrics, (), profile),
        "policies": dict(policies or {}),
        "segments": dict(segments or {}),
        "statistics": dict(statistics or {}),
    }
    lists = [taken_over(table, "rankings") for table in (rankings or {}).values()]
    if rankings:
        tree["rankings"] = [
            {"model": model, "path": paths_of(table), "columns": beside["rankings"]}
            for model, table in rankings.items()
        ]
    if truth is not None:
        tree["truth"] = {"path": paths_of(truth), "columns": beside["truth"]}
    judged = None if truth is None else taken_over(truth, "truth")
    config = build_config(tree, name=name, entry_point="python")
    given = Given(rankings=held, beside=Given(rankings=lists, truth=judged) if lists else None)
    how: dict[str, Any] = {"per_user": per_user, "threads": threads, "memory_limit": memory_limit}
    return run_config(config, given=given, **how)
