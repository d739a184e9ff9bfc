"""Files of every form, and what hangs on the order of their rows: the bytes of one process."""

import gzip
import shutil
from pathlib import Path

import polars as pl
import pytest

pytest.importorskip("pyspark", reason="Spark is not installed: pip install evalkit-recsys[spark]")

from example_logs import write_example_logs
from on_spark import both, check
from passes import first_difference
from spark_logs import ALL, ORDERS, PLAIN, make_copies, make_logs

from evalkit.engines import _spark

pytestmark = [pytest.mark.spark, pytest.mark.filterwarnings("ignore")]

ROOT = Path(__file__).parents[2]


def cut(folder, name, n_files):
    """A table in several files of several row groups, where rows stand in no order; its path."""
    path = folder / f"{name}.parquet"
    rows = pl.read_parquet(path)
    path.unlink()
    (folder / name).mkdir()
    for number, part in enumerate(rows.iter_slices(-(-rows.height // n_files))):
        part.write_parquet(folder / name / f"part-{number}.parquet", row_group_size=50)
    return f'path = "{name}/*.parquet"'


@pytest.mark.parametrize("name", ORDERS)
def test_rows_keep_the_order_of_their_files(session, tmp_path, name, monkeypatch):
    monkeypatch.setattr(_spark, "ROWS_OF_CUT", 120)  # files fall into several pieces
    text = make_copies(tmp_path, name)
    for table, n_files in {"a": 3, "b": 3, "truth": 2}.items():
        text = text.replace(f'path = "{table}.parquet"', cut(tmp_path, table, n_files))

    check(text, tmp_path)


def write_csv(frame, path):
    frame.write_csv(path.with_suffix(".csv"))


def write_gzip(frame, path):
    with gzip.open(path.with_suffix(".csv.gz"), "wb") as file:
        frame.write_csv(file)


def write_lines(frame, path):
    frame.write_ndjson(path.with_suffix(".ndjson"))


def write_arrow(frame, path):
    frame.write_ipc(path.with_suffix(".arrow"))


FORMATS = {".csv": write_csv, ".csv.gz": write_gzip, ".ndjson": write_lines, ".arrow": write_arrow}


def test_formats_stand_side_by_side(session, tmp_path):
    make_logs(tmp_path)
    text = ALL
    for (suffix, write), name in zip(FORMATS.items(), ("truth", "a", "b", "train"), strict=True):
        path = tmp_path / f"{name}.parquet"
        write(pl.read_parquet(path), path)
        path.unlink()
        text = text.replace(f'"{name}.parquet"', f'"{name}{suffix}"')
    users = pl.read_parquet(tmp_path / "users.parquet")
    users.write_csv(tmp_path / "users.tsv", separator="\t")
    text = text.replace("users.parquet", "users.tsv")

    check(text, tmp_path)


def test_folders_hidden_names_and_patterns(session, tmp_path):
    make_logs(tmp_path)
    truth = pl.read_parquet(tmp_path / "truth.parquet")
    for country, rows in truth.drop_nulls("country").group_by("country"):
        folder = tmp_path / "days [x]" / f"country={country[0]}"
        folder.mkdir(parents=True)
        rows.drop("country").write_parquet(folder / "part*0.parquet")
    shown = pl.read_parquet(tmp_path / "a.parquet")
    shown.head(100).write_parquet(tmp_path / "_hidden.parquet")
    shown.slice(100).write_parquet(tmp_path / "a.parquet")
    text = ALL.replace('path = "truth.parquet"', 'path = "days [[]x]/"')
    text = text.replace('path = "a.parquet"', 'path = ["_hidden.parquet", "a.parquet"]')

    check(text, tmp_path)


def test_users_made_by_sql_and_times_in_nanoseconds(session, tmp_path):
    at = pl.from_epoch(pl.Series("at", range(40)), time_unit="ns")
    make_logs(tmp_path, item=lambda ids: at.gather(ids).cast(pl.Datetime("ns")))
    shown = pl.read_parquet(tmp_path / "a.parquet")
    shown.with_columns(user="u" + pl.col("user").cast(pl.String)).write_parquet(
        tmp_path / "a.parquet"
    )
    text = PLAIN.replace(
        'path = "a.parquet"',
        'path = "a.parquet"\n'
        'columns = { user = "cast(substr(user, 2) as bigint)", item = "item", rank = "rank" }',
    )

    check(text, tmp_path)


CONFIGS = [
    path for path in sorted((ROOT / "configs").glob("*.toml")) if "s3://" not in path.read_text()
]


@pytest.mark.parametrize("config", CONFIGS, ids=lambda path: path.stem)
def test_configs_that_read_files(session, tmp_path, config):
    day = "2026-11-20"
    (tmp_path / "evalkit").mkdir()
    (tmp_path / "evalkit" / "demo").symlink_to(ROOT / "evalkit" / "demo")
    write_example_logs(tmp_path, [day])
    shutil.copytree(ROOT / "configs", tmp_path / "configs")
    text = config.read_text().replace("{day}", day)

    one, spark = both(text, tmp_path / "configs")

    assert not first_difference(one, spark)
    assert one.status == 0, one.said


def test_a_file_that_executors_do_not_have_is_told(session, tmp_path, monkeypatch):
    from evalkit.sources import pieces

    make_logs(tmp_path)
    elsewhere = lambda path: str(tmp_path / "elsewhere" / Path(path).name)  # noqa: E731
    monkeypatch.setattr(pieces.os.path, "abspath", elsewhere)

    _, spark = both(PLAIN, tmp_path)

    assert spark.status == 4
    assert "spark-failed: an executor cannot open a file that is here" in spark.said


def test_a_user_with_very_many_rows(session, tmp_path):
    make_logs(tmp_path)
    many = pl.DataFrame({"user": [17] * 300_000, "item": range(100, 300_100)})
    shown = pl.read_parquet(tmp_path / "a.parquet")
    ranks = pl.int_range(1, 300_001).alias("rank")
    long = many.with_columns(ranks, score=-pl.int_range(0, 300_000).cast(pl.Float64))
    shown = shown.filter(pl.col("user") != 17)
    long = long.select(pl.col(name).cast(dtype) for name, dtype in shown.schema.items())
    pl.concat([shown, long]).write_parquet(tmp_path / "a.parquet")
    train = pl.read_parquet(tmp_path / "train.parquet")
    pl.concat([train, many]).write_parquet(tmp_path / "train.parquet")

    check(ALL, tmp_path)
