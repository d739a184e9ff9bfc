"""What the order of equal scores moves is told with its bounds, and so are copies in lists."""

import re

import numpy as np
import polars as pl
import pytest

import evalkit
from evalkit.config import build_config
from evalkit.pipeline import conclude_partials, measure_partial, run_config
from evalkit.planning.partials import open_partials
from evalkit.ranks import _scan

METRICS = ["hit@3", "nDCG@5", "AP@10"]
BOUNDS = re.compile(r"(\S+) = (\S+) from (\S+) to ([\d.]+)")


def logs(n_users=60, depth=20, levels=3, n_relevant=4, *, text=False, apart=False):
    """A truth, and lists of scores of a few levels."""
    rng = np.random.default_rng(3)
    catalogue = 2 * max(depth, n_relevant)

    def some(n):
        return np.concatenate([rng.permutation(catalogue)[:n] for _ in range(n_users)])

    truth = {"user": np.repeat(np.arange(n_users), n_relevant), "item": some(n_relevant)}
    truth = pl.DataFrame(truth).with_columns(
        relevance=pl.Series(rng.integers(1, 4, n_users * n_relevant))
    )
    ranked = {"user": np.repeat(np.arange(n_users), depth), "item": some(depth)}
    scores = pl.Series(rng.integers(0, levels, n_users * depth).astype(float))
    ranked = pl.DataFrame(ranked).with_columns(score=scores)
    if text:
        truth, ranked = (
            each.with_columns(pl.col("item").cast(pl.String)) for each in (truth, ranked)
        )
    return truth, ranked.sample(fraction=1.0, shuffle=True, seed=1) if apart else ranked


def told(report, code="ties-move-number"):
    return [each.message for each in report.warnings if each.code == code]


def bounds(report):
    (message,) = told(report)
    return {name: (float(low), float(high)) for name, _, low, high in BOUNDS.findall(message)}


def values(truth, ranked, ties, **more):
    policies = {"ties": ties}
    report = evalkit.evaluate(truth, {"m": ranked}, metrics=METRICS, policies=policies, **more)
    return {each.metric: each.value for each in report.estimates}


@pytest.mark.parametrize("ties", ["item", "input", "item-desc", "item-text", "numba"])
@pytest.mark.parametrize(
    "form",
    [{}, {"text": True}, {"apart": True}, {"text": True, "apart": True},
     {"n_relevant": 50, "depth": 60}, {"n_relevant": 50, "depth": 60, "apart": True, "text": True}],
)  # fmt: skip
def test_bounds_are_those_of_the_best_and_the_worst_order(ties, form):
    truth, ranked = logs(**form)
    policies = {"ties": ties}

    report = evalkit.evaluate(truth, {"m": ranked}, metrics=METRICS, policies=policies)

    worst, best = (values(truth, ranked, each) for each in ("worst", "best"))
    found = bounds(report)
    assert found
    for name, ends in found.items():
        assert ends == pytest.approx((worst[name], best[name]), abs=1e-6)
    for each in report.estimates:
        moves = max(best[each.metric] - each.value, each.value - worst[each.metric])
        assert (each.metric in found) == (moves > each.std_error)


@pytest.mark.parametrize(
    ("names", "combined"),
    [(["F1(mean='means')@3"], None), (["precision@3", "recall@3"], "hmean(precision@3, recall@3)"),
     (["hit@3", "nDCG@3"], "0.5 * hit@3 - 0.25 * nDCG@3")],
)  # fmt: skip
def test_numbers_that_are_made_of_means_have_bounds_too(names, combined, tmp_path):
    truth, ranked = logs()
    truth.write_parquet(tmp_path / "truth.parquet")
    wanted = ranked.join(truth, on=["user", "item"], how="left").fill_null(0)

    def run(ranked):
        ranked.write_parquet(tmp_path / "m.parquet")
        tree = {
            "truth": {"path": str(tmp_path / "truth.parquet")},
            "rankings": [{"model": "m", "path": str(tmp_path / "m.parquet")}],
            "metrics": {"names": names, "combined": {"both": combined} if combined else {}},
        }
        return run_config(build_config(tree, name="night"))

    def values(*, best):
        order = wanted.sort("user", "score", "relevance", descending=[False, True, best])
        rank = pl.int_range(1, pl.len() + 1).over("user")
        return {
            each.metric: each.value
            for each in run(order.select("user", "item", rank=rank)).estimates
        }

    found = bounds(run(ranked))
    worst, best = values(best=False), values(best=True)

    assert ("both" if combined else names[0]) in found
    for name, ends in found.items():
        assert ends == pytest.approx((worst[name], best[name]), abs=1e-6)


def test_a_collapsed_model_is_told():
    truth = pl.DataFrame({"user": range(300), "item": 7})
    items = [7, *range(100, 199)]
    ranked = pl.DataFrame({"user": np.repeat(np.arange(300), 100), "item": items * 300})
    ranked = ranked.with_columns(score=0.5)

    report = evalkit.evaluate(truth, {"m": ranked}, metrics=["hit@5"], policies={"ties": "input"})

    assert report.estimates[0].value == 1.0
    assert bounds(report) == {"hit@5": (0.0, 1.0)}


def test_few_ties_say_nothing():
    truth, ranked = logs(levels=10**9)
    ranked[0, "score"] = ranked[1, "score"]

    report = evalkit.evaluate(truth, {"m": ranked}, metrics=METRICS)

    assert not told(report)


def test_ranks_say_nothing_of_ties():
    truth, ranked = logs()
    ranked = ranked.with_columns(rank=pl.int_range(1, pl.len() + 1).over("user"), score=0.5)

    assert not told(evalkit.evaluate(truth, {"m": ranked}, metrics=METRICS))


@pytest.mark.parametrize("weight", [False, True])
def test_shares_tell_what_the_whole_tells(tmp_path, weight):
    truth, ranked = logs(n_users=200)
    truth.write_parquet(tmp_path / "truth.parquet")
    ranked.write_parquet(tmp_path / "m.parquet")
    users = pl.DataFrame({"user": range(200), "w": [1.0, 3.0] * 100})
    users.write_parquet(tmp_path / "users.parquet")
    tree = {
        "truth": {"path": str(tmp_path / "truth.parquet")},
        "rankings": [{"model": "m", "path": str(tmp_path / "m.parquet")}],
        "metrics": {"names": METRICS},
    }
    if weight:
        users = {"path": str(tmp_path / "users.parquet"), "by": "w"}
        tree["statistics"] = {"weight": users}
    config = build_config(tree, name="night")
    files = [tmp_path / f"{number}.partial" for number in (1, 2, 3)]
    for number, file in enumerate(files, 1):
        measure_partial(config, (number, 3)).write(file)

    whole, merged = run_config(config), conclude_partials(open_partials(files))

    assert told(whole)
    assert told(whole) == told(merged)
    if weight:
        ends = {}
        for ties in ("worst", "best"):
            policies = {"policies": {"ties": ties}}
            other = run_config(build_config({**tree, **policies}, name="night"))
            ends[ties] = {each.metric: each.value for each in other.estimates}
        for name, found in bounds(whole).items():
            assert found == pytest.approx((ends["worst"][name], ends["best"][name]), abs=1e-6)


# ---------------------------------------------------------------- copies of items that nobody wants


def copied(form):
    """Lists of x, x, x and the relevant item: recall@3 is 0 with the copies, 1 without."""
    lists = {user: ["x", "x", "x", "r"] for user in range(3)}
    if form == "lists":
        return pl.DataFrame({"user": list(lists), "item": list(lists.values())})
    rows = pl.DataFrame({"user": list(lists), "item": list(lists.values())}).explode("item")
    if form == "rows":
        return rows
    if form == "apart":
        return rows.with_columns(score=pl.Series([4.0, 3, 2, 1] * 3)).sort("score")
    if form == "scores":
        return rows.with_columns(score=pl.Series([4.0, 3, 2, 1] * 3))
    return rows.with_columns(rank=pl.Series([1, 2, 3, 4] * 3))


TRUTH = pl.DataFrame({"user": [0, 1, 2], "item": ["r", "r", "r"]})


@pytest.mark.parametrize("form", ["scores", "rows", "lists"])
def test_copies_that_push_others_down_are_told(form):
    report = evalkit.evaluate(TRUTH, {"m": copied(form)}, metrics=["recall@3"])

    assert report.estimates[0].value == 0.0
    (message,) = told(report, "duplicate-item")
    assert message.startswith("6 rows")
    followed = evalkit.evaluate(
        TRUTH, {"m": copied(form)}, metrics=["recall@3"], policies={"duplicates": "best"}
    )
    assert followed.estimates[0].value == 1.0


def test_copies_in_a_trec_run_are_told(tmp_path):
    lines = [f"{user} Q0 {item} 1 {score} m" for user, item, score in copied("scores").rows()]
    (tmp_path / "run.trec").write_text("\n".join([*lines, ""]))

    report = evalkit.evaluate(
        TRUTH.cast({"user": pl.String}), {"m": tmp_path / "run.trec"}, metrics=["recall@3"]
    )

    assert told(report, "duplicate-item")


@pytest.mark.parametrize("form", ["apart", "rows apart"])
@pytest.mark.parametrize("numbers", [{"r": 1, "x": 2}, {"r": "r", "x": "x"}])
def test_copies_of_users_whose_rows_lie_apart_are_told(form, numbers):
    ranked = copied("apart").with_columns(pl.col("item").replace_strict(numbers))
    ranked = ranked.drop("score") if form == "rows apart" else ranked
    truth = TRUTH.with_columns(pl.col("item").replace_strict(numbers))

    (message,) = told(
        evalkit.evaluate(truth, {"m": ranked}, metrics=["recall@3"]), "duplicate-item"
    )

    assert message.startswith("6 rows")


def test_users_whom_the_truth_lacks_are_not_told():
    truth = TRUTH.with_columns(user=pl.col("user") + 3)
    ranked = pl.concat([copied("scores"), truth.with_columns(score=1.0)], how="diagonal_relaxed")

    assert not told(evalkit.evaluate(truth, {"m": ranked}, metrics=["recall@3"]), "duplicate-item")


def test_of_many_rows_some_lists_are_looked_at(monkeypatch):
    monkeypatch.setattr(_scan, "MANY_ROWS", 100)
    n_users = 400
    truth = pl.DataFrame({"user": range(n_users), "item": 1})
    ranked = pl.DataFrame({"user": np.repeat(np.arange(n_users), 3), "item": [2, 2, 1] * n_users})

    (message,) = told(evalkit.evaluate(truth, {"m": ranked}, metrics=["hit@2"]), "duplicate-item")

    assert 5 < int(message.split()[0]) < 60  # one in 16


def test_ranks_with_copies_are_as_they_are():
    report = evalkit.evaluate(TRUTH, {"m": copied("ranks")}, metrics=["recall@3"])

    assert not told(report, "duplicate-item")
