"""Values of some users, of the metrics that numbers are combined of; loaded where one is."""

from collections.abc import Callable, Sequence

import numpy as np

from evalkit.aggregate.accumulators.kept import UserRows
from evalkit.aggregate.accumulators.shown import ShownSums
from evalkit.aggregate.sums import add_to
from evalkit.aggregate.user_values.blocks import UserValues, stack_columns
from evalkit.config import Config
from evalkit.inference.combined import key_of_combined, of_users
from evalkit.kernels.arrays import Floats, Ints
from evalkit.kinds.rankings.merge import RankingSums
from evalkit.metrics import Request


def add_combined(
    config: Config,
    measured: Sequence[Request],
    rows: UserRows,
    values_of: Callable[[Sequence[Request]], UserValues],
    sums: RankingSums,
    *,
    together: bool,
) -> None:
    """Keep the values of some users of one share, of models that are measured side by side.

    Args:
        values_of: what measures requests.
        together: models share their users.
    """
    parts = of_users(config, measured)
    users = values_of(parts)
    names = list(users.measure(np.empty(0, dtype=np.int64)))

    def values(chosen: Ints) -> dict[str, Floats]:
        if not parts:
            return {name: np.empty((chosen.size, 0)) for name in names}
        blocks = [users.measure(each) for each in users.blocks(chosen)]
        return {
            name: np.concatenate([stack_columns(users, each[name]) for each in blocks])
            for name in names
        }

    found = ShownSums.of_values(values, rows.keys, rows.segments)
    for name in [""] if together else names:  # one alone
        add_to(sums.shown, key_of_combined(name), found)
