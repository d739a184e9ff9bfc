"""An experiment from opened tables to the report."""

from evalkit.errors import RequestError
from evalkit.ids import Share
from evalkit.planning.ledger import Clock, ProgressLine, input_of, versions
from evalkit.planning.work import Work, try_seeds
from evalkit.report import Counts, Input, ModelCounts, Report, TruthCounts
from evalkit.report.entries import StatisticsUsed
from evalkit.runs import new_run_id, run_key
from evalkit.version import VERSION

from ._asked import Asked
from ._concluding import conclude, spell_counts
from ._exposures import Logs
from ._logs import read_logs
from ._measuring import measure_all
from ._opening import Opened, collected
from ._units import Units, check_sums, read_ready


def run_asked(
    asked: Asked,
    opened: Opened,
    *,
    threads: int | None = None,
    memory_limit: int | None = None,
    per_user: bool = False,
) -> Report:
    """The report of an experiment."""
    work = Work(threads=threads, memory_limit=memory_limit)
    clock = Clock(ProgressLine(None, []))
    clock.start()
    units = read_units(asked, opened, clock, work.useful_threads)
    return report_of(asked, opened, units, clock, work.useful_threads)


def read_units(
    asked: Asked, opened: Opened, clock: Clock, threads: int, share: Share | None = None
) -> Units:
    """All units of the tables, or those of a share."""
    if opened.events is None:
        over = next((each for each in asked.measures if each.of_events), None)
        if over is not None:
            raise RequestError(
                f"{over.label} is over events, and there are none",
                code="conflicting-keys",
                at="metrics",
                hint="give exposures and events, or leave over='events' out",
            )
        found = read_ready(collected(opened.exposures), asked, opened.facts, opened.exposures.at)
        clock.stop("units")
        return found
    check_sums(asked, list(asked.sums))
    tables = (opened.exposures, opened.events, opened.facts)
    logs = Logs(asked, *tables, clock, threads, share)
    return try_seeds(lambda seed: read_logs(logs, seed))


def report_of(asked: Asked, opened: Opened, units: Units, clock: Clock, threads: int) -> Report:
    """What the units say, with what was read and how long it took."""
    numbers = list(measure_all(units, asked))
    found = conclude(units, asked, numbers)
    clock.stop("conclude")
    inputs: list[Input] = [input_of(opened.exposures, units.counts["exposure_rows"], "exposures")]
    if opened.events is not None:
        inputs.append(input_of(opened.events, units.counts["event_rows"], "events"))
    statistics = asked.statistics
    rows = sum(each.rows for each in inputs)
    models = {
        name: ModelCounts(
            rows=int((units.variants == arm).sum()),
            rows_used=int((units.variants == arm).sum()),
            rows_dropped={},
            users=int((units.variants == arm).sum()),
            users_without_ranking=0,
            users_without_truth=0,
            duplicates=0,
            duplicates_searched="none",
            seen_in_train=None,
            bad_ranks=0,
            ties=0,
            depth=0,
        )
        for arm, name in enumerate(units.names)
    }
    return Report(
        evalkit=VERSION,
        run_id=new_run_id(clock.started),
        run_key=run_key(
            {"experiment": repr(asked)},
            [each.fingerprint for each in inputs],
            {"evalkit": VERSION},
            [],
        ),
        name=asked.name,
        profile=asked.profile,
        inputs=tuple(inputs),
        counts=Counts(TruthCounts(rows, rows, {}, units.n, 0, units.n), models),
        estimates=found.estimates,
        comparisons=found.comparisons,
        checks=found.checks,
        findings=found.findings,
        graphs=found.graphs,
        row_counts=spell_counts(units.counts),
        primary=asked.primary,
        statistics=StatisticsUsed(
            level=statistics.level,
            method="normal",
            test="t",
            correction=statistics.correction,
            family=statistics.family,
            n_tests=found.n_tests,
            baseline=asked.baseline,
            margin=statistics.margin,
            replicates=None,
            seed=None,
            power=statistics.power,
        ),
        meta=clock.meta(rows, threads, versions()),
        warnings=found.warnings,
    )
