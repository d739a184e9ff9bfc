"""Models compared on the same users: means over users, numbers over all rows, sessions."""

import math

import numpy as np
import polars as pl
import pytest
from scipy import stats

import evalkit
from evalkit.errors import DataError, EvalkitError, RequestError

N_USERS = 60
POOLED = ["AUC", "AP", "log-loss", "NE", "MCC", "F1", "calibration", "GAUC"]


def two_models() -> dict[str, pl.DataFrame]:
    """Impressions of a model, and of the same one with noise."""
    rng = np.random.default_rng(4)
    users = np.repeat(np.arange(N_USERS), rng.integers(5, 25, N_USERS))
    logit = rng.normal(size=N_USERS)[users] + rng.normal(size=users.size)
    labels = (rng.random(users.size) < 1 / (1 + np.exp(-logit))).astype(np.int8)
    sessions = users * 10 + rng.integers(0, 3, users.size)
    log = pl.DataFrame({"user": users, "session": sessions, "label": labels})
    noise = rng.normal(size=users.size)
    scores = {"good": 1 / (1 + np.exp(-logit)), "noisy": 1 / (1 + np.exp(-0.5 * (logit + noise)))}
    return {name: log.with_columns(score=each) for name, each in scores.items()}


def compare(logs: dict[str, pl.DataFrame], names: list[str], **statistics: object):
    chosen = {"baseline": "good", **statistics}
    return evalkit.evaluate_labels(
        logs, metrics=names, statistics=chosen, columns={"session": "session"}
    )


def losses(log: pl.DataFrame, group: str) -> np.ndarray:
    likely = pl.when(pl.col("label") == 1).then("score").otherwise(1 - pl.col("score"))
    return (
        log.group_by(group).agg((-likely.log()).mean().alias("loss")).sort(group)["loss"].to_numpy()
    )


@pytest.mark.parametrize("group", ["user", "session"])
def test_means_over_groups_are_compared_by_a_paired_t_test(group):
    logs = two_models()

    (found,) = compare(logs, [f"log-loss(over='{group}s')"], skewness=False).comparisons

    old, new = (losses(log, group) for log in logs.values())
    expected = stats.ttest_rel(new, old)
    interval = expected.confidence_interval(0.95)
    assert found.delta == pytest.approx((new - old).mean(), rel=1e-12)
    assert found.p_value == pytest.approx(expected.pvalue, rel=1e-9)
    assert (found.low, found.high) == pytest.approx((interval.low, interval.high), rel=1e-9)
    assert (found.wins, found.losses) == ((new < old).sum(), (new > old).sum())
    assert found.effect_size == pytest.approx((new - old).mean() / (new - old).std(ddof=1))
    assert found.n_users == old.size


@pytest.mark.usefixtures("without_graphs")
def test_numbers_over_rows_are_compared_by_the_influence_of_users():
    logs = two_models()

    report = compare(logs, POOLED)

    left = {
        f"{name} without {user}": log.filter(pl.col("user") != user)
        for user in range(N_USERS)
        for name, log in logs.items()
    }
    values = [each.value for each in evalkit.evaluate_labels(left, metrics=POOLED).estimates]
    left_out = np.diff(np.array(values).reshape(N_USERS, 2, -1), axis=1)[:, 0]
    spread = ((left_out - left_out.mean(axis=0)) ** 2).sum(axis=0)
    errors = np.sqrt((N_USERS - 1) / N_USERS * spread)
    for found, error in zip(report.comparisons, errors, strict=True):
        old, new = (report.value(found.metric, model=model) for model in ("good", "noisy"))
        assert found.delta == new - old, found.metric
        assert found.std_error == pytest.approx(error, rel=0.05), found.metric
        assert found.low < found.delta < found.high
        assert (found.wins, found.ties, found.losses) == (None, None, None)
        assert found.n_users == N_USERS
    verdicts = {each.metric: each.verdict for each in report.comparisons}
    assert verdicts["AUC"] == "worse"
    assert verdicts["calibration"] in ("different", "cannot tell")


def test_a_number_without_standard_error_is_compared_without_a_verdict():
    (found,) = compare(two_models(), ["ECE"]).comparisons

    assert math.isfinite(found.delta)
    assert (found.std_error, found.verdict) == (None, "not tested")
    assert found.n_users == N_USERS


def test_no_order_of_rows_and_no_thread_moves_a_comparison():
    logs = two_models()
    names = [*POOLED, "AUC(over='users')", "log-loss(over='sessions')"]

    one = compare(logs, names, pairs="all")
    shuffled = {name: log.sample(fraction=1, shuffle=True, seed=5) for name, log in logs.items()}
    other = compare(shuffled, names, pairs="all")

    assert other.comparisons == one.comparisons
    assert other.estimates == one.estimates
    assert [each.metric for each in one.standings] == [
        label for label in one.labels if label != "calibration"
    ]


def test_users_of_one_model_alone_are_told():
    logs = two_models()
    logs["noisy"] = logs["noisy"].filter(pl.col("user") >= 10)

    report = compare(logs, ["log-loss(over='users')", "log-loss"])

    by_user, by_row = report.comparisons
    assert (by_user.n_users, by_row.n_users) == (N_USERS - 10, N_USERS)
    assert by_row.delta == (
        report.value("log-loss", model="noisy") - report.value("log-loss", model="good")
    )
    (warning,) = [each for each in report.warnings if each.code == "different-users"]
    assert warning.message.startswith("10 users")


@pytest.mark.parametrize(
    "asked", [{"method": "bootstrap"}, {"test": "wilcoxon"}, {"test": "permutation"}]
)
def test_values_of_users_are_resampled_and_ranked(asked):
    logs = two_models()
    name = "log-loss(over='users')"

    (found,) = compare(logs, [name, "AUC"], metrics=[name], **asked).comparisons[:1]

    old, new = (losses(log, "user") for log in logs.values())
    if "test" in asked:
        p_value = stats.wilcoxon(new - old).pvalue if asked["test"] == "wilcoxon" else 0.0
        assert found.p_value == pytest.approx(p_value, abs=0.005)
    assert found.low < found.delta < found.high
    assert found.high - found.low == pytest.approx(
        2 * 1.96 * (new - old).std(ddof=1) / math.sqrt(N_USERS), rel=0.1
    )


def test_limits_of_a_mean_are_those_of_the_draws():
    name = "log-loss(over='users')"
    plain, drawn = (
        compare(two_models(), [name, "AUC"], metrics=[name], **asked).estimates
        for asked in ({}, {"method": "bootstrap", "replicates": 2000})
    )

    for one, other in zip(plain, drawn, strict=True):
        is_same = (one.low, one.high) == (other.low, other.high)
        assert is_same == (one.metric == "AUC")
        assert (other.low, other.high) == pytest.approx((one.low, one.high), rel=0.05)
        assert (one.value, one.std_error) == (other.value, other.std_error)


def test_what_needs_values_of_users_is_refused_for_numbers_over_rows():
    with pytest.raises(RequestError, match="AUC has none") as caught:
        compare(two_models(), ["AUC", "AUC(over='users')"], test="wilcoxon")

    assert caught.value.code == "not-a-mean-of-users"


@pytest.mark.parametrize("name", ["curves", "distributions"])
def test_statistics_of_rankings_are_refused(name):
    with pytest.raises(EvalkitError, match=f"{name} is for rankings"):
        compare(two_models(), ["AUC"], **{name: True})


def test_a_model_without_rows_is_compared_with_nothing():
    logs = two_models()
    logs["noisy"] = logs["noisy"].head(0)

    report = evalkit.evaluate_labels(
        logs,
        metrics=["AUC", "log-loss(over='users')"],
        policies={"empty_input": "warn"},
        statistics={"baseline": "good"},
        segments={"label": {"by": "user", "edges": [30]}},
        per_user=True,
    )

    assert {(each.verdict, math.isnan(each.delta)) for each in report.comparisons} == {
        ("not tested", True)
    }
    assert {each.n_users for each in report.estimates if each.model == "noisy"} == {0}


def test_a_baseline_is_one_of_the_models():
    with pytest.raises((DataError, EvalkitError), match="no model"):
        compare(two_models(), ["AUC"], baseline="best")


def test_an_infinite_loss_is_compared_with_nothing():
    logs = two_models()
    logs["noisy"] = logs["noisy"].with_columns(score=pl.col("label").cast(pl.Float64) * 0.0)

    for found in compare(logs, ["log-loss", "log-loss(over='users')"]).comparisons:
        assert found.delta == math.inf
        assert (found.std_error, found.verdict) == (None, "not tested")


@pytest.mark.parametrize(
    "asked", [{"method": "bootstrap"}, {"test": "wilcoxon"}, {"test": "permutation"}]
)
def test_nothing_is_drawn_for_an_infinite_mean(asked):
    logs = two_models()
    is_wrong = (pl.col("user") == 3) & (pl.col("label") == 1)
    logs["noisy"] = logs["noisy"].with_columns(
        score=pl.when(is_wrong).then(0.0).otherwise(pl.col("score"))
    )

    report = compare(logs, ["log-loss(over='users')"], **asked)

    (found,) = report.comparisons
    assert (found.delta, found.verdict) == (math.inf, "not tested")
    assert math.isnan(found.low)
    good, noisy = report.estimates
    assert good.low < good.value < good.high
    assert (noisy.value, noisy.low, noisy.high) == (math.inf, None, None)


@pytest.mark.parametrize("name", ["accuracy", "accuracy(over='users', weighting='impressions')"])
def test_what_users_move_is_no_value_of_0_or_1_however_it_is_rounded(name):
    rng = np.random.default_rng(5)
    tests = set()
    for _ in range(12):
        one = pl.DataFrame({"user": range(6), "label": rng.integers(0, 2, 6)})
        logs = {each: one.with_columns(score=rng.random(6)) for each in ("good", "other")}
        found = evalkit.evaluate_labels(logs, metrics=[name], statistics={"baseline": "good"})
        tests.add(found.comparisons[0].test.partition(",")[0])

    assert "mcnemar" not in tests
