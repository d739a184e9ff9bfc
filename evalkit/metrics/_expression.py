"""Reads metric expressions: `nDCG@{5,10}`, `precision(over='length')@5`, `MRR`, `F2@10`."""

# Long: one grammar, whose readers call each other.

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from functools import cache

from evalkit.metrics import _names

from ..errors import EvalkitError, RequestError, edits, raise_all
from ._declare import Metric, Request, spell_argument
from ._declared import folders
from ._f_of import f_of, not_two, split_f_of
from ._kinds import by_user
from ._measuring import is_made_of_users, over_users
from ._over_users import opens_over_users, read_parameter, split_call
from ._parameters import NEEDED, Parameter, Value, Values, read_number
from ._policies import POLICIES
from ._registry import fold, known_metrics, registry_of, tiers

LARGEST_CUTOFF = 2**31 - 2
_DOUBLED = re.compile(r"(.)\1+")
SHORT_NAMES = (4, 5)  # letters, where one more or less makes no other metric
LONG_NAME = 6  # letters, from which on a wrong one is taken for a slip

Conventions = Callable[[str, int | None], Values]

_EXPRESSION = re.compile(
    r"\s*(?P<name>\w[\w.-]*(?:,[\d.]+)*)\s*"
    r"(?:\((?P<arguments>(?:[^()'\"]|'[^']*'|\"[^\"]*\")*)\))?\s*(?:@\s*(?P<cutoffs>.*?))?\s*"
)
_ARGUMENT = re.compile(
    r"\s*(?P<name>[A-Za-z_]\w*)\s*=\s*(?P<value>'[^']*'|\"[^\"]*\"|[^'\",\s]+)\s*"
)
_NUMBERS = {"iprec": "recall", "RBP": "patience"}  # no cutoffs: iprec_at_recall_0.10, rbp.95
_GEOMETRIC = re.compile(r"\s*(?P<name>gm_(?P<of>map|bpref))(?P<rest>[^_]*)", re.IGNORECASE)
_ARGUMENTS = re.compile(r"(?:^|,)((?:'[^']*'|\"[^\"]*\"|[^,])*)")  # a quoted one holds commas
_BY_USER = {"ratings": "MAE(over='users')", "labels": "AUC(over='users')"}
_CUTOFF_HINT = "a cutoff counts ranks: nDCG@10, or nDCG@{5,10,20}; none means the whole list"


@dataclass(frozen=True, slots=True)
class _Spelling:
    metric: Metric
    fixed: Mapping[str, Value]
    alias: str | None = None  # one that fixes parameters, as GAUC does
    is_own: bool = False  # the alias is a profile's, whose conventions alone hold


def parse_metrics(
    names: Sequence[str],
    *,
    metrics: Mapping[str, Metric] | None = None,
    conventions: Conventions | None = None,
    policies: Mapping[str, Parameter] = POLICIES,
    named: Mapping[str, str] | None = None,
    refused: Mapping[str, str] | None = None,
    at: Callable[[int], str] | None = None,
) -> list[Request]:
    """One request for each metric and cutoff, in the order given, each once.

    Args:
        names: metric expressions; any case is read, and every alias.
        metrics: the metrics to choose from, by default those of evalkit.
        conventions: parameters and policies of a metric with a cutoff, where the name does not
            say; a profile has them. Asked with an alias that fixes parameters too, whose
            conventions win over what it fixes.
        policies: those that a metric alone may be given.
        named: what names mean here, each a key of `conventions`; a profile's. Where it has none,
            a name that libraries give to several metrics is refused.
        refused: patterns of names that are no metric here, and why; a profile's.
        at: the place of a name in its source, for errors.
    Raises:
        RequestError: all problems together, as one `Errors` if there are several
            [unknown-metric, refused-metric, ambiguous-metric, unknown-parameter,
            bad-parameter-value, bad-cutoff, bad-metric-syntax].
    """
    all_metrics = metrics if metrics is not None else known_metrics("rankings")
    known = _Spellings(all_metrics, named, refused or {})
    requests: list[Request] = []
    errors: list[EvalkitError] = []
    for place, name in enumerate(names):
        where = at(place) if at is not None else f"metrics[{place}]"
        for found in _parse(name, known, where, conventions or _none_other, policies):
            if isinstance(found, Request):
                requests.append(found)
            else:
                errors.append(found)
    raise_all(errors)
    unique: dict[tuple[object, ...], Request] = {}
    for each in requests:
        unique.setdefault((each.metric.name, each.parameters, each.cutoff, each.policies), each)
    return list(unique.values())


def _none_other(metric: str, cutoff: int | None) -> Values:
    return {}


def _parse(
    text: str,
    known: "_Spellings",
    at: str,
    conventions: Conventions,
    policies: Mapping[str, Parameter],
) -> Iterator[Request | RequestError]:
    text = known.whole(text)
    if (geometric := _GEOMETRIC.fullmatch(text)) and known.find(geometric["name"]) is None:
        text = f"gmean({geometric['of']}{geometric['rest']})"  # as trec_eval names it
    if (of_two := _parse_f_of(text, known, at, conventions, policies)) is not None:
        yield from of_two
        return
    if opens_over_users(text) and known.find(text.partition("(")[0].strip()) is None:
        yield from _parse_over_users(text, known, at, conventions, policies)
        return
    parts = _EXPRESSION.fullmatch(text)
    if parts is None:
        yield RequestError(
            f"{text!r} is no metric expression",
            code="bad-metric-syntax",
            at=at,
            hint=_meant_cutoff(text, known.find)
            or "write name(parameter=value)@cutoff, such as precision(over='length')@5",
        )
        return
    name, numbers = parts["name"], None
    spelling = known.find(name)
    if spelling is None:
        name, numbers = _names.in_parts(name)
        spelling = known.find(name)
    problem = known.refusal(name, spelling, at)
    if problem is None and parts["cutoffs"]:
        problem = known.refusal(f"{name}@k", None, at)  # where a library has it without alone
    if problem is not None or spelling is None or (numbers and parts["cutoffs"]):
        yield problem or unknown_metric(parts["name"], known.metrics, at)
        return
    errors: list[RequestError] = []
    written = _values(spelling.metric, parts["arguments"], at, errors, policies)
    if numbers and spelling.metric.name in _NUMBERS:
        for number in numbers.split(","):
            value = number if "." in number or spelling.metric.name == "iprec" else f"0.{number}"
            argument = f"{_NUMBERS[spelling.metric.name]}={value}"
            own = _values(spelling.metric, argument, at, errors, policies)
            if not errors:
                yield _request(spelling, name, None, {**written, **own}, conventions)
        yield from errors
        return
    if spelling.is_own:
        said = conventions(str(spelling.alias), None)
        missing = [each for each in said if said[each] == NEEDED and each not in written]
        errors += [_names.needed_parameter(name, each, at) for each in missing]
    listed = parts["cutoffs"] if numbers is None else f"{{{numbers}}}"
    cutoffs = _cutoffs(spelling.metric, text, listed, at, errors)
    yield from errors
    if not errors:
        for cutoff in cutoffs:
            yield _request(spelling, name, cutoff, written, conventions)


def _parse_f_of(
    text: str,
    known: "_Spellings",
    at: str,
    conventions: Conventions,
    policies: Mapping[str, Parameter],
) -> list[Request | RequestError] | None:
    """F of two metrics that are written inside; None for another expression."""
    try:
        call = split_f_of(text, at)
        if call is None:
            return None
        (first, second), beta, listed = call
        found = [*_parse(first, known, at, conventions, policies)]
        found += _parse(second, known, at, conventions, policies)
        errors = [each for each in found if isinstance(each, RequestError)]
        parts = [each for each in found if isinstance(each, Request)]
        if errors or len(parts) != 2:
            return [*errors] or [not_two(text, at)]
        made = f_of((parts[0], parts[1]), beta, at)
    except RequestError as error:
        return [error]
    cutoffs = _cutoffs(made, text, listed, at, errors)
    return [*errors] or [made.request(cutoff) for cutoff in cutoffs]


def _parse_over_users(
    text: str,
    known: "_Spellings",
    at: str,
    conventions: Conventions,
    policies: Mapping[str, Parameter],
) -> Iterator[Request | RequestError]:
    """A number over users of each metric that is written inside."""
    try:
        how, inner, arguments = split_call(text, at)
        parameter = read_parameter(how, arguments, at)
    except RequestError as error:
        yield error
        return
    for found in _parse(inner, known, at, conventions, policies):
        if isinstance(found, RequestError):
            yield found
        elif how == "tail_mean" and found.metric.higher_is_better is None:
            yield RequestError(
                f"of {found.label} neither more nor less is better: nobody is served worst",
                code="bad-parameter-value",
                at=at,
                hint="write its quantiles: quantile(M, q=0.1), quantile(M, q=0.9)",
            )
        elif (of := _of_users(found)) is not None:
            yield over_users(how, parameter, of)
        else:
            own = _BY_USER.get(found.metric.kind, "nDCG@10")
            yield RequestError(
                f"{how} is of the values of users, and {found.label} is no mean of such",
                code="no-metric-of-users",
                at=at,
                hint=f"write a metric that users have values of: {how}({own})",
            )


def _of_users(found: Request) -> Request | None:
    """A request whose values users have; None where they have none."""
    if found.metric.kind in ("ratings", "labels"):
        return by_user(found)
    return found if is_made_of_users(found) else None


def _request(
    spelling: _Spelling, name: str, cutoff: int | None, written: Values, conventions: Conventions
) -> Request:
    """What was written wins over the conventions, and these over the defaults."""
    metric = spelling.metric
    of_alias = conventions(spelling.alias, cutoff) if spelling.alias is not None else {}
    own = {} if spelling.is_own else conventions(metric.name, cutoff)
    values = {**own, **spelling.fixed, **of_alias, **written}
    names = {each.name for each in metric.parameters}
    parameters = {name: value for name, value in values.items() if name in names}
    policies = {name: value for name, value in values.items() if name not in names}
    asked = _as_written(spelling, name, cutoff, written, of_alias if spelling.is_own else own)
    request = metric.follow(cutoff, parameters, policies, {**spelling.fixed, **written})
    return replace(request, asked=asked)


def _as_written(
    spelling: _Spelling, name: str, cutoff: int | None, written: Values, convention: Values
) -> str:
    """How a metric was asked for, in the letters of its name and without what is so anyway."""
    metric = spelling.metric
    known = [metric.name, *(alias.partition("(")[0] for alias in metric.aliases)]
    known = [spelling.alias or "", *known] if spelling.is_own else known
    numbered = metric.name + name[len(metric.name) :]  # F2
    name = next((each for each in known if fold(each) == fold(name)), numbered)
    usual = {**metric.defaults, **convention}
    shown = [
        spell_argument(metric, each, value)
        for each, value in written.items()
        if usual.get(each) != value or metric.defaults.get(each) != value
    ]
    arguments = f"({', '.join(shown)})" if shown else ""
    return f"{name}{arguments}" + ("" if cutoff is None else f"@{cutoff}")


class _Spellings:
    """The names of metrics, each tier of them spelled out when one is looked for."""

    def __init__(
        self,
        metrics: Mapping[str, Metric],
        named: Mapping[str, str] | None,
        refused: Mapping[str, str],
    ) -> None:
        self.metrics = metrics
        self._refused = refused
        self._guesses = named is None or bool(named)
        named = named or {}
        self._named = {fold(name): (name, metric) for name, metric in named.items()}
        self._exactly = named  # where one is a metric's own name in other letters
        self._known: list[dict[str, _Spelling]] = []
        self._left = tiers(metrics)

    def find(self, name: str) -> _Spelling | None:
        """What is meant by a name; where a metric's own means another, its aliases do so too."""
        found = self._own(name) or self._known_as(name)
        if found is None or found.is_own:
            return found
        if self._exactly.get(found.metric.name, found.metric.name) == found.metric.name:
            return found
        return replace(found, is_own=True) if found.fixed else self._own(found.metric.name)

    def whole(self, text: str) -> str:
        """What is made of users' values where a library has one name for it."""
        name, at, cutoffs = text.partition("@")
        _, meant = self._named.get(fold(name.strip()), ("", ""))
        if at and not meant.startswith("f_of"):
            return text
        return f"{meant}{at}{cutoffs}" if opens_over_users(meant) else text

    def refusal(self, name: str, found: _Spelling | None, at: str) -> RequestError | None:
        """Why a name is not read, though evalkit may know it."""
        if found is not None and found.is_own:
            return None
        form = str if found is not None and name == found.metric.name else fold  # AUC is not auc
        for pattern, why in self._refused.items():
            if fnmatchcase(form(name), form(pattern)):
                return _names.refused_metric(name, why, at)
        if found is None or self._guesses or name == found.metric.name:
            return None
        return _names.ambiguous_metric(name, self.metrics, at, found.metric.name)

    def _own(self, name: str) -> _Spelling | None:
        if not self._exactly:
            return None
        if name in self._exactly:
            alias, metric = name, self._exactly[name]
        elif name in self.metrics:
            return None
        else:
            alias, metric = self._named.get(fold(name), ("", ""))
        if metric and metric in self.metrics:
            return _Spelling(self.metrics[metric], {}, alias, is_own=True)
        return None

    def _known_as(self, name: str) -> _Spelling | None:
        for known in self._known:
            if (found := _find(name, known)) is not None:
                return found
        for metrics in self._left:
            self._known.append(_spellings(metrics))
            if (found := _find(name, self._known[-1])) is not None:
                return found
        return None


def _spellings(metrics: Mapping[str, Metric]) -> dict[str, _Spelling]:
    if metrics is known_metrics("rankings"):
        return _spellings_of(known_metrics, "rankings")
    kind = next(iter(metrics.values())).kind
    return _spellings_of(registry_of, kind) if metrics is registry_of(kind) else _spell_all(metrics)


@cache
def _spellings_of(known: Callable[[str], Mapping[str, Metric]], kind: str) -> dict[str, _Spelling]:
    return _spell_all(known(kind))


def _spell_all(metrics: Mapping[str, Metric]) -> dict[str, _Spelling]:
    known: dict[str, _Spelling] = {}
    for metric in metrics.values():
        known[fold(metric.name)] = _Spelling(metric, {})
        for alias in metric.aliases:
            name, _, arguments = alias.rstrip(")").partition("(")
            errors: list[RequestError] = []
            fixed = _values(metric, arguments, f"alias {alias!r}", errors, {})
            raise_all(errors)
            known[fold(name)] = _Spelling(metric, fixed, name if fixed else None)
    return known


def _find(name: str, known: Mapping[str, _Spelling]) -> _Spelling | None:
    if fold(name) in known:
        return known[fold(name)]
    for spelling in known.values():
        metric = spelling.metric
        stem, rest = fold(name)[: len(metric.name)], name[len(metric.name) :]
        if metric.suffix is not None and stem == fold(metric.name):
            value = read_number(rest)
            parameter = {each.name: each for each in metric.parameters}[metric.suffix]
            if value is not None and parameter.accepts(value):
                return _Spelling(metric, {metric.suffix: value})
    return None


def _meant_cutoff(text: str, find: Callable[[str], object]) -> str:
    """What `nDCG 10` or `MAP10` may mean, as a hint; nothing where it is another fault."""
    parts = re.fullmatch(r"\s*([A-Za-z_]*[A-Za-z])[\s_:-]?([1-9]\d*)\s*", text)
    if parts is None or find(parts[1]) is None:
        return ""
    return f"did you mean '{parts[1]}@{parts[2]}'?"


def unknown_metric(name: str, metrics: Mapping[str, Metric], at: str) -> RequestError:
    """That none of these metrics has a name, and which one was meant."""
    stem = _names.in_parts(name)[0]
    if (problem := _names.ambiguous_metric(stem, metrics, at)) is not None:
        return problem
    said = _names.names_like(stem)
    if said and not any(each.kind for each in said):
        return _names.refused_metric(stem, said[0].means, at)
    close = _meant(name, _spellings(metrics))
    hint = f"did you mean {close!r}?" if close else "evalkit metrics lists all"
    hint = _meant_cutoff(name, lambda text: _find(text, _spellings(metrics))) or hint
    kinds = {each.kind for each in metrics.values()}
    if kinds == {"experiment"} and not close:
        hint = f"write what of it: mean({name}), fraction({name}), ratio({name}, shown)"
    others = [kind for kind in folders() if kind not in kinds and _find_of_kind(name, kind)]
    if others:
        hint = f"it is a metric of {' and '.join(others)}; evalkit explain {name} has more"
    here = [each for each in said if each.kind in kinds and not (close or others)]
    for each, libraries in list(_names.by_meaning(here))[:1]:
        hint = f"to {', '.join(libraries)} it is {each.means}; profile = {libraries[0]!r} reads it"
    return RequestError(f"no metric is called {name!r}", code="unknown-metric", at=at, hint=hint)


def _find_of_kind(name: str, kind: str) -> _Spelling | None:
    return _find(name, _spellings(registry_of(kind)))


def _meant(name: str, known: Mapping[str, _Spelling]) -> str | None:
    """The metric whose name or alias was misspelt; None of what may be a metric of its own.

    A letter more or less makes another metric of a short name (ERR, RR), so these are known by
    their letters in another order, a letter twice, or behind the first of four one more or less;
    of longer ones one letter in three may be wrong. F0 is an F with a number that cannot be.
    """
    written = fold(name)
    once = _DOUBLED.sub(r"\1", written)
    found = []
    for spelling, declared in known.items():
        is_short = len(spelling) < LONG_NAME
        is_swapped = sorted(written) == sorted(spelling)
        is_numbered = (
            declared.metric.suffix is not None and written.rstrip("0123456789") == spelling
        )
        if is_numbered or (is_swapped and (len(written) > 3 or written[0] == spelling[0])):
            found.append((0, declared.metric.name))
        elif is_short and once == _DOUBLED.sub(r"\1", spelling):
            found.append((0, declared.metric.name))
        elif len(spelling) in SHORT_NAMES and _is_a_letter_off(written, spelling):
            found.append((1, declared.metric.name))
        elif not is_short and abs(len(written) - len(spelling)) <= (most := len(spelling) // 3):
            if (off := edits(written, spelling)) <= most:
                found.append((off, declared.metric.name))
    return min(found)[1] if found else None


def _is_a_letter_off(written: str, spelling: str) -> bool:
    """Whether one has a letter that the other one lacks, behind the first."""
    is_longer = abs(len(written) - len(spelling)) == 1
    return is_longer and written[0] == spelling[0] and edits(written, spelling) == 1


def _values(
    metric: Metric,
    arguments: str | None,
    at: str,
    errors: list[RequestError],
    policies: Mapping[str, Parameter],
) -> dict[str, Value]:
    values: dict[str, Value] = {}
    given: set[str] = set()
    listed = _ARGUMENTS.findall(arguments) if arguments and arguments.strip() else []
    own = {each.name: each for each in metric.parameters} if listed else {}
    own |= {name.lower(): each for name, each in own.items() if name.isupper()}
    for place, argument in enumerate(listed):
        if place < len(metric.columns) and "=" not in argument and argument.strip():
            given.add(metric.columns[place])
            values[metric.columns[place]] = argument.strip().strip("'\"")
            continue
        parts = _ARGUMENT.fullmatch(argument)
        if parts is None or parts["name"] in given:
            fault = "is no parameter=value" if parts is None else "is given twice"
            shown = argument.strip() if parts is None else parts["name"]
            message = f"{shown!r} {fault} of {metric.name}"
            hint = "write name(parameter=value, ...)@cutoff"
            errors.append(RequestError(message, code="bad-metric-syntax", at=at, hint=hint))
            continue
        given.add(parts["name"])
        parameter = own.get(parts["name"], policies.get(parts["name"]))
        if parameter is None:
            errors.append(_names.unknown_parameter(metric, parts["name"], at, policies))
            continue
        value = _value(parameter, parts["value"])
        if value is None:
            errors.append(_names.bad_value(metric, parameter, parts["value"], at))
        else:
            values[parameter.name] = value
    return values


def _value(parameter: Parameter, text: str) -> Value | None:
    is_quoted = text[0] in "'\""
    if parameter.choices:
        word = text[1:-1] if is_quoted else text
        matches = [each for each in parameter.choices if each.lower() == word.lower()]
        return matches[0] if matches else None
    if parameter.is_text:
        return text[1:-1] if is_quoted else text
    value = None if is_quoted else read_number(text)
    return value if value is not None and parameter.accepts(value) else None


def _cutoffs(
    metric: Metric, text: str, cutoffs: str | None, at: str, errors: list[RequestError]
) -> list[int | None]:
    if cutoffs is None:
        return [None]
    if metric.cutoff == "never":
        hint = f"write {metric.name}"
        message = f"{metric.name} takes no cutoff, not {cutoffs!r}"
        errors.append(RequestError(message, code="bad-cutoff", at=at, hint=hint))
        return []
    listed = cutoffs[1:-1] if cutoffs[:1] + cutoffs[-1:] == "{}" else cutoffs
    several = listed.split(",") if listed is not cutoffs else [cutoffs]
    found: list[int | None] = []
    for cutoff in several:
        word = cutoff.strip()
        is_whole = word.isascii() and word.isdigit() and len(word) <= 10
        if is_whole and 1 <= int(word) <= LARGEST_CUTOFF:
            found.append(int(word))
        else:
            message = f"{word!r} is no cutoff from 1 to {LARGEST_CUTOFF} in {text!r}"
            errors.append(RequestError(message, code="bad-cutoff", at=at, hint=_CUTOFF_HINT))
    return found
