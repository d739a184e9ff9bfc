"""When to stop training: epochs compared with the best one, user by user."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from evalkit.config import build_statistics, hinted
from evalkit.errors import RequestError
from evalkit.planning.work import MeasureOptions
from evalkit.report import Report, Warning_
from evalkit.runs.history.compare import compare_runs


@dataclass(frozen=True, slots=True)
class Epoch:
    """What an epoch is worth: its value, and the difference to the best one before, with limits."""

    number: int
    value: float
    best: int
    delta: float | None = None
    low: float | None = None
    high: float | None = None
    verdict: str = "first"


class EarlyStopping:
    """Says when no epoch has become clearly better than the best one for `patience` epochs.

    An epoch is the best where it is better than the best before it, by the users whom both have,
    at the level `1 - (1 - level) / (epochs - 1)`: all epochs together find a gain that there is
    not with a probability of at most `1 - level` (Bonferroni).

    Args:
        metric: that decides, as the report names it.
        epochs: how many there will be at most, said before the first.
        patience: epochs without a gain after which training stops.
    Example:
        >>> from evalkit import Evaluation
        >>> truth = {user: [user] for user in range(100)}
        >>> stopping = EarlyStopping("recall@1", epochs=10, patience=2)
        >>> for n_right in (10, 60, 61, 60):
        ...     evaluation = Evaluation(truth, metrics=["recall@1"], per_user=True)
        ...     evaluation.update(range(100), [[u if u < n_right else -1] for u in range(100)])
        ...     stops = stopping.update(evaluation.compute())
        >>> stops, stopping.best, [epoch.verdict for epoch in stopping.history]
        (True, 2, ['first', 'better', 'cannot tell', 'cannot tell'])
    """

    @hinted
    def __init__(self, metric: str, *, epochs: int, patience: int = 3, level: float = 0.95) -> None:
        if min(epochs, patience) < 1:
            message = f"epochs={epochs!r} and patience={patience!r} are not 1 or more"
            raise RequestError(message, code="bad-value", at="epochs", hint="epochs=10, patience=3")
        build_statistics({"level": level})  # which refuses what is no level
        self.metric, self.epochs, self.patience = metric, epochs, patience
        self.history: list[Epoch] = []
        self._best: Report | None = None
        self._chosen = build_statistics({"level": 1.0 - (1.0 - level) / max(1, epochs - 1)})

    @property
    def best(self) -> int:
        """The number of the best epoch so far, from 1; 0 before the first."""
        return self.history[-1].best if self.history else 0

    def update(self, report: Report) -> bool:
        """Takes over the next epoch; whether training should stop.

        Args:
            report: of an evaluation with `per_user=True`.
        Raises:
            RequestError: it has no values of users [per-user-off], there are more epochs than were
                declared [more-epochs], or it has no such metric [metric-not-in-report].
        """
        number = len(self.history) + 1
        if number > self.epochs:
            message = f"epoch {number:,} of {self.epochs:,} declared ones"
            hint = "declare as many as there may be, before the first: epochs=..."
            raise RequestError(message, code="more-epochs", hint=hint)
        if report.per_user_values is None:
            message = "the report holds no values of users, by which epochs are compared"
            raise RequestError(message, code="per-user-off", hint="Evaluation(..., per_user=True)")
        value = report.value(self.metric)
        if self._best is None or math.isnan(self._best.value(self.metric)):  # worth nothing
            found = Epoch(number, value, number)
        else:
            found = self._compared(number, value, self._best, report)
        if found.best == number:
            self._best = report
        self.history.append(found)
        return number == self.epochs or number - found.best >= self.patience

    @property
    def report(self) -> Report:
        """The report of the best epoch, which says that it was chosen on this data.

        Raises:
            RequestError: there was no epoch [no-rankings].
        """
        if self._best is None:
            raise RequestError("no epoch has come", code="no-rankings", hint="call update(report)")
        message = (
            f"epoch {self.best} of {len(self.history)} was chosen on this data, so its numbers are "
            "too good; measure it once on a test part"
        )
        warned = (*self._best.warnings, Warning_("chosen-on-this-data", message))
        return replace(self._best, warnings=warned)

    def _compared(self, number: int, value: float, best: Report, report: Report) -> Epoch:
        files, threads = _files_of(report), MeasureOptions().useful_threads
        pair = [("best", best), (f"epoch {number}", report)]
        compared = compare_runs(
            pair, self._chosen, metrics=[self.metric], metric_files=files, threads=threads
        )
        (pair_found,) = compared.comparisons
        is_better = pair_found.verdict == "better"
        limits = pair_found.delta, pair_found.low, pair_found.high
        return Epoch(number, value, number if is_better else self.best, *limits, pair_found.verdict)


def _files_of(report: Report) -> Sequence[str]:
    section = (report.config or {}).get("metrics")
    files = section.get("files") if isinstance(section, dict) else None
    return list(files or ())
