"""What stands beside the lists of the users of a share."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from threading import Lock
from typing import NamedTuple

import numpy as np
import polars as pl

from evalkit import metrics
from evalkit.config import ItemsTable, Policies
from evalkit.item_lists._codes import ItemCodes
from evalkit.item_lists._facts import ItemFacts
from evalkit.item_lists._owned import OwnHistory, relevant_of
from evalkit.item_lists._popularity import Popularity, PopularityCounter
from evalkit.item_lists._table import ItemTable, read_items
from evalkit.kernels import kernel
from evalkit.kernels.arrays import Flags, Floats, Ints
from evalkit.metrics import ItemContext, Items, Lists, Request, Values
from evalkit.sources import Table, reading
from evalkit.sources.ids import ITEM, ITEM_KEY, USER_KEY, IdPlan, as_keys
from evalkit.truth import KnownIds, Train, Truth

OF_USERS = frozenset({"history", "relevant", "reference", "earlier", "users"})
NAMED = 3  # items that a warning names
UNKNOWN, WITHOUT_GENRE, ZERO_VECTOR = 1, 2, 4  # marks of items


@dataclass(slots=True)
class ListWork:
    """What metrics of lists ask for, and what holds for all users.

    Args:
        requests: those of lists.
        codes: of the items of all logs.
        popularity: of the training log, where somebody asks.
        table: of items, where there is one.
        first_rows: of each item in the training log, where somebody asks.
        of_rows: popularity counts rows of the training log, not users.
        ordered: the training log and its users, where the order of histories is asked for.
    """

    requests: tuple[Request, ...]
    codes: ItemCodes
    of_rows: bool = False
    popularity: Popularity | None = None
    table: ItemTable | None = None
    first_rows: Ints | None = None
    ordered: tuple[Table, IdPlan] | None = None
    needs: frozenset[str] = field(init=False)

    def __post_init__(self) -> None:
        self.needs = frozenset(need for each in self.requests for need in metrics.needs_of(each))

    @classmethod
    def of(
        cls,
        requests: Sequence[Request],
        plans: tuple[IdPlan, IdPlan],
        *,
        train: Table | None,
        items: tuple[Table, ItemsTable, Sequence[str]] | None,
        of_rows: bool = False,
    ) -> "ListWork":
        """The work that requests of lists ask for.

        Args:
            items: their table, its section of the config, and the names of its groups.
        """
        work = cls(tuple(requests), ItemCodes(plans[1]), of_rows)
        if items is not None:
            table, section, groups = items
            work.table = read_items(table, section, work.codes, groups, work.needs)
        if train is not None and any(
            dict(each.parameters).get("head") == "first" for each in requests
        ):
            work.first_rows = find_first_rows(train, work.codes)
        if train is not None and any(
            dict(each.parameters).get("history") == "weighted" for each in requests
        ):
            work.ordered = train, plans[0]
        return work

    def take_counts(self, train: pl.DataFrame, n_users: int) -> None:
        """Take what was counted of the training log elsewhere.

        Args:
            train: `item`, and how many `users` and `rows` have it.
            n_users: with a row.
        """
        codes = self.codes.codes_of_rows(train.select(self.codes.plan.select(ITEM_KEY)))
        users, rows = np.zeros((2, self.codes.n), dtype=np.int64)
        users[codes], rows[codes] = train["users"].to_numpy(), train["rows"].to_numpy()
        self.popularity = Popularity(rows if self.of_rows else users, rows, n_users)

    def popularity_counter(self) -> PopularityCounter | None:
        """What is shown the training log while it is read a first time, where somebody asks."""
        asks = self.popularity is None and self.needs & {"train", "history"}
        return PopularityCounter(self.codes, of_rows=self.of_rows) if asks else None

    @property
    def depth(self) -> int | None:
        """The deepest cutoff; None for whole lists."""
        return depth_of(self.requests)

    @property
    def depth_beside(self) -> int | None:
        """How many ranks of other lists are looked at."""
        if any(each.metric.name == "least_item_promoted" for each in self.requests):
            return None  # of these all ranks are
        others = [int(dict(each.parameters).get("ref_k", 0)) for each in self.requests]
        return None if self.depth is None else max(self.depth, *others)

    def context(self, truth: Truth, train: Train | None, targets: Flags | None) -> ItemContext:
        """What stands beside the lists of all users of a share, in the order of their codes.

        Of their train rows there are lists of some of them at a time alone: `Users.history`.
        """
        relevant = gains = None
        if "history" in self.needs and train is not None:
            self._meet(train.known_items)
        if "relevant" in self.needs:
            self._meet(truth.known_items)
            relevant, gains = relevant_of(truth, self.codes)
        in_order = None
        if self.ordered is not None:
            in_order = histories_in_order(*self.ordered, self.codes, truth)
        rows = None, relevant, gains, truth.threshold
        return ItemContext(self._items(), *rows, targets=targets, history_in_order=in_order)

    def measure(
        self,
        truth: Truth,
        train: Train | None,
        *,
        targets: Flags | None,
        reference: Lists | None,
        earlier: Mapping[str, tuple[Lists, ...]],
    ) -> "Measure":
        """What measures the users of a share.

        Args:
            targets: bool[n_users], who should have got a list.
            reference: lists of another model.
            earlier: of each model its own lists before, the last ones first.
        """
        context = self.context(truth, train, targets)._replace(reference=reference)
        history = None if train is None else OwnHistory(train.pairs, truth, self.codes)
        trained = np.zeros(truth.n_users, np.bool_) if history is None else history.has_rows
        users = Users(truth.pairs.n_relevant > 0, trained, history)
        facts = ItemFacts.of(context.items, self.codes.stable_hashes())
        return Measure(context, facts, earlier, users)

    def oddities(
        self, items: Items, lists: Lists, present: Flags
    ) -> tuple[dict[str, int], tuple[str, ...]]:
        """Rows and lists that metrics of lists say little of, and the first unknown items."""
        n = items.is_listed.size
        marks, met, counts = np.zeros(n, np.uint8), np.zeros(n, np.bool_), np.zeros(3, np.int64)
        marks[~items.is_listed] |= UNKNOWN
        if items.genres is not None:
            marks[items.is_listed & (np.diff(items.genres.starts) == 0)] |= WITHOUT_GENRE
        if items.vectors is not None:
            marks[items.vectors.norms == 0.0] |= ZERO_VECTOR
        if marks.any():
            count_odd(lists, marks, met, counts)
        strange = self.codes.ids().filter(pl.Series(met & ~items.is_listed)).cast(pl.String)
        short = lists.lengths[present] < max(each.cutoff or 0 for each in self.requests)
        found = {
            "listed_rows": int(lists.lengths.sum()),
            "lists": int(present.sum()),
            "short_lists": int(short.sum()),
            "unknown_items": int(counts[0]),
            "empty_genres": int(counts[1]),
            "zero_vectors": int(counts[2]),
        }
        return found, tuple(strange.sort().head(NAMED))

    def _meet(self, known: KnownIds | None) -> None:
        """Learn the items of a log whose ids are hashed."""
        if known is not None:
            keys = known.keys()
            self.codes.codes_of_rows(known.ids_of(keys).select(pl.Series(ITEM_KEY, keys), ITEM))

    def _items(self) -> Items:
        codes, n, table = self.codes, self.codes.n, self.table
        counts = self.popularity or Popularity()
        order = codes.places("item")
        text_order = codes.places("item-text") if "relevant" in self.needs else order
        room = n - counts.users.size
        return Items(
            is_listed=np.ones(n, dtype=np.bool_) if table is None else table.listed(n),
            has_table=table is not None,
            order=order,
            text_order=text_order,
            popularity=np.pad(counts.users, (0, room)),
            interactions=np.pad(counts.rows, (0, room)),
            n_train_users=counts.n_users,
            ages=np.full(n, np.nan) if table is None else table.ages_of(n),
            genres=None if table is None else table.genres_of(n),
            vectors=None if table is None else table.vectors_of(n),
            groups={} if table is None else table.groups_of(n),
            first_rows=of_all_items(self.first_rows, n),
        )


@kernel(allocates=False)
def count_odd(lists, marks, met, counts):  # type: ignore[no-untyped-def]
    """Count rows of marked items, by mark, and note the items that were met."""
    for user in range(lists.starts.size):
        for place in range(lists.starts[user], lists.starts[user] + lists.lengths[user]):
            mark = marks[lists.items[place]]
            if mark != 0:
                met[lists.items[place]] = True
                for bit in range(counts.size):
                    counts[bit] += (mark >> bit) & 1


def depth_of(requests: Sequence[Request]) -> int | None:
    """The deepest cutoff of requests of lists; None for whole lists."""
    cutoffs = [each.cutoff for each in requests]
    if any(map(metrics.closes_up, requests)):
        return None
    return None if None in cutoffs else max(each for each in cutoffs if each is not None)


def rows_of(lists: Lists, users: Ints) -> Lists:
    """The lists of some users."""
    return Lists(lists.starts[users], lists.lengths[users], lists.items)


def _if_any(lists: Lists | None, users: Ints) -> Lists | None:
    return None if lists is None else rows_of(lists, users)


class Users(NamedTuple):
    """Which users have a relevant item, and a train row: bool[n_users]; and their train rows."""

    relevant: Flags
    trained: Flags
    history: OwnHistory | None


class Measure:
    """Measures metrics of lists, a block of users at a time, from any thread.

    Args:
        context: what stands beside the lists of all users.
        facts: what is known of the items, whatever their codes.
        earlier: of each model its own lists before, the last ones first.
        users: what is known of them.
    """

    def __init__(
        self,
        context: ItemContext,
        facts: ItemFacts,
        earlier: Mapping[str, tuple[Lists, ...]],
        users: Users,
    ) -> None:
        self.context, self.facts, self.earlier, self.users = context, facts, earlier, users
        self._tables: dict[Request, tuple[object, ...]] = {}
        self._lock = Lock()

    def of_model(self, model: str) -> "Measure":
        """What measures one model."""
        if not self.earlier:
            return self
        earlier = self.earlier.get(model)
        if earlier is None:  # others have been there before
            other = next(iter(self.earlier.values()))[0]
            earlier = (other._replace(lengths=np.zeros_like(other.lengths)),)
        return Measure(self.context._replace(earlier=earlier), self.facts, {}, self.users)

    def who_counts(self, request: Request, policies: Policies, present: Flags) -> Flags:
        """bool[n_users]: who counts in a request, of which `present` have a list."""
        if policies.list_users == "list":
            if metrics.who_of(request)[1]:
                return present & self.users.relevant
            targets = self.context.targets
            return (
                present if targets is None or "users" not in metrics.needs_of(request) else targets
            )
        if policies.list_users == "all":
            return present & self.users.relevant & self.users.trained
        return self.users.relevant if policies.list_users == "relevant" else self.users.trained

    def values(
        self, request: Request, cutoffs: Ints, lists: Lists | None, counted: Flags, users: Ints
    ) -> Floats:
        """float64[n_users, n_cutoffs] of a block of users; NaN where left out.

        Args:
            lists: of all users; None where there are none.
            counted: of all users, whether they count.
        """
        rules = request.metric.lists
        out = np.full((users.size, cutoffs.size), np.nan)
        if rules is None or rules.family != "users" or lists is None or not users.size:
            return out
        mine = rows_of(lists, users)
        metrics.measure_lists(request, mine, cutoffs, self._tables_of(request, users), out)
        out[~counted[users]] = np.nan
        return out

    def n_sums(self, requests: Sequence[Request]) -> int:
        """How many numbers a user adds to the sums of some requests."""
        return sum(metrics.n_sums_of(each, self.context) for each in requests)

    def sums(
        self, requests: Sequence[Request], lists: Lists, counted: Flags, users: Ints
    ) -> Floats:
        """float64[n_users, n_sums], what some users add to the sums of requests; NaN without.

        Args:
            lists: of all users.
            counted: bool[n_users], who counts.
        """
        mine, found = rows_of(lists, users), []
        for request in requests:
            out = np.full((users.size, 1, metrics.n_sums_of(request, self.context)), np.nan)
            cutoffs = np.array([request.kernel_cutoff])
            metrics.measure_lists(request, mine, cutoffs, self._tables_of(request, users), out)
            found.append(out[:, 0])
        values = np.concatenate(found, axis=1)
        values[~counted[users]] = np.nan
        return values

    def _tables_of(self, request: Request, users: Ints) -> tuple[object, ...]:
        """What the kernel takes of `ItemContext`; made once where it is the same for all users."""
        pick: Callable[..., tuple[object, ...]] | None = request.metric.tables
        if pick is None:
            return ()
        values: Values = dict(request.parameters)
        if OF_USERS & set(metrics.needs_of(request)):
            context = self.of_users(users)
            if "history" in metrics.needs_of(request) and self.users.history is not None:
                context = context._replace(history=self.users.history.of(users))
            return tuple(pick(values, context))
        with self._lock:
            if request not in self._tables:
                self._tables[request] = tuple(pick(values, self.context))
            return self._tables[request]

    def of_users(self, users: Ints) -> ItemContext:
        """What stands beside the lists of some users, but for their train rows."""
        whole = self.context
        return whole._replace(
            history_in_order=_if_any(whole.history_in_order, users),
            relevant=_if_any(whole.relevant, users),
            reference=_if_any(whole.reference, users),
            earlier=tuple(rows_of(each, users) for each in whole.earlier),
            targets=None if whole.targets is None else whole.targets[users],
        )


BATCH_ROWS = 1 << 18


def find_first_rows(table: Table, items: ItemCodes) -> Ints:
    """int64[n_items]: the number of each item's first row; rows have numbers as they stand there.

    An item that the log lacks has the number behind the last.
    """
    first, n_rows = np.empty(0, dtype=np.int64), 0
    with reading(table):
        for rows in table.stream(items.plan.select(ITEM_KEY), most=BATCH_ROWS):
            known = rows.drop_nulls(ITEM_KEY)
            codes = items.codes_of_rows(known)
            nowhere = np.iinfo(np.int64).max
            first = np.pad(first, (0, items.n - first.size), constant_values=nowhere)
            np.minimum.at(first, codes, n_rows + np.arange(codes.size))
            n_rows += codes.size
    return np.minimum(first, n_rows)


def of_all_items(first_rows: Ints | None, n: int) -> Ints | None:
    """First rows of all items, also of those that were met after train, which lacks them."""
    if first_rows is None:
        return None
    nowhere = int(first_rows.max(initial=0)) + 1
    return np.pad(first_rows, (0, n - first_rows.size), constant_values=nowhere)


def histories_in_order(table: Table, users: IdPlan, items: ItemCodes, truth: Truth) -> Lists:
    """The items of each user of the truth's training rows, each by its first row."""
    owners, codes = [np.empty(0, dtype=np.int64)], [np.empty(0, dtype=np.int32)]
    with reading(table):
        columns = [users.key().alias(USER_KEY), *items.plan.select(ITEM_KEY)]
        for rows in table.stream(columns, most=BATCH_ROWS):
            known = rows.drop_nulls([USER_KEY, ITEM_KEY])
            own = truth.codes_of(as_keys(known[USER_KEY]))
            owners.append(own[own >= 0])
            codes.append(items.codes_of_rows(known)[own >= 0])
    pairs = pl.DataFrame({"user": np.concatenate(owners), "item": np.concatenate(codes)})
    ordered = pairs.unique(maintain_order=True).sort("user", maintain_order=True)
    lengths = np.bincount(ordered["user"].to_numpy(), minlength=truth.n_users)
    return Lists(np.cumsum(lengths) - lengths, lengths, ordered["item"].to_numpy())
