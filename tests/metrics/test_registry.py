"""Finding metrics: those of the package, and those in a user's own files."""

import re
from pathlib import Path

import numpy as np
import pytest
from measure import measure

import evalkit
from evalkit.errors import DataError, Errors, RequestError
from evalkit.metrics import explain, known_metrics, load_metric_files, parse_metrics, registry

HOWTO = Path(__file__).parents[2] / "docs" / "adding-a-metric.md"


def example_of_the_howto() -> str:
    return re.findall(r"```python\n(from evalkit.metrics.*?)```", HOWTO.read_text(), re.DOTALL)[0]


def test_the_registry_has_every_file_of_the_folder_in_the_order_of_names():
    folder = Path(registry()["AP"].kernel.py_func.__code__.co_filename).parent
    files = [file.stem for file in folder.glob("*.py") if not file.stem.startswith("_")]

    own = {each.function.__module__.rpartition(".")[2] for each in registry().values()}
    assert own == set(files)
    assert list(registry()) == sorted(registry(), key=str.lower)


def test_the_example_of_the_howto_is_a_metric_like_any_other(tmp_path):
    file = tmp_path / "weighted_hits.py"
    file.write_text(example_of_the_howto())

    metrics = load_metric_files([file])
    (request,) = parse_metrics(["half_life(ranks=3)@5"], metrics=metrics)
    values = measure("half_life", [[1, 0, 1], []], [[1, 1], [1]], [5], metrics=metrics)

    assert set(metrics) == {*known_metrics("rankings"), "half_life"}
    assert request.label == "half_life(ranks=3)@5"
    np.testing.assert_allclose(values, [[1 + 2 ** (-2 / 5)], [0]], rtol=1e-15)
    assert "half_life(ranks=6)" in explain(metrics["half_life"])


def test_a_file_that_is_loaded_twice_is_run_once(tmp_path):
    file = tmp_path / "mine.py"
    file.write_text(example_of_the_howto())

    first, second = load_metric_files([file]), load_metric_files([file])

    assert first["half_life"] is second["half_life"]


def test_an_edited_file_is_loaded_anew(tmp_path):
    file = tmp_path / "mine.py"
    file.write_text(example_of_the_howto())
    before = load_metric_files([file])
    file.write_text(example_of_the_howto().replace("total += ", "total += 1.0 + "))
    after = load_metric_files([file])

    old = measure("half_life", [[1]], [[1]], [1], metrics=before)
    new = measure("half_life", [[1]], [[1]], [1], metrics=after)

    assert (old[0, 0], new[0, 0]) == (1.0, 2.0)


BAD_FILES = [
    ("x = 1\n", "no-metric-in-file", "no metric", ""),
    ("from evalkit.metrics.rankings.recall import recall\n", "no-metric-in-file", "no metric", ""),
    ("\nimport no_such_module\n", "bad-metric-file", "ModuleNotFoundError", ":2"),
    ("a = 1\nb = (\n", "bad-metric-file", "SyntaxError", ":2"),
]


@pytest.mark.parametrize(("text", "code", "message", "line"), BAD_FILES)
def test_a_bad_file_is_an_error_with_its_place(tmp_path, text, code, message, line):
    file = tmp_path / "mine.py"
    file.write_text(text)

    with pytest.raises(RequestError) as caught:
        load_metric_files([file])

    assert caught.value.code == code
    assert message in caught.value.message
    assert caught.value.at == f"{file}{line}"


def test_a_value_that_is_infinite_is_told_of_the_metric(tmp_path):
    file = tmp_path / "mine.py"
    file.write_text(example_of_the_howto().replace("total += ", "total += 1e308 * 10.0 + "))
    with pytest.raises(DataError) as caught:
        evalkit.evaluate({1: [2]}, {"a": {1: [2]}}, metrics=["half_life@2"], metric_files=[file])

    assert caught.value.code == "infinite-value"
    assert "let the metric give" in caught.value.hint


def test_all_bad_files_are_told_at_once(tmp_path):
    (tmp_path / "empty.py").write_text("")
    (tmp_path / "text.txt").write_text("")

    with pytest.raises(Errors) as caught:
        load_metric_files([tmp_path / each for each in ("absent.py", "empty.py", "text.txt")])

    codes = [error.code for error in caught.value.errors]
    assert codes == ["missing-metric-file", "no-metric-in-file", "bad-metric-file"]


@pytest.mark.parametrize("name", ["nDCG", "NDCG", "mrr", "Hit-Rate"])
def test_a_name_that_another_metric_has_is_refused(tmp_path, name):
    file = tmp_path / "mine.py"
    file.write_text(example_of_the_howto().replace('name="half_life"', f'name="{name}"'))

    with pytest.raises(RequestError, match="is also a name of") as caught:
        load_metric_files([file])

    assert caught.value.code == "metric-name-taken"
