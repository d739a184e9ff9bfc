"""Tables of an experiment, opened by the columns that somebody named, or that names suggest."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import polars as pl

from evalkit.sources import Guessing, Table, open_columns

from ._asked import Asked

EXPOSURES = ("unit", "variant", "time")
EVENTS = ("unit", "time", "kind", "value")


@dataclass(frozen=True, slots=True)
class Located:
    """A table, where it is and how it is read.

    Args:
        given: in memory, in place of the paths.
        columns: our name -> column or SQL.
        exclude: SQL of exposures whose units are left out.
    """

    path: tuple[str, ...] = ()
    format: str | None = None
    where: str | None = None
    given: object | None = None
    columns: Mapping[str, str] | None = None
    exclude: str | None = None


@dataclass(frozen=True, slots=True)
class Opened:
    """The tables of an experiment; `facts` are strata, then segments."""

    exposures: Table
    events: Table | None
    facts: tuple[str, ...]


def open_tables(
    asked: Asked, exposures: Located, events: Located | None, guessing: Guessing
) -> Opened:
    """Both tables; no row is read.

    Raises:
        DataError: columns are missing [missing-column], SQL that does not work [bad-sql], and
            what opening files raises.
    """
    statistics = asked.statistics
    facts = tuple(dict.fromkeys([*statistics.strata, *asked.segments]))
    named = dict(exposures.columns or {})
    if events is None:
        wanted = _ready(asked, named, facts)
        optional = ("unit",)
        opened = open_columns(
            "exposures", exposures, wanted, guessing, guessed=("variant", "unit"), optional=optional
        )
        return Opened(opened, None, facts)
    wanted = {key: named[key] for key in (*EXPOSURES, "triggered") if key in named}
    wanted |= {f"fact_{number}": name for number, name in enumerate(facts)}
    if statistics.cluster is not None:
        wanted[f"fact_{len(facts)}"] = statistics.cluster
    if exposures.exclude is not None:
        wanted["excluded"] = exposures.exclude
    first = open_columns("exposures", exposures, wanted, guessing, guessed=EXPOSURES)
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
    return Opened(first, second, facts)


def _ready(asked: Asked, named: Mapping[str, str], facts: Sequence[str]) -> dict[str, str]:
    wanted = {key: named[key] for key in ("unit", "variant", "triggered") if key in named}
    columns = [
        *(name for each in asked.measures for name in each.columns),
        *(name for listed in asked.before.values() for name in listed),
        *facts,
    ]
    if asked.statistics.cluster is not None:
        columns.append(asked.statistics.cluster)
    return wanted | {name: named.get(name, name) for name in dict.fromkeys(columns)}


def collected(table: Table) -> pl.DataFrame:
    """All rows of a ready-made table."""
    from evalkit.sources import reading

    with reading(table):
        return table.frame.collect(engine="streaming")
