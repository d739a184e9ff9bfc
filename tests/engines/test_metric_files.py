"""Metrics in files of Python go with the job: executors need not have the files."""

import re
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="Spark is not installed: pip install evalkit-recsys[spark]")

from on_spark import check
from spark_logs import PLAIN, make_logs, make_rows

import evalkit
from evalkit.engines import _spark

pytestmark = [pytest.mark.spark, pytest.mark.filterwarnings("ignore")]

HOWTO = Path(__file__).parents[2] / "docs" / "adding-a-metric.md"
BLOCKS = re.findall(r"```python\n(.*?)```", HOWTO.read_text(encoding="utf-8"), re.DOTALL)
FILES = {re.search(r'name="(\w+)"', block)[1]: block for block in BLOCKS}
RATED = '[[ratings]]\nmodel = "a"\npath = "a.parquet"\n[metrics]\nnames = ["within", "RMSE"]\n'
TEXTS = {
    "half_life": PLAIN.replace('"AP"', '"half_life(ranks=3)@{2,5}"')
    + '[segments]\nkind = { by = "n_relevant", quantiles = 2 }\n',
    "within": RATED,
}


@pytest.mark.parametrize("name", TEXTS)
def test_own_metrics(session, tmp_path, monkeypatch, name):
    (make_logs if name == "half_life" else make_rows)(tmp_path)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "mine.py").write_text(FILES[name])
    measure = _spark._measured

    def elsewhere(*args):
        """While executors measure, the file is not where the driver has it."""
        (tmp_path / "mine").rename(tmp_path / "moved")
        found = measure(*args)
        (tmp_path / "moved").rename(tmp_path / "mine")
        return found

    monkeypatch.setattr(_spark, "_measured", elsewhere)
    text = TEXTS[name].replace("names =", 'files = ["mine/mine.py"]\nnames =')

    found = check(text, tmp_path, per_user=name == "half_life")

    assert name in found.said


def test_a_function_of_this_process_goes_with_the_job(session, tmp_path):
    def starts_well(relevances):
        return relevances[:2].any()

    make_logs(tmp_path)
    asked = {"metrics": ["RR", starts_well], "per_user": True}
    tables = str(tmp_path / "truth.parquet"), {"a": str(tmp_path / "a.parquet")}

    here = evalkit.evaluate(*tables, **asked)
    there = evalkit.evaluate(*tables, **asked, engine={"kind": "spark", "partitions": 2})

    assert 0 < here.value("starts_well") < 1
    assert [each.value for each in there.estimates] == [each.value for each in here.estimates]
    assert there.per_user("starts_well").equals(here.per_user("starts_well"))
