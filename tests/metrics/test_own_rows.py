"""Metrics of ratings and labels that a user brings: those of the how-to, and what is refused."""

import re
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import evalkit
from evalkit.config import load_config
from evalkit.errors import EvalkitError
from evalkit.metrics import load_metric_files
from evalkit.pipeline import run_config

HOWTO = Path(__file__).parents[2] / "docs" / "adding-a-metric.md"
BLOCKS = re.findall(r"```python\n(.*?)```", HOWTO.read_text(encoding="utf-8"), re.DOTALL)
FILES = {re.search(r'name="(\w+)"', block)[1]: block for block in BLOCKS}
SECTIONS = {
    "ratings": '[[ratings]]\nmodel = "m"\npath = "rows.parquet"\n',
    "labels": '[[labels]]\nmodel = "m"\npath = "rows.parquet"\n',
}


@pytest.fixture
def rows(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    random = np.random.default_rng(3)
    frame = pl.DataFrame(
        {
            "user": random.integers(0, 20, 400),
            "rating": random.integers(1, 11, 400) / 2,
            "prediction": random.integers(1, 11, 400) / 2,
            "score": random.integers(0, 9, 400) / 8,
            "label": random.integers(0, 2, 400),
        }
    )
    frame.write_parquet("rows.parquet")
    return frame


def run(kind, names, text, more=""):
    Path("mine.py").write_text(text, encoding="utf-8")
    metrics = f'[metrics]\nnames = {names!r}\nfiles = ["mine.py"]\n'
    Path("evalkit.toml").write_text(SECTIONS[kind] + metrics + more, encoding="utf-8")
    report = run_config(load_config(Path("evalkit.toml"), overrides=[], variables={}))
    return {each.metric: each for each in report.estimates if each.segment is None}


def std_error_of_ratio(rows, above):
    """By users' own sums of `above` and of rows."""
    users = rows.group_by("user").agg(above.sum().alias("above"), pl.len().alias("n"))
    share = users["above"].sum() / users["n"].sum()
    moves = ((users["above"] - share * users["n"]) / users["n"].sum()).to_numpy()
    return np.sqrt(len(moves) / (len(moves) - 1) * np.sum((moves - moves.mean()) ** 2))


def test_a_metric_of_ratings_is_one_file(rows):
    near = ((pl.col("prediction") - pl.col("rating")).abs() <= 0.5).cast(pl.Float64)
    by_user = rows.group_by("user").agg(near.mean())["prediction"]

    found = run("ratings", ["within", "within(over='users')", "within(most=9)"], FILES["within"])

    assert found["within"].value == rows.select(near.mean()).item()
    assert found["within"].std_error == pytest.approx(std_error_of_ratio(rows, near), rel=1e-12)
    assert found["within(over='users')"].value == pytest.approx(by_user.mean(), rel=1e-15)
    assert found["within(most=9)"].value == 1.0


def test_a_metric_of_labels_is_one_file(rows):
    off = (pl.col("score") - pl.col("label")).abs()
    by_user = rows.group_by("user").agg(off.mean())["score"]

    found = run("labels", ["distance", "distance(over='users')"], FILES["distance"])

    assert found["distance"].value == rows.select(off.mean()).item()
    assert found["distance"].std_error == pytest.approx(std_error_of_ratio(rows, off), rel=1e-12)
    assert found["distance(over='users')"].value == pytest.approx(by_user.mean(), rel=1e-15)


def test_threads_and_segments_know_them(rows):
    rows.with_columns(group=pl.col("user") % 3).write_parquet("rows.parquet")
    more = '[segments]\ngroup = { by = "group" }\n'
    found = run("labels", ["distance", "AUC"], FILES["distance"], more)

    assert set(found) == {"distance", "AUC"}


ALONE = """
from evalkit.metrics import kernel, {by}{extra}
@{by}(name="alone", summary="s.", formula="f", latex="l", source="x 2000", bounds=(0.0, 9.0),
      undefined="never"{more})
@kernel
def alone({rows}out):
    for user in range(out.size):
        out[user] = starts[user + 1] - starts[user]
"""
RATINGS, LABELS = "starts, ratings, predictions, ", "starts, scores, labels, weights, "


def alone(by, rows, extra="", more=""):
    return ALONE.format(by=by, rows=rows, extra=extra, more=more)


@pytest.mark.parametrize(
    ("kind", "by", "given"),
    [("ratings", "rating_metric", RATINGS), ("labels", "label_metric", LABELS)],
)
def test_a_kernel_alone_measures_over_users(rows, kind, by, given):
    assert run(kind, ["alone"], alone(by, given))["alone"].value == 400 / 20


def summed(terms):
    return alone("rating_metric", RATINGS, ", ROWS, of_sums", f", over_rows={terms}")


BAD = {
    "arguments": alone("rating_metric", "starts, "),
    "parameters": summed("lambda asked: asked.nope"),
    "function": summed("of_sums(ROWS, by=lambda a, b: a / b)"),
    "complex": summed("of_sums(ROWS, by=lambda n: __import__('math').sqrt(n))"),
    "column": summed("of_sums(lambda r, p: r[:3], ROWS, by=lambda a, b: a / b)"),
    "loss": alone("label_metric", LABELS, more=", is_loss=True"),
}


@pytest.mark.parametrize("case", BAD)
def test_functions_that_cannot_be_called_are_no_fault_of_evalkit(rows, case):
    with pytest.raises(EvalkitError) as caught:
        run("labels" if case == "loss" else "ratings", ["alone"], BAD[case])

    assert caught.value.code == "bad-metric-file"


REFUSED = {
    "users-only": (
        "ratings",
        alone(
            "rating_metric",
            RATINGS + "over, ",
            ", over_rows_or_users",
            ", parameters=(over_rows_or_users(),)",
        ),
    ),
    "metric-of-other-kind": ("labels", alone("rating_metric", RATINGS)),
    "unknown-sum": (
        "labels",
        alone(
            "label_metric", LABELS, ", of_sums", ", over_rows=of_sums(('sizes',), by=lambda s: s)"
        ),
    ),
}


@pytest.mark.parametrize("code", REFUSED)
def test_what_cannot_be_is_refused_by_name(rows, code):
    kind, text = REFUSED[code]
    with pytest.raises(EvalkitError) as caught:
        run(kind, ["alone"], text)

    assert caught.value.code == code
    assert caught.value.hint


def test_python_takes_own_metrics_of_ratings_by_file_and_as_they_are(rows):
    by_config = run("ratings", ["within"], FILES["within"])["within"].value
    within = load_metric_files(["mine.py"], "ratings")["within"]

    by_file = evalkit.evaluate_ratings(rows, metrics=["within"], metric_files=["mine.py"])
    as_it_is = evalkit.evaluate_ratings(rows, metrics=[within.request(most=0.5)])

    assert by_file.value("within") == as_it_is.value("within") == by_config


@pytest.mark.parametrize("name", ["distance", "distance(over='users')"])
@pytest.mark.parametrize("loss", ["nan", "nan if labels[row] else 1.0"])
def test_rows_without_a_loss_are_refused(rows, name, loss):
    text = FILES["distance"].replace("abs(scores[row] - labels[row])", loss)
    text = text.replace("from evalkit", "from math import nan\n\nfrom evalkit", 1)

    with pytest.raises(EvalkitError, match="gives NaN for rows") as caught:
        run("labels", [name], text)

    assert caught.value.code == "own-metric-fails"


def test_a_function_of_sums_that_gives_no_number_is_refused(rows):
    text = FILES["within"].replace("by=ratio)", "by=lambda near, n: 'near', is_smooth=False)")

    with pytest.raises(EvalkitError, match="a function of sums fails") as caught:
        run("ratings", ["within"], text)

    assert caught.value.code == "bad-metric-file"
