"""A job as a whole: whichever call of the system fails, every run that is there is whole."""

import errno
import os
from itertools import count
from pathlib import Path

import polars as pl
import pytest
from example_runs import failing, left_over

from evalkit.config import build_config
from evalkit.errors import EvalkitError
from evalkit.jobs.job import Job
from evalkit.runs import verify


@pytest.fixture
def job(tmp_path):
    """A small job whose gate keeps values of users, and that has run once."""
    users = list(range(30))
    pl.DataFrame({"user": users, "item": [1] * 30}).write_parquet(tmp_path / "truth.parquet")
    pl.DataFrame({"user": users, "item": [1] * 30, "rank": [1] * 30}).write_parquet(
        tmp_path / "als.parquet"
    )
    config = build_config(
        {
            "truth": {"path": str(tmp_path / "truth.parquet")},
            "rankings": [
                {
                    "model": "als",
                    "path": str(tmp_path / "als.parquet"),
                    "columns": {"rank": "rank"},
                }
            ],
            "metrics": {"names": ["recall@1"]},
            "gates": [
                {"metric": "recall@1", "max_drop": 0.1, "baseline": "last", "unclear": "pass"}
            ],
        },
        name="nightly",
    )
    made = Job(config, tmp_path / "runs", options={"threads": 1})
    made.run()
    return made


def finished(folder: Path) -> list[str]:
    return sorted(each.name for each in folder.glob("2*"))


@pytest.mark.some_cases(1)
@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO])
def test_any_failing_call_of_a_job_leaves_whole_runs(job, monkeypatch, number):
    folder = job.folder
    every = 1 if os.environ.get("EVALKIT_TEST_KILLS") else 29
    failed = 0
    for n in count(1, every):
        before = finished(folder)
        error = None
        with failing(monkeypatch, n, number) as fired:
            try:
                job.run()
            except (EvalkitError, OSError) as caught:
                error = caught
        if not fired:
            break
        failed += error is not None

        after = finished(folder)
        assert set(before) <= set(after)
        assert all(verify(folder / each) == [] for each in [*after[-2:], "latest"]), (n, fired)
        if error is None or getattr(error, "code", "") == "latest-not-moved":
            assert len(after) == len(before) + 1, (n, fired, error)
        else:
            assert after == before, (n, fired, error)
    assert error is None
    assert left_over(folder) == []  # the last run removed what those before it could not
    assert failed > 20 / every


def test_memory_that_runs_out_leaves_whole_runs(job, monkeypatch):
    before = finished(job.folder)

    def full(*_: object, **__: object) -> None:
        raise MemoryError

    with monkeypatch.context() as patch:
        patch.setattr(os, "rename", full)
        with pytest.raises(EvalkitError) as caught:
            job.run()

    assert caught.value.exit_status == 4
    assert finished(job.folder) == before
    assert left_over(job.folder) == []
