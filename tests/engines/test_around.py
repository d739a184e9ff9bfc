"""What executors must see of this process: its files, and the folder of runs."""

from pathlib import Path

import polars as pl
import pytest

pytest.importorskip("pyspark", reason="Spark is not installed: pip install evalkit-recsys[spark]")

from on_spark import both
from spark_logs import PLAIN, make_logs

from evalkit.config import parse_config
from evalkit.engines import _around, _spark, _values
from evalkit.errors import MachineError, RequestError
from evalkit.pipeline import run_config

pytestmark = [pytest.mark.spark, pytest.mark.filterwarnings("ignore")]

ON_SPARK = '\n[engine]\nkind = "spark"\npartitions = 2\n'


@pytest.fixture
def elsewhere(monkeypatch):
    """As if executors ran on other machines."""
    monkeypatch.setattr(_spark, "is_here", lambda session: False)


def measure(text, folder, values):
    config = parse_config(text + ON_SPARK, source="x.toml", base=folder)
    return run_config(config, per_user=True, per_user_folder=values)


def test_only_a_local_master_is_here(session):
    assert _around.is_here(session)
    assert not _around.is_here(object())


@pytest.mark.parametrize("is_there", [True, False])
def test_a_file_that_executors_see_otherwise_is_refused_before_the_job(
    session, tmp_path, monkeypatch, elsewhere, is_there
):
    make_logs(tmp_path)
    size = _around.os.path.getsize(tmp_path / "b.parquet")
    if is_there:
        monkeypatch.setattr(_around.os.path, "getsize", lambda path: size + 1)
        said = f"b.parquet ({size + 1:,} bytes here, {size:,} there)"
    else:
        lacking = tmp_path / "lacking" / "b.parquet"
        monkeypatch.setattr(_spark.os.path, "abspath", lambda path: str(lacking))
        monkeypatch.setattr(_around.os.path, "isfile", lambda path: True)
        monkeypatch.setattr(_around.os.path, "getsize", lambda path: size)
        said = "b.parquet (no such file or directory there)"
    monkeypatch.setattr(_spark, "_measured", lambda *_: pytest.fail("a job began"))

    _, spark = both(PLAIN, tmp_path)

    assert spark.status == 2
    assert spark.said.startswith("not-on-spark: an executor does not see a file as")
    assert "parquet (" in spark.said
    assert said.partition(" ")[2] in spark.said


@pytest.mark.parametrize("is_shared", [True, False])
def test_executors_write_values_where_they_see_the_folder(
    session, tmp_path, monkeypatch, elsewhere, is_shared
):
    make_logs(tmp_path)
    values = tmp_path / "values"
    values.mkdir()
    if not is_shared:
        monkeypatch.setattr(_around, "_read", lambda folder, name: "another")

    kept = measure(PLAIN, tmp_path, values).per_user_values

    whole = tmp_path / "whole"
    whole.mkdir()
    alone = run_config(
        parse_config(PLAIN, source="x.toml", base=tmp_path), per_user=True, per_user_folder=whole
    )
    assert len(kept.files) == (2 if is_shared else 1)
    assert kept.table().collect().equals(alone.per_user_values.table().collect())


def test_what_no_partial_names_is_not_taken(tmp_path):
    from evalkit.kinds.rankings.kind import RankingSums
    from evalkit.kinds.rankings.merge import Origin

    config = parse_config(PLAIN, source="x.toml", base=tmp_path)

    def sums(users):
        frame = pl.DataFrame({"u": users, **dict.fromkeys(LABELS, [0.5] * len(users))})
        found = RankingSums(Origin("t", ("a",), ("u",), ()), users={"a": [frame]})
        found.models, found.tables = {"a": None}, {"a": 0}
        return found

    LABELS = [each.label for each in config.requests]
    first = _values.write_values(tmp_path, 1, config, True, sums([2, 1]))
    again = _values.write_values(tmp_path, 1, config, True, sums([2, 1]))  # a retry
    other = _values.write_values(tmp_path, 2, config, True, sums([3]))
    _values.write_values(tmp_path, 2, config, True, sums([4]))  # what nobody names

    found = _values.values_of(tmp_path, [*first, *other], config, True, sums([]))

    assert first == again
    assert found.table().collect()["u"].to_list() == [1, 2, 3]
    path = Path(tmp_path, *other)
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(MachineError, match="not here as an executor wrote it"):
        _values.values_of(tmp_path, other, config, True, sums([]))
    with pytest.raises(MachineError, match="an executor cannot write"):
        _values.write_values(tmp_path / "gone", 1, config, True, sums([1]))


TOO_MANY = {
    "wilcoxon": '[statistics]\nbaseline = "a"\ntest = "wilcoxon"\n',
    "cluster": "[statistics]\ncluster = \"coalesce(country, 'none')\"\n",
    "without bounds": '[statistics]\nmethod = "bootstrap"\nreplicates = 100\n',
}


@pytest.mark.parametrize("what", TOO_MANY)
def test_numbers_of_users_that_the_driver_cannot_take_are_refused(
    session, tmp_path, monkeypatch, what
):
    make_logs(tmp_path)
    text = PLAIN.replace('"AP"', '"DCG@5"') + TOO_MANY[what]
    monkeypatch.setattr("evalkit.engines._global_stats.most_numbers", lambda session: 100)
    monkeypatch.setattr(_spark, "_measured", lambda *_: pytest.fail("a job began"))

    with pytest.raises(RequestError, match=what) as caught:
        run_config(parse_config(text + ON_SPARK, source="x.toml", base=tmp_path))

    assert caught.value.code == "not-on-spark"
    users = pl.read_parquet(tmp_path / "truth.parquet")["user"].n_unique()
    assert f"of each of {users} users" in caught.value.message


@pytest.mark.parametrize(
    ("said", "most"), [("1g", 1 << 27), ("512MB", 1 << 26), ("8", 1), ("0", 1 << 62)]
)
def test_the_driver_takes_what_spark_lets_it(said, most):
    from evalkit.engines._global_stats import most_numbers

    class Session:
        conf = {"spark.driver.maxResultSize": said}  # noqa: RUF012

    assert most_numbers(Session) == most
