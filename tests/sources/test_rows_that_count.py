"""Every row of a text file counts as what it says, or the file is refused."""

import gzip
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

from evalkit import evaluate
from evalkit.config import RankingsColumns, RankingsTable, TruthColumns, TruthTable
from evalkit.errors import EvalkitError, RequestError
from evalkit.sources import Table, open_rankings, open_truth, reading, spell_guesses
from evalkit.sources.delimited import looks_like_a_row


def raised(kind: type[EvalkitError], act: Callable[[], object]) -> EvalkitError:
    with pytest.raises(kind) as caught:
        act()
    return caught.value


MARK = b"\xef\xbb\xbf"


def truth_at(path: Path, *, header: bool | None = None, **columns: object) -> Table:
    table = TruthTable(path=(str(path),), header=header, columns=TruthColumns(**columns))
    return open_truth(table)


def run_at(path: Path, **columns: object) -> Table:
    table = RankingsTable(path=(str(path),), format="trec", columns=RankingsColumns(**columns))
    return open_rankings(table)


def rows_of(table: Table) -> list[tuple[object, ...]]:
    with reading(table):
        return table.frame.collect(engine="streaming").rows()


# ---------------------------------------------------------------- headers


@pytest.mark.parametrize("separator", [",", "\t", ";", "|", "::"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("mark", [b"", MARK])
def test_without_a_header_every_line_is_a_row(tmp_path, separator, end, mark):
    path = tmp_path / "ratings.csv"
    lines = [separator.join(row) for row in (["7", "a b", "5"], ["8", "c", "3"])]
    path.write_bytes(mark + end.join([*lines, ""]).encode())

    table = truth_at(path, header=False, user="column_1", item="column_2", relevance="column_3")

    assert rows_of(table) == [(7, "a b", 5), (8, "c", 3)]


def test_two_colons_part_columns_below_a_header(tmp_path):
    path = tmp_path / "ratings.csv"
    path.write_text("user::item::title\n1::2::a, b\n\n1::3::c\n")

    table = truth_at(path)

    assert rows_of(table) == [(1, 2), (1, 3)]


@pytest.mark.parametrize("first", ["196,242,3", "A1,B2,5.0,1369699200", "u1,i1,12"])
@pytest.mark.parametrize("columns", [{}, {"user": "196", "item": "242"}])
def test_a_first_line_that_looks_like_a_row_is_refused(tmp_path, first, columns):
    (tmp_path / "a.csv").write_text(f"{first}\n{first}\n")

    error = raised(EvalkitError, lambda: truth_at(tmp_path / "a.csv", **columns))

    assert error.code == "no-header"
    assert "header = false" in error.hint
    assert error.at.endswith("a.csv")


def test_a_header_of_numbers_is_taken_where_it_is_said(tmp_path):
    (tmp_path / "a.csv").write_text("1,2\n3,4\n")

    assert rows_of(truth_at(tmp_path / "a.csv", header=True, user="1", item="2")) == [(3, 4)]


@pytest.mark.parametrize("names", ["user,item", "user,item,0,1,2", "item,2020,2021", "user,nan"])
def test_columns_that_are_numbered_are_no_row(names):
    assert not looks_like_a_row(names.split(","))


@pytest.mark.parametrize("header", ["user,item,item", "user, item,item", 'user,"item",item'])
def test_a_column_that_is_named_twice_is_refused(tmp_path, header):
    (tmp_path / "a.csv").write_text(f"{header}\n1,2,3\n")

    error = raised(EvalkitError, lambda: truth_at(tmp_path / "a.csv"))

    assert error.code == "duplicate-column"
    assert "'item' 2 times" in error.message


def test_columns_without_a_name_may_be_several(tmp_path):
    (tmp_path / "a.csv").write_text(",user,item,\n0,1,2,x\n")

    assert rows_of(truth_at(tmp_path / "a.csv")) == [(1, 2)]


# ---------------------------------------------------------------- rows that do not fit

RAGGED = {
    "in the middle": ("user,item,relevance\n1,2,3\n4,5\n6,7,8\n", 3, 2),
    "at the end": ("user,item,relevance\n1,2,3\n4", 3, 1),
    "behind quotes": ('user,item,relevance\n1,"a,b",3\n4,"c,d"\n', 3, 2),
    "behind a field of two lines": ('user,item,relevance\n1,"a\nb",3\n\n4,5\n', 5, 2),
    "too many": ("user,item,relevance\n1,2,3\n4,5,6,7\n", 3, 4),
    "too many, of columns that nobody reads": ("user,item,title\n1,2,a\n1,3,Toy, The\n", 3, 4),
    "too few, of columns that nobody reads": ("user,item,title\n1,2,a\n1,3\n", 3, 2),
    "by two colons": ("user::item::relevance\n1::2::3\n4::5\n", 3, 2),
}


@pytest.mark.parametrize("name", RAGGED)
@pytest.mark.parametrize("is_gzip", [False, True])
def test_a_row_of_other_fields_than_the_header_is_refused(tmp_path, name, is_gzip):
    text, line, n_fields = RAGGED[name]
    path = tmp_path / "a.csv"
    if is_gzip:
        path = tmp_path / "a.csv.gz"
        path.write_bytes(gzip.compress(text.encode()))
    else:
        path.write_text(text)

    error = raised(EvalkitError, lambda: rows_of(truth_at(path)))

    assert error.code == "unreadable-file"
    assert error.at == f"{path}:{line}"
    assert f"fields than the first line: {n_fields}, not 3" in error.message


@pytest.mark.parametrize(
    "text",
    [
        "user,item,note\n1,2,\n3,4,\n",
        "user,item,note\n1,2,,\n3,4,x\n",
        'user,item,note\n1,2,""\n\n3,4,"a,\n\nb"\n',
    ],
)
def test_empty_last_fields_are_fields(tmp_path, text):
    (tmp_path / "a.csv").write_text(text)

    assert rows_of(truth_at(tmp_path / "a.csv")) == [(1, 2), (3, 4)]


def test_a_short_row_of_a_user_whom_the_truth_lacks_is_refused(tmp_path):
    (tmp_path / "r.csv").write_text("user,item,rank\n1,10,1\n9,11\n")

    def act() -> object:
        return evaluate({1: [10]}, str(tmp_path / "r.csv"), metrics=["hit@1"])

    assert raised(EvalkitError, act).code == "unreadable-file"


def test_a_last_line_without_an_end_is_told(tmp_path):
    (tmp_path / "a.csv").write_text("user,item\n1,2")
    (tmp_path / "b.csv").write_text("user,item\n1,2\n")

    told = [spell_guesses([truth_at(tmp_path / name)]) for name in ("a.csv", "b.csv")]

    assert [any("has no end" in line for line in lines) for lines in told] == [True, False]


# ---------------------------------------------------------------- TREC


def test_a_mark_of_byte_order_is_no_part_of_the_first_user(tmp_path):
    (tmp_path / "a.run").write_bytes(MARK + b"q1 Q0 d1 1 2 x\n")
    (tmp_path / "a.qrels").write_bytes(MARK + b"q1 0 d1 1\n")
    (tmp_path / "bare").write_bytes(MARK + b"q1 Q0 d1 1 2 x\nq1 Q0 d2 2 1 x\n")

    assert rows_of(run_at(tmp_path / "a.run")) == [("q1", "d1", 2.0)]
    assert rows_of(truth_at(tmp_path / "a.qrels")) == [("q1", "d1", 1.0)]
    assert (
        evaluate(str(tmp_path / "a.qrels"), str(tmp_path / "bare"), metrics=["RR"]).value("RR")
        == 1.0
    )


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("q1 Q0 doc x 1 0.5 tag", "the field of the rank is 'x'"),
        ("q1 Q0 doc 7 1 0.5 tag", "an id may hold a space, or the tag"),
        ("q1 Q0 a b c 1 0.5 tag", "the field of the rank is 'b'"),
    ],
)
def test_a_run_whose_ids_hold_spaces_is_refused(tmp_path, line, said):
    (tmp_path / "a.run").write_text(f"q0 Q0 d 1 2 t\n{line}\n")

    error = raised(EvalkitError, lambda: rows_of(run_at(tmp_path / "a.run")))

    assert error.code == "bad-line"
    assert error.at.endswith("a.run:2")
    assert said in error.message


def test_qrels_whose_ids_hold_spaces_are_refused(tmp_path):
    (tmp_path / "a.qrels").write_text("q 0 doc 1 2\n")

    error = raised(EvalkitError, lambda: rows_of(truth_at(tmp_path / "a.qrels")))

    assert error.code == "bad-line"


def test_between_tabs_ids_hold_spaces(tmp_path):
    (tmp_path / "a.run").write_text(
        "q 1\tQ0\tdoc 7\t1\t 0.5\tmy run\r\n# no\nq 1\tQ0\td\t2\t0.2\tt\n"
    )
    (tmp_path / "a.qrels").write_text("q 1\t0\tdoc 7\t1\n")

    assert rows_of(run_at(tmp_path / "a.run", model="tag")) == [
        ("q 1", "doc 7", 0.5, "my run"),
        ("q 1", "d", 0.2, "t"),
    ]
    assert rows_of(truth_at(tmp_path / "a.qrels")) == [("q 1", "doc 7", 1.0)]


def test_names_of_runs_may_hold_spaces(tmp_path):
    (tmp_path / "a.run").write_text("q Q0 d 1 0.5 run 1\nq Q0 d 1 0.25 run 2\n")

    rows = rows_of(run_at(tmp_path / "a.run", model="tag"))

    assert [row[-1] for row in rows] == ["run 1", "run 2"]


# ---------------------------------------------------------------- frames


def test_a_frame_of_pandas_with_two_columns_of_a_name_is_refused():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame([[1, 2, 3]], columns=["user", "item", "item"])

    error = raised(EvalkitError, lambda: evaluate(frame, {1: [2]}, metrics=["hit@1"]))

    assert error.code == "duplicate-column"
    assert "called item" in error.message


def test_two_columns_of_a_name_are_refused_in_parquet_and_arrow(tmp_path):
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    table = pa.Table.from_arrays([pa.array([1])] * 3, names=["user", "item", "item"])
    pq.write_table(table, tmp_path / "a.parquet")

    for given in (str(tmp_path / "a.parquet"), table):
        error = raised(EvalkitError, lambda given=given: evaluate(given, {1: [1]}, metrics=["RR"]))
        assert error.code == "duplicate-column"


def test_a_header_of_a_format_that_has_none_is_refused(tmp_path):
    pl.DataFrame({"user": [1], "item": [2]}).write_parquet(tmp_path / "a.parquet")

    with pytest.raises(RequestError, match="header is for csv and tsv files"):
        rows_of(truth_at(tmp_path / "a.parquet", header=True, user="user", item="item"))
