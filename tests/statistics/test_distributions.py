"""Tails and quantiles against SciPy, against each other, and at the ends of float64."""

import math
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from pathlib import Path

import pytest
from campaigns import examples
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy import stats

import evalkit
from evalkit.statistics import distributions as ours

laws = settings(deadline=None, max_examples=examples(300))

DEGREES = (1, 2, 3, 4.5, 10, 29, 100, 999, 10_000, 999_999, 1e9)
PROBABILITIES = (1e-280, 1e-50, 1e-12, 1e-6, 1e-3, 0.025, 0.05, 0.2, 0.25, 0.3, 0.45)
SHIFTS = (-30, -12, -6, -4, -2.5, -1.96, -1, -0.3, -1e-6, 0, 1e-6, 0.3, 1, 1.96, 2.5, 4, 6, 12, 30)


def is_close(found, expected, *, rel=1e-10):
    return found == pytest.approx(expected, rel=rel, abs=1e-290)


def test_normal_tails_are_those_of_scipy():
    for x in SHIFTS:
        assert is_close(ours.normal_cdf(x), stats.norm.cdf(x), rel=1e-12)
        assert is_close(ours.normal_sf(x), stats.norm.sf(x), rel=1e-12)


@pytest.mark.parametrize("p", PROBABILITIES)
def test_normal_quantiles_are_those_of_scipy(p):
    assert is_close(ours.normal_quantile(p), stats.norm.ppf(p), rel=1e-13)
    assert ours.normal_quantile(1 - p) == pytest.approx(stats.norm.ppf(1 - p), rel=1e-13)


@pytest.mark.parametrize("df", DEGREES)
def test_t_tails_are_those_of_scipy(df):
    for t in SHIFTS:
        assert is_close(ours.t_sf(t, df), stats.t.sf(t, df))
        assert is_close(ours.t_two_sided(t, df), min(1.0, 2 * stats.t.sf(abs(t), df)))


@pytest.mark.parametrize("df", DEGREES)
def test_t_quantiles_lead_back_to_their_probability(df):
    for p in PROBABILITIES:
        t = ours.t_quantile(p, df)
        assert math.isinf(t) or is_close(stats.t.cdf(t, df), p)
        if p > 1e-100 and abs(t) < 1e100:
            assert t == pytest.approx(stats.t.ppf(p, df), rel=1e-10)


@pytest.mark.parametrize("df", [math.inf, 1e15])
def test_t_of_very_many_users_is_normal(df):
    assert ours.t_two_sided(1.96, df) == pytest.approx(2 * ours.normal_sf(1.96), rel=1e-13)
    assert ours.t_quantile(0.975, df) == pytest.approx(ours.normal_quantile(0.975), rel=1e-13)


@pytest.mark.parametrize("df_1", [1, 2, 5, 40, 1000])
def test_f_tails_are_those_of_scipy(df_1):
    for df_2, f in product(
        [1, 3, 17, 500, 1e5, 1e7], [0.0, 1e-8, 0.1, 0.9, 1.0, 1.5, 4.0, 30.0, 1e4]
    ):
        rel = 1e-10 if df_2 < 1e6 else 1e-9  # there SciPy 1.17 errs by 1e-10 itself
        assert is_close(ours.f_sf(f, df_1, df_2), stats.f.sf(f, df_1, df_2), rel=rel)


def test_f_of_two_over_many_by_hand():
    # with 2 over 2 m degrees of freedom the tail is (1 + f / m)^-m
    for m, f in [(1, 3.0), (10, 2.0), (5_000_000, 30.0)]:
        assert is_close(ours.f_sf(f, 2, 2 * m), math.exp(-m * math.log1p(f / m)), rel=1e-13)


@pytest.mark.parametrize("df", [1, 2, 3, 10, 55.5, 1000, 100_000])
def test_chi_squared_tails_are_those_of_scipy(df):
    for shift in [-8, -3, -1, -0.1, 0, 0.1, 1, 3, 8, 25]:
        x = df + shift * math.sqrt(2 * df) if df + shift * math.sqrt(2 * df) > 0 else df / 50
        assert is_close(ours.chi_squared_sf(x, df), stats.chi2.sf(x, df))


def test_nothing_sensible_is_nan():
    assert math.isnan(ours.t_two_sided(math.nan, 3))
    assert math.isnan(ours.t_sf(1.0, 0))
    assert math.isnan(ours.t_quantile(1.5, 3))
    assert math.isnan(ours.t_quantile(0.5, -1))
    assert math.isnan(ours.normal_quantile(-0.1))
    assert math.isnan(ours.f_sf(1.0, 0, 3))
    assert math.isnan(ours.chi_squared_sf(math.nan, 3))


def test_the_ends_are_reached_without_overflow():
    assert ours.t_two_sided(math.inf, 5) == 0.0
    assert ours.t_two_sided(1e200, 5) == 0.0
    assert ours.t_sf(-math.inf, 5) == 1.0
    assert ours.f_sf(1e308, 1e9, 1e9) == 0.0
    assert ours.chi_squared_sf(1e308, 1) == 0.0
    assert ours.normal_quantile(0.0) == -math.inf
    assert ours.t_quantile(1.0, 4) == math.inf
    assert ours.t_quantile(0.5, 4) == 0.0


@laws
@given(one=st.floats(0.0, 60.0), two=st.floats(0.0, 60.0), df=st.floats(1.0, 1e8, allow_nan=False))
def test_tails_fall_as_t_grows(one, two, df):
    assume(abs(one - two) > 1e-9 * (one + two))
    low, high = sorted((one, two))

    assert ours.t_two_sided(low, df) >= ours.t_two_sided(high, df) >= 0.0


@laws
@given(p=st.floats(1e-200, 0.5), df=st.floats(1.0, 1e8))
def test_quantiles_are_the_inverse_of_tails(p, df):
    t = ours.t_quantile(p, df)

    assert t == -math.inf or ours.t_sf(-t, df) == pytest.approx(p, rel=1e-10)


@pytest.mark.parametrize(
    ("modules", "absent"),
    [
        ("corrections, intervals, paired, power, search, tukey", ("numpy", "numba", "scipy")),
        ("bootstrap, change, permutation, wilcoxon", ("numba", "scipy", "polars")),
    ],
)
def test_importing_loads_nothing_heavy(modules, absent):
    script = (
        f"import sys\nfrom evalkit.statistics import {modules}\n"
        f"print([name for name in {absent} if name in sys.modules])"
    )

    done = subprocess.run(
        [sys.executable, "-c", script],
        check=True,
        capture_output=True,
        text=True,
        cwd=Path(evalkit.__file__).parents[1],
    )

    assert done.stdout.strip() == "[]"


def test_many_are_those_of_each_to_the_last_bit():
    places = range(2 * ours.MANY)
    t = [(-1) ** n * 10 ** (n % 61 / 10 - 3) for n in places]
    df = [1.0 + n % 7 * 10.0 ** (n % 6) for n in places]
    below = [10.0 ** -(n % 97 / 8) for n in places]

    assert ours.t_sf_of(t, df) == [*map(ours.t_sf, t, df)]
    assert ours.t_sf_of([math.inf, *t], [math.inf, *df])[0] == 0.0

    each = [*map(ours.t_quantile, below, df)]
    ours._t_quantile._known.clear()
    ours.find_t_quantiles(zip(below, df, strict=True))
    assert [*map(ours.t_quantile, below, df)] == each

    halves = [(1.0 + n * n, 0.5 + 7.0 * (n % 31)) for n in places]
    assert ours.beta_halves(halves) == [ours.beta_tails(*both, 0.5, 0.5)[0] for both in halves]


def test_values_are_remembered_though_threads_forget_them(monkeypatch):
    monkeypatch.setattr(ours, "MOST_KEPT", 3)
    square = ours.Remembered(lambda keys: [float(key * key) for key in keys])

    def ask(key: int) -> float:
        square.find(range(key, key + 5))
        return square(key)

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(ask, range(5000))) == [float(key * key) for key in range(5000)]
