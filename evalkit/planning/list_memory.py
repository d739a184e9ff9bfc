"""What metrics of lists, and baselines that are made of train, take beside what every run takes."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

import polars as pl

from evalkit.planning._counts import count_rows
from evalkit.planning.memory import MemoryNeeds, Sizes, count_items
from evalkit.planning.survey import do_users_come_back
from evalkit.planning.tables import Tables
from evalkit.sources import Table, reading
from evalkit.sources.ids import ITEM, IdPlan

# -- of an item of any log: its key; a slot of the table of codes; what stands beside it
ITEM_CODE, ITEM_SLOT, ITEM_BESIDE = 24, 12, 90
COUNTER = 8
COUNTERS_AT_ONCE = 2  # those that a thread counts, and what they add up to
VALUE_COPIES = 3  # of what the table of items says: as read, by row, by code

HELD = 40 << 20  # rows of any log that were let go of, and that the allocator still has

# -- of the training log, while users of items are counted
PAIR, OWNER = 12, 240  # where the rows of a user lie apart, while they are put by user
OWNER_IN_ORDER = 32

# -- of a share of the users
SHOWN = 4  # a rank of a list
STRENGTH = 8  # of it, while it is counted from scores of rows that lie apart
WAITING = 112 << 20  # such rows, which are put into lists in the order of the log
HISTORY = 4  # a training row of a measured user, while a thread has lists of them
USERS_AT_ONCE = 1 << 15  # whose rows a thread has, at most
IN_ORDER = 40  # the same of all of them, while they are put in the order of the log
RELEVANT = 12  # a row of the truth
OF_USER = 16  # where a list, or a user's items, begin and end

# -- of a row of a list that is looked at whole: its columns, sorted and cleaned; while it waits
LISTED_ROW, COLLECTED_ROW = 245, 60
LISTS_TOGETHER, ROWS_TOGETHER = 1 << 12, 1 << 18  # looked at by a thread, if users stand together

# -- of integer ids in columns of lists whose users do not come back: less is on its way; of row
# -- groups at a time, a list's item or text beyond so many
LESS_OF_LISTS = 90 << 20
GROUPS, GROUP_ITEM, GROUP_TEXT, USUAL_ITEMS = 3.5, 16, 72, 1 << 20
# -- of texts whose users come back: the same, but no more than of every item; at most
GROUP_TEXT_BACK, FEW_BACK, TEXT_BACK, MOST_BACK = 380, 500_000, 20, 580 << 20

# -- of users whose lists are kept
SAMPLED = 50_000
SAMPLED_ROW = 30  # of them while they are copied
SUMS = 16  # numbers that a metric adds up, about

# -- of a baseline, whatever the shares: of train's rows, of items and of users, at first and then
COUNTED_ROW, LAID_ROW, MADE_TIME = 8, 12, 16
MADE_ITEM, MADE_USER = 100, 100
KEPT_ROW, KEPT_TIME, KEPT_ITEM, KEPT_USER = 4, 8, 40, 40
READ = 48 << 20  # rows of train on their way, which one thread looks at


@dataclass(frozen=True, slots=True)
class AskedOfLists:
    """What metrics of lists ask for.

    Args:
        depth: ranks of each list that are kept; 0 for whole lists.
        width: counters of each item, of each model and segment.
        n_gains: of each row of a list that is kept.
        n_numbers: numbers of all lists together; `n_sums`: those made of sums.
        has_train: users of each item are counted.
        has_history, has_relevant: items of the users' own training rows, or right ones, are asked.
        in_order: such rows are put in the order of the training log, too.
        has_pairs: a user's item counts once, however often the training log has it.
    """

    depth: int
    width: int
    n_gains: int
    n_numbers: int
    n_sums: int
    has_train: bool
    has_history: bool
    has_relevant: bool
    has_pairs: bool = True
    in_order: bool = False


def memory_of_lists(asked: AskedOfLists | None, sizes: Sizes, *, holds_all: bool) -> MemoryNeeds:
    """What metrics of lists take, of lists of so many users."""
    if asked is None:
        return MemoryNeeds()
    n, of_item = sizes.n_items, COUNTER * asked.width
    n_sampled = min(sizes.n_users, SAMPLED * (1.0 + sizes.n_segments))
    entries = n + min(n * sizes.n_segments, sizes.n_users * asked.depth * sizes.n_segments)
    gains = n_sampled * COUNTER * asked.depth * asked.n_gains
    of_user = SHOWN * asked.depth + 3 * COUNTER + COUNTER * SUMS * asked.n_sums
    sampled = gains + n_sampled * of_user
    moved = gains + n_sampled * asked.depth * SAMPLED_ROW
    influences = COUNTER * n_sampled * asked.n_numbers * (sizes.n_segments + 1)
    n_numbers = sizes.n_models + 3 * sizes.n_pairs
    codes = ITEM_SLOT * 2.0 ** math.ceil(math.log2(4 * max(1.0, n)))
    extra = ITEM_CODE + ITEM_BESIDE + 2 * sizes.text + VALUE_COPIES * sizes.extra
    fixed = HELD + codes + n * extra + WAITING * bool(sizes.n_apart)
    on_the_way = n * sizes.threads * (2 * COUNTER + COUNTERS_AT_ONCE * of_item) * bool(asked.width)
    rows_by_item = 2 * COUNTER * n * sizes.threads  # while they grow
    first, paired = (READ + codes + rows_by_item) * asked.has_train, 0.0  # codes grow, too
    if asked.has_train and sizes.in_order:
        first += OWNER_IN_ORDER * sizes.n_train_users
    elif asked.has_train:
        paired = PAIR * sizes.n_train * asked.has_pairs + OWNER * sizes.n_train_users
    lists = sizes.n_models if holds_all else 1
    share = sizes.n_users * lists * (SHOWN * asked.depth + OF_USER)
    share += sizes.n_users * sizes.n_apart * STRENGTH * asked.depth
    if asked.has_history:
        at_once = min(1.0, sizes.threads * USERS_AT_ONCE / max(1.0, sizes.n_users))
        share += HISTORY * sizes.n_train * at_once + OF_USER * sizes.n_users
        share += IN_ORDER * sizes.n_train * asked.in_order
    if asked.has_relevant:
        share += OF_USER * sizes.n_users
    counted = sizes.n_models * ((of_item + SHOWN) * entries * bool(asked.width) + sampled)
    last = moved + influences * n_numbers
    return MemoryNeeds(fixed, counted, first, paired, max(on_the_way, moved), last, share)


def less_of_lists(tables: Tables, users: IdPlan) -> int:
    """By how much less is on its way of rankings that are columns of lists, a row a user."""
    logs = [table for _, table in tables.rankings]
    are_whole = all(each.is_list and not do_users_come_back(each, users) for each in logs)
    return LESS_OF_LISTS * are_whole


def waiting_of_lists(tables: Tables, text: float, users: IdPlan | None = None) -> int:
    """What large row groups of lists take in any pass, beside what is on its way anyhow.

    Args:
        users: how they become keys; without it users of texts are taken to come back.
    """
    found = 0.0
    for table in tables.logs:
        if not table.is_list:
            continue
        n_items = count_rows(table)
        most = min(GROUPS * table.largest_group(), n_items)
        found = max(found, (GROUP_TEXT if text else GROUP_ITEM) * (most - USUAL_ITEMS))
        if text and most > FEW_BACK and (users is None or do_users_come_back(table, users)):
            back = min(MOST_BACK, GROUP_TEXT_BACK * (most - FEW_BACK), TEXT_BACK * n_items)
            found = max(found, back)
    return int(found)


class WholeLists(NamedTuple):
    """Bytes of lists that are looked at whole: held when all are read, and while they are read.

    Args:
        held, collected: of rows of all users, of a table whose users come back.
        looked_at: of rows of a few users at a time.
    """

    held: float = 0.0
    collected: float = 0.0
    looked_at: float = 0.0

    @classmethod
    def of(
        cls,
        listed: Iterable[tuple[Table, float]],
        users: IdPlan,
        text: float,
        threads: int,
        closes_up: bool,
    ) -> "WholeLists":
        """Of tables, which are read in turn, and their rows; read the users of each.

        Args:
            closes_up: ranks as given close up over seen items, so that all lists are held.
        """
        found, a_row = cls(), LISTED_ROW + 2.0 * text
        for table, n_rows in listed:
            if (closes_up and "rank" in table.columns) or do_users_come_back(table, users):
                own = cls(a_row * n_rows, (COLLECTED_ROW + text) * n_rows)
            else:
                n_lists = table.n_rows_hint() if table.is_list else None
                together = min(
                    ROWS_TOGETHER, LISTS_TOGETHER * n_rows / n_lists if n_lists else n_rows
                )
                own = cls(looked_at=a_row * threads * min(n_rows, together))
            found = cls(*map(max, found, own))
        return found


@dataclass(frozen=True, slots=True)
class MadeMemory:
    """Bytes that baselines take, whatever the shares: when all are there, and `first` above it."""

    kept: float = 0.0
    first: float = 0.0

    @classmethod
    def of(
        cls, tables: Tables, n_users: float, n_items: float, n_train: float, text: float
    ) -> "MadeMemory":
        """Of baselines for so many users, who have so many rows of train."""
        kept, first = 0.0, 0.0
        for made in (table.made for _, table in tables.rankings):
            if made is not None:
                rows = n_train * made.keeps
                extra = n_items * KEPT_ITEM + n_users * KEPT_USER
                times = MADE_TIME * made.with_times
                counted = rows * (COUNTED_ROW + times) + n_items * MADE_ITEM + n_users * MADE_USER
                laid = rows * (LAID_ROW + times) + extra
                own = rows * (KEPT_ROW + KEPT_TIME * made.with_times) + extra
                first = max(first, counted - own, laid - own)
                kept += own + text * (n_items + n_users)
        return cls(kept, first + (READ if kept else 0))


def count_listed_items(tables: Tables) -> float:
    """About how many items the logs have that metrics of lists or baselines look at."""
    given = [tables.items, tables.train, *(table for _, table in tables.rankings)]
    return count_items(tables, [each for each in given if each is not None and each.made is None])


def bytes_of_items(table: Table | None) -> float:
    """Bytes of what a row of the table of items says: vectors, genres, groups."""
    if table is None:
        return 0.0
    sizes, schema = [], table.frame.collect_schema()
    for name, dtype in schema.items():
        own = pl.col(name)
        if name == ITEM:
            continue
        if isinstance(dtype, pl.List):
            sizes.append(own.list.len().mean() * 16)
        elif isinstance(dtype, pl.Array):
            sizes.append(pl.lit(8.0 * dtype.size))
        elif dtype == pl.String:
            sizes.append(own.str.len_bytes().mean() + 16)
        else:
            sizes.append(pl.lit(8.0))
    if not sizes:
        return 0.0
    with reading(table):
        frame = table.frame.select(pl.sum_horizontal(sizes).alias("bytes")).head(1)
        return float(frame.collect(engine="streaming").item() or 0.0)
