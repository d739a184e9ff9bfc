"""Where the order of rows ranks, a column that looks like a score must not contradict it."""

import polars as pl
import pytest

import evalkit
from evalkit.config import build_config
from evalkit.errors import DataError
from evalkit.pipeline import run_config

TRUTH = pl.DataFrame({"user": [1, 2], "item": [10, 20]})
NAMES = ["rating", "est", "preds", "y_pred", "sim", "confidence", "value", "weight", "myScore"]


def rows(name="est", values=(0.1, 0.9, 0.2, 0.8)):
    return pl.DataFrame({"user": [1, 1, 2, 2], "item": [11, 10, 21, 20], name: list(values)})


def evaluate(rankings, **options):
    return evalkit.evaluate(TRUTH, rankings, metrics=["RR"], **options)


def refused(rankings, **options):
    with pytest.raises(DataError) as caught:
        evaluate(rankings, **options)
    return caught.value


@pytest.mark.parametrize("name", [*NAMES, "anything"])
def test_a_score_that_contradicts_the_rows_is_refused_and_both_hints_answer(name):
    error = refused(rows(name))

    assert error.code == "row-order"
    assert f'columns={{"score": "{name}"}}' in error.hint
    assert evaluate(rows(name), columns={"score": name}).value("RR") == 1.0
    assert 'ranked_by={"rankings": "rows"}' in error.hint
    by_rows = evaluate(rows(name), ranked_by={"rankings": "rows"})
    assert by_rows.value("RR") == 0.5
    assert by_rows.inputs[1].ranked_by == "rows"


@pytest.mark.parametrize("name", NAMES)
def test_whole_numbers_are_scores_where_the_name_says_so(name):
    assert refused(rows(name, [1, 5, 2, 4])).code == "row-order"
    assert evaluate(rows("shelf", [1, 5, 2, 4])).value("RR") == 0.5


@pytest.mark.parametrize(
    "values",
    [(0.9, 0.1, 0.8, 0.2), (0.5, 0.5, 0.5, 0.5), (0.1, 0.1, 0.9, 0.9), (None, 0.1, 1.0, None)],
)
def test_a_score_that_never_rises_within_a_user_leaves_the_rows_as_they_are(values):
    report = evaluate(rows(values=values))

    assert report.value("RR") == 0.5
    assert report.inputs[1].ranked_by == "rows"
    assert [each.code for each in report.warnings if each.code == "row-order"] == []


def test_rows_of_one_user_may_lie_apart():
    apart = pl.DataFrame(
        {"user": [1, 2, 1, 2], "item": [11, 21, 10, 20], "est": [0.9, 0.1, 0.5, 0.8]}
    )

    assert refused(apart).code == "row-order"


def test_a_distance_that_rises_says_what_the_rows_say():
    assert evaluate(rows("distance")).value("RR") == 0.5
    error = refused(rows("distance", (0.9, 0.1, 0.8, 0.2)))
    assert (
        evaluate(rows("distance", (0.9, 0.1, 0.8, 0.2)), columns={"score": "-distance"}).value("RR")
        == 1.0
    )
    assert '"score": "-distance"' in error.hint


@pytest.mark.parametrize("name", ["l2_distance", "distances", "cosineDistance"])
def test_a_distance_is_known_by_a_word_of_its_name(name):
    assert evaluate(rows(name)).value("RR") == 0.5
    assert f"-{name}" in refused(rows(name, (0.9, 0.1, 0.8, 0.2))).hint


@pytest.mark.parametrize("name", ["rn", "row_number", "order", "predicted_rank", "rankPos"])
def test_a_rank_of_another_name_that_contradicts_the_rows_is_refused(name):
    error = refused(rows(name, [2, 1, 2, 1]))

    assert f"column {name!r} looks like a rank" in error.message
    assert evaluate(rows(name, [2, 1, 2, 1]), columns={"score": f"-{name}"}).value("RR") == 1.0
    assert f'"score": "-{name}"' in error.hint
    assert evaluate(rows(name, [1, 2, 1, 2])).value("RR") == 0.5
    assert evaluate(rows("order_id", [2, 1, 2, 1])).value("RR") == 0.5


def test_times_are_no_scores():
    assert evaluate(rows("timestamp")).value("RR") == 0.5


def test_lists_with_scores_that_rise_are_refused():
    lists = rows().group_by("user", maintain_order=True).agg("item", "est")

    assert refused(lists).code == "row-order"
    assert evaluate(lists.with_columns(pl.col("est").list.sort(descending=True))).value("RR") == 0.5


@pytest.mark.parametrize("dtype", [pl.List(pl.Float32), pl.Array(pl.Float64, 4)])
@pytest.mark.parametrize("last", [0.2, 0.4])
def test_numbers_of_lists_are_compared_within_their_list(dtype, last, monkeypatch):
    monkeypatch.setattr("evalkit.sources.row_order.LISTS", 1)
    scores = [[0.5, None, 0.4, 0.3], [0.9, 0.3, float("nan"), last]]
    items = [[11, 10, 12, 13], [21, 20, 22, 23]]
    lists = pl.DataFrame({"user": [1, 2], "item": items, "est": pl.Series(scores, dtype=dtype)})

    if last > 0.3:
        assert refused(lists).code == "row-order"
    else:
        assert evaluate(lists).value("RR") == 0.5


def test_ranks_and_scores_of_known_names_are_left_out_where_rows_rank():
    report = evaluate(rows("score"), ranked_by={"rankings": "rows"})

    assert report.value("RR") == 0.5
    assert evaluate(rows("score")).inputs[1].ranked_by == "score"


def test_the_score_of_replay_is_its_rating():
    assert evaluate(rows("rating"), profile="replay").value("RR") == 1.0


def written(tmp_path, columns=None, **more):
    TRUTH.write_csv(tmp_path / "truth.csv")
    rows().write_csv(tmp_path / "rankings.csv")
    table = {"path": str(tmp_path / "rankings.csv"), "model": "als", **more}
    if columns is not None:
        table["columns"] = columns
    tree = {
        "truth": {"path": str(tmp_path / "truth.csv")},
        "rankings": [table],
        "metrics": {"names": ["RR"]},
    }
    return build_config(tree, name="rows")


def test_a_config_is_refused_with_the_lines_to_write(tmp_path):
    with pytest.raises(DataError) as caught:
        run_config(written(tmp_path))

    assert caught.value.hint == (
        'write columns = { user = "user", item = "item", score = "est" } under [[rankings]], or, '
        'where the order of rows ranks, ranked_by = "rows"'
    )
    columns = {"user": "user", "item": "item", "score": "est"}
    assert run_config(written(tmp_path, columns)).value("RR") == 1.0
    assert run_config(written(tmp_path, ranked_by="rows")).value("RR") == 0.5


def test_columns_that_a_config_wrote_without_a_score_are_warned_of(tmp_path):
    report = run_config(written(tmp_path, {"user": "user", "item": "item"}))

    assert report.value("RR") == 0.5
    (told,) = [each for each in report.warnings if each.code == "row-order"]
    assert "'est'" in told.message


def test_a_joined_log_is_looked_at_too():
    log = rows().with_columns(label=pl.Series([0, 1, 0, 1]))
    tree = {"log": {"path": "memory", "model": "als"}, "metrics": {"names": ["RR"]}}
    from evalkit.planning.tables import Given

    with pytest.raises(DataError) as caught:
        run_config(build_config(tree, name="log"), given=Given(truth=log))
    assert caught.value.code == "row-order"


def test_scores_that_rise_in_every_list_are_told(caplog):
    users = range(40)
    distances = pl.DataFrame({"user": users}).join(
        pl.DataFrame({"item": range(5), "score": [0.1, 0.2, 0.2, 0.4, 0.9]}), how="cross"
    )
    lists = distances.group_by("user", maintain_order=True).agg("item", "score")
    truth = pl.DataFrame({"user": users, "item": [0] * 40})
    falls_once = pl.Series([0.1, 0.05, *distances["score"][2:]])

    def told(rankings):
        caplog.clear()
        evalkit.evaluate(truth, rankings, metrics=["RR"])
        hint = 'columns={"score": "-score"}'
        told = [each.getMessage() for each in caplog.records]
        return ["rising-scores" in each and hint in each for each in told]

    assert told(distances) == told(lists) == [True]
    assert told(distances.with_columns(-pl.col("score"))) == told(distances.sort("item")) == []
    assert told(distances.with_columns(score=falls_once)) == told(distances.head(100)) == []
    assert (
        evalkit.evaluate(truth, distances, metrics=["RR"], columns={"score": "-score"}).value("RR")
        == 1.0
    )
