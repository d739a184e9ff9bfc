"""Arguments that a function does not take: the error says how what was meant is written."""

import os
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import date
from functools import wraps
from inspect import CO_VARARGS, CO_VARKEYWORDS
from itertools import chain, repeat
from numbers import Integral, Real
from types import UnionType
from typing import Any, Literal, ParamSpec, TypeAlias, TypeVar, Union, cast, get_args, get_origin

from evalkit.config._entry_points import EntryPoint, speaking
from evalkit.config._policies import Policies
from evalkit.config._records import Config, StatisticsSection
from evalkit.errors import RequestError, did_you_mean, nearest

Columns: TypeAlias = Mapping[str, str | Sequence[str]]
P = ParamSpec("P")
R = TypeVar("R")

_CUTOFFS = ("k", "ks", "n", "top_k", "topk", "at", "cutoff", "cutoffs")
_OF_LIBRARIES = {
    "predictions": "rankings",
    "preds": "rankings",
    "run": "rankings",
    "recs": "rankings",
    "recommendations": "rankings",
    "qrels": "truth",
    "ground_truth": "truth",
    "y_true": "truth",
    "exclude_seen": "drop_seen",
    "filter_seen": "drop_seen",
    "n_jobs": "threads",
    "num_workers": "threads",
}
_TYPES: Mapping[object, tuple[str, str]] = {  # of annotations: in words, and an example
    bool: ("True or False", "True"),
    int: ("a whole number", "10"),
    float: ("a number", "0.5"),
    str: ("text", '"..."'),
    os.PathLike: ("a path", '"..."'),
    Mapping: ("a dict", '{"...": ...}'),
    Sequence: ("a list", '["..."]'),
    tuple: ("a pair", "(1, 4)"),
    date: ("a date", '"2026-01-31"'),
}
_EXAMPLES = {
    "before": '{"clicks": "COLUMN"}',
    "files": '{"truth": "as they are"}',
    "format": '{"truth": "trec"}',
    "ranked_by": '{"rankings": "rows"}',
    "rankings": '{"old": table, "new": table}',
    "segments": '{"country": {"by": "country"}}',
    "statistics": '{"level": 0.9}',
    "targets": '{"b": {"probability": "p"}}',
    "variants": '{"control": 50, "b": 50}',
    "where": '{"truth": "day = 7"}',
}
_TOLD_LATER = ("threads", "memory_limit")  # by whoever takes them from options too


def hinted(function: Callable[P, R]) -> Callable[P, R]:
    """The function, which tells what was meant by an argument that it lacks, or of another type.

    Its hints are in the words of Python, or of the config that it reads.

    Raises:
        TypeError: it takes no such argument.
        RequestError: as `check_argument`.
    """
    code = function.__code__
    known = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    takes_any = bool(code.co_flags & CO_VARKEYWORDS)
    entry_point: EntryPoint = "file" if known[:1] in (("config",), ("files",)) else "python"
    spread = repeat(code.co_varnames[len(known)]) if code.co_flags & CO_VARARGS else ()

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        unknown = [] if takes_any else [name for name in kwargs if name not in known]
        if unknown:
            meant = _meant(unknown[0], known)
            raise TypeError(f"{function.__name__}() takes no argument {unknown[0]!r}: {meant}")
        if len(args) > code.co_argcount and "metrics" in known:
            raise TypeError(
                f"{function.__name__}() takes {code.co_argcount} arguments without their names: "
                f"write metrics={metrics_meant(args[code.co_argcount])!r:.60}"
            )
        named = zip(chain(known[: code.co_argcount], spread), args, strict=False)
        for name, value in (*named, *kwargs.items()):
            check_argument(function, name, value)
        with speaking(entry_point):
            return function(*args, **kwargs)

    return call


def check_argument(function: Callable[..., object], name: str, value: object) -> None:
    """Raise where an argument is of another type than the function declares.

    Raises:
        RequestError: wrong-type.
    """
    found = _misfit(name, value, function.__annotations__.get(name, object))
    if found is None or name in _TOLD_LATER:
        return
    at, value, wanted = found
    kinds = [kind for each in _choices(wanted) if (kind := get_origin(each) or each) in _TYPES]
    words = " or ".join(dict.fromkeys(_TYPES[kind][0] for kind in kinds))
    owner = function.__qualname__.removesuffix(".__init__")
    part, example = at[len(name) :], _TYPES[kinds[0]][1]
    if part:
        example = f'{{"{part[1:]}": {example}}}' if part[0] == "." else f"[{example}]"
    if name in _EXAMPLES and not (name == "segments" and str in _choices(wanted)):
        example = _EXAMPLES[name]
    meant = f"{example}; help(evalkit.{owner}) tells of it"
    if name == "metrics":
        meant = f"{['nDCG@10'] if value is None else metrics_meant(value)!r:.80}"
    hint = f"pass {name}={meant}"
    raise RequestError(f"{at} is {value!r:.80}, not {words}", code="wrong-type", at=at, hint=hint)


def _choices(wanted: object) -> tuple[object, ...]:
    return get_args(wanted) if get_origin(wanted) in (Union, UnionType) else (wanted,)


def _misfit(name: str, value: object, wanted: object) -> tuple[str, object, object] | None:
    """Which value is of another type than it should be: where it stands, and what should be."""
    fitting = [each for each in _choices(wanted) if _fits(value, each)]
    if not fitting:
        return name, value, wanted
    holders = [get_args(each)[-1] for each in fitting if get_origin(each) in (Sequence, Mapping)]
    own = [choice for each in holders for choice in _choices(each)]
    if not own or not all((get_origin(each) or each) in _TYPES for each in own):
        return None
    parts = (
        {f"{name}.{key}": each for key, each in value.items()}
        if isinstance(value, Mapping)
        else {f"{name}[{n}]": each for n, each in enumerate(cast(Sequence[object], value))}
    )
    return next(filter(None, (_misfit(at, each, Union[*own]) for at, each in parts.items())), None)


def _fits(value: object, wanted: object) -> bool:
    kind = get_origin(wanted) or wanted
    if kind in (int, float):
        return isinstance(value, Integral if kind is int else Real) and not isinstance(value, bool)
    if kind is bool:  # NumPy's too
        return isinstance(value, bool) or type(value).__name__ in ("bool", "bool_")
    if kind is Sequence:
        others = (str, bytes, bytearray, Mapping, set, frozenset)
        return isinstance(value, Collection) and not isinstance(value, others)
    if kind is tuple:
        inner = get_args(wanted)
        return isinstance(value, tuple | list) and [*map(_fits, value, inner)] == [True] * len(
            inner
        )
    return kind in (Any, Literal) or isinstance(value, cast(type, kind))


def metrics_meant(metrics: object) -> list[object]:
    """What was meant by `"nDCG@10, RR"`, `{"nDCG": 10}` or `{"names": ["RR"]}` as a list."""
    if isinstance(metrics, Mapping):
        if "names" in metrics:
            return metrics_meant(metrics["names"])
        cuts = {
            name: "{" + ",".join(map(str, cut)) + "}" if isinstance(cut, list | tuple) else cut
            for name, cut in metrics.items()
        }
        return [f"{name}@{cut}" for name, cut in cuts.items()]
    if isinstance(metrics, str) and "(" not in metrics:
        return [name.strip() for name in metrics.split(",")]
    if isinstance(metrics, Iterable) and not isinstance(metrics, str):
        return list(metrics)
    return [metrics]


def our_columns(columns: Columns | None, keys: Sequence[str]) -> dict[str, str | Sequence[str]]:
    """The columns as named; every one is a key that the tables can have.

    Raises:
        RequestError: a name stands for nothing [unknown-key].
    """
    for key in columns or {}:
        if key not in keys:
            message = f"no column is called {key!r} here"
            hint = did_you_mean(key, keys, f"the keys are our names: {', '.join(keys)}")
            raise RequestError(message, code="unknown-key", at="columns", hint=hint)
    return dict(columns or {})


def _meant(name: str, known: tuple[str, ...]) -> str:
    if name in _CUTOFFS and "metrics" in known:
        return "a cutoff is part of a metric's name, metrics=['nDCG@10']"
    if _OF_LIBRARIES.get(name) in known:
        return f"write {_OF_LIBRARIES[name]}="
    for section, record in (("statistics", StatisticsSection), ("policies", Policies)):
        if section in known and name in record.model_fields:
            return f"write {section}={{{name!r}: ...}}"
    if name in Config.model_fields:
        return f"[{name}] is a section of a config, which evalkit run reads"
    if close := nearest(name, known):
        return f"did you mean {close}=?"
    return f"it takes {', '.join(known)}"
