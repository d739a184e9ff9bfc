"""The values of users, of one metric and many trials: a run for some trials at a time."""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl

from evalkit.aggregate.user_values.outcomes import as_measured
from evalkit.config import Config, RankingsTable, SegmentsSection, StatisticsSection
from evalkit.errors import DataError, MachineError
from evalkit.pipeline import run_config
from evalkit.report import Estimate, Report
from evalkit.sources.ids import USER_KEY, plan_ids, stable_hashes

Values = npt.NDArray[np.float64]
ROOM = 128 << 20  # for the values of the trials that are measured together
BYTES_A_USER = 64  # of one trial: ids, values, and their copies while they are sorted
MOST_TOGETHER = 16
ROWS_A_BLOCK = 1 << 14


@dataclass(slots=True)
class TrialValues:
    """What trials are worth, user by user.

    Args:
        models: the trials.
        values: float64[n_users, n_trials], NaN where a user counts for nothing.
        keys: uint64[n_users], stable hashes of the users' ids.
        estimates: of each trial each metric by its label, over all users.
        lacking: of each trial the users without a ranking.
    """

    models: list[str]
    values: Values
    keys: npt.NDArray[np.uint64]
    estimates: dict[str, dict[str, Estimate]]
    lacking: dict[str, int]

    @property
    def n_users(self) -> int:
        """Users of the truth, whether or not they count."""
        return self.keys.size

    def n_uncounted(self, order: Sequence[int]) -> int:
        """Users who count for none of some trials."""
        return sum(int(np.isnan(block).all(axis=1).sum()) for _, block in self._blocks(order))

    def _blocks(self, order: Sequence[int]) -> Iterator[tuple[int, Values]]:
        """The first row of each block of rows, and the values of some trials there."""
        for first in range(0, self.n_users, ROWS_A_BLOCK):
            yield first, self.values[first : first + ROWS_A_BLOCK, list(order)]

    def counted(self, order: Sequence[int], sign: float) -> tuple[Values, npt.NDArray[np.uint64]]:
        """The values of some trials, times a sign, and keys, of users who count for all of these.

        They are laid over the values that were here, which are gone: there is one copy of them.
        """
        kept, found = 0, np.empty_like(self.keys)
        for first, block in self._blocks(order):
            counts = ~np.isnan(block).any(axis=1)
            rows = sign * block[counts]
            self.values[kept : kept + len(rows), : len(order)] = rows
            found[kept : kept + len(rows)] = self.keys[first : first + ROWS_A_BLOCK][counts]
            kept += len(rows)
        return self.values[:kept, : len(order)], found[:kept]


@dataclass(frozen=True, slots=True)
class How:
    """How runs are made: as `pipeline.run_config` takes it."""

    threads: int | None = None
    memory_limit: int | None = None


def plain_config(config: Config, names: Sequence[str]) -> Config:
    """The config of trials: some metrics over all users, and no comparison."""
    level = config.statistics.level
    return config.model_copy(
        update={
            "metrics": config.metrics.model_copy(update={"names": tuple(names), "primary": ()}),
            "statistics": StatisticsSection(level=level),
            "segments": SegmentsSection.model_validate({}),
            "gates": (),
            "selection": None,
        }
    )


def measure_trials(
    config: Config, tables: Mapping[str, RankingsTable], how: How, share: float
) -> TrialValues:
    """The first metric of a plain config, of every user and trial.

    Args:
        share: of the users, drawn by a hash of their ids; smaller ones lie within larger ones.
    Raises:
        RequestError, DataError, MachineError: as `pipeline.run_config`; the values of users do not
            fit beside a run [memory-limit].
    """
    names, found = list(tables), None
    place, step, held = 0, 1, 0  # the first one tells how many users there are
    while place < len(names):
        some = names[place : place + step]
        own = config.model_copy(update={"rankings": tuple(tables[name] for name in some)})
        with beside_values(held):
            report = run_config(
                own,
                threads=how.threads,
                memory_limit=None if how.memory_limit is None else max(0, how.memory_limit - held),
                sample=None if share == 1 else share,
                per_user=True,
            )
        if found is None:
            found = _room_for(report, names)
            held = found.values.nbytes + BYTES_A_USER * found.n_users
        for name in some:
            _take(report, name, found)
        place += step
        step = max(1, min(MOST_TOGETHER, ROOM // (BYTES_A_USER * max(1, found.n_users))))
    assert found is not None
    return found


@contextmanager
def beside_values(held: int) -> Iterator[None]:
    """Say of a limit that is too small what else is held."""
    try:
        yield
    except MachineError as error:
        if error.code != "memory-limit" or not held:
            raise
        mib = -(-held >> 20)
        message = f"beside the values of all users and trials, {mib:,} MiB, {error.message}"
        hint = re.sub(r"\d+(?=MiB| << 20)", lambda found: str(int(found[0]) + mib), error.hint)
        raise MachineError(message, code=error.code, at=error.at, hint=hint) from error


def _room_for(report: Report, names: Sequence[str]) -> TrialValues:
    users = _users(report, names[0])
    plan = plan_ids("user", [("truth", "", dict(users.schema))], seed=1)
    keys = stable_hashes(users.with_columns(plan.key().alias(USER_KEY)), plan)
    values = np.full((users.height, len(names)), np.nan)
    return TrialValues(list(names), values, keys, {}, {})


def _users(report: Report, name: str) -> pl.DataFrame:
    kept = report.per_user_values
    assert kept is not None
    frame = kept.read(name, [])
    return frame.rename({each: f"user_{n}" for n, each in enumerate(kept.user_columns)})


def _take(report: Report, name: str, found: TrialValues) -> None:
    """Take over the values of one trial."""
    kept = report.per_user_values
    assert kept is not None
    label = report.labels[0]
    own = {each.metric: each for each in report.estimates if each.model == name}
    values = kept.read(name, [label])[label].to_numpy()
    if values.size != found.keys.size:
        message = f"trial {name} has values of {values.size:,} users, others of {found.keys.size:,}"
        hint = "the truth has changed while it was read: start again"
        raise DataError(message, code="different-truth", hint=hint)
    zeros = str(own[label].policies.get("zeros", "count"))
    found.values[:, found.models.index(name)] = as_measured(values, zeros)
    found.estimates[name] = own
    found.lacking[name] = report.counts.models[name].users_without_ranking
