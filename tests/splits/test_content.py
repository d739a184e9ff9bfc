"""The fingerprint of what rows hold: the same for any order, file, type and column name."""

import polars as pl
import pytest

from evalkit.sources.content import content_of

ROWS = pl.DataFrame(
    {"user": [1, 2, 2, 3], "item": ["a", "b", None, "a"], "time": [10, 20, 20, -5]},
    schema_overrides={"user": pl.Int32},
)


@pytest.mark.parametrize(
    "same",
    [
        ROWS.reverse(),
        ROWS.rename({"user": "u", "item": "i"}),
        ROWS.with_columns(pl.col("user").cast(pl.UInt64), pl.col("item").cast(pl.Categorical)),
        pl.concat([ROWS[2:], ROWS[:2]], rechunk=False),
    ],
)
def test_the_same_rows_have_one_fingerprint(same):
    assert content_of(same).fingerprint == content_of(ROWS).fingerprint


@pytest.mark.parametrize(
    "other",
    [
        ROWS[:3],
        pl.concat([ROWS, ROWS[:1]]),
        ROWS.with_columns(item=pl.Series(["b", "a", None, "a"])),
        ROWS.with_columns(item=pl.col("item").fill_null("")),
        ROWS.select("item", "user", "time"),
    ],
)
def test_other_rows_have_another(other):
    assert content_of(other).fingerprint != content_of(ROWS).fingerprint


def test_times_of_any_unit_and_floats_of_any_width_are_values():
    times = pl.DataFrame({"time": pl.Series([0, 1_700_000_000_000]).cast(pl.Datetime("ms"))})
    finer = times.cast(pl.Datetime("ns"))
    numbers = pl.DataFrame({"value": [0.5, -0.0, float("nan")]})
    narrow = pl.DataFrame({"value": pl.Series([0.5, 0.0, float("nan")], dtype=pl.Float32)})

    assert content_of(times).fingerprint == content_of(finer).fingerprint
    assert content_of(numbers).fingerprint == content_of(narrow).fingerprint


def test_it_is_what_it_was():
    """A look at a test part is found by it in runs of years ago."""
    assert content_of(ROWS).fingerprint == "3cd194f67b313df2fa4fb7685fae263b-4"
