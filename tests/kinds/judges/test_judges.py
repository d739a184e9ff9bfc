"""Judges from a table to a report: the rows that count, what stands beside alpha, odd judges."""

import importlib
import json
import math
import re
from itertools import count, islice, product
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from program import Outcome, run_here
from records import FOLDER, fixture

import evalkit
from evalkit.config import GateRule
from evalkit.errors import DataError, RequestError
from evalkit.kinds.judges.judged_truth import error_of
from evalkit.report.html import render_html
from evalkit.runs.gates import Baselines, judge

RATED = pl.DataFrame(
    {
        "query": ["q", "q", "q", "q", "r", "r", "r"],
        "item": ["a", "a", "b", "b", "a", "a", "a"],
        "who": ["ann", "bob", "ann", "bob", "ann", "bob", "cat"],
        "grade": [1, 1, 0, 1, 2, 2, None],
    }
)
COLUMNS = {"unit": ["query", "item"], "judge": "who", "rating": "grade"}
LEVELS = [0, 1, 2]


def rated(n_units: int, *columns: list[float | None]) -> pl.DataFrame:
    """A column a judge, spelled out as rows."""
    rows = [
        (unit, f"judge {number}", column[unit])
        for number, column in enumerate(columns)
        for unit in range(n_units)
    ]
    return pl.DataFrame(rows, schema=["unit", "judge", "rating"], orient="row")


def codes_of(report: evalkit.Report) -> set[str]:
    return {warning.code for warning in report.warnings}


def test_alpha_never_stands_alone() -> None:
    report = evalkit.evaluate_judges(RATED, columns=COLUMNS, levels=LEVELS, metrics=["alpha"])

    assert report.labels == ("alpha", "AC", "agreement")
    assert report.value("agreement") == pytest.approx(2 / 3)
    assert report.counts.truth.rows_dropped == {"no_rating": 1}


def test_the_truth_of_a_vote_is_read_by_a_run(tmp_path: Path) -> None:
    report = evalkit.evaluate_judges(
        RATED, columns=COLUMNS, levels=LEVELS, truth={"path": str(tmp_path / "truth.parquet")}
    )

    assert report.truth.rows() == [
        ("q", "a", 1.0, 2, 1.0),
        ("q", "b", 0.0, 2, 0.5),
        ("r", "a", 2.0, 2, 1.0),
    ]
    assert "tied-votes" in codes_of(report)
    found = evalkit.evaluate(
        tmp_path / "truth.parquet",
        {"m": {"q": ["a", "b"], "r": ["b", "a"]}},
        metrics=["RR"],
        columns={"truth": {"user": "query"}},
    )
    assert found.value("RR") == pytest.approx(3 / 4)


@pytest.mark.parametrize("form", ["frame", "csv", "wide", "label studio", "label studio min"])
def test_every_form_of_the_table_is_one_table(form: str, tmp_path: Path) -> None:
    known = RATED.drop_nulls()
    table: object = known
    columns: dict[str, object] = dict(COLUMNS)
    if form == "csv":
        table = tmp_path / "r.csv"
        RATED.write_csv(table)
    elif form == "wide":
        table = known.pivot("who", index=["query", "item"], values="grade")
        columns = {"unit": ["query", "item"], "ratings": ["ann", "bob"]}
    elif form == "label studio":
        table = tmp_path / "export.json"
        tasks = [
            {
                "id": number,
                "data": {"query": query, "item": item},
                "annotations": [
                    {
                        "completed_by": {"email": who},
                        "lead_time": 3.5,
                        "result": [{"from_name": "grade", "value": {"rating": grade}}],
                    }
                    for who, grade in rows.select("who", "grade").iter_rows()
                ],
            }
            for number, ((query, item), rows) in enumerate(known.group_by("query", "item"))
        ]
        table.write_text(json.dumps(tasks))
        columns = {"unit": ["query", "item"], "judge": "judge", "rating": "grade"}
    elif form == "label studio min":
        table = tmp_path / "export.json"
        rows = [
            {"id": 1, "query": q, "item": i, "grade": str(g), "annotator": w, "annotation_id": 2}
            for q, i, w, g in known.iter_rows()
        ]
        table.write_text(json.dumps(rows))
        columns = {"unit": ["query", "item"], "judge": "judge", "rating": "grade"}

    report = evalkit.evaluate_judges(table, columns=columns, levels=LEVELS)  # type: ignore[arg-type]

    whole = evalkit.evaluate_judges(RATED, columns=COLUMNS, levels=LEVELS)
    for name in ("alpha", "AC", "agreement"):
        assert report.value(name) == whole.value(name)
    assert report.truth["relevance"].to_list() == [1.0, 0.0, 2.0]


def test_order_of_rows_and_threads_change_nothing() -> None:
    rng = np.random.default_rng(5)
    table = rated(60, *rng.integers(0, 3, (4, 60)).tolist())

    one = evalkit.evaluate_judges(table, levels=LEVELS)
    other = evalkit.evaluate_judges(table.sample(fraction=1, shuffle=True, seed=3), levels=LEVELS)

    assert one.estimates == other.estimates
    assert one.truth.equals(other.truth)


@pytest.mark.parametrize(
    ("rows", "code"),
    [
        ({"grade": [1, 1, 0, 1, 2, 7, None]}, "unknown-level"),
        ({"who": ["ann", "ann", "ann", "bob", "ann", "bob", "cat"]}, "duplicate-rating"),
        ({"who": ["ann", None, "ann", "bob", "ann", "bob", "cat"]}, "null-id"),
        ({"grade": [None] * 7}, "empty-input"),
        ({"known": [7, None, None, None, None, None, None]}, "unknown-level"),
        ({"known": [1, 2, None, None, None, None, None]}, "segment-varies"),
        ({"took": ["5", "soon", None, None, None, None, None]}, "not-a-number"),
    ],
)
def test_what_is_no_rating_is_refused(rows: dict[str, list[object]], code: str) -> None:
    table = RATED.with_columns(**{name: pl.Series(name, each) for name, each in rows.items()})

    more = {"gold": "known"} if "known" in rows else {"time": "took"} if "took" in rows else {}
    with pytest.raises(DataError) as raised:
        evalkit.evaluate_judges(table, columns={**COLUMNS, **more}, levels=LEVELS)

    assert raised.value.code == code


@pytest.mark.parametrize(
    ("levels", "kind"),
    [([0, 0, 1, 2], "ordinal"), ([0, 1, "1.0", 2], "nominal"), ([0, 1, math.inf, 2], "ordinal"),
     ([-1, 0, 1, 2], "ratio"), (["no", "no", "yes"], "nominal")],
)  # fmt: skip
def test_what_are_no_levels_is_refused(levels: list[str | float], kind: str) -> None:
    table = RATED.with_columns(pl.lit("no").alias("grade")) if "no" in levels else RATED

    with pytest.raises(DataError) as raised:
        evalkit.evaluate_judges(table, columns=COLUMNS, levels=levels, kind=kind)

    assert raised.value.code == "unknown-level"


def test_one_level_only_is_undefined_beside_percent_agreement() -> None:
    report = evalkit.evaluate_judges(
        rated(3, [1, 1, 1], [1, 1, 1]), levels=LEVELS, metrics=["fleiss", "brennan-prediger"]
    )

    assert report.value("agreement") == 1.0
    for name in ("alpha", "AC", "fleiss", "brennan-prediger"):
        assert math.isnan(report.value(name))


def test_one_judge_and_one_unit_have_no_agreement() -> None:
    alone = evalkit.evaluate_judges(rated(3, [0, 1, 2]), levels=LEVELS)
    single = evalkit.evaluate_judges(rated(1, [0], [1]), levels=LEVELS)

    assert math.isnan(alone.value("alpha"))
    assert {"few-judges", "thin-units"} <= codes_of(alone)
    assert single.value("agreement") == 0.0
    assert single.metrics["low"].null_count() == single.metrics.height


def test_guessed_levels_are_said() -> None:
    assert "guessed-levels" in codes_of(evalkit.evaluate_judges(RATED, columns=COLUMNS))


def test_levels_of_an_enum_are_in_its_order() -> None:
    words = ["poor", "fair", "good"]
    texts = RATED.with_columns(pl.col("grade").replace_strict(dict(enumerate(words))))
    typed = texts.with_columns(pl.col("grade").cast(pl.Enum(words)))

    named = evalkit.evaluate_judges(texts, columns=COLUMNS, levels=words)
    found = evalkit.evaluate_judges(typed, columns=COLUMNS)

    assert "guessed-levels" not in codes_of(found)
    assert found.value("alpha") == named.value("alpha")
    assert found.value("alpha") != evalkit.evaluate_judges(texts, columns=COLUMNS).value("alpha")


def odd_judges() -> pl.DataFrame:
    """Four good judges, one who answers at random, one who always says 1; the last is hasty."""
    rng = np.random.default_rng(2)
    truth = rng.integers(0, 3, 200)
    good = [np.where(rng.random(200) < 0.9, truth, rng.integers(0, 3, 200)) for _ in range(4)]
    table = rated(
        200, *[each.tolist() for each in good], rng.integers(0, 3, 200).tolist(), [1] * 200
    )
    seconds = pl.when(pl.col("judge") == "judge 5").then(1.0).otherwise(10.0)
    known = pl.col("unit").replace_strict(dict(enumerate(truth.tolist())), return_dtype=pl.Int64)
    gold = pl.when(pl.col("unit") < 40).then(known)
    return table.with_columns(seconds=seconds, gold=gold)


def test_judges_who_stand_out_are_named() -> None:
    columns = {"time": "seconds", "gold": "gold"}

    report = evalkit.evaluate_judges(odd_judges(), levels=LEVELS, columns=columns)

    told = {
        (warning.code, warning.message.split(" g")[0].split(" t")[0].split(" a")[0])
        for warning in report.warnings
        if warning.code.startswith("judge-")
    }
    assert ("judge-disagrees", "judge 4") in told
    assert ("judge-constant", "judge 5") in told
    assert ("judge-fast", "judge 5") in told
    assert ("judge-fails-gold", "judge 4") in told
    assert not any(name in {"judge 0", "judge 1", "judge 2", "judge 3"} for _, name in told)


def test_a_model_is_held_against_the_people() -> None:
    report = evalkit.evaluate_judges(odd_judges().filter(pl.col("judge") != "judge 5"),
                                     levels=LEVELS, models=["judge 4"])  # fmt: skip

    (found,) = report.comparisons
    assert (found.baseline, found.candidate, found.verdict) == ("people", "judge 4", "worse")
    assert found.high < 0
    kept = [e for e in report.estimates if e.segmentation == "verdicts"]
    assert 0.2 < kept[0].value < 0.5  # one in three by chance
    with pytest.raises(DataError) as raised:
        evalkit.evaluate_judges(RATED, columns=COLUMNS, models=["gpt"])
    assert raised.value.code == "unknown-judge"
    with pytest.raises(DataError) as raised:
        evalkit.evaluate_judges(RATED, columns=COLUMNS, models=["ann", "bob", "cat"])
    assert raised.value.code == "few-judges"


def test_models_that_judge_are_corrected_together_and_may_be_fast() -> None:
    table = odd_judges().with_columns(
        took=pl.when(pl.col("judge") == "judge 0").then(0.1).otherwise(9.0)
    )

    report = evalkit.evaluate_judges(
        table, levels=LEVELS, models=["judge 0", "judge 4"], columns={"time": "took"}
    )

    one, other = sorted(report.comparisons, key=lambda each: each.p_value)
    assert one.p_adjusted == pytest.approx(2 * one.p_value)
    assert other.p_adjusted == max(one.p_adjusted, other.p_value)
    assert "judge-fast" not in codes_of(report)


def test_limits_for_other_judges_are_wider() -> None:
    table = odd_judges()

    these = evalkit.evaluate_judges(table, levels=LEVELS).metrics.row(0, named=True)
    others = evalkit.evaluate_judges(table, levels=LEVELS, judges="others").metrics.row(
        0, named=True
    )

    assert others["high"] - others["low"] > 1.5 * (these["high"] - these["low"])


PREFERRED = pl.DataFrame(
    {
        "judge": ["x", "x", "y", "y", "z", "z"],
        "first": ["a", "b", "a", "b", "a", "b"],
        "second": ["b", "a", "b", "a", "b", "a"],
        "preferred": ["first", "second", "tie", "a", "second", "left"],
    }
)


def test_preferences_by_hand() -> None:
    """a wins rows 1, 2 and 4, ties row 3, loses 5 and 6: 3.5 of 6; the first side 1, 4?, ..."""
    report = evalkit.evaluate_preferences(PREFERRED)

    assert report.value("win-rate", model="a") == pytest.approx(3.5 / 6)
    assert report.value("win-rate", model="b") == pytest.approx(2.5 / 6)
    # the first side won rows 1 and 6 and half of row 3
    assert report.value("win-rate", model="(shown first)") == pytest.approx(2.5 / 6)
    strengths = report.value("bradley-terry", model="a") - report.value("bradley-terry", model="b")
    assert strengths == pytest.approx(math.log(3.5 / 2.5))
    found = report.comparisons[0]
    assert (found.wins, found.ties, found.losses) == (2, 1, 3)
    assert (found.p_adjusted, found.verdict) == (found.p_value, "cannot tell")
    assert [row[2] for row in report.standings[0].models] == ["a", "a"]


@pytest.mark.parametrize(
    ("column", "values", "code"),
    [
        ("second", ["a", "a", "b", "a", "b", "a"], "same-model"),
        ("preferred", ["first", "second", "tie", "c", "second", "left"], "unknown-preference"),
        ("preferred", [None] * 6, "empty-input"),
        ("judge", ["ann", None, "ann", "bob", "bob", "cat"], "null-id"),
        # a model of that name, or the side
        ("first", ["c", "c", "tie", "c", "c", "c"], "unknown-preference"),
    ],
)
def test_what_is_no_preference_is_refused(column: str, values: list[str], code: str) -> None:
    with pytest.raises(DataError) as raised:
        evalkit.evaluate_preferences(PREFERRED.with_columns(pl.Series(column, values)))

    assert raised.value.code == code
    assert raised.value.hint


def test_metrics_of_the_other_table_are_refused() -> None:
    with pytest.raises(RequestError) as raised:
        evalkit.evaluate_preferences(PREFERRED, metrics=["alpha"])
    assert raised.value.code == "metric-of-other-kind"


@pytest.mark.skipif(not FOLDER.is_dir(), reason="EVALKIT_TEST_DATA is not set")
def test_the_usability_scale_of_the_fixture() -> None:
    answers = fixture("sus")["answers"]
    rows = [(q + 1, f"p{p}", a) for p, own in enumerate(answers) for q, a in enumerate(own)]
    table = pl.DataFrame(rows, schema=["unit", "judge", "rating"], orient="row")

    report = evalkit.evaluate_judges(table, levels=[1, 2, 3, 4, 5], metrics=["SUS"])

    found = next(each for each in report.estimates if each.name == "SUS")
    assert found.value == pytest.approx(51.0)
    assert found.std_error == pytest.approx(2.6119663897249197, rel=1e-12)


STUDY = """
name = "study"
[judges]
path = "ratings.csv"
columns = { unit = ["query", "item"], judge = "who", rating = "grade" }
levels = [0, 1, 2]
[metrics]
names = ["alpha"]
[segments]
query = { by = "query" }
[[gates]]
metric = "agreement"
min = 0.9
min_users = 2
"""


@pytest.fixture
def study(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    RATED.write_csv(tmp_path / "ratings.csv")
    (tmp_path / "study.toml").write_text(
        STUDY.replace('"agreement"\nmin = 0.9', '"alpha"\nmin = 2')
    )
    monkeypatch.chdir(tmp_path)
    return tmp_path


def command(*arguments: str) -> Outcome:
    return run_here(list(arguments), Path.cwd())


def test_a_study_is_checked_run_judged_and_merged(study: Path) -> None:
    assert command("check", "study.toml").status == 0
    assert command("run", "study.toml", "--quiet").status == 1  # alpha is never 2
    whole = evalkit.load("runs/latest")
    assert whole.kind == "judges"
    assert {e.segment for e in whole.estimates if e.segmentation == "query"} == {"q", "r"}
    for share in (2, 1):
        part = command(
            "partial", "study.toml", "--share", f"{share}/2", "--out", f"{share}.partial"
        )
        assert part.status == 0, part.err
    merged = evalkit.merge(["2.partial", "1.partial"])
    assert merged.metrics.equals(whole.metrics)  # nan is no value there
    assert merged.run_key == whole.run_key


def test_what_a_config_cannot_say_is_told(study: Path) -> None:
    told = command(
        "check", "study.toml", "--set", "judges.columns.judge=", "--set", "judges.kind=odd"
    )
    assert told.status == 2
    more = command("check", "study.toml", "--set", "statistics.margin=0.1")
    assert more.codes == ["conflicting-keys"]


def judged_logs() -> tuple[pl.DataFrame, dict[str, pl.DataFrame]]:
    """Sixty users, twelve items, four judges of whom the last is strict; two models."""
    rng = np.random.default_rng(8)
    users, items = np.repeat(np.arange(60), 12), np.tile(np.arange(12), 60)
    true = rng.integers(0, 3, len(users))
    judged = [
        (user, item, f"j{j}", max(0, min(2, level + int(rng.integers(-1, 2)) - (j == 3))))
        for j in range(4)
        for user, item, level in zip(users.tolist(), items.tolist(), true.tolist(), strict=True)
    ]
    schema = ["user", "item", "judge", "rating"]
    lists = {
        name: pl.DataFrame(
            {"user": users, "item": items, "score": true + rng.normal(0, noise, len(users))}
        )
        for name, noise in (("noisy", 3.0), ("fine", 0.5))
    }
    return pl.DataFrame(judged, schema=schema, orient="row"), lists


def test_what_people_rated_is_called_units_and_not_users() -> None:
    report = evalkit.evaluate_judges(RATED, columns=COLUMNS, levels=LEVELS)
    page = render_html(report).split("name = &#x27;judges")[0]  # its config has policies

    for shown in (str(report), report.to_markdown(), page):
        assert "units" in shown
        assert "users" not in re.sub(r'(id="|href="#)users"', "", shown)


@pytest.mark.parametrize(
    ("n_judges", "setting", "code"),
    [(1, "name=one", "few-judges"), (4, "statistics.margin=0.1", "conflicting-keys")],
)
def test_what_judges_of_a_truth_cannot_say_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, n_judges: int, setting: str, code: str
) -> None:
    monkeypatch.chdir(tmp_path)
    judged, lists = judged_logs()
    judged.filter(pl.col("judge") < f"j{n_judges}").write_parquet("ratings.parquet")
    for name, frame in lists.items():
        frame.write_parquet(f"{name}.parquet")
    Path("job.toml").write_text(
        """
        truth = { judgements = "ratings.parquet", columns = { relevance = "rating" } }
        rankings = [{ model = "noisy", path = "noisy.parquet" },
                  { model = "fine", path = "fine.parquet" }]
        metrics = { names = ["nDCG@5"] }
        statistics = { baseline = "noisy" }
        """.replace("\n                  ", " ")
    )

    refused = command("run", "job.toml", "--set", setting)

    assert refused.codes == [code]
    assert not Path("runs/latest").exists()


def test_limits_of_rankings_hold_users_and_judges(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    judged, lists = judged_logs()
    judged.write_parquet("ratings.parquet")
    for name, frame in lists.items():
        frame.write_parquet(f"{name}.parquet")
    Path("job.toml").write_text(
        """
        truth = { judgements = "ratings.parquet", vote = "mean", threshold = 1.0,
                  columns = { judge = "judge", relevance = "rating" } }
        rankings = [{ model = "noisy", path = "noisy.parquet" },
                  { model = "fine", path = "fine.parquet" }]
        metrics = { names = ["nDCG@5"] }
        statistics = { baseline = "noisy" }
        """.replace("\n                  ", " ")
    )
    ran = command("run", "job.toml", "--quiet")
    assert ran.status == 0, ran.err
    report = evalkit.load("runs/latest")

    def of(judges: list[str]) -> evalkit.Report:
        truth = (
            judged.filter(pl.col("judge").is_in(judges))
            .group_by("user", "item")
            .agg(pl.col("rating").mean().alias("relevance"))
        )
        return evalkit.compare(truth, lists, metrics=["nDCG@5"], threshold=1.0)

    names = ["j0", "j1", "j2", "j3"]
    whole = of(names).comparisons[0]
    without = np.array([of([n for n in names if n != name]).comparisons[0].delta for name in names])
    square = 3 / 4 * ((without - without.mean()) ** 2).sum()
    found = report.comparisons[0]
    assert found.delta == pytest.approx(whole.delta, rel=1e-12)
    assert found.std_error == pytest.approx(math.sqrt(whole.std_error**2 + square), rel=1e-9)
    own = whole.std_error**2
    assert found.df == pytest.approx((own + square) ** 2 / (own**2 / 59 + square**2 / 3), rel=1e-9)
    assert "few-judges" in codes_of(report)
    part = command("partial", "job.toml", "--share", "1/2", "--out", "1.partial")
    assert part.codes == ["conflicting-keys"]
    on_spark = command("run", "job.toml", "--engine", "spark")
    assert on_spark.codes == ["conflicting-keys"]
    assert "--engine local" in on_spark.err


def test_a_plan_finds_the_pairs_that_move_the_difference() -> None:
    truth = pl.DataFrame({"user": [1, 1, 2], "item": ["a", "b", "a"], "relevance": [1, 0, 1]})
    lists = {
        "old": {1: ["a", "b"], 2: ["a", "x"]},
        "new": {1: ["c", "a"], 2: ["y", "z"]},
    }

    plan = evalkit.judge_plan(truth, lists, metric="precision@2", n=3)

    # now (1/2 - 1/2) and (0 - 1/2); c, y, z favour new, x old, each by 1/2 of one of two users
    assert plan.bounds.row(0)[:4] == ("now", -0.25, -0.5, 0.5)
    # three of the four are judged; users differ by 0 and -1/2: 2 x 12.706 x 1/4
    assert plan.bounds["width"].to_list() == pytest.approx([1.0, 0.25])
    assert plan.bounds["interval"][0] == pytest.approx(6.3531, abs=1e-4)
    assert set(plan["gain"].to_list()) == {0.25}
    assert set(plan["stratum"].to_list()) <= {"favours new", "favours old"}
    assert plan["item"].to_list() == ["c", "y", "z"]  # at rank 1, 1, 2
    assert plan.columns[-2:] == ["judge", "rating"]
    with pytest.raises(RequestError) as raised:
        evalkit.judge_plan(truth, {"old": {1: ["a"]}, "new": {1: ["b"]}}, metric="RR@1", n=2)
    assert raised.value.code == "nothing-to-judge"


ONE_JUDGED = pl.DataFrame({"user": [1, 1], "item": ["a", "b"], "relevance": [1, 0]})
OLD_AND_NEW = {"old": {1: ["a", "b"]}, "new": {1: ["c", "a"]}}


@pytest.mark.parametrize(
    ("code", "asked", "told"),
    [
        ("missing-cutoff", {"metric": "nDCG"}, "hint: write nDCG@10"),
        ("missing-cutoff", {"metric": "nDCG@{1,2}"}, "hint: write nDCG@10"),
        ("unknown-model", {"models": ["old", "z"]}, "the models are old, new"),
        ("nothing-to-judge", {"models": ["old"]}, "and 1 are given"),
        ("out-of-range", {"n": 0}, "n is 0, not a number above 0"),
        ("out-of-range", {"relevance": -1}, "relevance is -1, not"),
    ],
)
def test_what_no_plan_can_be_made_of_is_refused(
    code: str, asked: dict[str, object], told: str
) -> None:
    with pytest.raises(RequestError) as raised:
        evalkit.judge_plan(ONE_JUDGED, OLD_AND_NEW, **{"metric": "RR@2", "n": 2, **asked})

    assert raised.value.code == code
    assert told in str(raised.value)


def test_relevance_of_a_plan_may_be_a_whole_number() -> None:
    plan = evalkit.judge_plan(ONE_JUDGED, OLD_AND_NEW, metric="RR@2", n=2, relevance=1)

    assert plan["item"].to_list() == ["c"]


TEN = rated(10, [1, 2, 3, 4, 6] * 2, [5] * 10)


@pytest.mark.parametrize(
    ("code", "rows", "asked", "told"),
    [
        ("not-a-scale", TEN[:6], {"metrics": ["SUS"]}, "there are 6 units with 1, 2"),
        ("not-a-scale", TEN, {"metrics": ["SUS"]}, "there are 10 units with 1, 2, 3, 4, 5, 6"),
        ("unknown-judge", TEN, {"models": ["z"]}, "the judges are judge 0, judge 1"),
        ("few-judges", TEN, {"models": ["judge 0", "judge 1"]}, "leave models out"),
    ],
)
def test_what_no_agreement_is_of_is_refused(
    code: str, rows: pl.DataFrame, asked: dict[str, object], told: str
) -> None:
    with pytest.raises(DataError) as raised:
        evalkit.evaluate_judges(rows, **{"metrics": ["alpha"], **asked})

    assert raised.value.code == code
    assert told in str(raised.value)


def test_a_plan_looks_where_both_lists_stand_high_and_at_either_model() -> None:
    truth = pl.DataFrame({"user": [1, 2], "item": ["a", "a"], "relevance": [1.0, 0.0]})
    lists = {
        "old": {1: ["a", "b", "c"], 2: ["b", "a", "c"]},
        "new": {1: ["a", "z", "y"], 2: ["x", "z", "c"]},
    }

    plan = evalkit.judge_plan(truth, lists, metric="precision@3", n=9)

    found = plan.frame.select("user", "item", "stratum").rows()
    # at rank 1, 2 and 3; c of user 2 is at one rank in both
    assert found == [
        *((2, "x", "favours new"), (2, "b", "favours old")),
        *((1, "z", "favours new"), (1, "b", "favours old"), (2, "z", "favours new")),
        *((1, "y", "favours new"), (1, "c", "favours old")),
    ]
    assert plan["gain"].to_list() == pytest.approx([1 / 6] * 7)


def test_plans_reverse_a_verdict_with_fewer_judgements_than_pooling_by_depth(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of twenty pools in which judging all reverses what rank 1 says; bench/judges.py has more."""
    monkeypatch.syspath_prepend(Path(__file__).parents[3] / "bench")
    race = importlib.import_module("judges").race
    races = islice(filter(None, map(race, count())), 20)
    planned, pooled = zip(*((each.planned, each.pooled) for each in races), strict=True)

    fewer = sum(one < other for one, other in zip(planned, pooled, strict=True))
    assert fewer >= 15
    assert sum(planned) < 0.75 * sum(pooled)


METRICS = ("nDCG@2", "nDCG(unjudged='skip')@2", "RR(unjudged='skip')@2", "judged@2",
           "rbp_residual@2")  # fmt: skip


POOL = pl.DataFrame({"user": [1, 1, 2], "item": ["0", "1", "0"], "relevance": [1.0, 0.0, 1.0]})
SHOWN = {
    "old": {1: ["2", "0", "1"], 2: ["0"]},
    "new": {1: ["4", "5", "0", "1"], 2: ["0"]},
}


@pytest.fixture(scope="module")
def judged_pools():
    """Each of three pairs is not judged, not relevant or relevant: values by metric, in all 27.

    A pool is two users of one log.
    """
    pools, rows, shown = [*product((None, 0.0, 1.0), repeat=3)], [], {name: {} for name in SHOWN}
    for number, states in enumerate(pools):
        judged = [(1, *pair) for pair in zip("245", states, strict=True) if pair[1] is not None]
        rows += [(10 * number + user, *pair) for user, *pair in [*POOL.rows(), *judged]]
        for name, lists in SHOWN.items():
            shown[name] |= {10 * number + user: items for user, items in lists.items()}
    truth = pl.DataFrame(rows, schema=POOL.schema, orient="row")
    report = evalkit.evaluate(truth, shown, metrics=METRICS, per_user=True)

    def means(metric: str, model: str) -> np.ndarray:
        values = report.per_user(metric, model=model)["value"].to_numpy()
        return np.nanmean(values.reshape(len(pools), 2), axis=1)

    return {
        metric: dict(zip(pools, means(metric, "new") - means(metric, "old"), strict=True))
        for metric in METRICS
    }


@pytest.mark.some_cases(3)
@pytest.mark.parametrize("metric", METRICS)
def test_bounds_hold_every_judgement_of_a_small_pool(metric: str, judged_pools) -> None:
    deltas = judged_pools[metric]

    plan = evalkit.judge_plan(POOL, SHOWN, metric=metric, n=1)

    now, after = plan.bounds.drop("width", "interval").rows()
    all_ = (deltas[None, None, None], min(deltas.values()), max(deltas.values()))
    assert now[1:] == pytest.approx(all_)
    place = "245".index(plan["item"][0])
    known = {states: delta for states, delta in deltas.items() if states[place] == 0.0}
    alone = tuple(0.0 if other == place else None for other in range(3))
    assert after[1:] == pytest.approx((known[alone], min(known.values()), max(known.values())))


WALK = """
[judges]
path = ["first.csv"]
columns = { unit = ["query", "item"], judge = "judge", rating = "rating" }
levels = [0, 1, 2]
truth = { path = "truth.parquet", method = "majority" }
[metrics]
names = ["alpha"]
"""
JOB = """
[truth]
TRUTH
[[rankings]]
model = "old"
path = "old.csv"
[[rankings]]
model = "new <script>"
path = "new.csv"
[metrics]
names = ["nDCG@2", "judged@2"]
"""
FROM_TRUTH = 'path = "truth.parquet"\ncolumns = { user = "query", relevance = "relevance" }'
FROM_JUDGES = 'judgements = "first.csv"\ncolumns = { user = "query", relevance = "rating" }'


def test_a_study_leads_to_a_run_a_plan_and_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    odd, ill = 'u|2, "é"', "<b>;=i3"
    rows = [(user, item, who, 1) for user in ("u", odd) for item in ("a", ill) for who in "xy"]
    rows += [(odd, "a", "z", None)]
    names = ["query", "item", "judge", "rating"]
    pl.DataFrame(rows, schema=names, orient="row").write_csv("first.csv")
    pl.DataFrame({"user": ["u", odd], "item": ["a", ill], "rank": [1, 1]}).write_csv("old.csv")
    pl.DataFrame({"user": ["u", odd], "item": ["c", "d"], "rank": [1, 1]}).write_csv("new.csv")
    Path("study.toml").write_text(WALK)
    Path("job.toml").write_text(JOB.replace("TRUTH", FROM_TRUTH))
    Path("direct.toml").write_text(JOB.replace("TRUTH", FROM_JUDGES))

    assert command("run", "study.toml", "--set", "judges.truth.path=truth.csv").status == 0
    assert pl.read_csv("truth.csv").columns == ["query", "item", "relevance", "votes", "agreement"]
    nowhere = command("run", "study.toml", "--set", "judges.truth.path=first.csv/truth.csv")
    assert nowhere.status == 4
    assert command("run", "study.toml").status == 0
    for config, out in (("job.toml", "plan.csv"), ("direct.toml", "same.csv")):
        ran = command("judge", "plan", config, "-m", "nDCG@2", "--out", out)
        assert ran.status == 0, ran.err
    assert Path("plan.csv").read_bytes() == Path("same.csv").read_bytes()
    plan = pl.read_csv("plan.csv", schema_overrides={"judge": pl.String})
    assert set(plan["item"]) == {"c", "d"}
    again = ("run", "study.toml", "--set", 'judges.path=["first.csv", "plan.csv"]')
    assert command(*again).status == 0  # nobody has judged anything of it yet
    filled = plan.with_columns(judge=pl.Series(["x", None]), rating=pl.Series([2.0, None]))
    filled.write_csv("plan.csv")
    over = command("judge", "plan", "job.toml", "-m", "nDCG@2", "--out", "plan.csv")
    assert (over.status, over.codes) == (2, ["file-exists"])
    ran = command(*again)
    assert ran.status == 0, ran.err
    assert pl.read_parquet("truth.parquet").filter(pl.col("relevance") == 2).height == 1


def test_error_rates_of_judges_are_in_the_report() -> None:
    report = evalkit.evaluate_judges(
        odd_judges(), levels=LEVELS, truth={"method": "dawid-skene"}, profile="krippendorff"
    )

    errors = report.judge_errors
    diagonal = errors.filter(pl.col("true") == pl.col("given"))
    mean = dict(diagonal.group_by("judge").agg(pl.col("share").mean()).iter_rows())
    assert mean["judge 0"] > 0.85
    assert mean["judge 4"] < 0.5
    assert errors["rounds"][0] > 1


def test_a_confusion_shows_what_a_judge_says_where_the_others_agree() -> None:
    report = evalkit.evaluate_judges(rated(3, [0, 0, 1], [0, 0, 1], [0, 1, 1]), levels=[0, 1])

    drawn = {(graph.model, graph.y_name): graph for graph in report.graphs}
    third = drawn["judge 2", "where others say 0"]
    assert (third.groups, third.y) == (("0", "1"), (0.5, 0.5))
    assert third.x == pytest.approx((5 / 9, 4 / 9))
    # the second unit has no majority without the first judge
    assert drawn["judge 0", "where others say 0"].y == (1.0, 0.0)
    assert "Confusion" in report.to_html()
    (items,) = [graph for graph in report.graphs if graph.kind == "agreement-by-item"]
    # one of three pairs agrees on the second unit, all on the others
    assert (items.groups, items.y) == (("1", "0", "2"), pytest.approx((1 / 3, 1.0, 1.0)))
    assert items.x == pytest.approx((7 / 9,) * 3)


@pytest.mark.parametrize(
    ("n_wrong", "passed", "said"), [(0, True, ""), (6, False, "cannot tell"), (24, False, "failed")]
)
def test_a_gate_asks_for_the_lower_limit_of_alpha(
    n_wrong: int, passed: bool, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    one = [float(unit % 3) for unit in range(48)]
    other = [float((unit % 3) if unit >= n_wrong + 1 else 2 - unit % 3) for unit in range(48)]
    rated(48, one, other).write_csv("first.csv")
    gate = '[[gates]]\nmetric = "alpha"\nmin = 0.667\n'
    walk = WALK.replace('["query", "item"]', '"unit"').replace("[metrics]", gate + "[metrics]")
    Path("study.toml").write_text(walk)

    ran = command("run", "study.toml")

    assert ran.status == (0 if passed else 1), ran.err
    (verdict,) = evalkit.load("runs/latest").gates
    low, high = verdict.low, verdict.high
    assert low is not None
    assert high is not None
    assert passed == (low >= 0.667)
    assert (said == "cannot tell") == (low < 0.667 <= high)
    assert said in ran.out


@pytest.mark.filterwarnings("error")
def test_one_unit_drawn_with_judges_has_no_limits() -> None:
    report = evalkit.evaluate_judges(rated(1, [1], [0], [1]), levels=[0, 1], judges="others")

    assert all(each.low is None for each in report.estimates if each.metric == "alpha")


def test_limits_over_users_and_judges_cover_the_truth() -> None:
    """Judges differ in strictness, which users alone cannot see: 300 draws of a mean rating."""
    rng = np.random.default_rng(11)
    n_users, n_judges, n_draws = 40, 8, 300
    held = np.zeros(2)
    for _ in range(n_draws):
        ratings = rng.normal(0, 1, (n_users, 1)) + rng.normal(0, 0.5, n_judges)
        ratings = ratings + rng.normal(0, 1, (n_users, n_judges))
        values = ratings.mean(axis=1)
        without = [float(np.delete(ratings, judge, axis=1).mean()) for judge in range(n_judges)]
        users = float(values.std(ddof=1) / math.sqrt(n_users))
        both = error_of(users, n_users - 1.0, n_users, without)
        assert both is not None
        held += [
            both.limits(float(values.mean()), 0.95).holds(0.0),
            abs(values.mean()) < 2.0227 * users,
        ]
    both_held, users_held = held / n_draws
    assert 0.92 <= both_held <= 0.98
    assert users_held < both_held - 0.02


@pytest.mark.parametrize("ties", ["drop", "davidson"])
def test_a_model_that_never_lost_has_no_strength_but_for_ties(ties: str) -> None:
    """Eight wins and four ties: the likelihood grows with the gap for ever."""
    rows = {"judge": ["a", "b", "c"] * 4, "preferred": ["first"] * 8 + ["tie"] * 4}
    table = pl.DataFrame({**rows, "first": ["x"] * 12, "second": ["y"] * 12})
    report = evalkit.evaluate_preferences(table, metrics=[f"bradley-terry(ties='{ties}')"])

    assert all(math.isnan(each.value) for each in report.estimates)
    assert "unbeaten" in codes_of(report)
    bias = next(each.message for each in report.warnings if each.code == "position-bias")
    assert "… 100.0)" in bias


@pytest.mark.parametrize(
    ("scale", "dtype"), [(1, pl.Decimal(10, 2)), (0.25, pl.Decimal(10, 2)), (1e-5, pl.Float64)]
)
def test_levels_are_numbers_however_they_are_written(scale: float, dtype: pl.DataType) -> None:
    table = rated(20, [0, 1, 2, 1] * 5, [0, 1, 1, 2] * 5)
    plain = evalkit.evaluate_judges(table, levels=[0, 1, 2])
    scaled = table.with_columns((pl.col("rating") * scale).cast(dtype))
    report = evalkit.evaluate_judges(scaled, levels=[0, scale, 2 * scale])

    assert report.value("alpha") == plain.value("alpha")


@pytest.mark.parametrize("key", ["unit", "rating", "time"])
def test_a_slip_in_a_column_is_told_by_the_key_it_was_written_with(key: str) -> None:
    table = pl.DataFrame({"unit": [1, 1], "judge": ["a", "b"], "rating": [0, 1], "time": [1, 2]})
    with pytest.raises(DataError) as refused:
        evalkit.evaluate_judges(table, columns={key: f"{key}s"})

    assert f'columns={{"{key}": "{key}"}}' in str(refused.value)


@pytest.mark.filterwarnings("error")
def test_a_covariance_that_is_rounded_below_zero_is_none() -> None:
    """Three judges whose scores cancel out for one model."""
    sides = "01 21 12 21 21 01 21 21 12 02"
    first, second = zip(*sides.split(), strict=True)
    said = "second first first second tie tie first second tie first"
    table = {"judge": [*"2100100102"], "first": first, "second": second}
    table |= {"preferred": said.split()}
    report = evalkit.evaluate_preferences(
        pl.DataFrame(table), metrics=["bradley-terry(ties='davidson')", "bradley-terry"]
    )

    assert all(each.std_error is None or each.std_error >= 0.0 for each in report.estimates)


def draw_preferences(rng: np.random.Generator, sizes: list[int], spread: float) -> pl.DataFrame:
    """Comparisons of two equal models, to which each judge leans by a logit of its own."""
    judges = np.repeat(np.arange(len(sizes)), sizes)
    leans = rng.normal(0.0, spread, len(sizes))[judges]
    won = np.where(rng.random(judges.size) < 1.0 / (1.0 + np.exp(-leans)), "a", "b")
    return pl.DataFrame({"first": "a", "second": "b", "judge": judges, "preferred": won})


@pytest.mark.some_cases(1)
@pytest.mark.parametrize("sizes", [[300] + [10] * 9, [60, 30, 30, 20, 20, 10], [30] * 6])
def test_no_judge_alone_makes_one_of_two_equal_models_better(sizes: list[int]) -> None:
    rng, n_found = np.random.default_rng(7), 0
    for _ in range(60):
        report = evalkit.evaluate_preferences(
            draw_preferences(rng, sizes, 0.7), metrics=["win-rate", "bradley-terry"]
        )
        n_found += any(each.verdict in ("better", "worse") for each in report.comparisons)

    assert n_found <= 7  # at 5 %, more come once in 100 such tests


def test_judges_count_by_how_much_they_said() -> None:
    rng = np.random.default_rng(8)
    equal, unequal, alone = (
        evalkit.evaluate_preferences(draw_preferences(rng, sizes, 0.1), metrics=["win-rate"])
        for sizes in ([20] * 5, [300] + [10] * 9, [2000, 5, 5])
    )
    (few,) = (each for each in unequal.warnings if each.code == "few-judges")

    assert equal.comparisons[0].df == 4.0
    assert unequal.comparisons[0].df == pytest.approx(390**2 / (300**2 + 9 * 10**2) - 1)
    assert few.message.startswith("10 judges of unequal numbers of comparisons count as 1.7")
    assert (alone.comparisons[0].low, alone.comparisons[0].verdict) == (None, "not tested")


def test_the_judge_of_a_preference_is_told_once_and_by_its_own_name() -> None:
    table = pl.DataFrame({"judge": [1.0, None], "first": "a", "second": "b", "preferred": "a"})

    with pytest.raises(DataError) as raised:
        evalkit.evaluate_preferences(table)

    assert raised.value.hint == 'pass columns={"judge": "cast(judge as bigint)"}'
    assert str(raised.value).count("float-id") == 1


@pytest.mark.parametrize("column", ["judge", "rating"])
def test_bytes_that_are_no_text_are_refused(column: str) -> None:
    table = rated(2, [0, 1]).with_columns(pl.Series(column, [b"\xff", b"a"]))

    with pytest.raises(DataError, match="not UTF-8"):
        evalkit.evaluate_judges(table)


@pytest.mark.parametrize("name", ["{}", "q{}", "\N{SUPERSCRIPT TWO}{}", "9" * 5000 + "{}"])
def test_questions_of_sus_stand_in_the_order_of_their_numbers(name: str) -> None:
    """Of ten questions the odd ones are for, and the even ones against; 10 is not the second."""
    rows = [(name.format(n), f"judge {j}", 5 if n % 2 else 1) for n in range(1, 11) for j in "abc"]
    table = pl.DataFrame(rows, schema=["unit", "judge", "rating"], orient="row")

    report = evalkit.evaluate_judges(table, levels=[1, 2, 3, 4, 5], metrics=["SUS"])

    assert report.value("SUS") == 100.0


def test_levels_whose_squares_overflow_are_refused() -> None:
    with pytest.raises(DataError, match=r"'-1e\+308' is beyond 1e\+100"):
        evalkit.evaluate_judges(rated(2, [1e308, -1e308], [1e308, 1e308]))


def test_judges_who_all_say_the_same_leave_no_limits_as_wide_as_rounding() -> None:
    rows = [(judge, "a", "b", said) for judge in range(12) for said in ("a", "a", "b", "tie")]
    table = pl.DataFrame(rows, schema=["judge", "first", "second", "preferred"], orient="row")

    report = evalkit.evaluate_preferences(
        table, metrics=["win-rate", "bradley-terry", "bradley-terry(ties='davidson')"]
    )

    assert {(each.std_error, each.low, each.high) for each in report.estimates} == {
        (0.0, None, None)
    }


def test_a_gate_of_every_model_leaves_out_how_often_the_first_side_won():
    pairs = pl.DataFrame(
        {"judge": [1, 2, 3, 4], "first": ["m"] * 4, "second": ["n"] * 4, "preferred": ["first"] * 4}
    )
    report = evalkit.evaluate_preferences(pairs, metrics=["win-rate"])
    rules = [
        GateRule(metric="win-rate", min=0.1),
        GateRule(metric="win-rate", model="n", baseline="m", max_drop=0.5),
    ]
    for level in (0.95, 0.9):
        found = judge(rules, report, Baselines({}), level=level)

        assert [gate.model for gate in found] == ["m", "n", "n"]
        # judges who agree have no spread, and no limits
        assert {gate.outcome for gate in found} == {"cannot tell"}


@pytest.mark.parametrize(
    "broken",
    [
        {"annotations": ["x"]},
        {"annotations": [{"completed_by": 1, "result": ["x"]}]},
        {"annotations": [{"completed_by": 1, "result": [{"from_name": ["x"], "value": {}}]}]},
        {"annotations": [], "data": [1]},
        {"annotations": [{"completed_by": "\ud800", "result": []}]},
        "{",
    ],
)
def test_tasks_that_label_studio_does_not_write_are_refused(
    broken: dict[str, object] | str, tmp_path: Path
) -> None:
    if not isinstance(broken, str):
        broken = json.dumps([{"id": 1, "data": {"q": "a"}} | broken])
    (tmp_path / "export.json").write_text(broken)

    with pytest.raises(DataError) as raised:
        evalkit.evaluate_judges(
            tmp_path / "export.json", columns={"unit": "q", "judge": "judge", "rating": "grade"}
        )

    assert (raised.value.code, raised.value.at) == ("bad-json", str(tmp_path / "export.json"))


def test_tasks_without_annotations_or_results_hold_no_ratings(tmp_path: Path) -> None:
    def told(who: int, result: object) -> dict[str, object]:
        return {"completed_by": who, "result": result}

    made = [{"from_name": "grade", "value": {"rating": 1}}]
    tasks = [
        {"id": 1, "data": {"q": "a"}, "annotations": None},
        {"id": 2, "data": {"q": "b"}, "annotations": [told(1, None), told(2, made)]},
        {"id": 3, "data": {"q": "c"}, "annotations": [told(1, made), told(2, made)]},
    ]
    (tmp_path / "export.json").write_text(json.dumps(tasks))

    report = evalkit.evaluate_judges(
        tmp_path / "export.json", columns={"unit": "q", "judge": "judge", "rating": "grade"}
    )

    assert report.counts.truth.rows_dropped == {"no_rating": 1}
    assert report.value("agreement") == 1.0
    assert report.inputs[0].paths == (str(tmp_path / "export.json"),)


def test_questions_of_the_usability_scale_are_in_the_order_of_their_numbers() -> None:
    """By name 1. and 10. stood as words sort, and names without a number by their length."""
    answers = [5, 1, 4, 2, 5, 1, 3, 2, 4, 1]  # by hand: 4 + 4 + 3 + 3 + 4 + 4 + 2 + 3 + 3 + 4
    topics = "use complex easy needhelp integrated odd quick cumbersome confident learn".split()
    named = [f"{number}. {topic}" for number, topic in enumerate(topics, start=1)]
    rows = {"judge": ["a"] * 10, "rating": answers}

    def scale(units: list[str]) -> float:
        table = pl.DataFrame({"unit": units, **rows})
        return evalkit.evaluate_judges(table, levels=[1, 2, 3, 4, 5], metrics=["SUS"]).value("SUS")

    assert scale(named) == scale([f"q{number}" for number in range(10)]) == 85.0
    for units in (topics, [*named[:9], "12. learn"], [*named[:9], "9. learn"]):
        with pytest.raises(DataError, match="do not say which is which") as raised:
            scale(units)
        assert raised.value.code == "not-a-scale"
