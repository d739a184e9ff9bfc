"""The worked examples of metrics of ratings and labels."""

import re
from math import log, sqrt

import pytest

from evalkit.cli.row_examples import row_example
from evalkit.metrics import parse_metrics, registry_of

# errors of ann: -1/2, 1, -1/2; of ben: -2, 0; of cat: 1/2
EXAMPLES = [
    # kind, metric, line of the example, by hand
    ("ratings", "MAE", "MAE", 4.5 / 6),
    ("ratings", "MAE", "MAE(over='users')", (2 / 3 + 1 + 1 / 2) / 3),
    ("ratings", "RMSE", "RMSE", sqrt((0.25 + 1 + 0.25 + 4 + 0.25) / 6)),
    ("ratings", "bias", "bias", -1.5 / 6),
    # pairs of 4 ones and 4 zeros: 0.9 wins 4, 0.7 wins 4, 0.5 wins 2 and ties 2, 0.1 loses all
    ("labels", "AUC", "AUC", (4 + 4 + 3 + 0) / 16),
    ("labels", "AUC", "AUC(ties='lost')", (4 + 4 + 2 + 0) / 16),
    ("labels", "GAUC", "AUC(over='users')", (1 / 2 + 3 / 4) / 2),
    ("labels", "GAUC", "AUC(over='users', weighting='impressions')", (4 / 2 + 3 * 3 / 4) / 7),
    ("labels", "precision", "precision", 3 / 5),
    ("labels", "precision", "precision(rule='above')", 2 / 2),
    ("labels", "log-loss", "log-loss",
     -(log(0.9) + log(0.5) + log(0.8) + log(0.1) + log(0.7) + 2 * log(0.5) + log(0.7)) / 8),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "metric", "line", "expected"), EXAMPLES)
def test_an_example_is_worked_out(kind, metric, line, expected):
    (request,) = parse_metrics([metric], metrics=registry_of(kind))

    text = "\n".join(row_example(request, kind))

    shown = re.search(rf"^  {re.escape(line)} +(\S+)$", text, re.MULTILINE)
    assert shown is not None, text
    assert float(shown[1]) == pytest.approx(expected, abs=5e-7)


@pytest.mark.parametrize("kind", ["ratings", "labels"])
def test_every_metric_has_an_example_with_each_choice(kind):
    for metric in registry_of(kind).values():
        lines = list(row_example(metric.request(), kind))

        label = metric.request().label
        shown = [line for line in lines if line.startswith(f"  {label}")]
        choices = sum(max(len(each.choices) - 1, not each.choices) for each in metric.parameters)
        values = lines[lines.index(shown[0]) :]
        assert len(values) == 1 + choices, metric.name
        assert shown[0].split()[-1] != "undefined"
        assert max(map(len, lines)) <= 80
