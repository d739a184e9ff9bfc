"""Hints speak the language of the entry point: a config, options, or Python."""

import ast
import shlex

import polars as pl
import pytest

import evalkit
from evalkit.config import build_config, evaluate_config
from evalkit.config._entry_points import in_words_of
from evalkit.errors import EvalkitError
from evalkit.pipeline import run_config

HINTS = [
    # as a config has it; as options; as Python
    (
        'write duplicates = "best" under [policies] to keep the best rank',
        "write --set policies.duplicates=best to keep the best rank",
        'pass policies={"duplicates": "best"} to keep the best rank',
    ),
    (
        'write bad_scores = "last" or "drop" under [policies]',
        'write --set policies.bad_scores=last or "drop"',
        'pass policies={"bad_scores": "last"} or "drop"',
    ),
    (
        "write first_rank = 0 under [policies] if ranks start there",
        "write --set policies.first_rank=0 if ranks start there",
        'pass policies={"first_rank": 0} if ranks start there',
    ),
    (
        'scale it down: relevance = "rating / 100" under [truth.columns]',
        "scale it down: --set 'truth.columns.relevance=rating / 100'",
        'scale it down: columns={"relevance": "rating / 100"}',
    ),
    (
        'score = "score" under [rankings.columns]',
        "--set 'rankings[0].columns.score=score'",
        'columns={"score": "score"}',
    ),
    (
        "write per_user = true under [output]",
        "write --set output.per_user=true",
        "pass per_user=True",
    ),
    (
        "write threshold = 4 under [labels]",
        "write --set 'labels[0].threshold=4'",
        "pass threshold=4",
    ),
    (
        "raise --memory-limit, or --sample 0.1",
        "raise --memory-limit, or --sample 0.1",
        "raise memory_limit, or sample=0.1",
    ),
    (
        """where = "genre = 'drama'" under [labels] for the rows of one""",
        """--set 'labels[0].where=genre = '"'"'drama'"'"'' for the rows of one""",
        """frame.filter(pl.sql_expr("genre = 'drama'")) for the rows of one""",
    ),
    (
        'aws_region = "eu-central-1" under [storage]',
        "--set storage.aws_region=eu-central-1",
        'AWS_REGION="eu-central-1" in the environment',
    ),
    (
        "edges = [10] under [segments.age]",
        "--set 'segments.age.edges=[10]'",
        'segments={"age": {"edges": [10], ...}}',
    ),
    *(
        (hint, hint, python)
        for hint, python in [
            ("variants = { control = 50, b = 50 }", 'variants={"control": 50, "b": 50}'),
            ("give --memory-limit 300MiB", "give memory_limit=300 << 20"),
            ("phases = [{ of = { b = 20 } }]", 'phases=[{"of": {"b": 20}}]'),
        ]
    ),
    *(
        (hint, hint, python)
        for hint, python in [
            ('or by = "rows"', 'or by="rows"'),
            (
                "time = \"cast('a = 1')\", or rename",
                'columns={"time": "cast(\'a = 1\')"}, or rename',
            ),
            ("leave the quotes out: k = 10", "leave the quotes out: k=10"),
            ('where={"truth": "a = 1 and b = 2"}', 'where={"truth": "a = 1 and b = 2"}'),
            ("header = true where it", "header=True where it"),
            ("where = ... leaves them out", "frame.filter(...) leaves them out"),
            ("name it under [logged.columns]", "name it under columns"),
        ]
    ),
    ("did you mean 'nDCG'?", "did you mean 'nDCG'?", "did you mean 'nDCG'?"),
]


@pytest.mark.parametrize(("file", "options", "python"), HINTS)
def test_hints_speak_the_words_of_a_door(file, options, python):
    assert in_words_of("file", file) == file
    assert in_words_of("options", file) == in_words_of("set", file) == options
    assert in_words_of("python", file) == python
    assert in_words_of("python", python) == python


def test_what_python_is_told_can_be_passed():
    truth = pl.DataFrame({"user": [1], "item": [1]})
    rankings = pl.DataFrame({"user": [1, 1], "item": [1, 1], "rank": [1, 2]})
    with pytest.raises(EvalkitError) as caught:
        evalkit.evaluate(truth, rankings, metrics=["RR"])

    assert caught.value.hint == (
        'pass policies={"duplicates": "best"} to keep the best rank, if they are lists of one day '
        "and one model"
    )
    assert evalkit.evaluate(truth, rankings, metrics=["RR"], policies={"duplicates": "best"}).value(
        "RR"
    )


def test_several_problems_are_all_told_so():
    truth = pl.DataFrame({"user": [1], "item": [1]})
    rankings = pl.DataFrame({"user": [1, 1], "item": [1, 1], "rank": [1, 3]})
    with pytest.raises(EvalkitError) as caught:
        evalkit.evaluate(truth, rankings, metrics=["RR"])

    assert "under [" not in str(caught.value)


# what is wrong before a table is opened; what Python is told, and what a config is told
WRONG = [
    (
        {"statistics": {"correction": "tukey"}},
        'pass statistics={"correction": "holm"}, or compare all pairs by t tests',
        'write correction = "holm" under [statistics], or compare all pairs by t tests',
    ),
    (
        {"segments": {"age": {"by": "age", "edges": []}}},
        'segments={"age": {"edges": [10], ...}}',
        "edges = [10] under [segments.age]",
    ),
    (
        {"segments": {"genre": {"by": "genre", "item": "item"}}},
        'segments={"genre": {"path": "items.parquet", ...}}',
        'path = "items.parquet" under [segments.genre]',
    ),
    ({"policies": {"duplicate": "best"}}, "did you mean 'duplicates'?", None),
]


def settings(tree: object, key: str = "") -> list[str]:
    """A tree as `--set` has it."""
    if not isinstance(tree, dict):
        return [f"{key}={tree}"]
    return [
        each
        for name, below in tree.items()
        for each in settings(below, f"{key}.{name}".lstrip("."))
    ]


WIDE = {  # columns of a list, and how SQL reads them
    "rec_1 rec_2 rec_10": "rec_1, rec_2, rec_10",
    "item10 item2 item1": "item1, item2, item10",
    "1 2 3": '"1", "2", "3"',
    "item_1 score_1 item_2 score_2": "item_1, item_2",
    "thing": "",
    "price_1 price_2 weight_1 weight_2": "",
}


@pytest.mark.parametrize("names", WIDE)
@pytest.mark.parametrize("kind", ["frame", "files"])
def test_lists_in_columns_side_by_side_are_read_as_the_hint_says(names, kind, tmp_path):
    rows = {name: [f"{name}-a", f"{name}-b", None] for name in names.split()}
    wide = pl.DataFrame({"user": ["u", "v", "nothing shown"], **rows})
    last = WIDE[names].split(", ")[-1].strip('"')
    truth = wide.select("user", item=pl.Series([f"{last}-a", f"{last}-b", "missed"]))
    ours = {"truth": truth, "rankings": wide}
    if kind == "files":
        truth.write_csv(tmp_path / "t.csv")
        wide.write_csv(tmp_path / "w.csv")
        files = {"truth": [str(tmp_path / "t.csv")], "rankings": [("w", str(tmp_path / "w.csv"))]}

    def run(*options, **more):
        if kind == "frame":
            return evalkit.evaluate(**ours, metrics=["RR"], **more)
        return run_config(evaluate_config(**files, metrics=["RR"], overrides=options))

    with pytest.raises(EvalkitError) as caught:
        run()

    assert caught.value.code == "missing-column"
    assert caught.value.hint.startswith(f"it has user, {', '.join(names.split())}; ")
    columns, hint = WIDE[names], caught.value.hint.partition("; ")[2]
    if not columns:
        column = '"..."' if kind == "frame" else "COLUMN"
        assert hint.endswith(f'{{"item": {column}}}}}' if kind == "frame" else f"item={column}'")
    elif kind == "frame":
        passed = ast.literal_eval(hint.removeprefix("pass columns="))
        report = run(columns=passed)
    else:
        option, setting = shlex.split(hint.removeprefix("write "))
        assert option == "--set"
        report = run(setting)
    if columns:
        assert report.value("RR") == pytest.approx(2 / 3 / len(columns.split()))
        (counts,) = report.counts.models.values()
        assert counts.users_without_ranking == 1


FRAME = pl.DataFrame({"user": [1, 1], "item": [1, 2], "time": [1, 2]})


@pytest.mark.parametrize(
    ("ask", "at"),
    [
        (lambda of: evalkit.split(FRAME, by="user", test=1, **of), "log"),
        (
            lambda of: evalkit.evaluate(
                FRAME, FRAME, metrics=["item_coverage@1"], items={"path": FRAME, **of}
            ),
            "items",
        ),
        (
            lambda of: evalkit.evaluate(
                *(FRAME, FRAME), metrics=["RR"], segments={"s": {"path": FRAME, "by": "user", **of}}
            ),
            "segments.s",
        ),
    ],
)
@pytest.mark.parametrize("option", [{"header": False}, {"format": "csv"}, {"files": "as they are"}])
def test_what_says_how_files_are_read_is_refused_of_a_table_in_memory(ask, at, option):
    (key,) = option

    with pytest.raises(EvalkitError) as caught:
        ask(option)

    assert (caught.value.code, caught.value.at) == ("conflicting-keys", f"{at}: {key}")
    assert caught.value.hint == f"leave {key} out"
    ask({})


def test_a_format_is_refused_of_rankings_in_memory():
    with pytest.raises(EvalkitError) as caught:
        evalkit.evaluate(FRAME, FRAME, metrics=["RR"], format={"rankings": "csv"})

    assert caught.value.at == "rankings: format"


def test_a_column_of_rankings_alone_is_named_as_the_hint_says():
    truth = pl.DataFrame({"user": ["u"], "item": ["a"]})
    ranked = pl.DataFrame({"user": ["u"], "thing": ["a"]})

    with pytest.raises(EvalkitError) as caught:
        evalkit.evaluate(truth, ranked, metrics=["RR"])

    assert caught.value.hint.endswith('pass columns={"rankings": {"item": "..."}}')
    named = {"rankings": {"item": "thing"}}
    assert evalkit.evaluate(truth, ranked, metrics=["RR"], columns=named).value("RR") == 1


@pytest.mark.parametrize(("wrong", "python", "file"), WRONG)
def test_a_config_is_built_in_the_words_of_who_asks(wrong, python, file):
    rows = pl.DataFrame({"user": [1], "item": [1]})
    with pytest.raises(EvalkitError) as by_python:
        evalkit.evaluate(rows, {"m": rows}, metrics=["RR"], **wrong)
    tables = {"truth": {"path": "t"}, "rankings": [{"model": "m", "path": "r"}]}
    with pytest.raises(EvalkitError) as by_config:
        build_config({**tables, "metrics": {"names": ["RR"]}, **wrong}, name="job")
    with pytest.raises(EvalkitError) as by_options:
        evaluate_config(
            truth=["t"], rankings=[("m", "r")], metrics=["RR"], overrides=settings(wrong)
        )

    assert by_python.value.hint == python
    assert by_config.value.hint == (file or python)
    assert by_options.value.hint == in_words_of("options", file or python)


def test_a_column_in_quotes_is_refused_and_the_hint_reads_it(tmp_path):
    pl.DataFrame({"user": [1], "item": [2]}).write_csv(tmp_path / "t.csv")
    pl.DataFrame({"user": [1], "item": [2], "rank": [1]}).write_csv(tmp_path / "m.csv")
    given = {"truth": str(tmp_path / "t.csv"), "rankings": str(tmp_path / "m.csv")}

    with pytest.raises(EvalkitError) as caught:
        evalkit.evaluate(**given, metrics=["RR"], columns={"truth": {"user": '"user"'}})

    assert caught.value.code == "missing-column"
    assert caught.value.hint.endswith('pass columns={"user": "user"}')
    followed = evalkit.evaluate(**given, metrics=["RR"], columns={"user": "user"})
    assert followed.value("RR") == 1


@pytest.mark.parametrize(
    ("asked", "hint"),
    [
        ({"metrics": ["nDCG 10"]}, "did you mean 'nDCG@10'?"),
        ({"metrics": ["MAP10"]}, "did you mean 'MAP@10'?"),
        ({"statistics": {"level": 95}}, "did you mean 0.95?"),
        ({"segments": {"s": "u.parquet"}}, 'segments={"s": {"path": "u.parquet", "by": "COLUMN"}}'),
        ({"segments": {"s": {"by": "age", "quantiles": 2}}}, "another table's column has a path"),
    ],
)
def test_what_is_half_right_is_answered_by_what_was_meant(asked, hint):
    truth = pl.DataFrame({"user": [1, 2], "item": [7, 8]})
    lists = {"m": truth.with_columns(rank=1)}

    with pytest.raises(EvalkitError) as caught:
        evalkit.evaluate(truth, lists, **{"metrics": ["RR"], **asked})

    assert hint in str(caught.value)


def test_no_level_is_proposed_that_is_none_either():
    with pytest.raises(EvalkitError) as caught:
        evalkit.evaluate({1: [2]}, {"m": {1: [2]}}, metrics=["RR"], statistics={"level": 3})

    assert (caught.value.code, caught.value.hint) == ("out-of-range", "")


@pytest.mark.parametrize(
    ("asked", "hint"),
    [
        ({"k": 10}, "a cutoff is part of a metric's name, metrics=['nDCG@10']"),
        ({"metric": ["RR"]}, "did you mean metrics=?"),
        ({"seed": 1}, "write statistics={'seed': ...}"),
        ({"negative_relevance": "ignore"}, "write policies={'negative_relevance': ...}"),
        ({"exclude_seen": True}, "write drop_seen="),
        ({"gates": []}, "[gates] is a section of a config"),
        ({"zzz": "red"}, "it takes truth, rankings, metrics"),
    ],
)
def test_an_argument_that_a_function_lacks_is_told_by_what_was_meant(asked, hint):
    with pytest.raises(TypeError) as caught:
        evalkit.evaluate({1: [1]}, {1: [1]}, **{"metrics": ["RR"], **asked})

    assert hint in str(caught.value)


@pytest.mark.parametrize(
    ("metrics", "meant"),
    [
        ("nDCG@10, RR", ["nDCG@10", "RR"]),
        ("RBP(p=0.5)@10", ["RBP(p=0.5)@10"]),
        ({"nDCG": 10}, ["nDCG@10"]),
        ({"nDCG": [5, 10], "recall": (5,)}, ["nDCG@{5,10}", "recall@{5}"]),
    ],
)
def test_metrics_that_are_no_list_are_written_as_one(metrics, meant):
    with pytest.raises(EvalkitError) as caught:
        evalkit.evaluate({1: [1]}, {1: [1]}, metrics=metrics)

    assert caught.value.hint == f"pass metrics={meant!r}"
    with pytest.raises(TypeError, match=r"write metrics=\['RR'\]"):
        evalkit.evaluate({1: [1]}, {1: [1]}, "RR")


@pytest.mark.parametrize(("word", "ours"), [("fdr", "bh"), ("Benjamini-Hochberg", "bh")])
def test_a_choice_in_the_words_of_other_libraries_is_known(word, ours):
    with pytest.raises(EvalkitError, match=f"did you mean '{ours}'"):
        evalkit.evaluate(
            {1: [1]}, {1: [1]}, metrics=["RR"], statistics={"correction": word, "level": 0.9}
        )


LISTS = {"m": {1: [1]}}


@pytest.mark.parametrize(
    ("asks", "code", "told"),
    [
        (lambda _: evalkit.figures(), "missing-option", "last, or the folder of a split"),
        (
            lambda _: evalkit.evaluate({1: [1]}, {}, metrics=["RR"]),
            "no-rankings",
            '{"name": table}',
        ),
        (lambda report: report.save("a.docx"), "unknown-format", "write one of .csv, .html"),
        (lambda report: report.save(3), "wrong-type", "pass 'report.html'"),
        (lambda report: report.save(b"a.html"), "wrong-type", "pass 'report.html'"),
        (lambda report: report.write(None), "wrong-type", "pass 'runs'"),
        (lambda report: report.plot().save(["a.svg"]), "wrong-type", "pass 'plot.svg'"),
        (lambda report: report.save("a.png"), "unknown-format", "report.plot().save('a.png')"),
        (lambda report: report.value("AP"), "metric-not-in-report", "it has RR"),
        (lambda report: report.value(3), "metric-not-in-report", "it has RR"),
        (
            lambda _: evalkit.EarlyStopping("RR", patience=2, epochs=9).report,
            "no-rankings",
            "call update(report)",
        ),
    ],
)
def test_what_python_asks_of_nothing_is_refused_by_name(asks, code, told):
    report = evalkit.evaluate({1: [1]}, LISTS, metrics=["RR"])
    with pytest.raises(EvalkitError) as caught:
        asks(report)

    assert (caught.value.code, told in caught.value.hint) == (code, True), str(caught.value)


@pytest.mark.parametrize(
    ("asked", "code", "hint"),
    [
        ({"threads": "2"}, "bad-threads", "leave it out"),
        ({"threads": 1.5}, "bad-threads", "leave it out"),
        ({"memory_limit": True}, "wrong-type", "memory_limit=4 * 2**30"),
        ({"memory_limit": -1}, "wrong-type", "memory_limit=4 * 2**30"),
        ({"metrics": None}, "wrong-type", 'pass metrics=["nDCG@10"]'),
        ({"truth": "ftp://lake/truth.parquet"}, "bad-store", "a URL of s3, gs, az, https or hf"),
    ],
)
def test_what_no_run_can_take_is_refused_by_name(asked, code, hint):
    rows = pl.DataFrame({"user": [1, 2], "item": [7, 8], "rank": [1, 1]})
    given = {"truth": rows.drop("rank"), "rankings": {"m": rows}, "metrics": ["RR"], **asked}

    with pytest.raises(EvalkitError) as caught:
        evalkit.evaluate(**given)

    assert caught.value.code == code
    assert hint.replace('"', "'") in caught.value.hint


def test_hints_about_units_from_python_are_followed():
    units = {"unit": range(4), "variant": ["a", "b", "a", "b"], "clicks": [1.0, 2.0, 3.0, None]}
    given = {"variants": {"a": 1, "b": 1}, "metrics": ["mean(clicks)"]}
    frame = pl.DataFrame(units)

    with pytest.raises(EvalkitError) as caught:
        evalkit.evaluate_experiment(frame, **given)

    assert 'policies={"bad_values": "drop"}' in caught.value.hint
    followed = evalkit.evaluate_experiment(frame, **given, policies={"bad_values": "drop"})
    assert followed.estimates


@pytest.mark.parametrize(
    ("targets", "more", "hint"),
    [
        ({}, {}, 'pass targets={"b": {"probability": "p"}}'),
        ({"b": {}}, {}, '"probability": "p_b"'),
        ({"b": {"probability": 3}}, {}, '"probability": "3"'),
        ({"b": {"table": None}}, {}, '"on": ["user"]'),
        ({"b": {"probability": "p"}}, {"metrics": ["DR"]}, "name the column"),
        ({"b": {"probability": "p"}}, {"truth": {1: [1]}}, 'pass rankings={"b": table}'),
        ({"b": {"probability": "p"}}, {"policies": {"first_rank": "1"}}, '"first_rank": 1'),
    ],
)
def test_hints_about_a_log_are_in_the_words_of_python(targets, more, hint):
    log = pl.DataFrame({"reward": [1.0, 0.0], "propensity": [0.5, 0.5], "p": [0.9, 0.1]})
    if "table" in targets.get("b", {}):
        targets = {"b": {"table": log}}

    with pytest.raises(EvalkitError) as caught:
        evalkit.evaluate_logged(log, targets, **more)

    assert hint in caught.value.hint
    assert "[" not in caught.value.message.replace("['", "")
