"""How much there is of what takes memory, and the room it takes beside what every run takes."""

from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl

from evalkit.aggregate.user_values.blocks import users_a_block
from evalkit.planning.tables import Tables, plan_ids_of
from evalkit.sources import Table, reading
from evalkit.sources.ids import ITEM
from evalkit.statistics.exact import N_LIMBS, N_POWERS, N_WAITING

SUM = 8 * (N_LIMBS + N_POWERS + N_WAITING + 5)  # an exact sum, of a cell or of a segment
VALUE = 16  # a value of a user, kept and put in order
VALUES_ROW, SORTED_VALUE = 88, 23  # of a file of values: id, model and place; a value, sorted
PARTED_VALUE, MERGED_VALUE, MERGED = 9, 40, 1 << 16  # in files of models; of users while merged
BESIDE_VALUES = 40 << 20  # what measuring leaves, while they are sorted or merged
MEASURED = 8.5  # a value in a block, whose room may be a sixteenth more
ORDERED_ROW = 96  # key, cluster, weight and segments of a user whose values are put in order
COMPARED = 24  # a value of a user in a comparison of finished runs: as read, as array, joined
WEIGHED_ROW = 48  # weights, relevances times them by three kinds of gain, what is relevant


def weighed(tables: Tables) -> int:
    """Bytes of a truth row that propensities take."""
    return WEIGHED_ROW if tables.config.has_propensity else 0


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much of each there is.

    Args:
        n_users: with a list; `n_train_users`: with a training row.
        n_apart: models whose ranks are counted at one time, from scores of rows that lie apart.
        in_order: the rows of a training user lie together.
        text: bytes of an item's id.
        extra: bytes of a row of the table of items.
    """

    n_items: float
    n_users: float
    n_models: int
    n_pairs: int
    n_segments: int
    threads: int
    n_apart: int = 0
    n_train: int = 0
    n_train_users: float = 0.0
    in_order: bool = False
    text: float = 0.0
    extra: float = 0.0


@dataclass(frozen=True, slots=True)
class MemoryNeeds:
    """Bytes that metrics of lists take, or errors over users and items.

    Args:
        fixed: whatever the shares; `counted`: of what a share leaves behind, twice in passes.
        first: while nothing else is on its way (users of train are counted, pairs of users and
            items added up), and `paired` of it that a share holds its part of; `last`: above
            `fixed`, when all users have been measured.
        measured: above `fixed` and what a share holds, when no row is on its way.
        share: of all users together, which a share holds its part of.
    """

    fixed: float = 0.0
    counted: float = 0.0
    first: float = 0.0
    paired: float = 0.0
    measured: float = 0.0
    last: float = 0.0
    share: float = 0.0


def count_items(tables: Tables, logs: Sequence[Table]) -> float:
    """About how many items some of the logs have."""
    _, plan = plan_ids_of(tables, 1)
    frames = []
    for log in logs:
        items = log.frame.select(ITEM)
        items = items.explode(ITEM) if log.is_list else items
        frames.append(items.select(plan.key().alias("key")))
    with reading(logs[0]):
        counted = pl.concat(frames).select(pl.col("key").approx_n_unique())
        return 1.05 * float(counted.collect(engine="streaming").item())


def room_of_blocks(n_users: float, n_models: int, n_columns: int, threads: int) -> float:
    """Bytes of the values of models beside one another, of the users whom threads measure."""
    together = min(n_users, float(threads * users_a_block(int(n_users))))
    return together * n_models * n_columns * MEASURED


def room_of_ordered(n_models: int, n_users: float, n_ordered: int) -> float:
    """Bytes of the values of all users that are put in order: kept, put together and sorted."""
    return 3.0 * n_users * (ORDERED_ROW + VALUE * n_models * n_ordered) if n_ordered else 0.0


def room_of_values(
    n_models: int, n_users: float, text: float, n_kept: int, *, n_passes: int, together: bool
) -> float:
    """Bytes of the values of users that are written, while they are put in order.

    Args:
        together: all models are measured at one time; in one pass nothing is sorted or merged then.
    """
    if not n_kept:
        return 0.0
    rows = n_models * n_users
    ids, values = rows * (VALUES_ROW + 2 * text), rows * n_kept
    if n_passes > 1:
        return ids + values * SORTED_VALUE + BESIDE_VALUES
    if together:
        return ids + values * VALUE
    merged = n_models * min(n_users, MERGED) * n_kept
    return ids + values * PARTED_VALUE + merged * MERGED_VALUE + BESIDE_VALUES


def room_to_compare(n_rows: int, n_metrics: int, id_bytes: int, *, drawn: bool) -> int:
    """Bytes of the values of users while finished runs are compared.

    Args:
        n_rows: users of all models of all runs; `id_bytes`: of their ids.
        drawn: values are resampled or ranked.
    """
    return n_rows * COMPARED * (1 + n_metrics * (2 if drawn else 1)) + 3 * id_bytes
