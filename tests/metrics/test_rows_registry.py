"""Metrics of ratings and of labels are declared in full, listed and explained."""

import re

import pytest

from evalkit.errors import RequestError
from evalkit.metrics import parse_metrics, registry_of

METRICS = [(kind, name) for kind in ("ratings", "labels") for name in registry_of(kind)]


@pytest.mark.parametrize(("kind", "name"), METRICS)
def test_a_declaration_says_all(kind, name):
    metric = registry_of(kind)[name]

    assert metric.summary.endswith(".")
    assert metric.formula
    assert metric.latex
    assert metric.undefined
    assert re.search(r"\b(19|20)\d\d\b", metric.source)
    assert metric.bounds[0] < metric.bounds[1]
    assert metric.cutoff == "never"


@pytest.mark.parametrize(("kind", "name"), METRICS)
def test_every_label_is_read_back(kind, name):
    known = registry_of(kind)
    metric = known[name]
    for parameter in metric.parameters:
        for choice in parameter.choices:
            (request,) = parse_metrics(
                [metric.request(**{parameter.name: choice}).label], metrics=known
            )
            assert dict(request.parameters)[parameter.name] == choice


def test_a_metric_of_rankings_is_none_of_labels():
    with pytest.raises(RequestError, match="nDCG"):
        parse_metrics(["nDCG@10"], metrics=registry_of("labels"))


def test_gauc_weighs_users_by_impressions():
    (request,) = parse_metrics(["GAUC"], metrics=registry_of("labels"))

    assert request.label == "AUC(over='users', weighting='impressions')"
