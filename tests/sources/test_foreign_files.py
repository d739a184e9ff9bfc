"""Files as other programs and data sets have them: hints, as they stand, lead to a table."""

import re
import subprocess

import pytest

from evalkit.config import SplitSection, TruthTable
from evalkit.errors import DataError
from evalkit.sources import open_split, open_truth
from evalkit.sources.guess import Guessing

OPTIONS = Guessing("options")
PAIRS = [(1, 10), (2, 11), (2, 12)]


def refused(path, **keys):
    with pytest.raises(DataError) as caught:
        open_truth(TruthTable(path=(str(path),), **keys), guessing=OPTIONS)
    return caught.value


def pairs_of(path, **keys):
    keys |= {"columns": keys.pop("columns", {"user": "column_1", "item": "column_2"})}
    frame = open_truth(TruthTable(path=(str(path),), **keys)).frame.collect()
    return sorted(frame.select("user_0", "item").rows())


def follow(hint, folder, of):
    """Runs the command of a hint that begins with a word, up to the next advice."""
    command = re.split(r"; of a user|, or name", hint[hint.index(of) :])[0]
    subprocess.run(["/bin/sh", "-c", command], cwd=folder, check=True)


@pytest.mark.parametrize(
    ("text", "of", "made"),
    [
        ("1 10\n2 11\n2 12\n", "cat x.txt | tr", "x.txt.tsv"),
        ("1 10\n2 11 12\n", "cat x.txt | awk", "x.txt.tsv"),
        ("1\x0110\n2\x0111\n2\x0112\n", "cat x.txt | tr", "x.txt.tsv"),
        ("10:\n1,5,2005-09-06\n11:\n2,3,2005-09-06\n12:\n2,4,2005-09-07\n", "cat", "x.txt.csv"),
    ],
    ids=["spaces", "items a line", "hive", "netflix"],
)
def test_text_that_no_known_character_parts_is_made_a_table_as_the_hint_says(
    tmp_path, monkeypatch, text, of, made
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "x.txt").write_text(text)

    follow(refused("x.txt", format="csv").hint, tmp_path, of)

    places = ("column_2", "column_1") if made.endswith("csv") else ("column_1", "column_2")
    columns = dict(zip(("user", "item"), places, strict=True))
    assert pairs_of(made, header=False, columns=columns) == PAIRS


@pytest.mark.parametrize(
    ("text", "of"),
    [
        ("sep=;\nuser;item\n1;10\n2;11\n2;12\n", "tail"),
        ('"user","item"\n"1",1,10\n"2",2,11\n"3",2,12\n', "sed"),
        ("# exported 2026\nuser,item\n1,10\n2,11\n2,12\n", "tail"),
        ("\ufeff# exported 2026, by us\r\nuser,item\r\n1,10\r\n2,11\r\n2,12\r\n", "tail"),
        ("Sold items\n\nuser;item\n1;10\n2;11\n2;12\n", "tail -n +3"),
    ],
    ids=["excel", "R", "comment", "comment with a comma", "title"],
)
def test_first_lines_of_programs_are_mended_as_the_hint_says(tmp_path, monkeypatch, text, of):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "x.csv").write_text(text)

    follow(refused("x.csv").hint, tmp_path, of)

    assert pairs_of("x.csv.csv", columns={"user": "user", "item": "item"}) == PAIRS


@pytest.mark.parametrize("name", ["rows.csv", "it's; touch hacked.csv", "-n 1.csv", "$(id).csv"])
def test_commands_of_hints_take_any_name_for_one_word_and_keep_the_file(
    tmp_path, monkeypatch, name
):
    monkeypatch.chdir(tmp_path)
    text = "sep=;\nuser;item\n1;10\n2;11\n2;12\n"
    (tmp_path / name).write_text(text)

    follow(refused(name).hint, tmp_path, "tail")

    assert (tmp_path / name).read_text() == text
    assert {each.name for each in tmp_path.iterdir()} == {name, f"{name}.csv"}
    assert pairs_of(f"{name}.csv", columns={"user": "user", "item": "item"}) == PAIRS


@pytest.mark.parametrize(
    ("text", "number"), [("3,5", 3.5), ("12.5%", 12.5), ("True", 1.0), ("FALSE", 0.0)]
)
def test_numbers_of_another_spelling_are_read_as_the_hint_says(tmp_path, text, number):
    path = tmp_path / "x.csv"
    path.write_text(f"user;item;rating\n1;10;{text}\n")

    sql = refused(path).hint.removeprefix("read it as ").removesuffix(", or name another column")
    table = TruthTable(
        path=(str(path),), columns={"user": "user", "item": "item", "relevance": sql}
    )

    assert open_truth(table).frame.collect()["relevance"].to_list() == [number]


@pytest.mark.parametrize("mark", ["\t", ",", "::"])
def test_a_row_that_has_a_value_twice_names_no_columns(tmp_path, mark):
    path = tmp_path / "ratings.csv"
    path.write_text(
        "\n".join(mark.join(row) for row in (("1", "1", "5", "874"), ("1", "2", "3", "876")))
    )

    error = refused(path)

    assert error.code == "no-header"
    assert "column_1 '1', column_2 '1', column_3 '5', column_4 '874'" in error.message
    assert pairs_of(path, header=False) == [(1, 1), (1, 2)]
    path.write_text("user,item,item\n1,2,3\n")
    assert refused(path).code == "duplicate-column"


@pytest.mark.parametrize("word", ["\\N", "NULL", "NA"])
def test_a_word_for_null_among_numbers_is_told_how_it_is_read(tmp_path, word):
    path = tmp_path / "x.csv"
    path.write_text(f"user,item,rating\n1,10,4\n2,11,{word}\n")

    assert "try_cast(rating as double)" in refused(path).hint
    columns = {
        "user": "user",
        "item": "item",
        "relevance": "coalesce(try_cast(rating as double), 0)",
    }
    table = TruthTable(path=(str(path),), columns=columns)
    assert open_truth(table).frame.collect()["relevance"].to_list() == [4.0, 0.0]


def test_a_row_with_a_quote_inside_of_a_field_names_no_columns(tmp_path):
    path = tmp_path / "plays.tsv"
    path.write_text("".join(f'a{n}\tb{n}\tthe 12" of {n}\t30\n' for n in range(400)))

    assert refused(path).code == "no-header"
    with pytest.raises(DataError) as caught:
        pairs_of(path, header=False)
    assert "tr -d '\"' <" in caught.value.hint


def test_typed_names_of_recbole_are_guessed(tmp_path):
    path = tmp_path / "x.tsv"
    path.write_text(
        "user_id:token\titem_id_list:token_seq\titem_id:token\trating:float\n1\t3 4\t5\t2\n"
    )

    chosen = open_truth(TruthTable(path=(str(path),)), guessing=OPTIONS).chosen

    assert chosen.columns == {
        "user": "user_id:token", "item": "item_id:token", "relevance": "rating:float"
    }  # fmt: skip


def test_seconds_that_are_written_as_floats_are_a_time(tmp_path):
    path = tmp_path / "x.csv"
    path.write_text("user,item,timestamp\n1,10,1593878903.438\n1,11,1.593878904e9\n")

    table, _ = open_split(SplitSection(path=(str(path),)), guessing=OPTIONS)

    assert table.columns["time"] == "cast(timestamp as bigint)"
    assert table.frame.collect()["time"].to_list() == [1593878903, 1593878904]


@pytest.mark.parametrize("word", ["\\N", "NULL", "NA", "nan", "None", "<NA>", "Total"])
def test_a_word_for_null_among_ids_that_are_numbers_is_refused(tmp_path, word):
    path = tmp_path / "x.csv"
    path.write_text(f"user,item\n1,10\n{word},11\n,12\n")
    read = {"item": "item"}

    error = refused(path)

    assert (error.code, repr(word) in error.message) == ("null-id", True)
    assert "try_cast(user as bigint)" in error.hint
    assert "cast(user as varchar)" in error.hint
    assert pairs_of(path, columns=read | {"user": "try_cast(user as bigint)"}, where="item = 10")
    path.write_text(f"user,item\na1,10\n{word},11\n")
    assert len(pairs_of(path, columns=read | {"user": "user"})) == 2
