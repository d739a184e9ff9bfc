"""The values of users, of one metric and many trials: a run for some trials at a time."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl

from evalkit.config import Config, RankingsTable, SegmentsSection, StatisticsSection
from evalkit.errors import DataError
from evalkit.ids import USER_KEY, plan_ids, stable_hashes
from evalkit.report import Estimate, Report
from evalkit.street import run_config
from evalkit.values.settle import as_measured

Values = npt.NDArray[np.float64]
ROOM = 512 << 20  # for the values of the trials that are measured together
BYTES_A_USER = 64  # of one trial: ids, values, and their copies while they are sorted
MOST_TOGETHER = 16


@dataclass(slots=True)
class Measured:
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


@dataclass(frozen=True, slots=True)
class How:
    """How runs are made: as `street.run_config` takes it."""

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
) -> Measured:
    """The first metric of a plain config, of every user and trial.

    Args:
        share: of the users, drawn by a hash of their ids; smaller ones lie within larger ones.
    Raises:
        RequestError, DataError, MachineError: as `street.run_config`.
    """
    names, found = list(tables), None
    place, step = 0, 1  # the first one tells how many users there are
    while place < len(names):
        some = names[place : place + step]
        own = config.model_copy(update={"rankings": tuple(tables[name] for name in some)})
        report = run_config(
            own,
            threads=how.threads,
            memory_limit=how.memory_limit,
            sample=None if share == 1 else share,
            per_user=True,
        )
        found = found or _room_for(report, names)
        for name in some:
            _take(report, name, found)
        place += step
        n_users = max(1, found.values.shape[0])
        step = max(1, min(MOST_TOGETHER, ROOM // (BYTES_A_USER * n_users)))
    assert found is not None
    return found


def _room_for(report: Report, names: Sequence[str]) -> Measured:
    users = _users(report, names[0])
    plan = plan_ids("user", [("truth", "", dict(users.schema))], seed=1)
    keys = stable_hashes(users.with_columns(plan.key().alias(USER_KEY)), plan)
    values = np.full((users.height, len(names)), np.nan)
    return Measured(list(names), values, keys, {}, {})


def _users(report: Report, name: str) -> pl.DataFrame:
    kept = report.per_user_values
    assert kept is not None
    frame = kept.read(name, [])
    return frame.rename({each: f"user_{n}" for n, each in enumerate(kept.user_columns)})


def _take(report: Report, name: str, found: Measured) -> None:
    """Take over the values of one trial."""
    kept = report.per_user_values
    assert kept is not None
    label = report.labels[0]
    own = {each.metric: each for each in report.estimates if each.model == name}
    values = kept.read(name, [label])[label].to_numpy()
    if values.size != found.keys.size:
        raise DataError(
            f"trial {name} has values of {values.size:,} users, others of {found.keys.size:,}",
            code="different-truth",
            hint="the truth has changed while it was read: start again",
        )
    zeros = str(own[label].policies.get("zeros", "count"))
    found.values[:, found.models.index(name)] = as_measured(values, zeros)
    found.estimates[name] = own
    found.lacking[name] = report.counts.models[name].users_without_ranking
