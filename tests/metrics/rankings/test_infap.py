"""infAP, worked by hand."""

from math import nan

import pytest
from measure import measure_states

R, N, P, U = 1.0, 0.0, -1.0, None  # relevant, judged, pooled and never judged, unknown

GOLDENS = [
    # case, metric, states, those the list lacks, cutoff, parameters, by hand
    ("perfect", "infAP", [R, N], [], None, {}, 1),
    ("worst", "infAP", [N, N], [R], None, {}, 0),
    ("one swap", "infAP", [U, R], [], None, {}, 1 / 2),
    ("short ranking", "infAP", [R], [R], None, {}, 1 / 2),
    ("empty ranking", "infAP", [], [R], None, {}, 0),
    ("no relevant item", "infAP", [N], [], None, {}, nan),
    ("cutoff above depth", "infAP", [R, N, R], [], 9, {}, (1 + (1 + 2 * 0.5) / 3) / 2),
    ("cutoff", "infAP", [R, N, R], [], 2, {}, 1 / 2),
    ("pooled", "infAP", [R, P, R], [], None, {}, (1 + (1 + 2 * 1.00001 / 1.00002) / 3) / 2),
    ("nothing judged above", "infAP", [P, R], [], None, {}, (1 + 0.5) / 2),
]  # fmt: skip


@pytest.mark.parametrize(
    ("case", "name", "ranked", "missed", "cutoff", "parameters", "expected"), GOLDENS
)
def test_infap_by_hand(case, name, ranked, missed, cutoff, parameters, expected):
    (value,) = measure_states(name, ranked, missed, [cutoff], **parameters)

    assert value == pytest.approx(expected, abs=1e-12, nan_ok=True), case
