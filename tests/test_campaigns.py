"""Of a law with many cases the ones that always run meet every value of every parameter."""

from itertools import combinations, pairwise, product
from types import SimpleNamespace

import pytest
from campaigns import covering, mark_campaigns

pytest_plugins = "pytester"


def cases_of(*sizes):
    """A case for each combination of so many values of each parameter."""
    places = product(*map(range, sizes))
    return [SimpleNamespace(callspec=SimpleNamespace(_idlist=place)) for place in places]


def values_of(cases, n=1):
    return {part for case in cases for part in combinations(enumerate(case.callspec._idlist), n)}


@pytest.mark.parametrize("sizes", [(7,), (4, 3), (2, 5, 3), (6, 6, 2)])
def test_as_many_cases_as_a_parameter_has_values_meet_all_values(sizes):
    cases = cases_of(*sizes)

    assert values_of(covering(cases, max(sizes))) == values_of(cases)


def test_more_cases_meet_all_pairs_long_before_all_cases_run():
    cases = cases_of(3, 4, 3)

    assert values_of(covering(cases, 16), 2) == values_of(cases, 2)


def test_cases_are_no_more_than_asked_for_and_always_the_same():
    cases = cases_of(30)

    kept = covering(cases, 4)

    assert kept == covering(cases, 4)
    assert len(kept) == 4
    assert len(covering(cases, 99)) == 30
    places = sorted(case.callspec._idlist[0] for case in kept)
    assert min(b - a for a, b in pairwise(places)) >= 4  # far apart


class Case(SimpleNamespace):
    """As much of a test item as its cases are chosen by."""

    __hash__ = object.__hash__
    obj = None

    def get_closest_marker(self, name):
        return self.marks.get(name)

    def add_marker(self, name):
        self.marks[name] = True


@pytest.mark.parametrize(
    ("sizes", "some", "asked", "n_kept"),
    [
        ((40,), None, "some", 40), ((4, 7), None, "some", 7), ((2, 3), None, "some", 6),
        ((40,), 4, "some", 4), ((40,), None, "few", 40), ((4, 5), None, "few", 5),
        ((4, 5), 9, "few", 5), ((40,), 4, "few", 4),
    ],
)  # fmt: skip
def test_a_table_runs_whole_combinations_by_a_quarter_and_marked_ones_as_they_say(
    sizes, some, asked, n_kept, monkeypatch
):
    monkeypatch.setattr("campaigns.ASKED", asked)
    marks = {} if some is None else {"some_cases": SimpleNamespace(args=(some,))}
    cases = [
        Case(nodeid=f"f[{place}]", callspec=case.callspec, marks=dict(marks))
        for place, case in enumerate(cases_of(*sizes))
    ]

    mark_campaigns(cases)

    assert sum("campaign" not in case.marks for case in cases) == n_kept


STACKED = """
import pytest

@pytest.fixture(params=["int", "text"])
def ids(request):
    return request.param

@pytest.mark.parametrize("ties", ["item", "input"])
@pytest.mark.parametrize(("k", "value"), [(1, 0.5), (2, 0.5), (3, 0.5), (4, 1.0)])
def test_law(ids, ties, k, value):
    pass

@pytest.mark.parametrize(("k", "value"), [(k, 0.5) for k in range(20)])
def test_table(k, value):
    pass
"""


def test_cases_are_those_of_pytest_itself(pytester, monkeypatch):
    monkeypatch.setattr("campaigns.ASKED", "some")
    items = pytester.getitems(STACKED)
    kept = covering(items[:16], 6)
    mark_campaigns(items)

    assert {value for item in kept for value in item.callspec.params.values()} == {
        "int", "text", "item", "input", 1, 2, 3, 4, 0.5,
    }  # fmt: skip
    left = [item.originalname for item in items if not item.get_closest_marker("campaign")]
    assert (left.count("test_law"), left.count("test_table")) == (6, 20)
