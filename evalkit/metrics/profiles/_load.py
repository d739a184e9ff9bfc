"""Profiles from their files, every mistake at once."""

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import cast

from evalkit.errors import EvalkitError, RequestError, did_you_mean, raise_all
from evalkit.metrics import (
    MEANT,
    NEEDED,
    POLICIES,
    Metric,
    Values,
    fold,
    known_metrics,
    opens_over_users,
    other_kinds,
    policies_of_kind,
    read_call,
    registry_of,
    tiers,
    unknown_metric,
)
from evalkit.metrics.profiles import _record

FOLDER = Path(__file__).parent
SUFFIX = ".toml"
MAX_BYTES = 1 << 20
TEXTS = ("name", "about", "version", "like", "path", "looks_at", "score_column")
TABLES = ("policies", "metrics", "options", "names")
LISTS: Mapping[str, tuple[str, str]] = {"differs": ("what", "why"), "errors": ("version", "what")}
REFUSED = "refused"  # names of the library by the reason why they are no metric here
PATHS = ("hits", "whole lists")
ORDERS = ("ranks", "scores")


@cache
def profile_names() -> tuple[str, ...]:
    """The profiles that evalkit brings: its own first, then by name."""
    names = sorted(file.stem for file in FOLDER.glob(f"*{SUFFIX}"))
    return tuple(sorted(names, key=lambda name: name != "evalkit"))


def speaking_of(kind: str) -> tuple[str, ...]:
    """The profiles that evalkit brings which say something of rankings, ratings or labels."""
    return tuple(name for name in profile_names() if find_profile(name).speaks_of(kind))


def is_path(profile: str) -> bool:
    """Whether a profile is named by its file."""
    return profile.endswith(SUFFIX) or "/" in profile


def find_profile(
    profile: str, *, metrics: Mapping[str, Metric] | None = None, at: str = ""
) -> _record.Profile:
    """The profile of a name, or that of a user's own file.

    Args:
        profile: a name that evalkit brings, or the path of a TOML file.
        metrics: the metrics that it may speak of, by default those of evalkit.
        at: where it was asked for.
    Raises:
        RequestError: no such profile [unknown-profile] or file [missing-profile]; a file that is
            no profile [bad-profile]; every mistake in it [bad-profile, unknown-metric,
            unknown-parameter, bad-parameter-value].
    """
    known = known_metrics("rankings") if metrics is None else metrics
    if is_path(profile):
        return _read(Path(profile), known, at)
    if profile in profile_names():
        if known is known_metrics("rankings"):
            return _read_own(profile)
        return _read(FOLDER / f"{profile}{SUFFIX}", known, at)
    raise RequestError(
        f"no profile is called {profile!r}",
        code="unknown-profile",
        at=at,
        hint=did_you_mean(
            profile,
            profile_names(),
            f"there are {', '.join(profile_names())}; a file of your own ends in {SUFFIX}",
        ),
    )


@cache
def _read_own(name: str) -> _record.Profile:
    """A profile that evalkit brings, of evalkit's metrics: every run asks for one or two."""
    return _read(FOLDER / f"{name}{SUFFIX}", known_metrics("rankings"), "")


def _read(
    file: Path, metrics: Mapping[str, Metric], at: str, chain: tuple[str, ...] = ()
) -> _record.Profile:
    place = str(file)
    try:
        content = file.read_bytes()
        tree = tomllib.loads(content[: MAX_BYTES + 1].decode("utf-8-sig"))
    except OSError as error:
        reason = (error.strerror or "it cannot be read").lower()
        message = f"no profile can be read from {place!r}: {reason}"
        hint = f"there are {', '.join(profile_names())}"
        raise RequestError(message, code="missing-profile", at=at or place, hint=hint) from None
    except ValueError as error:
        raise RequestError(
            f"the profile is no TOML: {str(error).lower()}", code="bad-profile", at=place
        ) from None
    if len(content) > MAX_BYTES:
        raise _bad(f"a profile holds at most {MAX_BYTES:,} bytes", place)
    errors = list(_form_errors(tree, place))
    raise_all(errors)
    base = _base(tree, file, metrics, (*chain, place))
    said = _conventions(tree, "rankings", metrics, base, f"{place}: ", errors)
    rows = {}
    for kind in other_kinds():
        if kind in tree or (base is not None and kind in base.rows):
            section = cast("Mapping[str, object]", tree.get(kind, {}))
            at = f"{place}: {kind}."
            rows[kind] = _conventions(section, kind, registry_of(kind), base, at, errors)
    raise_all(errors)
    return _record.Profile(
        name=str(tree.get("name", file.stem)),
        about=str(tree.get("about", base.about if base else "")),
        version=str(tree.get("version", base.version if base else "")),
        path=cast(_record.ReadingPath, tree.get("path", base.path if base else "hits")),
        looks_at=str(tree.get("looks_at", base.looks_at if base else "")),
        score_column=str(tree.get("score_column", base.score_column if base else "")),
        **said.parts,
        refused={**(base.refused if base else {}), **_by_name(tree.get(REFUSED, {}))},
        file=place,
        rows=rows,
    )


def _conventions(
    section: Mapping[str, object],
    kind: str,
    metrics: Mapping[str, Metric],
    base: _record.Profile | None,
    at: str,
    errors: list[EvalkitError],
) -> _record.RowConventions:
    """What one table says of one kind, on top of what the base says of it."""
    under = base.of(kind) if base is not None else None
    found: dict[str, Values] = dict(under.metrics) if under is not None else {}
    not_read = set(map(fold, _by_name(section.get(REFUSED, {}))))
    named = dict(under.named) if under is not None else {}
    named = {name: meant for name, meant in named.items() if fold(name) not in not_read}
    options = dict(under.options) if under is not None else {}
    checking = _KnownMetrics(kind, metrics, is_own=at.startswith(str(FOLDER)))
    for name, said in cast("dict[str, Values]", section.get("metrics", {})).items():
        values, place = dict(said), f"{at}metrics.{name}"
        meant = str(values.pop(MEANT, name))
        spelled = checking.check(meant, values, place, errors)
        if spelled is not None and MEANT in said:
            named[name], spelled = spelled, name
        if spelled is not None:
            found[spelled] = {**({} if MEANT in said else found.get(spelled, {})), **values}
            for other in [each for each in named if named[each] == spelled and each in found]:
                found[other] = {**found[other], **values}  # the base's names follow
    for name, table in cast("dict[str, dict[str, Values]]", section.get("options", {})).items():
        for option, own in table.items():
            checking.check(named.get(name, name), own, f"{at}options.{name}.{option}", errors)
        options[name] = {**options.get(name, {}), **table}
    for meant, names in cast("dict[str, list[str]]", section.get("names", {})).items():
        place = f"{at}names.{meant}"
        if opens_over_users(meant):  # read when it is asked for
            named |= dict.fromkeys(names, meant)
            continue
        try:
            metric, own = read_call(meant)
        except ValueError:
            errors.append(_bad(f"{meant!r} is no metric expression", place, "AP(over='hits')"))
            continue
        written = {key: value for key, value in own.items() if value != NEEDED}
        spelled = checking.check(named.get(metric, metric), written, place, errors)
        if spelled is None:
            continue
        spelled = metric if metric in named else spelled
        for name in names:
            named[name] = named.get(spelled, spelled)
            found[name] = {**found.get(spelled, {}), **own}
            if f"{spelled}@k" in found:
                found[f"{name}@k"] = {**found[f"{spelled}@k"], **own}
    policies = cast(Values, section.get("policies", {}))
    for name, value in policies.items():
        known = POLICIES.get(name)  # those of a run alone are checked with the run's
        if known is not None and not known.accepts(value):
            place = f"{at}policies.{name}"
            errors.append(_bad_value("a policy", known.name, known.domain, value, place))
    differs = cast("list[dict[str, str]]", section.get("differs", []))
    faults = cast("list[dict[str, str]]", section.get("errors", []))
    return _record.RowConventions(
        policies={**(under.policies if under is not None else {}), **policies},
        metrics=found,
        differs=tuple(
            _record.ProfileDifference(
                each["what"], each["why"], tuple(each.get("metrics", "").split())
            )
            for each in differs
        ),
        errors=tuple(_record.Fault(each["version"], each["what"]) for each in faults),
        named=named,
        options=options,
    )


def _by_name(refused: object) -> dict[str, str]:
    return {
        name: why for why, names in cast("dict[str, list[str]]", refused).items() for name in names
    }


def _base(
    tree: Mapping[str, object], file: Path, metrics: Mapping[str, Metric], chain: tuple[str, ...]
) -> _record.Profile | None:
    like = tree.get("like")
    if like is None:
        return None
    name = str(like)
    other = file.parent / name if is_path(name) else FOLDER / f"{name}{SUFFIX}"
    if str(other) in chain:
        raise _bad(f"{name!r} is like itself in the end", f"{file}: like")
    if not is_path(name) and name not in profile_names():
        find_profile(name, at=f"{file}: like")  # says which ones there are
    return _read(other, metrics, f"{file}: like", chain)


def _bad(message: str, at: str, hint: str = "") -> RequestError:
    return RequestError(message, code="bad-profile", at=at, hint=hint)


def _bad_value(owner: str, name: str, domain: str, value: object, at: str) -> RequestError:
    return RequestError(
        f"{name} of {owner} is {domain}, not {value!r}", code="bad-parameter-value", at=at
    )


def _form_errors(
    tree: Mapping[str, object], place: str, known: tuple[str, ...] | None = None
) -> Iterator[EvalkitError]:
    """Keys that a profile, or one of its tables, does not have, and values of another kind."""
    known = known or (*TEXTS, *TABLES, *LISTS, REFUSED, *other_kinds())
    for key, value in tree.items():
        at = f"{place}: {key}"
        if key not in known:
            yield _bad(
                f"a profile has no key {key!r}",
                at,
                did_you_mean(key, known, f"it has {', '.join(known)}"),
            )
        elif key in TEXTS and not isinstance(value, str):
            yield _bad(f"{value!r} is not text", at)
        elif key == "path" and value not in PATHS:
            yield _bad(f"{value!r} is neither 'hits' nor 'whole lists'", at)
        elif key == "looks_at" and value not in ORDERS:
            yield _bad(f"{value!r} is neither 'ranks' nor 'scores'", at)
        elif key in (*TABLES, REFUSED, *other_kinds()) and not isinstance(value, dict):
            yield _bad(f"{value!r} is not a table", at)
        elif key in ("names", REFUSED) and isinstance(value, dict):
            for meant, names in value.items():
                if not isinstance(names, list) or not all(isinstance(each, str) for each in names):
                    yield _bad(f"{names!r} is no list of names", f"{at}.{meant}", 'AP = ["map"]')
        elif key in other_kinds() and isinstance(value, dict):
            yield from _form_errors(value, at, (*TABLES, *LISTS))
        elif key in ("metrics", "options") and isinstance(value, dict):
            tables = value.items()
            if key == "options":
                tables = {**value, **_nested(value)}.items()
            for name, values in tables:
                if not isinstance(values, dict):
                    yield _bad(f"{values!r} is not a table", f"{at}.{name}", f"{name} = {{ }}")
        elif key in LISTS and not _are_records(value, LISTS[key]):
            wanted = " and ".join(LISTS[key])
            yield _bad(f"{key} is a list of tables with {wanted}", at, f"write [[{key}]]")


def _nested(tables: Mapping[str, object]) -> dict[str, object]:
    """The values of tables in a table, each by its name."""
    return {
        f"{name}.{key}": value
        for name, table in tables.items()
        if isinstance(table, dict)
        for key, value in table.items()
    }


def _are_records(value: object, keys: tuple[str, str]) -> bool:
    return isinstance(value, list) and all(
        isinstance(each, dict)
        and set(each) - {"metrics"} == set(keys)
        and all(isinstance(text, str) for text in each.values())
        for each in value
    )


def _spelled(name: str, metrics: Mapping[str, Metric]) -> tuple[Metric, str] | None:
    """The metric of a name, in any case, and its name; or the alias that fixes parameters."""
    spellings = {each.lower(): each for each in metrics}
    if name.lower() in spellings:
        metric = metrics[spellings[name.lower()]]
        return metric, metric.name
    for metric in metrics.values():
        if any(alias.partition("(")[0] == name for alias in metric.aliases if "(" in alias):
            return metric, name
    return None


@dataclass(frozen=True, slots=True)
class _KnownMetrics:
    """What a profile's metrics are held against.

    Args:
        is_own: the profile is one that evalkit brings, whose metrics of lists are held against
            their files by a test alone: to read those files takes longer than a small run.
    """

    kind: str
    metrics: Mapping[str, Metric]
    is_own: bool

    def check(self, name: str, values: Values, at: str, errors: list[EvalkitError]) -> str | None:
        """The one spelling of a metric, or of an alias that fixes parameters."""
        bare, suffix = (name[:-2], "@k") if name.endswith("@k") else (name, "")
        known_tiers = list(tiers(self.metrics))[: 1 if self.is_own else None]
        found = next((each for tier in known_tiers if (each := _spelled(bare, tier))), None)
        if found is None and self.is_own:
            return name
        if found is None:
            errors.append(unknown_metric(bare, self.metrics, at))
            return None
        metric, spelled = found
        known = {**policies_of_kind(self.kind), **{each.name: each for each in metric.parameters}}
        for parameter, value in values.items():
            if parameter not in known:
                errors.append(
                    RequestError(
                        f"{metric.name} has no parameter {parameter!r}",
                        code="unknown-parameter",
                        at=at,
                        hint=did_you_mean(parameter, known),
                    )
                )
            elif not known[parameter].accepts(value):
                domain = known[parameter].domain
                errors.append(_bad_value(metric.name, parameter, domain, value, at))
        return spelled + suffix
