"""How many cases of a law are tried: some in the README's command, all in campaigns.

`-m campaign` runs the rest of the cases; with `EVALKIT_TEST_EXAMPLES=all` the laws whose examples
hypothesis draws, too, as often as they say. `EVALKIT_TEST_CAMPAIGN_SHARE=6` leaves one case in
six, always the same, and all tests that are campaigns as a whole.
"""

import os
import zlib
from collections import defaultdict
from collections.abc import Sequence
from itertools import combinations

import pytest

GOLDEN = (5**0.5 - 1) / 2
FEWEST = 6  # cases of a function that always run
ASKED = os.environ.get("EVALKIT_TEST_EXAMPLES", "some")
SHARE = int(os.environ.get("EVALKIT_TEST_CAMPAIGN_SHARE", "1"))


def examples(number: int) -> int:
    """How many of `number` examples are drawn.

    An eighth, or what the environment's `EVALKIT_TEST_EXAMPLES` asks for: `all`, twenty times as
    many with `20`, a tenth with `few`, which also leaves fewest cases.
    """
    match ASKED:
        case "some":
            return max(min(number, 5), number // 8)
        case "few":
            return max(min(number, 4), number // 10)
        case "all":
            return number
        case _:
            return number * int(ASKED)


def mark_campaigns(items: Sequence[pytest.Item]) -> None:
    """Marks what only campaigns run.

    Of a function under `@pytest.mark.some_cases(n)` all cases but n; of any other one whose cases
    are combinations of several parameters' values, all but a quarter. Those that are left meet
    every value of every parameter, and as many pairs of values as they can; with `few` no more
    are left than a parameter has values.
    """
    functions = defaultdict(list)
    for item in items:
        if ASKED == "all" and hasattr(getattr(item, "obj", None), "hypothesis"):
            item.add_marker("campaign")
        if hasattr(item, "callspec"):
            functions[item.nodeid.partition("[")[0]].append(item)
    for cases in functions.values():
        asked = cases[0].get_closest_marker("some_cases")
        n_values = _n_of_values(cases)
        n_kept = asked.args[0] if asked else max(FEWEST, -(-len(cases) // 4), n_values)
        if ASKED == "few":
            n_kept = min(n_kept, n_values)
        for item in set(cases) - set(covering(cases, n_kept)):
            if zlib.crc32(item.nodeid.encode()) % SHARE == 0:
                item.add_marker("campaign")


def _n_of_values(cases: Sequence[pytest.Item]) -> int:
    """As many as the parameter with the most values has: all cases of one table."""
    of_parameters = defaultdict(set)
    for case in cases:
        for number, value in _values(case):
            of_parameters[number].add(value)
    return max(map(len, of_parameters.values()))


def covering(cases: Sequence[pytest.Item], n_kept: int) -> list[pytest.Item]:
    """Cases that meet as many values, then pairs of values, as `n_kept` of them can."""
    if n_kept >= len(cases):
        return list(cases)
    places = sorted(range(len(cases)), key=lambda place: place * GOLDEN % 1.0)  # far apart
    left = [(cases[place], _parts(cases[place])) for place in places]
    met: set[object] = set()
    kept: list[pytest.Item] = []
    while len(kept) < n_kept:
        best = max(left, key=lambda each: [len(part - met) for part in each[1]])
        met = met.union(*best[1])
        kept.append(best[0])
        left.remove(best)
    return kept


def _parts(case: pytest.Item) -> tuple[set[object], set[object]]:
    """The values of the parameters of a case, and all pairs of these."""
    values = _values(case)
    return set(values), set(combinations(values, 2))


def _values(case: pytest.Item) -> list[tuple[int, str]]:
    """What each call of `parametrize` gives the case, by its id: a row of a table is one value.

    `callspec.indices` are no places of values: pytest numbers the cases there.
    """
    return [*enumerate(case.callspec._idlist)]
