"""Values of single users of labels and of ratings: kept, written, and compared over runs."""

import math

import numpy as np
import polars as pl
import pytest

import evalkit
from evalkit.config import StatisticsSection, load_config
from evalkit.errors import RequestError
from evalkit.jobs.job import Job
from evalkit.runs import load_run
from evalkit.runs.history.compare import compare_runs

LOG = pl.DataFrame(
    {
        "user": ["b", "b", "a", "a", "c"],
        "score": [0.5, 0.25, 0.8, 0.9, 0.5],
        "label": [1, 0, 1, 0, 1],
    }
)
BRIER = {"a": (0.04 + 0.81) / 2, "b": (0.25 + 0.0625) / 2, "c": 0.25}


def test_users_come_in_order_with_their_values():
    names = ["Brier(over='users')", "AUC(over='users')", "AUC", "GAUC"]

    report = evalkit.evaluate_labels(LOG, metrics=names, per_user=True)

    frame = report.per_user("Brier(over='users')")
    assert frame["user"].to_list() == ["a", "b", "c"]
    assert frame["value"].to_list() == pytest.approx(list(BRIER.values()))
    areas = report.per_user("AUC(over='users')")["value"].to_list()
    assert areas[:2] == [0.0, 1.0]
    assert math.isnan(areas[2])
    (warning,) = [each for each in report.warnings if each.code == "no-user-values"]
    assert "AUC, AUC(over='users', weighting='impressions')" in warning.message


@pytest.mark.parametrize("kind", ["int", "text", "date", "two"])
def test_users_keep_their_ids(kind):
    ids = {
        "int": {"user": [3, -7, 3]},
        "text": {"user": ["x", "y", "x"]},
        "date": {"user": pl.Series([20000, 10000, 20000], dtype=pl.Int32).cast(pl.Date)},
        "two": {"user": [1, 1, 1], "day": ["m", "f", "m"]},
    }[kind]
    log = pl.DataFrame({**ids, "rating": [1.0, 2.0, 3.0], "prediction": [1.0, 3.0, 5.0]})
    named = {"user": ["user", "day"]} if kind == "two" else {}

    report = evalkit.evaluate_ratings(
        log, metrics=["MAE(over='users')"], per_user=True, columns=named
    )

    found = report.per_user("MAE(over='users')")
    users = [name for name in found.columns if name != "value"]
    expected = pl.DataFrame(ids).unique().sort(users)
    assert found.select(users).equals(expected)
    assert sorted(found["value"]) == [1.0, 1.0]


def test_a_user_of_one_model_alone_has_no_value_of_the_other():
    models = {"whole": LOG, "part": LOG.filter(pl.col("user") != "b")}

    report = evalkit.evaluate_labels(models, metrics=["Brier(over='users')"], per_user=True)

    found = report.per_user("Brier(over='users')", model="part")["value"].to_list()
    assert math.isnan(found[1])
    assert (found[0], found[2]) == pytest.approx((BRIER["a"], BRIER["c"]))


def test_numbers_over_rows_alone_have_no_values_to_keep():
    with pytest.raises(RequestError, match="users have no values of AUC") as caught:
        evalkit.evaluate_labels(LOG, metrics=["AUC"], per_user=True)

    assert caught.value.code == "per-user-off"


CONFIG = """
name = "clicks"

[[labels]]
model = "ctr"
path = "{path}"

[metrics]
names = ["log-loss(over='users')", "AUC"]

[[gates]]
metric = "log-loss(over='users')"
max_drop = 0.05
baseline = "last"
unclear = "pass"

[[gates]]
metric = "AUC"
max_drop = 0.5
baseline = "last"
unclear = "pass"

[output]
per_user = true
"""


@pytest.fixture
def two_runs(tmp_path):
    rng = np.random.default_rng(1)
    users = np.repeat(np.arange(300), 8)
    labels = rng.integers(0, 2, users.size)
    reports = []
    for number, noise in enumerate((0.1, 0.3)):
        scores = np.clip(0.5 + 0.3 * (labels - 0.5) + noise * (rng.random(users.size) - 0.5), 0, 1)
        log = pl.DataFrame({"user": users, "score": scores, "label": labels})
        log.write_parquet(tmp_path / f"{number}.parquet")
        (tmp_path / "job.toml").write_text(CONFIG.format(path=tmp_path / f"{number}.parquet"))
        config = load_config(tmp_path / "job.toml")
        reports.append(Job(config, tmp_path / "runs").run())
    return reports


def test_gates_compare_with_the_last_run_by_user(two_runs):
    by_user, by_row = two_runs[1].report.gates

    old, new = (done.report.value("log-loss(over='users')") for done in two_runs)
    assert by_user.judged_by == "paired"
    assert by_user.delta == pytest.approx(new - old)
    assert by_user.outcome == "pass"
    assert (by_row.judged_by, by_row.outcome) == ("independent", "pass")


def test_runs_are_compared_by_their_users(two_runs):
    reports = [load_run(done.path) for done in two_runs]
    named = list(zip(("last~1", "last"), reports, strict=True))

    report = compare_runs(named, StatisticsSection(), threads=1)

    (found,) = report.comparisons
    old, new = (each.value("log-loss(over='users')") for each in reports)
    assert found.delta == pytest.approx(new - old)
    assert (found.n_users, found.verdict) == (300, "worse")
