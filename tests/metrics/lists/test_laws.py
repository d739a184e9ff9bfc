"""Laws of all metrics of lists: bounds, codes, cutoffs, and the same without compilation."""

import functools
import re

import numpy as np
import pytest
from list_worlds import build, measure, shown_at

from evalkit.metrics import registry_of

METRICS = registry_of("lists")
CUTOFFS = [1, 3, 4, None]
GROUP = {"bias_disparity": {"group": "7"}}


@functools.cache
def world(seed=None):
    """A small world with short, empty and repeated lists, unknown items and users without train."""
    draw = np.random.default_rng(5)
    items = [
        {
            "item": each,
            "genres": [f"g{genre}" for genre in range(4) if draw.random() < 0.4],
            "provider": [7, 8, None][each % 3],
            "published": None if each == 4 else 50 + each,
            "vector": [0, 0, 0] if each == 2 else draw.integers(-2, 3, 3).tolist(),
        }
        for each in range(1, 13)
    ]
    lists = {name: [] for name in ("run", "run_b", "run_before", "train", "qrels")}
    for user in range(9):
        for name, rows in lists.items():
            shown = draw.permutation(15)[: draw.integers(0, 9)].tolist()
            if name == "run" and len(shown) > 3:
                shown.append(shown[0])
            if shown:
                rows.append({"user": user, "items": shown, "rels": [1] * len(shown)})
    users = [{"user": user, "group": user % 2} for user in range(10)]
    return build({"items": items, "users": users, "now": 100, **lists}, seed=seed)


def variants(metric):
    yield {}
    for parameter in metric.parameters:
        for choice in parameter.choices[1:]:
            yield {parameter.name: choice}
        if parameter.tried is not None:
            yield {parameter.name: parameter.tried}


CASES = [
    (name, {**GROUP.get(name, {}), **values})
    for name, metric in METRICS.items()
    if metric.lists.family != "means"
    for values in variants(metric)
]


def same(one, other):
    np.testing.assert_array_equal(np.asarray(one), np.asarray(other))


@pytest.mark.parametrize("name", sorted(METRICS))
def test_a_metric_of_lists_is_declared_whole(name):
    metric = METRICS[name]

    assert metric.summary.endswith(".")
    assert re.search(r"\b(18|19|20)\d\d\b", metric.source)
    assert metric.bounds[0] < metric.bounds[1]
    assert metric.undefined
    assert metric.formula
    assert metric.latex


@pytest.mark.some_cases(75)
@pytest.mark.parametrize(("name", "values"), CASES)
def test_codes_and_other_cutoffs_move_no_bit(name, values):
    together = measure(name, world(), CUTOFFS, **values)
    alone = np.stack([measure(name, world(3), [k], **values)[..., 0] for k in CUTOFFS], axis=-1)

    same(together, alone)


@pytest.mark.parametrize("name", sorted({name for name, _ in CASES}))
def test_values_are_inside_the_bounds(name):
    low, high = METRICS[name].bounds
    found = measure(name, world(), CUTOFFS, **GROUP.get(name, {}))
    known = found[~np.isnan(found)]

    assert known.size
    assert known.min() >= low - 1e-12
    assert known.max() <= high + 1e-12


KERNELS = [case for case in CASES if METRICS[case[0]].lists.family != "counts"]


@pytest.mark.some_cases(56)
@pytest.mark.parametrize(("name", "values"), KERNELS)
def test_plain_python_gives_the_same(name, values):
    compiled = measure(name, world(), CUTOFFS, **values)
    plain = measure(name, world(), CUTOFFS, kernel=lambda each: each.interpret, **values)

    np.testing.assert_allclose(compiled, plain, rtol=1e-14, atol=1e-15, equal_nan=True)


ONE_LIST_LESS = {  # no derivative: held to users left out, in tests/item_lists/test_shown.py
    "gini", "evenness", "gini_exposure", "entropy", "list_surprisal", "item_mad",
}  # fmt: skip
COUNTED = sorted(name for name, metric in METRICS.items() if metric.lists.family == "counts")


@pytest.mark.parametrize("name", COUNTED)
def test_slopes_are_those_of_the_number(name):
    metric = METRICS[name]
    request = metric.request()
    values = dict(request.parameters)
    items = world().context.items
    shown = shown_at(world(), request, 4)
    number, slopes = metric.function(shown, items, values)
    if name.endswith("coverage"):
        own = items.is_listed
        alone = (shown.lists[own] == 1).sum() / own.sum()
        assert slopes.sum() == pytest.approx(alone)
        return
    length = shown.lists.sum() / shown.n_users
    fields = {  # a row of a list of the mean length adds so much
        "lists": {"lists": 1.0},
        "attention": {"exposure": 1.0},
        "length": {"by_length": 1.0},
        "share": {"by_share": 1.0, "lists": length},
        "gain": {"gains": 1.0},
    }[metric.lists.weighing(values)]
    place = int(np.argmax(getattr(shown, next(iter(fields))) * items.is_listed))
    step = 1e-7
    moved = {name: getattr(shown, name).astype(float) for name in fields}
    for name, added in fields.items():
        moved[name][place] += step * added
    other, _ = metric.function(shown._replace(**moved), items, values)

    if metric.name not in ONE_LIST_LESS:
        assert (other - number) / step == pytest.approx(slopes[place], rel=1e-4, abs=1e-6)
