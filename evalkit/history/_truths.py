"""What runs were held against: whether two truths are one, and measured in one way."""

import json
from collections.abc import Mapping

from evalkit.report import Report

_SIZES = ("rows", "users", "pairs", "users_without_relevant")
_POLICIES = ("truth_duplicates", "negative_relevance", "no_relevant", "missing_ranking")


def differences_of_truth(one: Report, other: Report) -> list[str]:
    """In what the truths of two runs differ; nothing where they are the same."""
    differs = []
    for field in _SIZES:
        before, after = getattr(one.counts.truth, field), getattr(other.counts.truth, field)
        if before != after:
            differs.append(f"{before:,} and {after:,} {field.replace('_', ' ')}")
    prints = [_print_of(run, ("truth",)) for run in (one, other)]  # rows of others hold scores, too
    if None not in prints and prints[0] != prints[1] and not differs:
        differs.append("the files differ")
    settings = [_settings(run.config) for run in (one, other)]
    differs += [
        f"{key} is {settings[0].get(key)!r} and {settings[1].get(key)!r}"
        for key in dict.fromkeys([*settings[0], *settings[1]])
        if settings[0].get(key) != settings[1].get(key)
    ]
    return differs


def name_truth(report: Report) -> str:
    """What two runs share that are of the same users and right answers; else the run's own id."""
    print_ = _print_of(report, ("truth", "ratings", "labels"))
    if print_ is None:
        return report.run_id
    sizes = [getattr(report.counts.truth, field) for field in _SIZES]
    return json.dumps([print_, *sizes, _settings(report.config).get("where")], default=str)


def name_measure(report: Report) -> str:
    """What the runs of a job share while they measure in one way, on whichever night.

    What a variable fills into `where` is the night's own.
    """
    config = report.config or {}
    settings, policies = _settings(config), config.get("policies")
    where, variables = settings.get("where"), config.get("variables")
    if isinstance(where, str) and isinstance(variables, dict):
        for name, value in sorted(variables.items(), key=lambda each: -len(str(each[1]))):
            where = where.replace(str(value), f"{{{name}}}") if value else where
    found = {"profile": report.profile, **settings, "where": where, "policies": policies}
    return json.dumps(found, default=str, sort_keys=True)


def _print_of(report: Report, roles: tuple[str, ...]) -> str | None:
    return next((each.fingerprint for each in report.inputs if each.role in roles), None)


def _settings(config: Mapping[str, object] | None) -> dict[str, object]:
    """What of a config decides which items are relevant."""
    if config is None:
        return {}
    found: dict[str, object] = {}
    table = config.get("truth") or config.get("log")
    if isinstance(table, dict):
        found |= {key: table.get(key) for key in ("where", "threshold")}
    policies = config.get("policies")
    if isinstance(policies, dict):
        found |= {name: policies.get(name) for name in _POLICIES}
    return found
