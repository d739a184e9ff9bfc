"""Numbers over users of ratings and labels that are not their mean, against plain Python."""

import json
import math

import numpy as np
import polars as pl
import pytest
from naive import over_users

import evalkit
from evalkit.config import build_config
from evalkit.errors import EvalkitError
from evalkit.metrics import parse_metrics, registry_of
from evalkit.pipeline import conclude_partials, measure_partial, run_config
from evalkit.planning.partials import open_partials
from evalkit.runs.gates import judge

N_USERS, N_ROWS = 60, 12
OWN = ("meta", "run_id", "run_key", "inputs")


def rows_of(seed):
    rng = np.random.default_rng(seed)
    users = np.repeat(np.arange(N_USERS), N_ROWS)
    noise = rng.normal(size=users.size) * (0.3 + users / N_USERS)
    ratings = rng.integers(1, 6, users.size).astype(float)
    return pl.DataFrame(
        {
            "user_id": users,
            "item_id": np.tile(np.arange(N_ROWS), N_USERS),
            "rating": ratings,
            "prediction": ratings + noise,
            "label": (ratings >= 4).astype(int),
            "score": 1 / (1 + np.exp(3.5 - ratings - noise)),
            "shop": [f"shop {n % 3}" for n in users],
            "town": users // 4,
        }
    )


TABLES = {"old": rows_of(3), "new": rows_of(3)}
TABLES["new"] = TABLES["new"].with_columns(
    (pl.col("prediction") + pl.col("rating")) / 2.0, score=pl.col("score") ** 2
)
KINDS = {
    "ratings": ("MAE(over='users')", 0.4, ["user_id", "item_id", "rating", "prediction"]),
    "labels": ("log_loss(over='users')", 0.4, ["user_id", "label", "score"]),
}
CALLS = {
    "fraction": "at_least={0}",
    "gmean": "floor=0.1",
    "median": "",
    "quantile": "q=0.8",
    "tail_mean": "share=0.3",
    "lowest": "",
    "highest": "",
}
NUMBERS = {"fraction": 0.4, "gmean": 0.1, "quantile": 0.8, "tail_mean": 0.3}
CASES = [(kind, how) for kind in KINDS for how in CALLS]
PEOPLE = TABLES["old"].select("user_id", "shop", "town").unique().sort("user_id")
SEGMENTS = {"shop": {"path": PEOPLE, "by": "shop"}}


def label_of(kind, how):
    argument = CALLS[how].format(KINDS[kind][1])
    return f"{how}({KINDS[kind][0]}{', ' if argument else ''}{argument})"


def evaluate(kind, names, **more):
    tables = {name: table.select(KINDS[kind][2]) for name, table in TABLES.items()}
    call = evalkit.evaluate_ratings if kind == "ratings" else evalkit.evaluate_labels
    return call(tables, metrics=names, **more)


@pytest.mark.parametrize(("kind", "how"), CASES)
def test_numbers_are_those_of_users_and_of_segments(kind, how):
    metric = parse_metrics([KINDS[kind][0]], metrics=registry_of(kind))[0].label
    label = parse_metrics([label_of(kind, how)], metrics=registry_of(kind))[0].label
    report = evaluate(kind, [label, metric], per_user=True, segments=SEGMENTS)
    assert report.per_user_values.metrics == (metric,)
    is_turned = how == "tail_mean"  # where more is worse, the worst have the highest values
    for model, frame in report.per_user_values.frames.items():
        for shop in (None, 0, 1, 2):
            own = frame if shop is None else frame.filter(pl.col("user_id") % 3 == shop)
            values = own[metric].to_numpy() * (-1.0 if is_turned else 1.0)
            expected = over_users(how, values.tolist(), NUMBERS.get(how, math.nan))
            segment = (None, None) if shop is None else ("shop", f"shop {shop}")
            found = report.estimate(model, label, *segment)
            assert found.value == pytest.approx(-expected if is_turned else expected, abs=1e-12)
            assert found.n_users == own.height
            if how in ("lowest", "highest"):
                assert found.low is found.high is None
            else:
                assert found.low <= found.value <= found.high


def test_gates_judge_medians_and_tails():
    names = ["median(MAE)", "tail_mean(MAE)", "lowest(MAE)"]
    gates = [
        {"metric": names[0], "model": "old", "max": 5.0},
        {"metric": names[1], "model": "old", "max": 0.1},
        {"metric": names[2], "model": "old", "max": 9.0},
    ]
    rows = [{"model": name, "path": f"{name}.parquet"} for name in TABLES]
    tree = {"ratings": rows, "metrics": {"names": names}, "gates": gates}
    config = build_config(tree, name="rows")
    found = judge(config.gates, evaluate("ratings", names), None, level=0.95)
    assert [each.outcome for each in found] == ["pass", "fail", "cannot tell"]


def test_limits_of_ratings_hold_as_often_as_they_say():
    rng, n, draws, names = np.random.default_rng(9), 80, 40, ("median", "quantile", "tail_mean")
    users, held = np.repeat(np.arange(n), 3), dict.fromkeys(names, 0)
    true = {"median": 2.0, "quantile": 3.6, "tail_mean": 3.7}  # of numbers even from 0 to 4
    metrics = [label_of("ratings", name).replace("q=0.8", "q=0.9") for name in names]
    metrics[2] = metrics[2].replace("share=0.3", "share=0.15")
    for _ in range(draws):
        errors = rng.uniform(0.0, 4.0, n)[users]  # a user's rows err alike
        rows = {"user_id": users, "rating": 0.0 * errors, "prediction": errors}
        report = evalkit.evaluate_ratings({"one": pl.DataFrame(rows)}, metrics=metrics)
        for name, found in zip(names, report.estimates, strict=True):
            held[name] += found.low <= true[name] <= found.high
    assert min(held.values()) / draws >= 0.9, held


def test_a_metric_inside_is_by_user():
    (found,) = parse_metrics(["median(RMSE)"], metrics=registry_of("ratings"))
    assert found.label == "median(RMSE(over='users'))"
    with pytest.raises(EvalkitError) as caught:
        parse_metrics(["median(RMSE(over='rows'))"], metrics=registry_of("ratings"))
    assert caught.value.code == "no-metric-of-users"
    assert "MAE(over='users')" in caught.value.hint


@pytest.mark.parametrize("kind", KINDS)
def test_models_are_compared(kind):
    names = [label_of(kind, how) for how in ("median", "tail_mean", "gmean", "lowest")]
    plain = evaluate(kind, names, statistics={"baseline": "old"})
    for found, name in zip(plain.comparisons, names, strict=True):
        old, new = (plain.estimate(model, found.metric, None, None) for model in ("old", "new"))
        if name.startswith("gmean"):
            assert 1.0 + found.delta == pytest.approx(new.value / old.value)
        else:
            assert found.delta == pytest.approx(new.value - old.value)
        if name.startswith("lowest"):
            assert found.verdict == "not tested"
        else:
            assert found.low <= found.delta <= found.high


@pytest.mark.parametrize("kind", KINDS)
def test_towns_that_vary_together_make_errors_their_own(kind):
    columns = [*KINDS[kind][2], "town"]
    tables = {name: table.select(columns) for name, table in TABLES.items()}
    call = evalkit.evaluate_ratings if kind == "ratings" else evalkit.evaluate_labels
    names = [label_of(kind, how) for how in ("median", "tail_mean", "fraction", "gmean")]
    report = call(tables, metrics=names, statistics={"baseline": "old", "cluster": "town"})
    for label in names:
        plain = evaluate(kind, [label]).estimates[0]
        (found,) = [e for e in report.estimates if (e.model, e.metric) == ("old", plain.metric)]
        assert found.value == pytest.approx(plain.value)
        assert found.n_clusters == N_USERS // 4
        assert (found.low, found.high) != (plain.low, plain.high)
        assert found.low <= found.value <= found.high


@pytest.mark.parametrize(
    ("kind", "calls"),
    [("ratings", CALLS), ("labels", CALLS), ("labels", ("fraction", "gmean"))],  # sums say these
)
def test_partials_in_any_order_say_what_one_run_says(kind, calls, tmp_path):
    tables = []
    for name, table in TABLES.items():
        path = tmp_path / f"{name}.parquet"
        table.select(KINDS[kind][2]).write_parquet(path)
        tables.append({"model": name, "path": str(path)})
    names = [label_of(kind, how) for how in calls]
    tree = {kind: tables, "metrics": {"names": names}, "statistics": {"baseline": "old"}}
    config = build_config(tree, name="rows")

    def body(report):
        found = json.loads(report.to_json())
        return {name: each for name, each in found.items() if name not in OWN}

    whole = body(run_config(config))
    paths = []
    for share in range(3):
        paths.append(tmp_path / f"{share}.partial")
        measure_partial(config, (share + 1, 3)).write(paths[-1])
    for order in (paths, paths[::-1]):
        assert body(conclude_partials(open_partials(order))) == whole


@pytest.mark.parametrize("sample", [None, 0.5])
@pytest.mark.parametrize("kind", KINDS)
def test_partials_of_means_leave_no_rows(kind, sample, tmp_path):
    path = tmp_path / "old.parquet"
    TABLES["old"].select(KINDS[kind][2]).write_parquet(path)
    names = ["MAE", "RMSE"] if kind == "ratings" else [label_of(kind, "gmean")]
    tree = {kind: [{"model": "old", "path": str(path)}], "metrics": {"names": names}}
    config = build_config(tree, name="rows")

    shares = [measure_partial(config, (number, 3), sample=sample) for number in (1, 2, 3)]

    assert all(table.rows == {} for share in shares for table in share.body.all)
    paths = [tmp_path / f"{number}.partial" for number in range(3)]
    for share, own in zip(shares, paths, strict=True):
        share.write(own)
    merged, whole = (
        json.loads(report.to_json())
        for report in (conclude_partials(open_partials(paths)), run_config(config, sample=sample))
    )
    assert {name: merged[name] for name in merged if name not in OWN} == {
        name: whole[name] for name in whole if name not in OWN
    }
