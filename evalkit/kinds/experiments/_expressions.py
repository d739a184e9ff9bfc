"""Metrics of experiments as they are written: `ratio(clicks, shown)`, `mean(revenue, cap=500)`."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from evalkit.errors import EvalkitError, RequestError, did_you_mean, noting, raise_all
from evalkit.metrics import spell_column

from ._refused import not_built

KINDS = ("mean", "fraction", "ratio", "quantile", "sum", "count")
_OPTIONS: Mapping[str, tuple[str, ...]] = {
    "mean": ("winsor", "winsor_over", "cap", "window", "cuped"),
    "fraction": ("above", "window", "cuped"),
    "ratio": ("winsor", "winsor_over", "cap", "window", "cuped"),
    "quantile": ("q", "over", "window"),
    "sum": ("window",),
    "count": ("window",),
}
_TEXTS = {"winsor_over": ("all", "nonzero"), "over": ("units", "events"), "cuped": ("auto", "off")}
_DEFAULTS = {"above": 0.0, "winsor_over": "all", "over": "units", "cuped": "auto"}
_CALL = re.compile(r"\s*(?P<name>[A-Za-z_]\w*)\s*\((?P<arguments>.*)\)\s*", re.DOTALL)
_PARTS = re.compile(r"(?:^|,)((?:'[^']*'|\"[^\"]*\"|[^,'\"])*)")
_SPAN = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([mhdw])\s*")
SECONDS = {"m": 60, "h": 3600, "d": 86400, "w": 7 * 86400}
DAY = 86400 * 10**6  # microseconds
MOST_DAYS = 36_500  # of a window, and of what was before


@dataclass(frozen=True, slots=True)
class UnitMeasure:
    """One metric of an experiment.

    Args:
        kind: mean, fraction, ratio, quantile, sum or count.
        columns: of a unit: the numerator first.
        label: as it is printed; unique.
        above: of fractions, what a value must exceed.
        winsor: the quantile of all units at which values are capped; `cap`: a number.
        of_nonzero: the quantile is that of values other than 0.
        window: microseconds from exposure on; None: that of the experiment.
        is_plain: no covariates.
        q, of_events: of quantiles.
    """

    kind: str
    columns: tuple[str, ...]
    label: str
    above: float = 0.0
    winsor: float | None = None
    of_nonzero: bool = False
    cap: float | None = None
    window: int | None = None
    is_plain: bool = False
    q: float = 0.5
    of_events: bool = False

    @property
    def plain(self) -> "UnitMeasure":
        """The same without covariates."""
        return replace(self, label=f"{self.label[:-1]}, cuped='off')", is_plain=True)


def parse_measures(names: Sequence[str]) -> list[UnitMeasure]:
    """The metrics, each once, in their order.

    Raises:
        RequestError: all problems together [bad-metric-syntax, unknown-metric,
            unknown-parameter, bad-parameter-value].
    """
    found: dict[str, UnitMeasure] = {}
    errors: list[EvalkitError] = []
    for place, name in enumerate(names):
        with noting(errors):
            measure = parse_measure(name, f"metrics[{place}]")
            found.setdefault(measure.label, measure)
    raise_all(errors)
    return list(found.values())


def parse_measure(text: str, at: str = "metrics") -> UnitMeasure:
    """One metric; raises as `parse_measures`.

    Example:
        >>> parse_measure("mean( revenue, winsor = 0.99 )").label
        'mean(revenue, winsor=0.99)'
    """
    call = _CALL.fullmatch(text)
    if call is None:
        raise RequestError(
            f"{text!r} is no metric of an experiment",
            code="bad-metric-syntax",
            at=at,
            hint="write mean(clicks), fraction(orders), ratio(clicks, shown) or "
            "quantile(latency, q=0.9)",
        )
    kind = call["name"].lower()
    if kind not in KINDS:
        not_built(kind, at)
        message = f"no metric of experiments is called {call['name']!r}"
        hint = did_you_mean(kind, KINDS, f"one of {', '.join(KINDS)}")
        raise RequestError(message, code="unknown-metric", at=at, hint=hint)
    columns, options = _arguments(call["arguments"], text, at)
    wanted = 2 if kind == "ratio" else 1
    if len(columns) != wanted:
        raise RequestError(
            f"{kind} takes {wanted} {'columns' if wanted > 1 else 'column'}, not {len(columns)}",
            code="bad-metric-syntax",
            at=at,
            hint="write ratio(clicks, shown)" if kind == "ratio" else f"write {kind}(clicks)",
        )
    read = {name: _value(kind, name, value, at) for name, value in options.items()}
    read = {n: read[n] for n in _OPTIONS[kind] if n in read and read[n] != _DEFAULTS.get(n)}
    parts = [*map(spell_column, columns), *(f"{n}={_spelt(v)}" for n, v in read.items())]
    label = f"{kind}({', '.join(parts)})"
    if kind == "quantile" and "q" not in read:
        message = f"{text} does not say which quantile"
        hint = f"write quantile({columns[0]}, q=0.9)"
        raise RequestError(message, code="bad-parameter-value", at=at, hint=hint)
    if "winsor" in read and "cap" in read:
        message = f"{text} has a cap and a quantile for it"
        hint = "leave winsor or cap out"
        raise RequestError(message, code="bad-parameter-value", at=at, hint=hint)
    window = read.get("window")
    return UnitMeasure(
        kind=kind,
        columns=tuple(columns),
        label=label,
        above=_number(read.get("above", 0.0)),
        winsor=_maybe(read.get("winsor")),
        of_nonzero=read.get("winsor_over") == "nonzero",
        cap=_maybe(read.get("cap")),
        window=None if window is None else span_of(str(window)),
        is_plain=read.get("cuped") == "off" or kind not in ("mean", "fraction", "ratio"),
        q=_number(read.get("q", 0.5)),
        of_events=read.get("over") == "events",
    )


def _arguments(text: str, whole: str, at: str) -> tuple[list[str], dict[str, str]]:
    columns: list[str] = []
    options: dict[str, str] = {}
    for part in (found[1].strip() for found in _PARTS.finditer(text)):
        name, equals, value = part.partition("=")
        is_option = bool(equals) and re.fullmatch(r"[A-Za-z_]\w*\s*", name) is not None
        if is_option:
            options[name.strip()] = value.strip()
        elif part and not options:
            quoted = re.fullmatch(r"'([^']+)'|\"([^\"]+)\"", part)
            columns.append((quoted[1] or quoted[2]) if quoted else part)
        else:
            message = f"{whole!r} is no metric of an experiment"
            hint = "columns come first, then options: mean(revenue, winsor=0.999)"
            raise RequestError(message, code="bad-metric-syntax", at=at, hint=hint)
    return columns, options


def _value(kind: str, name: str, value: str, at: str) -> float | str:
    allowed = _OPTIONS[kind]
    if name not in allowed:
        message = f"{kind} has no parameter {name!r}"
        hint = did_you_mean(name, allowed, f"it has {', '.join(allowed)}")
        raise RequestError(message, code="unknown-parameter", at=at, hint=hint)
    text = value.strip("'\"")
    if name == "window":
        span_of(text, at)
        return text
    if name in _TEXTS:
        if text not in _TEXTS[name]:
            raise _bad(name, value, f"one of {', '.join(map(repr, _TEXTS[name]))}", at)
        return text
    try:
        number = float(text)
    except ValueError:
        raise _bad(name, value, f"a number: {name}=0.9", at) from None
    is_share = name in ("q", "winsor")
    if not (0.0 < number < 1.0 if is_share else abs(number) < float("inf")):
        raise _bad(name, value, "above 0 and below 1" if is_share else "a finite number", at)
    return number


def _bad(name: str, value: str, wanted: str, at: str) -> RequestError:
    return RequestError(
        f"{name} is {value}", code="bad-parameter-value", at=at, hint=f"it is {wanted}"
    )


def _spelt(value: float | str) -> str:
    return repr(value) if isinstance(value, str) else f"{value:.15g}"


def _number(value: object) -> float:
    return float(value)  # type: ignore[arg-type]


def _maybe(value: object) -> float | None:
    return None if value is None else _number(value)


def span_of(text: str, at: str = "window") -> int:
    """Microseconds of `7d`, `12h`, `30m` or `2w`.

    Raises:
        RequestError: it is no span of time [bad-span].
    Example:
        >>> span_of("7d")
        604800000000
    """
    found = _SPAN.fullmatch(text)
    if found is None or float(found[1]) == 0.0:
        hint = 'write minutes, hours, days or weeks: "30m", "12h", "7d", "2w"'
        raise RequestError(f"{text!r} is no span of time", code="bad-span", at=at, hint=hint)
    span = float(found[1]) * SECONDS[found[2]] * 10**6
    if span > MOST_DAYS * DAY:
        hint = f"a window is at most {MOST_DAYS:,} days; without one all later events count"
        raise RequestError(f"{text!r} is too long", code="bad-span", at=at, hint=hint)
    return round(span)
