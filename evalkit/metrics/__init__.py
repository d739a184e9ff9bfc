"""Metrics: one file each, in a folder for each kind, and the profiles of libraries.

In: the name of a metric with parameters and cutoff.
Out: its declaration and kernel, as one `Request`.
Open first: `rankings/ndcg.py`, then `_declare.py`.

A metric file, whole (`evalkit metrics` lists it, `evalkit explain` explains it, reports carry it):

    from evalkit.metrics import kernel, metric

    @metric(
        name="last_hit_rank",
        summary="Rank of the last relevant item that the ranking shows.",
        formula="rank of the last hit within the cutoff",
        latex=r"\\max \\{ i \\le k : h_i = 1 \\}",
        source="who, when, where, page",
        bounds=(1.0, math.inf),
        undefined="for a user without a hit within the cutoff",
        higher_is_better=False,
        monotone=False,
    )
    @kernel(allocates=False)
    def last_hit_rank(hits, relevant, lengths, cutoffs, out):
        for user in range(out.shape[0]):
            hit, end = hits.starts[user], hits.starts[user + 1]
            last = math.nan
            for column in range(cutoffs.size):
                while hit < end and hits.ranks[hit] <= cutoffs[column]:
                    last = float(hits.ranks[hit])
                    hit += 1
                out[user, column] = last

What a kernel is given:

- `hits`: `Hits(starts, ranks, gains, ideal)`, the relevant items that users' lists show, one
  ragged row a user from `starts[user]` to `starts[user + 1]`: `ranks` from 1, ascending; `gains`,
  relevance as logged; `ideal`, the same gains in descending order.
- `relevant`: `Relevant(starts, gains)`, all relevant items of the user, gains descending.
- `lengths` int64[n_users]: rows of the user's list, 0 for an empty one.
- `cutoffs` int64[n_cutoffs], ascending; `NO_CUTOFF`, the largest, stands last when it is asked for.
- then the parameters in declared order: a `choice` as the place of its value (0 is the first, the
  default), a `number` as a float;
- `out` float64[n_users, n_cutoffs], to be filled. NaN says that the value does not exist.

A kernel allocates nothing, knows no policy, reads `math.nan` rather than numpy, adds up in the same
order whichever cutoffs are asked, and gives the same value with the JIT off. Two hits may share a
rank, and a user may have more hits than relevant items: the policies allow both when asked to.
Numbers used again and again stand in a `ConstantTable`. A name that begins with `_` is no metric's
file.
"""

from evalkit.kernels import ConstantTable, kernel
from evalkit.kernels.logarithm import log2, log2_of, log_loss_of, minus_ln, minus_ln_of_rest

from ._combined import combine
from ._declare import (
    SAYS_OF_WHAT,
    TARGETS,
    Example,
    Hits,
    Metric,
    Relevant,
    Request,
    TiedHits,
    View,
    label_metric,
    list_metric,
    metric,
    of_kernels,
    rating_metric,
    shifted,
    spell_column,
)
from ._declared import (
    KINDS,
    OF_EXPERIMENTS,
    RANKED_COUNTS,
    Complaints,
    CountWords,
    Declaration,
    RowFault,
    Section,
    declared,
    folders,
    of_folder,
    other_kinds,
)
from ._explain import describe, explain, warm_metrics
from ._expression import parse_metrics, unknown_metric
from ._kinds import has_user_values, is_drawn, is_plain_mean, over, policies_of_kind, weighting
from ._lists import (
    ATTENTION,
    PATIENCE,
    WORTH,
    Ends,
    Genres,
    Groups,
    ItemContext,
    Items,
    Lists,
    Shown,
    Vectors,
    attention,
    of_items,
    worth,
)
from ._measuring import (
    as_plain_sum,
    bounds_of,
    closes_up,
    digest_of,
    family_of,
    is_gmean,
    is_made_of_users,
    is_of_means,
    is_ordered,
    measure_lists,
    n_sums_of,
    needs_of,
    weighing_of,
    weighted,
    weighting_of,
    who_of,
)
from ._names import MEANT, LibraryName, by_meaning, names_like, read_call
from ._over_users import opens_over_users
from ._own import (
    OwnMetric,
    file_of,
    hashes_of_files,
    name_metrics,
    pack_file,
    unpack_file,
    user_metric,
)
from ._parameters import NEEDED, NO_CUTOFF, Parameter, Value, Values, choice, number, text
from ._policies import BOUNDS, EXACT, POLICIES, TIED
from ._registry import (
    FOLDERS,
    fold,
    is_of_kind,
    known_metrics,
    load_metric_files,
    metrics_of_file,
    registry,
    registry_of,
    tiers,
)
from ._rows import (
    at_threshold,
    called_from,
    of_counts,
    of_kernel,
    over_rows_or_groups,
    over_rows_or_users,
    target_of,
)
from ._sums import (
    NEGATIVES,
    POSITIVES,
    PREDICTED,
    ROWS,
    OfSums,
    Smooth,
    Term,
    as_float,
    of_sums,
    of_whole,
    ratio,
    square_root,
)
from ._unbiased import WEIGHTED, Unbiased
from .sampling import most_likely

__all__ = [  # what a metric's file takes
    "ATTENTION", "NEGATIVES", "NO_CUTOFF", "PATIENCE", "POSITIVES", "PREDICTED", "ROWS",
    "WORTH", "ConstantTable", "Ends", "Example", "Hits", "ItemContext", "Items", "Lists",
    "Metric", "OfSums", "Parameter", "Relevant", "Request", "Shown", "Smooth", "TiedHits",
    "Unbiased", "Values", "as_float", "at_threshold", "choice", "kernel", "label_metric",
    "list_metric", "log2", "log2_of", "log_loss_of", "metric", "minus_ln", "minus_ln_of_rest",
    "number", "of_counts", "of_items", "of_kernel", "of_kernels", "of_sums", "of_whole",
    "over_rows_or_groups", "over_rows_or_users", "rating_metric", "ratio", "square_root",
    "text", "user_metric", "worth",
]  # fmt: skip
