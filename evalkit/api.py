"""The Python surface: `evalkit.evaluate`."""

import os
from collections.abc import Mapping, Sequence

from evalkit.config import build_config
from evalkit.errors import RequestError
from evalkit.report import Report
from evalkit.sources import guess_columns, open_given, read_schema
from evalkit.street import Given, run_config

Columns = Mapping[str, str | Sequence[str]]
MEMORY = "memory"  # stands for a path where a table is in memory


def evaluate(
    truth: object,
    rankings: object,
    *,
    metrics: Sequence[str],
    profile: str = "evalkit",
    policies: Mapping[str, str | int] | None = None,
    threshold: float | None = None,
    train: object | None = None,
    drop_seen: bool = False,
    columns: Columns | None = None,
    per_user: bool = False,
    sample: float | None = None,
    threads: int | None = None,
    memory_limit: int | None = None,
    name: str = "evaluate",
) -> Report:
    """Metrics of rankings over held-out interactions.

    Every table is a path (file, glob, folder, URL, or a list of them) or data in memory: Polars
    lazy or eager, pandas, Arrow, DuckDB relations, anything with `__arrow_c_stream__`.

    Args:
        truth: held-out interactions: user, item and, if given, relevance.
        rankings: model name -> table of user, item and rank or score (or row order, or lists of
            items); one table alone holds one model, or several where it has a model column.
        metrics: such as `["nDCG@10", "recall@{5,20}"]`.
        profile: the conventions to follow.
        policies: what to do at edges, as under `[policies]` of a config.
        threshold: items are relevant from this relevance on; above 0 by default.
        train: what the models had seen: user, item.
        drop_seen: drop ranked items that `train` holds; otherwise they are counted.
        columns: our names (user, item, rank, score, relevance, model) to the tables' columns,
            where they cannot be guessed; user may be several.
        per_user: keep the values of every user, for `report.per_user`.
        sample: share of the users to look at, drawn by a hash of their ids.
        threads: usable cores by default.
        memory_limit: bytes that the run may take; above it users are split into passes.
        name: of the job, in reports and run folders.
    Raises:
        RequestError: the request is wrong [unknown-metric, bad-value, ...].
        DataError: the data is wrong [missing-column, duplicate-item, no-common-user, ...].
    """
    models = rankings if isinstance(rankings, Mapping) else {"model": rankings}
    if not models:
        raise RequestError("there are no rankings", code="no-rankings", hint='pass {"name": table}')
    named = dict(columns or {})
    held = {
        "truth": _held(truth, "truth"),
        "train": None if train is None else _held(train, "train"),
    }
    tables = [_held(table, "rankings") for table in models.values()]
    truth_columns = _complete(truth, held["truth"], "truth", named)
    tree: dict[str, object] = {
        "truth": {"path": _paths(truth), "columns": truth_columns},
        "metrics": {"names": list(metrics), "profile": profile},
        "policies": dict(policies or {}),
    }
    if threshold is not None:
        tree["truth"] = {"path": _paths(truth), "columns": truth_columns, "threshold": threshold}
    listed = []
    for (model, table), in_memory in zip(models.items(), tables, strict=True):
        found = _complete(table, in_memory, "rankings", named)
        single = isinstance(rankings, Mapping) or "model" not in found
        if single:
            found.pop("model", None)
        listed.append(
            {"path": _paths(table), "columns": found, **({"model": str(model)} if single else {})}
        )
    tree["rankings"] = listed
    if train is not None:
        tree["train"] = {
            "path": _paths(train),
            "columns": _complete(train, held["train"], "train", named),
            "drop_seen": drop_seen,
        }
    return run_config(
        build_config(tree, name=name),
        given=Given(held["truth"], tables, held["train"]),
        threads=threads,
        memory_limit=memory_limit,
        sample=sample,
        per_user=per_user,
    )


def _is_path(table: object) -> bool:
    if isinstance(table, (str, os.PathLike)):
        return True
    return (
        isinstance(table, (list, tuple))
        and bool(table)
        and all(isinstance(each, (str, os.PathLike)) for each in table)
    )


def _paths(table: object) -> list[str]:
    if not _is_path(table):
        return [MEMORY]
    if isinstance(table, (str, os.PathLike)):
        return [os.fspath(table)]
    return [os.fspath(each) for each in table]  # type: ignore[attr-defined]


def _held(table: object, role: str) -> object | None:
    """A table in memory, taken over once: a stream may not come a second time."""
    if _is_path(table):
        return None
    frame, n_rows = open_given(table, role)
    return frame if n_rows is None else frame.collect()


def _complete(
    table: object, in_memory: object | None, role: str, named: Columns
) -> dict[str, str | Sequence[str]]:
    """The columns as named, and the others as the table's own names suggest."""
    keys = {
        "truth": ("user", "item", "relevance"),
        "rankings": ("user", "item", "rank", "score", "model"),
        "train": ("user", "item"),
    }[role]
    ours = {key: named[key] for key in keys if key in named}
    used = {
        each for value in ours.values() for each in ([value] if isinstance(value, str) else value)
    }
    schema = read_schema(_paths(table), given=in_memory, role=role)
    others = [each for each in schema if each not in used]
    wanted = [key for key in keys if key not in ours]
    if "user" in ours or "item" in ours:  # a name that stands for itself is never missing
        others += [key for key in ("user", "item") if key in ours and key not in others]
    guessed = guess_columns(others, role)
    found = {**ours, **{key: guessed[key] for key in wanted if key in guessed}}
    if "rank" in found and "score" not in named:
        found.pop("score", None)  # ranks order; scores would only cost reading
    if "score" in ours and "rank" not in named:
        found.pop("rank", None)
    return found
