"""Progress on Spark is told by partitions, from what Spark says of its stages."""

from types import SimpleNamespace

import pytest

pytest.importorskip("pyspark", reason="Spark is not installed: pip install evalkit-recsys[spark]")

from spark_logs import ALL, make_logs

from evalkit.config import parse_config
from evalkit.engines._progress import telling
from evalkit.pipeline import run_config
from evalkit.planning.counters import Progress

pytestmark = [pytest.mark.spark, pytest.mark.filterwarnings("ignore")]


def test_partitions_are_counted_to_the_last(session, tmp_path, monkeypatch):
    monkeypatch.setattr("evalkit.engines._progress.PROGRESS_SECONDS", 0.02)
    make_logs(tmp_path)
    text = ALL + '\n[engine]\nkind = "spark"\npartitions = 9\n'
    steps = []

    run_config(parse_config(text, source="x.toml", base=tmp_path), progress=steps.append)

    done = [each.rows for each in steps]
    assert {each.unit for each in steps} == {"partitions"}
    assert done == sorted(done)
    assert steps[0].total_rows >= 9
    assert 0 <= steps[-1].total_rows - done[-1] <= 9
    assert done[-1] > 0
    assert session.sparkContext.getLocalProperty("spark.jobGroup.id") is None


def test_connect_tells_its_stages():
    """A stand-in: `test_doors.py` runs Connect itself, where stderr is no terminal."""
    handlers, steps = [], []
    session = SimpleNamespace(
        registerProgressHandler=handlers.append, removeProgressHandler=handlers.remove
    )
    stage = SimpleNamespace

    with telling(session, steps.append, 3):
        cut = stage(stage_id=0, num_tasks=2, num_completed_tasks=2)
        handlers[0](stages=[cut], inflight_tasks=0, operation_id="x", done=False)
        measured = stage(stage_id=1, num_tasks=3, num_completed_tasks=1)
        handlers[0](stages=[measured], inflight_tasks=2, operation_id="x", done=False)
        handlers[0](stages=None, inflight_tasks=0, operation_id="x", done=True)

    assert steps[0] == Progress("spark", 2, 3, "partitions")
    assert steps[1:] == [Progress("spark", 3, 5, "partitions")] * 2
    assert handlers == []
