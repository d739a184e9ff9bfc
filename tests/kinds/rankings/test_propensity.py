"""Hits that count by 1 / propensity: by hand, as the records have it, in any order; refusals."""

import json
import math
import os
import random
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from program import run_here

import evalkit
from evalkit.errors import DataError, RequestError

FOLDER = Path(os.environ.get("EVALKIT_TEST_DATA", "absent")) / "conformance" / "offpolicy"
P = {"propensity": "p"}
# user 1 likes a (1/2), b (1/4), c (1/5); sees b, x, a.  User 2 likes d (1); sees x, d.
TRUTH = pl.DataFrame(
    {
        "user": [1, 1, 1, 2],
        "item": ["a", "b", "c", "d"],
        "relevance": [1.0, 3.0, 1.0, 2.0],
        "p": [0.5, 0.25, 0.2, 1.0],
    }
)
LISTS = pl.DataFrame(
    {"user": [1, 1, 1, 2, 2], "item": ["b", "x", "a", "x", "d"], "rank": [1, 2, 3, 1, 2]}
)
D2, D3 = 1 / math.log2(3), 0.5


def measured(
    metrics: Sequence[str], truth: pl.DataFrame = TRUTH, **options: object
) -> evalkit.Report:
    given = {"columns": {"truth": P}, **options}
    return evalkit.evaluate(truth, {"m": LISTS}, metrics=metrics, **given)


@pytest.mark.parametrize(
    ("metric", "first", "second"),
    [
        ("recall@1", 4 / 11, 0),
        ("recall@3", 6 / 11, 1),
        ("recall(propensity='snips')@3", 6 / 11, 1),
        ("recall(propensity='ips')@3", 6 / 3, 1),
        ("recall(propensity='none')@3", 2 / 3, 1),
        ("precision@3", 6 / 3, 1 / 3),
        ("hits@2", 4, 1),
        ("hit@3", 6, 1),
        ("RR", 4 / 1 + 2 / 3, 1 / 2),
        ("RR(propensity='none')", 1, 1 / 2),
        ("AP@3", (4 * 1 + 2 * (1 + 4) / 3) / 11, 1 / 2),
        ("AP(propensity='ips')@3", (4 * 1 + 2 * (1 + 4) / 3) / 3, 1 / 2),
        ("RBP(patience=0.5)", 0.5 * (4 + 2 / 4), 0.5 * 0.5),
        ("CG@3", 4 * 3 + 2 * 1, 2),
        ("DCG@3", 12 + 2 * D3, 2 * D2),
        ("DCG(gain='exp2')@3", 4 * 7 + 2 * D3, 3 * D2),
        ("DCG(per='relevant')@3", (12 + 2 * D3) / 11, 2 * D2),
        ("DCG(per='relevant', propensity='ips')@3", (12 + 2 * D3) / 3, 2 * D2),
        ("DCG(per='relevant', propensity='none')@3", (3 + D3) / 3, 2 * D2),
        ("nDCG@3", (12 + 2 * D3) / (12 + 5 * D2 + 2 * D3), D2),
        ("nDCG(gain='binary')@3", (4 + 2 * D3) / (5 + 4 * D2 + 2 * D3), D2),
    ],
)
def test_metrics_by_hand(metric: str, first: float, second: float) -> None:
    report = measured([metric], per_user=True)

    values = report.per_user(metric)["value"].to_list()
    assert values == pytest.approx([first, second], rel=1e-12)
    assert report.value(metric) == pytest.approx((first + second) / 2, rel=1e-12)


def test_labels_say_how_hits_are_weighted() -> None:
    report = measured(["recall@3", "recall(propensity='none')@3"])
    assert report.labels == ("recall(propensity='snips')@3", "recall(propensity='none')@3")
    plain = evalkit.evaluate(TRUTH, {"m": LISTS}, metrics=["DCG@3"])
    assert plain.labels == ("DCG@3",)
    assert "per" not in plain.estimates[0].parameters
    assert not plain.checks


def test_items_below_the_threshold_keep_their_gain_and_their_weight() -> None:
    report = measured(["DCG@3", "recall@3"], threshold=2, per_user=True)
    assert report.per_user("DCG@3")["value"].to_list() == pytest.approx([13, 2 * D2])
    assert report.per_user("recall@3")["value"].to_list() == [1, 1]


def test_effective_sample_size_and_floor_are_told() -> None:
    report = measured(["recall@3"], min_propensity=0.4)

    weights = [2.0, 2.5, 2.5, 1.0]
    found = {each.check: each.value for each in report.checks}
    assert found["effective-sample-size"] == pytest.approx(8**2 / sum(w * w for w in weights))
    assert (found["weight-max"], found["propensity-raised"]) == (2.5, 2.0)
    codes = {each.code: each.message for each in report.warnings}
    assert "2 relevant items (50.00%)" in codes["raised-propensity"]
    assert "few-effective" in codes
    assert report.value("recall@3") == pytest.approx((4.5 / 7 + 1) / 2)


@pytest.mark.parametrize("bad", [0.0, -0.5, 1.5, None, math.nan, math.inf])
def test_bad_propensities_are_refused_and_never_raised(bad: float | None) -> None:
    truth = TRUTH.with_columns(p=pl.Series([0.5, bad, 0.2, 1.0], dtype=pl.Float64))
    with pytest.raises(DataError, match="1 rows of the truth have a propensity") as raised:
        measured(["recall@3"], truth, min_propensity=0.1)
    assert raised.value.code == "bad-propensity"


def test_text_is_no_propensity() -> None:
    with pytest.raises(DataError) as raised:
        measured(["recall@3"], TRUTH.with_columns(p=pl.lit("high")))
    assert raised.value.code == "not-a-number"


def test_two_propensities_of_one_item_are_refused() -> None:
    twice = pl.concat([TRUTH, TRUTH[:1].with_columns(p=pl.lit(0.9))])
    with pytest.raises(DataError, match="another propensity") as raised:
        measured(["recall@3"], twice)
    assert raised.value.code == "bad-propensity"
    again = pl.concat([TRUTH, TRUTH[:1]])
    assert measured(["recall@3"], again).value("recall@3") == pytest.approx(17 / 22)


@pytest.mark.parametrize(
    "metric",
    ["first_hit_rank", "R-precision", "F1@3", "AUC", "recall(over='min_k')@3", "AP(over='hits')@3"],
)
def test_metrics_without_an_unbiased_form_are_refused_by_name(metric: str) -> None:
    with pytest.raises(RequestError, match="has no unbiased form") as raised:
        measured([metric])
    assert raised.value.code == "no-unbiased-form"
    assert "recall" in (raised.value.hint or "")
    name, _, cutoff = metric.partition("@")
    own = name.replace(")", ", propensity='none')") if ")" in name else f"{name}(propensity='none')"
    cut = f"@{cutoff}" if cutoff else ""
    plain = evalkit.evaluate(TRUTH, {"m": LISTS}, metrics=[metric]).value(metric)
    assert measured([own + cut]).value(own + cut) == plain


@pytest.mark.parametrize("policies", [{"seen": "shown"}, {"rel_size": "rows"}])
def test_conventions_that_are_no_sum_over_hits_are_refused(policies: dict[str, str]) -> None:
    with pytest.raises(RequestError) as raised:
        measured(["recall@3"], policies=policies)
    assert raised.value.code == "no-unbiased-form"


def test_propensity_without_its_column_is_refused() -> None:
    for asked in ({"metrics": ["recall(propensity='ips')@3"]}, {"policies": {"propensity": "ips"}}):
        with pytest.raises(RequestError) as raised:
            evalkit.evaluate(TRUTH, {"m": LISTS}, **{"metrics": ["recall@3"], **asked})
        assert raised.value.code == "missing-key"
    with pytest.raises(RequestError) as raised:
        evalkit.evaluate(TRUTH, {"m": LISTS}, metrics=["recall@3"], min_propensity=0.1)
    assert raised.value.code == "missing-key"


NAIVE: dict[str, Callable[[int], float]] = {
    "recall": lambda rank: 1.0,
    "DCG(gain='binary')": lambda rank: 1 / math.log2(1 + rank),
    "RR": lambda rank: 1 / rank,
}


def drawn(n_users: int, n_items: int, seed: int) -> tuple[pl.DataFrame, pl.DataFrame, list[float]]:
    """Clicks of what is liked and seen, and lists; what is seen is drawn by its propensity."""
    draw = np.random.default_rng(seed)
    p = 0.1 + 0.8 * draw.random(n_items)
    liked = draw.random((n_users, n_items)) < 0.3
    seen = liked & (draw.random((n_users, n_items)) < p)
    users, items = np.nonzero(seen)
    truth = pl.DataFrame({"user": users, "item": items, "p": p[items]})
    order = draw.random((n_users, n_items)).argsort(axis=1)[:, :10]
    lists = pl.DataFrame(
        {
            "user": np.repeat(np.arange(n_users), 10),
            "item": order.ravel(),
            "rank": np.tile(np.arange(1, 11), n_users),
        }
    )
    shown = np.take_along_axis(liked, order, axis=1)
    return truth, lists, [float(shown[:, :k].sum(axis=1).mean()) for k in (5, 10)]


def test_a_naive_twin_agrees_in_any_order() -> None:
    truth, lists, _ = drawn(200, 90, seed=3)  # users of more and of fewer than 16 items
    names = [f"{name}{how}" for name in NAIVE for how in ("@5", "@10")]
    found = evalkit.evaluate(
        truth, {"m": lists}, metrics=names, columns={"truth": P}, per_user=True
    )
    weight = {(u, i): 1 / p for u, i, p in truth.iter_rows()}
    ranks = {(u, i): r for u, i, r in lists.iter_rows()}
    for name, cut in [(name, k) for name in NAIVE for k in (5, 10)]:
        values = []
        for user in sorted({u for u, _ in weight}):
            own = {i: w for (u, i), w in weight.items() if u == user}
            shown = [(ranks.get((user, i), 99), w) for i, w in own.items()]
            total = math.fsum(w * NAIVE[name](rank) for rank, w in shown if rank <= cut)
            values.append(total / math.fsum(own.values()) if name == "recall" else total)
        got = found.per_user(f"{name}@{cut}")["value"].to_list()
        assert got == pytest.approx(values, rel=1e-12)
    text = json.dumps([each.value for each in found.estimates])
    for threads in (1, 2):
        mixed = truth.sample(fraction=1.0, shuffle=True, seed=threads)
        other = evalkit.evaluate(
            mixed, {"m": lists}, metrics=names, columns={"truth": P}, threads=threads
        )
        assert json.dumps([each.value for each in other.estimates]) == text


def test_weighted_hits_are_those_of_all_that_is_liked_on_average() -> None:
    """40 draws of 300 users: the mean within four standard errors, and far from the plain one."""
    errors, plain = [], []
    for seed in range(40):
        truth, lists, (_, known) = drawn(300, 30, seed)
        names = ["hits@10", "hits(propensity='none')@10"]
        report = evalkit.evaluate(
            truth, {"m": lists}, metrics=names, columns={"truth": P},
            policies={"no_relevant": "zero", "unknown_users": "count"},
        )  # fmt: skip
        errors.append(report.value(names[0]) - known)
        plain.append(report.value(names[1]) - known)
    mean, error = np.mean(errors), np.std(errors, ddof=1) / math.sqrt(40)
    assert abs(mean) < 4 * error
    assert np.mean(plain) < -1.0


def records(fixture: str) -> list[dict[str, object]]:
    path = FOLDER / "own.jsonl"
    rows = map(json.loads, path.read_text().splitlines()) if path.exists() else []
    return [each for each in rows if each.get("fixture") == fixture]


def fixture(name: str) -> dict[str, list[list[int]]]:
    return dict(json.loads((FOLDER / "fixtures" / f"{name}.json").read_text()))


def test_records_of_what_is_not_missing_at_random() -> None:
    if not records("missing_not_at_random"):
        pytest.skip("no records")
    given = fixture("missing_not_at_random")
    p, liked, lists = (given[key] for key in ("propensity", "relevant", "rankings"))
    rows = [(u, i, p[i]) for u, items in enumerate(liked) for i in items]
    truth = pl.DataFrame(rows, schema=["user", "item", "p"], orient="row")
    shown = [(u, i, r) for u, items in enumerate(lists) for r, i in enumerate(items, 1)]
    rankings = pl.DataFrame(shown, schema=["user", "item", "rank"], orient="row")
    spelled = {"recall": "recall({})@{}", "DCG a relevant item": "DCG(per='relevant'{})@{}"}
    seen = 0
    for record in records("missing_not_at_random"):
        how, cut = record["variant"], record["cutoff"]
        if how == "pooled":
            continue
        own = "" if how == "gain 1/p" else f"propensity='{'none' if how == 'plain' else how}'"
        if record["metric"] == "nDCG":
            name = f"nDCG@{cut}"
        else:
            comma = ", " if record["metric"] != "recall" else ""
            name = spelled[str(record["metric"])].format(comma + own, cut)
        report = evalkit.evaluate(truth, {"m": rankings}, metrics=[name], columns={"truth": P})
        values = record["values"]
        assert report.value(name) == pytest.approx(values["value"], rel=1e-9)  # type: ignore[index]
        assert report.estimates[0].n_users == values["n_users"]  # type: ignore[index]
        if "std_error" in values:  # type: ignore[operator]
            error = report.estimates[0].std_error
            assert error == pytest.approx(values["std_error"], rel=1e-9)  # type: ignore[index]
        seen += 1
    assert seen == 27


def test_records_of_what_stands_where_people_look() -> None:
    if not records("position_bias"):
        pytest.skip("no records")
    given = fixture("position_bias")
    looked, clicks = given["examination"], given["clicks"]
    rows = [
        (u, i, float(c), p)
        for u, items in enumerate(given["shown"])
        for i, c, p in zip(items, clicks[u], looked, strict=True)
    ]
    truth = pl.DataFrame(rows, schema=["user", "item", "relevance", "p"], orient="row")
    lists = {
        name: pl.DataFrame(
            [(u, i, r) for u, items in enumerate(given[name]) for r, i in enumerate(items, 1)],
            schema=["user", "item", "rank"],
            orient="row",
        )
        for name in ("shown", "candidate")
    }
    for record in records("position_bias"):
        model, _, how = str(record["variant"]).partition(" ")
        own = "(propensity='none')" if how.startswith("clicks") else ""
        name = f"DCG{own}@{record['cutoff']}"
        report = evalkit.evaluate(
            truth, lists, metrics=[name], columns={"truth": P},
            min_propensity=0.2 if "cap" in how else None, policies={"no_relevant": "zero"},
        )  # fmt: skip
        values = record["values"]
        assert report.value(name, model=model) == pytest.approx(values["value"], rel=1e-9)  # type: ignore[index]


CONFIG = """
[truth]
path = "truth.parquet"
columns = {{ user = "user", item = "item", propensity = "p" }}
min_propensity = 0.15
[[rankings]]
model = "a"
path = "a.parquet"
columns = {{ user = "user", item = "item", rank = "rank" }}
[[rankings]]
model = "b"
path = "b.parquet"
columns = {{ user = "user", item = "item", rank = "rank" }}
[metrics]
names = ["recall@5", "nDCG@5", "recall(propensity='ips')@5"]
[statistics]
baseline = "a"
{more}
[segments]
group = {{ by = "user % 3" }}
[[gates]]
metric = "recall@5"
min = 0.01
"""


@pytest.mark.parametrize("more", ["", 'method = "bootstrap"\nreplicates = 100'])
def test_shares_merge_to_the_same_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, more: str
) -> None:
    monkeypatch.chdir(tmp_path)
    truth, lists, _ = drawn(120, 40, seed=5)
    truth.write_parquet("truth.parquet")
    lists.write_parquet("a.parquet")
    lists.with_columns(item=(pl.col("item") * 7 + 3) % 40).write_parquet("b.parquet")
    Path("job.toml").write_text(CONFIG.format(more=more))
    for place in (1, 2, 3):
        share = ["partial", "job.toml", "--share", f"{place}/3", "--out", f"{place}.partial"]
        assert run_here(share, tmp_path).status == 0
    parts = [f"{place}.partial" for place in random.Random(1).sample([1, 2, 3], 3)]
    merged = evalkit.merge(parts)
    ran = run_here(["run", "job.toml", "--quiet"], tmp_path)
    assert ran.status == 0, ran.err
    whole = evalkit.load("runs/latest")
    assert [each.outcome for each in whole.gates] == ["pass", "pass"]

    for kept in ("estimates", "comparisons", "checks", "warnings", "run_key"):
        assert getattr(merged, kept) == getattr(whole, kept)
    assert "recall(propensity='snips')@5" in whole.labels
    checks = [each.check for each in whole.checks]
    assert checks == ["effective-sample-size", "weight-max", "propensity-raised"]
