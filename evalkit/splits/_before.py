"""What leaves before the cut: repeats, little relevance, small users and items."""

# mypy: disable-error-code="no-untyped-def"

import numpy as np

from evalkit.config import Core, SplitSection
from evalkit.kernels import kernel
from evalkit.kernels.arrays import Flags, Int32s
from evalkit.splits._filters import one_of_each_pair
from evalkit.splits._log import LogFeed
from evalkit.splits._memory import OF_CODES, SplitBudget
from evalkit.splits._rule import least_as_read


def leave_before(feed: LogFeed, rule: SplitSection, budget: SplitBudget) -> tuple[int, int]:
    """Drop what repeats, a threshold and small users and items leave out.

    Where the rows do not fit into the room, repeats are looked for among some users at a time,
    and each round of the core reads the log again.

    Returns:
        Rounds of the core, and users of whose repeats row order says which one stays.
    """
    n_hanging = 0
    if rule.dedupe != "none":
        kept, n_hanging = _without_repeats(feed, rule, rule.dedupe, budget)
        feed.leave(kept, "dedupe")
    if rule.threshold is not None and rule.threshold_in == "all" and least_as_read(rule) is None:
        feed.leave(_of_relevance(feed, rule.threshold), "threshold")
    if rule.core is None:
        return 0, n_hanging
    counted = None
    if rule.core.count == "pairs" and rule.dedupe == "none":
        counted, _ = _without_repeats(feed, rule, "any", budget)
    return _keep_core(feed, rule, rule.core, counted, budget), n_hanging


def _of_relevance(feed: LogFeed, least: float) -> Flags:
    """Which rows of the log are worth that much."""
    found = [rows.spread(rows.relevance >= least) for rows in feed.batches()]
    return np.concatenate([np.zeros(0, dtype=np.bool_), *found])


def _without_repeats(
    feed: LogFeed, rule: SplitSection, which: str, budget: SplitBudget
) -> tuple[Flags, int]:
    """Which rows of the log stay where a user has each item once; and as `one_of_each_pair`."""
    kept, n_hanging = np.zeros(0, dtype=np.bool_), 0
    for low, high in budget.shares(feed, rule):
        rows = feed.gather(low, high)
        if not kept.size:
            kept = np.zeros(feed.n_rows, dtype=np.bool_)
        stay, n = one_of_each_pair(rows, which)
        kept |= rows.spread(stay)
        n_hanging += n
    return kept, n_hanging


def _keep_core(
    feed: LogFeed, rule: SplitSection, core: Core, counted: Flags | None, budget: SplitBudget
) -> int:
    """Drop rows of small users and items, once or to the end; the rounds that it took.

    Args:
        counted: rows of the log that count for their user and item; None: all do.
    """

    in_memory = None
    if budget.holds(feed, rule, OF_CODES):
        in_memory = list(feed.codes_alone())
    gone = [np.zeros(n, dtype=np.bool_) for n in (feed.n_users, feed.n_items)]

    def count() -> list[Int32s]:
        found = [np.zeros(each.size, dtype=np.int32) for each in gone]
        left = gone if any(map(np.any, gone)) else [each[:0] for each in gone]
        for rows in in_memory or feed.codes_alone():
            here = slice(None) if counted is None else rows.own(counted)
            count_living(rows.users[here], rows.items[here], *left, *found)
        return found

    sides = [(core.user, 0), (0, core.item)]
    if core.rounds is None:
        sides = [(core.user, core.item)]
    elif core.first == "item":
        sides.reverse()
    counts, n_rounds, is_changed = count(), 0, True
    while is_changed and (core.rounds is None or n_rounds < core.rounds):
        n_rounds += 1
        is_changed = False
        for least in sides:
            small = [(n > 0) & (n < bound) for n, bound in zip(counts, least, strict=True)]
            if any(map(np.any, small)):
                is_changed = True
                gone = [one | other for one, other in zip(gone, small, strict=True)]
                counts = count()
    if in_memory is not None and budget.limit is None:
        feed.remember(in_memory)
    if not any(map(np.any, gone)):
        return n_rounds
    kept = [
        rows.spread(~(gone[0][rows.users] | gone[1][rows.items]))
        for rows in in_memory or feed.codes_alone()
    ]
    feed.leave(np.concatenate([np.zeros(0, dtype=np.bool_), *kept]), "core")
    return n_rounds


@kernel(allocates=False)
def count_living(users, items, gone_users, gone_items, of_users, of_items):
    """Rows of each user and item, of those that are not gone; empty: none is."""
    if gone_users.size == 0:
        for row in range(users.size):
            of_users[users[row]] += 1
            of_items[items[row]] += 1
        return
    for row in range(users.size):
        user, item = users[row], items[row]
        if not (gone_users[user] or gone_items[item]):
            of_users[user] += 1
            of_items[item] += 1
