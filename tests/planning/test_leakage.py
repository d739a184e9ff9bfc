"""Pairs of the truth that stand in train: counted, told, refused."""

import random

import polars as pl
import pytest

import evalkit
from evalkit import pipeline
from evalkit.config import build_config
from evalkit.errors import EvalkitError
from evalkit.jobs.check import check_config
from evalkit.report import Report

SIZE = 200  # pairs of the truth: 20 users of 10 items


def truth_of(size=SIZE):
    return pl.DataFrame({"user": [n // 10 for n in range(size)], "item": list(range(size))})


def ranked(truth):
    return truth.with_columns(rank=pl.int_range(1, pl.len() + 1).over("user"))


def train_of(n_shared, *, repeats=1):
    """So many pairs of the truth, each a few times, and others that it lacks."""
    others = pl.DataFrame({"user": [n % 25 for n in range(300)], "item": range(1000, 1300)})
    rows = pl.concat([truth_of().head(n_shared), others] * repeats)
    return rows.sample(fraction=1.0, shuffle=True, seed=1)


def run(n_shared, *, policy=None, **options):
    truth = truth_of()
    policies = {} if policy is None else {"truth_in_train": policy}
    return evalkit.evaluate(
        truth,
        ranked(truth),
        metrics=["hits@3"],
        train=train_of(n_shared),
        policies=policies,
        **options,
    )


def code_of(n_shared, **options):
    """The code of what is said, or None, and whether it is refused."""
    try:
        report = run(n_shared, **options)
    except EvalkitError as error:
        return error.code, f"refused with {error.exit_status}"
    found = [each.code for each in report.warnings if each.code.startswith("truth-")]
    return (found[0], "told") if found else (None, "")


TOLD, REFUSED = ("truth-in-train", "told"), ("truth-in-train", "refused with 3")
IS_TRAIN, NOTHING = ("truth-is-train", "refused with 3"), (None, "")


@pytest.mark.parametrize(
    ("n_shared", "policy", "drop_seen", "said"),
    [
        (0, "warn", False, NOTHING),
        (1, "warn", False, NOTHING),
        (2, "warn", False, TOLD),  # 1 %
        (189, "warn", False, TOLD),
        (190, "warn", False, IS_TRAIN),  # 95 %
        (200, "warn", False, IS_TRAIN),
        (1, "error", False, NOTHING),
        (2, "error", False, REFUSED),
        (190, "error", False, IS_TRAIN),
        (2, "count", False, NOTHING),
        (200, "count", False, NOTHING),
        (0, "warn", True, NOTHING),
        (1, "warn", True, TOLD),
        (1, "error", True, TOLD),
        (2, "error", True, REFUSED),
        (200, "warn", True, IS_TRAIN),
        (1, "count", True, TOLD),
        (0, "error", True, NOTHING),
    ],
)
def test_pairs_in_train_are_told_by_their_share(n_shared, policy, drop_seen, said):
    assert code_of(n_shared, policy=policy, drop_seen=drop_seen) == said


@pytest.mark.parametrize("n_shared", [0, 1, 77, 150])
def test_pairs_in_train_are_counted_once_each(n_shared):
    truth = truth_of()
    report = evalkit.evaluate(
        pl.concat([truth, truth]),
        ranked(truth),
        metrics=["hits@3"],
        train=train_of(n_shared, repeats=3),
    )

    assert report.counts.truth.pairs == SIZE
    assert report.counts.truth.in_train == n_shared


def test_without_train_nobody_counted():
    report = evalkit.evaluate(truth_of(), ranked(truth_of()), metrics=["hits@3"])

    assert report.counts.truth.in_train is None
    assert '"in_train": null' in report.to_json()


def test_only_relevant_pairs_count():
    truth = truth_of().with_columns(relevance=pl.Series([1.0, 5.0] * (SIZE // 2)))
    options = {"metrics": ["hits@3"], "train": train_of(100), "threshold": 4.0}
    report = evalkit.evaluate(truth, ranked(truth_of()), **options)

    assert report.counts.truth.pairs == 100
    assert report.counts.truth.in_train == 50


IDS = {
    "int32": pl.col("user", "item").cast(pl.Int32),
    "uint64": pl.col("user", "item").cast(pl.UInt64),
    "wide": pl.col("user", "item") * (1 << 40),
    "text": pl.col("user", "item").cast(pl.String),
    "category": pl.col("user", "item").cast(pl.String).cast(pl.Categorical),
    "date": pl.col("user", "item").cast(pl.Int32).cast(pl.Date),
}


@pytest.mark.parametrize("kind", list(IDS))
@pytest.mark.parametrize("n_shares", [1, 3])
def test_the_count_is_the_same_for_every_type_of_id_and_any_passes(monkeypatch, kind, n_shares):
    monkeypatch.setattr("evalkit.kinds.rankings.measure.count_shares", lambda *given: n_shares)
    truth = truth_of()
    for threads in (1, 2):
        report = evalkit.evaluate(
            truth.sample(fraction=1.0, shuffle=True, seed=threads).with_columns(IDS[kind]),
            ranked(truth).with_columns(IDS[kind]),
            metrics=["hits@3"],
            train=train_of(123).with_columns(IDS[kind]),
            threads=threads,
        )

        assert report.counts.truth.in_train == 123


def test_what_is_refused_in_passes_is_refused_over_the_whole(monkeypatch):
    monkeypatch.setattr("evalkit.kinds.rankings.measure.count_shares", lambda *given: 4)
    with pytest.raises(EvalkitError) as caught:
        run(195)

    assert caught.value.code == "truth-is-train"
    assert "195 of 200 pairs" in caught.value.message
    assert code_of(189) == TOLD


def test_users_of_many_items_are_counted_as_those_of_few():
    chosen = random.Random(3)
    pairs = [(user, item) for user in range(6) for item in range(4**user)]
    train = chosen.sample(pairs, len(pairs) // 2)
    frame = pl.DataFrame(pairs, schema=["user", "item"], orient="row")
    report = evalkit.evaluate(
        frame,
        ranked(frame),
        metrics=["hits@3"],
        train=pl.DataFrame(train, schema=["user", "item"], orient="row"),
    )

    assert report.counts.truth.in_train == len(train)


def test_a_joined_log_counts_its_relevant_pairs(tmp_path):
    log = ranked(truth_of()).with_columns(label=pl.Series([1, 0] * (SIZE // 2)))
    log.write_parquet(tmp_path / "log.parquet")
    train_of(100).write_parquet(tmp_path / "train.parquet")
    tree = {
        "log": {
            "path": [str(tmp_path / "log.parquet")],
            "model": "als",
            "columns": {"rank": "rank", "label": "label"},
        },
        "train": {"path": [str(tmp_path / "train.parquet")]},
        "metrics": {"names": ["hits@3"]},
    }
    report = pipeline.run_config(build_config(tree, name="log"))

    assert report.counts.truth.pairs == 100
    assert report.counts.truth.in_train == 50


def test_a_sample_counts_its_own_pairs():
    report = run(150, sample=0.5)

    assert 0 < report.counts.truth.in_train <= report.counts.truth.pairs < SIZE


def test_reports_of_before_have_no_count():
    text = run(50).to_json()
    before = text.replace(', "in_train": 50', "")

    assert before != text
    assert Report.from_json(text).counts.truth.in_train == 50
    assert Report.from_json(before).counts.truth.in_train is None


# ---------------------------------------------------------------- check


def job_of(folder, truth, train, **policies):
    tables = {"truth": truth, "train": train, "als": ranked(truth_of())}
    for name, frame in tables.items():
        frame.write_parquet(folder / f"{name}.parquet")
    columns = {"relevance": "relevance"} if "relevance" in truth.columns else {}
    tree = {
        "truth": {"path": [str(folder / "truth.parquet")], "columns": columns},
        "train": {"path": [str(folder / "train.parquet")]},
        "rankings": [
            {"model": "als", "path": [str(folder / "als.parquet")], "columns": {"rank": "rank"}}
        ],
        "metrics": {"names": ["hits@3"]},
        "policies": policies,
    }
    return build_config(tree, name="job")


def leaks(config):
    return [each for each in check_config(config) if each.code.startswith("truth-")]


def test_check_shows_the_pairs(tmp_path):
    [found] = leaks(job_of(tmp_path, truth_of(), train_of(3)))

    assert not found.is_error
    assert found.message.endswith("user 0 item 0, user 0 item 1, user 0 item 2")


def test_check_shows_the_first_pairs_and_how_many_are_left(tmp_path):
    [found] = leaks(job_of(tmp_path, truth_of(), train_of(195)))

    assert found.is_error
    assert found.exit_status == 3
    assert found.code == "truth-is-train"
    assert "user 1 item 19, and 175 more" in found.message


def test_check_shows_relevant_pairs_alone(tmp_path):
    truth = truth_of().with_columns(relevance=pl.Series([0.0, 1.0] * (SIZE // 2)))
    [found] = leaks(job_of(tmp_path, truth, train_of(6)))

    assert found.message.endswith("user 0 item 1, user 0 item 3, user 0 item 5")


def test_check_says_nothing_where_pairs_are_only_counted(tmp_path):
    assert leaks(job_of(tmp_path, truth_of(), train_of(200), truth_in_train="count")) == []


def test_hints_speak_the_language_of_the_door(tmp_path):
    with pytest.raises(EvalkitError) as caught:
        run(200)

    assert 'policies={"truth_in_train": "count"}' in caught.value.hint
