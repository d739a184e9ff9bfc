"""How rows are sorted, against NumPy's sort."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalkit.rows import _store


@given(st.integers(0, 64), st.integers(0, 60), st.integers(0, 2**32))
def test_keys_of_any_width_are_sorted(n_bits, n_keys, seed):
    rng = np.random.default_rng(seed)
    keys = rng.integers(0, 2**64, n_keys, dtype=np.uint64, endpoint=False)
    keys = keys >> np.uint64(64 - n_bits) if n_bits else np.zeros_like(keys)
    found = keys.copy()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_store, "FEW_KEYS", 0)
        _store.sort_packed(found, n_bits)

    assert found.tolist() == sorted(keys.tolist())


@pytest.mark.parametrize("n_bits", [11, 23, 50])
def test_many_keys_are_sorted(n_bits):
    keys = np.random.default_rng(1).integers(0, 1 << n_bits, 5000).astype(np.uint64)
    found = keys.copy()

    _store.sort_packed(found, n_bits)

    assert (found == np.sort(keys)).all()
