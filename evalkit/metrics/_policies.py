"""Policies of a run that one metric alone may follow another value of: `RR(ties='input')@10`."""

from ._parameters import choice, number

TIES = choice(
    "ties",
    {
        "item": "the smaller item id first, by its type",
        "item-desc": "the larger item id first, by its type: 10 before 9",
        "item-text": "the smaller item id first, as text: '10' before '9'",
        "item-text-desc": "the larger item id first, as text: '9' before '10'",
        "input": "the row that stands first in the log",
        "numba": "as numba's argsort of the negated scores leaves the rows, sorted twice",
        "numba-reversed": "as numba's argsort of the scores, read backwards, leaves the rows",
        "expected": "none: the mean value over all orders",
        "mean-rank": "none: they share the mean of their ranks, rounded down, and a cutoff takes "
        "all of them or none",
        "last-rank": "none: they share the last of their ranks",
        "best": "the order with the largest value",
        "worst": "the order with the smallest value",
    },
    doc="The order of rows with equal scores.",
)
SCORE_TYPE = choice(
    "score_type",
    {"float64": "as given", "float32": "rounded to float32, so that scores 1e-9 apart are equal"},
    doc="The type in which scores are compared.",
)
DUPLICATES = choice(
    "duplicates",
    {
        "error": "an error",
        "best": "the best copy stays",
        "first": "the copy that stands first in the log stays",
        "last": "the copy that stands last in the log stays",
        "once": "copies keep their ranks, and the best one hits",
        "count": "copies keep their ranks, and each one hits",
        "multiply": "copies keep their ranks, and each one hits as often as there are copies; so "
        "often the item counts among the relevant ones",
    },
    doc="An item twice in a ranking.",
)
REL_SIZE = choice(
    "rel_size",
    {
        "items": "once, however often it is shown",
        "rows": "as often as the whole list shows it, at least once; of no effect where copies "
        "multiply",
    },
    doc="How often a relevant item counts among the relevant ones.",
)
UNJUDGED = choice(
    "unjudged",
    {
        "count": "is not relevant, and keeps its rank",
        "skip": "leaves the list once ties are broken, and ranks close up",
        "lowest": "may be relevant or not: the lowest value, over all judgements of those shown up "
        "to the cutoff",
        "highest": "the same, the highest value: no sampling makes the interval between narrower",
    },
    doc="An item of a list that nobody judged.",
)
POOLED = choice(
    "pooled",
    {
        "unjudged": "was pooled and never judged, as in trec_eval",
        "judged": "is judged, and not relevant",
    },
    doc="An item of the truth with a relevance below 0.",
)
SEEN = choice(
    "seen",
    {"all": "are missed", "shown": "do not exist"},
    doc="Relevant items that the whole list lacks.",
)
NONPOSITIVE_SCORES = choice(
    "nonpositive_scores",
    {"hit": "hits as any other", "miss": "a miss, though its item stays relevant"},
    doc="A relevant item whose score is 0 or below.",
)
MISSING_RANKING = choice(
    "missing_ranking",
    {
        "zero": "counts 0; undefined where lower is better",
        "skip": "is left out",
        "nan": "is undefined, and the mean with it",
    },
    doc="A user of the truth without a ranking.",
)
EMPTY_RANKING = choice(
    "empty_ranking",
    {
        "zero": "counts 0 where the metric has no value of it; undefined where lower is better",
        "skip": "is left out",
        "nan": "is undefined, and the mean with it",
    },
    doc="A user whose ranking is given as an empty list; one whose rows were all dropped is "
    "missing.",
)
NO_RELEVANT = choice(
    "no_relevant",
    {
        "skip": "is left out",
        "zero": "counts 0, or what gains below the threshold make of it; undefined where lower is "
        "better",
        "one": "counts 1, whatever gains below the threshold make of it",
        "nan": "is undefined, and the mean with it",
    },
    doc="A user without relevant items.",
)
ZEROS = choice(
    "zeros",
    {
        "count": "counts",
        "skip": "is left out; the mean of nobody is 0, undefined where lower is better",
        "survivors": "keeps it, but the mean leaves it out as `skip` does",
        "nan": "is undefined, and the mean with it",
    },
    doc="A user whose value is 0.",
)
LIST_USERS = choice(
    "list_users",
    {
        "list": "who has a list",
        "relevant": "who has a relevant item; a list that is missing is an empty one",
        "train": "who has a train row; a list that is missing is an empty one",
        "all": "who has a list, a relevant item and a train row",
    },
    doc="Who counts in metrics of lists.",
)
PROPENSITY = choice(
    "propensity",
    {
        "snips": "by 1 / propensity; recall, AP and DCG(per='relevant') over the sum of these",
        "ips": "by 1 / propensity; these three over the number of relevant items",
        "none": "as any other, as if the truth had no propensities",
    },
    doc="What a relevant item counts by, where [truth.columns] names a propensity.",
)
EXACT = 17  # decimals: more than a float64 below 1 has
ROUND_USERS = number(
    "round_users",
    EXACT,
    above=-1.0,
    below=EXACT + 1.0,
    is_whole=True,
    doc="Decimals that a user's value is rounded to; 17 rounds nothing.",
)
ROUND_MEAN = number(
    "round_mean",
    EXACT,
    above=-1.0,
    below=EXACT + 1.0,
    is_whole=True,
    doc="Decimals that a mean is rounded to; 17 rounds nothing.",
)

POLICIES = {
    each.name: each
    for each in (
        TIES,
        SCORE_TYPE,
        DUPLICATES,
        REL_SIZE,
        UNJUDGED,
        POOLED,
        SEEN,
        NONPOSITIVE_SCORES,
        MISSING_RANKING,
        EMPTY_RANKING,
        NO_RELEVANT,
        ZEROS,
        LIST_USERS,
        PROPENSITY,
        ROUND_USERS,
        ROUND_MEAN,
    )
}

BOUNDS = ("best", "worst")
TIED = ("expected", *BOUNDS)  # tie rules that are a closed form of a metric, not an order
