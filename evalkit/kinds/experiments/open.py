"""Tables of an experiment, opened by the columns that somebody named, or that names suggest."""

from collections.abc import Mapping
from dataclasses import dataclass

import polars as pl

from evalkit.errors import DataError
from evalkit.sources import Guessing, Table, open_columns, reading
from evalkit.sources.ids import USER_KEY, DrawnShare

from ._asked import ExperimentRequest
from ._phases import PHASE

EXPOSURES = ("unit", "variant", "time")
EVENTS = ("unit", "time", "kind", "value")


@dataclass(frozen=True, slots=True)
class LocatedFiles:
    """A table, where it is and how it is read.

    Args:
        given: in memory, in place of the paths.
        columns: our name -> column or SQL.
        exclude: SQL of exposures whose units are left out.
    """

    path: tuple[str, ...] = ()
    format: str | None = None
    header: bool | None = None
    files: str | None = None
    where: str | None = None
    given: object | None = None
    columns: Mapping[str, str] | None = None
    exclude: str | None = None


@dataclass(frozen=True, slots=True)
class OpenedTables:
    """The tables of an experiment.

    Args:
        facts: names of strata, then of segments.
    """

    exposures: Table
    events: Table | None
    facts: tuple[str, ...]
    covariates: Table | None = None

    @property
    def all(self) -> list[Table]:
        """Every table there is."""
        return [e for e in (self.exposures, self.events, self.covariates) if e is not None]


def open_tables(
    asked: ExperimentRequest,
    exposures: LocatedFiles,
    events: LocatedFiles | None,
    covariates: LocatedFiles | None,
    guessing: Guessing,
    *,
    is_plan: bool = False,
) -> OpenedTables:
    """All tables; no row is read.

    Raises:
        DataError: columns are missing [missing-column], SQL that does not work [bad-sql], and
            what opening files raises.
    """
    statistics = asked.statistics
    strata = [name for name in statistics.strata if not asked.phases or name != PHASE]
    facts = {**{name: name for name in strata}, **asked.segments}
    named = dict(exposures.columns or {})
    if events is None:
        wanted = _ready(asked, named, facts)
        if exposures.exclude is not None:
            wanted["excluded"] = exposures.exclude
        optional: tuple[str, ...] = ("unit",)
        guessed: tuple[str, ...] = ("variant", "unit")
        if is_plan:
            guessed, optional = ("variant", "unit", "time"), ("variant", "unit", "time")
        opened = open_columns(
            "exposures", exposures, wanted, guessing, guessed=guessed, optional=optional
        )
        _check_flags(opened)
        return OpenedTables(opened, None, tuple(facts))
    wanted = {key: named[key] for key in (*EXPOSURES, "triggered") if key in named}
    wanted |= {f"fact_{number}": sql for number, sql in enumerate(facts.values())}
    if statistics.cluster is not None:
        wanted[f"fact_{len(facts)}"] = statistics.cluster
    if exposures.exclude is not None:
        wanted["excluded"] = exposures.exclude
    first = open_columns("exposures", exposures, wanted, guessing, guessed=EXPOSURES)
    _check_flags(first)
    own = {key: value for key, value in (events.columns or {}).items() if key in (*EVENTS, "event")}
    needs_value = any(each.of is not None for each in asked.sums.values()) or any(
        each.of_events for each in asked.measures
    )
    values = {each.of for each in asked.sums.values() if each.of is not None}
    if values - {"value"}:
        own["value"] = next(iter(sorted(values - {"value"})))
    if not needs_value:
        own.pop("value", None)
    keys = EVENTS if needs_value else EVENTS[:-1]
    second = open_columns("events", events, own, guessing, guessed=keys)
    third = None
    if covariates is not None:
        known = {key: value for key, value in (covariates.columns or {}).items() if key == "unit"}
        known |= {name: name for listed in asked.before.values() for name in listed}
        third = open_columns("covariates", covariates, known, guessing, guessed=("unit",))
    return OpenedTables(first, second, tuple(facts), third)


def _check_flags(exposures: Table) -> None:
    """Raise where `triggered` or `exclude` says neither true nor false [bad-type]."""
    for name, dtype in exposures.frame.collect_schema().items():
        can_be = dtype.is_numeric() or dtype in (pl.Boolean, pl.Null)
        if name in ("triggered", "excluded") and not can_be:
            key = name.replace("excluded", "exclude")
            message = f"{key} is {dtype}, neither true nor false"
            hint = f"write a comparison: {key} = \"COLUMN = 'yes'\""
            raise DataError(message, code="bad-type", at=exposures.at, hint=hint)


def _ready(
    asked: ExperimentRequest, named: Mapping[str, str], facts: Mapping[str, str]
) -> dict[str, str]:
    wanted = {key: named[key] for key in ("unit", "variant", "triggered") if key in named}
    columns = [
        *(name for each in asked.measures for name in each.columns),
        *(name for listed in asked.before.values() for name in listed),
    ]
    if asked.statistics.cluster is not None:
        columns.append(asked.statistics.cluster)
    found = {name: named.get(name, name) for name in dict.fromkeys(columns)}
    return {**wanted, **found, **facts}


def collected(table: Table, share: DrawnShare | None = None) -> tuple[pl.DataFrame, int]:
    """The rows of a ready-made table, all of them or those of a share; how many were read."""
    with reading(table):
        rows = table.frame.collect(engine="streaming")
    if share is None or "unit" not in rows.columns:
        return rows, rows.height
    known = rows.filter(pl.col("unit").is_not_null())
    ids = known.select(share.plan.select(USER_KEY))
    return known.filter(pl.Series(share.holds(ids))), rows.height
