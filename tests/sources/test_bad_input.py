"""What is wrong with paths, columns, types and content is told once, with code, place and hint."""

import errno
import os
import pickle
import re
import sys
from collections.abc import Callable, Sequence
from decimal import Decimal
from pathlib import Path

import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.feather as feather
import pyarrow.parquet as pq
import pytest

from evalkit import evaluate
from evalkit.config import (
    LogColumns,
    LogTable,
    RankingsColumns,
    RankingsTable,
    TruthColumns,
    TruthTable,
)
from evalkit.errors import (
    BusyError,
    DataError,
    Errors,
    EvalkitError,
    MachineError,
    RequestError,
)
from evalkit.runs import hold
from evalkit.sources import Table, open_log, open_rankings, open_truth, read_schema, reading

ROWS = pl.DataFrame({"user": [1, 2], "item": [3, 4], "rating": [5.0, 1.0]})


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "logs").mkdir()
    ROWS.write_parquet(tmp_path / "logs" / "truth.parquet")
    return tmp_path / "logs"


def truth_at(
    *paths: Path | str, format: str | None = None, where: str | None = None, **columns: object
) -> Table:
    return open_truth(
        TruthTable(
            path=tuple(map(str, paths)),
            format=format,
            columns=TruthColumns(**columns),
            where=where,
        )
    )


def truth_of(given: object, *, where: str | None = None, **columns: object) -> Table:
    table = TruthTable(path=("memory",), columns=TruthColumns(**columns), where=where)
    return open_truth(table, given)


def rankings_of(given: object, **columns: object) -> Table:
    return open_rankings(RankingsTable(path=("memory",), columns=RankingsColumns(**columns)), given)


def collect(table: Table) -> pl.DataFrame:
    with reading(table):
        return table.frame.collect(engine="streaming")


def fault(act: Callable[[], object], code: str, *, exit_status: int = 3) -> EvalkitError:
    """The one error that `act` raises, with its code and exit status checked."""
    with pytest.raises(EvalkitError) as caught:
        act()
    error = caught.value
    assert error.code == code, str(error)
    assert error.exit_status == exit_status
    assert str(pickle.loads(pickle.dumps(error))) == str(error)
    assert error.at
    assert error.hint
    return error


def codes(act: Callable[[], object]) -> Sequence[str]:
    with pytest.raises(Errors) as caught:
        act()
    return [error.code for error in caught.value.errors]


# ---------------------------------------------------------------- paths


def test_a_misspelt_file_names_its_nearest_sibling(folder):
    error = fault(lambda: truth_at(folder / "trut.parquet"), "path-not-found")

    assert error.at == str(folder / "trut.parquet")
    assert error.hint == f"did you mean '{folder / 'truth.parquet'}'?"


def test_a_link_that_leads_nowhere_is_told(folder):
    (folder / "today.parquet").symlink_to("gone.parquet")

    error = fault(lambda: truth_at(folder / "today.parquet"), "path-not-found")

    assert error.hint == "it is a link to 'gone.parquet', which is not there"


def test_a_misspelt_folder_is_named_in_its_place(folder):
    error = fault(lambda: truth_at(folder.parent / "lgs" / "truth.parquet"), "path-not-found")

    assert error.hint == f"did you mean '{folder}'?"


def test_a_path_that_resembles_nothing_lists_what_is_there(folder):
    error = fault(lambda: truth_at(folder / "zzz"), "path-not-found")

    assert error.hint == f"{folder} holds truth.parquet"


def test_every_path_that_is_wrong_is_told(folder):
    (folder / "empty").mkdir()

    assert codes(lambda: truth_at(folder / "a.parquet", folder / "empty", folder / "*.csv")) == [
        "path-not-found",
        "no-files",
        "no-files",
    ]


def test_an_empty_directory_holds_no_files(tmp_path):
    error = fault(lambda: truth_at(tmp_path), "no-files")

    assert error.message == "the directory is empty"
    assert error.at == str(tmp_path)


def test_a_directory_without_data_says_what_it_holds(tmp_path):
    (tmp_path / "README.md").write_text("hello")

    error = fault(lambda: truth_at(tmp_path), "no-files")

    assert "'README.md'" in error.message
    assert 'format = "parquet"' in error.hint


def test_a_directory_without_files_of_the_format_says_so(folder):
    error = fault(lambda: truth_at(folder, format="csv"), "no-files")

    assert error.message == "the directory holds no csv file, only 'truth.parquet'"


def test_a_glob_that_matches_nothing_says_what_is_there(folder):
    error = fault(lambda: truth_at(folder / "*.csv"), "no-files")

    assert error.at == str(folder / "*.csv")
    assert error.hint == f"{folder} holds truth.parquet"


def test_a_glob_in_a_folder_that_does_not_exist_says_so(folder):
    error = fault(lambda: truth_at(folder.parent / "lgs" / "*.parquet"), "no-files")

    assert "does not exist" in error.hint
    assert str(folder) in error.hint


def test_a_table_without_path_is_an_error():
    fault(lambda: open_truth(TruthTable(path=())), "no-files")


# ---------------------------------------------------------------- formats


def test_a_name_that_tells_no_format_asks_for_it(tmp_path):
    (tmp_path / "qrels.test").write_text("1 0 2 1\n")

    error = fault(lambda: truth_at(tmp_path / "qrels.test"), "unknown-format")

    assert error.at == str(tmp_path / "qrels.test")
    assert 'format = "parquet"' in error.hint
    assert '"trec"' in error.hint


def test_a_name_that_tells_no_format_is_looked_into(folder):
    (folder / "truth.parquet").rename(folder / "truth")

    error = fault(lambda: truth_at(folder / "truth"), "unknown-format")

    assert error.hint == 'it begins like Parquet; write format = "parquet"'


def test_a_misspelt_format_names_the_nearest(folder):
    error = fault(lambda: truth_at(folder, format="parqet"), "unknown-format")

    assert error.message == "no format is called 'parqet'"
    assert error.at == "truth: format"
    assert error.hint == "did you mean 'parquet'?"


def test_a_directory_of_two_formats_is_ambiguous(folder):
    ROWS.write_csv(folder / "truth.csv")

    error = fault(lambda: truth_at(folder), "unknown-format")

    assert error.message == "the directory holds files of several formats: csv, parquet"


@pytest.mark.parametrize(
    ("inside", "name"),
    [("_delta_log/0.json", "Delta"), ("metadata/v1.metadata.json", "Iceberg")],
)
def test_the_files_of_a_versioned_table_are_not_read_behind_its_back(
    folder, inside, name, monkeypatch
):
    (folder / inside).parent.mkdir()
    (folder / inside).write_text("{}")
    for library in ("deltalake", "pyiceberg.table"):
        monkeypatch.setitem(sys.modules, library, None)  # as if it were not installed

    error = fault(lambda: truth_at(folder), "missing-extra", exit_status=2)

    assert error.hint == f'pip install "evalkit-recsys[{name.lower()}]"'


def test_an_object_that_is_no_table_is_refused():
    error = fault(lambda: truth_of(3), "unknown-format")

    assert error.message == "a int is no table"
    assert error.at == "truth (int)"


# ---------------------------------------------------------------- damaged files


def damage(path: Path, *, cut: int | None = None, garble: slice | None = None) -> Path:
    data = bytearray(path.read_bytes())
    if garble is not None:
        data[garble] = b"\xff" * len(data[garble])
    path.write_bytes(bytes(data[:cut]))
    return path


@pytest.mark.parametrize("cut", [0, 4, 50, -1])
def test_a_truncated_parquet_file_is_named_before_anything_is_read(folder, cut):
    ROWS.write_parquet(folder / "z.parquet")
    damage(folder / "z.parquet", cut=cut)

    error = fault(lambda: truth_at(folder), "unreadable-file")

    assert error.at == str(folder / "z.parquet")
    assert "cut short" in error.hint


def test_damage_inside_a_parquet_file_is_named_among_many(folder):
    for name in ("a", "z"):
        ROWS.write_parquet(folder / f"{name}.parquet")
    damage(folder / "z.parquet", garble=slice(4, 40))

    error = fault(lambda: collect(truth_at(folder)), "unreadable-file")

    assert error.at == str(folder / "z.parquet")


def test_damage_is_told_where_batches_are_collected_too(folder):
    damage(folder / "truth.parquet", garble=slice(4, 40))

    def read() -> None:
        table = truth_at(folder / "truth.parquet")
        with reading(table.at):
            for _ in table.stream([pl.all()], most=10):
                pass

    assert fault(read, "unreadable-file").at == str(folder / "truth.parquet")


@pytest.mark.parametrize("suffix", ["arrow", "ndjson", "csv"])
def test_damaged_files_of_other_formats_are_named(tmp_path, suffix):
    (tmp_path / f"a.{suffix}").write_bytes(b'user,item\n{"user": "\xff\xfe,')

    error = fault(lambda: truth_at(tmp_path), "unreadable-file")

    assert error.at == str(tmp_path / f"a.{suffix}")


@pytest.mark.parametrize("ending", ["parquet", "arrow"])
def test_a_decimal_of_too_many_digits_is_named(tmp_path, ending):
    path = tmp_path / f"als.{ending}"
    column = pa.array([Decimal(1)], pa.decimal256(76, 38))
    table = pa.table({"user": [1], "item": [2], "score": column, "more": column})
    if ending == "parquet":
        pq.write_table(table, path)
    else:
        feather.write_feather(table, path)

    with pytest.raises(DataError, match="column 'score' has numbers of 76 digits") as caught:
        evaluate({1: [2]}, path, metrics=["RR"])

    assert (caught.value.code, caught.value.at) == ("bad-type", str(path))


def test_columns_of_pandas_of_one_name_are_named():
    frame = pd.DataFrame([[1, 2, 3]], columns=["user", "item", "item"])

    with pytest.raises(DataError, match="several columns are called item") as caught:
        evaluate({1: [2]}, frame, metrics=["RR"])

    assert caught.value.code == "duplicate-column"


def test_ids_that_are_taken_for_paths_are_told_for_users_and_items():
    with pytest.raises(DataError) as caught:
        evaluate({1: ["a"]}, {1: ["a"]}, metrics=["item_coverage@1"], items=list("abcd"))

    users, items = re.findall(r"pl\.DataFrame\(\{.*?\}\)", caught.value.hint)
    assert (users, items) == ('pl.DataFrame({"user": [...]})', 'pl.DataFrame({"item": [...]})')


def test_text_without_even_a_header_is_empty(tmp_path):
    (tmp_path / "a.csv").write_text("\n")

    error = fault(lambda: truth_at(tmp_path), "unreadable-file")

    assert error.message == "the file is empty: it does not even name columns"


@pytest.mark.parametrize("format", ["csv", "ndjson", "trec"])
def test_parquet_that_is_called_text_is_recognised(folder, format):
    error = fault(lambda: truth_at(folder / "truth.parquet", format=format), "unreadable-file")

    assert error.hint == 'write format = "parquet"'


def test_a_csv_line_with_too_many_fields_is_an_error(tmp_path):
    (tmp_path / "a.csv").write_text("user,item\n1,2\n1,2,3\n")

    error = fault(lambda: collect(truth_at(tmp_path)), "unreadable-file")

    assert "more fields" in error.message


def test_a_file_that_went_away_is_named(folder):
    table = truth_at(folder)
    (folder / "truth.parquet").unlink()

    assert fault(lambda: collect(table), "path-not-found").at == str(folder)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_without_the_right_to_read_is_named(folder):
    (folder / "truth.parquet").chmod(0)

    fault(lambda: truth_at(folder), "unreadable-file")


@pytest.mark.parametrize(
    "pattern",
    ["", "*", "**", "*/*", "*/x.parquet", "**/x.parquet", "d=[12]/*", "d=2", "d=2/x.parquet"],
)
def test_a_folder_without_the_right_to_read_is_never_passed_over(tmp_path, pattern):
    for day in ("d=1", "d=2"):
        (tmp_path / day).mkdir()
        pl.DataFrame({"user": [1], "item": [2]}).write_parquet(tmp_path / day / "x.parquet")
    (tmp_path / "d=2").chmod(0)
    if os.access(tmp_path / "d=2", os.R_OK):
        pytest.skip("this user may read everything")

    error = fault(lambda: truth_at(tmp_path / pattern), "unreadable-file")

    (tmp_path / "d=2").chmod(0o755)
    assert error.at.startswith(str(tmp_path / "d=2"))
    assert "permission denied" in error.message.lower()


def test_what_a_disk_leaves_at_its_top_is_no_data(folder):
    (folder / "lost+found").mkdir()
    (folder / "lost+found" / "a.parquet").write_bytes(b"")

    assert collect(truth_at(folder)).height > 0


@pytest.mark.parametrize(
    ("raised", "code", "kind", "exit_status"),
    [
        (pl.exceptions.PanicException("index out of bounds"), "unreadable-file", DataError, 3),
        (pl.exceptions.ComputeError("bad page"), "unreadable-file", DataError, 3),
        (OSError(errno.EIO, "input/output error"), "unreadable-file", DataError, 3),
        (OSError(errno.ENOSPC, "no space left"), "machine-limit", MachineError, 4),
        (ConnectionRefusedError("refused"), "store-unreachable", BusyError, 75),
    ],
)
def test_whatever_the_reader_raises_has_a_code(raised, code, kind, exit_status):
    def read() -> None:
        with reading("a.parquet"):
            raise raised

    error = fault(read, code, exit_status=exit_status)

    assert isinstance(error, kind)
    assert error.at == "a.parquet"
    assert error.__cause__ is raised


@pytest.mark.parametrize("said", ["Config error: failed to parse", "S3 error: builder error"])
def test_a_wrong_option_of_a_store_is_no_outage(said):
    def read() -> None:
        with reading("s3://lake/a.parquet"):
            raise pl.exceptions.ComputeError(f"object-store error: Generic {said} (s3://lake)")

    assert "[storage]" in fault(read, "unreadable-file").hint


def test_errors_of_evalkit_itself_pass_unchanged():
    mine = DataError("mine", code="mine", at="here")

    with pytest.raises(DataError) as caught, reading("a.parquet"):
        raise mine

    assert caught.value is mine


# ---------------------------------------------------------------- TREC


@pytest.mark.parametrize(
    ("line", "code", "message"),
    [
        ("1 Q0 b", "bad-line", "the line has 3 of 5 fields"),
        ("1 Q0 b 2 high tag", "not-a-number", "score is 'high'"),
    ],
)
def test_a_bad_trec_line_is_named(tmp_path, line, code, message):
    (tmp_path / "a.run").write_text("1 Q0 a 1 2.5 tag\n")
    (tmp_path / "b.run").write_text(f"# comment\n1 Q0 a 1 2.5 tag\n{line}\n")
    table = open_rankings(RankingsTable(path=(str(tmp_path),)))

    error = fault(lambda: collect(table), code)

    assert error.at == f"{tmp_path / 'b.run'}:3"
    assert error.message == message


# ---------------------------------------------------------------- columns


def test_all_missing_columns_are_in_one_error(folder):
    error = fault(
        lambda: truth_at(folder, user="usr", item="itm", relevance="relevance", where="event = 1"),
        "missing-column",
    )

    assert error.message == "truth needs the columns ['usr', 'itm', 'relevance', 'event']"
    assert error.at == str(folder)
    assert error.hint.startswith("it has user, item, rating; ")
    assert 'write user = "user" under [truth.columns]' in error.hint
    assert 'write relevance = "rating" under [truth.columns]' in error.hint


def test_a_missing_column_of_an_expression_is_named(folder):
    error = fault(lambda: truth_at(folder, relevance="ratin * 2"), "missing-column")

    assert error.message == "truth needs the columns ['ratin']"
    assert "did you mean 'rating' in relevance?" in error.hint


@pytest.mark.parametrize("name", ["user id", "user-id", "user"])
def test_a_missing_name_that_is_no_sql_is_a_missing_column(name):
    frame = ROWS.rename({"user": "who"})

    assert repr(name) in fault(lambda: truth_of(frame, user=name), "missing-column").message


@pytest.mark.parametrize(
    ("where", "why"),
    [
        ("rating >", "rating >"),
        ("select 1", "select"),
        ("rating = 'high'", "cannot compare string with numeric"),
        ("rating", "Boolean"),
        ("soundex(item) = 1", "soundex"),
        ("rating > 1; drop table x", ";"),
    ],
)
def test_bad_sql_in_where_is_told_before_anything_is_read(folder, where, why):
    error = fault(lambda: truth_at(folder, where=where), "bad-sql")

    assert repr(where) in error.message
    assert why in error.message
    assert error.at == f"{folder}: truth.where"


def test_dates_compared_with_text_are_told_how_to_write_them():
    frame = ROWS.with_columns(day=pl.date(2024, 1, 1))

    error = fault(lambda: truth_of(frame, where="day = '2024-01-01'"), "bad-sql")

    assert error.hint == "write dates as date '2024-01-31'"


@pytest.mark.parametrize("text", ["cast(user as bigint", "user +", "1", "lower(rating)"])
def test_bad_sql_in_a_column_names_the_column(folder, text):
    error = fault(lambda: truth_at(folder, user=text), "bad-sql")

    assert error.at == f"{folder}: truth.columns.user"


def test_a_cast_that_data_refuses_says_which_value():
    table = truth_of(ROWS.with_columns(user=pl.Series(["1", "x"])), user="cast(user as bigint)")

    error = fault(lambda: collect(table), "bad-cast")

    assert '"x"' in error.message
    assert "try_cast" in error.hint


# ---------------------------------------------------------------- types


@pytest.mark.parametrize("key", ["user", "item"])
def test_float_ids_are_refused_with_the_cast_to_write(key):
    frame = ROWS.with_columns(pl.col(key).cast(pl.Float64))

    error = fault(lambda: truth_of(frame), "float-id")

    assert error.message == f"{key} is Float64, and floats are no ids"
    assert error.at == f"truth (polars DataFrame): {key} = '{key}'"
    assert error.hint == f'write {key} = "cast({key} as bigint)" under [truth.columns]'


def test_float_ids_in_lists_are_refused():
    frame = pl.DataFrame({"user": [1], "item": [[1.0, 2.0]]})

    fault(lambda: rankings_of(frame), "float-id")


@pytest.mark.parametrize("key", ["rank", "score"])
def test_text_where_a_ranking_needs_numbers_is_refused(key):
    frame = ROWS.with_columns(pl.lit("high").alias("x"))

    error = fault(lambda: rankings_of(frame, **{key: "x"}), "not-a-number")

    assert error.message == f"{key} is String, not a number"
    assert f'{key} = "cast(x as double)" under [rankings.columns]' in error.hint


def test_text_as_relevance_is_refused(folder):
    ROWS.with_columns(rating=pl.lit("good")).write_parquet(folder / "truth.parquet")

    error = fault(lambda: truth_at(folder, relevance="rating"), "not-a-number")

    assert error.at == f"{folder}: relevance = 'rating'"


def test_a_date_as_relevance_is_refused():
    frame = ROWS.with_columns(rating=pl.date(2024, 1, 1))

    fault(lambda: truth_of(frame, relevance="rating"), "not-a-number")


def test_csv_text_among_numbers_is_shown(tmp_path):
    (tmp_path / "a.csv").write_text("user,item,rating\n1,2,5\n1,3,good\n")

    error = fault(lambda: truth_at(tmp_path, relevance="rating"), "not-a-number")

    assert error.message == "column 'rating' must be a number, and one of its values is 'good'"
    assert error.at == f"{tmp_path / 'a.csv'}: column 'rating'"


LISTS = pl.DataFrame({"user": [1], "item": [[1, 2]], "score": [[0.2, 0.1]], "n": [1]})


@pytest.mark.parametrize(
    ("act", "message"),
    [
        (lambda: truth_of(LISTS), "item is List(Int64), a list"),
        (lambda: rankings_of(LISTS, user="item"), "user is List(Int64), a list"),
        (lambda: rankings_of(LISTS, score="n"), "score is Int64 while item is a list"),
        (lambda: rankings_of(LISTS, item="n", score="score"), "score is List(Float64), a list"),
        (lambda: rankings_of(LISTS, rank="item"), "rank is List(Int64), a list"),
        (lambda: rankings_of(LISTS, rank="n"), "rank is Int64"),
        (lambda: rankings_of(LISTS, item="n", model="item"), "model is List(Int64), a list"),
    ],
)
def test_lists_where_none_belong_are_refused(act, message):
    assert fault(act, "bad-type").message == message


def test_lists_in_a_joined_log_are_refused():
    columns = LogColumns(label="n")

    fault(lambda: open_log(LogTable(path=("memory",), columns=columns), LISTS), "bad-type")


@pytest.mark.parametrize("key", ["user", "item", "relevance"])
def test_structs_are_refused(key):
    frame = ROWS.select("user", "item", x=pl.struct("user", "item"))

    error = fault(lambda: truth_of(frame, **{key: "x"}), "bad-type")

    assert error.message.startswith(f"{key} is Struct(")


def test_a_pandas_column_of_mixed_types_is_refused():
    frame = pd.DataFrame({"user": ["a", 1], "item": [1, 2]})

    error = fault(lambda: truth_of(frame), "bad-type")

    assert error.at == "truth (pandas DataFrame)"
    assert "astype(str)" in error.hint


def test_all_wrong_types_are_told_at_once():
    frame = ROWS.with_columns(pl.col("user").cast(pl.Float32), rating=pl.lit("x"))

    assert codes(lambda: truth_of(frame, relevance="rating")) == ["float-id", "not-a-number"]


# ---------------------------------------------------------------- many files


@pytest.mark.parametrize("suffix", ["parquet", "arrow"])
@pytest.mark.parametrize(
    "dtype",
    [pl.String, pl.Float64, pl.Date, pl.List(pl.Int64)],
    ids=["text", "float", "date", "list"],
)
def test_files_with_other_types_are_named_with_the_column(tmp_path, suffix, dtype):
    for name, frame in (
        ("a", ROWS),
        ("b", ROWS.with_columns(item=pl.Series([None, None], dtype=dtype))),
    ):
        (frame.write_parquet if suffix == "parquet" else frame.write_ipc)(
            tmp_path / f"{name}.{suffix}"
        )

    error = fault(lambda: truth_at(tmp_path), "schema-differs")

    assert error.message.startswith("column 'item' is ")
    assert f"but Int64 in {tmp_path / f'a.{suffix}'}" in error.message
    assert error.at == str(tmp_path / f"b.{suffix}")


def test_signed_and_unsigned_ids_of_full_width_do_not_meet(folder):
    ROWS.with_columns(pl.col("user").cast(pl.UInt64)).write_parquet(folder / "u.parquet")

    fault(lambda: truth_at(folder), "schema-differs")


def test_files_without_a_column_that_others_have_are_named(folder):
    ROWS.drop("rating").write_parquet(folder / "b.parquet")

    error = fault(lambda: truth_at(folder, relevance="rating"), "schema-differs")

    assert error.at == str(folder / "b.parquet")
    assert "'rating'" in error.message


def test_a_file_outside_the_partitions_is_named(folder):
    (folder / "day=1").mkdir()
    ROWS.write_parquet(folder / "day=1" / "a.parquet")

    error = fault(lambda: truth_at(folder, where="day = 1"), "schema-differs")

    assert error.at == str(folder / "truth.parquet")


# ---------------------------------------------------------------- schema alone


def test_a_schema_is_read_with_the_same_errors(folder):
    path = str(folder / "nothing.parquet")

    fault(lambda: read_schema([path], role="truth"), "path-not-found")


def test_a_name_of_other_bytes_than_utf8_is_told(tmp_path):
    rows = pl.DataFrame({"user": [1], "item": [2]})
    name = os.fsdecode(b"n\xff.parquet")
    rows.write_parquet(tmp_path / "fine.parquet")
    (tmp_path / "fine.parquet").rename(tmp_path / name)

    for given in (str(tmp_path / name), str(tmp_path)):  # the file, or its folder
        with pytest.raises(RequestError, match="the path is not UTF-8") as caught:
            evaluate(given, {"a": rows}, metrics=["hit@1"])
        assert caught.value.code == "not-utf-8"
        str(caught.value).encode()
    with pytest.raises(RequestError, match="the path is not UTF-8"), hold(tmp_path / name, "job"):
        pass
