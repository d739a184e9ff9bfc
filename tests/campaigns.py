"""How many cases of a law are tried: some in the README's command, all in campaigns.

`-m campaign` runs the rest of the cases; with `EVALKIT_TEST_EXAMPLES=all` the laws whose examples
hypothesis draws, too, as often as they say.
"""

import os
from collections import defaultdict
from collections.abc import Sequence
from itertools import combinations

import pytest

GOLDEN = (5**0.5 - 1) / 2
ASKED = os.environ.get("EVALKIT_TEST_EXAMPLES", "some")


def examples(number: int) -> int:
    """How many of `number` examples are drawn.

    A third, or what the environment's `EVALKIT_TEST_EXAMPLES` asks for: `all`, twenty times as
    many with `20`, a tenth with `few`.
    """
    match ASKED:
        case "some":
            return max(min(number, 5), number // 3)
        case "few":
            return max(min(number, 4), number // 10)
        case "all":
            return number
        case _:
            return number * int(ASKED)


def mark_campaigns(items: Sequence[pytest.Item]) -> None:
    """Marks what only campaigns run.

    Of a function under `@pytest.mark.some_cases(n)` all cases but n: the n meet every value of
    every parameter, and as many pairs of values as they can.
    """
    functions = defaultdict(list)
    for item in items:
        if ASKED == "all" and hasattr(getattr(item, "obj", None), "hypothesis"):
            item.add_marker("campaign")
        if item.get_closest_marker("some_cases"):
            functions[item.nodeid.partition("[")[0]].append(item)
    for cases in functions.values():
        (n_kept,) = cases[0].get_closest_marker("some_cases").args
        for item in set(cases) - set(covering(cases, n_kept)):
            item.add_marker("campaign")


def covering(cases: Sequence[pytest.Item], n_kept: int) -> list[pytest.Item]:
    """Cases that meet as many values, then pairs of values, as `n_kept` of them can."""
    places = sorted(range(len(cases)), key=lambda place: place * GOLDEN % 1.0)  # far apart
    left = [cases[place] for place in places]
    met: set[object] = set()
    kept: list[pytest.Item] = []
    while left and len(kept) < n_kept:
        best = max(left, key=lambda case: [len(part - met) for part in _parts(case)])
        met = met.union(*_parts(best))
        kept.append(best)
        left.remove(best)
    return kept


def _parts(case: pytest.Item) -> tuple[set[object], set[object]]:
    """The values of the parameters of a case by their places, and all pairs of these."""
    values = [*case.callspec.indices.items()]
    return set(values), set(combinations(values, 2))
