"""The studentised range: against SciPy, against t for two means, and against a finer rule."""

import math

import pytest
from campaigns import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from evalkit.statistics import _scale, studentised_range
from evalkit.statistics.distributions import t_two_sided
from evalkit.statistics.studentised_range import range_quantile, range_sf

laws = settings(deadline=None, max_examples=examples(40))
DEGREES = (1, 2, 5, 10, 30, 120, 1000, math.inf)


@pytest.mark.some_cases(12)
@pytest.mark.parametrize("n_means", [2, 3, 5, 10, 30, 100])
@pytest.mark.parametrize("df", DEGREES)
def test_tails_are_those_of_scipy(n_means, df):
    for q in (0.1, 1.0, 2.5, 3.5, 5.0, 8.0):
        assert range_sf(q, n_means, df) == pytest.approx(
            stats.studentized_range.sf(q, n_means, df), rel=1e-9, abs=1e-11
        )


@pytest.mark.some_cases(12)
@pytest.mark.parametrize("n_means", [3, 6, 20])
@pytest.mark.parametrize("df", [2, 10, 1000, math.inf])
@pytest.mark.parametrize("p", [0.5, 0.9, 0.95, 0.999])
def test_quantiles_are_those_of_scipy(n_means, df, p):
    q = range_quantile(p, n_means, df)

    assert range_sf(q, n_means, df) == pytest.approx(1 - p, rel=1e-11)
    assert q == pytest.approx(stats.studentized_range.ppf(p, n_means, df), rel=1e-6)


def test_printed_tables_are_met():
    # Pearson and Hartley 1970, Biometrika Tables for Statisticians 1, table 29
    for p, n_means, df, q in [(0.95, 3, 10, 3.88), (0.95, 10, 20, 5.01), (0.99, 5, 60, 4.82)]:
        assert range_quantile(p, n_means, df) == pytest.approx(q, abs=0.006)


@pytest.mark.parametrize(
    ("q", "n_means", "df"),
    [
        (4, 100, 10),
        (0.5, 3, 1),
        (30, 3, 1e6),
        (60, 3, 50),
        (20, 100, 1e4),
        (8, 10, 1),
        (4, 30, 1e7),
    ],
)
def test_finer_steps_change_nothing(monkeypatch, q, n_means, df):
    found = range_sf(q, n_means, df)
    fine = _scale.sum_outwards

    def finer(term, start, step):
        return 0.5 * fine(term, start, 0.5 * step)

    monkeypatch.setattr(_scale, "sum_outwards", finer)
    monkeypatch.setattr(studentised_range, "sum_outwards", finer)
    assert found == pytest.approx(range_sf.__wrapped__(q, n_means, df), rel=1e-12)


@pytest.mark.parametrize("df", [1, 3, 17, 400, 1e6])
@pytest.mark.parametrize("q", [0.01, 1.0, 4.0, 15.0, 50.0])
def test_two_means_integrate_to_the_t_test(df, q):
    start = -0.5 * math.log1p(0.5 * q * q / df)
    tail = _scale.average_over_scale(
        lambda s: studentised_range._range_tail(q * s, 2), df, start=start
    )

    expected = t_two_sided(q / math.sqrt(2), df)
    assert tail == pytest.approx(expected, rel=1e-11)
    assert range_sf(q, 2, df) == expected


@laws
@given(
    q=st.floats(0.01, 40),
    wider=st.floats(1.01, 2),
    n_means=st.integers(2, 12),
    df=st.floats(1, 1e7),
)
def test_tails_fall_with_q_and_rise_with_means(q, wider, n_means, df):
    here = range_sf(q, n_means, df)

    assert 0.0 <= range_sf(q * wider, n_means, df) <= here * (1 + 1e-12) <= 1.0 + 1e-12
    assert range_sf(q, n_means + 1, df) >= here * (1 - 1e-12)


def test_the_ends_and_nonsense():
    assert range_sf(0.0, 5, 10) == 1.0
    assert range_sf(math.inf, 5, 10) == 0.0
    assert range_sf(1e6, 5, 1e9) == 0.0
    for q, n_means, df in [(math.nan, 3, 5), (1.0, 1, 5), (1.0, 3, 0)]:
        assert math.isnan(range_sf(q, n_means, df))
    assert math.isnan(range_quantile(1.0, 3, 5))
