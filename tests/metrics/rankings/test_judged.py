"""Judged and unjudged shares, worked by hand."""

import pytest
from measure import measure_states

R, N, P, U = 1.0, 0.0, -1.0, None  # relevant, judged, pooled and never judged, unknown

GOLDENS = [
    # case, metric, states, those the list lacks, cutoff, parameters, by hand
    ("perfect", "judged", [R, N], [], None, {}, 1),
    ("perfect", "unjudged", [R, N], [], None, {}, 0),
    ("worst", "judged", [U, P], [R], None, {}, 0),
    ("worst", "unjudged", [U, P], [R], None, {}, 1),
    ("one swap", "judged", [R, U, N, P], [], 3, {}, 2 / 3),
    ("short ranking", "judged", [R], [N], 5, {}, 1),
    ("short ranking", "judged", [U], [N], 5, {"over": "k"}, 4 / 5),
    ("short ranking", "unjudged", [U], [N], 5, {"over": "k"}, 1 / 5),
    ("empty ranking", "judged", [], [R], 5, {}, 0),
    ("empty ranking", "unjudged", [], [R], 5, {}, 0),
    ("no relevant item", "judged", [N, U], [], None, {}, 1 / 2),
    ("cutoff above depth", "judged", [N, U, U], [R], 9, {}, 1 / 3),
    ("count", "judged_misses", [R, N, U, P, N], [], None, {}, 2),
    ("count at k", "judged_misses", [R, N, U, P, N], [], 4, {}, 1),
]  # fmt: skip


@pytest.mark.parametrize(
    ("case", "name", "ranked", "missed", "cutoff", "parameters", "expected"), GOLDENS
)
def test_judged_by_hand(case, name, ranked, missed, cutoff, parameters, expected):
    (value,) = measure_states(name, ranked, missed, [cutoff], **parameters)

    assert value == pytest.approx(expected, abs=1e-12, nan_ok=True), case
