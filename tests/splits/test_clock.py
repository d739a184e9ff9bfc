"""Rows of all parts that share their time with another are counted, in whatever order they come."""

import numpy as np
import pytest

from evalkit.splits import _clock


@pytest.mark.parametrize("piece", [1, 2, 3, 1000])
def test_rows_that_share_their_time_are_counted_piece_by_piece(piece, monkeypatch):
    monkeypatch.setattr(_clock, "_A_PIECE", piece)
    rng = np.random.default_rng(piece)
    for _ in range(20):
        held, train = (rng.integers(0, 30, rng.integers(1, 25)) for _ in range(2))
        ties = _clock.TimeTies(*np.unique(held, return_counts=True))
        ties._again, ties.n_train = [train[:5], train[5:]], train.size
        every = np.concatenate([held, train]).tolist()

        assert ties.n_shared() == sum(every.count(time) > 1 for time in every)
