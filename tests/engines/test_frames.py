"""DataFrames of Spark say what the same files say here, whatever types Spark gives their ids."""

import json

import polars as pl
import pytest

pytest.importorskip("pyspark", reason="Spark is not installed: pip install evalkit-recsys[spark]")

from on_spark import TYPES
from passes import first_difference, outcome_of
from spark_logs import make_logs

import evalkit
import evalkit.spark

pytestmark = [pytest.mark.spark, pytest.mark.filterwarnings("ignore")]

DRAWN = {"method": "bootstrap", "replicates": 100, "baseline": "a"}
SEGMENTS = {"kind": {"by": "kind", "user": "who"}, "n": {"by": "n_relevant", "quantiles": 3}}
OF_FRAMES = [*(set(TYPES) - {"category"})]


def tables_of(folder, read):
    """What is evaluated: of files whatever `read` makes of them."""
    truth, a, b, train, users = (
        read(str(folder / f"{n}.parquet")) for n in ("truth", "a", "b", "train", "users")
    )
    segments = {"kind": {"path": users, **SEGMENTS["kind"]}, "n": SEGMENTS["n"]}
    return (truth, {"a": a, "b": b}), {"train": train, "segments": segments}


def check(session, folder, status=0, **asked):
    """Frames say what files say, but for inputs, where types and paths are told."""
    asked = {"metrics": ["nDCG@{2,5}", "recall@5", "RR"], "statistics": DRAWN, **asked}
    found = []
    for evaluate, read in (
        (evalkit.evaluate, str),
        (evalkit.spark.evaluate, lambda path: session.read.parquet(path).repartition(3)),
    ):
        given, beside = tables_of(folder, read)
        if "columns" in asked:
            del beside["segments"]
        outcome = outcome_of(lambda e=evaluate, g=given, b=beside: e(*g, **{**b, **asked}))
        assert outcome.status == status, outcome.said
        if not status:
            document = json.loads(outcome.said)
            found.append({key: document[key] for key in document if key != "inputs"})
        else:
            found.append(outcome.said)
    return found


@pytest.mark.parametrize("kind", OF_FRAMES)
def test_ids_of_every_type(session, tmp_path, kind):
    make_logs(tmp_path, user=TYPES[kind], item=TYPES["uint64" if kind == "text" else "date"])

    one, spark = check(session, tmp_path, sample=0.7)

    assert spark == one
