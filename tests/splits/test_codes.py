"""Codes tell ids apart, and give their keys back; kept ones stand where other batches are read."""

import numpy as np
import polars as pl
import pytest

from evalkit.sources.ids import plan_ids
from evalkit.splits._codes import Coder, codes_between
from evalkit.splits._filters import LogRows


@pytest.mark.parametrize(("begin", "n_rows"), [(0, 9), (0, 1), (2, 4), (3, 3), (8, 1), (1, 8)])
def test_codes_between(begin, n_rows):
    coded = []
    for low, high in ((0, 3), (3, 4), (4, 9)):
        codes = np.arange(low, high, dtype=np.int32)
        coded.append(LogRows(codes, codes + 10, begin=low, height=high - low))
    users, items = codes_between(coded, begin, n_rows)
    assert users.tolist() == list(range(begin, begin + n_rows))
    assert items.tolist() == [user + 10 for user in users]


@pytest.mark.parametrize("n_own", [0, 40, 50, 1000])
@pytest.mark.parametrize("most", [60, -1, 1 << 30])
def test_codes_give_ids_back_wherever_they_cease_to_be_their_own(n_own, most):
    batches = [[7, 3, 7], [], [39, 3], [most, 45, 7, 20], [999, 0, most]]
    plan = plan_ids("user", [("split", "", {"user_0": pl.Int64()})], seed=1)
    coder, codes = Coder(plan, n_own), []
    for ids in batches:
        frame = pl.DataFrame({"user_0": ids}, schema={"user_0": pl.Int64})
        codes += coder.encode(frame.select(coder.expressions("user")), "user").tolist()

    ids = [each for batch in batches for each in batch]
    assert len(set(codes)) == len(set(zip(codes, ids, strict=True))) == len(set(ids))
    assert max(codes) < coder.n
    assert coder.keys(np.array(codes, np.int32)).view(np.int64).tolist() == ids
