"""Codes that are kept are those that stand where other batches of rows are read."""

import numpy as np
import pytest

from evalkit.splits._codes import codes_between
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
