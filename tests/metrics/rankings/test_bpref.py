"""bpref, worked by hand."""

from math import nan

import pytest
from measure import measure_states

R, N, P, U = 1.0, 0.0, -1.0, None  # relevant, judged, pooled and never judged, unknown

GOLDENS = [
    # case, metric, states, those the list lacks, cutoff, parameters, by hand
    ("perfect", "bpref", [R, R, N], [N], None, {}, 1),
    ("worst", "bpref", [N, N, R, R], [], None, {}, 0),
    ("one swap", "bpref", [R, N, R, N], [], None, {}, (1 + 1 - 1 / 2) / 2),
    ("short ranking", "bpref", [R, N], [R, N], None, {}, 1 / 2),
    ("empty ranking", "bpref", [], [R], None, {}, 0),
    ("no relevant item", "bpref", [N], [N], None, {}, nan),
    ("cutoff above depth", "bpref", [N, R, R], [N, N], 9, {}, 2 * (1 - 1 / 2) / 2),
    ("cutoff", "bpref", [N, R, R], [N, N], 2, {}, (1 - 1 / 2) / 2),
    ("fewer others", "bpref", [N, R, R], [], None, {}, 0),
    ("over R", "bpref", [N, R, R], [], None, {"over": "relevant"}, 2 * (1 - 1 / 2) / 2),
    ("bpref-10", "bpref", [N, R, R], [], None, {"over": "ten_more"}, 2 * (1 - 1 / 12) / 2),
    ("the unjudged do not count", "bpref", [U, P, R], [N], None, {}, 1),
]  # fmt: skip


@pytest.mark.parametrize(
    ("case", "name", "ranked", "missed", "cutoff", "parameters", "expected"), GOLDENS
)
def test_bpref_by_hand(case, name, ranked, missed, cutoff, parameters, expected):
    (value,) = measure_states(name, ranked, missed, [cutoff], **parameters)

    assert value == pytest.approx(expected, abs=1e-12, nan_ok=True), case
