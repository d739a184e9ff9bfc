"""A config from nested dicts and lists: overrides, variables, paths, checks."""

import os
import re
import tomllib
from collections.abc import Mapping, Sequence
from typing import cast

from pydantic import ValidationError

from evalkit.config import _checks
from evalkit.config._alerts import check_alerts
from evalkit.config._builtins import check_builtins
from evalkit.config._complaints import translate, validated
from evalkit.config._entry_points import EntryPoint, speaking
from evalkit.config._fields import annotation_at, takes_text
from evalkit.config._gates import check_form, check_gates
from evalkit.config._joined import joined, kinds_in, of_one_table
from evalkit.config._parts import fill_parts, fill_tables
from evalkit.config._places import Key, Places, spell, table_in
from evalkit.config._problems import Problems
from evalkit.config._profiles import follow_profile
from evalkit.config._records import Config, GateRule, SplitConfig, StatisticsSection
from evalkit.config._selection import check_selection, with_defaults
from evalkit.config._shares import check_layout
from evalkit.config._variables import fill_variables, resolve_paths
from evalkit.config.credentials import is_reference
from evalkit.errors import RequestError, names_secret
from evalkit.metrics.profiles import DEFAULT


def build_config(
    tree: dict[str, object],
    *,
    name: str,
    places: Places | None = None,
    base: str | os.PathLike[str] = "",
    overrides: Sequence[str] = (),
    variables: Mapping[str, str] | None = None,
    unnamed: frozenset[str] = frozenset(),
    entry_point: EntryPoint = "file",
) -> Config:
    """The config that nested dicts and lists hold, shaped as the TOML is; they are changed.

    Args:
        tree: tables, lists and values as TOML would give them.
        name: the run's name, where the tree has none.
        places: where each key was given, for errors.
        base: the folder that relative paths start from.
        overrides: `key=value` texts.
        variables: values of the `{name}` places in paths and SQL.
        unnamed: models whose names a column gives instead, where their table has one.
        entry_point: who asks.
    Raises:
        RequestError: as `parse_config`, without [config-syntax].
    """
    places = places or Places()
    places = Places(places.source, dict(places.lines), dict(places.options))
    problems = Problems(places, unnamed=unnamed)
    with speaking(entry_point):
        config = _build(tree, name, problems, os.fspath(base), overrides, variables or {})
        config._places, config._entry_point = places, entry_point
        followed = with_conventions(config)
        _ = followed.requests  # what is wrong with them is told at once
        return followed


def _build(
    tree: dict[str, object],
    name: str,
    problems: Problems,
    base: str,
    overrides: Sequence[str],
    variables: Mapping[str, str],
) -> Config:
    places = problems.places
    for override in overrides:
        override_key(tree, override, places, problems)
    match tree.get("log"):
        case [dict() as only]:
            tree["log"] = only
    kinds = kinds_in(Config, tree)
    for section in of_one_table(kinds):
        if isinstance(tree.get(section), dict):  # [labels] is one table of [[labels]]
            tree[section] = [tree[section]]
            places.make_list(section)
    with_defaults(tree, places)
    _place_judgements(tree, problems)
    fill_tables(tree, problems)
    fill_variables(tree, variables, problems)
    resolve_paths(tree, base)
    fill_parts(tree, problems)
    tree.setdefault("name", name)

    config = validated(joined(Config, kinds), tree, tree, problems)
    _checks.check_tables(tree, problems)
    _check_propensity(tree, problems)
    check_builtins(tree, problems)
    check_selection(tree, problems)
    _checks.check_names(tree, problems)
    _checks.check_metrics(tree, problems)
    _checks.check_profile(tree, problems)
    _checks.check_segments(tree, problems)
    _checks.check_statistics(tree, problems)
    check_gates(tree, variables, problems)
    check_storage(tree, problems)
    _checks.check_folders(tree, problems)
    check_alerts(tree, problems)
    check_layout(tree, problems)
    problems.raise_all()
    assert config is not None  # as it has no problem
    config._variables.update(variables)
    return config


def _place_judgements(tree: Mapping[str, object], problems: Problems) -> None:
    """Judgements are read where other truths have their path."""
    truth = tree.get("truth")
    if not isinstance(truth, dict) or "judgements" not in truth:
        return
    if "path" in truth:
        message = "path (right answers) and judgements (ratings of judges) exclude each other"
        problems.add(("truth", "judgements"), "conflicting-keys", message, hint="give one of them")
    truth["path"] = truth["judgements"]


def _check_propensity(tree: Mapping[str, object], problems: Problems) -> None:
    """A floor needs propensities, and judgements have none."""
    truth = table_in(tree, "truth")
    has_column = table_in(truth, "columns").get("propensity") is not None
    if "min_propensity" in truth and not has_column:
        message = "min_propensity is a floor of propensities, and the truth has none"
        hint = 'name their column: propensity = "p" under [truth.columns]'
        problems.add(("truth", "min_propensity"), "missing-key", message, hint=hint)
    if "judgements" in truth and has_column:
        message = "ratings of judges have no propensity"
        hint = "leave it out"
        problems.add(("truth", "columns", "propensity"), "conflicting-keys", message, hint=hint)


def build_split(
    tree: dict[str, object],
    *,
    name: str,
    places: Places | None = None,
    base: str | os.PathLike[str] = "",
    overrides: Sequence[str] = (),
    variables: Mapping[str, str] | None = None,
    entry_point: EntryPoint = "file",
) -> SplitConfig:
    """What nested dicts and lists ask `evalkit split` for; arguments as those of `build_config`.

    Raises:
        RequestError: as `build_config`.
    """
    given = places or Places()
    places = Places(given.source, dict(given.lines), dict(given.options))
    problems = Problems(places)
    with speaking(entry_point):
        for override in overrides:
            override_key(tree, override, places, problems)
        fill_variables(tree, variables or {}, problems)
        resolve_paths(tree, os.fspath(base))
        tree.setdefault("name", name)
        known = joined(Config, kinds_in(Config, tree)).model_fields
        for key in tree:
            if key not in known:
                translate({"type": "extra_forbidden", "loc": (key,)}, tree, problems)
        own = {key: each for key, each in tree.items() if key in SplitConfig.model_fields}
        gates = own.get("gates")
        if isinstance(gates, list):
            for number, gate in enumerate(gates):
                if isinstance(gate, dict) and _is_of_leakage(gate):
                    check_form(gate, ("gates", number), problems)
            own["gates"] = [each for each in gates if _is_of_leakage(each)]
        config = validated(SplitConfig, own, tree, problems)
        check_storage(own, problems)
        _checks.check_folders(own, problems)
        _checks.check_columns(("split",), table_in(own, "split"), problems)
        problems.raise_all()
        assert config is not None
        config._places, config._entry_point = places, entry_point
        return config


def _is_of_leakage(gate: object) -> bool:
    return isinstance(gate, dict) and str(gate.get("data", "")).startswith("leakage.")


def with_conventions(config: Config, *, profile: str | None = None) -> Config:
    """The config with the policies and the metrics that its profile, or another, makes of it.

    Raises:
        RequestError: as `follow_profile`.
    """
    by_hand = config._by_hand if config._by_hand is not None else config.policies
    section = config.metrics
    if profile is not None:
        section = section.model_copy(update={"profile": profile})
    followed = follow_profile(
        section, by_hand, kind=config.kind, at=config.at("metrics", "profile")
    )
    whole = config.model_copy(update={"metrics": section, "policies": followed.policies})
    whole._by_hand = by_hand
    whole._followed = followed.profile
    whole._overridden = followed.overridden
    is_default = config.kind == "rankings" and followed.profile.name == DEFAULT
    if whole.gates and (
        config.has_propensity or not is_default
    ):  # judged by the labels of the report
        gates = tuple(_as_measured(whole, gate) for gate in whole.gates)
        return whole.model_copy(update={"gates": gates})
    return whole


def _as_measured(config: Config, gate: GateRule) -> GateRule:
    if gate.metric is None:
        return gate
    labels = [request.label for request in config.read_metrics([gate.metric])]
    return gate.model_copy(update={"metric": labels[0]}) if len(labels) == 1 else gate


_OPTIONS = {  # that are short for a key
    **{f"--{section}": f"{section}.path" for section in ("train", "items", "users")},
    "--reference": "metrics.reference",
    "--combined": "metrics.combined.",
    "--profile": "metrics.profile",
    "--primary": "metrics.primary",
    "--engine": "engine.kind",
    "-m": "metrics.names",
    **{f"--{name}": f"statistics.{name}" for name in ("test", "correction", "margin", "level")},
}
_NAME = r"""(?:[A-Za-z0-9_-]+|"[^"]+")(?:\[\d+\])*"""
_SET_KEY = re.compile(rf"{_NAME}(?:\.{_NAME})*")
_SIDES = re.compile(r"""((?:"[^"]*"|[^"=])*)(=?)(.*)""", re.DOTALL)


def override_key(
    tree: dict[str, object], override: str, places: Places, problems: Problems
) -> None:
    """Write one `--set key=value` into the tree; the later one of a key wins."""
    spelled, equals, text = cast("re.Match[str]", _SIDES.match(override)).groups()
    option, text = f"--set {spelled.strip()}", text.strip()
    if spelled.partition(" ")[0] in _OPTIONS:
        option = spelled
        spelled = _OPTIONS[spelled.partition(" ")[0]] + spelled.partition(" ")[2]
    spelled = spelled.strip()
    if spelled == "--metric-file" and isinstance(section := tree.setdefault("metrics", {}), dict):
        given = section.get("files", [])
        section["files"] = [*(given if isinstance(given, list) else [given]), text]
        return places.replace(("metrics", "files"), f"{spelled} {text}")

    def refuse(message: str, hint: str) -> None:
        at = f"--set {override}" if option.startswith("--set") else override
        error = RequestError(message, code="bad-set", at=at, hint=hint)
        problems.found.append(((1, 0), error))

    if not equals or not _SET_KEY.fullmatch(spelled):
        return refuse(f"{override!r} is not key=value", "--set policies.ties=input")
    key = tuple(
        int(number) if number else name or quoted
        for number, name, quoted in re.findall(r"""\[(\d+)\]|([\w-]+)|"([^"]+)\"""", spelled)
    )
    branch: object = tree
    for depth, step in enumerate(key):
        if isinstance(step, int):
            if not isinstance(branch, list):
                return refuse(f"{spell(key[:depth])} is no list", "leave the number out")
            if step >= len(branch):
                return refuse(
                    f"{spell(key[: depth + 1])} does not exist",
                    f"{spell(key[:depth])} has {len(branch)} entries, counted from 0",
                )
        elif not isinstance(branch, dict):
            if isinstance(branch, list):
                rest = key[depth + 1 :] if step.isdigit() else key[depth:]
                which = int(step) if step.isdigit() else 0
                return refuse(
                    f"{spell(key[:depth])} is a list",
                    f"say which: {spell((*key[:depth], which, *rest))}",
                )
            return refuse(f"{spell(key[:depth])} is no table", "evalkit schema shows all keys")
        if depth == len(key) - 1:
            branch[step] = _override_value(key, text)
        elif isinstance(step, int):
            branch = cast("list[object]", branch)[step]
        else:
            branch = cast("dict[str, object]", branch).setdefault(step, {})
    places.replace(key, option)
    return None


def _override_value(key: Key, text: str) -> object:
    """The TOML value that the text spells; the text itself where a key takes only text."""
    try:
        parsed = tomllib.loads(f"value = {text}")
    except (ValueError, RecursionError):
        return text
    value: object = parsed["value"]
    if len(parsed) > 1:
        return text
    if not isinstance(value, str | list | dict) and takes_text(annotation_at(key)):
        return text
    return value


def build_statistics(
    values: Mapping[str, object], told: Mapping[str, str] | None = None
) -> StatisticsSection:
    """The statistics that options ask for, without a config around them.

    Args:
        told: the option of a key.
    Raises:
        RequestError: as `parse_config` says of the same keys.
    """
    tree: dict[str, object] = {"statistics": dict(values)}
    options: dict[Key, str] = {("statistics", name): at for name, at in (told or {}).items()}
    problems = Problems(Places(options=options))
    _checks.check_statistics(tree, problems)
    section = validated(StatisticsSection, tree["statistics"], tree, problems, ("statistics",))
    problems.raise_all()
    assert section is not None
    return section


def build_gates(kept: Mapping[str, object]) -> tuple[tuple[GateRule, ...], float]:
    """The gates of a config that a run kept, and the level of its intervals.

    Raises:
        RequestError: they are none [bad-gates, missing-key, conflicting-keys].
    """
    listed, statistics = kept.get("gates") or [], kept.get("statistics") or {}
    problems = Problems(Places())
    try:
        if not isinstance(listed, list) or not isinstance(statistics, dict):
            raise TypeError("gates are a list of tables, and statistics are a table")
        rules = tuple(GateRule.model_validate(each) for each in listed)
        level = StatisticsSection.model_validate(
            {key: each for key, each in statistics.items() if key == "level"}
        ).level
    except (ValidationError, TypeError, ValueError) as error:
        first = error.errors()[0]["msg"] if isinstance(error, ValidationError) else str(error)
        raise RequestError(first[:200], code="bad-gates", at="gates") from error
    for number, rule in enumerate(rules):
        check_form(rule.model_dump(exclude_none=True), ("gates", number), problems)
    problems.raise_all()
    return rules, level


def check_storage(tree: Mapping[str, object], problems: Problems) -> None:
    """Secrets are references to the environment."""
    for key, value in table_in(tree, "storage").items():
        if isinstance(value, str) and names_secret(key) and not is_reference(value):
            message = f"{key} is a secret, and the config would keep it"
            hint = f'{key} = "${{{key.upper()}}}" takes it from the environment'
            problems.add(("storage", key), "secret-in-config", message, hint=hint)
