"""Keys that change nothing of a run are told, and change nothing."""

import json
from collections.abc import Mapping

import polars as pl
import pytest

import evalkit
from evalkit.config import Policies, load_config
from evalkit.metrics import declared
from evalkit.metrics._declared import KINDS
from evalkit.pipeline import run_config
from evalkit.report import Report

USERS = [user for user in range(20) for _ in range(3)]
ROWS = pl.DataFrame(
    {
        "user": USERS,
        "item": [1, 2, 3] * 20,
        "rating": [1.0, 3.0, 4.0] * 20,
        "prediction": [1.5 + user % 3 for user in USERS],
        "score": [(user * 7 + row) % 10 / 10 for row, user in enumerate(USERS)],
        "label": [0, 1, 1] * 20,
    }
)
LOG = pl.DataFrame(
    {
        "user": USERS,
        "reward": [float(row % 2) for row in range(60)],
        "propensity": [0.5] * 60,
        "p": [0.2 + row % 3 / 5 for row in range(60)],
        "q": [0.6 - row % 3 / 5 for row in range(60)],
    }
)
LISTS = {"a": {user: [1, 2, 9] for user in range(20)}, "b": {user: [2, 9] for user in range(20)}}


def measure(kind: str, policies: Mapping[str, str], statistics: Mapping[str, object]) -> Report:
    given = {"policies": policies, "statistics": statistics}
    if kind == "ratings":
        models = {"a": ROWS, "b": ROWS.with_columns(prediction=pl.col("rating") + 0.5)}
        return evalkit.evaluate_ratings(models, metrics=["MAE"], **given)
    if kind == "labels":
        models = {"a": ROWS, "b": ROWS.with_columns(score=1 - pl.col("score"))}
        return evalkit.evaluate_labels(models, metrics=["log-loss"], **given)
    if kind == "logged":
        targets = {"a": {"probability": "p"}, "b": {"probability": "q"}}
        return evalkit.evaluate_logged(LOG, targets, columns={"user": "user"}, **given)
    truth = {user: [1, 3] for user in range(20)}
    return evalkit.evaluate(truth, LISTS, metrics=["recall@2"], **given)


def told(report: Report) -> list[str]:
    return [each.message.split()[0] for each in report.warnings if each.code == "not-followed"]


def numbers(report: Report) -> object:
    document = json.loads(report.to_json())
    return {name: document[name] for name in ("metrics", "comparisons", "statistics")}


@pytest.mark.parametrize(
    ("kind", "policies"),
    [
        ("ratings", {"missing_ranking": "nan", "ties": "input"}),
        ("labels", {"missing_ranking": "nan", "unrated": "error"}),
        ("logged", {"ties": "input", "unrated": "error"}),
        ("rankings", {"unrated": "error", "units": "rounds"}),
    ],
)
def test_policies_of_other_kinds_are_told_and_move_nothing(kind, policies):
    base = {} if kind == "logged" else {"baseline": "a"}

    report = measure(kind, policies, base)

    assert told(report) == sorted(f"policies.{name}" for name in policies)
    assert numbers(report) == numbers(measure(kind, {}, base))


@pytest.mark.parametrize("kind", ["ratings", "labels", "logged", "rankings"])
def test_statistics_of_experiments_are_told(kind):
    report = measure(kind, {}, {"alternative": "less", "relative": "delta"})

    assert told(report) == ["statistics.alternative", "statistics.relative"]


def test_limits_of_no_bootstrap_are_told():
    assert told(measure("rankings", {}, {"limits": "bca"})) == ["statistics.limits"]
    assert not told(measure("rankings", {}, {"limits": "bca", "method": "bootstrap"}))


def test_a_seed_of_nothing_that_is_drawn_is_told():
    drawn = {"seed": 7, "replicates": 200}

    for kind in ("rankings", "ratings", "labels", "logged"):
        assert told(measure(kind, {}, drawn)) == ["statistics.replicates", "statistics.seed"]
    for more in ({"method": "bootstrap"}, {"test": "permutation", "baseline": "a"}):
        assert not told(measure("rankings", {}, {**drawn, **more}))


def test_logged_feedback_says_what_it_did_with_a_margin_and_tukeys_test():
    plain = measure("logged", {}, {"pairs": "all"})

    report = measure("logged", {}, {"pairs": "all", "margin": 0.1, "correction": "tukey"})

    assert told(report) == ["statistics.correction", "statistics.margin"]
    assert numbers(report) == numbers(plain)


def test_beside_rankings_what_one_of_the_two_follows_is_not_told():
    log = LOG.with_columns(item=pl.Series([1, 2, 3] * 20))
    lists = pl.DataFrame({"user": USERS, "item": [1, 3, 2] * 20, "rank": [1, 2, 3] * 20})
    truth = pl.DataFrame({"user": list(range(20)), "item": [1] * 20})

    report = evalkit.evaluate_logged(
        log,
        {"a": {"probability": "p"}},
        columns={"user": "user", "item": "item"},
        metrics=["SNIPS", "recall@2"],
        rankings={"b": lists},
        truth=truth,
        policies={"units": "rounds", "no_relevant": "zero", "unrated": "error"},
        statistics={"margin": 0.1},
    )

    assert told(report) == ["policies.unrated"]


@pytest.mark.parametrize(
    ("segments", "idle"),
    [
        ({"s": {"by": "p", "quantiles": 3}}, ["segments.s.quantiles"]),
        (
            {"s": {"by": "p", "edges": [0.5], "where": "p > 0"}},
            ["segments.s.where", "segments.s.edges"],
        ),
        ({"min_users": 5, "s": {"by": "p"}}, ["segments.min_users"]),
        ({"s": {"by": "p"}}, []),
    ],
)
def test_segments_of_a_log_are_made_of_columns_alone(segments, idle):
    targets = {"a": {"probability": "p"}}

    report = evalkit.evaluate_logged(LOG, targets, columns={"user": "user"}, segments=segments)

    assert told(report) == idle


def test_tables_beside_a_log_without_lists_are_told(tmp_path):
    LOG.write_parquet(tmp_path / "log.parquet")
    text = """logged = { path = "log.parquet", columns = { user = "user" } }
targets = [{ model = "a", probability = "p" }]
train = { path = "log.parquet" }
metrics = { names = ["SNIPS"], reference = "a" }
"""
    (tmp_path / "job.toml").write_text(text)

    report = run_config(load_config(tmp_path / "job.toml"))

    assert told(report) == ["metrics.reference", "[train]"]


def test_preferences_tell_keys_of_ratings(tmp_path):
    rows = [("x", n, "a", "b", "a" if n % 3 else "b") for n in range(30)]
    names = ["judge", "unit", "first", "second", "preferred"]
    pl.DataFrame(rows, schema=names, orient="row").write_parquet(tmp_path / "won.parquet")
    columns = ", ".join(f'{name} = "{name}"' for name in names)
    text = f"""judges = {{ path = "won.parquet", columns = {{ {columns} }}, kind = "nominal" }}
metrics = {{ names = ["win-rate"] }}
output.per_user = true
segments = {{ s = {{ by = "unit % 2" }} }}
"""
    (tmp_path / "job.toml").write_text(text)

    report = run_config(load_config(tmp_path / "job.toml"))

    assert told(report) == ["judges.kind", "segments.s", "output.per_user"]


def test_ready_made_rows_tell_keys_of_events_and_of_clusters(tmp_path):
    rows = {"unit": range(40), "variant": ["a", "b"] * 20, "clicks": [0, 1, 2, 1, 0] * 8}
    pl.DataFrame(rows).write_parquet(tmp_path / "rows.parquet")
    text = """experiment = { variants = { a = 1, b = 1 }, until = "2026-01-31", covariate_days = 3 }
exposures = { path = "rows.parquet", columns = { unit = "unit", variant = "variant" } }
metrics = { names = ["mean(clicks)"], guardrails = ["mean(clicks)"] }
policies = { open_windows = "keep" }
statistics = { clusters = "delta" }
"""
    (tmp_path / "job.toml").write_text(text)

    report = run_config(load_config(tmp_path / "job.toml"))

    idle = ["policies.open_windows", "experiment.until"]
    assert told(report) == ["statistics.clusters", "experiment.covariate_days", *idle]


def test_what_metrics_of_experiments_have_is_told_of_others(tmp_path):
    ROWS.write_parquet(tmp_path / "rows.parquet")
    text = """ratings = [{ model = "a", path = "rows.parquet" }]
metrics = { names = ["MAE"], guardrails = ["MAE"], lower_is_better = ["MAE"] }
"""
    (tmp_path / "job.toml").write_text(text)

    report = run_config(load_config(tmp_path / "job.toml"))

    assert told(report) == ["metrics.guardrails", "metrics.lower_is_better"]


def test_a_size_of_segments_is_told_where_there_are_none():
    report = evalkit.evaluate({1: [2]}, {1: [2]}, metrics=["RR"], segments={"min_users": 5})

    assert told(report) == ["segments.min_users"]


def test_values_that_are_the_defaults_are_not_told():
    assert not told(measure("ratings", {"ties": "item"}, {"alternative": "two-sided"}))


def test_some_kind_follows_each_policy():
    followed = {name for kind in KINDS for name in declared(kind).follows}

    assert followed == set(Policies.model_fields)
