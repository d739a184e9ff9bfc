"""Delta and Iceberg tables are read at one version, which the report names."""

import polars as pl
import pytest

from evalkit.config import build_config
from evalkit.config.credentials import storing
from evalkit.errors import DataError
from evalkit.pipeline import key_of_run, run_config
from evalkit.sources import versions

TRUTH = {"user": [1, 2], "item": [10, 20]}
RANKINGS = {"user": [1, 1, 2], "item": [10, 11, 21], "rank": [1, 2, 1]}
MORE = {"user": [3], "item": [30]}


def config_of(truth, rankings, **more):
    return build_config(
        {
            "truth": {"path": str(truth), **more},
            "rankings": [
                {"model": "als", "path": str(rankings), "columns": {"rank": "rank"}},
            ],
            "metrics": {"names": ["recall@1"]},
        },
        name="job",
    )  # fmt: skip


@pytest.fixture
def delta(tmp_path):
    pytest.importorskip("deltalake", reason='pip install "evalkit-recsys[delta]"')
    folder = tmp_path / "truth"
    pl.DataFrame(TRUTH).write_delta(folder)
    pl.DataFrame(RANKINGS).write_parquet(tmp_path / "als.parquet")
    return folder


def test_delta_table_is_read_without_the_rows_it_no_longer_has(delta, tmp_path):
    pl.DataFrame(MORE).write_delta(delta, mode="append")
    pl.DataFrame(TRUTH).write_delta(delta, mode="overwrite")

    report = run_config(config_of(delta, tmp_path / "als.parquet"))

    assert report.counts.truth.rows == 2
    assert report.value("recall@1") == 0.5
    assert report.inputs[0].paths == (f"{delta} (delta version 2)",)


def test_run_key_of_a_delta_table_changes_with_its_version(delta, tmp_path):
    config = config_of(delta, tmp_path / "als.parquet")
    first = key_of_run(config)

    assert first is not None
    assert key_of_run(config) == first
    assert run_config(config).run_key == first
    pl.DataFrame(MORE).write_delta(delta, mode="append")
    assert key_of_run(config) != first


def test_folder_that_is_no_delta_table_is_refused(tmp_path):
    pytest.importorskip("deltalake")
    (tmp_path / "truth").mkdir()
    pl.DataFrame(RANKINGS).write_parquet(tmp_path / "als.parquet")

    with pytest.raises(DataError) as caught:
        run_config(config_of(tmp_path / "truth", tmp_path / "als.parquet", format="delta"))

    assert "Delta table cannot be read" in str(caught.value)


@pytest.fixture
def iceberg(tmp_path):
    pytest.importorskip("pyiceberg", reason='pip install "evalkit-recsys[iceberg]"')
    from pyiceberg.catalog.sql import SqlCatalog

    warehouse = tmp_path / "warehouse"
    warehouse.mkdir()
    catalog = SqlCatalog(
        "c", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=f"file://{warehouse}"
    )
    catalog.create_namespace("logs")
    rows = pl.DataFrame(TRUTH).to_arrow()
    table = catalog.create_table("logs.truth", schema=rows.schema)
    table.append(rows)
    pl.DataFrame(RANKINGS).write_parquet(tmp_path / "als.parquet")
    yield table
    catalog.close()


@pytest.mark.filterwarnings("ignore")  # of pyiceberg and of polars without polars-iceberg
def test_iceberg_table_is_read_at_its_last_snapshot(iceberg, tmp_path):
    folder = iceberg.location().removeprefix("file://")
    first = key_of_run(config_of(folder, tmp_path / "als.parquet"))
    iceberg.append(pl.DataFrame(MORE).to_arrow())

    report = run_config(config_of(folder, tmp_path / "als.parquet"))

    snapshot = iceberg.refresh().metadata.current_snapshot_id
    assert report.counts.truth.rows == 3
    assert report.inputs[0].paths == (f"{folder} (iceberg version {snapshot})",)
    assert report.run_key != first


@pytest.mark.filterwarnings("ignore")
def test_iceberg_metadata_file_names_the_snapshot(iceberg, tmp_path):
    older = iceberg.metadata_location.removeprefix("file://")
    iceberg.append(pl.DataFrame(MORE).to_arrow())

    report = run_config(config_of(older, tmp_path / "als.parquet"))

    assert report.counts.truth.rows == 2


@pytest.mark.parametrize("path", ["s3://lake/truth", "gs://lake/truth"])
def test_every_wait_for_the_store_of_a_table_has_an_end(path):
    assert versions._options(path) == {"timeout": "300s"}
    with storing({"aws_secret_access_key": "x", "max_retries": "1"}):
        assert versions._options(path)["read_timeout"] == "15s"
    assert versions._options("/lake/truth") == {}
