"""What the order of equal scores moves is told with its bounds, and so are copies in lists."""

import re
from itertools import chain, permutations, product

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


# ---------------------------------------------------------------- numbers of segments

IN_SEGMENT = re.compile(r"(\w+)=(\S+) = (\S+) from (\S+) to ([\d.]+)")


def segment_bounds(report):
    """Of each metric, the bounds of each named segment."""
    found = {}
    for message in told(report):
        ends = {each[:2]: tuple(map(float, each[3:])) for each in IN_SEGMENT.findall(message)}
        if ends:
            found[re.search(r"moves (\S+) of ", message)[1]] = ends
    return found


def test_segments_are_told_by_hand():
    # a: r ties with x and stands behind it; b: r stands first, apart; c: one user alone
    truth = pl.DataFrame({"user": [0, 1, 2, 3, 4], "item": ["r"] * 5})
    lists = [("x", 1.0), ("r", 1.0)] * 2 + [("r", 2.0), ("x", 1.0)] * 2 + [("x", 1.0), ("r", 1.0)]
    ranked = pl.DataFrame({"user": np.repeat(np.arange(5), 2)}).with_columns(
        item=pl.Series([item for item, _ in lists]), score=pl.Series([score for _, score in lists])
    )
    users = pl.DataFrame({"user": range(5), "group": ["a", "a", "b", "b", "c"]})

    report = evalkit.evaluate(
        truth,
        {"m": ranked},
        metrics=["RR"],
        policies={"ties": "input"},
        segments={"group": {"path": users, "by": "group"}},
    )

    whole, segments = told(report)
    # (1/2 + 1/2 + 1 + 1 + 1/2) / 5 = 0.7, and 1 where the hits stand first
    assert "RR = 0.700000 from 0.700000 to 1.000000" in whole
    assert segment_bounds(report) == {"RR": {("group", "a"): (0.5, 1.0)}}
    assert "of group=a = 0.500000 from" in segments


DEPTH = 5


def segment_logs(folder, *, of_items, **statistics):
    """A config of few lists, of which all orders of equals can be tried, and its tables."""
    rng = np.random.default_rng(8)
    n_users = 12

    def some(n):
        return pl.Series(np.concatenate([rng.permutation(7)[:n] for _ in range(n_users)]))

    truth = pl.DataFrame({"user": np.repeat(np.arange(n_users), 2), "item": some(2)})
    ranked = pl.DataFrame({"user": np.repeat(np.arange(n_users), DEPTH), "item": some(DEPTH)})
    ranked = ranked.with_columns(score=pl.Series(rng.integers(0, 2, n_users * DEPTH).astype(float)))
    users = pl.DataFrame(
        {
            "user": range(n_users),
            "w": [1.0, 3.0, 0.5, 2.0] * 3,
            "group": ["a", "b", "b"] * 3 + ["few", "fewer", "fewer"],
        }
    )
    items = pl.DataFrame({"item": range(7), "group": ["a", "b", "b", "c", "a", "b", "c"]})
    tables = {"truth": truth, "m": ranked, "users": users, "items": items}
    for name, table in tables.items():
        table.write_parquet(folder / f"{name}.parquet")
    side = "item" if of_items else "user"
    group = {"path": str(folder / f"{side}s.parquet"), side: side, "by": "group"}
    tree = {
        "truth": {"path": str(folder / "truth.parquet")},
        "rankings": [{"model": "m", "path": str(folder / "m.parquet")}],
        "metrics": {"names": ["hit@2" if of_items else "RR", "recall@2"]},
        "segments": {"group": group, "min_users": 1 if of_items else 3},
        "statistics": statistics,
    }
    return tree, tables


def all_orders(rows):
    """Every order of the rows that their scores allow."""
    levels = sorted({score for _, score in rows}, reverse=True)
    equals = [[item for item, score in rows if score == level] for level in levels]
    for orders in product(*map(permutations, equals)):
        yield list(chain.from_iterable(orders))


def of_order(metric, order, relevant):
    places = [place for place, item in enumerate(order, 1) if item in relevant]
    if metric == "RR":
        return 1 / min(places) if places else 0.0
    if metric == "hit@2":
        return float(any(place <= 2 for place in places))
    return sum(place <= 2 for place in places) / len(relevant)


@pytest.mark.parametrize(
    ("ties", "of_items", "weight"),
    [("item", False, False), ("item", False, True), ("item", True, False),
     ("expected", False, False), ("expected", False, True)],
)  # fmt: skip
@pytest.mark.parametrize("shares", [1, 3])
def test_segments_are_moved_as_far_as_any_order_moves_them(
    ties, of_items, weight, shares, tmp_path
):
    by = {"weight": {"path": str(tmp_path / "users.parquet"), "by": "w"}} if weight else {}
    tree, tables = segment_logs(tmp_path, of_items=of_items, **by)
    config = build_config({**tree, "policies": {"ties": ties}}, name="night")
    report = run_config(config)
    if shares > 1:
        files = [tmp_path / f"{number}.partial" for number in range(1, shares + 1)]
        for number, file in enumerate(files, 1):
            measure_partial(config, (number, shares)).write(file)
        whole, report = told(report), conclude_partials(open_partials(files))
        assert whole == told(report)

    label = dict(tables["users"].select("user", "group").rows())
    label = {user: "(small)" if "few" in group else group for user, group in label.items()}
    weights = dict(tables["users"].select("user", "w").rows()) if weight else {}
    kinds = dict(tables["items"].rows())
    expected = {}
    for each in report.estimates:
        ends = []
        for user in label:
            relevant = set(tables["truth"].filter(user=user)["item"])
            if of_items:
                relevant = {item for item in relevant if each.segment in {None, kinds[item]}}
            if not relevant or (not of_items and each.segment not in {None, label[user]}):
                continue
            rows = tables["m"].filter(user=user).select("item", "score").rows()
            found = [of_order(each.metric, order, relevant) for order in all_orders(rows)]
            ends.append((weights.get(user, 1.0), min(found), max(found)))
        total = sum(each[0] for each in ends)
        low, high = (sum(row[0] * row[side] for row in ends) / total for side in (1, 2))
        is_moved = max(high - each.value, each.value - low) > each.std_error + 1e-9
        assert low - 1e-9 <= each.value <= high + 1e-9
        if each.segment is not None and is_moved:
            expected.setdefault(each.metric, {})["group", each.segment] = (low, high)

    found = segment_bounds(report)
    assert expected
    assert found.keys() == expected.keys()
    for metric, ends in expected.items():
        assert found[metric].keys() == ends.keys()
        for segment, bounds_of_one in ends.items():
            assert found[metric][segment] == pytest.approx(bounds_of_one, abs=2e-6)


def test_of_many_segments_three_are_named():
    truth, ranked = logs(n_users=60)
    ranked = ranked.with_columns(score=0.5)
    users = pl.DataFrame({"user": range(60), "group": [f"g{n // 6}" for n in range(60)]})
    given = {"metrics": ["hit@3"], "segments": {"group": {"path": users, "by": "group"}}}

    report = evalkit.evaluate(truth, {"m": ranked}, **given)

    (_, message) = told(report)
    assert "and 7 more segments" in message
    assert len(segment_bounds(report)["hit@3"]) == 3


@pytest.mark.parametrize("ties", ["expected", "best"])
def test_weighted_bounds_of_a_rule_for_ties_are_weighted(ties, tmp_path):
    weight = {"path": str(tmp_path / "users.parquet"), "by": "w"}
    tree, _ = segment_logs(tmp_path, of_items=False, weight=weight)

    def run(ties):
        return run_config(build_config({**tree, "policies": {"ties": ties}}, name="night"))

    ends = [
        {each.metric: each.value for each in run(end).estimates if each.segment is None}
        for end in ("worst", "best")
    ]
    messages = [each for each in told(run(ties)) if each.startswith("orders of")]
    assert messages
    for message in messages:
        name = re.search(r"move (\S+) from", message)[1]
        assert f"from {ends[0][name]:.6f} to {ends[1][name]:.6f}" in message


@pytest.mark.parametrize("ties", ["item", "expected"])
def test_shares_that_cut_clusters_tell_the_same_of_weights(ties, tmp_path):
    users = str(tmp_path / "users.parquet")
    both = {"weight": {"path": users, "by": "w"}, "cluster": "user % 4"}
    tree, _ = segment_logs(tmp_path, of_items=False, **both)
    config = build_config({**tree, "policies": {"ties": ties, "tie_share": 0.01}}, name="night")
    files = [tmp_path / f"{number}.partial" for number in (1, 2, 3)]
    for number, file in enumerate(files, 1):
        measure_partial(config, (number, 3)).write(file)

    whole = told(run_config(config))

    assert whole
    assert whole == told(conclude_partials(open_partials(files)))


def test_bounds_of_geometric_means_are_geometric():
    truth, ranked = logs()
    wanted = ranked.join(truth, on=["user", "item"], how="left").fill_null(0)

    def number(ranked):
        return evalkit.evaluate(truth, {"m": ranked}, metrics=["gmean(nDCG@5)"])

    ends = []
    for best in (False, True):
        order = wanted.sort("user", "score", "relevance", descending=[False, True, best])
        rank = pl.int_range(1, pl.len() + 1).over("user")
        ends.append(number(order.select("user", "item", rank=rank)).estimates[0].value)
    (message,) = told(number(ranked))
    low, high = map(float, re.search(r" from (\S+) to ([\d.]+)", message).groups())
    assert (low, high) == pytest.approx(tuple(ends), abs=2e-6)


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


def test_the_mean_over_orders_keeps_its_bits_whatever_the_order_of_rows():
    truth = {1: {505: 1.0, 502: 2.0, 500: 3.0}}
    rows = [(502, 3.0), (505, 2.0), (500, 2.0), (501, 1.0), (503, 0.5)]
    orders = {str(number): {1: dict(order)} for number, order in enumerate(permutations(rows))}

    report = evalkit.evaluate(
        truth, orders, metrics=["nDCG@3", "DCG@3"], policies={"ties": "expected"}
    )

    assert len(report.models) == 120
    for metric in ("nDCG@3", "DCG@3"):
        assert len({report.value(metric, model=model) for model in report.models}) == 1
