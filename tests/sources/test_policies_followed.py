"""Hints about policies, engines and encodings are followed as written; a number comes next."""

import ast
import re
import subprocess

import polars as pl
import pytest

import evalkit
from evalkit.config import parse_config
from evalkit.errors import EvalkitError
from evalkit.pipeline import run_config

TRUTH = pl.DataFrame({"user": [1, 2], "item": [10, 20]})
RANKED = pl.DataFrame({"user": [1, 1, 2], "item": [10, 30, 20], "rank": [1, 2, 1]})
SCORED = pl.DataFrame({"user": [1, 1, 2], "item": [10, 30, 20], "score": [0.9, 0.1, 0.5]})
LABELS = pl.DataFrame({"user": [1, 1, 2, 2], "score": [0.9, 0.1, 0.5, 0.2], "label": [1, 0, 1, 0]})
RATINGS = pl.DataFrame(
    {"user": [1, 2], "item": [1, 2], "rating": [4.0, 3.0], "prediction": [3.5, 3.0]}
)
STRICT = {"truth_duplicates": "error", "negative_relevance": "error"}
NAN = pl.when(pl.int_range(pl.len()) > 0)


def without_first(name):
    """One row lacks this."""
    return NAN.then(pl.col(name)).alias(name)


def twice(frame):
    return frame.vstack(frame[:1])


RANKINGS = {
    "duplicates": (TRUTH, twice(RANKED)),
    "duplicates by score": (TRUTH, twice(SCORED)),
    "ranks from 0": (TRUTH, RANKED.with_columns(pl.col("rank") - 1)),
    "gaps in ranks": (TRUTH, RANKED.with_columns(pl.col("rank") * 3)),
    "scores that are none": (TRUTH, SCORED.with_columns(without_first("score"))),
    "ids that are none": (TRUTH, RANKED.with_columns(without_first("item"))),
    "ids of the truth": (TRUTH.vstack(TRUTH).with_columns(without_first("item")), RANKED),
    "repeated truth": (
        pl.DataFrame({"user": [1, 1, 2], "item": [10, 10, 20], "relevance": [1, 2, 1]}), RANKED,
    ),
    "below zero": (TRUTH.with_columns(relevance=pl.Series([1, -1])), RANKED),
    "no rows": (TRUTH, RANKED.clear()),
}  # fmt: skip
ROWS = {
    "labels": {
        "ids that are none": LABELS.with_columns(without_first("user")),
        "scores that are none": LABELS.with_columns(without_first("score")),
        "labels that are none": LABELS.with_columns(without_first("label")),
        "no rows": LABELS.clear(),
    },
    "ratings": {
        "ids that are none": RATINGS.with_columns(without_first("user")),
        "ratings that are none": RATINGS.with_columns(without_first("rating")),
        "predictions that are none": RATINGS.with_columns(without_first("prediction")),
        "no rows": RATINGS.clear(),
    },
}  # fmt: skip


def settings_of(hint):
    """The policies that a hint names, the first value of each, as a config or Python has it."""
    found = re.findall(r"(\w+) = (\S+?)(?:,? (?:or )?\"\w+\")* under \[policies\]", hint)
    found += [(key, value) for key, value in re.findall(r"policies={\"(\w+)\": (\S+?)}", hint)]
    return {key: ast.literal_eval(value) for key, value in found}


def hint_of(act):
    try:
        act()
    except EvalkitError as error:
        return error.hint or ""
    return None  # it was read


def follow(act, **policies):
    """Do what hints say until nothing is wrong; each names another policy."""
    followed = 0
    while (hint := hint_of(lambda: act(dict(policies)))) is not None:
        found = settings_of(hint)
        assert found, hint
        assert not found.items() <= policies.items(), hint
        key, value = next(iter(found.items()))
        policies[key] = value
        followed += 1
        assert followed <= 3, policies
    return act(policies), followed


@pytest.mark.parametrize("case", RANKINGS)
def test_policies_of_rankings_are_followed_from_python(case):
    truth, ranked = RANKINGS[case]

    def evaluate(policies):
        return evalkit.evaluate(truth, {"m": ranked}, metrics=["RR"], policies=policies)

    report, followed = follow(evaluate, **STRICT)

    assert report.estimates
    assert followed


@pytest.mark.parametrize("case", RANKINGS)
def test_policies_of_rankings_are_followed_in_a_config(case, tmp_path):
    truth, ranked = RANKINGS[case]
    truth.write_parquet(tmp_path / "truth.parquet")
    ranked.write_parquet(tmp_path / "m.parquet")
    tables = 'truth.path = "truth.parquet"\nrankings = [{ model = "m", path = "m.parquet" }]\n'
    report, followed = follow(lambda policies: run_in(tmp_path, tables, "RR", policies), **STRICT)

    assert report.estimates
    assert followed


@pytest.mark.parametrize(("kind", "case"), [(kind, case) for kind in ROWS for case in ROWS[kind]])
def test_policies_of_rows_are_followed(kind, case, tmp_path):
    rows = ROWS[kind][case]
    rows.write_parquet(tmp_path / "rows.parquet")
    named = ", ".join(f'{name} = "{name}"' for name in rows.columns)
    table = f'model = "m", path = "rows.parquet", columns = {{ {named} }}'
    table = f"[{{ {table} }}]" if kind == "labels" else f"{{ {table} }}"
    metric = {"labels": "accuracy", "ratings": "MAE"}[kind]
    strict = {"unrated": "error", "unpredicted": "error"} if kind == "ratings" else {}

    def run(policies):
        return run_in(tmp_path, f"{kind} = {table}\n", metric, policies)

    report, followed = follow(run, **strict)

    assert report.estimates
    assert followed


def run_in(folder, tables, metric, policies, more=""):
    written = "".join(
        f"policies.{key} = {value if isinstance(value, int) else repr(value)}\n"
        for key, value in policies.items()
    )
    text = f'{tables}{written}metrics.names = ["{metric}"]\n{more}'
    return run_config(parse_config(text, source="x.toml", base=folder))


@pytest.mark.parametrize(
    ("encoding", "name"), [("latin-1", "müller"), ("utf-16", "müller"), ("utf-16", "plain")]
)
def test_what_iconv_makes_of_a_file_is_read(encoding, name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = f"user,item\n1,{name}\n2,b\n"
    (tmp_path / "truth.csv").write_text(text, encoding=encoding)
    (tmp_path / "m.csv").write_text(text, encoding="utf-8")

    def run(truth):
        given = {"m": str(tmp_path / "m.csv")}
        return evalkit.evaluate(str(tmp_path / truth), given, metrics=["RR"])

    hint = hint_of(lambda: run("truth.csv"))
    command = re.search(r"iconv .* > (\S+)", hint)
    subprocess.run(command[0], shell=True, check=True)

    assert run(command[1]).estimates[0].value == 1.0
