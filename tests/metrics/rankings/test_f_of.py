"""F of two metrics, user by user."""

import math

import polars as pl
import pytest

import evalkit
from evalkit import EvalkitError
from evalkit.metrics import parse_metrics
from evalkit.metrics.profiles import find_profile

# user 1: hits at ranks 1 and 3 of 3, of 3 relevant; user 2: none; user 3: a list of one hit
TRUTH = pl.DataFrame({"user": [1, 1, 1, 2, 3, 4], "item": [1, 3, 9, 1, 1, 1]})
SHOWN = pl.DataFrame(
    {"user": [1, 1, 1, 2, 3], "item": [1, 2, 3, 7, 1], "rank": [1, 2, 3, 1, 1]}
)  # fmt: skip
GOLDENS = [
    # metric, of users 1, 2, 3 and 4, who has no list
    ("f_of(precision, recall)@2", [2 * 1 / 2 * 1 / 3 / (1 / 2 + 1 / 3), 0, 2 / 3, 0]),
    ("f_of(precision, recall, beta=2)@2", [5 * 1 / 6 / (4 / 2 + 1 / 3), 0, 5 / 2 / (4 / 2 + 1), 0]),
    ("f_of(RR, recall)@1", [2 * 1 / 3 / (1 + 1 / 3), 0, 1, 0]),
    ("f_of(RR, hits)", [2 * 1 * 2 / 3, 0, 1, 0]),
]


def values_of(names, **more):
    report = evalkit.evaluate(TRUTH, {"a": SHOWN}, metrics=names, per_user=True, **more)
    return report, {
        name: dict(zip(*report.per_user(name).sort("user").get_columns(), strict=True))
        for name in report.labels
    }


@pytest.mark.parametrize(("name", "wanted"), GOLDENS)
def test_by_hand(name, wanted):
    report, found = values_of([name])

    assert list(found[name].values()) == pytest.approx(wanted, abs=1e-12)
    assert report.value(name) == pytest.approx(sum(wanted) / 4)


def test_of_precision_and_recall_it_is_f1_at_every_cutoff():
    names = ["f_of(precision, recall)@{1,2,3}", "F1@{1,2,3}", "f_of(precision, recall)", "F1"]

    _, found = values_of(names)

    ours = [found[name] for name in found if name.startswith("f_of")]
    assert ours == [found[name] for name in found if name.startswith("F1")]


def test_what_is_made_of_users_takes_it():
    name = "median(f_of(precision, recall)@2)"

    report = evalkit.evaluate(TRUTH, {"a": SHOWN}, metrics=[name])

    assert report.value(name) == pytest.approx((0 + 2 / 5) / 2)


def test_shares_and_passes_move_no_bit(tmp_path):
    truth, shown = tmp_path / "t.parquet", tmp_path / "s.parquet"
    rows = [(user, item) for user in range(400) for item in range(1 + user % 4)]
    pl.DataFrame(rows, ["user", "item"], orient="row").write_parquet(truth)
    rows = [(user, item * (1 + user % 3), item + 1) for user in range(400) for item in range(5)]
    pl.DataFrame(rows, ["user", "item", "rank"], orient="row").write_parquet(shown)
    names = ["f_of(precision, nDCG)@3", "f_of(AP(over='hits'), recall)@5"]

    one = evalkit.evaluate(truth, {"a": shown}, metrics=names, threads=1)
    many = evalkit.evaluate(truth, {"a": shown}, metrics=names, threads=3)
    alone = evalkit.evaluate(truth, {"a": shown}, metrics=["precision@3", "nDCG@3"], per_user=True)

    assert [one.value(each) for each in names] == [many.value(each) for each in names]
    pairs = zip(*(alone.per_user(each)["value"] for each in ("precision@3", "nDCG@3")), strict=True)
    wanted = [2 * a * b / (a + b) if a + b else 0.0 for a, b in pairs]
    assert one.value(names[0]) == pytest.approx(math.fsum(wanted) / len(wanted), abs=1e-15)


def test_dsc_of_elliot_is_read():
    profile = find_profile("elliot")

    (request,) = parse_metrics(
        ["DSC@10"], conventions=profile.conventions, named=profile.named, refused=profile.refused
    )

    assert request.label == "f_of(precision, recall)@10"


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("f_of(precision@2, recall)@2", "bad-cutoff"),
        ("f_of(precision)@2", "bad-metric-syntax"),
        ("f_of(precision, recall", "bad-metric-syntax"),
        ("f_of(precision, recall, beta=0)", "bad-parameter-value"),
        ("f_of(precision, first_hit_rank)", "bad-parameter-value"),
        ("f_of(precision, novelty)", "no-metric-of-users"),
        ("f_of(precision, median(AP))", "no-metric-of-users"),
        ("f_of(precision, recal)", "unknown-metric"),
    ],
)
def test_what_has_no_f_is_refused(name, code):
    with pytest.raises(EvalkitError) as caught:
        parse_metrics([name])

    assert caught.value.code == code
