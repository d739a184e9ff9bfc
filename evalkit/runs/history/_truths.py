"""What runs were held against: whether two truths are one, and measured in one way."""

import json
from collections.abc import Mapping

from evalkit.config import Policies
from evalkit.metrics import other_kinds
from evalkit.report import Report

_SIZES = ("rows", "users", "pairs", "users_without_relevant")
_MEASURES = ("where", "threshold", "session_every")
_GUARDS = (  # policies that stop a run or warn of it, and move no number
    *("tie_share", "beyond_depth", "no_common_user", "no_common_item", "empty_input", "no_judged"),
    *("truth_in_train", "mixed_splits"),
)
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


def differences_of_measure(one: Report, other: Report, *, of_rows: bool = True) -> list[str]:
    """In what two runs measure otherwise, so that their numbers may differ by that alone.

    Where a policy of one run is "error", nothing was there for the other's to change.

    Args:
        of_rows: also in which rows are taken and relevant, as data sets may have their own.
    """
    if one.config is None or other.config is None:
        return []
    before, after = _conventions(one.config), _conventions(other.config)
    return [
        f"{name} is {before[name]!r} and {after[name]!r}"
        for name in before
        if before[name] != after[name] and "error" not in (before[name], after[name])
        if of_rows or name not in _MEASURES
    ]


def _conventions(config: Mapping[str, object]) -> dict[str, object]:
    """What numbers hang on beside the logs, by name."""
    policies, statistics, train = (config.get(name) for name in ("policies", "statistics", "train"))
    found = {name: field.default for name, field in Policies.model_fields.items()}
    if isinstance(policies, dict):
        found |= {name: value for name, value in policies.items() if name in found}
    weight = statistics.get("weight") if isinstance(statistics, dict) else None
    found["weight"] = weight.get("by") if isinstance(weight, dict) else None
    found["drop_seen"] = bool(train.get("drop_seen")) if isinstance(train, dict) else False
    found["kind"] = _rows_of(config)
    for name in _MEASURES:
        values = [table[name] for table in _measured_tables(config)]
        is_one = bool(values) and all(each == values[0] for each in values)
        found[name] = values[0] if is_one else tuple(values)
    return {name: value for name, value in found.items() if name not in _GUARDS}


def names_of_data(report: Report) -> set[str]:
    """What two runs share where one of their tables of right answers is the same, and its rows."""
    wheres = dict.fromkeys(str(each.get("where")) for each in _tables(report.config))
    return {
        json.dumps([each.fingerprint, *wheres])
        for each in report.inputs
        if each.role in ("truth", "log", *other_kinds()) and each.fingerprint is not None
    }


def name_truth(report: Report) -> str:
    """What two runs share that are of the same users and right answers.

    Files that hold scores beside right answers are others for each model, and URLs have no
    fingerprint: there as many rows, users and pairs are taken for the same.
    """
    is_apart = any(each.role == "predictions" for each in report.inputs)
    is_log = bool((report.config or {}).get("log"))
    roles = ("ratings",) if is_apart else () if is_log else ("truth",)
    print_ = _print_of(report, roles)
    if print_ is not None:
        return json.dumps([print_, _settings(report.config).get("where")], default=str)
    sizes = [getattr(report.counts.truth, field) for field in _SIZES]
    wheres = [each.get("where") for each in _tables(report.config)]
    return json.dumps([*sizes, *dict.fromkeys(map(str, wheres))], default=str)


def name_measure(report: Report) -> str:
    """What the runs of a job share while they measure in one way, on whichever night.

    What a variable fills into `where` is the night's own.
    """
    config = report.config or {}
    policies, tables = config.get("policies"), _measured_tables(config)
    statistics = config.get("statistics")
    weight = statistics.get("weight") if isinstance(statistics, dict) else None
    found = {
        "of": _rows_of(config),
        "profile": report.profile,
        "tables": list(dict.fromkeys(json.dumps(each, sort_keys=True) for each in tables)),
        "policies": policies,
        "weight": weight.get("by") if isinstance(weight, dict) else None,
        "sample": [each.message for each in report.warnings if each.code == "sample"],
    }
    return json.dumps(found, default=str, sort_keys=True)


def _rows_of(config: Mapping[str, object]) -> str:
    """What metrics of one name are other numbers of: `AUC` of labels and of rankings."""
    return next((kind for kind in ("labels", "ratings") if config.get(kind)), "rankings")


def _measured_tables(config: Mapping[str, object]) -> list[dict[str, object]]:
    """What each table of right answers is measured by, what variables filled in left out."""
    variables = config.get("variables")
    tables = [{key: each.get(key) for key in _MEASURES} for each in _tables(config)]
    for table in tables:
        where = table["where"]
        if isinstance(where, str) and isinstance(variables, dict):
            for name, value in sorted(variables.items(), key=lambda each: -len(str(each[1]))):
                where = where.replace(str(value), f"{{{name}}}") if value else where
            table["where"] = where
    return tables


def _tables(config: Mapping[str, object] | None) -> list[Mapping[str, object]]:
    """Those that hold right answers."""
    found: list[Mapping[str, object]] = []
    for section in ("truth", "log", *other_kinds()):
        tables = (config or {}).get(section)
        listed = tables if isinstance(tables, list | tuple) else [tables]
        found += [each for each in listed if isinstance(each, dict)]
    return found


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
