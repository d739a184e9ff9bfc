"""Interpolated precision, worked by hand."""

from math import nan

import pytest
from measure import measure

GOLDENS = [
    # case, metric, ranked gains, relevant gains, cutoff, parameters, by hand
    ("perfect", "iprec", [1, 1], [1, 1], None, {"recall": 1}, 1),
    ("perfect", "11pt_avg", [1, 1], [1, 1], None, {}, 1),
    ("worst", "iprec", [0, 0], [1], None, {"recall": 0}, 0),
    ("one swap", "iprec", [0, 1, 1], [1, 1], None, {"recall": 0.5}, 2 / 3),
    ("one swap", "11pt_avg", [1, 0, 1], [1, 1], None, {}, (6 * 1 + 5 * 2 / 3) / 11),
    ("short ranking", "iprec", [1], [1, 1], None, {"recall": 0.6}, 0),
    ("empty ranking", "iprec", [], [1], None, {}, 0),
    ("no relevant item", "iprec", [0], [], None, {}, nan),
    ("no relevant item", "11pt_avg", [0], [], None, {}, nan),
    ("cutoff above depth", "iprec", [0, 1], [1], 9, {}, 1 / 2),
    ("cutoff", "iprec", [0, 1, 1], [1, 1], 2, {"recall": 0.5}, 1 / 2),
    ("0.8 of 4 is 4", "iprec", [1, 1, 1, 0, 1], [1] * 4, None, {"recall": 0.8}, 4 / 5),
    ("0.8 of 4 is 3", "iprec", [1, 1, 1], [1] * 4, None, {"recall": 0.8, "points": "round"}, 1),
    ("0.7 of 10 is 7", "iprec", [1] * 7, [1] * 10, None, {"recall": 0.7}, 1),
    ("0.7 of 3 is 2", "iprec", [1, 1], [1] * 3, None, {"recall": 0.7, "points": "trec_eval"}, 1),
    ("0.7 of 3 is 3", "iprec", [1, 1], [1] * 3, None, {"recall": 0.7}, 0),
]  # fmt: skip


@pytest.mark.parametrize(
    ("case", "name", "ranked", "relevant", "cutoff", "parameters", "expected"), GOLDENS
)
def test_iprec_by_hand(case, name, ranked, relevant, cutoff, parameters, expected):
    (value,) = measure(name, [ranked], [relevant], [cutoff], **parameters)[0]

    assert value == pytest.approx(expected, abs=1e-12, nan_ok=True), case
