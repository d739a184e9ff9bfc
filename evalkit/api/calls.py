"""The Python surface: `evalkit.evaluate`."""

# Long: every argument stands in a signature, and is told.

import os
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from evalkit.api import in_memory
from evalkit.config import SELECTED, Config, build_config, hinted, our_columns
from evalkit.errors import RequestError
from evalkit.metrics import OwnMetric
from evalkit.pipeline import run_config
from evalkit.planning.tables import Given
from evalkit.report import Report
from evalkit.sources import Ids


@hinted
def evaluate(
    truth: object,
    rankings: object,
    *,
    metrics: Sequence[str | OwnMetric],
    primary: str | Sequence[str] = (),
    combined: Mapping[str, str] | None = None,
    metric_files: in_memory.MetricFiles = (),
    profile: str = "evalkit",
    policies: Mapping[str, str | float] | None = None,
    threshold: float | None = None,
    min_propensity: float | None = None,
    train: object | None = None,
    items: object | None = None,
    users: object | None = None,
    reference: object | None = None,
    drop_seen: bool = False,
    columns: in_memory.TableColumns = None,
    where: Mapping[str, str] | None = None,
    ranked_by: Mapping[str, str] | None = None,
    format: Mapping[str, str] | None = None,
    files: Mapping[str, str] | None = None,
    verify_pages: bool = True,
    user_ids: Ids = None,
    item_ids: Ids = None,
    segments: Mapping[str, object] | None = None,
    statistics: Mapping[str, object] | None = None,
    per_user: bool = False,
    sample: float | None = None,
    threads: int | None = None,
    memory_limit: int | None = None,
    engine: Mapping[str, object] | None = None,
    again: bool = False,
    name: str = "evaluate",
) -> Report:
    """Metrics of rankings over held-out interactions.

    Every table is a path (file, glob, folder, URL, or a list of them) or data in memory: Polars
    lazy or eager, pandas, Arrow, DuckDB relations, anything with `__arrow_c_stream__`;
    `{user: {item: number}}`, `{user: [item, ...]}`, a list of items for each user; a matrix of
    users by items (NumPy; of SciPy what is stored), whose `-inf` is not ranked; ranx' Qrels, Run.

    Args:
        truth: held-out interactions: user, item and, if given, relevance; None for metrics of
            lists that need no right answers.
        rankings: model name -> table of user, item and rank or score (or row order, or lists of
            items); one table alone holds one model, or several where it has a model column.
            `{"als": {"path": table, "earlier": [table, ...]}}`: and its lists before, oldest first.
        metrics: such as `["nDCG@10", "recall@{5,20}"]`; and your own: what `@metric` makes,
            `my_metric.request(10)`, or a plain function of one user's relevances in rank order,
            which is slower.
        primary: those of them that decide, and stand first; the first one by default.
        combined: numbers made of several of them, such as `{"trade": "hmean(nDCG@10, hit@10)"}`.
        metric_files: Python files with metrics of your own, which `metrics` may name.
        profile: whose conventions to follow: a library's, such as `ranx`, or those of a TOML file
            of your own.
        policies: what to do at edges, as under `[policies]` of a config; they win over the
            profile.
        threshold: items are relevant from this relevance on; above 0 by default.
        min_propensity: smaller propensities of the truth count as this.
        train: what the models had seen: user, item.
        items: all items, for metrics of lists: item and, as they need it, genres, vector,
            published and columns that they name; a table, or a mapping as under `[items]` of a
            config whose `path` is one, such as `{"path": table, "separator": "|"}`.
        users: who should have got a list: user.
        reference: lists that others are held against: a model's name, or a table.
        drop_seen: drop ranked items that `train` holds; otherwise they are counted.
        columns: our names (user, item, rank, score, relevance, propensity, model; genres, vector,
            published) to the tables' columns; those that are left out are guessed, but for
            propensity; `report.inputs` tells them. User may be several; order, of one table, puts
            its rows in order.
        where, format: of a table, `{"truth": "split = 'test'"}`, as under `[truth]` of a config.
        ranked_by: `{"rankings": "rows"}`: their order ranks, whatever columns look like scores.
        files: `{"truth": "as they are"}`: read files of Delta, Iceberg and Hudi tables as such.
        verify_pages: hold pages of local Parquet files against their checksums.
        user_ids, item_ids: of the rows and columns of matrices; their numbers by default.
        segments: users, or relevant items, in groups, as under `[segments]` of a config.
        statistics: intervals and comparisons, as under `[statistics]`.
        per_user: keep the values of every user, for `report.per_user`.
        sample: share of the users to look at, drawn by a hash of their ids.
        threads: usable cores by default.
        memory_limit: bytes that the run may take; above it users are split into passes.
        engine: where it is measured, as under `[engine]` of a config.
        again: look at a test part however often that was done, as the folder `runs` knows.
        name: of the job, in reports and run folders.
    Raises:
        RequestError: the request is wrong [unknown-metric, bad-value, ...].
        DataError: the data is wrong [missing-column, duplicate-item, no-common-user, ...].
        EvalkitError: the truth is a test part that is used up [looks-used-up].
    Example:
        >>> import polars as pl
        >>> truth = pl.DataFrame({"user": [1, 1, 2], "item": [10, 11, 12]})
        >>> als = pl.DataFrame({"user": [1, 1, 2], "item": [10, 99, 12], "rank": [1, 2, 1]})
        >>> report = evaluate(truth, {"als": als}, metrics=["recall@2", "RR"])
        >>> report.value("recall@2"), report.value("RR")
        (0.75, 1.0)
        >>> def starts_well(relevances):
        ...     return relevances[:1].any()
        >>> evaluate(truth, als, metrics=["RR", starts_well]).value("starts_well")
        1.0
        >>> liked = {"ann": ["a", "b"], "bob": ["c"]}
        >>> ranked = {"ann": {"a": 0.9, "x": 0.8, "b": 0.1}, "bob": {"c": 0.7}}
        >>> evaluate(liked, {"als": ranked}, metrics=["recall@2"]).value("recall@2")
        0.75
    """
    if drop_seen and train is None:
        message = "drop_seen drops what train holds, and there is no train"
        hint = "pass train=table of user and item, or leave drop_seen out"
        raise RequestError(message, code="missing-key", hint=hint)
    depth = None if drop_seen else in_memory.depth_of(metrics, profile, policies)
    keeps_users = in_memory.counts_users_of_nothing(metrics, profile, policies, threshold)
    taken = in_memory.GivenFrames(user_ids, item_ids, depth, keeps_users)
    listed = taken.listed(rankings, truth, in_memory.columns_of(columns, "rankings"))
    truth, train = taken.table(truth, "truth"), taken.table(train, "train")
    tree: dict[str, Any] = {
        "metrics": in_memory.metrics_section(metrics, primary, profile, combined, metric_files),
        "policies": dict(policies or {}),
        "rankings": [each.section() for each in listed],
        "engine": dict(engine or {}),
        "verify_pages": None if verify_pages else False,
    }
    segment_tables, weights = dict[str, object](), dict[str, object]()
    tree["segments"] = _segments_tree(segments, segment_tables)
    tree["statistics"] = chosen = dict(statistics or {})
    if "weight" in chosen:
        chosen["weight"] = in_memory.named_segments("weight", chosen["weight"], weights)
    beside: dict[str, Any] = {}
    for section, table in zip(in_memory.OTHERS, (truth, train, items, users), strict=True):
        in_memory.add_table(section, table, in_memory.columns_of(columns, section), tree, beside)
    in_memory.say_of_tables(
        tree, {"where": where, "format": format, "ranked_by": ranked_by, "files": files}
    )
    in_memory.add_floors(tree, threshold=threshold, min_propensity=min_propensity)
    if drop_seen:
        tree["train"]["drop_seen"] = True
    if reference is not None:
        beside["reference"] = in_memory.taken_over(reference, "reference")
        (path, *_), is_path = in_memory.paths_of(reference), in_memory.is_path(reference)
        tree["metrics"]["reference"] = path if is_path else f"{path}/"
    given = Given(
        rankings=[in_memory.taken_over(each.table, "rankings") for each in listed],
        segments=segment_tables,
        weight=weights.get("weight"),
        unnamed=in_memory.unnamed_of(listed),
        earlier=in_memory.earlier_of(listed),
        **beside,
    )
    config = _named(build_config(tree, name=name, unnamed=given.unnamed, entry_point="python"))
    how = {"threads": threads, "memory_limit": memory_limit, "sample": sample, "per_user": per_user}
    return _looked(config, given, [given.truth], again, how)


def _looked(
    config: Config, given: Given, truths: Sequence[object | None], again: bool, how: dict[str, Any]
) -> Report:
    """The report; a look, where the folder `runs` or a split knows the truth as a test part.

    Args:
        truths: tables in memory that say what is right, in the order of the config.
        how: as `pipeline.run_config` takes it.
    """
    from evalkit.runs.history.holdout_uses import look_ahead, measure_as_look

    folder = Path(config.output.path)
    ahead = look_ahead(config, folder, again=again, given=truths)
    return measure_as_look(config, folder, ahead, partial(run_config, given=given, **how))


def _segments_tree(
    segments: Mapping[str, object] | None, tables: dict[str, object]
) -> dict[str, object]:
    """The segments as a config has them; tables in memory go into `tables`."""
    named = (segments or {}).items()
    return {name: in_memory.named_segments(name, rule, tables) for name, rule in named}


def _named(config: Config) -> Config:
    """The config with the name of the winner where its baseline is `selected`.

    Raises:
        RequestError: it asks for earlier nights, and nothing here has a folder of runs [bad-value].
    """
    if config.statistics.over_nights is not None:
        raise RequestError(
            "over_nights compares with earlier runs, and no run is written here",
            code="bad-value",
            at=config.at("statistics", "over_nights"),
            hint="write it under [statistics] of a config: evalkit run CONFIG",
        )
    if config.statistics.baseline != SELECTED:
        return config
    from evalkit.runs.history import name_selected

    return name_selected(config, Path(config.output.path))


@hinted
def compare(
    truth: object,
    rankings: Mapping[str, object],
    *,
    metrics: Sequence[str | OwnMetric],
    primary: str | Sequence[str] = (),
    combined: Mapping[str, str] | None = None,
    metric_files: in_memory.MetricFiles = (),
    baseline: str | None = None,
    profile: str = "evalkit",
    policies: Mapping[str, str | float] | None = None,
    threshold: float | None = None,
    min_propensity: float | None = None,
    train: object | None = None,
    items: object | None = None,
    users: object | None = None,
    reference: object | None = None,
    drop_seen: bool = False,
    columns: in_memory.TableColumns = None,
    where: Mapping[str, str] | None = None,
    ranked_by: Mapping[str, str] | None = None,
    format: Mapping[str, str] | None = None,
    files: Mapping[str, str] | None = None,
    verify_pages: bool = True,
    user_ids: Ids = None,
    item_ids: Ids = None,
    segments: Mapping[str, object] | None = None,
    statistics: Mapping[str, object] | None = None,
    per_user: bool = False,
    threads: int | None = None,
    memory_limit: int | None = None,
    again: bool = False,
) -> Report:
    """Models compared user by user over the same truth: `report.comparisons`.

    Args:
        truth, metrics, primary, combined, metric_files, profile, policies, threshold,
            min_propensity, train, items, users, reference, drop_seen, columns, where, format,
            files, ranked_by, verify_pages, user_ids, item_ids, segments: as `evaluate`.
        rankings: model name -> table, two or more.
        baseline: every other model is compared with it; the first one by default. `selected` is
            the winner of the last selection of the folder `runs`.
        statistics: test, correction, level, margin and so on, as under `[statistics]`.
        per_user, threads, memory_limit, again: as `evaluate`.
    Raises:
        RequestError: fewer than two models [nothing-to-compare], and as `evaluate`.
        DataError: as `evaluate`.
    Example:
        >>> import polars as pl
        >>> truth = pl.DataFrame({"user": [1, 1, 2], "item": [10, 11, 12]})
        >>> als = pl.DataFrame({"user": [1, 1, 2], "item": [10, 99, 12], "rank": [1, 2, 1]})
        >>> top = pl.DataFrame({"user": [1, 1, 2], "item": [99, 10, 98], "rank": [1, 2, 1]})
        >>> report = compare(truth, {"top": top, "als": als}, metrics=["recall@2"])
        >>> (found,) = report.comparisons
        >>> found.baseline, found.candidate, found.delta, found.wins, found.losses
        ('top', 'als', 0.5, 1, 0)
    """
    given: dict[str, Any] = dict(locals())  # all of it is what `evaluate` takes, but the baseline
    del given["baseline"]
    if not isinstance(rankings, Mapping) or len(rankings) < 2:
        hint = 'pass {"old": table, "new": table}'
        raise RequestError("it takes two models to compare", code="nothing-to-compare", hint=hint)
    chosen = dict(statistics or {})
    if chosen.get("pairs") != "all":
        chosen.setdefault("baseline", baseline or str(next(iter(rankings))))
    return evaluate(**{**given, "statistics": chosen, "name": "compare"})


@hinted
def load(
    run: str | os.PathLike[str] = "last", *, folder: str | os.PathLike[str] = "runs"
) -> Report:
    """The report of a finished run.

    Args:
        run: last, last~1, a tag, an id, or the path of a run's directory or of a report's JSON.
        folder: of runs.
    Raises:
        RequestError: there is no such run [unknown-run, missing-runs].
        DataError: what is there cannot be read [run-damaged, report-unreadable, report-schema].
    Example:
        >>> import tempfile
        >>> report = evaluate({1: ["a"]}, {"als": {1: ["b", "a"]}}, metrics=["RR"])
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     load(report.write(folder)).value("RR")
        0.5
    """
    from evalkit.runs.history import load_named

    if os.path.isfile(run):
        return Report.from_json(Path(run).read_bytes(), at=os.fspath(run))
    return load_named(Path(folder), os.fspath(run))


@hinted
def evaluate_ratings(
    ratings: object,
    predictions: object | None = None,
    *,
    metrics: Sequence[str | OwnMetric],
    primary: str | Sequence[str] = (),
    metric_files: in_memory.MetricFiles = (),
    profile: str = "evalkit",
    policies: Mapping[str, str | float] | None = None,
    columns: in_memory.Columns | None = None,
    segments: Mapping[str, object] | None = None,
    statistics: Mapping[str, object] | None = None,
    per_user: bool = False,
    sample: float | None = None,
    threads: int | None = None,
    memory_limit: int | None = None,
    again: bool = False,
    verify_pages: bool = True,
    name: str = "ratings",
) -> Report:
    """Errors of predicted ratings.

    Args:
        ratings: true ratings: user, item, rating. Without `predictions`: user, rating and
            prediction, one table or model name -> table.
        predictions: model name -> table of user, item, prediction; or one table alone.
        metrics: such as `["RMSE", "MAE(over='users')"]`.
        primary: those of them that decide, and stand first; the first one by default.
        metric_files: Python files with metrics of your own.
        profile: whose conventions to follow, as for `evaluate`; it must say something of them.
        policies: what to do at edges, as under `[policies]` of a config.
        columns: our names (user, item, rating, prediction, model) to the tables' columns; those
            that are left out are guessed, but for an item that no table of predictions needs.
        segments: users in groups, as under `[segments]` of a config.
        statistics: intervals and comparisons, as under `[statistics]`.
        per_user: keep the values of every user, for `report.per_user`, of plain means over users.
        sample: share of the users to look at, drawn by a hash of their ids.
        threads: usable cores by default.
        memory_limit: bytes that the run may take; above it rows are read in several passes.
        again, verify_pages, name: as `evaluate`.
    Raises:
        RequestError: the request is wrong [unknown-metric, bad-policy, ...].
        DataError: the data is wrong [missing-column, duplicate-pair, bad-score, ...].
    Example:
        >>> import polars as pl
        >>> rated = pl.DataFrame(
        ...     {"user": [1, 1, 2], "rating": [4.0, 2.0, 5.0], "prediction": [3.5, 2.0, 4.0]}
        ... )
        >>> evaluate_ratings(rated, metrics=["MAE"]).value("MAE")
        0.5
    """
    given: dict[str, Any] = dict(locals())
    named = our_columns(columns, ("user", "item", "rating", "prediction", "model"))
    if predictions is None:
        keys = ("user", "item", "rating", "prediction", "model")
        sections = {"ratings": in_memory.listed_of(ratings, keys, named)}
    else:
        sections = {
            "ratings": [
                in_memory.Listed(
                    None, ratings, in_memory.keys_of(named, ("user", "item", "rating"))
                )
            ],
            "predictions": in_memory.listed_of(
                predictions, ("user", "item", "prediction", "model"), named
            ),
        }
    return _evaluate_rows(sections, given)


@hinted
def evaluate_labels(
    labels: object,
    *,
    metrics: Sequence[str | OwnMetric],
    primary: str | Sequence[str] = (),
    metric_files: in_memory.MetricFiles = (),
    profile: str = "evalkit",
    policies: Mapping[str, str | float] | None = None,
    threshold: float | None = None,
    session_every: str | None = None,
    columns: in_memory.Columns | None = None,
    segments: Mapping[str, object] | None = None,
    statistics: Mapping[str, object] | None = None,
    per_user: bool = False,
    sample: float | None = None,
    threads: int | None = None,
    memory_limit: int | None = None,
    again: bool = False,
    verify_pages: bool = True,
    name: str = "labels",
) -> Report:
    """Classification, calibration and ranking of scored rows with labels.

    Args:
        labels: rows of user, score, label and, where named, session, item, time and weight; one
            table, or model name -> table.
        metrics: such as `["AUC", "GAUC", "log-loss", "F1(threshold=0.3)"]`.
        primary: those of them that decide, and stand first; the first one by default.
        metric_files: Python files with metrics of your own.
        profile: whose conventions to follow, as for `evaluate`; it must say something of them.
        policies: what to do at edges, as under `[policies]` of a config.
        threshold: labels are 1 from here on; labels are 0 and 1 by default.
        session_every: sessions of a user's rows within such a span of time, as `1d`.
        columns: our names (user, session, item, time, score, label, weight, model) to the tables'
            columns; session, item, time and weight are only read when named, others are guessed.
        segments: users in groups, as under `[segments]` of a config.
        statistics: intervals and comparisons, as under `[statistics]`.
        per_user: keep the values of every user, for `report.per_user`, of plain means over users.
        sample: share of the users to look at, drawn by a hash of their ids.
        threads: usable cores by default.
        memory_limit: bytes that the run may take; above it rows are read in several passes.
        again, verify_pages, name: as `evaluate`.
    Raises:
        RequestError: the request is wrong [unknown-metric, bad-policy, ...].
        DataError: the data is wrong [missing-column, bad-label, not-a-probability, ...].
    Example:
        >>> import polars as pl
        >>> rows = pl.DataFrame(
        ...     {"user": [1, 1, 2, 2], "score": [0.9, 0.2, 0.6, 0.4], "label": [1, 0, 0, 1]}
        ... )
        >>> evaluate_labels(rows, metrics=["AUC"]).value("AUC")
        0.75
    """
    given: dict[str, Any] = dict(locals())
    keys = ("user", "session", "item", "time", "score", "label", "weight", "model")
    sections = {"labels": in_memory.listed_of(labels, keys, our_columns(columns, keys))}
    own = {"threshold": threshold, "session_every": session_every}
    return _evaluate_rows(sections, given, {k: each for k, each in own.items() if each is not None})


def _evaluate_rows(
    sections: Mapping[str, Sequence[in_memory.Listed]],
    given: Mapping[str, Any],
    extra: Mapping[str, object] | None = None,
) -> Report:
    """The report of tables of rows.

    Args:
        given: what the call was given, by its names.
        extra: keys of every table.
    """
    tree: dict[str, Any] = {
        "verify_pages": None if given["verify_pages"] else False,
        "metrics": in_memory.metrics_section(
            given["metrics"], given["primary"], given["profile"], files=given["metric_files"]
        ),
        "policies": dict(given["policies"] or {}),
        "statistics": dict(given["statistics"] or {}),
    }
    held: list[object | None] = []
    segment_tables: dict[str, object] = {}
    unnamed = in_memory.unnamed_of([each for listed in sections.values() for each in listed])
    tree["segments"] = _segments_tree(given["segments"], segment_tables)
    for section, listed in sections.items():
        held += [in_memory.taken_over(each.table, section) for each in listed]
        tree[section] = [{**each.section(), **(extra or {})} for each in listed]
    config = build_config(tree, name=given["name"], unnamed=unnamed, entry_point="python")
    tables = Given(rankings=held, segments=segment_tables, unnamed=unnamed)
    how = {name: given[name] for name in ("threads", "memory_limit", "sample", "per_user")}
    return _looked(_named(config), tables, held, given["again"], how)
