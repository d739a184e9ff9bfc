"""The training log by share of the users, on disk between passes: the same report, and no trace."""

import errno
import resource
from tempfile import TemporaryFile

import numpy as np
import polars as pl
import pytest
from passes import in_passes

import evalkit
from evalkit.errors import DataError
from evalkit.sources.ids import ITEM_KEY, USER_KEY, PassShare
from evalkit.truth import SeenRows, _seen_rows

RANDOM = np.random.default_rng(5)
TRUTH = pl.DataFrame({"user": np.arange(60), "item": np.arange(60) % 7 - 3})
LISTS = pl.DataFrame({"user": np.repeat(np.arange(60), 3), "item": RANDOM.integers(-3, 9, 180)})
LISTS = LISTS.unique(maintain_order=True).with_columns(
    rank=pl.int_range(1, pl.len() + 1).over("user")
)
TRAIN = pl.DataFrame({"user": RANDOM.integers(0, 80, 900), "item": RANDOM.integers(-3, 9, 900)})


def evaluate(train=TRAIN):
    metrics = ["novelty@2", "unseen_share@3", "nDCG@2"]
    return evalkit.evaluate(TRUTH, LISTS, train=train, metrics=metrics, drop_seen=True, threads=2)


@pytest.fixture
def made(monkeypatch):
    """Every object that keeps rows."""
    kept, make = [], SeenRows.of
    monkeypatch.setattr(SeenRows, "of", lambda *given: kept.append(make(*given)) or kept[-1])
    return kept


@pytest.mark.parametrize("train", [TRAIN, TRAIN.sort("user"), TRAIN.clear()])
def test_rows_on_disk_are_those_of_the_log(train, made, monkeypatch):
    one = in_passes(1, lambda: evaluate(train))
    read = []
    stream = SeenRows.stream
    monkeypatch.setattr(
        SeenRows, "stream", lambda self, number: read.append(number) or stream(self, number)
    )

    assert in_passes(3, lambda: evaluate(train)) == one

    assert set(read) >= ({1, 2} if train.height else set())
    assert made[0] is None
    assert made[-1]._files is None  # closed


def test_a_full_disk_leaves_the_log_to_be_read(made, monkeypatch):
    def refuse(**_):
        raise OSError("no space left")

    one = in_passes(1, evaluate)
    monkeypatch.setattr(_seen_rows, "TemporaryFile", refuse)
    assert in_passes(3, evaluate) == one
    monkeypatch.setattr(_seen_rows, "SPARED", 1 << 60)
    assert in_passes(3, evaluate) == one
    assert made[-1] is None


def test_files_that_may_not_grow_leave_the_log_to_be_read(made):
    one, before = in_passes(1, evaluate), resource.getrlimit(resource.RLIMIT_FSIZE)
    in_passes(3, evaluate)  # keeps kernels

    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, before[1]))
    try:
        assert in_passes(3, evaluate) == one
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)

    assert made[-1]._files is None


class FailingFile:
    """A file that takes rows, and does not give them back; nor can it be closed."""

    def __init__(self, reads):
        self._file, self.readinto = TemporaryFile(buffering=0), reads

    def __getattr__(self, name):
        return getattr(self._file, name)

    def close(self):
        self._file.close()
        raise OSError(errno.EIO, "input/output error")


def fail_to_read(_):
    raise OSError(errno.EIO, "input/output error")


@pytest.mark.parametrize(
    ("reads", "told"), [(fail_to_read, "input/output error"), (lambda _: 0, "cut short")]
)
@pytest.mark.parametrize("metric", ["novelty@2", "nDCG@2"])
def test_a_disk_that_does_not_give_rows_back_is_told(reads, told, metric, made, monkeypatch):
    monkeypatch.setattr(_seen_rows, "TemporaryFile", lambda **_: FailingFile(reads))

    outcome = in_passes(3, lambda: evalkit.evaluate(TRUTH, LISTS, train=TRAIN, metrics=[metric]))

    assert outcome.status == 4
    assert outcome.said.startswith("machine-limit: rows of train")
    assert told in outcome.said
    assert made[-1]._files is None


def test_files_are_closed_where_a_run_fails(made):
    def run():
        copies = pl.concat([LISTS, LISTS.tail(1)])
        return evalkit.evaluate(TRUTH, copies, train=TRAIN, metrics=["novelty@2"])

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("evalkit.kinds.rankings.measure.count_shares", lambda *given: 3)
        patch.setattr("evalkit.kinds.rankings.measure.measure_share", fail_after_train)
        with pytest.raises(DataError):
            run()

    assert made[-1]._files is None


def fail_after_train(job, share, edges, stop_step=None):
    rows = pl.DataFrame({USER_KEY: [1], ITEM_KEY: [2]})
    job.reader.seen_rows.add(rows)
    raise DataError("wrong", code="null-id", at="here")


def test_shares_are_those_of_passes():
    rows = pl.DataFrame({USER_KEY: np.arange(1000), ITEM_KEY: np.arange(1000) - 500})
    kept = SeenRows(3)
    for begin in range(0, 1000, 300):
        kept.add(rows.slice(begin, 300))
    kept.complete()

    for number in range(3):
        own = rows.filter(pl.Series(PassShare(number, 3).holds(rows)))
        found = pl.concat(kept.stream(number)).select(pl.all().reinterpret(signed=True))
        assert found.equals(own)
        assert kept.n_rows(number) == own.height
    kept.close()
