"""Why a mean moved: by hand, by all orders of exchange, and exactly additive."""

import itertools
import math
from fractions import Fraction

import pytest
from campaigns import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from evalkit.statistics.change import UserCell, explain_change
from evalkit.statistics.exact import SCALE_BITS, ExactSum

laws = settings(deadline=None, max_examples=examples(100))


def exactly(values):
    scaled = sum(Fraction(value) * 2**SCALE_BITS for value in values)
    return ExactSum(len(values), int(scaled), 0)


def of_one_kind(**segments):
    """Cells of users alike but for their segment."""
    return {
        UserCell(name, "1", is_ranked=True): exactly(values) for name, values in segments.items()
    }


VALUES = st.lists(st.sampled_from([0.0, 0.1, 0.25, 1 / 3, 0.5, 1.0]), max_size=4)
CELLS = st.dictionaries(
    st.builds(UserCell, st.sampled_from("abc"), st.sampled_from(["1", "2+"]), st.booleans()),
    VALUES.map(exactly),
    max_size=8,
)


def all_orders(before, after):
    """Shapley values from the words: exchange one factor after the other, in every order."""
    runs = [{cell: each for cell, each in run.items() if each.count} for run in (before, after)]

    def share(run, cell, factor):
        def count(*names):
            alike = lambda other: all(getattr(other, n) == getattr(cell, n) for n in names)  # noqa: E731
            return sum(each.count for other, each in runs[run].items() if alike(other))

        levels = [(), ("segment",), ("segment", "relevant"), ("segment", "relevant", "is_ranked")]
        whole = count(*levels[factor])
        if not whole:
            return None
        if factor == 3:
            return Fraction(runs[run][cell].scaled, whole << SCALE_BITS)
        return Fraction(count(*levels[factor + 1]), whole)

    def mean(which):
        total = Fraction(0)
        for cell in {*runs[0], *runs[1]}:
            term = Fraction(1)
            for factor, run in enumerate(which):
                value = share(run, cell, factor)
                term *= share(1 - run, cell, factor) if value is None else value
            total += term
        return total

    parts = [Fraction(0)] * 4
    for order in itertools.permutations(range(4)):
        which = [0] * 4
        for factor in order:
            here = mean(which)
            which[factor] = 1
            parts[factor] += (mean(which) - here) / 24
    return parts


def test_a_change_of_the_mix_by_hand():
    # new users (value 0.2) go from 1 of 4 to 2 of 4, others stay at 0.6: 0.5 -> 0.4
    before = of_one_kind(new=[0.25], old=[0.75] * 3)
    after = of_one_kind(new=[0.25] * 2, old=[0.75] * 2)
    change = explain_change(before, after)

    assert (change.before, change.after) == (0.625, 0.5)
    assert change.parts.mix == -0.125
    assert (change.parts.within, change.parts.truth, change.parts.coverage) == (0.0, 0.0, 0.0)
    # a quarter more of those 0.3125 below the middle, a quarter less of those 0.1875 above it
    assert change.segments["new"].mix == 0.25 * (0.25 - 0.5625)
    assert change.segments["old"].mix == -0.25 * (0.75 - 0.5625)


def test_mix_and_values_share_what_they_do_together():
    # shares 1/4 -> 1/2, values of new 0 -> 0.5: the midpoint of both
    before = of_one_kind(new=[0.0], old=[1.0] * 3)
    after = of_one_kind(new=[0.5] * 2, old=[1.0] * 2)
    parts = explain_change(before, after).parts

    assert parts.within == 0.5 * (0.25 + 0.5) / 2
    assert parts.mix == 0.25 * ((0.0 + 0.5) / 2 - 1.0)
    assert parts.total == 0.0


def test_a_change_of_values_alone_is_within():
    change = explain_change(of_one_kind(a=[0.5], b=[0.25]), of_one_kind(a=[0.75], b=[0.25]))

    assert change.parts.within == 0.125
    assert change.segments["a"].within == 0.125
    assert change.segments["b"].total == 0.0


def test_users_without_ranking_are_coverage():
    ranked, unranked = UserCell("a", "1", is_ranked=True), UserCell("a", "1", is_ranked=False)
    before = {ranked: exactly([0.5] * 4)}
    after = {ranked: exactly([0.5] * 3), unranked: exactly([0.0])}

    parts = explain_change(before, after).parts
    assert parts.coverage == -0.125
    assert parts.total == -0.125


def test_more_relevant_items_are_the_truth():
    few, many = UserCell("a", "1", is_ranked=True), UserCell("a", "2+", is_ranked=True)
    before = {few: exactly([0.5] * 4)}
    after = {few: exactly([0.5] * 2), many: exactly([0.25] * 2)}

    parts = explain_change(before, after).parts
    assert parts.truth == -0.125
    assert parts.total == -0.125


def test_a_segment_that_comes_is_mix():
    change = explain_change(of_one_kind(a=[0.5] * 2), of_one_kind(a=[0.5] * 2, b=[1.0] * 2))

    assert change.parts.mix == 0.25
    assert change.parts.within == 0.0


@laws
@given(before=CELLS, after=CELLS)
def test_parts_are_those_of_all_orders_and_add_up(before, after):
    change = explain_change(before, after)
    if math.isnan(change.before) or math.isnan(change.after):
        assert math.isnan(change.parts.total)
        return
    found = [change.parts.mix, change.parts.truth, change.parts.coverage, change.parts.within]

    assert found == pytest.approx([float(each) for each in all_orders(before, after)], abs=1e-14)
    exact = [sum(each.scaled for each in run.values()) for run in (before, after)]
    counts = [sum(each.count for each in run.values()) for run in (before, after)]
    moved = Fraction(exact[1], counts[1]) - Fraction(exact[0], counts[0])
    assert change.parts.total == pytest.approx(float(moved / 2**SCALE_BITS), abs=1e-15)


@laws
@given(before=CELLS, after=CELLS)
def test_not_a_digit_is_lost_in_adding_up(before, after):
    change = explain_change(before, after)
    if math.isnan(change.parts.total):
        return

    whole = Fraction(change.parts.total)
    assert whole == sum(
        Fraction(each)
        for each in (
            change.parts.mix,
            change.parts.truth,
            change.parts.coverage,
            change.parts.within,
        )
    )
    for name in ("mix", "truth", "coverage", "within"):
        parts = [Fraction(getattr(each, name)) for each in change.segments.values()]
        assert sum(parts) == Fraction(getattr(change.parts, name))


@laws
@given(before=CELLS, after=CELLS)
def test_swapping_the_runs_turns_every_sign(before, after):
    there, back = explain_change(before, after), explain_change(after, before)

    for name in ("mix", "truth", "coverage", "within"):
        here = getattr(there.parts, name)
        assert getattr(back.parts, name) == -here or math.isnan(here)


@laws
@given(run=CELLS)
def test_nothing_moves_between_a_run_and_itself(run):
    change = explain_change(run, dict(reversed(run.items())))

    assert change.parts.total == 0.0 or math.isnan(change.before)


def test_a_run_without_users_has_no_parts():
    change = explain_change({}, of_one_kind(a=[1.0]))

    assert math.isnan(change.before)
    assert change.after == 1.0
    assert math.isnan(change.parts.mix)
