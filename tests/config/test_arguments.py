"""Arguments of another type than a function declares: one error, before any work."""

from inspect import Parameter, isclass, signature
from typing import Any, Literal, get_args, get_origin

import numpy as np
import polars as pl
import pytest

import evalkit
from evalkit.errors import EvalkitError, RequestError

TRUTH, LISTS = {1: [1], 2: [2]}, {"als": {1: [1], 2: [3]}}
SPOKEN_OF_LATER = ("threads", "memory_limit")


def typed_arguments():
    for name in sorted(set(evalkit.__all__) - {"EvalkitError", "Report", "__version__"}):
        called = getattr(evalkit, name)
        for each in signature(called.__init__ if isclass(called) else called).parameters.values():
            is_named = each.name != "self" and each.kind != Parameter.VAR_POSITIONAL
            kinds = [each.annotation, *get_args(each.annotation)]
            is_any = any(kind in (object, Any) or get_origin(kind) is Literal for kind in kinds)
            if is_named and not is_any and each.name not in SPOKEN_OF_LATER:
                yield name, each.name


@pytest.mark.parametrize(("function", "argument"), [*typed_arguments()])
def test_no_argument_of_another_type_comes_inside(function, argument):
    with pytest.raises(RequestError) as caught:
        getattr(evalkit, function)(**{argument: NotImplemented})

    if caught.value.code != "conflicting-keys":
        assert (caught.value.code, caught.value.at) == ("wrong-type", argument)
        assert f"pass {argument}=" in caught.value.hint


@pytest.mark.parametrize(
    ("asked", "message", "hint"),
    [
        ({"statistics": 3}, "statistics is 3, not a dict", 'pass statistics={"level": 0.9}'),
        ({"per_user": "no"}, "per_user is 'no', not True or False", "pass per_user=True"),
        ({"threshold": "4"}, "threshold is '4', not a number", "help(evalkit.evaluate)"),
        (
            {"policies": {"ties": [1]}},
            "policies.ties is [1], not text or a number",
            'pass policies={"ties": "..."}',
        ),
        ({"primary": [1]}, "primary[0] is 1, not text", 'pass primary=["..."]'),
        ({"columns": {"truth": {"user": 3}}}, "columns.truth.user is 3", "pass columns="),
        ({"where": {"truth": 3}}, "where.truth is 3, not text", "pass where="),
        ({"metric_files": [1]}, "metric_files[0] is 1, not text or a path", "metric_files="),
    ],
)
def test_the_error_says_which_value_and_what_was_wanted(asked, message, hint):
    for function in (evalkit.evaluate, evalkit.Evaluation):
        lists = () if function is evalkit.Evaluation else (LISTS,)
        with pytest.raises(RequestError) as caught:
            function(TRUTH, *lists, metrics=["RR"], **asked)

        assert message in caught.value.message
        assert hint in caught.value.hint


def test_numbers_of_numpy_and_any_sequence_are_taken():
    asked = {"metrics": ("RR",), "primary": pl.Series(["RR"]), "sample": np.float64(1.0)}
    report = evalkit.evaluate(TRUTH, LISTS, **asked, again=np.bool_(True))

    assert report.value("RR") == 0.5


@pytest.mark.parametrize("metrics", [{"RR"}, (each for each in ("RR",)), {"names": ["RR"]}])
def test_metrics_without_an_order_are_told_as_a_list(metrics):
    with pytest.raises(EvalkitError) as caught:
        evalkit.evaluate(TRUTH, LISTS, metrics=metrics)

    assert caught.value.hint == "pass metrics=['RR']"


@pytest.mark.parametrize(
    ("asks", "code"),
    [
        (lambda rows: evalkit.baseline("popular", train=rows, users=rows, columns={"x": "y"}),
         "unknown-key"),
        (lambda rows: evalkit.evaluate_logged(rows, LISTS, columns={"truth": "y"}), "unknown-key"),
        (lambda _: evalkit.judge_plan({}, LISTS | {"b": {1: [2]}}, metric="RR@1", n=1),
         "empty-input"),
        (lambda _: evalkit.judge_plan({"x": [1]}, LISTS | {"b": {1: [2]}}, metric="RR@1", n=1),
         "id-kind"),
        (lambda rows: evalkit.plan_experiment(rows, statistics={1: 2}), "unknown-key"),
    ],
)  # fmt: skip
def test_what_has_the_right_type_and_no_meaning_is_refused_by_name(asks, code):
    with pytest.raises(EvalkitError) as caught:
        asks(pl.DataFrame({"user": [1], "item": [2]}))

    assert caught.value.code == code
    assert caught.value.hint


@pytest.mark.parametrize(
    ("segments", "hint"), [({"s": {"by": "s"}}, '{"s": "..."}'), (5, '{"...": ...}')]
)
def test_a_hint_is_not_what_was_passed(segments, hint):
    """Segments of experiments are columns; the example of other functions was shown."""
    with pytest.raises(EvalkitError) as caught:
        evalkit.evaluate_experiment({}, variants={"a": 1, "b": 1}, metrics=[], segments=segments)

    assert caught.value.hint.startswith(f"pass segments={hint};")
