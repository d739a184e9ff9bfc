"""What a run of ratings or labels is asked for."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from evalkit.config import Config
from evalkit.looks.resampling import resamples
from evalkit.metrics import Request, over
from evalkit.planning.ledger import Clock
from evalkit.planning.tables import Given
from evalkit.planning.work import Work
from evalkit.sources import Table


@dataclass(frozen=True, slots=True)
class RowJob:
    """What a run is asked for.

    Args:
        requests: the metrics of the config, in their order.
        given: tables in memory, in place of the paths of the config, in its order.
        threads: kernels that run side by side.
        memory_limit: bytes that the process may take.
        sample: share of the users.
        per_user: keep the values of every user: of all metrics, or of those named.
        per_user_folder: in a Parquet file there; None: in memory.
        clock: of the run, which learns its tables.
        opened: told of every table, before a row is read.
    """

    config: Config
    requests: Sequence[Request]
    given: Given
    threads: int
    memory_limit: int | None
    sample: float | None
    per_user: bool | Sequence[str]
    per_user_folder: Path | None
    clock: Clock
    opened: Callable[[Sequence[Table]], None] | None = None

    @classmethod
    def of(cls, config: Config, work: Work) -> "RowJob":
        """What is asked of a config."""
        return cls(
            config,
            config.requests,
            work.given,
            work.useful_threads,
            work.memory_limit,
            work.sample,
            work.keep_users,
            work.per_user_folder,
            work.clock(),
            work.opened,
        )

    @property
    def keeps(self) -> bool:
        """Whether values of users are needed, beyond what sums say."""
        return _compares(self.config) or bool(self.per_user)

    def over(self, what: str) -> list[Request]:
        """The metrics over rows, users or sessions."""
        return [each for each in self.requests if over(each) == what]


def _compares(config: Config) -> bool:
    """Whether values of users are needed, beyond what sums say."""
    statistics = config.statistics
    compares = statistics.baseline is not None or statistics.pairs == "all"
    return compares or statistics.cluster is not None or resamples(statistics)
