"""Metrics of other tables than rankings: of ratings, and of scored rows with labels.

Their files lie in folders of their own, because they are other functions: `precision` of labels
counts rows above a threshold, `precision` of rankings counts hits at ranks. A config asks for one
kind, so a name is never in doubt there.
"""

from collections.abc import Mapping
from dataclasses import replace

from ._declare import Request
from ._measuring import is_ordered
from ._parameters import Parameter
from ._policies import POLICIES


def policies_of_kind(kind: str) -> Mapping[str, Parameter]:
    """The policies that one metric alone may be given; those of rows hold for a whole run."""
    return POLICIES if kind in ("rankings", "lists") else {}


def over(request: Request) -> str:
    """What a request of ratings or labels is taken over: rows, users or sessions."""
    other = "rows" if request.metric.over_rows is not None else "users"
    return str(dict(request.parameters).get("over", other))


def weighting(request: Request) -> str:
    """How much each user or session counts in the average."""
    return str(dict(request.parameters).get("weighting", "equal"))


def is_plain_mean(request: Request) -> bool:
    """Whether a request is the mean of values of users, or sessions, who count equally."""
    is_mean = over(request) != "rows" and weighting(request) == "equal"
    return is_mean and not is_ordered(request)


def is_drawn(request: Request) -> bool:
    """Whether a request is a plain mean over users, be it of what is made of their values."""
    return is_plain_mean(request) and over(request) == "users"


def has_user_values(request: Request) -> bool:
    """Whether a request is the plain mean of values of users."""
    return is_drawn(request) and request.metric.over_users is None


def by_user(request: Request) -> Request | None:
    """A request of ratings or labels whose values users have; None where they have none."""
    values = dict(request.parameters)
    if "over" in values and "over" not in request.given:
        request = replace(request, parameters=tuple({**values, "over": "users"}.items()))
    return request if has_user_values(request) else None
