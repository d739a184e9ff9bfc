"""Own metrics from Python: what `@metric` makes, and plain functions of one user."""

import json
import math
import pickle
import re
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import evalkit
from evalkit.config import parse_config
from evalkit.errors import EvalkitError, RequestError
from evalkit.metrics import load_metric_files, user_metric
from evalkit.pipeline import conclude_partials, measure_partial, run_config
from evalkit.report import render

HOWTO = Path(__file__).parents[2] / "docs" / "adding-a-metric.md"
BLOCKS = re.findall(r"```python\n(.*?)```", HOWTO.read_text(), re.DOTALL)
(FROM_PYTHON,) = (each for each in BLOCKS if "missed_first" in each)
(HALF_LIFE,) = (each for each in BLOCKS if 'name="half_life"' in each)
RANDOM = np.random.default_rng(40)
RELEVANT = (RANDOM.random((30, 20)) < 0.2) * RANDOM.integers(1, 4, (30, 20))
SCORES = RANDOM.random((30, 20))
TRUTH = pl.DataFrame({"user": [1, 1, 2, 3], "item": [10, 11, 12, 13], "relevance": [3, 1, 2, 1]})
LIST = pl.DataFrame({"user": [1, 1, 1, 2, 2], "item": [11, 9, 10, 8, 7], "rank": [1, 2, 3, 1, 2]})


def hits_found(relevances):
    """Relevant items shown."""
    return (relevances > 0).sum()


def recall_again(relevances, relevant):
    return (relevances > 0).sum() / len(relevant) if len(relevant) else math.nan


def seen(relevances, relevant):
    SEEN.append((relevances.tolist(), relevant.tolist()))
    return 0.0


SEEN: list[object] = []


def fails(relevances):
    return 1 / 0


def same(one, other, without=("run_id", "run_key", "inputs", "meta", "name")):
    one, other = (json.loads(render(each, "json")) for each in (one, other))
    return all(one[key] == other[key] for key in one if key not in without)


def test_a_function_is_given_a_users_relevances_in_rank_order():
    SEEN.clear()

    evalkit.evaluate(TRUTH, LIST, metrics=[user_metric(seen).request(2), seen])

    first = [([1.0, 0.0], [3.0, 1.0]), ([1.0, 0.0, 3.0], [3.0, 1.0])]
    assert [each for each in SEEN if each[1] == [3.0, 1.0]] == first
    assert ([0.0, 0.0], [2.0]) in SEEN


def test_a_function_has_the_values_of_evalkits_own():
    own = [user_metric(recall_again).request(5), hits_found, "hits_found@3"]
    report = evalkit.evaluate(RELEVANT, SCORES, metrics=["recall@5", *own, "hits@3"], per_user=True)

    assert report.labels == ("recall@5", "recall_again@5", "hits_found", "hits_found@3", "hits@3")
    for ours, theirs in (("recall@5", "recall_again@5"), ("hits@3", "hits_found@3")):
        assert report.per_user(ours).equals(report.per_user(theirs))
        assert report.value(ours) == report.value(theirs)


def test_what_metric_makes_is_taken_as_its_file_is(tmp_path):
    file = tmp_path / "half_life.py"
    file.write_text(HALF_LIFE)
    half_life = load_metric_files([file])["half_life"]

    given = evalkit.evaluate(RELEVANT, SCORES, metrics=["RR", half_life.request(5, ranks=3)])
    named = ["RR", "half_life(ranks=3)@5"]
    by_file = evalkit.evaluate(RELEVANT, SCORES, metrics=named, metric_files=[file])

    assert same(given, by_file)
    (hashed,) = [v for k, v in by_file.meta.versions.items() if k == "metric file half_life.py"]
    assert len(hashed) == 64
    assert "metric half_life of half_life.py" in given.meta.versions


@pytest.mark.parametrize(
    ("own", "code"),
    [
        (lambda relevances: 1.0, "bad-own-metric"),
        (max, "bad-own-metric"),
        (lambda: 0.0, "bad-own-metric"),
        (7, "bad-own-metric"),
    ],
)
def test_what_is_no_named_function_is_refused(own, code):
    with pytest.raises(RequestError) as caught:
        evalkit.evaluate(TRUTH, LIST, metrics=[own])

    assert caught.value.code == code


def test_a_function_that_takes_more_is_refused():
    def three(a, b, c):
        return 0.0

    with pytest.raises(RequestError, match="takes 3 arguments") as caught:
        evalkit.evaluate(TRUTH, LIST, metrics=[three])

    assert caught.value.at.startswith(__file__)


def test_a_function_named_as_a_metric_is_refused():
    def recall(relevances):
        return 0.0

    with pytest.raises(RequestError) as caught:
        evalkit.evaluate(TRUTH, LIST, metrics=[recall])

    assert caught.value.code == "metric-name-taken"


def test_an_error_in_a_function_names_file_and_line():
    with pytest.raises(RequestError, match="ZeroDivisionError: division by zero") as caught:
        evalkit.evaluate(TRUTH, LIST, metrics=[fails])

    line = fails.__code__.co_firstlineno + 1
    assert (caught.value.code, caught.value.at) == ("own-metric-fails", f"{__file__}:{line}")


def test_an_infinite_value_is_refused():
    with pytest.raises(RequestError, match="gives inf for the relevances") as caught:
        evalkit.evaluate(TRUTH, LIST, metrics=[user_metric(lambda_named)])

    assert caught.value.code == "own-metric-fails"


def test_a_value_out_of_the_bounds_is_refused():
    with pytest.raises(RequestError, match="out of its bounds") as caught:
        evalkit.evaluate(TRUTH, LIST, metrics=[user_metric(bounds=(0.0, 1.0))(two)])

    assert caught.value.code == "own-metric-fails"


def test_arguments_by_name_are_left_as_they_are():
    report = evalkit.evaluate(TRUTH, LIST, metrics=[user_metric(two)])

    assert report.value("two") == 4 / 3  # of three users, one without a list


@pytest.mark.parametrize("higher_is_better", [True, False])
def test_a_function_is_as_it_was_declared_last(higher_is_better):
    own = user_metric(higher_is_better=higher_is_better)(two)

    (found,) = evalkit.evaluate(TRUTH, LIST, metrics=[own]).estimates

    assert found.higher_is_better is higher_is_better


def two(relevances, *, more=0.0):
    return 2.0 + more


def lambda_named(relevances):
    return math.inf


def test_an_error_of_a_kernel_names_file_and_line(tmp_path):
    file = tmp_path / "mine.py"
    file.write_text(HALF_LIFE.replace("hits.ranks[hit] <= ", "hits.rank[hit] <= "))
    line = (
        file.read_text()
        .splitlines()
        .index("            while hit < end and hits.rank[hit] <= cutoffs[column]:")
    )

    with pytest.raises(RequestError) as caught:
        evalkit.evaluate(TRUTH, LIST, metrics=["half_life@5"], metric_files=[file])

    assert (caught.value.code, caught.value.at) == ("own-metric-fails", f"{file}:{line + 1}")
    assert "rank" in caught.value.message


def config_with(file, folder):
    TRUTH.write_parquet(folder / "truth.parquet")
    LIST.write_parquet(folder / "als.parquet")
    return parse_config(
        'truth.path = "truth.parquet"\n[metrics]\nnames = ["RR", "hits_found@2"]\n'
        f'files = ["{file}"]\n[[rankings]]\nmodel = "als"\npath = "als.parquet"\n'
        '[segments]\nkind = { by = "n_relevant", quantiles = 2 }\n'
        '[[gates]]\nmetric = "hits_found@2"\nmin = 0.1\n',
        source="x.toml",
        base=folder,
    )


def test_partials_and_segments_know_functions_of_files(tmp_path):
    file = tmp_path / "mine.py"
    file.write_text(
        "from evalkit.metrics import user_metric\n\n\n@user_metric(bounds=(0.0, 2.0))\n"
        "def hits_found(relevances):\n    return (relevances > 0).sum()\n"
    )
    config = config_with(file, tmp_path)

    whole = run_config(config)
    one, other = (measure_partial(config, (n, 2)) for n in (1, 2))
    other.merge(one)

    assert whole.value("hits_found@2") == pytest.approx(1 / 3)
    assert same(whole, conclude_partials(other))
    assert [each.metric for each in config.gates] == ["hits_found@2"]


def test_the_example_of_the_page_runs(tmp_path):
    file = tmp_path / "page.py"
    file.write_text(FROM_PYTHON)

    exec(compile(FROM_PYTHON, str(file), "exec"), {"__name__": "page"})


def test_a_text_alone_is_still_refused():
    for metrics in ("RR", hits_found):
        with pytest.raises(EvalkitError) as caught:
            evalkit.evaluate(TRUTH, LIST, metrics=metrics)
        assert caught.value.code == "wrong-type"


def test_a_function_of_one_user_is_told_to_other_processes():
    own = user_metric(hits_found, bounds=(0.0, 2.0)).kernel

    there = pickle.loads(pickle.dumps(own))

    assert (there.py_func, there.ends) == (hits_found, own.ends)
