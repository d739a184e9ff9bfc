"""What a run of ratings or labels is asked for, and how it begins."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from evalkit.config import Config
from evalkit.errors import MachineError
from evalkit.ids import KeyCollisionError
from evalkit.metrics import Request
from evalkit.planning.leakage import check_splits
from evalkit.planning.ledger import Clock
from evalkit.planning.tables import Given
from evalkit.report import Report
from evalkit.rows._comparing import check_resampled, compares
from evalkit.rows._kept import Keeping
from evalkit.rows._segments import UserSources, open_user_sources
from evalkit.sources import OwnTable, Table

SEEDS = range(1, 17)


@dataclass(frozen=True, slots=True)
class RowJob:
    """What a run is asked for.

    Args:
        requests: the metrics of the config, in their order.
        given: tables in memory, in place of the paths of the config, in its order.
        threads: kernels that run side by side.
        memory_limit: bytes that the process may take.
        sample: share of the users.
        per_user: keep the values of every user.
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
    per_user: bool
    per_user_folder: Path | None
    clock: Clock
    opened: Callable[[Sequence[Table]], None] | None = None

    @property
    def keeps(self) -> bool:
        """Whether values of users are needed, beyond what sums say."""
        return compares(self.config) or self.per_user

    def begin(self, own: Sequence[OwnTable], opened: Sequence[Table]) -> "UserSide":
        """Open what says something of users, and start the clock.

        Args:
            own: the tables of rows that may say so themselves; the first of those given.
            opened: every table of rows.
        Raises:
            RequestError: values of users are asked for, and no metric has any.
            DataError: a table, or a column of one, is not there.
        """
        check_resampled(self.config)
        check_splits(opened, self.config)
        held = [*self.given.rankings, *([None] * len(own))]
        sources = open_user_sources(
            self.config, list(zip(own, held, strict=False)), self.given.segments
        )
        keeping = None
        if self.per_user:
            keeping = Keeping.of(self.requests, opened[0].user_names, self.per_user_folder)
        if self.opened is not None:
            self.opened([*opened, *sources.inputs])
        self.clock.line.tables = list(opened)
        self.clock.start()
        return UserSide(sources, keeping)


@dataclass(frozen=True, slots=True)
class UserSide:
    """What is known of users beside their rows, and what is kept of them."""

    sources: UserSources
    keeping: Keeping | None


def try_seeds(report: Callable[[int], Report]) -> Report:
    """The report under the first seed of hashes under which no two ids share a key.

    Raises:
        MachineError: there is none [key-collision].
    """
    for seed in SEEDS:
        try:
            return report(seed)
        except KeyCollisionError:
            continue
    raise MachineError("ids share their keys under every seed", code="key-collision")
