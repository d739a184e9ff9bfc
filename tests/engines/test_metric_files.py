"""Metrics in files of Python go with the job: executors need not have the files."""

import re
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="Spark is not installed: pip install evalkit-recsys[spark]")

from on_spark import check
from spark_logs import PLAIN, make_logs, make_rows

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
