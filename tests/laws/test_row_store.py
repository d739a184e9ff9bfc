"""How rows are sorted, against NumPy's sort."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalkit.kinds.pointwise import store as _store


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


KEYS = st.one_of(st.integers(0, 20), st.integers(2**32 - 2, 2**32 + 2), st.integers(0, 2**64 - 1))


@given(st.lists(st.lists(KEYS, max_size=6), max_size=6), st.sampled_from([1, 4]))
def test_keys_come_back_whole_however_wide_batches_are(batches, n_parts):
    store = _store.Store({"key": np.uint64}, n_parts, 10)
    columns = [np.array(batch, dtype=np.uint64) for batch in batches]

    for column in columns:
        store.fill({"key": column}, _store.by_hash("key", n_parts))
    store.seal()
    parts = [store.part(part, ["key"])[0] for part in range(n_parts)]

    assert all(each.dtype == np.uint64 for each in parts)
    found = [key for part in parts for key in part.tolist()]
    assert sorted(found) == sorted(key for batch in batches for key in batch)


@given(
    st.lists(st.tuples(st.integers(0, 5), st.integers(0, 9), st.integers(0, 1)), min_size=1),
    st.sampled_from([np.float32, np.float64]),
)
def test_rows_are_sorted_by_group_score_and_label(rows, dtype):
    groups, steps, labels = np.array(rows).T
    values = ((steps - 4.5) * 1e30).astype(dtype)
    keys = ~_store.order_keys(values, np.zeros(2, dtype=np.int64))
    numbered = _store.number_groups(groups.astype(np.uint64))

    starts, found_keys, scores, found_labels = _store.sort_labels(
        numbered, keys, labels.astype(np.uint8)
    )

    order = np.lexsort([labels, -values, numbered.numbers])
    assert scores.tolist() == values[order].astype(float).tolist()
    assert found_keys.tolist() == keys[order].tolist()
    assert found_labels.tolist() == labels[order].tolist()
    assert starts.tolist() == [0, *np.cumsum(np.bincount(numbered.numbers)).tolist()]
