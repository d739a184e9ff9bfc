"""Every format opens as the same table, lazily, with ids as they stand."""

import gzip
from pathlib import Path

import polars as pl
import pytest

from evalkit.config import RankingsColumns, RankingsTable, TruthColumns, TruthTable
from evalkit.sources import Table, open_rankings, open_truth, reading

ROWS = pl.DataFrame({"user": [1, 1, 2], "item": [10, 11, 10], "relevance": [3.0, 0.5, 1.0]})
TREC_QRELS = "1 0 10 3\n1\t0\t11\t0.5\n2   0 10 1\n"


def write(frame: pl.DataFrame, path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    match path.suffixes:
        case [*_, ".parquet"]:
            frame.write_parquet(path)
        case [*_, ".arrow" | ".feather" | ".ipc"]:
            frame.write_ipc(path)
        case [*_, ".csv"]:
            frame.write_csv(path)
        case [*_, ".tsv"]:
            frame.write_csv(path, separator="\t")
        case [*_, ".csv", ".gz"]:
            path.write_bytes(gzip.compress(frame.write_csv().encode()))
        case _:
            frame.write_ndjson(path)
    return path


def truth_at(*paths: Path | str, format: str | None = None, where: str | None = None) -> Table:
    columns = TruthColumns(relevance="relevance")
    return open_truth(
        TruthTable(path=tuple(map(str, paths)), format=format, columns=columns, where=where)
    )


def rows_of(table: Table) -> list[tuple[object, ...]]:
    with reading(table):
        return table.frame.collect(engine="streaming").rows()


@pytest.mark.parametrize(
    "name",
    "a.parquet a.arrow a.feather a.ipc a.csv a.tsv a.csv.gz a.ndjson a.jsonl".split(),
)
def test_every_format_gives_the_same_rows(tmp_path, name):
    table = truth_at(write(ROWS, tmp_path / name))

    assert table.frame.collect_schema() == pl.Schema(
        {"user_0": pl.Int64, "item": pl.Int64, "relevance": pl.Float64}
    )
    assert rows_of(table) == ROWS.rows()


@pytest.mark.parametrize(
    "name", ["a[1].parquet", "a[1].arrow", "a[1].csv", "a[1].ndjson", "a*.csv"]
)
def test_brackets_in_a_name_that_exists_are_meant_literally(tmp_path, name):
    write(ROWS.head(1), tmp_path / name.replace("[1]", "1").replace("*", "1"))

    table = truth_at(write(ROWS, tmp_path / name))

    assert table.files == (str(tmp_path / name),)
    assert rows_of(table) == ROWS.rows()


def test_a_glob_inside_a_folder_with_brackets_is_found(tmp_path):
    write(ROWS, tmp_path / "day[1]" / "a.parquet")

    assert rows_of(truth_at(tmp_path / "day[1]" / "*.parquet")) == ROWS.rows()


def test_arrow_streams_are_read_too(tmp_path):
    ROWS.write_ipc_stream(tmp_path / "a.arrow")

    assert rows_of(truth_at(tmp_path / "a.arrow")) == ROWS.rows()


def test_files_follow_one_another_by_path_whatever_the_order_given(tmp_path):
    late = write(ROWS.tail(1), tmp_path / "b" / "a.parquet")
    early = write(ROWS.head(2), tmp_path / "a" / "z.parquet")

    table = truth_at(late, tmp_path / "a", tmp_path / "*" / "z.parquet")

    assert table.files == (str(early), str(late))
    assert rows_of(table) == ROWS.rows()


def test_a_directory_is_searched_through_and_markers_are_left_out(tmp_path):
    write(ROWS, tmp_path / "logs" / "deep" / "a.parquet")
    for name in ("_SUCCESS", ".a.parquet.crc", "_temporary/b.parquet", "notes.md"):
        (tmp_path / "logs" / name).parent.mkdir(exist_ok=True)
        (tmp_path / "logs" / name).write_text("no data")

    assert rows_of(truth_at(tmp_path / "logs")) == ROWS.rows()


def test_a_list_may_mix_formats(tmp_path):
    first = write(ROWS.head(1), tmp_path / "a.csv")
    second = write(ROWS.slice(1, 1), tmp_path / "b.parquet")
    third = write(ROWS.tail(1), tmp_path / "c.ndjson")

    assert rows_of(truth_at(first, second, third)) == ROWS.rows()


# ---------------------------------------------------------------- partitions


def test_partition_folders_are_columns(tmp_path):
    for day, frame in ((1, ROWS.head(2)), (2, ROWS.tail(1))):
        write(frame, tmp_path / f"day={day}" / "kind=buy%20now" / "a.parquet")
    columns = TruthColumns(user=("user", "day"), relevance="relevance")
    table = TruthTable(path=(str(tmp_path),), columns=columns, where="day = 2 and kind = 'buy now'")

    opened = open_truth(table)

    assert rows_of(opened) == [(2, 2, 10, 1.0)]
    assert "day=1" not in opened.frame.explain()


@pytest.mark.parametrize("suffix", ["parquet", "csv", "arrow", "ndjson"])
def test_partition_values_that_are_no_integers_are_text(tmp_path, suffix):
    for day in ("2024-01-01", "2024-01-02"):
        write(ROWS.head(1), tmp_path / f"day={day}" / f"a.{suffix}")

    table = truth_at(tmp_path, where="day > '2024-01-01'")

    assert rows_of(table) == ROWS.head(1).rows()


def test_a_column_of_the_file_wins_over_a_folder_of_its_name(tmp_path):
    path = write(ROWS, tmp_path / "user=9" / "day=1" / "a.parquet")

    assert rows_of(truth_at(path)) == ROWS.rows()
    assert rows_of(truth_at(path, where="day = 1")) == ROWS.rows()


# ---------------------------------------------------------------- pushdown


def test_columns_and_where_are_pushed_into_the_scan(tmp_path):
    wide = ROWS.with_columns(event=pl.lit("buy"), unused=pl.lit(0))
    table = truth_at(write(wide, tmp_path / "a.parquet"), where="event = 'buy' and user > 1")

    plan = table.frame.explain()

    assert "PROJECT 4/" in plan
    assert "unused" not in plan
    assert "SELECTION:" in plan
    assert "FILTER" not in plan
    assert rows_of(table) == [(2, 10, 1.0)]


def test_pushdown_goes_into_each_of_several_csv_files(tmp_path):
    paths = [write(ROWS, tmp_path / f"{name}.csv") for name in "ab"]

    plan = truth_at(*paths, where="user > 1").frame.explain()

    assert "SELECTION:" in plan
    assert "FILTER" not in plan


# ---------------------------------------------------------------- one type for a column


@pytest.mark.parametrize(
    ("first", "second", "common"),
    [
        (pl.Int32, pl.Int64, pl.Int64),
        (pl.Int64, pl.Int8, pl.Int64),
        (pl.UInt8, pl.UInt64, pl.UInt64),
        (pl.UInt32, pl.Int8, pl.Int64),
        (pl.Int16, pl.UInt8, pl.Int16),
    ],
)
@pytest.mark.parametrize("suffix", ["parquet", "arrow"])
def test_integer_widths_of_files_may_differ(tmp_path, suffix, first, second, common):
    paths = [
        write(ROWS.with_columns(pl.col("user").cast(dtype)), tmp_path / f"{name}.{suffix}")
        for name, dtype in (("a", first), ("b", second))
    ]

    table = truth_at(*paths)

    assert table.frame.collect_schema()["user_0"] == common
    assert rows_of(table) == ROWS.rows() * 2


def test_text_and_categories_of_files_meet_as_text(tmp_path):
    text = ROWS.with_columns(pl.col("user").cast(pl.String))
    paths = [
        write(text, tmp_path / "a.parquet"),
        write(text.with_columns(pl.col("user").cast(pl.Categorical)), tmp_path / "b.parquet"),
        write(text.with_columns(pl.col("user").cast(pl.Enum(["2", "1"]))), tmp_path / "c.parquet"),
    ]

    assert rows_of(truth_at(*paths)) == text.rows() * 3


def test_columns_that_are_not_asked_for_may_differ(tmp_path):
    first = write(ROWS.with_columns(extra=pl.lit(1)), tmp_path / "a.parquet")
    second = write(ROWS.with_columns(extra=pl.lit("x")), tmp_path / "b.parquet")
    third = write(ROWS.select("relevance", "item", "user"), tmp_path / "c.parquet")

    assert rows_of(truth_at(first, second, third)) == ROWS.rows() * 3


# ---------------------------------------------------------------- text files


def csv_types(tmp_path: Path, *texts: str) -> list[pl.DataType]:
    for place, text in enumerate(texts):
        (tmp_path / f"{place}.csv").write_text(text)
    return truth_at(tmp_path / "*.csv").frame.collect_schema().dtypes()


@pytest.mark.parametrize(
    "spelling", ["007", "+7", "7.0", "7e0", " 7", "-0", "9999999999999999999999"]
)
def test_csv_ids_that_are_not_spelt_as_integers_stay_text(tmp_path, spelling):
    rows = "".join(f"{user},1,1\n" for user in range(200))
    (tmp_path / "a.csv").write_text(f"user,item,relevance\n{rows}")
    (tmp_path / "b.csv").write_text(f"item,user,relevance\n1,{spelling},1\n")

    table = truth_at(tmp_path / "a.csv", tmp_path / "b.csv")

    assert table.frame.collect_schema()["user_0"] == pl.String
    assert rows_of(table)[-1] == (spelling, 1, 1)


@pytest.mark.parametrize(
    ("value", "dtype"),
    [("-5", pl.Int64), ("9223372036854775807", pl.Int64), ("18446744073709551615", pl.UInt64)],
)
def test_csv_ids_that_are_integers_are_integers(tmp_path, value, dtype):
    types = csv_types(tmp_path, f"user,item,relevance\n{value},1,1\n,1,1\n")

    assert types[0] == dtype


@pytest.mark.parametrize(
    ("value", "dtype"),
    [("05", pl.Int64), ("1.5", pl.Float64), ("nan", pl.Float64), ("true", pl.Boolean)],
)
def test_csv_relevance_is_read_as_a_number(tmp_path, value, dtype):
    assert csv_types(tmp_path, f"user,item,relevance\n1,1,{value}\n")[2] == dtype


def test_csv_columns_of_an_expression_have_the_type_of_all_rows(tmp_path):
    (tmp_path / "a.csv").write_text("user,item,relevance,stars,zip\n1,2,1,2.5,01\n1,3,1,3,99\n")
    columns = TruthColumns(relevance="stars * 2")

    table = open_truth(
        TruthTable(path=(str(tmp_path / "a.csv"),), columns=columns, where="zip = '01'")
    )

    assert rows_of(table) == [(1, 2, 5.0)]


def test_empty_lines_and_windows_line_ends_are_no_rows(tmp_path):
    (tmp_path / "a.csv").write_bytes(
        b"\xef\xbb\xbfuser,item,relevance\r\n1,2,3\r\n\r\n4,5,6\r\n\r\n"
    )

    assert rows_of(truth_at(tmp_path / "a.csv")) == [(1, 2, 3), (4, 5, 6)]


def test_empty_text_files_beside_others_count_as_no_rows(tmp_path):
    (tmp_path / "a.csv").write_text("")
    write(ROWS, tmp_path / "b.csv")

    assert rows_of(truth_at(tmp_path)) == ROWS.rows()


def test_ndjson_numbers_of_files_are_of_one_kind(tmp_path):
    (tmp_path / "a.ndjson").write_text('{"user": "007", "item": 1, "relevance": 1}\n')
    (tmp_path / "b.ndjson").write_text('{"user": "b", "item": 2, "relevance": 0.5}\n')

    assert rows_of(truth_at(tmp_path)) == [("007", 1, 1.0), ("b", 2, 0.5)]


# ---------------------------------------------------------------- TREC


def test_trec_qrels_need_no_column_names(tmp_path):
    (tmp_path / "qrels.test").write_text(
        f"# a comment\n{TREC_QRELS}\n # another\n3 0 d#4 -1 more\n"
    )

    table = open_truth(TruthTable(path=(str(tmp_path / "qrels.test"),), format="trec"))

    assert table.frame.collect_schema() == pl.Schema(
        {"user_0": pl.String, "item": pl.String, "relevance": pl.Float64}
    )
    assert rows_of(table) == [
        ("1", "10", 3.0), ("1", "11", 0.5), ("2", "10", 1.0), ("3", "d#4", -1.0),
    ]  # fmt: skip


def test_trec_runs_give_the_similarity_and_leave_the_rank(tmp_path):
    text = "301\tQ0\tFBIS3-27\t99\t  2.138276\tSTANDARD more junk\r\n#c\n301 Q0 a#b 1 -1e-3\n"
    (tmp_path / "a.run").write_text(text)

    table = open_rankings(RankingsTable(path=(str(tmp_path / "a.run"),)))

    assert table.frame.collect_schema().names() == ["user_0", "item", "score"]
    assert rows_of(table) == [("301", "FBIS3-27", 2.138276), ("301", "a#b", -1e-3)]


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("sep", [" ", "\t"])
def test_empty_lines_of_trec_files_are_no_rows(tmp_path, sep, end):
    lines = ["", "#c", sep.join(("301", "Q0", "d1", "1", "2.5", "tag")), sep, "", ""]
    (tmp_path / "a.run").write_bytes(end.join(lines).encode())

    table = open_rankings(RankingsTable(path=(str(tmp_path / "a.run"),)))

    assert rows_of(table) == [("301", "d1", 2.5)]


def test_a_trec_tag_may_name_the_model(tmp_path):
    (tmp_path / "a.run").write_text("1 Q0 a 1 2 bm25\n1 Q0 a 1 3 ease\n")
    columns = RankingsColumns(model="tag")

    table = open_rankings(RankingsTable(path=(str(tmp_path / "a.run"),), columns=columns))

    assert rows_of(table) == [("1", "a", 2.0, "bm25"), ("1", "a", 3.0, "ease")]


def test_trec_rows_are_filtered_by_where(tmp_path):
    (tmp_path / "a.qrels").write_text(TREC_QRELS)

    assert rows_of(truth_at(tmp_path / "a.qrels", where="user = '2'")) == [("2", "10", 1.0)]


@pytest.mark.parametrize("separator", [";", "\t", "|"])
def test_a_csv_header_says_what_parts_its_columns(tmp_path, separator):
    ROWS.write_csv(tmp_path / "a.csv", separator=separator)

    assert rows_of(truth_at(tmp_path / "a.csv")) == ROWS.rows()


@pytest.mark.parametrize("name", ["*", "^.*$", "^user$"])
@pytest.mark.parametrize("line", ["{},user,item", "user,item,{}"])
def test_columns_of_csv_that_look_like_patterns_are_no_fault(tmp_path, name, line):
    more = [{"*": 1, "user": 1, "item": 2}, {"*": 1, "user": 1, "item": 1}]
    order = line.format("*").split(",")
    rows = "".join(",".join(str(row[each]) for each in order) + "\n" for row in more)
    (tmp_path / "a.csv").write_text(f"{line.format(name)}\n{rows}")

    table = open_truth(TruthTable(path=(str(tmp_path / "a.csv"),), columns=TruthColumns()))

    assert rows_of(table) == [(1, 2), (1, 1)]
