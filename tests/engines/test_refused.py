"""What does not work on Spark is refused before a job starts, whatever asks for it."""

import pytest

pytest.importorskip("pyspark", reason="Spark is not installed: pip install evalkit-recsys[spark]")

from spark_logs import make_logs

import evalkit.spark
from evalkit.engines import _spark
from evalkit.errors import Errors, EvalkitError

pytestmark = [pytest.mark.spark, pytest.mark.filterwarnings("ignore")]

ASKED = {
    "numba": ({"policies": {"ties": "numba"}}, "not-on-spark", 'ties = "numba"'),
    "last": ({"policies": {"duplicates": "last"}}, "not-on-spark", 'duplicates = "last"'),
    "profile": ({"profile": "ranx"}, "not-on-spark", "looks at the order of rows"),
    "rows": ({"drop": ("rank", "score")}, "not-on-spark", "in the order of their rows"),
    "aggregate": ({"where": {"rankings": "item < avg(item)"}}, "bad-sql", ""),
    "window": ({"where": {"rankings": "row_number() over (order by item) < 3"}}, "bad-sql", ""),
    "subquery": ({"where": {"truth": "item in (select 1)"}}, "bad-sql", ""),
    "column": (
        {"columns": {"rankings": {"user": "max(user)", "item": "item", "score": "score"}}},
        "bad-sql",
        "",
    ),
}


@pytest.mark.parametrize("what", ASKED)
def test_what_looks_beyond_its_row_is_refused_before_a_job(session, tmp_path, monkeypatch, what):
    for each in ("_measured", "find_stats", "check_around"):
        monkeypatch.setattr(_spark, each, lambda *_, **__: pytest.fail("a job began"))
    make_logs(tmp_path)
    truth, shown = (
        session.read.parquet(str(tmp_path / f"{name}.parquet")) for name in ("truth", "a")
    )
    asked, code, said = ASKED[what]
    asked = dict(asked)
    shown = shown.drop(*asked.pop("drop", ("rank",)))

    with pytest.raises(EvalkitError) as caught:
        evalkit.spark.evaluate(truth, {"a": shown}, metrics=["RR"], **asked)

    found = caught.value.errors if isinstance(caught.value, Errors) else (caught.value,)
    assert {each.code for each in found} == {code}
    assert any(said in each.message for each in found)
