"""Laws of every metric in the registry, also of those that are yet to come."""

import itertools
import os
import re

import numpy as np
import pytest
from campaigns import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from measure import measure
from naive import NAIVE

from evalkit.metrics import Hits, Metric, Parameter, Relevant, parse_metrics, registry

NAMES = sorted(registry())
CUTOFFS = [1, 2, 3, 5, 10, 40, None]
GAINS = st.sampled_from([0.5, 1.0, 2.0, 3.0, 5.0])
LISTS = st.lists(st.one_of(st.just(0.0), GAINS), max_size=12)
USERS = st.lists(st.tuples(LISTS, st.lists(GAINS, max_size=4)), min_size=1, max_size=5)

laws = settings(deadline=None, max_examples=examples(20))


def lists_of(users):
    """Ranked gains and relevant gains: what the list shows and what it lacks."""
    ranked = [shown for shown, _ in users]
    return ranked, [[gain for gain in shown if gain] + missed for shown, missed in users]


def values_of(parameter: Parameter):
    if parameter.name == "estimate":  # others refuse what lists of any kind lack: test_sampled.py
        return (parameter.default,)
    if parameter.choices:
        return parameter.choices
    assert parameter.tried is not None, f"number({parameter.name!r}, ..., tried=another value)"
    return (parameter.default, parameter.tried)


def settings_of(metric: Metric):
    """Every combination of parameter values."""
    names = [parameter.name for parameter in metric.parameters]
    for values in itertools.product(*(values_of(each) for each in metric.parameters)):
        yield dict(zip(names, values, strict=True))


@pytest.mark.parametrize("name", NAMES)
@laws
@given(users=USERS)
def test_values_are_inside_the_bounds_or_undefined(name, users):
    ranked, relevant = lists_of(users)
    low, high = registry()[name].bounds

    values = measure(name, ranked, relevant, CUTOFFS)

    assert not np.any((values < low) | (values > high + 1e-12))


@pytest.mark.parametrize("name", NAMES)
@laws
@given(users=USERS)
def test_a_user_scores_the_same_alone_and_in_a_crowd(name, users):
    ranked, relevant = lists_of(users)
    together = measure(name, ranked, relevant, CUTOFFS)

    for user, row in enumerate(together):
        alone = measure(name, [ranked[user]], [relevant[user]], CUTOFFS)
        np.testing.assert_array_equal(alone[0], row)


@pytest.mark.parametrize("name", NAMES)
@laws
@given(users=USERS, others=st.sets(st.integers(1, 50)), data=st.data())
def test_other_cutoffs_change_no_bit(name, users, others, data):
    ranked, relevant = lists_of(users)
    chosen = {
        each.name: data.draw(st.sampled_from(values_of(each)))
        for each in registry()[name].parameters
    }
    crowded = [*CUTOFFS, *sorted(others - set(CUTOFFS))]
    together = measure(name, ranked, relevant, crowded, **chosen)

    for column, cutoff in enumerate(crowded):
        alone = measure(name, ranked, relevant, [cutoff], **chosen)
        np.testing.assert_array_equal(alone[:, 0], together[:, column])


@pytest.mark.parametrize("name", [name for name in NAMES if registry()[name].monotone])
@laws
@given(users=USERS, data=st.data())
def test_moving_an_item_up_never_lowers_a_monotone_metric(name, users, data):
    ranked, relevant = lists_of(users)
    user = data.draw(st.integers(0, len(ranked) - 1))
    rises = [
        rank for rank in range(1, len(ranked[user])) if ranked[user][rank] > ranked[user][rank - 1]
    ]
    if not rises:
        return
    rank = data.draw(st.sampled_from(rises))
    better = [list(row) for row in ranked]
    better[user][rank - 1 : rank + 1] = better[user][rank], better[user][rank - 1]

    before = measure(name, ranked, relevant, CUTOFFS)
    after = measure(name, better, relevant, CUTOFFS)

    assert not np.any(after < before - 1e-12)


@pytest.mark.parametrize("name", NAMES)
@settings(deadline=None, max_examples=examples(15))
@given(users=USERS)
def test_every_parameter_value_agrees_with_plain_python(name, users):
    ranked, relevant = lists_of(users)

    for chosen in settings_of(registry()[name]):
        values = measure(name, ranked, relevant, CUTOFFS, **chosen)
        expected = [
            [NAIVE[name](shown, wanted, cutoff, **chosen) for cutoff in CUTOFFS]
            for shown, wanted in zip(ranked, relevant, strict=True)
        ]
        np.testing.assert_allclose(values, expected, rtol=1e-12, atol=1e-15, err_msg=str(chosen))


@pytest.mark.parametrize("name", NAMES)
def test_long_lists_agree_with_plain_python(name):
    # beyond every table of a kernel: 1700 ranks, 1100 relevant items
    rng = np.random.default_rng(20240)
    ranked = [[float(gain) for gain in rng.integers(0, 3, size=1700)]]
    relevant = [[gain for gain in ranked[0] if gain] + [1.0] * 10]
    cutoffs = [1000, 1500, 6000, None]

    every = [*settings_of(registry()[name])]

    for number, chosen in enumerate(every):
        if chosen.get("terms") == "every_rank":
            continue  # quadratic in plain Python: metrics/rankings/test_ap.py has long lists
        tried = cutoffs[number % 4 :][:1] if len(every) > 3 else cutoffs  # in turn, of 960 ways
        values = measure(name, ranked, relevant, tried, **chosen)
        expected = [NAIVE[name](ranked[0], relevant[0], cutoff, **chosen) for cutoff in tried]
        np.testing.assert_allclose(values[0], expected, rtol=1e-11, err_msg=str(chosen))


@pytest.mark.parametrize("name", NAMES)
def test_duplicates_and_shared_ranks_are_measured(name):
    # one relevant item, shown three times, twice at one rank: policies can ask for both
    metric = registry()[name]
    hits = Hits(
        np.array([0, 3], dtype=np.int64),
        np.array([1, 1, 3], dtype=np.int32),
        np.array([1.0, 1.0, 1.0]),
        np.array([1.0, 1.0, 1.0]),
    )
    relevant = Relevant(np.array([0, 1], dtype=np.int64), np.array([1.0]))

    for chosen in settings_of(metric):
        out = np.full((1, 2), -1.0)
        metric.request(**chosen).measure(
            hits, relevant, np.array([4]), np.array([2, 4], dtype=np.int64), out
        )
        assert np.all((out[:, 0] >= 0) | np.isnan(out[:, 0])), chosen  # an AUC of hits alone
        assert out[0, 1] > 0 or name in ("MCC", "judged_misses"), chosen


@pytest.mark.parametrize("name", NAMES)
def test_a_kernel_is_compiled_for_one_signature(name):
    measure(name, [[1.0]], [[1.0]], [1])
    measure(name, [], [], [1, None])

    entries = registry()[name].kernel.entries

    assert len(entries) == (os.environ.get("NUMBA_DISABLE_JIT", "0") == "0")


@pytest.mark.parametrize("name", NAMES)
def test_every_spelling_with_parameters_is_read_back(name):
    metric = registry()[name]

    for chosen in settings_of(metric):
        request = metric.request(7, **chosen)
        assert parse_metrics([request.label, request.label.lower()]) == [request], request.label


@pytest.mark.parametrize("name", NAMES)
def test_a_declaration_is_complete(name):
    metric = registry()[name]

    assert metric.summary.endswith(".")
    assert metric.formula
    assert metric.latex
    assert metric.undefined
    assert re.search(r"\b(1[89]|20)\d\d\b.*\bp+\. \d", metric.source), "author, year, place, page"
    assert metric.bounds[0] < metric.bounds[1]
    assert metric.kernel.py_func.__doc__
    for parameter in metric.parameters:
        assert parameter.doc.endswith(".")
        assert all(parameter.meanings)
        assert parameter.accepts(parameter.default)


@pytest.mark.parametrize("name", [name for name in NAMES if registry()[name].counts_hits])
@laws
@given(users=USERS)
def test_what_counts_hits_does_not_look_at_their_ranks(name, users):
    ranked, relevant = lists_of(users)

    for chosen, cutoff in itertools.product(settings_of(registry()[name]), CUTOFFS[:-1]):
        first = [[*sorted(row[:cutoff], reverse=True), *row[cutoff:]] for row in ranked]
        np.testing.assert_array_equal(
            measure(name, first, relevant, [cutoff], **chosen),
            measure(name, ranked, relevant, [cutoff], **chosen),
        )
