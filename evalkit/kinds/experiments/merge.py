"""What a share of the units leaves behind: its units, one row each; put together, all of them.

Quantiles, caps and clusters follow units in the order of their values and are no sums, so a
partial keeps 8 bytes a column and unit. Sums over units are exact: the order of shares moves no
digit.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from evalkit.kernels.arrays import Flags, Floats
from evalkit.kinds.experiments import _units

from ._asked import ExperimentRequest
from ._logs import MOST_DAYS


@dataclass(slots=True)
class Kept:
    """The units of one share, in frames that a file can hold.

    Args:
        columns: a row a unit; what each column is says its name (`_name_of`).
        groups: names of strata and segments, in the order of their codes.
        days: names of days.
        until: when the logs of this share end.
        events: unit and value of single events, by column.
    """

    columns: pl.DataFrame
    groups: dict[str, list[str]]
    days: dict[str, list[str]]
    events: dict[str, pl.DataFrame]
    counts: dict[str, int]
    crossed: dict[str, int]
    excluded: dict[str, int]
    until: int | None

    def coded(self, groups: Mapping[str, Sequence[str]]) -> pl.DataFrame:
        """The units, with codes of groups as all shares together have them."""
        codes = []
        for name, texts in self.groups.items():
            places = np.array([*(groups[name].index(text) for text in texts), -1], dtype=np.int32)
            column = _name_of("group", None, name)
            codes.append(pl.Series(column, places[self.columns[column].to_numpy()]))
        return self.columns.with_columns(codes)


@dataclass(slots=True)
class UnitsByShare:
    """Units of some shares, by share from 1."""

    shares: dict[int, Kept]

    @classmethod
    def of(cls, units: _units.Units, share: int) -> "UnitsByShare":
        """Those of one share."""
        found: dict[str, object] = {"key": units.keys, "variant": units.variants}
        for (name, window), values in units.columns.items():
            found[_name_of("column", window, name)] = values
        for name, listed in units.before.items():
            found |= {_name_of("before", i, name): each for i, each in enumerate(listed)}
        found |= {_name_of("group", None, name): e.codes for name, e in units.groups.items()}
        if units.clusters is not None:
            found["cluster"] = units.clusters
        if units.triggered is not None:
            found["triggered"] = units.triggered
        if units.firsts is not None:
            found["first"] = units.firsts
        for days in [*units.days.values()][:1]:  # both ways are of the same halves
            for name, halves in days.halves.items():
                found |= {_name_of("half", place, name): e for place, e in enumerate(halves)}
        if units.ids is not None:
            found["id"] = units.ids["unit"]
        kept = Kept(
            pl.DataFrame(found),
            {name: list(each.names) for name, each in units.groups.items()},
            {way: list(each.names) for way, each in units.days.items()},
            {
                _name_of("event", window, name): pl.DataFrame({"unit": e.units, "value": e.values})
                for (name, window), e in units.events.items()
            },
            dict(units.counts),
            dict(units.crossed),
            dict(units.excluded),
            units.until,
        )
        return cls({share: kept})

    def merge(self, other: "UnitsByShare") -> None:
        """Take over the units of other shares."""
        self.shares.update(other.shares)

    def units(self, asked: ExperimentRequest) -> _units.Units:
        """All of them together."""
        parts = [self.shares[share] for share in sorted(self.shares)]
        groups = {
            name: sorted({text for part in parts for text in part.groups[name]})
            for name in parts[0].groups
        }
        whole = pl.concat([part.coded(groups) for part in parts], how="diagonal")
        found = {name: _parts_of(name) for name in whole.columns}
        firsts = whole["first"].to_numpy() if "first" in found else None
        counts = _added([part.counts for part in parts])
        opened: dict[int, Flags] = {}
        until = None
        if firsts is not None:  # what no share knows by itself: where all logs end
            until = max(part.until or 0 for part in parts)
            opened, counts["units_with_open_window"] = _units.open_windows(asked, firsts, until)
        before: dict[str, list[str]] = {}
        for column, (role, _, name) in found.items():
            if role == "before":
                before.setdefault(name, []).append(column)
        return _units.Units(
            keys=whole["key"].to_numpy(),
            names=asked.names,
            variants=whole["variant"].to_numpy(),
            columns={
                (name, window): _floats(whole, column)
                for column, (role, window, name) in found.items()
                if role == "column"
            },
            before={n: tuple(_floats(whole, each) for each in e) for n, e in before.items()},
            open=opened,
            groups={
                name: _units.GroupedUnits(
                    whole[_name_of("group", None, name)].to_numpy(), tuple(texts)
                )
                for name, texts in groups.items()
            },
            clusters=whole["cluster"].to_numpy() if "cluster" in found else None,
            triggered=whole["triggered"].to_numpy() if "triggered" in found else None,
            counts=counts,
            crossed=_added([part.crossed for part in parts]),
            excluded=_added([part.excluded for part in parts]),
            events=_events_of(parts),
            days={}
            if firsts is None or until is None
            else _units.days_of(
                _halves_of(whole),
                {
                    way: _names_of([e.days.get(way, []) for e in parts if e.columns.height])
                    for way in ("day", "date")
                },
                *(firsts, until, asked.window or 0),
            ),
            firsts=firsts,
            until=until,
            ids=whole.select(pl.col("id").alias("unit")) if "id" in found else None,
        )


def _floats(whole: pl.DataFrame, column: str) -> Floats:
    """A column; a share in which no unit has a covariate leaves it out."""
    return np.array(whole[column].fill_null(0.0), dtype=np.float64)


def _names_of(listed: Sequence[Sequence[str]]) -> list[str]:
    """The days of all shares, none where one has too many, or all together do."""
    if not listed or not all(listed):
        return []
    days = [day for names in listed for day in (names[0], names[-1])]
    if days[0].isdigit():
        return list(listed[0])
    first, last = (np.datetime64(each, "D") for each in (min(days), max(days)))
    n_days = int((last - first).astype(int)) + 1
    return (first + np.arange(n_days)).astype(str).tolist() if n_days <= MOST_DAYS else []


def _halves_of(whole: pl.DataFrame) -> dict[str, _units.Halves]:
    """Halves of days; a share that ended early has fewer."""
    places: dict[str, list[int]] = {}
    for role, place, name in map(_parts_of, whole.columns):
        if role == "half" and place is not None:
            places.setdefault(name, []).append(place)
    return {
        name: np.stack([whole[_name_of("half", n, name)].fill_null(0) for n in sorted(own)])
        for name, own in places.items()
    }


def _events_of(parts: Sequence[Kept]) -> dict[_units.Column, _units.Events]:
    begins = np.cumsum([0, *(part.columns.height for part in parts)])
    found: dict[_units.Column, _units.Events] = {}
    for key in parts[0].events:
        _, window, name = _parts_of(key)
        frames = [part.events[key] for part in parts]
        units = [e["unit"].to_numpy() + n for e, n in zip(frames, begins, strict=False)]
        values = [each["value"].to_numpy() for each in frames]
        found[name, window] = _units.Events(np.concatenate(units), np.concatenate(values))
    return found


def _name_of(role: str, number: int | None, name: str = "") -> str:
    return f"{role}:{'' if number is None else number}:{name}"


def _parts_of(column: str) -> tuple[str, int | None, str]:
    role, _, rest = column.partition(":")
    number, _, name = rest.partition(":")
    return role, int(number) if number else None, name


def _added(counts: list[dict[str, int]]) -> dict[str, int]:
    return {name: sum(each.get(name, 0) for each in counts) for name in counts[0]}
