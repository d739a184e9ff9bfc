"""The residual of RBP, worked by hand."""

import pytest
from measure import measure_states

R, N, P, U = 1.0, 0.0, -1.0, None  # relevant, judged, pooled and never judged, unknown

GOLDENS = [
    # case, metric, states, those the list lacks, cutoff, parameters, by hand
    ("perfect", "rbp_residual", [R, N], [], None, {"patience": 0.5}, 0.25),
    ("worst", "rbp_residual", [U, U], [R], None, {"patience": 0.5}, 1),
    ("one swap", "rbp_residual", [R, U, N], [], None, {"patience": 0.5}, 0.25 + 0.125),
    ("short ranking", "rbp_residual", [R], [R], None, {}, 0.8),
    ("empty ranking", "rbp_residual", [], [R], None, {}, 1),
    ("no relevant item", "rbp_residual", [N], [], None, {}, 0.8),
    ("cutoff above depth", "rbp_residual", [N, U], [R], 9, {}, 0.8),
    ("cutoff", "rbp_residual", [R, P, N], [], 2, {"patience": 0.5}, 0.25 + 0.25),
    ("trec_eval", "rbp_residual", [R, N], [], None, {"tail": "lost"}, 0),
    ("trec_eval, one unknown", "rbp_residual", [R, U], [], None, {"tail": "lost"}, 0.8),
]  # fmt: skip


@pytest.mark.parametrize(
    ("case", "name", "ranked", "missed", "cutoff", "parameters", "expected"), GOLDENS
)
def test_rbp_residual_by_hand(case, name, ranked, missed, cutoff, parameters, expected):
    (value,) = measure_states(name, ranked, missed, [cutoff], **parameters)

    assert value == pytest.approx(expected, abs=1e-12, nan_ok=True), case
