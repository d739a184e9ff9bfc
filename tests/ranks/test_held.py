"""Scores of users whose rows lie apart: read once or twice, the report is the same."""

import numpy as np
import polars as pl
import pytest
from logs import body, columns_of, run

from evalkit.planning import passes
from evalkit.ranks import _held, _probe, _scan

N_USERS, N_ITEMS, N_ROWS = 60, 40, 900
WIDE = 3 << 32
IDS = {
    "halves": lambda ids, rows: ids,
    "whole": lambda ids, rows: ids * WIDE - 7,
    "both": lambda ids, rows: np.where((rows > 400) & (ids % 3 == 0), ids + WIDE, ids),
}


def make_logs(ids, seed, *, n_scores):
    """A truth of every other user, and two models' rows in any order, few of them without score."""
    draw = np.random.default_rng(seed)
    pairs = draw.permutation(N_USERS * N_ITEMS)
    as_ids = IDS[ids]

    def columns(numbers):
        rows = np.arange(numbers.size)
        users, items = numbers // N_ITEMS, numbers % N_ITEMS
        return {"user": as_ids(users, rows), "item": as_ids(items, rows)}

    asked = pairs[(pairs // N_ITEMS) % 2 == 0][:300]
    truth = pl.DataFrame({**columns(asked), "relevance": draw.integers(1, 4, asked.size)})
    models = [columns(draw.permutation(pairs)[:N_ROWS]) for _ in range(2)]
    scores = [draw.integers(n_scores, size=N_ROWS) / 7 - 1 for _ in models]
    rankings = pl.concat(
        [
            pl.DataFrame({**each, "score": score, "model": f"model {number}"})
            for number, (each, score) in enumerate(zip(models, scores, strict=True))
        ]
    )
    rankings = rankings.sample(fraction=1.0, shuffle=True, seed=seed)
    lacks_score = pl.int_range(pl.len()) % 50 == 49
    return truth, rankings.with_columns(pl.when(~lacks_score).then("score").alias("score"))


def report_of(logs, policies, threads=3):
    truth, rankings = logs
    columns = {name: name for name in ("user", "item", "model", *columns_of("score"))}
    policies = {"bad_scores": "drop", **policies}
    return run(truth, {"": rankings}, columns=columns, policies=policies, threads=threads)


@pytest.fixture
def read_twice(monkeypatch):
    """How often a log was read twice; batches are small."""
    monkeypatch.setattr(_scan, "BATCH_ROWS", 128)
    calls, scan_twice = [], _probe.scan_twice
    monkeypatch.setattr(_probe, "scan_twice", lambda scan: [calls.append(scan), scan_twice(scan)])
    return calls


@pytest.mark.some_cases(3)
@pytest.mark.parametrize("rows_a_partition", [1, 100, 10_000])
@pytest.mark.parametrize("ids", IDS)
@pytest.mark.parametrize("ties", ["item", "item-desc", "item-text", "input"])
@pytest.mark.parametrize("n_scores", [3, 10_000])
def test_held_rows_give_the_report_of_rows_read_twice(
    monkeypatch, read_twice, n_scores, ties, ids, rows_a_partition
):
    monkeypatch.setattr(_held, "ROWS_A_PARTITION", rows_a_partition)
    logs = make_logs(ids, seed=1, n_scores=n_scores)

    held = report_of(logs, {"ties": ties})
    assert not read_twice
    monkeypatch.setattr(passes, "HELD_SHARE", 0.0)
    twice = report_of(logs, {"ties": ties})

    assert len(read_twice) == 1
    assert body(held) == body(twice)
    counts = held.counts.models["model 0"]
    assert min(counts.rows_used, counts.rows_dropped["unknown_user"]) > 300
    assert counts.rows_dropped["bad_score"] > 10
    assert (counts.ties > 0) == (n_scores == 3)


@pytest.mark.parametrize(
    "n_bytes",
    [
        pytest.param(_held.LEAST_WORDS * _held.WORD * 2 * N_ROWS - 1, id="it is known before"),
        pytest.param(_held.LEAST_WORDS * _held.WORD * 2 * N_ROWS, id="rows are wide"),
        pytest.param(3 * _held.WORD * 2 * N_ROWS, id="a partition is brought together"),
    ],
)
def test_rows_without_room_are_read_twice(monkeypatch, read_twice, n_bytes):
    monkeypatch.setattr(_held, "ROWS_A_PARTITION", 100)
    logs = make_logs("whole", seed=2, n_scores=3)
    held = report_of(logs, {})
    monkeypatch.setattr("evalkit.kinds.rankings.measure.memory_of_rows", lambda *given: n_bytes)

    twice = report_of(logs, {})

    assert len(read_twice) == 1
    assert body(held) == body(twice)


def test_rows_of_one_user_alone_lie_in_one_partition(read_twice, monkeypatch):
    monkeypatch.setattr(_held, "ROWS_A_PARTITION", 100)
    truth, rankings = make_logs("halves", seed=3, n_scores=50)
    heavy = pl.DataFrame({"user": 0, "item": range(N_ITEMS, 2_000), "model": "model 0"})
    rows = pl.concat(
        [rankings, heavy.with_columns(score=pl.col("item") / 900)], how="diagonal_relaxed"
    )
    logs = truth, rows.sample(fraction=1.0, shuffle=True, seed=3)

    held = report_of(logs, {})
    assert not read_twice
    monkeypatch.setattr(passes, "HELD_SHARE", 0.0)

    assert body(held) == body(report_of(logs, {}))
    assert len(read_twice) == 1
