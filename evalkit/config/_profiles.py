"""How a profile, the policies set by hand and the metrics' own conventions come together."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Protocol, TypedDict

from pydantic import ValidationError

from evalkit.config._policies import Policies, default_of
from evalkit.config._tables import MetricsSection
from evalkit.errors import EvalkitError, RequestError, did_you_mean, raise_all
from evalkit.metrics import (
    BOUNDS,
    POLICIES,
    TIED,
    WEIGHTED,
    Metric,
    Request,
    Value,
    combine,
    load_metric_files,
    needs_of,
    other_kinds,
    parse_metrics,
    policies_of_kind,
    registry,
    weighted,
    weighting_of,
)
from evalkit.metrics.profiles import DEFAULT, Profile, find_profile, speaking_of


@dataclass(frozen=True, slots=True)
class Followed:
    """A profile as a config follows it.

    Args:
        policies: of the run: those set by hand, then the profile's, then the defaults.
        overridden: what the hand set against the profile: policy, its value, the profile's.
    """

    profile: Profile
    policies: Policies
    overridden: tuple[tuple[str, Value, Value], ...]


class LibraryNames(TypedDict, total=False):
    """What a profile means by names, and refuses; as `parse_metrics` takes it."""

    named: Mapping[str, str]
    refused: Mapping[str, str]


class Asking(Protocol):
    """What of a config says how metrics are read."""

    @property
    def kind(self) -> str: ...
    @property
    def metrics(self) -> MetricsSection: ...
    @property
    def policies(self) -> Policies: ...
    @property
    def set_by_hand(self) -> frozenset[str]: ...
    @property
    def profile(self) -> Profile: ...
    @property
    def has_propensity(self) -> bool: ...
    def at(self, *key: str | int) -> str: ...


def metrics_of(section: MetricsSection, kind: str) -> Mapping[str, Metric]:
    """The metrics of a kind with those of the config's files."""
    return load_metric_files(section.files, kind)


def follow_profile(
    section: MetricsSection, policies: Policies, *, kind: str = "rankings", at: str
) -> Followed:
    """The policies of a run under the profile that the config names.

    Raises:
        RequestError: as `find_profile`; a profile that says nothing of the kind
            [profile-without-kind]; a policy in a user's file that there is not [unknown-key],
            or a value that it does not take [bad-parameter-value].
    """
    files = section.files if kind == "rankings" else ()
    found = find_profile(section.profile, metrics=load_metric_files(files), at=at)
    if not found.speaks_of(kind):
        message = f"the profile {found.name!r} says nothing of {kind}"
        hint = f"these do: {', '.join(speaking_of(kind))}"
        raise RequestError(message, code="profile-without-kind", at=at, hint=hint)
    profile = found.of(kind)
    said = _policies_of(profile)
    by_hand = frozenset(policies.model_fields_set)
    followed = said.model_copy(update={name: getattr(policies, name) for name in by_hand})
    against: dict[str, tuple[str, Value, Value]] = {}
    if profile.name != DEFAULT:
        for values in (profile.policies, *profile.metrics.values()):
            for name, value in values.items():
                if name in by_hand and getattr(policies, name) != value:
                    against.setdefault(name, (name, getattr(policies, name), value))
    return Followed(profile, followed, tuple(against.values()))


def _policies_of(profile: Profile) -> Policies:
    problems: list[EvalkitError] = []
    try:
        return Policies.model_validate(dict(profile.policies))
    except ValidationError as error:
        for problem in error.errors(include_url=False):
            name = str(problem["loc"][0])
            at = f"{profile.file}: policies.{name}"
            if problem["type"] == "extra_forbidden":
                hint = did_you_mean(name, Policies.model_fields, "evalkit schema lists them")
                message = f"no policy is called {name!r}"
                problems.append(RequestError(message, code="unknown-key", at=at, hint=hint))
            else:
                message = f"{name} cannot be {profile.policies[name]!r}"
                problems.append(RequestError(message, code="bad-parameter-value", at=at))
    raise_all(problems)
    raise AssertionError("policies with an error have an error")


def names_by(
    tree: Mapping[str, object], kind: str, metrics: Mapping[str, Metric] | None
) -> LibraryNames:
    """What the profile means by names, and refuses; what is wrong with it is told elsewhere."""
    match tree.get("metrics"):
        case {"profile": str() as profile} if profile != DEFAULT:
            with suppress(EvalkitError):
                # metrics of other kinds are none that a profile has of rankings
                is_other = kind in other_kinds()
                found = find_profile(profile, metrics=None if is_other else metrics).of(kind)
                return {"named": found.named, "refused": found.refused}
    return {"named": {}}


def requests_of(config: Asking, names: Sequence[str]) -> list[Request]:
    """What is asked for, with the parameters and policies that each metric follows.

    Raises:
        RequestError: metrics that are wrong, as `parse_metrics`; metrics whose value over all
            orders of equal scores is not known [no-tie-bounds].
    """
    policies, by_hand = config.policies, config.set_by_hand

    def conventions(metric: str, cutoff: int | None) -> dict[str, Value]:
        said = config.profile.conventions(metric, cutoff)
        if config.kind != "rankings":  # whose parameters share names with policies
            return said
        return {name: value for name, value in said.items() if name not in by_hand}

    parsed = parse_metrics(
        names,
        metrics=metrics_of(config.metrics, config.kind),
        conventions=conventions,
        policies=policies_of_kind(config.kind),
        named=config.profile.named,
        refused=config.profile.refused,
    )
    if config.kind != "rankings":
        return parsed
    problems: list[EvalkitError] = []
    requests: dict[object, Request] = {}
    for request in parsed:
        own = tuple(each for each in request.policies if each[1] != getattr(policies, each[0]))
        known = _with_policies(request, own)
        known, problem = _weighted(known, config, by_hand=request.given | by_hand)
        own = known.policies
        if problem is not None:
            problems.append(problem)
        problem = _tie_problem(known, policies, config.at("metrics", "names"))
        if problem is not None:
            problems.append(problem)
        requests.setdefault((known.metric.name, known.parameters, known.cutoff, own), known)
    raise_all(problems)
    return list(requests.values())


def combined_of(config: Asking, name: str) -> Request:
    """What is asked for by the name of a combination.

    Raises:
        RequestError: as `combine`.
    """
    section = config.metrics
    return combine(
        name,
        section.combined[name],
        requests_of(config, section.names),
        lambda part: requests_of(config, [part]),
        others=section.combined,
        known=metrics_of(section, config.kind).values(),
        at=config.at("metrics", "combined", name),
    )


def _with_policies(request: Request, own: tuple[tuple[str, Value], ...]) -> Request:
    values = dict(request.parameters)
    followed = request.metric.follow(request.cutoff, values, dict(own), request.given)
    return replace(followed, asked=request.asked)


def _weighted(
    request: Request, config: Asking, *, by_hand: frozenset[str]
) -> tuple[Request, RequestError | None]:
    """The request as it weights hits by propensities; what is wrong with that."""
    how, at = weighting_of(request, config.policies.propensity), config.at("metrics", "names")
    others = tuple(each for each in request.policies if each[0] != "propensity")
    if not config.has_propensity:
        message = f"{request.label} asks for propensity = {how!r}, and the truth has none"
        hint = 'name its column: propensity = "p" under [truth.columns]'
        problem = RequestError(message, code="missing-key", at=at, hint=hint)
        is_default = how == default_of("propensity") and "propensity" not in request.given
        is_asked = "propensity" in by_hand and how in WEIGHTED and not is_default
        return replace(request, policies=others), problem if is_asked else None
    is_of_lists = request.metric.lists is not None or request.metric.combined is not None
    if is_of_lists and "relevant" not in needs_of(request):
        return replace(request, policies=others), None
    request = replace(request, policies=tuple(sorted([*others, ("propensity", how)])))
    if how not in WEIGHTED:
        return request, None
    unbiased, values = request.metric.unbiased, dict(request.parameters)
    if unbiased is not None and unbiased.has_form(values):
        return replace(request, metric=weighted(request.metric, values, how)), None
    have = ", ".join(name for name, each in registry().items() if each.unbiased is not None)
    problem = RequestError(
        f"{request.label} has no unbiased form: it does not add up over hits",
        code="no-unbiased-form",
        at=at,
        hint=f"{have} have one, under their default parameters; or write "
        f"{request.metric.base.name}(propensity='none')",
    )
    return request, problem


def _tie_problem(request: Request, policies: Policies, at: str) -> RequestError | None:
    followed = policies_of(request, policies)
    ties, copies = followed.ties, followed.duplicates
    # how often copies multiply depends on the order
    if ties not in TIED or (request.has_closed_form and copies != "multiply"):
        return None
    what = "the mean" if ties not in BOUNDS else f"the {ties} value"
    message = f"{what} of {request.label} over all orders of equal scores is not known"
    hint = f"choose its order: {request.metric.base.name}(ties='item'), or under [policies]"
    return RequestError(message, code="no-tie-bounds", at=at, hint=hint)


def policies_of(request: Request, policies: Policies) -> Policies:
    """The policies that a request follows: those of the run, where it has none of its own."""
    if not request.policies:
        return policies
    whole = {name: value for name, value in request.policies if POLICIES[name].choices}
    counts = {
        name: int(float(value)) for name, value in request.policies if not POLICIES[name].choices
    }
    return policies.model_copy(update={**whole, **counts})
