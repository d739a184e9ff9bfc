"""What metrics of lists are given: lists, what stands beside them, how often items are shown.

A metric of lists is of one of three families, by what its number is made of:

- `users`: the mean of a value of each user. Its kernel is
  `f(lists, within, cutoffs, *tables, *parameters, out)`; it fills `out` float64[n_users, n_cutoffs]
  and gives NaN where a user has no value. `within` int64[n_users, n_cutoffs]: how many items of
  the user's list each cutoff lets in; `tables`: what the declaration's function of that name picks
  from `ItemContext`. Users without a list are left out by whoever calls it.
- `sums`: a smooth function of sums over users. Its kernel is the same, but `out` is
  float64[n_users, n_cutoffs, n_sums]; `by(values, beside, sums)` makes the number of the sums of
  one cutoff, which are floats, or complex where the derivative is taken. `n_sums(values, beside)`
  says how many there are.
- `counts`: a function of how often each item is shown. It is plain NumPy,
  `f(shown, items, values) -> (number, slopes)`, with `slopes` float64[n_items], the derivative by
  what `weighing` says, by the parameters, that a row adds to its item: 1 (`lists`), the attention
  of its rank (`attention`), 1 / sqrt(length of its list) (`length`), or 1 / that length (`share`).
  Of `gain` slopes are float64[n_items, 2], by rows and by their gains. Where an item that few lists
  show bends it, the slope is what one list less takes away.
- `means`: a function of one number for each group of a segmentation: plain Python,
  `f(means, values) -> (number, slopes)`, over the means of another metric in the segments that
  `by` names.

Codes of items follow no order that a number may depend on; names of genres and of groups are in
order.
"""

import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from evalkit.kernels.logarithm import log2_of

from ._parameters import NO_CUTOFF, Value, Values, choice, number

if TYPE_CHECKING:
    from numpy import bool_, float64, int32, int64, uint64
    from numpy.typing import NDArray

Family = Literal["users", "sums", "counts", "means"]
Need = Literal[
    "train",  # how many users have each item: `Items.popularity`
    "history",  # the items of each user's own train rows
    "relevant",  # the right answers
    "items",  # the table of items: which there are
    "genres",
    "vector",
    "published",
    "reference",  # lists of another model
    "earlier",  # the model's own lists before
    "users",  # who should have got a list
    "by",  # the column of the items' table that the parameter `by` names
]


class Lists(NamedTuple):
    """Items of users, one ragged row a user: `items[starts[u] : starts[u] + lengths[u]]`.

    `starts` int64[n_users]; `lengths` int64[n_users]; `items` int32, codes of `Items`. Of rankings
    they stand in order of rank, cut behind the deepest cutoff; of a history or of right answers
    each item once, in order of code.
    """

    starts: "NDArray[int64]"
    lengths: "NDArray[int64]"
    items: "NDArray[int32]"


class Genres(NamedTuple):
    """Genres of items, one ragged row an item: `codes[starts[i] : starts[i + 1]]`, ascending.

    `starts` int64[n_items + 1]; `codes` int32; `names` in order, the place is the code; `bits`
    uint64[n_items, words], the same as sets.
    """

    starts: "NDArray[int64]"
    codes: "NDArray[int32]"
    names: tuple[str, ...]
    bits: "NDArray[uint64]"


class Groups(NamedTuple):
    """Groups of items by one column: `codes` int32[n_items], -1 for none; `names` in order."""

    codes: "NDArray[int32]"
    names: tuple[str, ...]


class Vectors(NamedTuple):
    """Vectors of items.

    `rows` float32 or float64[n_items, dimensions], as the table has them; `norms` float64[n_items],
    0 for a vector of zeros, -1 for an item without a vector.
    """

    rows: "NDArray[Any]"
    norms: "NDArray[float64]"


class Items(NamedTuple):
    """All items that the table of items, train, lists or right answers name; the place is the code.

    `is_listed` bool[n_items]: the table of items has it (all, without such a table); `order`
    int64[n_items]: its place when ids are sorted (numbers as numbers, texts as texts), `text_order`
    the same of ids as text; `popularity` int64[n_items]: distinct users of train; `interactions`
    int64[n_items]: rows of train; `n_train_users`; `ages` float64[n_items]: `now` minus published,
    in days, NaN without a date; `genres`, `vectors`: None where nothing needs them; `groups`: by
    column; `first_rows`: place of its first row in train, where rows have an order.
    """

    is_listed: "NDArray[bool_]"
    has_table: bool
    order: "NDArray[int64]"
    text_order: "NDArray[int64]"
    popularity: "NDArray[int64]"
    interactions: "NDArray[int64]"
    n_train_users: int
    ages: "NDArray[float64]"
    genres: Genres | None
    vectors: Vectors | None
    groups: Mapping[str, Groups]
    first_rows: "NDArray[int64] | None" = None


class ItemContext(NamedTuple):
    """What stands beside the lists of a block of users, user by user; None where nothing needs it.

    `history`: items of their own train rows, and `history_in_order` by their first rows there,
    where the parameter `history` is 'weighted'; `relevant`: their right answers; `gains` float64,
    beside `relevant.items`; `threshold`: from which these are, 1 without one; `reference`: lists of
    another model; `earlier`: lists of the model itself, the last ones first; `targets`
    bool[n_users]: who should have got a list.
    """

    items: Items
    history: Lists | None = None
    relevant: Lists | None = None
    gains: "NDArray[float64] | None" = None
    threshold: float = 1.0
    reference: Lists | None = None
    earlier: tuple[Lists, ...] = ()
    targets: "NDArray[bool_] | None" = None
    history_in_order: Lists | None = None


class Shown(NamedTuple):
    """How often the first k ranks of all lists show each item.

    `lists` int64[n_items]: lists that show it; `exposure` float64[n_items]: sum of the attention of
    all rows that do; `by_length` float64[n_items]: sum of 1 / sqrt(length of the list) over the
    lists; `by_share`: of 1 / length; `rows`, `gains`: the rows that do, and the sum of what their
    relevance is worth; `n_users`: with a list; `cutoff`: k, or `NO_CUTOFF`; None
    where nothing needs it; `n_empty`: lists with nothing in them.
    """

    lists: "NDArray[int64]"
    exposure: "NDArray[float64]"
    by_length: "NDArray[float64]"
    n_users: int
    by_share: "NDArray[float64] | None" = None
    cutoff: int = NO_CUTOFF
    n_empty: int = 0
    rows: "NDArray[int64] | None" = None
    gains: "NDArray[float64] | None" = None


class Ends(NamedTuple):
    """What is known of a number of all lists, and of its standard error, beforehand.

    `error`: there is none below; `most`, `least`: what the number cannot pass.
    """

    error: float = 0.0
    most: float = math.inf
    least: float = -math.inf


Needs = Callable[[Values], "tuple[Need, ...]"]
Weighing = Literal["lists", "attention", "length", "share", "gain"]

ATTENTION = choice(
    "attention",
    {"log2": "1 / log2(1 + rank)", "geometric": "patience ^ (rank - 1)", "flat": "1 at every rank"},
    doc="How much of a user's attention a rank gets.",
)
PATIENCE = number(
    "patience", 0.85, above=0.0, below=1.0, doc="Of 'geometric': who looks one rank further."
)


def attention(values: Values, depth: int) -> "NDArray[float64]":
    """The attention of ranks 1 to `depth`, by the parameters `ATTENTION` and `PATIENCE`."""
    import numpy as np

    ranks = np.arange(1, depth + 1, dtype=np.float64)
    if values["attention"] == "log2":
        return np.asarray(1.0 / log2_of(1.0 + ranks))
    if values["attention"] == "flat":
        return np.ones(depth)
    return np.asarray(float(values["patience"]) ** (ranks - 1.0))


WORTH = choice(
    "gain",
    {
        "binary": "1",
        "linear": "its relevance",
        "exp2_shifted": "2^(relevance - threshold + 1) - 1; without a threshold, it is 1",
    },
    doc="What a relevant item is worth; others are worth 0.",
)


def worth(gain: str, relevances: "NDArray[float64]", threshold: float) -> "NDArray[float64]":
    """What relevant items are worth, by the parameter `WORTH`."""
    import numpy as np

    if gain == "linear":
        return relevances
    if gain == "binary":
        return np.ones(relevances.size)
    return np.asarray(np.exp2(relevances - threshold + 1.0) - 1.0)


class OfItems:
    """What a function of parameters and items gives, kept for the last items: blocks share it."""

    def __init__(self, function: Callable[[Values, Items], Any]) -> None:
        self.function = function
        self._kept: tuple[Items | None, dict[tuple[tuple[str, Value], ...], Any]] = (None, {})

    def __call__(self, values: Values, items: Items) -> Any:
        last, found = self._kept
        if last is not items:
            self._kept = (items, found := {})
        key = tuple(values.items())
        if key not in found:
            found[key] = self.function(values, items)
        return found[key]


of_items = OfItems


class ListRules(NamedTuple):
    """How the number of a metric of lists is made.

    `needs`: by the parameters, what must stand beside the lists; `by`, `n_sums`: of the family
    `sums`; `ends`: of the family `counts`, None where nothing is known; `most`: of other families,
    what no value passes, by the parameters and the cutoff, where that is less than the bounds say.
    """

    family: Family
    needs: Needs
    by: Callable[[Values, ItemContext, Any], Any] | None
    weighing: Callable[[Values], Weighing]
    n_sums: Callable[[Values, ItemContext], int] | None = None
    ends: Callable[[Shown, Items, Values], Ends] | None = None
    most: Callable[[Values, float], float] | None = None
