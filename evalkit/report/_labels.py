"""From what a person calls a metric to its label in a report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from evalkit.errors import EvalkitError, RequestError, nearest
from evalkit.report._index import Asked, it_has

if TYPE_CHECKING:
    from evalkit.metrics import Request
    from evalkit.report.record import Report


def find_label(report: Report, metric: str, asked: Mapping[Asked, str]) -> str:
    """The label in the report of a metric in any spelling, or as it was asked for.

    Args:
        asked: what `read_asked` found.
    Raises:
        RequestError: there is no such metric [metric-not-in-report], or several fit
            [ambiguous-metric].
    """
    labels = report.labels
    followed = _label_asked(report, metric, asked) if asked else None
    if followed is not None or metric in labels:
        return followed or metric
    from evalkit.metrics import KINDS, known_metrics, parse_metrics

    # A metric of a user's own file is in the report, not in the registry.
    fitting = [each for each in labels if each.lower() == metric.lower()] or [metric]
    for kind in sorted(KINDS, key=lambda each: each != report.kind):
        try:
            read = _labels_by_profile(report, metric, kind) or _labels_of(
                report, parse_metrics([metric], metrics=known_metrics(kind))
            )
        except EvalkitError:
            continue
        if fitting == [metric] or set(read) & set(labels):
            fitting = read
        if set(read) & set(labels):
            break
    if len(fitting) > 1:
        message = f"{metric!r} is {len(fitting)} metrics, here goes one"
        hint = f"write one of {', '.join(fitting)}"
        raise RequestError(message, code="ambiguous-metric", hint=hint)
    if fitting[0] in labels:
        return fitting[0]
    close = nearest(fitting[0], labels) or nearest(metric, labels)
    message = f"the report has no metric {metric!r}"
    hint = f"did you mean {close!r}?" if close else it_has(labels)
    raise RequestError(message, code="metric-not-in-report", hint=hint)


def read_asked(report: Report) -> dict[Asked, str]:
    """What the config asked for, without what a profile adds -> its label in the report."""
    from evalkit.metrics import known_metrics, parse_metrics

    section = (report.config or {}).get("metrics")
    names = section.get("names") if isinstance(section, dict) else None
    if not isinstance(names, list | tuple):
        return {}
    try:
        known = known_metrics(report.kind)
        requests = [each for name in names for each in parse_metrics([name], metrics=known)]
    except EvalkitError:  # metrics of a user's own file
        return {}
    found = {each.metric: (each.name, each.cutoff) for each in reversed(report.estimates)}
    wanted = [(each.metric.name, each.cutoff) for each in requests]
    if wanted != [found[label] for label in report.labels]:
        return {}
    return dict(zip(map(_as_asked, requests), report.labels, strict=True))


def _label_asked(report: Report, metric: str, asked: Mapping[Asked, str]) -> str | None:
    """The label of what was asked for by that name.

    Raises:
        RequestError: the report has another metric of that very label [ambiguous-metric].
    """
    from evalkit.metrics import known_metrics, parse_metrics

    try:
        (request,) = parse_metrics([metric], metrics=known_metrics(report.kind))
    except (EvalkitError, ValueError):
        return None
    label = asked.get(_as_asked(request))
    if label is not None and label != metric and metric in report.labels:
        message = f"{metric!r} was asked for, and is the label of another metric too"
        hint = f"write {label}, or the other one with its parameter"
        raise RequestError(message, code="ambiguous-metric", hint=hint)
    return label


def _as_asked(request: Request) -> Asked:
    return request.label, frozenset(request.given)


def _labels_by_profile(report: Report, metric: str, kind: str) -> list[str]:
    """The labels that the profile gives to a name, where the report has all of them."""
    from evalkit.metrics import known_metrics, parse_metrics
    from evalkit.metrics.profiles import find_profile, profile_names

    if report.profile not in profile_names():
        return []
    profile = find_profile(report.profile).of(kind)
    requests = parse_metrics(
        [metric],
        metrics=known_metrics(kind),
        conventions=profile.conventions,
        named=profile.named,
        refused=profile.refused,
    )
    found = [each.label for each in requests]
    return found if set(found) <= set(report.labels) else []


def _labels_of(report: Report, requests: Sequence[Request]) -> list[str]:
    """The labels in the report of what was asked for; a profile may have added parameters."""
    found: list[str] = []
    for request in requests:
        written = {**dict(request.parameters), **dict(request.policies)}
        fitting = {
            each.metric
            for each in report.estimates
            if (each.name, each.cutoff) == (request.metric.name, request.cutoff)
            and all(
                {**each.policies, **each.parameters}.get(name) == written[name]
                for name in request.given
            )
        }
        own = request.label
        found += [own] if own in fitting or not fitting else sorted(fitting)
    return found
