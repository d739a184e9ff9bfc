"""Agreement of judges, against worked tables and against what five libraries printed."""

import math
from fractions import Fraction

import numpy as np
import pytest
from campaigns import examples
from records import FOLDER, codes, fixture, records

from evalkit.statistics import agreement
from evalkit.statistics.agreement import Coefficient

needs_records = pytest.mark.skipif(not FOLDER.is_dir(), reason="EVALKIT_TEST_DATA is not set")

KRIPPENDORFF_2011 = [  # his worked example: four observers, twelve units
    [1, 2, 3, 3, 2, 1, 4, 1, 2, None, None, None],
    [1, 2, 3, 3, 2, 2, 4, 1, 2, 5, None, 3],
    [None, 3, 3, 3, 2, 3, 4, 2, 2, 5, 1, None],
    [1, 2, 3, 3, 2, 4, 4, 1, 2, 5, 1, None],
]
SHROUT_FLEISS_1979 = [  # table 2, a column a judge
    [9, 6, 8, 7, 10, 6],
    [2, 1, 4, 1, 5, 2],
    [5, 3, 6, 2, 6, 4],
    [8, 2, 8, 6, 9, 7],
]


def read(coefficient: Coefficient, ratings: np.ndarray) -> float:
    return float(coefficient.read(coefficient.features(ratings).sum(axis=0)))


@pytest.mark.parametrize(
    ("kind", "printed"),
    [("nominal", 0.743), ("ordinal", 0.815), ("interval", 0.849), ("ratio", 0.797)],
)
def test_alpha_of_the_worked_example(kind: str, printed: float) -> None:
    ratings, levels = codes(KRIPPENDORFF_2011)

    assert read(agreement.alpha(levels, kind=kind), ratings) == pytest.approx(printed, abs=5e-4)


@pytest.mark.parametrize(
    ("form", "printed"),
    [("1,1", 0.17), ("A,1", 0.29), ("C,1", 0.71), ("1,k", 0.44), ("A,k", 0.62), ("C,k", 0.91)],
)
def test_intraclass_of_the_published_table(form: str, printed: float) -> None:
    ratings, levels = codes(SHROUT_FLEISS_1979)

    value = read(agreement.intraclass(levels, 4, form=form), ratings)

    assert value == pytest.approx(printed, abs=5e-3)


def test_ordinal_weights_are_not_his_ordinal_distance() -> None:
    ratings, levels = codes(KRIPPENDORFF_2011)

    assert read(agreement.alpha(levels, weights="ordinal"), ratings) == pytest.approx(
        0.83364, abs=5e-6
    )


def test_many_agree_by_chance() -> None:
    """96 of 100 units at one level: 94 % chance leave nothing above it."""
    first = [0] * 98 + [1] * 2
    second = [0] * 96 + [1] * 2 + [0] * 2
    ratings, levels = codes([first, second])

    assert read(agreement.chance_corrected("agreement", levels), ratings) == pytest.approx(0.96)
    # 0.98 x 0.98 + 0.02 x 0.02 by chance
    assert read(agreement.cohen(levels), ratings) == pytest.approx((0.96 - 0.9608) / 0.0392)
    # Gwet's chance: 2 x 0.98 x 0.02
    assert read(agreement.chance_corrected("AC", levels), ratings) == pytest.approx(
        (0.96 - 0.0392) / (1 - 0.0392)
    )


@pytest.mark.parametrize(
    "make",
    [
        lambda levels: agreement.alpha(levels),
        lambda levels: agreement.alpha(levels, kind="ordinal"),
        lambda levels: agreement.chance_corrected("fleiss", levels),
        lambda levels: agreement.conger(levels, 3),
        lambda levels: agreement.intraclass(levels, 3),
    ],
)
def test_one_level_only_is_undefined(make) -> None:  # type: ignore[no-untyped-def]
    ratings, levels = codes([[2, 2, 2], [2, 2, 2], [2, 2, 2]], np.array([1.0, 2.0]))

    assert math.isnan(read(make(levels), ratings))


def test_a_unit_that_one_judge_rated_says_nothing_of_agreement() -> None:
    ratings, levels = codes([[0, 1, 1, 0], [0, 1, 0, None]])
    whole, levels = codes([[0, 1, 1], [0, 1, 0]])

    assert read(agreement.alpha(levels), ratings) == read(agreement.alpha(levels), whole)


def test_units_weigh_as_often_as_they_stand_there() -> None:
    """What makes the bootstrap and segments one thing: sums of features."""
    ratings, levels = codes(KRIPPENDORFF_2011)
    twice = np.concatenate([ratings, ratings[:3]])
    weights = np.array([2] * 3 + [1] * 9)
    for coefficient in (agreement.alpha(levels, kind="ordinal"), agreement.conger(levels, 4)):
        sums = weights @ coefficient.features(ratings)

        assert float(coefficient.read(sums)) == pytest.approx(read(coefficient, twice), abs=1e-12)


def test_draws_hang_on_the_seed_alone_and_hold_the_estimate() -> None:
    ratings, levels = codes(KRIPPENDORFF_2011)

    def make(n_judges: int) -> Coefficient:
        return agreement.alpha(levels, kind="ordinal")

    estimate = read(make(4), ratings)
    for judges in (False, True):
        one = agreement.resample(make, ratings, n_draws=200, seed=1, judges=judges)
        other = agreement.resample(make, ratings, n_draws=200, seed=1, judges=judges)
        interval = agreement.bca_interval(estimate, one, level=0.95)

        assert np.array_equal(one.values, other.values, equal_nan=True)
        assert interval.low < estimate < interval.high <= 1


def test_no_limits_where_nobody_ever_disagrees() -> None:
    ratings, levels = codes([[0, 1, 0, 1], [0, 1, 0, 1]])

    draws = agreement.resample(lambda _: agreement.alpha(levels), ratings, n_draws=100, seed=1)

    assert not agreement.bca_interval(1.0, draws, level=0.95).exists


def _of_irrcac(record: dict, levels: np.ndarray, n_judges: int) -> Coefficient:  # type: ignore[type-arg]
    weights = record["variant"]
    name = {"gwet": "AC", "bp": "brennan-prediger", "fleiss": "fleiss"}.get(record["metric"])
    if name is not None:
        return agreement.chance_corrected(name, levels, weights=weights)
    if record["metric"] == "conger":
        return agreement.conger(levels, n_judges, weights=weights)
    return agreement.alpha(levels, weights=weights)


@needs_records
def test_irrcac_gives_the_same_to_its_five_decimals() -> None:
    checked = 0
    for record in records("irrCAC"):
        ratings, levels = codes(fixture(record["fixture"])["ratings"])
        if len(levels) == 1:
            continue  # the library says 1; it is undefined
        value = read(_of_irrcac(record, levels, ratings.shape[1]), ratings)
        if math.isfinite(float(record["values"]["value"])):
            assert value == pytest.approx(record["values"]["value"], abs=6e-6), record
            checked += 1
    assert checked > 100


@needs_records
def test_krippendorff_gives_the_same() -> None:
    checked = 0
    for record in records("krippendorff"):
        ratings, levels = codes(fixture(record["fixture"])["ratings"])
        value = read(agreement.alpha(levels, kind=record["variant"]), ratings)
        assert value == pytest.approx(record["values"]["value"], rel=1e-9, abs=1e-12), record
        checked += 1
    assert checked > 30


@needs_records
@pytest.mark.parametrize("library", ["scikit-learn", "statsmodels"])
def test_kappas_of_two_judges_and_of_counts_are_the_same(library: str) -> None:
    checked = 0
    for record in records(library):
        ratings, levels = codes(fixture(record["fixture"])["ratings"])
        if record["metric"] == "cohen":
            pair = fixture(record["fixture"])["ratings"][:2]
            listed = None if library == "scikit-learn" else levels  # of two judges, or of all
            ratings, levels = codes(pair, listed)
            weights = {"None": "identity"}.get(record["variant"], record["variant"])
            coefficient = agreement.cohen(levels, weights=weights, distance="index")
        else:
            name = {"fleiss": "fleiss", "randolph": "brennan-prediger"}[record["variant"]]
            coefficient = agreement.chance_corrected(name, levels)
        expected = float(record["values"]["value"])
        assert read(coefficient, ratings) == pytest.approx(
            expected, rel=1e-9, abs=1e-12, nan_ok=True
        ), record
        checked += 1
    assert checked > 10


@needs_records
def test_pingouin_gives_the_same_intraclass_correlations_and_limits() -> None:
    checked = 0
    for record in records("pingouin"):
        if record["metric"] != "icc":
            continue
        ratings, levels = codes(fixture(record["fixture"])["ratings"])
        printed = record["values"]
        for kind, value, low, high in zip(
            printed["types"], printed["value"], printed["low"], printed["high"], strict=True
        ):
            if not math.isfinite(float(value)):
                continue
            form, n_judges = kind[4:-1], ratings.shape[1]
            coefficient = agreement.intraclass(levels, n_judges, form=form)
            sums = coefficient.features(ratings).sum(axis=0)
            limits = agreement.intraclass_interval(sums, n_judges, form=form, level=0.95)
            assert float(coefficient.read(sums)) == pytest.approx(value, rel=1e-9), (record, kind)
            assert limits.low == pytest.approx(low, abs=5.01e-3)
            assert limits.high == pytest.approx(high, abs=5.01e-3)
            checked += 1
    assert checked >= 12


def intraclass_exactly(rows: list[list[Fraction]], form: str) -> float:
    """McGraw and Wong 1996, table 4, in fractions; NaN where a number is divided by nothing."""
    n, k = len(rows), len(rows[0])
    units = [sum(row) / k for row in rows]
    judges = [sum(each) / n for each in zip(*rows, strict=True)]
    mean = sum(units) / n
    r = k * sum((each - mean) ** 2 for each in units) / (n - 1)
    c = n * sum((each - mean) ** 2 for each in judges) / (k - 1)
    pairs = zip(rows, units, strict=True)
    w = sum((each - unit) ** 2 for row, unit in pairs for each in row) / (n * (k - 1))
    e = (w * n * (k - 1) - c * (k - 1)) / ((n - 1) * (k - 1))
    part = r - (w if form[0] == "1" else e)
    extra = Fraction(k, n) * (c - e) if form[0] == "A" else 0
    more = (k - 1) * (w if form[0] == "1" else e)
    whole = r + extra / k if form[2] == "k" else r + more + extra
    return float(part / whole) if whole else math.nan


@pytest.mark.parametrize("form", agreement.FORMS)
def test_intraclass_is_undefined_where_fractions_are(form: str) -> None:
    rng, n_undefined = np.random.default_rng(3), 0
    for step in [Fraction(1), Fraction(1, 10), Fraction(1, 3)] * examples(60):
        ratings = rng.integers(0, 3, (int(rng.integers(2, 5)), int(rng.integers(2, 4))))
        levels = np.array([float(step * place) for place in range(3)])
        coefficient = agreement.intraclass(levels, ratings.shape[1], form=form)
        sums = agreement.sum_of(coefficient.features(ratings))
        rows = [[step * each for each in row] for row in ratings.tolist()]

        value = float(coefficient.read(sums))
        agreement.intraclass_interval(sums, ratings.shape[1], form=form, level=0.95)

        assert value == pytest.approx(intraclass_exactly(rows, form), abs=1e-9, nan_ok=True)
        n_undefined += math.isnan(value)
    assert n_undefined > 0


def test_limits_of_tables_without_spread_of_units_end_in_no_traceback() -> None:
    own = agreement.intraclass(np.array([0.0, 1.0]), 2)
    crossed = own.features(np.array([[0, 1], [1, 0], [0, 1], [1, 0]])).sum(axis=0)
    of_two = own.features(np.array([[1, 0], [0, 1]])).sum(axis=0)

    one = agreement.intraclass_interval(crossed, 2, form="A,1", level=0.95)
    mean = agreement.intraclass_interval(crossed, 2, form="A,k", level=0.95)
    least = agreement.intraclass_interval(of_two, 2, form="A,1", level=0.95)

    assert (one.low, one.high) == (-2.0, -2.0)
    assert not mean.exists  # beyond -1, the mean of two judges would agree less than one does
    assert not least.exists
