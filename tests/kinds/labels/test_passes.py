"""Rows that do not fit into memory are read several times, and the report keeps every byte."""

import json
import subprocess
import sys

import numpy as np
import polars as pl
import pytest

import evalkit
from evalkit.errors import MachineError
from evalkit.kinds.labels import _parts
from evalkit.kinds.pointwise import memory as _room
from evalkit.kinds.pointwise import passes as _passes
from evalkit.kinds.pointwise import read as _reading
from evalkit.kinds.pointwise import repeats as _repeats
from evalkit.sources import Table

METRICS = [
    "AUC",
    "AUC(ties='lost')",
    "GAUC",
    "AUC(over='sessions')",
    "PR-AUC",
    "PR-AUC(integration='trapezoid')",
    "partial-AUC",
    "log-loss",
    "log-loss(over='users')",
    "Brier",
    "ECE",
    "ECE(binning='mass')",
    "calibration",
    "F1(at='best')",
    "MCC",
]
N_ROWS = 2000
SCORES = {
    "spread": lambda rng: rng.beta(0.5, 3, N_ROWS),
    "one score": lambda rng: np.full(N_ROWS, 0.25),
    "one score and others": lambda rng: np.where(
        rng.random(N_ROWS) < 0.6, 0.25, rng.random(N_ROWS)
    ),
    "close together": lambda rng: np.concatenate(
        [[5e-324, 1.0], 0.5 + rng.integers(0, 700, N_ROWS - 2) * 2.0**-50]
    ),
}


@pytest.fixture
def small_parts(monkeypatch):
    """A process that takes no memory for itself and for users, and parts of a few rows."""
    monkeypatch.setattr(_room, "SLACK", 0.0)
    monkeypatch.setattr(_passes, "BYTES_AT_REST", 0)
    monkeypatch.setattr(_passes, "BYTES_OF_WORK", 0)
    monkeypatch.setattr(_parts, "ROWS_A_PART", 100)
    monkeypatch.setattr(_reading, "BATCH_ROWS", 800)


@pytest.fixture
def reads(monkeypatch):
    """One entry for every time that a table is read."""
    found = []
    stream = Table.stream

    def counted(table, columns, *, most):
        found.append(table.role)
        return stream(table, columns, most=most)

    monkeypatch.setattr(Table, "stream", counted)
    return found


def impressions(scores, dtype="float64", seed=1):
    rng = np.random.default_rng(seed)
    return pl.DataFrame(
        {
            "user": rng.integers(0, 400, N_ROWS),
            "session": rng.integers(0, N_ROWS // 4, N_ROWS).astype(str),
            "score": SCORES[scores](rng).astype(dtype),
            "label": rng.random(N_ROWS) < 0.3,
            "weight": rng.exponential(size=N_ROWS),
        }
    )


def numbers(report):
    document = json.loads(report.to_json())
    return {key: document[key] for key in ("counts", "metrics", "graphs", "warnings")}


@pytest.mark.some_cases(2)
@pytest.mark.parametrize("columns", [{}, {"weight": "weight"}], ids=["plain", "weighted"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("scores", sorted(SCORES))
def test_a_limit_moves_no_byte(scores, dtype, columns, small_parts, reads):
    log = impressions(scores, dtype)
    named = {"session": "session", **columns}

    whole = evalkit.evaluate_labels(log, metrics=METRICS, columns=named)
    n_reads = len(reads)
    limited = evalkit.evaluate_labels(log, metrics=METRICS, columns=named, memory_limit=15_000)

    assert n_reads == 1
    assert len(reads) > 6
    assert numbers(limited) == numbers(whole)


@pytest.mark.parametrize("columns", [{}, {"weight": "weight"}], ids=["plain", "weighted"])
@pytest.mark.parametrize("scores", sorted(SCORES))
def test_scores_that_are_only_counted_give_what_sorting_gives(scores, columns, monkeypatch):
    log = impressions(scores)
    sorted_ = evalkit.evaluate_labels(log, metrics=METRICS[4:], columns=columns)
    monkeypatch.setattr(_parts, "ROWS_A_PART", 50)

    counted = evalkit.evaluate_labels(log, metrics=METRICS[4:], columns=columns)

    np.testing.assert_allclose(
        [each.value for each in counted.estimates],
        [each.value for each in sorted_.estimates],
        rtol=1e-12 if columns else 0,
    )


def test_several_models_policies_and_samples_are_followed_in_every_pass(small_parts, reads):
    log = pl.concat(
        [
            impressions("spread", seed=seed).with_columns(
                user=pl.format("u{}", pl.col("user")),
                model=pl.lit(name),
                score=pl.when(pl.int_range(pl.len()) % 50 == seed).then(None).otherwise("score"),
            )
            for seed, name in ((1, "b"), (2, "a"))
        ]
    )
    asked = {
        "metrics": METRICS[:3],
        "policies": {"bad_scores": "drop"},
        "columns": {"model": "model"},
        "sample": 0.4,
    }

    whole = evalkit.evaluate_labels(log, **asked)
    n_reads = len(reads)
    limited = evalkit.evaluate_labels(log.lazy(), **asked, memory_limit=8_000)

    assert len(reads) > 4 * n_reads
    assert list(limited.counts.models) == ["a", "b"]
    assert numbers(limited) == numbers(whole)


@pytest.mark.parametrize("order", ["as it is", "turned round"])
def test_scores_are_counted_in_cells_that_no_order_moves(order):
    rng = np.random.default_rng(5)
    scores = np.concatenate([rng.normal(size=3000), [1e300, -1e-300], np.full(3000, 0.5)])
    keys = scores.view(np.uint64) ^ np.where(scores < 0, 2**64 - 1, 2**63).astype(np.uint64)
    labels = (rng.random(scores.size) < 0.5).astype(np.uint8)
    whole = _parts.Leading.of({"score": keys, "label": labels})

    merged = _parts.Leading.nothing()
    for places in np.array_split(np.arange(keys.size)[:: -1 if order != "as it is" else 1], 13):
        merged.merge(_parts.Leading.of({"score": keys[places], "label": labels[places]}))

    assert (merged.least, merged.most, merged.shift) == (whole.least, whole.most, whole.shift)
    np.testing.assert_array_equal(merged.counts, whole.counts)
    assert whole.counts.sum() == keys.size
    assert whole.counts.shape[0] <= 1 << _parts.LEADING_BITS


def test_one_user_with_all_rows_is_refused_with_what_it_needs(small_parts, monkeypatch):
    monkeypatch.setattr(_passes, "BYTES_OF_WORK", 200)
    monkeypatch.setattr(_parts, "ROWS_A_PART", 10)
    log = impressions("spread").with_columns(user=pl.lit(7))

    with pytest.raises(MachineError) as caught:
        evalkit.evaluate_labels(log, metrics=["AUC"], memory_limit=36_000)

    assert caught.value.code == "memory-limit"
    assert caught.value.message.startswith("2,000 rows of a user need about 1 MiB")
    enough = evalkit.evaluate_labels(log.lazy(), metrics=["AUC"], memory_limit=1 << 20)
    assert numbers(enough) == numbers(evalkit.evaluate_labels(log, metrics=["AUC"]))


def test_a_limit_moves_no_byte_of_segments_and_comparisons(small_parts, reads):
    log = pl.DataFrame(
        {
            "user": np.arange(3000) % 211,
            "score": (np.arange(3000) * 37 % 1009 + 1) / 1011,
            "label": np.arange(3000) * 7 % 5 < 2,
        }
    ).with_columns(land=pl.col("user") % 3)
    logs = {"old": log, "new": log.with_columns(score=pl.col("score") ** 2)}
    asked = {
        "metrics": ["AUC", "AP", "log-loss", "log-loss(over='users')", "GAUC"],
        "segments": {"land": {"by": "land"}},
        "statistics": {"baseline": "old"},
    }

    whole = evalkit.evaluate_labels(logs, **asked)
    n_reads = len(reads)
    limited = evalkit.evaluate_labels(logs, memory_limit=40_000, **asked)

    assert len(reads) - n_reads > 2 * n_reads
    assert limited.estimates == whole.estimates
    assert limited.comparisons == whole.comparisons


def test_models_are_compared_and_segments_measured_in_passes(small_parts):
    log = impressions("spread")
    models = {"a": log, "b": log.with_columns(score=1 - pl.col("score"))}
    halves = pl.DataFrame({"user": range(400), "half": [user % 2 for user in range(400)]})
    asked = {
        "metrics": ["AUC", "log-loss(over='users')"],
        "statistics": {"baseline": "a"},
        "segments": {"half": {"path": halves, "by": "half"}},
    }

    whole = json.loads(evalkit.evaluate_labels(models, **asked).to_json())
    limited = json.loads(evalkit.evaluate_labels(models, **asked, memory_limit=12_000).to_json())

    assert {key for key in whole if whole[key] != limited[key]} <= {"run_id", "run_key", "meta"}
    assert len(whole["metrics"]) == 12


def test_what_is_kept_of_users_takes_room_from_rows(small_parts, reads, monkeypatch):
    log = pl.concat([impressions("spread")] * 10)  # about 500 KB, and 200 KB for users
    models = {"a": log, "b": log.with_columns(score=1 - pl.col("score"))}
    asked = {"metrics": ["AUC", "log-loss(over='users')"], "statistics": {"baseline": "a"}}
    whole = evalkit.evaluate_labels(models, **asked)

    def n_reads(slack: float) -> int:
        monkeypatch.setattr(_room, "SLACK", slack)
        before = len(reads)
        for limit in (350_000, 550_000):
            limited = evalkit.evaluate_labels(models, memory_limit=limit, **asked)
            assert limited.comparisons == whole.comparisons
        return len(reads) - before

    assert n_reads(1.15) > n_reads(0.0)


def test_what_is_kept_of_users_is_refused_where_it_does_not_fit(small_parts, monkeypatch):
    monkeypatch.setattr(_room, "SLACK", 1.15)
    log = impressions("spread")
    asked = {"metrics": ["AUC", "log-loss(over='users')"], "memory_limit": 20_000}

    with pytest.raises(MachineError, match="what is kept of about") as caught:
        evalkit.evaluate_labels(log, per_user=True, **asked)

    assert caught.value.code == "memory-limit"
    evalkit.evaluate_labels(log, **asked)  # keeps nothing


@pytest.mark.parametrize("named", [False, True])
def test_copies_are_looked_for_in_passes(small_parts, monkeypatch, named):
    log = impressions("spread").with_columns(
        item=pl.int_range(pl.len()) % 7, time=pl.int_range(pl.len()) % 5, which=pl.col("user") % 2
    )
    nobody = pl.when(pl.col("user") == 3).then(None).otherwise(pl.col("user"))
    columns = {"item": "item", "time": "time"} | ({"model": "which"} if named else {})
    asked = {
        "metrics": ["AUC"],
        "columns": columns,
        "policies": {"duplicates": "count", "null_ids": "drop"},
    }
    log = log.with_columns(user=nobody)

    whole = evalkit.evaluate_labels(log, **asked)
    monkeypatch.setattr(_passes, "LEAST_ROOM", 1)
    passes, search = [], _repeats._repeats_among
    monkeypatch.setattr(
        _repeats, "_repeats_among", lambda *given: passes.append(1) or search(*given)
    )
    limited = evalkit.evaluate_labels(log, memory_limit=30_000, **asked)

    known = log.drop_nulls("user")
    counts = {name: each.duplicates for name, each in limited.counts.models.items()}
    assert counts == {name: each.duplicates for name, each in whole.counts.models.items()}
    keys = ["user", "item", "time"]
    assert sum(counts.values()) == known.height - known.select(keys).unique().height
    assert len(passes) > 5


@pytest.mark.campaign
def test_a_process_that_searches_and_compares_keeps_its_limit(tmp_path):
    rng = np.random.default_rng(3)
    n_rows, limit = 2_500_000, 512
    log = pl.DataFrame(
        {
            "user": rng.integers(0, 200_000, n_rows),
            "item": rng.integers(0, 1000, n_rows),
            "time": rng.integers(0, 10**9, n_rows),
            "label": rng.random(n_rows) < 0.3,
            "score": rng.random(n_rows).astype(np.float32),
        }
    )
    for name in "ab":
        log.with_columns(
            pl.col("score").reverse() if name == "b" else pl.col("score")
        ).write_parquet(tmp_path / f"{name}.parquet", row_group_size=1 << 17)
    code = f"""
import evalkit
evalkit.evaluate_labels(
    {{name: "{tmp_path}/" + name + ".parquet" for name in "ab"}},
    metrics=["AUC", "log-loss", "log-loss(over='users')"],
    columns={{"item": "item", "time": "time"}},
    statistics={{"baseline": "a"}},
    memory_limit={limit} << 20,
)
peak = next(line for line in open("/proc/self/status") if "VmHWM" in line)
print(int(peak.split()[1]) >> 10)
"""

    for given in (code.replace(f"{limit} << 20", "None"), code):  # kernels are kept by the first
        command = [sys.executable, "-c", given]
        found = subprocess.run(command, capture_output=True, text=True, check=True)

    assert int(found.stdout) < limit


def test_a_limit_that_needs_many_passes_is_refused_and_names_that_of_eight(small_parts):
    rows = np.full(1 << 10, 1 << 10)  # a MiB of bytes
    work = _passes.BYTES_OF_WORK << 10

    with pytest.raises(MachineError) as caught:
        _passes.MemoryBudget(work + (1 << 20) // 20, threads=1).cut(rows, 1, "a user")

    assert caught.value.hint == "give --memory-limit 1MiB"
    assert len(_passes.MemoryBudget(work + (1 << 20) // 8, threads=1).cut(rows, 1, "a user")) == 8
