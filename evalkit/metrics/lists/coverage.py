# mypy: disable-error-code="no-untyped-call, no-untyped-def"
"""Coverage: how many of the items are shown, and of the users are shown anything."""

import math

import numpy as np

from evalkit.metrics import NO_CUTOFF, Ends, choice, kernel, list_metric, number

FEW = 64  # users, for whom a product over them is more exact than one over counts

OPEN = ("_open", "_one")  # ends of the names of catalogues that what is shown can pass

CATALOGUE = choice(
    "catalogue",
    {
        "items": "the table of items",
        "items_open": "the table of items; shown ones outside it count too, so that it can pass 1",
        "items_and_one": "the table of items, and one more; all that is shown counts",
        "items_known": "the table of items, and one more; items outside it take no rank, and the "
        "next one moves up",
        "train": "the items that train has",
        "train_open": "the items that train has; shown ones outside it count too",
    },
    doc="The items that may be covered.",
)
SCALE = choice(
    "scale",
    {"share": "a share of all", "percent": "in percent", "count": "how many"},
    doc="The unit.",
)


def needs_of_catalogue(values):
    """What the choice of a catalogue needs."""
    return ("train",) if str(values["catalogue"]).startswith("train") else ("items",)


def ends_of_coverage(shown, items, values):
    """All items of the catalogue, and an error of one item.

    The jackknife sees items that one list alone shows. Where nearly all are shown there may be
    none by chance; other users would still miss an item or two.
    """
    catalogue = str(values["catalogue"])
    _, n_items = _catalogue(items, catalogue)
    if n_items == 0 or shown.n_users == 0:
        return Ends()
    at_users = int(values.get("at_users", 0)) or shown.n_users
    above, below = _unit(values, n_items)
    error = math.sqrt(min(1.0, at_users / shown.n_users)) / below * above
    most = math.inf if catalogue.endswith(OPEN) else n_items / below * above
    return Ends(error, most)


def _catalogue(items, catalogue):
    own = items.popularity > 0 if catalogue.startswith("train") else items.is_listed
    return own, int(own.sum()) + (catalogue in ("items_and_one", "items_known"))


def _unit(values, n_items):
    """What a number of items is multiplied with, and divided by."""
    scale = str(values["scale"])
    return 100.0 if scale == "percent" else 1.0, 1.0 if scale == "count" else float(n_items)


def _at(counts, n_users, m):
    """Items that m users drawn of all are shown in the mean; what one list more of each adds."""
    each, places = np.unique(counts, return_inverse=True)
    times = np.bincount(places, minlength=each.size)
    covered = math.fsum(((1.0 - _odds(each, n_users, m)) * times).tolist())
    less_one = _odds(each, n_users - 1, m - 1) * m / (n_users - m) * (n_users - 1) / n_users
    return covered, less_one[places]


def _odds(counts, n_users, m):
    """C(n_users - c, m) / C(n_users, m): the odds that m drawn users are none of these c."""
    if m <= FEW:
        drawn = np.arange(m, dtype=np.float64)
        return np.prod(
            np.maximum(n_users - counts[:, None] - drawn, 0.0) / (n_users - drawn), axis=1
        )
    n = np.arange(int(counts.max(initial=0)), dtype=np.float64)
    so_far = np.cumprod(np.maximum(n_users - m - n, 0.0) / np.maximum(n_users - n, 1.0))
    return np.concatenate([[1.0], so_far])[counts]


@list_metric(
    name="item_coverage",
    aliases=("catalog_coverage", "aggregate_diversity(scale='count')"),
    summary="Share of the items that at least one list shows; it grows with the number of users.",
    formula="items that a list shows / items of the table",
    latex=r"\frac{|\bigcup_u L_u|}{|I|}",
    source="Herlocker et al. 2004, Evaluating collaborative filtering, p. 40; Ge et al. 2010, "
    "Beyond accuracy, p. 258; Adomavicius and Kwon 2012, Improving aggregate diversity, p. 898",
    bounds=(0.0, math.inf),
    undefined="without an item; with fewer users than `at_users`",
    parameters=(
        CATALOGUE,
        SCALE,
        number(
            "at_users",
            0.0,
            above=-1.0,
            is_whole=True,
            tried=2.0,
            doc="The mean over all draws of so many users; 0 takes all users.",
        ),
        number(
            "decimals", 17.0, above=-1.0, below=18.0, is_whole=True, doc="Decimals that are kept."
        ),
    ),
    family="counts",
    needs=needs_of_catalogue,
    ends=ends_of_coverage,
)
def item_coverage(shown, items, values):
    """Items that lists show over those of the catalogue; its slope is that of the jackknife."""
    catalogue = str(values["catalogue"])
    own, n_items = _catalogue(items, catalogue)
    slopes = np.zeros(shown.lists.size)
    n_users = shown.n_users
    at_users = int(values.get("at_users", 0)) or n_users
    if n_items == 0 or at_users > n_users or n_users == 0:
        return np.nan, slopes
    counted = (shown.lists > 0) & (own | catalogue.endswith(OPEN))
    counts = shown.lists[counted]
    above, below = _unit(values, n_items)
    covered, slopes[counted] = float(counts.size), counts == 1
    if at_users < n_users:
        covered, slopes[counted] = _at(counts, n_users, at_users)
    number = covered / below * above
    return round(number, int(values.get("decimals", 17))), slopes / below * above


@list_metric(
    name="prediction_coverage",
    summary="Share of the items that the model can show at all: by whole lists, without a cutoff.",
    formula="items that a whole list shows / items of the table",
    latex=r"\frac{|\bigcup_u L_u|}{|I|}",
    source="Herlocker et al. 2004, Evaluating collaborative filtering recommender systems, p. 40",
    bounds=(0.0, math.inf),
    undefined="without an item",
    cutoff="never",
    parameters=(CATALOGUE, SCALE),
    family="counts",
    needs=needs_of_catalogue,
    ends=ends_of_coverage,
)
def prediction_coverage(shown, items, values):
    """Items that whole lists show, over all there are."""
    return item_coverage.function(shown, items, values)


ANY = 0
FULL = choice(
    "full",
    {"any": "at least one item", "k": "as many items as the cutoff"},
    doc="What a user must be shown to be covered.",
)


@kernel(allocates=False)
def is_covered(within, cutoff, full):
    """Whether a list of so many items covers its user."""
    return within > 0 and (full == ANY or cutoff == NO_CUTOFF or within >= cutoff)


@list_metric(
    name="user_coverage",
    aliases=("covered_users",),
    summary="Share of the users who should have got a list that are shown anything.",
    formula="users with a shown item / users of the users' table, else of the truth",
    latex=r"\frac{|\{u : n_u > 0\}|}{|U|}",
    source="Ge et al. 2010, Beyond accuracy: evaluating recommender systems by coverage and "
    "serendipity, p. 258",
    bounds=(0.0, 1.0),
    undefined="for a user who should not have got a list",
    parameters=(FULL,),
    needs=("users",),
)
@kernel(allocates=False)
def user_coverage(lists, within, cutoffs, full, out):
    """1 for a user who is shown enough, 0 for one who is not."""
    for user in range(out.shape[0]):
        for column in range(out.shape[1]):
            out[user, column] = is_covered(within[user, column], cutoffs[column], full)


@list_metric(
    name="user_count",
    summary="How many users are shown anything.",
    formula="users with a shown item",
    latex=r"|\{u : n_u > 0\}|",
    source="Ge et al. 2010, Beyond accuracy: evaluating recommender systems by coverage and "
    "serendipity, p. 258",
    bounds=(0.0, math.inf),
    undefined="never",
    parameters=(FULL,),
    family="sums",
    n_sums=1,
    by=lambda values, context, sums: sums[0],
)
@kernel(allocates=False)
def user_count(lists, within, cutoffs, full, out):
    """1 for a user who is shown enough."""
    for user in range(out.shape[0]):
        for column in range(out.shape[1]):
            out[user, column, 0] = is_covered(within[user, column], cutoffs[column], full)
