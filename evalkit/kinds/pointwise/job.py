"""What a run of ratings or labels is asked for."""

from collections.abc import Sequence
from dataclasses import dataclass

from evalkit.aggregate.accumulators.resampling import resamples
from evalkit.config import Config
from evalkit.metrics import Request, is_ordered, over
from evalkit.planning.counters import Clock
from evalkit.planning.work import MeasureOptions


@dataclass(frozen=True, slots=True)
class RowJob:
    """A config, how it is to be measured, and the clock of the run, which learns its tables."""

    config: Config
    work: MeasureOptions
    clock: Clock

    @property
    def requests(self) -> Sequence[Request]:
        """The metrics of the config, in their order."""
        return self.config.requests

    @property
    def threads(self) -> int:
        """Kernels that run side by side."""
        return self.work.useful_threads

    @property
    def keeps(self) -> bool:
        """Whether values of users are needed, beyond what sums say."""
        statistics = self.config.statistics
        compares = statistics.baseline is not None or statistics.pairs == "all"
        compares |= any(map(is_ordered, self.requests))
        compares |= statistics.cluster is not None or resamples(statistics)
        return compares or bool(self.work.per_user)

    def over(self, what: str) -> list[Request]:
        """The metrics over rows, users or sessions."""
        return [each for each in self.requests if over(each) == what]
