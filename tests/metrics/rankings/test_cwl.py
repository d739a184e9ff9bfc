"""INST, INSQ, BPM, SDCG and nearly ERR, worked by hand."""

from math import log2

import pytest
from measure import measure

D = 1 / log2(3)  # the discount at rank 2

GOLDENS = [
    # case, metric, ranked gains, relevant gains, cutoff, parameters, by hand
    ("perfect", "BPM", [4], [4], 5, {}, 1),
    ("perfect", "SDCG", [4, 4], [4, 4], 2, {}, 1),
    ("perfect", "INSQ", [4, 4], [4, 4], None, {"horizon": 2}, 1),
    ("worst", "INST", [0, 0], [4], None, {}, 0),
    ("worst", "BPM", [0, 0], [4], 5, {}, 0),
    ("one swap", "BPM", [0, 4], [4], 5, {}, 1 / 2),
    ("one swap", "INSQ", [0, 4], [4], None, {"horizon": 2}, (4 / 9) / (1 + 4 / 9)),
    ("one swap", "INST", [4, 0], [4], None, {"horizon": 2}, 1 / (1 + 1 / 4)),
    ("one swap", "SDCG", [2, 4], [4, 2], 2, {}, (1 / 2 + D) / (1 + D)),
    ("one swap", "nearly_ERR", [2, 4], [4, 2], 2, {}, (1 / 2 + 1 / 2) / (1 + 1 / 2)),
    ("short ranking", "SDCG", [4], [4], 2, {}, 1 / (1 + D)),
    ("empty ranking", "INST", [], [4], None, {}, 0),
    ("no relevant item", "INST", [0], [], None, {}, 0),
    ("cutoff above depth", "BPM", [0, 2], [2], 4, {}, 1 / 2 / 4),
    ("twice the goal", "BPM", [4, 0, 4], [4, 4], 5, {"T": 2}, 2 / 3),
    ("NERR9", "nearly_ERR", [2, 4], [4, 2], 2, {"users": "plain"}, (1 / 2 + 1 / 4) / (1 + 1 / 4)),
    ("NERR10", "nearly_ERR", [2, 4], [2, 4], 9, {"users": "rbp", "patience": 0.5}, 0.75 / 1.25),
    ("NERR11", "nearly_ERR", [2, 4], [2, 4], 9, {"users": "insq"}, (1 / 2 + 2 / 9) / (1 + 2 / 9)),
    ("scale to 1", "BPM", [0, 1], [1], 5, {"max_relevance": 1}, 1 / 2),
]  # fmt: skip


@pytest.mark.parametrize(
    ("case", "name", "ranked", "relevant", "cutoff", "parameters", "expected"), GOLDENS
)
def test_cwl_by_hand(case, name, ranked, relevant, cutoff, parameters, expected):
    (value,) = measure(name, [ranked], [relevant], [cutoff], **parameters)[0]

    assert value == pytest.approx(expected, abs=1e-12, nan_ok=True), case
