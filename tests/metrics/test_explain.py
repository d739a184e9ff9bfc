"""Texts about metrics."""

import json
import os
import re

import pytest
from measure import measure

from evalkit.metrics import describe, explain, registry, warm_metrics

NAMES = sorted(registry())


@pytest.mark.parametrize("name", NAMES)
def test_explain_tells_everything_that_is_declared(name):
    metric = registry()[name]
    text = " ".join(explain(metric).split())

    for part in (metric.summary, metric.formula, metric.undefined, metric.source):
        assert " ".join(part.split()) in text
    for parameter in metric.parameters:
        assert parameter.doc in text
        for choice, meaning in zip(parameter.choices, parameter.meanings, strict=True):
            assert f"{choice!r} {meaning}" in text


@pytest.mark.parametrize("name", NAMES)
def test_explain_fits_in_80_columns(name):
    assert max(map(len, explain(registry()[name]).splitlines())) <= 80


@pytest.mark.parametrize("name", NAMES)
def test_the_worked_example_is_what_the_kernel_gives(name):
    metric = registry()[name]
    example = metric.example
    request = metric.request() if example is None else metric.request(**example.values)
    line = re.escape(request.label) + r" +(\S+) +(\S+)\n"
    shown = re.search(r"\n  " + line, explain(metric))

    # threshold 2 drops the item of relevance 1 unless gains below it count
    least = 2 if metric.request().view == "relevant" else 1
    gains = (0, 3, 1, 2) if example is None else example.ranked
    missed = (2, 3) if example is None else example.missed
    ranked = [gain if gain >= least else 0 for gain in gains]
    relevant = [gain for gain in (*gains, *missed) if gain >= least]
    values = measure(name, [ranked], [relevant], [3, 6], **dict(request.parameters))[0]

    assert shown is not None
    told = ["undefined" if value != value else f"{value:.6f}" for value in values]
    assert shown.groups() == tuple(told)


def test_explain_shows_each_value_of_each_parameter():
    text = explain(registry()["recall"])

    # 1 of 4 relevant items at rank 2, another at rank 4
    assert re.search(r"  recall +0\.250000  0\.500000\n", text)
    assert re.search(r"  recall\(over='min_k'\) +0\.333333  0\.500000\n", text)


@pytest.mark.parametrize("name", NAMES)
def test_describe_is_plain_json(name):
    described = describe(registry()[name])

    assert json.loads(json.dumps(described, allow_nan=False)) == described
    assert described["name"] == name


def test_warming_up_compiles_every_metric():
    assert warm_metrics() == len(registry())
    if os.environ.get("NUMBA_DISABLE_JIT", "0") == "0":
        assert all(metric.kernel.entries for metric in registry().values())
