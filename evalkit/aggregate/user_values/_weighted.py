"""Values of users whose hits count by 1 / propensity."""

from collections.abc import Callable

import numpy as np

from evalkit.aggregate.user_values._hits import GRADED
from evalkit.config import Policies
from evalkit.kernels import kernel
from evalkit.kernels.arrays import Floats, Ints
from evalkit.metrics import WEIGHTED, Hits, Relevant, Request, as_plain_sum
from evalkit.truth import Truth, weigh


def is_weighted(truth: Truth, request: Request, policies: Policies) -> bool:
    """Whether hits of a request count by 1 / propensity."""
    is_asked = policies.propensity in WEIGHTED and truth.weights is not None
    return is_asked and request.metric.unbiased is not None


def prepare(truth: Truth, request: Request, policies: Policies, *, which: int) -> None:
    """Make what hits count by, which many threads will ask for."""
    if is_weighted(truth, request, policies):
        weigh(truth, gain_of(request), graded=which == GRADED)
        weigh(truth, "binary", graded=False)


def gain_of(request: Request) -> str:
    """How gains are made that weights multiply."""
    return str(dict(request.parameters).get("gain", "binary"))


@kernel(allocates=False)
def divide_by_weights(values, starts, gains, by_weights):  # type: ignore[no-untyped-def]
    """Divide float64[n_users, n_cutoffs] by users' relevant items, or by the sum of their weights.

    Weights come in descending order; NaN for a user without any.
    """
    for user in range(values.shape[0]):
        total = 0.0
        for place in range(starts[user], starts[user + 1]):
            total += gains[place] if by_weights else 1.0
        for column in range(values.shape[1]):
            values[user, column] = values[user, column] / total if total > 0.0 else np.nan


def measure_weighted(
    request: Request,
    policies: Policies,
    which: int,
    gather: Callable[..., tuple[Hits, Relevant]],
    lengths: Ints,
    cutoffs: Ints,
    values: Floats,
) -> None:
    """Fill `values` float64[n_users, n_cutoffs] by hits that count by 1 / propensity.

    Args:
        policies: that the request follows.
        gather: hits and relevant items, by `which` and `gain`.
    """
    hits, relevant = gather(which=which, gain=gain_of(request))
    as_plain_sum(request).measure(hits, relevant, lengths, cutoffs, values)
    unbiased = request.metric.unbiased
    if unbiased is not None and unbiased.divides(dict(request.parameters)):
        _, relevant = gather(gain="binary")
        divide_by_weights(values, relevant.starts, relevant.gains, policies.propensity == "snips")
