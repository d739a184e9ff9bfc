"""Kernels of metrics of lists, called; what a declaration stands above, by its checksum."""

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ..kernels import Kernel
from ._declare import Metric, Request, _frozen
from ._lists import ItemContext, Lists
from ._over_users import FORMULAS, ORDERED, SOURCES, SUMMARIES, OverUsers
from ._parameters import Values

if TYPE_CHECKING:
    from numpy import float64, int64
    from numpy.typing import NDArray

    from ._lists import Need, Weighing


def family_of(request: Request) -> str:
    """The family of a request of lists, or combined; nothing for others."""
    if request.metric.combined is not None:
        return "combined"
    return "" if request.metric.lists is None else request.metric.lists.family


def n_sums_of(request: Request, context: ItemContext) -> int:
    """How many sums a request of the family `sums` is made of."""
    rules = request.metric.lists
    assert rules is not None
    assert rules.n_sums is not None
    return rules.n_sums(dict(request.parameters), context)


def is_of_means(request: Request) -> bool:
    """Whether a number is made of means of other values: of precision and recall, or of shares."""
    values = dict(request.parameters)
    of_f = request.metric.name == "F" and values.get("mean") == "means"
    return of_f or (request.metric.name == "sampled" and values.get("estimate") == "likelihood")


def is_made_of_users(request: Request) -> bool:
    """Whether a number of rankings is the mean of the users' values, of those who count."""
    is_mean = request.metric.over_users is None and not is_of_means(request)
    return is_mean and family_of(request) in ("", "users")


def needs_of(request: Request) -> "tuple[Need, ...]":
    """What must stand beside the lists for a request; nothing for one of accuracy."""
    rules = request.metric.lists
    return () if rules is None else tuple(rules.needs(dict(request.parameters)))


def who_of(request: Request) -> tuple[object, ...]:
    """What requests of all lists must have in common to count the same rows.

    Its policies, whether items are counted in lists of users with a relevant item alone, and, if
    so, that lists close up over unknown items.
    """
    of_relevant = family_of(request) == "counts" and "relevant" in needs_of(request)
    return request.policies, of_relevant, *(["known"] if closes_up(request) else [])


def closes_up(request: Request) -> bool:
    """Whether items behind a cutoff move up over those that the table of items lacks."""
    values = dict(request.parameters)
    return values.get("unknown") == "no_rank" or values.get("catalogue") == "items_known"


def bounds_of(request: Request) -> tuple[float, float]:
    """Those of the metric; narrower where parameters and cutoff let less be passed."""
    low, high = request.metric.bounds
    rules = request.metric.lists
    if rules is None or rules.most is None:
        return low, high
    return low, rules.most(dict(request.parameters), float(request.cutoff or math.inf))


def weighing_of(request: Request) -> "Weighing":
    """What a row adds to its item, for a request of the family `counts`."""
    assert request.metric.lists is not None
    return request.metric.lists.weighing(dict(request.parameters))


def measure_lists(
    request: Request,
    lists: Lists,
    cutoffs: "NDArray[int64]",
    tables: tuple[Any, ...],
    out: "NDArray[float64]",
) -> None:
    """Fill `out` by the kernel of a request of the families `users` or `sums`."""
    import numpy as np

    within = np.minimum(lists.lengths[:, None], cutoffs)
    request.call(
        frozen(lists), frozen(within), frozen(cutoffs), *map(frozen, tables), *request.encoded, out
    )


def frozen(table: Any) -> Any:
    """A read-only view of an array, or of each of a named tuple: kernels compile once."""
    if isinstance(table, tuple):
        each = map(frozen, table)
        return type(table)(*each) if hasattr(table, "_fields") else tuple(each)
    return _frozen(table) if hasattr(table, "flags") else table


def digest_of(metric: Metric) -> str:
    """A checksum of what a declaration stands above, be it a kernel or plain Python."""
    kernel = metric.kernel if isinstance(metric.kernel, Kernel) else Kernel(metric.function)
    return kernel.digest


def weighted(metric: Metric, values: Values, how: str) -> Metric:
    """The form of a metric in which hits count by 1 / propensity.

    Args:
        how: snips or ips.
    """
    unbiased = metric.unbiased
    assert unbiased is not None
    is_share = unbiased.is_share or (how == "snips" and unbiased.divides(values))
    return replace(
        metric,
        kernel=unbiased.kernel or metric.kernel,
        bounds=(0.0, 1.0 if is_share and metric.bounds[1] == 1.0 else math.inf),
        tied=None,
        has_closed_form=_never,
        needs_rows=_never,
        over_hits=None,
        counts_hits=False,
    )


def _never(_: Values) -> bool:
    return False


def weighting_of(request: Request, run: str) -> str:
    """How hits of a request are weighted: snips, ips or none.

    Args:
        run: the policy of the run, of which a request may have another value.
    """
    return str(dict(request.policies).get("propensity", run))


def as_plain_sum(request: Request) -> Request:
    """The same of gains that are worth themselves already, and not divided."""
    plain = {"gain": "linear", "per": "user"}
    return replace(
        request, parameters=tuple((name, plain.get(name, v)) for name, v in request.parameters)
    )


def over_users(how: str, parameter: float, of: Request) -> Request:
    """The request of a number over users, whose kernel is that of the metric."""
    over = OverUsers(how, parameter, of.metric)
    made = replace(
        of.metric,
        name=over.spell(of.metric.name),
        summary=SUMMARIES[how].format(f"{parameter:g}"),
        formula=FORMULAS[how].format(of.metric.name, f"{parameter:g}"),
        latex="",
        source=SOURCES[how],
        bounds=over.bounds,
        aliases=(),
        tied=None,
        has_closed_form=_never,
        over_hits=None,
        counts_hits=False,
        unbiased=None,
        over_users=over,
    )
    return replace(of, metric=made, asked=over.spell(of.asked or of.label))


def is_gmean(request: Request) -> bool:
    """Whether a number is measured as a mean of logarithms."""
    return request.metric.over_users is not None and request.metric.over_users.how == "gmean"


def is_ordered(request: Request) -> bool:
    """Whether a number stands on the order of the users' values, and is no mean."""
    return request.metric.over_users is not None and request.metric.over_users.how in ORDERED
