"""Users of one cluster vary together: errors of numbers over rows, of means, and of differences."""

import math

import numpy as np
import polars as pl
import pytest
from scipy import stats

import evalkit
from evalkit.errors import EvalkitError

N_USERS = 90
POOLED = ["AUC", "AP", "log-loss", "NE", "MCC", "F1", "calibration", "Brier", "base-rate"]
OVER_USERS = ["log-loss(over='users')", "GAUC", "AUC(over='users')"]


def two_models() -> dict[str, pl.DataFrame]:
    """Impressions of users of whom one to five share an account that moves all their labels."""
    rng = np.random.default_rng(4)
    users = np.repeat(np.arange(N_USERS), rng.integers(3, 25, N_USERS))
    accounts = (np.arange(N_USERS) * 7919 % 31) // (1 + np.arange(N_USERS) % 2)
    logit = 1.5 * rng.normal(size=31)[accounts[users]] + rng.normal(size=users.size)
    labels = (rng.random(users.size) < 1 / (1 + np.exp(-logit))).astype(np.int8)
    log = pl.DataFrame({"user": users, "label": labels, "account": accounts[users]})
    noise = rng.normal(size=users.size)
    scores = {"good": 1 / (1 + np.exp(-logit)), "noisy": 1 / (1 + np.exp(-0.5 * (logit + noise)))}
    return {name: log.with_columns(score=each) for name, each in scores.items()}


def evaluate(logs: dict[str, pl.DataFrame], names: list[str], **statistics: object):
    return evalkit.evaluate_labels(
        logs, metrics=names, statistics={"baseline": "good", **statistics}
    )


def by_regression(values: np.ndarray, groups: np.ndarray, weights: np.ndarray):
    """Mean and error of a regression on a constant by statsmodels, over 1 - mean leverage."""
    models = pytest.importorskip("statsmodels.api")
    fit = models.WLS(values, np.ones(values.size), weights=weights).fit(
        cov_type="cluster",
        cov_kwds={"groups": groups, "use_correction": False, "df_correction": False},
    )
    codes = np.unique(groups, return_inverse=True)[1]
    residuals = np.bincount(codes, weights * (values - fit.params[0]))
    shares = np.bincount(codes, weights) / weights.sum()
    leverage = (residuals**2 * shares).sum() / (residuals**2).sum()
    return fit.params[0], fit.bse[0] / math.sqrt(1 - leverage)


def of_users(report, label: str, model: str) -> pl.DataFrame:
    return (
        report.per_user(label, model=model)
        .sort("user")
        .with_columns(pl.col("value").fill_nan(None))
    )


def test_the_error_of_a_mean_by_hand():
    # losses 1, 3 (one account), 2: mean 2; the accounts move it by (-1 + 1) / 3 = 0 and 0
    # losses 1, 2, 6: mean 3; by (-2 - 1) / 3 = -1 and 3 / 3 = 1; their shares of the users, 2 / 3
    # and 1 / 3, are 1 / 2 on average: sqrt((1 + 1) / (1 - 1 / 2)) = 2
    losses = np.array([1.0, 2.0, 6.0])
    log = pl.DataFrame(
        {
            "user": [1, 2, 3],
            "account": ["a", "a", "b"],
            "label": [1, 1, 1],
            "score": np.exp(-losses),
        }
    )

    report = evalkit.evaluate_labels(
        log, metrics=["log-loss(over='users')", "log-loss"], statistics={"cluster": "account"}
    )

    for found in report.estimates:
        assert (found.value, found.std_error) == pytest.approx((3.0, 2.0), rel=1e-12)
        assert found.n_users == 3
        assert found.n_clusters == 2
        assert found.df == pytest.approx(1.0)
        assert found.high >= 3.0 + 2.0 * stats.t.ppf(0.975, found.df) * (1 - 1e-9)


def test_means_have_the_robust_errors_of_statsmodels():
    logs = two_models()
    accounts = logs["good"].group_by("user").agg(pl.col("account").first()).sort("user")
    kept = evalkit.evaluate_labels(logs, metrics=OVER_USERS, per_user=True)

    report = evaluate(logs, OVER_USERS, cluster="account", skewness=False)

    label = "AUC(over='users')"
    tables = [of_users(kept, label, model).join(accounts, on="user") for model in logs]
    (found,) = [e for e in report.estimates if (e.model, e.metric) == ("noisy", label)]
    own = tables[1].drop_nulls()
    expected = by_regression(
        own["value"].to_numpy(), own["account"].to_numpy(), np.ones(own.height)
    )
    assert (found.value, found.std_error) == pytest.approx(expected, rel=1e-9)
    sizes = logs["noisy"].group_by("user").len()
    own = own.join(sizes, on="user")
    (gauc,) = [e for e in report.estimates if e.model == "noisy" and "weighting" in e.metric]
    values, groups, sizes = (own[name].to_numpy() for name in ("value", "account", "len"))
    mean = np.average(values, weights=sizes)
    moves = np.bincount(groups, sizes * (values - mean))[np.unique(groups)] / sizes.sum()
    error = math.sqrt(moves.size / (moves.size - 1) * (moves**2).sum())  # all clusters weigh alike
    assert (gauc.value, gauc.std_error) == pytest.approx((mean, error), rel=1e-9)
    (delta,) = [each for each in report.comparisons if each.metric == label]
    both = tables[0].join(tables[1], on="user").drop_nulls()
    deltas = (both["value_right"] - both["value"]).to_numpy()
    expected, error = by_regression(deltas, both["account"].to_numpy(), np.ones(deltas.size))
    assert (delta.delta, delta.std_error) == pytest.approx((expected, error), rel=1e-9)
    assert delta.n_clusters == both["account"].n_unique()
    assert delta.n_clusters / 2 < delta.df < delta.n_clusters - 1
    p_value = 2 * stats.t.sf(abs(expected) / error, delta.df)
    assert delta.p_value == pytest.approx(p_value, rel=1e-8)
    assert (delta.n_users, delta.wins) == (deltas.size, (deltas > 0).sum())


def test_a_user_for_each_cluster_is_what_users_standing_for_themselves_give():
    logs = two_models()
    together = {name: log.with_columns(user=pl.col("account")) for name, log in logs.items()}

    one, other = evaluate(logs, POOLED, cluster="account"), evaluate(together, POOLED)

    for found, same in zip(one.estimates, other.estimates, strict=True):
        mine, theirs = ((e.value, e.std_error, e.low, e.high) for e in (found, same))
        assert mine == pytest.approx(theirs, rel=1e-9), found.metric
    for found, same in zip(one.comparisons, other.comparisons, strict=True):
        mine, theirs = ((e.delta, e.std_error, e.p_value) for e in (found, same))
        assert mine == pytest.approx(theirs, rel=1e-7), found.metric


def test_clusters_of_one_user_each_change_nothing_but_limits_of_means():
    logs = two_models()
    names = [*POOLED, *OVER_USERS]

    plain = evaluate(logs, names, skewness=False)
    clustered = evaluate(logs, names, skewness=False, cluster="user")

    for one, other in zip(plain.estimates, clustered.estimates, strict=True):
        assert other.std_error == pytest.approx(one.std_error, rel=1e-9), one.metric
        assert (other.value, other.n_users) == (one.value, one.n_users)
    for one, other in zip(plain.comparisons, clustered.comparisons, strict=True):
        assert other.std_error == pytest.approx(one.std_error, rel=1e-9), one.metric
        assert other.p_value == pytest.approx(one.p_value, rel=1e-6)
        assert (other.delta, other.wins, other.n_users) == (one.delta, one.wins, one.n_users)
        assert other.relative_low == pytest.approx(one.relative_low, rel=1e-6, nan_ok=True)


@pytest.mark.parametrize("text", [False, True])
def test_no_order_thread_or_pass_moves_a_bit(text):
    logs = two_models()
    if text:
        logs = {
            name: log.with_columns(pl.col("user").cast(pl.String)) for name, log in logs.items()
        }
    names = [*POOLED, *OVER_USERS]
    asked = {
        "metrics": names,
        "statistics": {"baseline": "good", "cluster": "account"},
        "segments": {"half": {"by": "account", "edges": [10.0]}},
    }

    one = evalkit.evaluate_labels(logs, threads=1, **asked)
    shuffled = {name: log.sample(fraction=1, shuffle=True, seed=5) for name, log in logs.items()}
    other = evalkit.evaluate_labels(shuffled, threads=2, memory_limit=1 << 29, **asked)

    assert other.estimates == one.estimates
    assert other.comparisons == one.comparisons


def test_segments_have_errors_of_their_own_clusters():
    logs = two_models()
    rule = {"half": {"by": "user % 2"}}
    names = [*POOLED, *OVER_USERS]
    asked = {"metrics": names, "statistics": {"baseline": "good", "cluster": "account"}}

    report = evalkit.evaluate_labels(logs, segments=rule, **asked)

    odd = {name: log.filter(pl.col("user") % 2 == 1) for name, log in logs.items()}
    alone = evalkit.evaluate_labels(odd, **asked)
    found = [each for each in report.estimates if each.segment == "1"]
    for one, other in zip(found, alone.estimates, strict=True):
        assert (one.value, one.std_error) == pytest.approx((other.value, other.std_error), rel=1e-9)


def test_clusters_are_resampled_whole():
    logs, name = two_models(), "log-loss(over='users')"
    chosen = {"cluster": "account", "metrics": [name]}

    drawn = evaluate(logs, [name], method="bootstrap", replicates=2000, **chosen)
    robust = evaluate(logs, [name], **chosen)

    for one, other in zip(drawn.estimates, robust.estimates, strict=True):
        assert one.high - one.low == pytest.approx(2 * 1.96 * other.std_error, rel=0.15)


def test_curves_have_no_bands_where_users_vary_together():
    report = evaluate(two_models(), ["AUC", "log-loss"], cluster="account")

    assert {each.kind for each in report.graphs} > {"roc", "calibration"}
    assert not any(each.low or each.high for each in report.graphs)


@pytest.mark.parametrize(
    ("cluster", "code"), [("nothing", "missing-column"), ("label", "segment-conflict")]
)
def test_what_is_no_cluster_is_refused(cluster, code):
    with pytest.raises(EvalkitError) as caught:
        evaluate(two_models(), ["AUC"], cluster=cluster)

    assert caught.value.code == code


def test_users_without_a_cluster_are_refused():
    logs = two_models()
    nobody = pl.when(pl.col("user") < 3).then(None).otherwise(pl.col("account"))
    logs = {name: log.with_columns(account=nobody) for name, log in logs.items()}

    with pytest.raises(EvalkitError, match="3 users have no cluster"):
        evaluate(logs, ["AUC"], cluster="account")


def test_sessions_have_no_clusters():
    logs = {name: log.with_columns(session="label") for name, log in two_models().items()}

    with pytest.raises(EvalkitError) as caught:
        evalkit.evaluate_labels(
            logs,
            metrics=["AUC(over='sessions')"],
            columns={"session": "session"},
            statistics={"cluster": "account"},
        )

    assert caught.value.code == "sessions-in-clusters"


def test_one_cluster_has_no_error_and_stands_on_the_same_users():
    logs = {name: log.with_columns(account=1) for name, log in two_models().items()}
    names = ["AUC", "GAUC", "log-loss(over='users')"]

    plain, clustered = evaluate(logs, names), evaluate(logs, names, cluster="account")

    assert {each.std_error for each in clustered.estimates} == {None}
    for one, other in zip(plain.comparisons, clustered.comparisons, strict=True):
        assert (other.delta, other.n_users, other.wins) == (one.delta, one.n_users, one.wins)
        assert (other.std_error, other.verdict) == (None, "not tested")


def test_infinite_values_of_both_models_are_compared_with_nothing():
    logs = {
        name: log.with_columns(
            score=pl.when(pl.col("user") == 3).then(0.0).otherwise(pl.col("score")),
            label=pl.when(pl.col("user") == 3).then(1).otherwise(pl.col("label")),
        )
        for name, log in two_models().items()
    }

    (found,) = evaluate(logs, ["log-loss(over='users')"], cluster="account").comparisons

    assert math.isnan(found.delta)
    assert found.verdict == "not tested"
