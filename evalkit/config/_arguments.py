"""Arguments that a function does not take: the error says how what was meant is written."""

from collections.abc import Callable, Mapping
from functools import wraps
from inspect import CO_VARKEYWORDS
from typing import ParamSpec, TypeVar

from evalkit.config._policies import Policies
from evalkit.config._records import Config, StatisticsSection
from evalkit.errors import nearest

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


def hinted(function: Callable[P, R]) -> Callable[P, R]:
    """The function, whose TypeError of an argument that it lacks says what was meant."""
    code = function.__code__
    known = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    takes_any = bool(code.co_flags & CO_VARKEYWORDS)

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
        return function(*args, **kwargs)

    return call


def metrics_meant(metrics: object) -> list[object]:
    """What was meant by `"nDCG@10, RR"` or `{"nDCG": 10}` as a list."""
    if isinstance(metrics, Mapping):
        cuts = {
            name: "{" + ",".join(map(str, cut)) + "}" if isinstance(cut, list | tuple) else cut
            for name, cut in metrics.items()
        }
        return [f"{name}@{cut}" for name, cut in cuts.items()]
    if isinstance(metrics, str) and "(" not in metrics:
        return [name.strip() for name in metrics.split(",")]
    return list(metrics) if isinstance(metrics, list | tuple) else [metrics]


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
