"""Ids of any type as keys: equal ids have equal keys, and shares of users are a partition."""

from dataclasses import replace
from datetime import date, datetime

import numpy as np
import polars as pl
import pytest

from evalkit.errors import DataError
from evalkit.kernels.intrinsics import folded_product
from evalkit.sources.ids import (
    DrawnShare,
    PassShare,
    drawn_shares,
    ids_of_keys,
    keys_of_texts,
    plan_ids,
)

SIGNED, UNSIGNED = pl.Int64(), pl.UInt64()


def plan_of(*dtypes: pl.DataType, seed: int = 1):
    """The plan of tables that each have one column of users."""
    tables = [
        (role, f"{role}.parquet", {"user": dtype})
        for role, dtype in zip(("truth", "rankings", "train"), dtypes, strict=False)
    ]
    return plan_ids("user", tables, seed=seed)


def keys_of(plan, ids: list[object], dtype: pl.DataType) -> list[int | None]:
    frame = pl.DataFrame({"user": pl.Series(ids, dtype=dtype)})
    return frame.select(plan.select("key"))["key"].to_list()


@pytest.mark.parametrize(
    ("dtypes", "ids"),
    [
        ((pl.Int8(), pl.UInt32()), [0, 1, 127]),
        ((pl.UInt64(), pl.UInt8()), [0, 1, 255]),
        ((pl.Int64(), pl.UInt64()), [0, 1, 2**62]),
        ((pl.String(), pl.Categorical()), ["", "a", "ä", "x" * 40]),
        ((pl.Date(), pl.Date()), [date(1970, 1, 1), date(1900, 2, 3)]),
        ((pl.Datetime("ms"), pl.Datetime("ns")), [datetime(2001, 2, 3, 4, 5)]),
    ],
    ids=str,
)
def test_one_id_has_one_key_in_whatever_type_a_table_has_it(dtypes, ids):
    plan = plan_of(*dtypes)
    one, other = (keys_of(plan, ids, dtype) for dtype in dtypes)

    assert one == other
    assert len(set(one)) == len(ids)


@pytest.mark.parametrize(
    ("dtype", "ids"),
    [
        (SIGNED, [-(2**63), -1, 0, 2**63 - 1]),
        (UNSIGNED, [0, 2**63, 2**64 - 1]),
        (pl.Date(), [date(1969, 12, 31), date(2026, 11, 27)]),
    ],
    ids=str,
)
def test_ids_that_are_their_own_keys_come_back(dtype, ids):
    plan = plan_of(dtype)
    assert not plan.hashed

    keys = np.array(keys_of(plan, ids, dtype), np.uint64 if dtype == UNSIGNED else np.int64)

    assert ids_of_keys(plan, keys.view(np.uint64))["user"].to_list() == ids


def test_a_signed_and_an_unsigned_id_of_the_same_bits_are_two():
    plan = plan_of(SIGNED, UNSIGNED)

    assert plan.hashed
    assert keys_of(plan, [-1], SIGNED) != keys_of(plan, [2**64 - 1], UNSIGNED)


def test_a_row_that_lacks_a_part_of_its_id_has_no_key():
    columns = {"shop": pl.String(), "number": pl.Int64()}
    plan = plan_ids("user", [("truth", "a.parquet", columns)], seed=1)
    frame = pl.DataFrame({"shop": ["a", None, "a"], "number": [1, 1, None]})

    assert frame.select(plan.key().is_null())["shop"].to_list() == [False, True, True]


@pytest.mark.parametrize(
    ("dtypes", "code"),
    [
        ((pl.String(), pl.Int64()), "id-kind"),
        ((pl.Float64(),), "float-id"),
        ((pl.Boolean(),), "bad-id-type"),
    ],
)
def test_what_is_no_common_id_is_refused(dtypes, code):
    with pytest.raises(DataError) as error:
        plan_of(*dtypes)

    assert error.value.code == code


def test_tables_of_other_numbers_of_id_columns_are_refused():
    one, two = {"user": pl.Int64()}, {"user": pl.Int64(), "shop": pl.Int64()}

    with pytest.raises(DataError) as error:
        plan_ids("user", [("truth", "a", one), ("rankings", "b", two)], seed=1)

    assert error.value.code == "id-columns"
    assert "rankings has 2 user columns, truth has 1" in error.value.message


@pytest.mark.parametrize("n_shares", [1, 2, 7])
@pytest.mark.parametrize("kind", ["pass", "drawn"])
def test_every_user_is_in_one_share(kind, n_shares):
    plan = plan_of(SIGNED)
    users = pl.DataFrame({"user": np.repeat(np.arange(3_000), 2)}).select(plan.select("user_key"))
    shares = [
        PassShare(number, n_shares) if kind == "pass" else DrawnShare(number, n_shares, plan)
        for number in range(n_shares)
    ]
    held = np.stack([share.holds(users) for share in shares])

    assert (held.sum(axis=0) == 1).all()
    assert (held[:, ::2] == held[:, 1::2]).all()  # both rows of a user
    assert held.sum(axis=1).min() > 0.8 * users.height / n_shares


def test_drawn_shares_are_the_same_for_every_type_and_seed_of_the_keys():
    numbers = [
        drawn_shares(pl.DataFrame({"user": pl.Series(range(500), dtype=dtype)}), plan, 5).tolist()
        for dtype in (pl.Int16(), pl.UInt64())
        for plan in (plan_of(dtype, seed=1), plan_of(SIGNED, UNSIGNED, seed=2))
    ]

    assert all(found == numbers[0] for found in numbers)


@pytest.mark.parametrize("n_bytes", [8, 12, 13, 16, 24, 41])
def test_texts_that_differ_in_few_bits_have_keys_of_their_own(n_bytes):
    """One bit of the first word and two of the next one, 32 apart, as a product and a shift do."""
    n_bits = min(8 * n_bytes, 128)
    more = [[], *([bit] for bit in range(64, n_bits))]
    more += [[bit, bit + 32] for bit in range(64, n_bits - 32)]
    bits = np.zeros((65 * len(more), 8 * n_bytes + 1), dtype=np.uint8)  # the last is of no text
    for row in range(len(bits)):
        bits[row, [row // len(more) - 1, *more[row % len(more)]]] = 1
    texts = np.unique(np.packbits(bits[:, :-1], axis=1, bitorder="little"), axis=0)

    for seed in range(3):
        keys = keys_of_texts(pl.Series([row.tobytes() for row in texts], dtype=pl.Binary), seed)
        assert keys.n_unique() == len(texts)


def test_a_folded_product_is_that_of_whole_numbers():
    numbers = [0, 1, 3, (1 << 32) - 1, 0x94D049BB133111EB, (1 << 64) - 1]
    for one in numbers:
        for other in numbers:
            whole = one * other
            expected = (whole >> 64) ^ (whole & (1 << 64) - 1)
            assert int(folded_product(np.uint64(one), np.uint64(other))) == expected


@pytest.mark.parametrize("dtype", [pl.String(), pl.Binary()])
@pytest.mark.parametrize("begin", ["", "of more than twelve bytes: "])
@pytest.mark.parametrize("with_nulls", [False, True])
def test_texts_that_a_kernel_hashes_have_a_key_each(dtype, begin, with_nulls):
    texts = [f"{begin}{length * 'x'}{number}" for length in range(40) for number in range(50)]
    rows = [*texts, *texts[::-1], "", ""] + [None, "a", None] * with_nulls
    plan = replace(plan_of(dtype), by_kernel=True)
    frame = pl.DataFrame({"user": rows}).cast({"user": dtype})

    keys = frame.select(plan.key().alias("key"))["key"]

    assert keys.equals(frame.lazy().select(key=plan.key()).collect(engine="streaming")["key"])
    assert keys.null_count() == frame["user"].null_count()
    assert keys.n_unique() == frame["user"].n_unique()
    assert frame.select(first=pl.col("user"), key=keys).unique().height == keys.n_unique()
    others = frame.select(replace(plan, seed=2).key().alias("key"))["key"]
    assert not set(keys.drop_nulls()) & set(others.drop_nulls())
