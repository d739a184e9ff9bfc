"""Metrics of other tables than rankings: of ratings, and of scored rows with labels.

Their files lie in folders of their own, because they are other functions: `precision` of labels
counts rows above a threshold, `precision` of rankings counts hits at ranks. A config asks for one
kind, so a name is never in doubt there.
"""

from collections.abc import Mapping

from ._declare import Request
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
    return over(request) != "rows" and weighting(request) == "equal"


def has_user_values(request: Request) -> bool:
    """Whether a request is the plain mean of values of users."""
    return is_plain_mean(request) and over(request) == "users"
