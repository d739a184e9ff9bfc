"""evalkit: exact, fast, offline evaluation of recommender systems.

    >>> import evalkit
    >>> report = evalkit.evaluate("truth.parquet", {"als": "als.parquet"}, metrics=["nDCG@10"])
    >>> report.value("nDCG@10", model="als")

Importing this module loads none of the heavy libraries; the first call does.
"""

import os
import sys


def _is_program() -> bool:
    """Whether this process is `evalkit` or `python -m evalkit`, not one that imports it."""
    (name, *_) = getattr(sys, "argv", None) or [""]
    if name == "-m":
        return "-mevalkit" in sys.orig_argv or ("-m", "evalkit") in zip(
            sys.orig_argv, sys.orig_argv[1:], strict=False
        )
    return os.path.basename(name) in ("evalkit", "evalkit.exe")


if _is_program():
    import _signal  # type: ignore[import-not-found]  # it is there already: no moment is lost

    def _stop(number: int, frame: object) -> None:
        try:
            os.write(2, b"interrupted\n")
        finally:
            os._exit(128 + number)

    if _signal.getsignal(_signal.SIGINT) is _signal.default_int_handler:
        _signal.signal(_signal.SIGINT, _stop)

from typing import TYPE_CHECKING  # noqa: E402  # a signal may come while it is imported

from evalkit.report.version import VERSION as __version__  # noqa: E402

# Polars' allocator gives memory back after half a second, large pieces at once, and asking for it
# again costs a third of the time of decoding; each arena keeps what it was given back for itself.
# It reads this once, when Polars is loaded; who sets it keeps what was set.
os.environ.setdefault(
    "_RJEM_MALLOC_CONF",
    f"narenas:{max(1, (os.cpu_count() or 1) // 2)},oversize_threshold:0,"
    "dirty_decay_ms:10000,muzzy_decay_ms:0",
)

if TYPE_CHECKING:
    from evalkit.api import compare, evaluate, evaluate_labels, evaluate_ratings, load
    from evalkit.api.evaluation import Evaluation
    from evalkit.api.figures import figures
    from evalkit.api.judges import evaluate_judges, evaluate_preferences, judge_plan
    from evalkit.api.logged import evaluate_logged
    from evalkit.api.stopping import EarlyStopping
    from evalkit.errors import EvalkitError
    from evalkit.jobs.baseline import baseline
    from evalkit.jobs.merge import merge
    from evalkit.jobs.partial import partial
    from evalkit.jobs.selection.api import select
    from evalkit.kinds.experiments.api import evaluate_experiment
    from evalkit.kinds.experiments.interleaving import evaluate_interleaving
    from evalkit.kinds.experiments.planning import plan_experiment
    from evalkit.kinds.experiments.surrogates import surrogates
    from evalkit.report import Report
    from evalkit.splits.api import split

__all__ = [
    "EarlyStopping",
    "EvalkitError",
    "Evaluation",
    "Report",
    "__version__",
    "baseline",
    "compare",
    "evaluate",
    "evaluate_experiment",
    "evaluate_interleaving",
    "evaluate_judges",
    "evaluate_labels",
    "evaluate_logged",
    "evaluate_preferences",
    "evaluate_ratings",
    "figures",
    "judge_plan",
    "load",
    "merge",
    "partial",
    "plan_experiment",
    "select",
    "split",
    "surrogates",
]

_HOMES = {
    "EarlyStopping": "evalkit.api.stopping",
    "EvalkitError": "evalkit.errors",
    "Evaluation": "evalkit.api.evaluation",
    "Report": "evalkit.report",
    "baseline": "evalkit.jobs.baseline",
    "compare": "evalkit.api",
    "evaluate": "evalkit.api",
    "evaluate_experiment": "evalkit.kinds.experiments.api",
    "evaluate_interleaving": "evalkit.kinds.experiments.interleaving",
    "evaluate_judges": "evalkit.api.judges",
    "evaluate_labels": "evalkit.api",
    "evaluate_logged": "evalkit.api.logged",
    "evaluate_preferences": "evalkit.api.judges",
    "evaluate_ratings": "evalkit.api",
    "figures": "evalkit.api.figures",
    "judge_plan": "evalkit.api.judges",
    "load": "evalkit.api",
    "merge": "evalkit.jobs.merge",
    "partial": "evalkit.jobs.partial",
    "plan_experiment": "evalkit.kinds.experiments.planning",
    "select": "evalkit.jobs.selection.api",
    "split": "evalkit.splits.api",
    "surrogates": "evalkit.kinds.experiments.surrogates",
}


def __getattr__(name: str) -> object:
    if name in _HOMES:
        from importlib import import_module

        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'evalkit' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
