"""Metrics of judged, pooled and unknown items against plain Python, on every kind of list."""

import math

import numpy as np
import pytest
from campaigns import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from measure import measure_states
from naive import bpref_of, infap_of, residual_of, share_unjudged, top

from evalkit.metrics import metric, registry

R, N, P, U = 1.0, 0.0, -1.0, None  # relevant, judged, pooled and never judged, unknown
TWINS = {
    "judged": lambda shown, n, _: 1 - share_unjudged(shown, None, "length") if shown else 0.0,
    "unjudged": lambda shown, n, _: share_unjudged(shown, None, "length"),
    "judged_misses": lambda shown, n, _: shown.count(N),
    "bpref": bpref_of,
    "infAP": lambda shown, n, _: infap_of(shown, n),
    "rbp_residual": lambda shown, n, _: residual_of(shown, 0.8, "counts"),
}


@pytest.mark.parametrize("name", sorted(TWINS))
@settings(deadline=None, max_examples=examples(40))
@given(
    shown=st.lists(st.sampled_from([R, N, P, U]), max_size=9),
    missed=st.lists(st.sampled_from([R, N, P]), max_size=4),
)
def test_every_state_agrees_with_plain_python(name, shown, missed):
    cutoffs = [1, 3, 20, None]
    known = [*shown, *missed]

    values = measure_states(name, shown, missed, cutoffs)

    expected = [TWINS[name](top(shown, k), known.count(R), known.count(N)) for k in cutoffs]
    np.testing.assert_allclose(values, expected, rtol=1e-12, atol=1e-12)


def test_every_metric_of_judgements_is_held_against_a_twin():
    assert {name for name, each in registry().items() if each.request().view == "pool"} == {*TWINS}


def test_a_view_of_another_name_is_refused():
    words = {"name": "x", "summary": "", "formula": "", "latex": "", "source": "", "undefined": ""}

    with pytest.raises(ValueError, match="view is one of relevant, graded, pool, not 'judged'"):
        metric(**words, bounds=(0.0, math.inf), view="judged")
