"""Whoever asks, the same columns of the same tables are read, and said."""

import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import evalkit
from evalkit.config import build_config
from evalkit.errors import DataError, EvalkitError, RequestError
from evalkit.jobs.check import check_config
from evalkit.pipeline import key_of_run, run_config
from evalkit.planning.tables import Given
from evalkit.report import Report, render

TRUTH = pl.DataFrame(
    {
        "user": [1, 1, 1, 2, 2, 3],
        "item": [10, 11, 12, 10, 13, 11],
        "relevance": [3, 0, 1, 0, 2, 1],
    }
)
RANKINGS = pl.DataFrame(  # ranks are not the order of the rows
    {
        "user": [1, 1, 1, 2, 2, 3, 3],
        "item": [11, 12, 10, 10, 13, 12, 11],
        "rank": [3, 2, 1, 2, 1, 1, 2],
    }
)
LOG = RANKINGS.join(TRUTH, on=["user", "item"], how="left").rename({"relevance": "label"})
LOG = LOG.with_columns(pl.col("label").fill_null(0))
TRAIN = pl.DataFrame({"user": [1, 2], "item": [99, 98]})
LABELS = pl.DataFrame(
    {"user": [1, 1, 2, 2], "score": [0.9, 0.2, 0.6, 0.7], "label": [1, 0, 1, 0], "n": [1, 2, 3, 4]}
)
METRICS = ["nDCG@10", "RR", "recall@1"]
ALIKE = {"user": "user_id", "item": "movieId", "relevance": "rating", "rank": "Position"}


def config_of(sections: Mapping[str, object], metrics: list[str] = METRICS, **more: object):
    held = {}
    tree: dict[str, object] = {"metrics": {"names": metrics, **more}}
    for name, table in sections.items():
        tables = table if isinstance(table, list) else [table]
        written = [{**each, "path": "memory"} for each in tables]
        held[name] = [each["path"] for each in tables]
        tree[name] = written if isinstance(table, list) else written[0]
    return build_config(tree, name="job"), _given(held)


def _given(held: Mapping[str, list[object]]) -> Given:
    rows = [each for name in ("ratings", "predictions", "labels") for each in held.get(name, [])]
    (truth,) = held.get("truth") or held.get("log") or [None]
    (train,) = held.get("train", [None])
    return Given(truth, held.get("rankings", rows), train)


def run_given(sections: Mapping[str, object], metrics: list[str] = METRICS, **more: object):
    config, given = config_of(sections, metrics, **more)
    return run_config(config, given=given)


def apart_from_inputs(report: Report) -> dict[str, object]:
    document = json.loads(render(report, "json"))
    ours = ("run_id", "run_key", "inputs", "meta", "name")
    return {name: value for name, value in document.items() if name not in ours}


# ---------------------------------------------------------------- one guess for all doors


@pytest.mark.parametrize("names", [{}, ALIKE], ids=["our names", "look-alikes"])
def test_a_config_without_columns_reads_what_python_reads(names):
    truth = TRUTH.rename(names, strict=False)
    rankings = RANKINGS.rename(names, strict=False)

    config = run_given({"truth": {"path": truth}, "rankings": [{"model": "m", "path": rankings}]})
    python = evalkit.evaluate(truth, {"m": rankings}, metrics=METRICS)
    by_hand = run_given(
        {
            "truth": {
                "path": TRUTH,
                "columns": {"user": "user", "item": "item", "relevance": "relevance"},
            },
            "rankings": [
                {
                    "model": "m",
                    "path": RANKINGS,
                    "columns": {"user": "user", "item": "item", "rank": "rank"},
                }
            ],
        }
    )

    assert apart_from_inputs(config) == apart_from_inputs(python) == apart_from_inputs(by_hand)
    assert config.value("recall@1") == pytest.approx(1 / 2)  # of 1/2, 1 and 0


def test_what_was_guessed_stands_in_the_inputs_and_comes_back():
    renamed = TRUTH.rename(ALIKE, strict=False)
    rankings = [{"model": "m", "path": RANKINGS, "columns": {"user": "user", "item": "item"}}]
    report = run_given({"truth": {"path": renamed}, "rankings": rankings})

    truth, model = Report.from_json(report.to_json(), at="").inputs

    assert truth.columns == {"user": "user_id", "item": "movieId", "relevance": "rating"}
    assert truth.guessed == ("user", "item", "relevance")
    assert (model.columns, model.guessed) == ({"user": "user", "item": "item"}, ())
    assert not [each for each in report.warnings if "guess" in each.message]


def test_reports_from_before_are_still_read():
    report = run_given({"log": {"model": "m", "path": LOG}})
    document = json.loads(report.to_json())
    for each in document["inputs"]:
        del each["columns"], each["guessed"]

    old = Report.from_json(json.dumps(document), at="")

    assert [(each.columns, each.guessed) for each in old.inputs] == [({}, ())] * 2


def test_a_joined_log_without_columns_reads_its_rank_and_its_label():
    renamed = LOG.rename({"label": "clicked", "rank": "position", "user": "session_id"})

    guessed = run_given({"log": {"model": "m", "path": renamed}})
    columns = {"user": "user", "item": "item", "rank": "rank", "label": "label"}
    named = run_given({"log": {"model": "m", "path": LOG, "columns": columns}})

    assert apart_from_inputs(guessed) == apart_from_inputs(named)
    assert guessed.inputs[0].columns["label"] == "clicked"


def test_what_the_columns_do_not_name_is_not_read():
    ids = {"user": "user", "item": "item"}
    rankings = [{"model": "m", "path": RANKINGS, "columns": ids}]
    report = run_given({"truth": {"path": TRUTH, "columns": ids}, "rankings": rankings})

    in_order = evalkit.evaluate(
        TRUTH.drop("relevance"), {"m": RANKINGS.drop("rank")}, metrics=METRICS
    )
    assert report.value("nDCG@10") == in_order.value("nDCG@10")
    assert report.inputs[0].guessed == ()


def test_a_threshold_without_a_relevance_is_refused():
    ids = {"user": "user", "item": "item"}
    rankings = [{"model": "m", "path": RANKINGS}]
    written = {"path": TRUTH, "columns": ids, "threshold": 2.0}

    with pytest.raises(EvalkitError):
        run_given({"truth": written, "rankings": rankings})
    with pytest.raises(EvalkitError):
        run_given(
            {
                "truth": {"path": TRUTH.select("user", "item"), "threshold": 2.0},
                "rankings": rankings,
            }
        )
    assert run_given({"truth": {"path": TRUTH, "threshold": 2.0}, "rankings": rankings})


def test_names_replace_the_guess_one_by_one_in_python():
    truth = TRUTH.with_columns(grade=pl.lit(1))

    report = evalkit.evaluate(
        truth, {"m": RANKINGS}, metrics=METRICS, columns={"relevance": "grade"}
    )

    assert report.inputs[0].columns == {"user": "user", "item": "item", "relevance": "grade"}
    assert report.inputs[0].guessed == ("user", "item")
    assert report.inputs[1].columns["rank"] == "rank"


@pytest.mark.parametrize(
    ("metrics", "names"),
    [(["AUC", "log-loss"], {}), (["AUC"], {"score": "probability", "label": "clicked"})],
)
def test_labels_without_columns_are_guessed_at_both_doors(metrics, names):
    rows = LABELS.rename({key: name for key, name in names.items() if name != "probability"})

    config = run_given({"labels": [{"model": "m", "path": rows}]}, metrics)
    python = evalkit.evaluate_labels({"m": rows}, metrics=metrics)

    assert apart_from_inputs(config) == apart_from_inputs(python)
    assert set(config.inputs[0].guessed) == {"user", "score", "label"}


def test_ratings_and_predictions_without_columns_are_guessed():
    ratings = pl.DataFrame({"user_id": [1, 1, 2], "movie_id": [1, 2, 1], "stars": [4.0, 2.0, 5.0]})
    predictions = pl.DataFrame({"uid": [1, 1, 2], "iid": [1, 2, 1], "est": [3.0, 2.5, 5.0]})
    sections = {
        "ratings": [{"path": ratings}],
        "predictions": [{"model": "m", "path": predictions}],
    }

    config = run_given(sections, ["MAE"])
    python = evalkit.evaluate_ratings(ratings, {"m": predictions}, metrics=["MAE"])

    assert config.value("MAE") == python.value("MAE") == 0.5
    assert config.inputs[1].columns == {"user": "uid", "item": "iid", "prediction": "est"}


def test_a_column_of_models_names_the_models_of_one_table():
    two = pl.concat([LABELS.with_columns(model=pl.lit(name)) for name in ("a", "b")])

    assert evalkit.evaluate_labels(two, metrics=["AUC"]).models == ("a", "b")
    assert evalkit.evaluate_labels({"m": LABELS}, metrics=["AUC"]).models == ("m",)


def test_a_table_of_users_may_call_them_otherwise():
    groups = pl.DataFrame({"user_id": [1, 2, 3], "age": ["old", "new", "new"]})
    rule = {"path": groups, "by": "age"}

    report = evalkit.evaluate(TRUTH, {"m": RANKINGS}, metrics=["RR"], segments={"age": rule})

    assert report.inputs[-1].columns == {"user": "user_id"}
    assert {each.segment for each in report.estimates} >= {"old", "new"}


# ---------------------------------------------------------------- what check says


def test_check_names_what_was_guessed_and_what_stands_unused(tmp_path):
    TRUTH.write_parquet(tmp_path / "truth.parquet")
    RANKINGS.write_parquet(tmp_path / "m.parquet")
    ids = {"user": "user", "item": "item"}
    tree = {
        "truth": {"path": str(tmp_path / "truth.parquet")},
        "rankings": [{"model": "m", "path": str(tmp_path / "m.parquet"), "columns": ids}],
        "metrics": {"names": METRICS},
    }

    found = {each.code: each for each in check_config(build_config(tree, name="job"))}

    assert "relevance = relevance" in found["guessed-columns"].message
    assert "'rank' looks like the rank, and is not read" in found["unread-column"].message
    assert not found["unread-column"].is_error
    assert not found["row-order"].is_error
    assert found["row-order"].at.endswith("m.parquet")


def test_another_choice_of_columns_is_another_run(tmp_path):
    TRUTH.write_parquet(tmp_path / "truth.parquet")
    RANKINGS.write_parquet(tmp_path / "m.parquet")

    def key(**columns: object) -> str | None:
        tree = {
            "truth": {"path": str(tmp_path / "truth.parquet"), **columns},
            "rankings": [{"model": "m", "path": str(tmp_path / "m.parquet")}],
            "metrics": {"names": METRICS},
        }
        return key_of_run(build_config(tree, name="job"))

    guessed, ids = key(), {"user": "user", "item": "item"}

    assert guessed == key(columns={**ids, "relevance": "relevance"})
    assert guessed != key(columns=ids)


# ---------------------------------------------------------------- ranks and scores


BOTH = RANKINGS.with_columns(score=pl.lit(1.0))  # all of one score


@pytest.mark.parametrize("profile", ["ranx", "trec_eval", "ir_measures", "sklearn", "recbole"])
def test_a_library_that_looks_at_scores_is_given_the_scores(profile):
    report = evalkit.evaluate(TRUTH, {"m": BOTH}, metrics=["nDCG@2"], profile=profile)

    same = evalkit.evaluate(TRUTH, {"m": BOTH.drop("rank")}, metrics=["nDCG@2"], profile=profile)
    assert report.value("nDCG@2") == same.value("nDCG@2")
    assert report.inputs[1].columns == {"user": "user", "item": "item", "score": "score"}
    assert "policy-without-scores" not in [each.code for each in report.warnings]


@pytest.mark.parametrize("profile", ["evalkit", "rectools", "elliot"])
def test_others_are_given_the_ranks(profile):
    report = evalkit.evaluate(TRUTH, {"m": BOTH}, metrics=["nDCG@2"], profile=profile)

    assert "score" not in report.inputs[1].columns


def test_a_policy_of_one_metric_asks_for_scores_too(tmp_path):
    (tmp_path / "house.toml").write_text('[metrics]\nRR = { ties = "mean-rank" }\nhit = {}\n')

    report = evalkit.evaluate(
        TRUTH, {"m": BOTH}, metrics=["RR", "hit@1"], profile=str(tmp_path / "house.toml")
    )

    assert report.inputs[1].columns["score"] == "score"
    assert "policy-without-scores" not in [each.code for each in report.warnings]


@pytest.mark.parametrize("profile", ["ranx", "trec_eval"])
def test_where_both_are_written_ranks_order_and_the_ties_do_not_apply(profile):
    columns = {"user": "user", "item": "item", "rank": "rank", "score": "score"}
    rankings = [{"model": "m", "path": BOTH, "columns": columns}]

    report = run_given({"truth": {"path": TRUTH}, "rankings": rankings}, ["RR"], profile=profile)

    (warning,) = [each for each in report.warnings if each.code == "policy-without-scores"]
    assert "is ordered by its ranks" in warning.message
    assert "has no scores" not in warning.message


def test_a_rule_for_scores_by_hand_says_that_ranks_are_read():
    with pytest.raises(RequestError) as caught:
        evalkit.evaluate(TRUTH, {"m": RANKINGS}, metrics=["RR"], policies={"ties": "numba"})

    assert caught.value.code == "policy-without-scores"
    assert "read by their ranks" in caught.value.message


# ---------------------------------------------------------------- files whose names tell nothing

QRELS = "301 0 CR93E-1 1\n# a comment\n301\t0 \tCR93E-2 0\n302 0 CR93E-1 2\n"
RUN = "301 Q0 CR93E-2 1 2.5 x\n301 Q0 CR93E-1 2 1.5 x more junk\n302 Q0 CR93E-1 1 -1e3 x\n"


@pytest.fixture
def trec(tmp_path: Path) -> Path:
    (tmp_path / "qrels.test").write_text(QRELS)
    (tmp_path / "results.test").write_text(RUN)
    return tmp_path


def test_trec_files_are_known_by_their_lines(trec):
    report = evalkit.evaluate(trec / "qrels.test", {"x": trec / "results.test"}, metrics=["RR"])

    assert report.value("RR") == 0.75
    assert report.inputs[0].columns == {"user": "user", "item": "item", "relevance": "relevance"}


@pytest.mark.parametrize(
    "text",
    [
        "196\t242\t3\t881250949\n196\t0\t3\t881250949\n",  # user, item, rating, time
        "1 0 2 1\n",
        "1 0 2 881250949\n2 0 3 881250950\n",
        "user item rating\n1 0 3\n",
        "301 Q0 a b\n",
        "301 0 CR93E-1 1\n301 Q0 CR93E-2 1 2.5 x\n",
        "",
        "# nothing\n",
        "\x00" * 40,
    ],
)
def test_other_files_without_a_known_name_are_refused(tmp_path, text):
    (tmp_path / "u.data").write_text(text)

    with pytest.raises(DataError) as caught:
        evalkit.evaluate(tmp_path / "u.data", {"m": RANKINGS}, metrics=["RR"])

    assert caught.value.code == "unknown-format"
    assert "format =" not in caught.value.hint  # no such argument in Python


def test_a_run_where_a_truth_belongs_is_told(trec):
    with pytest.raises(DataError) as caught:
        evalkit.evaluate(trec / "results.test", {"m": RANKINGS}, metrics=["RR"])

    assert "TREC runs, and here belong TREC qrels" in caught.value.hint


# ---------------------------------------------------------------- one column is no table


def test_a_series_is_refused_and_says_what_to_do():
    pandas = pytest.importorskip("pandas")
    index = pandas.MultiIndex.from_tuples([(1, 10), (2, 10)], names=["user", "item"])
    series = pandas.Series([1.0, 2.0], index=index, name="relevance")

    for table, hint in ((series, "reset_index()"), (pl.Series([1, 2]), "frame")):
        with pytest.raises(DataError) as caught:
            evalkit.evaluate(table, {"m": RANKINGS}, metrics=["RR"])
        assert caught.value.code == "unknown-format"
        assert hint in caught.value.hint
    assert evalkit.evaluate(series.reset_index(), {"m": RANKINGS}, metrics=["RR"])


@pytest.mark.parametrize("ranks", [[[2, 1], [1, 2]], [1, 2]], ids=["lists", "one a list"])
def test_a_guessed_rank_beside_lists_is_refused_and_says_how_to_read_them(ranks):
    lists = pl.DataFrame({"user": [1, 2], "item": [[10, 11], [13, 10]]})
    with pytest.raises(DataError) as caught:
        evalkit.evaluate(TRUTH, {"m": lists.with_columns(rank=pl.Series(ranks))}, metrics=METRICS)

    assert caught.value.code == "bad-type"
    assert "drop its column where it was guessed" in caught.value.hint
    assert evalkit.evaluate(TRUTH, {"m": lists}, metrics=METRICS).value("RR") > 0


def test_many_paths_that_lead_nowhere_are_one_error():
    with pytest.raises(evalkit.EvalkitError) as caught:
        evalkit.evaluate(
            TRUTH, {"m": RANKINGS}, metrics=["recall@2"], users=[f"u{each}" for each in range(9)]
        )

    assert str(caught.value).startswith("error[path-not-found]: 9 paths lead to no file")
    assert 'pl.DataFrame({"user": [...]})' in str(caught.value)


def test_errors_of_a_matrix_say_how_its_rows_and_columns_are_named():
    with pytest.raises(evalkit.EvalkitError) as caught:
        evalkit.evaluate({"u": ["a"]}, {"m": np.ones((2, 2))}, metrics=["RR"])

    assert (
        caught.value.at
        == "rankings (numpy ndarray; user_ids= and item_ids= name its rows and columns)"
    )


def test_truth_and_rankings_the_wrong_way_round_are_refused(tmp_path):
    graded = TRUTH if "relevance" in TRUTH.columns else TRUTH.with_columns(relevance=1)
    RANKINGS.write_parquet(tmp_path / "a.parquet")
    graded.write_parquet(tmp_path / "b.parquet")
    tree = {
        "truth": {"path": str(tmp_path / "a.parquet")},
        "rankings": [{"model": "m", "path": str(tmp_path / "b.parquet")}],
        "metrics": {"names": ["RR"]},
    }

    with pytest.raises(EvalkitError) as of_python:
        evalkit.evaluate(RANKINGS, {"m": graded}, metrics=["RR"])
    with pytest.raises(EvalkitError) as of_config:
        run_config(build_config(tree, name="job"))

    assert of_python.value.code == of_config.value.code == "swapped-tables"


def test_a_threshold_above_all_relevance_is_warned_of():
    report = evalkit.evaluate(TRUTH, {"m": RANKINGS}, metrics=["RR"], threshold=1e9)

    assert "nothing-relevant" in [each.code for each in report.warnings]


def test_a_limit_of_memory_in_words_is_one_error():
    with pytest.raises(RequestError, match="not a number of bytes"):
        evalkit.evaluate(TRUTH, {"m": RANKINGS}, metrics=["RR"], memory_limit="4GB")


def test_compare_takes_the_tables_that_evaluate_takes():
    both = {"m": RANKINGS, "n": RANKINGS}
    beside = {"train": TRUTH.select("user", "item"), "policies": {"truth_in_train": "count"}}

    compared = evalkit.compare(TRUTH, both, metrics=["novelty@2"], **beside)
    measured = evalkit.evaluate(TRUTH, both, metrics=["novelty@2"], **beside)

    assert compared.value("novelty@2", model="n") == measured.value("novelty@2", model="n")


@pytest.mark.parametrize("ending", ["parquet", "arrow", "csv", "ndjson"])
def test_inputs_tell_the_rows_that_were_read_of_every_table(tmp_path, ending):
    write = {"arrow": "write_ipc"}.get(ending, f"write_{ending}")
    others = {
        "items": pl.DataFrame({"item": [10, 11, 12, 13], "old": [0, 1, 1, 0]}),
        "users": pl.DataFrame({"user": [1, 2, 3], "shop": ["a", "b", "b"]}),
    }
    logs = {"truth": TRUTH, "als": RANKINGS, "before": RANKINGS, "popular": RANKINGS.head(3)}
    paths = {}
    for name, table in (logs | others).items():
        paths[name] = str(tmp_path / f"{name}.{ending}")
        getattr(table, write)(paths[name])
    tree = {
        "truth": {"path": paths["truth"]},
        "rankings": [{"model": "als", "path": paths["als"], "earlier": [paths["before"]]}],
        "items": {"path": paths["items"], "where": "old = 1"},
        "users": {"path": paths["users"]},
        "metrics": {
            "names": [
                "RR",
                "item_coverage@2",
                "user_coverage@2",
                "overlap@2",
                "temporal_novelty@2",
            ],
            "reference": paths["popular"],
        },
        "segments": {"shop": {"path": paths["users"], "by": "shop", "user": "user"}},
        "policies": {"missing_ranking": "skip"},
    }

    report = run_config(build_config(tree, name="job"))

    rows = {each.role: each.rows for each in report.inputs}
    wanted = {"items": 2, "users": 3, "reference": 3, "earlier": 7, "segments": 3}
    assert rows == {"truth": 6, "rankings": 7} | wanted
