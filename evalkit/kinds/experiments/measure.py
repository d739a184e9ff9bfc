"""From opened tables to units, and from what they say to the report."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from evalkit import report
from evalkit.config import Config
from evalkit.errors import MachineError, RequestError
from evalkit.inference.conclude import Inference
from evalkit.kernels.arrays import Floats
from evalkit.kernels.memory import fits, give_back_early, room_to_compile
from evalkit.kinds.pointwise.passes import MANY_ROWS, MOST_PASSES, NAMED_PASSES, MemoryBudget
from evalkit.planning.counters import Clock, versions
from evalkit.planning.record import RunResults, make_report
from evalkit.planning.survey import Survey
from evalkit.planning.work import MeasureOptions
from evalkit.report.version import VERSION
from evalkit.runs import new_run_id, run_key
from evalkit.sources.ids import DrawnShare, PassShare, try_seeds

from ._asked import ExperimentRequest
from ._exposures import Logs
from ._expressions import UnitMeasure
from ._logs import bytes_of_days, plan_of, read_logs
from ._measuring import capped, eligible, key_of, measure_all
from ._statistics import Statistics
from ._units import Units, check_events, check_sums, check_units, columns_of, read_ready
from .conclude import READ, Conclusion, conclude, spell_counts
from .merge import UnitsByShare
from .metrics.of_units import count, fraction
from .open import OpenedTables, collected

BYTES_ON_THE_WAY = 100 << 20  # row groups of two logs, their units as keys
BYTES_A_UNIT = 80  # of the table, and of what is known of a unit while logs are read
BYTES_AN_EVENT = 48  # of the hashes by which equal events are told, while their table grows
BYTES_OF_TEXT = 200 << 20  # of files whose rows nobody has counted, such as CSV
BYTES_OF_HASHING = 50 << 20  # row groups whose rows are hashed whole
MORE_UNITS = 1.04  # than a sample of their keys says: five standard errors


@dataclass(frozen=True, slots=True)
class Said:
    """What a report says, whatever it was made of."""

    found: Conclusion
    units: Mapping[str, int]
    row_counts: Mapping[str, int]
    per_user: report.PerUser | None = None


def read_units(
    asked: ExperimentRequest,
    opened: OpenedTables,
    clock: Clock,
    work: MeasureOptions,
    share: DrawnShare | None = None,
) -> Units:
    """All units of the tables, or those of a share."""
    if opened.events is None:
        over = next((each for each in asked.measures if each.of_events), None)
        if over is not None:
            message = f"{over.label} is over events, and there are none"
            hint = "give exposures and events, or leave over='events' out"
            raise RequestError(message, code="conflicting-keys", at="metrics", hint=hint)
        rows, n_read = collected(opened.exposures, share)
        ready = read_ready(rows, asked, opened.facts, opened.exposures.at, n_read)
        clock.stop("units")
        return ready
    check_sums(asked, list(asked.sums))
    tables = (opened.exposures, opened.events, opened.facts)
    keeps = work.per_user is True
    at_once = work.useful_threads
    logs = Logs(asked, *tables, clock, at_once, share, keeps, opened.covariates)
    n_passes = _passes(logs, work) if share is None else 1
    if n_passes == 1:
        units = try_seeds(lambda seed: read_logs(logs, seed))
        if share is None and work.share == (1, 1):
            check_events(units, asked, opened.events)
        return units
    give_back_early()
    found: UnitsByShare | None = None
    for number in range(n_passes):
        own = replace(logs, share=PassShare(number, n_passes))
        part = UnitsByShare.of(try_seeds(partial(read_logs, own)), number + 1)
        if found is None:
            found = part
        else:
            found.merge(part)
    assert found is not None
    units = found.units(asked)
    of_all = [name for name in READ if name in units.counts]
    read = {name: units.counts[name] // n_passes for name in of_all}
    return replace(units, counts={**units.counts, **read})


def _passes(logs: Logs, work: MeasureOptions) -> int:
    """Into how many passes over the logs units are split, so that a memory limit is held.

    Every exposure may be a unit: they are counted where that many would not fit at once. What stays
    of a unit are its columns, which no split makes fewer.

    Raises:
        MachineError: no split holds the limit [memory-limit].
    """
    if work.memory_limit is None:
        return 1
    n_sums = 2 * len(columns_of(logs.asked))  # covariates double them
    of_days = bytes_of_days(logs.asked)
    limit, threads = work.memory_limit, work.useful_threads
    tables, of_equal = (logs.exposures, logs.events), 0
    hints = [table.n_rows_hint() for table in tables]
    sizes = [table.count_rows() if n is None else n for table, n in zip(tables, hints, strict=True)]
    on_the_way = BYTES_ON_THE_WAY
    if None in hints:
        on_the_way += int(BYTES_OF_TEXT * min(1.0, sum(sizes) / MANY_ROWS))
    if logs.asked.policy("equal_events") == "once":
        of_equal, on_the_way = sizes[1] * BYTES_AN_EVENT, on_the_way + BYTES_OF_HASHING

    def needs(n_units: int) -> tuple[int, int]:
        kept = on_the_way + n_units * (32 + 8 * n_sums + of_days)
        at_work = n_units * (BYTES_A_UNIT + 16 * n_sums + of_days) + of_equal
        return MemoryBudget(limit, threads, kept=kept).taken(max(sizes)), at_work

    n_units = sizes[0]
    if not fits(sum(needs(n_units)), limit):
        n_users = Survey.of(logs.exposures, plan_of(logs, 0)).n_users
        n_units = min(n_units, int(MORE_UNITS * n_users))
    taken, at_work = needs(n_units)
    if fits(taken + at_work, limit):
        return 1
    taken += room_to_compile()
    left = limit - taken
    if left * MOST_PASSES < at_work:
        needed = (taken + at_work // NAMED_PASSES >> 20) + 1
        raise MachineError(
            f"{n_units:,} units need about {needed:,} MiB, the limit is {limit >> 20:,} MiB",
            code="memory-limit",
            hint=f"give --memory-limit {needed}MiB, or measure shares: evalkit partial CONFIG "
            "--share I/N",
        )
    return -(-at_work // left)


def said_of(
    asked: ExperimentRequest,
    units: Units,
    told: Sequence[report.Warning_] = (),
    *,
    per_user: bool = False,
) -> Said:
    """What the units say."""
    check_units(units, asked)
    found = conclude(units, asked, list(measure_all(units, asked)))
    return Said(
        replace(found, warnings=(*told, *found.warnings)),
        {name: int((units.variants == arm).sum()) for arm, name in enumerate(units.names)},
        spell_counts(units.counts),
        values_of(units, asked) if per_user else None,
    )


def values_of(units: Units, asked: ExperimentRequest) -> report.PerUser | None:
    """Every unit's value of every metric but ratios, where the ids of units are known."""
    import polars as pl

    if units.ids is None:
        return None
    columns: dict[str, pl.Series] = {}
    for measure in asked.measures:
        if measure.kind != "ratio" and not measure.of_events:
            values = _values_of(units, asked, measure)
            columns[measure.label] = pl.Series(values, nan_to_null=True)
    whole = units.ids.with_columns(**columns)
    frames = {
        name: whole.filter(pl.Series(units.variants == arm)).sort("unit")
        for arm, name in enumerate(units.names)
    }
    return report.PerUser(("unit",), tuple(columns), frames)


def _values_of(units: Units, asked: ExperimentRequest, measure: UnitMeasure) -> Floats:
    """What each unit adds to a metric of one column; NaN where its window is open."""
    keep = eligible(units, asked, measure)
    values = units.columns[key_of(units, asked, measure, measure.columns[0])].copy()
    values[keep] = capped(values[keep], measure)[0]
    if measure.kind == "fraction":
        values = fraction.function(values, measure.above)
    if measure.kind == "count":
        values = count.function(values)
    return np.where(keep, values, np.nan)


def used_of(statistics: Statistics, n_tests: int, baseline: str) -> report.StatisticsUsed:
    """How comparisons were made."""
    return report.StatisticsUsed(
        level=statistics.level,
        method="normal",
        test="t",
        correction=statistics.correction,
        family=statistics.family,
        n_tests=n_tests,
        baseline=baseline,
        margin=statistics.margin,
        power=statistics.power,
    )


def report_of(
    asked: ExperimentRequest,
    said: Said,
    inputs: Sequence[report.Input],
    clock: Clock,
    work: MeasureOptions,
    config: Config | None = None,
) -> report.Report:
    """What was said, with what was read and how long it took."""
    found, rows, n = said.found, sum(each.rows for each in inputs), sum(said.units.values())
    models = {
        name: report.ModelCounts(size, size, {}, size, 0, 0, 0, "none", None, 0, 0, 0)
        for name, size in said.units.items()
    }
    counts = report.Counts(report.TruthCounts(rows, rows, {}, n, 0, n), models)
    used = used_of(asked.statistics, found.n_tests, asked.baseline)
    meta = clock.meta(rows, work.useful_threads, versions())
    own: dict[str, object] = {"row_counts": said.row_counts, "primary": asked.primary}
    own |= {"checks": found.checks, "findings": found.findings, "per_user_values": said.per_user}
    if config is not None:
        inference = Inference(found.estimates, found.comparisons, (), (), (), used, ())
        results = RunResults(counts, inference, found.warnings, graphs=found.graphs)
        made = make_report(config, results, inputs, meta, clock=clock, sample=work.sample)
        return replace(made, **own)  # type: ignore[arg-type]
    prints = [each.fingerprint for each in inputs]
    return report.Report(
        evalkit=VERSION,
        run_id=new_run_id(clock.started),
        run_key=run_key({"experiment": repr(asked)}, prints, {"evalkit": VERSION}, []),
        name=asked.name,
        profile=asked.profile,
        inputs=tuple(inputs),
        counts=counts,
        estimates=found.estimates,
        comparisons=found.comparisons,
        graphs=found.graphs,
        statistics=used,
        meta=meta,
        warnings=found.warnings,
        **own,  # type: ignore[arg-type]
    )
