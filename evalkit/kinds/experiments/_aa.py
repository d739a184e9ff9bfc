"""Units split without an effect, by a hash, as often as somebody asks."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from evalkit.kernels import kernel
from evalkit.sources.ids import mix
from evalkit.statistics.independent import Contrast

from ._asked import ExperimentRequest
from ._measuring import measure_all
from ._units import Units


@kernel(allocates=False)
def split_by_hash(keys, seed, limit, arms):  # type: ignore[no-untyped-def]
    """Whether each unit is in the second half, by a hash of its key and a seed."""
    for row in range(keys.size):
        arms[row] = np.int32(mix(keys[row] ^ mix(seed)) >= limit)


def splits_of(
    units: Units, asked: ExperimentRequest, n_splits: int
) -> Iterator[tuple[str, list[Contrast]]]:
    """Every metric that is tested, with the contrast of each split."""
    first, second = (asked.variants[name] for name in asked.names[:2])
    limit = np.uint64(min((1 << 64) - 1, int((1 << 64) * (first / (first + second)))))
    two = {name: asked.variants[name] for name in asked.names[:2]}
    alone = replace(asked.statistics, baseline=asked.names[0])
    pair = replace(asked, variants=two, statistics=alone, segments={})
    found: dict[str, list[Contrast]] = {}
    arms = np.empty(units.n, dtype=np.int32)
    rules = asked.statistics.rules()
    for seed in range(n_splits):
        split_by_hash(units.keys, np.uint64(seed + 1), limit, arms)
        split = replace(units, names=pair.names, variants=arms.copy(), triggered=None, days={})
        for numbers in measure_all(split, pair):
            measured = numbers.by_segment["", ""]
            if measured.groups:
                groups = measured.groups
                contrast = Contrast(groups[0], groups[1], rules, measured.adjustment)
                found.setdefault(numbers.measure.label, []).append(contrast)
    yield from found.items()
