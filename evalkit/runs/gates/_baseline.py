"""What a gate compares with: a run that is there, a model of the same run, or nothing yet."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from evalkit.config import Config, GateRule
from evalkit.errors import DataError, EvalkitError, raise_all
from evalkit.metrics import has_user_values, is_made_of_users
from evalkit.report import Report
from evalkit.runs import load_run, set_aside
from evalkit.runs.history import LAST_PASSED, find_run, is_by_time


@dataclass(slots=True)
class Baselines:
    """Runs by the names that gates give them; each is read once, when it is first asked for.

    Args:
        paths: reference -> the run's directory; None where there is none yet.
        metrics: whose numbers are read.
    """

    paths: dict[str, Path | None]
    metrics: frozenset[str] = frozenset()
    _loaded: dict[Path, Report | None] = field(default_factory=dict)

    def is_run(self, reference: str) -> bool:
        """Whether the reference means a run; otherwise it is a model's name."""
        return reference in self.paths

    def report(self, reference: str) -> Report | None:
        """The run's report; None where there is no run, or one that is not as it was written."""
        path = self.paths[reference]
        if path is None:
            return None
        if path not in self._loaded:
            self._loaded[path] = _load(path, self.metrics)
        return self._loaded[path]

    def lack(self, reference: str) -> str:
        """That there is no report of a run, and why."""
        is_there = self.paths[reference] is not None
        lack = f"there is no {'whole ' * is_there}run {reference!r}{'' if is_there else ' yet'}"
        return lack if is_there else lack + first_of(reference)


def first_of(reference: str) -> str:
    """What becomes of a run that has nothing to compare with in the last that passed."""
    is_moved = reference == LAST_PASSED
    return " (this run will be it, unless a gate fails for another reason)" * is_moved


def _load(path: Path, metrics: frozenset[str]) -> Report | None:
    try:
        return load_run(path, metrics=metrics)
    except DataError as error:
        set_aside(str(path), error.message)
        return None


def find_baselines(
    rules: Sequence[GateRule],
    models: Sequence[str],
    folder: Path,
    *,
    name: str,
    before: str | None = None,
    elsewhere: bool = True,
    fetch: Callable[[str], object] | None = None,
) -> Baselines:
    """The runs that gates compare with.

    Args:
        models: those of the run, as far as they are known; a baseline of such a name is it.
        folder: of runs.
        name: of the job, whose runs `last` counts.
        before: the id of the run that is judged, where it is finished: `last` is the one before.
        elsewhere, fetch: as `history.find_run` takes them.
    Raises:
        RequestError: a baseline is neither a run nor a model [unknown-run]; all at once.
    """
    paths: dict[str, Path | None] = {}
    problems: list[EvalkitError] = []
    for reference in dict.fromkeys(rule.baseline for rule in rules):
        if reference is None or (reference in models and not is_by_time(reference)):
            continue
        if reference.startswith("("):  # (logging): what a report says beside its models
            continue
        try:
            paths[reference] = find_run(
                folder, reference, name=name, before=before, elsewhere=elsewhere, fetch=fetch
            )
        except EvalkitError as error:
            problems.append(error)
    raise_all(problems)
    return Baselines(paths, frozenset(rule.metric for rule in rules if rule.metric is not None))


def needs_values(config: Config, baselines: Baselines | None = None) -> tuple[str, ...]:
    """Metrics whose values of users the gates compare by user.

    Args:
        baselines: where they are known: the metrics alone that are compared with another run,
            whose values a later run will need.
    """
    return tuple(
        dict.fromkeys(
            rule.metric
            for rule in config.gates
            if rule.metric is not None
            and rule.max_drop is not None
            and rule.segment is None
            and _has_user_values(config, rule.metric)
            and (baselines is None or baselines.is_run(rule.baseline or ""))
        )
    )


def with_values(config: Config) -> set[str]:
    """Labels of the metrics that have values of users."""
    return {each.label for each in config.requests if _has_user_values(config, each.label)}


def _has_user_values(config: Config, metric: str) -> bool:
    """Whether the metric is made of values of users."""
    requests = config.read_metrics([metric])
    if config.kind == "rankings":
        return all(map(is_made_of_users, requests))
    return all(map(has_user_values, requests))
