"""Columns are names or SQL over names, under evalkit's names and in one order."""

import polars as pl
import pytest

from evalkit.config import (
    LogColumns,
    LogTable,
    RankingsColumns,
    RankingsTable,
    TrainColumns,
    TrainTable,
    TruthColumns,
    TruthTable,
)
from evalkit.errors import DataError
from evalkit.sources import (
    Table,
    guess_columns,
    open_log,
    open_rankings,
    open_train,
    open_truth,
    read_schema,
)
from evalkit.sources.guess import Guessing
from evalkit.sources.table import spell_guesses

ROWS = pl.DataFrame(
    {
        "user_id": [1, 2],
        "day": ["mo", "tu"],
        "item": [3, 4],
        "n": [1, 2],
        "s": [0.5, 0.25],
        "m": [7, 8],
    }
)


def truth_of(frame: pl.DataFrame, *, where: str | None = None, **columns: object) -> pl.DataFrame:
    table = TruthTable(path=("memory",), columns=TruthColumns(**columns), where=where)
    return open_truth(table, frame).frame.collect()


def names_of(table: Table) -> list[str]:
    return table.frame.collect_schema().names()


def test_columns_come_in_one_order_whatever_the_table_has():
    columns = RankingsColumns(user=("user_id", "day"), rank="n", score="s", model="m")

    table = open_rankings(
        RankingsTable(path=("memory",), columns=columns), ROWS.select(ROWS.columns[::-1])
    )

    assert names_of(table) == ["user_0", "user_1", "item", "rank", "score", "model"]
    assert table.user_names == ("user_id", "day")
    assert table.frame.collect()["model"].to_list() == ["7", "8"]


def test_a_training_log_has_only_ids():
    table = open_train(TrainTable(path=("memory",), columns=TrainColumns(user="user_id")), ROWS)

    assert names_of(table) == ["user_0", "item"]
    assert table.role == "train"


def test_a_joined_log_is_a_truth_and_rankings_over_the_same_rows():
    columns = LogColumns(user="user_id", rank="n", score="s", label="m > 7")

    truth, rankings = open_log(LogTable(path=("memory",), columns=columns), ROWS)

    assert (truth.role, rankings.role) == ("truth", "rankings")
    assert truth.frame.collect().rows() == [(1, 3, False), (2, 4, True)]
    assert names_of(rankings) == ["user_0", "item", "rank", "score"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("user_id", [1, 2]),
        ("cast(user_id as varchar)", ["1", "2"]),
        ("user_id || '-' || day", ["1-mo", "2-tu"]),
        ("case when day = 'mo' then 9 else user_id end", [9, 2]),
    ],
)
def test_a_user_may_be_sql(text, expected):
    assert truth_of(ROWS, user=text)["user_0"].to_list() == expected


@pytest.mark.parametrize("name", ["user", "order", "group", "values", "current_date"])
def test_columns_named_like_words_of_sql_are_found(name):
    frame = ROWS.rename({"user_id": name}).with_columns(pl.col(name).cast(pl.String))

    found = truth_of(frame, user=f"cast({name} as bigint)", where=f"{name} = '2'")

    assert found.rows() == [(2, 4)]


@pytest.mark.parametrize("name", ["user id", "user-id", "a + b", "User.Id", "cast(n as double)"])
def test_a_name_that_exists_wins_over_sql(name):
    assert truth_of(ROWS.rename({"user_id": name}), user=name)["user_0"].to_list() == [1, 2]


def test_rows_are_those_that_where_leaves():
    assert truth_of(ROWS, user="user_id", where="day in ('tu', 'we') and s < 0.5").rows() == [
        (2, 4)
    ]


def test_relevance_may_be_a_constant():
    assert truth_of(ROWS, user="user_id", relevance="1")["relevance"].to_list() == [1, 1]


# ---------------------------------------------------------------- guesses


@pytest.mark.parametrize(
    ("role", "names", "expected"),
    [
        ("truth", "user_id item_id rating timestamp", "user=user_id item=item_id relevance=rating"),
        ("truth", "visitorid itemid event", "user=visitorid item=itemid"),
        ("truth", "UserID movieId", "user=UserID item=movieId"),
        ("truth", "session_id user_id item", "user=user_id item=item"),
        ("rankings", "session_id items scores", "user=session_id item=items score=scores"),
        (
            "rankings",
            "query_id doc_id rank model",
            "user=query_id item=doc_id rank=rank model=model",
        ),
        ("train", "userId itemId rating", "user=userId item=itemId"),
        ("log", "user item score label", "user=user item=item label=label score=score"),
        ("truth", "customer_key articleNo num_items", "user=customer_key item=articleNo"),
        (
            "rankings",
            "USER_UUID itemNumber pos_in_list model_score",
            "user=USER_UUID item=itemNumber rank=pos_in_list score=model_score",
        ),
        ("truth", "user_id user_no item", "user=user_id item=item"),
    ],
)
def test_columns_are_guessed_from_their_names(role, names, expected):
    guessed = guess_columns(names.split(), role)

    assert guessed == dict(pair.split("=") for pair in expected.split())


def test_names_that_suggest_nothing_are_an_error():
    with pytest.raises(DataError) as caught:
        guess_columns(["a", "b"], "truth", at="a.parquet")

    assert caught.value.code == "missing-column"
    assert caught.value.at == "a.parquet"
    assert "--set truth.columns.user=COLUMN --set truth.columns.item=COLUMN" in caught.value.hint


def test_names_that_suggest_two_columns_are_an_error():
    with pytest.raises(DataError) as caught:
        guess_columns(["user", "user_id", "item"], "truth")

    assert caught.value.code == "ambiguous-column"
    assert "user, user_id" in caught.value.message


@pytest.mark.parametrize("name", ["Book-Rating", "overall", "target", "isClick", "user_score"])
def test_a_relevance_that_is_not_read_is_told(name):
    frame = pl.DataFrame({"user": [1], "item": [2], name: [0], "overalls": [1]})
    opened = open_truth(TruthTable(path=("memory",)), frame, Guessing("options"))

    assert spell_guesses([opened]) == [
        "truth: columns are guessed: user = user, item = item; "
        f"every row is relevant, {name!r} is not read"
    ]


def test_a_model_that_is_not_read_is_told():
    frame = pl.DataFrame({"user": [1], "item": [2], "score": [0.5], "algo": ["als"]})
    table = RankingsTable(model="m", path=("memory",))
    [told] = spell_guesses([open_rankings(table, frame, Guessing("options"))])

    assert told.endswith("; all rows are of one model, 'algo' is not read")


@pytest.mark.parametrize("name", ["dt", "run_date"])
def test_a_day_that_is_not_read_is_told(name):
    frame = pl.DataFrame({"user": [1], "item": [2], "score": [0.5], name: ["2026-11-24"]})

    def told(**keys):
        table = RankingsTable(model="m", path=("memory",), **keys)
        return spell_guesses([open_rankings(table, frame, Guessing("options"))])[0]

    assert told().endswith(f"; rows of any day are one list, {name!r} is not read")
    assert told(where=f"{name} = '2026-11-24'").endswith("score = score")


def test_a_column_that_items_are_made_of_is_no_score():
    frame = pl.DataFrame({"user": [1], "prediction": ["3 4"]})
    columns = RankingsColumns(item="string_to_array(prediction, ' ')")
    table = RankingsTable(model="m", path=("memory",), columns=columns)

    opened = open_rankings(table, frame, Guessing("options"))

    assert opened.frame.collect()["item"].to_list() == [["3", "4"]]


def test_folders_that_are_read_as_one_are_told(tmp_path):
    for day in ("2026-11-23", "2026-11-24"):
        (tmp_path / f"dt={day}").mkdir()
        frame = pl.DataFrame({"user": [1], "item": [2], "score": [0.5]})
        frame.write_parquet(tmp_path / f"dt={day}" / "0.parquet")

    def told(**keys):
        table = RankingsTable(model="m", path=(str(tmp_path),), **keys)
        return spell_guesses([open_rankings(table, guessing=Guessing("options"))])[0]

    assert told().endswith("; folders of dt = 2026-11-23, 2026-11-24 are read as one")
    assert told(where="dt = '2026-11-24'").endswith("score = score")


def test_the_schema_of_a_table_is_what_guesses_start_from(tmp_path):
    (tmp_path / "day=1").mkdir()
    (tmp_path / "day=1" / "a.csv").write_text("user_id,movie_id\n1,2\n")

    schema = read_schema([str(tmp_path)], role="truth")

    assert list(schema) == ["user_id", "movie_id", "day"]
    assert guess_columns(schema, "truth") == {"user": "user_id", "item": "movie_id"}


SHOWN = pl.DataFrame({"user": 1, "item": [5, 4, 6, 7], "at": [2.0, 1.0, 2.0, None]})


@pytest.mark.parametrize("kind", [pl.Float64, pl.Int32, pl.String, pl.Date])
def test_order_puts_rows_in_order_wherever_they_stand(kind):
    table = RankingsTable(path=("memory",), columns=RankingsColumns(order="at"))
    rows = SHOWN.with_columns(pl.col("at").cast(pl.Int32).cast(kind))

    opened = open_rankings(table, rows.sample(fraction=1.0, shuffle=True, seed=3))

    assert names_of(opened) == ["user_0", "item"]
    assert opened.frame.collect()["item"].to_list() == [4, 5, 6, 7]
    assert not opened.is_by_row


def test_order_is_sql_of_the_truth_and_of_train_too():
    truth = TruthTable(path=("memory",), columns=TruthColumns(order="-at"))
    train = TrainTable(path=("memory",), columns=TrainColumns(order="item % 2"))

    assert open_truth(truth, SHOWN).frame.collect()["item"].to_list() == [5, 6, 4, 7]
    assert open_train(train, SHOWN).frame.collect()["item"].to_list() == [4, 6, 5, 7]


@pytest.mark.parametrize("made", ["[item]", "at", "1"])
def test_order_must_be_a_column_of_values_beside_rows(made):
    rows = SHOWN.with_columns(pl.concat_list("item"))
    rows = rows if made == "at" else rows.explode("item").rename({"at": "[item]"})
    rows = rows.with_columns(pl.concat_list("[item]")) if made == "[item]" else rows
    table = RankingsTable(path=("memory",), columns=RankingsColumns(order=made))

    with pytest.raises(DataError) as caught:
        open_rankings(table, rows)

    assert caught.value.code == ("bad-sql" if made == "1" else "bad-type")
    assert "order" in str(caught.value)
