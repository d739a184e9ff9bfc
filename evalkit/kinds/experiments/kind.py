"""What is done with experiments on the street: open, measure a share, merge, conclude."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from evalkit.config import Config, is_laid_out, of_share, with_paths
from evalkit.errors import RequestError
from evalkit.planning.counters import Clock
from evalkit.planning.tables import Given
from evalkit.planning.work import Kind, MeasureOptions, ShareResult
from evalkit.report import Report, Warning_
from evalkit.sources import Guessing, Table
from evalkit.sources.ids import DrawnShare, IdPlan, plan_ids

from ._asked import ExperimentRequest, WrittenExperiment, read_asked
from ._phases import read_phases, with_phases
from ._units import Units
from .api import inputs_of, moment_of
from .declaration import OF_POLICIES
from .measure import read_units, report_of, said_of
from .merge import UnitsByShare
from .open import LocatedFiles, OpenedTables, open_tables

__all__ = ["KIND"]

OF_STATISTICS = (
    *("level", "correction", "family", "margin", "margin_relative", "baseline", "distribution"),
    *("variance", "relative", "alternative", "limits", "sample_ratio", "clusters", "cluster"),
    *("strata", "power", "search", "sequential"),
)


@dataclass(frozen=True, slots=True)
class OpenedExperiment:
    """A config with its tables, and what it asks."""

    config: Config
    asked: ExperimentRequest
    tables: OpenedTables

    @property
    def all(self) -> Sequence[Table]:
        """Every table."""
        return self.tables.all


def asked_of(config: Config) -> ExperimentRequest:
    """What a config asks."""
    section: Any = getattr(config, "experiment")  # noqa: B009  # the kind's own key
    written = config.statistics.model_fields_set
    statistics = {n: getattr(config.statistics, n) for n in OF_STATISTICS if n in written}
    if section.strata:
        statistics["strata"] = section.strata
    policies = config.policies.model_dump(include=set(OF_POLICIES))
    segments = {name: each.by for name, each in config.segments.named.items() if each.path is None}
    asked = read_asked(
        WrittenExperiment(
            name=config.name,
            variants=section.variants,
            metrics=[each.label for each in config.requests],
            sums={k: v if isinstance(v, str) else v.model_dump() for k, v in section.sums.items()}
            or None,
            before=section.before,
            window=section.window,
            until=moment_of(section.until),
            covariate_days=section.covariate_days,
            primary=config.primary if config.metrics.primary else (),
            guardrails=config.metrics.guardrails,
            lower_is_better=config.metrics.lower_is_better,
            policies=policies,
            segments=segments,
            statistics=statistics,
            profile=section.profile,
            has_events=getattr(config, "events", None) is not None,
            fills_sums=config.entry_point == "options",
        )
    )
    phases = read_phases([each.model_dump() for each in section.phases], moment_of)
    chosen = replace(asked.statistics, min_users=config.segments.min_users)
    return with_phases(replace(asked, statistics=chosen), phases)


def open_experiment(config: Config, given: Given) -> OpenedExperiment:
    """The logs, opened but not read."""
    asked = asked_of(config)
    section: Any = getattr(config, "experiment")  # noqa: B009
    held = [*given.rankings, None, None, None]
    tables: list[LocatedFiles | None] = []
    for name, frame in zip(("exposures", "events", "covariates"), held, strict=False):
        table: Any = getattr(config, name, None)
        if table is None:
            tables.append(None)
            continue
        columns = {k: v for k, v in table.columns.model_dump().items() if v is not None}
        exclude = section.exclude if name == "exposures" else None
        header = getattr(table, "header", None)
        where = (table.path, table.format, header, getattr(table, "files", None), table.where)
        tables.append(LocatedFiles(*where, frame, columns, exclude))
    exposures, events, known = tables
    assert exposures is not None
    guessing = Guessing(entry_point=config.entry_point)
    opened = open_tables(asked, exposures, events, known, guessing)
    return OpenedExperiment(config, asked, opened)


def measure_experiment(
    config: Config, measure_options: MeasureOptions, clock: Clock | None = None
) -> ShareResult:
    """Units of one share, with their columns."""
    number, n_shares = measure_options.share
    laid_out = is_laid_out(config)
    opened = open_experiment(
        of_share(config, number) if laid_out else config, measure_options.given
    )
    if measure_options.opened is not None:
        measure_options.opened(opened.all)
    clock = clock or measure_options.clock(opened.all)
    if not clock.is_running:
        clock.start()
    share, ids, is_split = None, {}, laid_out or measure_options.given.is_share
    if n_shares > 1 or "unit" in opened.tables.exposures.frame.collect_schema():
        plan = plan_units(opened.all)
        ids = {"unit": tuple(map(str, plan.dtypes))}
        if n_shares > 1 and not is_split:
            share = DrawnShare(number - 1, n_shares, plan)
    units = read_units(opened.asked, opened.tables, clock, measure_options, share)
    inputs = inputs_of(opened.all, units.counts)
    return ShareResult(
        with_paths(opened.config, config), ids, inputs, UnitsByShare.of(units, number)
    )


def plan_units(tables: Sequence[Table]) -> IdPlan:
    """How units of all tables become keys.

    Raises:
        RequestError: a table has no units, so that no share of them can be told [missing-column].
    """
    schemas = [(table, table.frame.collect_schema()) for table in tables]
    for table, schema in schemas:
        if "unit" not in schema:
            message = f"{table.role} names no unit, and shares are made of units"
            hint = 'columns = { unit = "user_id" }'
            raise RequestError(message, code="missing-column", at=table.at, hint=hint)
    named = [(table.role, table.at, {"unit": schema["unit"]}) for table, schema in schemas]
    return plan_ids("unit", named, seed=1)


def units_of_config(config: Config, threads: int | None) -> tuple[ExperimentRequest, Units]:
    """The units of a config's logs, of which nothing is compared."""
    opened, measure_options = open_experiment(config, Given()), MeasureOptions(threads=threads)
    clock = measure_options.clock(opened.all)
    clock.start()
    return opened.asked, read_units(opened.asked, opened.tables, clock, measure_options)


def conclude_experiment(
    share_result: ShareResult,
    measure_options: MeasureOptions,
    told: Sequence[Warning_],
    clock: Clock | None,
) -> Report:
    """The report of all shares."""
    clock = measure_options.started(clock)
    asked = replace(asked_of(share_result.config), earlier=tuple(measure_options.looks))
    keeps = measure_options.per_user is True
    said = said_of(asked, share_result.sums.units(asked), told, per_user=keeps)
    clock.stop("conclude")
    return report_of(asked, said, share_result.inputs, clock, measure_options, share_result.config)


def run_experiment(config: Config, measure_options: MeasureOptions) -> Report:
    """The report of all units at once."""
    clock = measure_options.started(None)
    return conclude_experiment(
        measure_experiment(config, measure_options, clock), measure_options, (), clock
    )


KIND = Kind(
    UnitsByShare,
    open_experiment,
    run_experiment,
    measure_experiment,
    conclude_experiment,
    on_spark=True,
    leaves_rows=lambda config, keeps_users: keeps_users,
)
