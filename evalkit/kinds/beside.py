"""Logged feedback and rankings in one config: both are measured, and stand in one report."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from evalkit.config import Config
from evalkit.kinds.logged.conclude import KIND as LOGGED
from evalkit.kinds.logged.merge import LoggedSums
from evalkit.kinds.logged.open import LoggedTables
from evalkit.kinds.rankings.kind import KIND as RANKINGS
from evalkit.kinds.rankings.merge import RankingSums
from evalkit.planning.counters import Clock
from evalkit.planning.record import key_of_inputs
from evalkit.planning.tables import Given, Tables, open_tables
from evalkit.planning.work import Kind, MeasureOptions, ShareResult, in_one_share
from evalkit.report import Report, Warning_
from evalkit.sources import Table

OF_RANKINGS = "rankings "  # before the ids that keys of rankings were made of


@dataclass(slots=True)
class BothSums:
    """What a share leaves of the log, and of the rankings held against the truth."""

    logged: LoggedSums
    rankings: RankingSums

    def merge(self, other: "BothSums") -> None:
        """Take over the sums of other users."""
        self.logged.merge(other.logged)
        self.rankings.merge(other.rankings)


@dataclass(frozen=True, slots=True)
class BothTables:
    """The tables of both."""

    config: Config
    logged: LoggedTables
    rankings: Tables

    @property
    def all(self) -> list[Table]:
        """Every table with rows of its own."""
        return [*self.logged.all, *self.rankings.all]


def open_both(config: Config, given: Given) -> BothTables:
    """Every table; no row is read."""
    logged = LOGGED.open(config.part(of_rankings=False), given)
    rankings = open_tables(config.part(of_rankings=True), given.beside or Given())
    return BothTables(config, logged, rankings)  # type: ignore[arg-type]


def measure_both(config: Config, work: MeasureOptions) -> ShareResult:
    """One share of the users of both."""
    logged = LOGGED.measure(config.part(of_rankings=False), work)
    in_memory = replace(work, given=work.given.beside or Given(), per_user_folder=None)
    rankings = RANKINGS.measure(config.part(of_rankings=True), in_memory)
    beside = {f"{OF_RANKINGS}{name}": types for name, types in rankings.ids.items()}
    inputs = [*logged.inputs, *rankings.inputs]
    read = {name: getattr(rankings.config, name) for name in ("rankings", "truth", "train")}
    return ShareResult(
        config.model_copy(update=read),
        {**logged.ids, **beside},
        inputs,
        BothSums(logged.sums, rankings.sums),
        rankings.keeps_parts,
    )


def conclude_both(
    left: ShareResult, work: MeasureOptions, told: Sequence[Warning_], clock: Clock | None
) -> Report:
    """One report: estimators and metrics of the same models, by the same segments."""
    config, sums = left.config, left.sums
    n_logged = sum(each.role in ("logged", "targets") for each in left.inputs)
    of_log = replace(
        left, config=config.part(of_rankings=False), inputs=left.inputs[:n_logged], sums=sums.logged
    )
    ids = {k.removeprefix(OF_RANKINGS): v for k, v in left.ids.items() if k.startswith(OF_RANKINGS)}
    of_rankings = replace(
        left,
        config=config.part(of_rankings=True),
        inputs=left.inputs[n_logged:],
        sums=sums.rankings,
        ids=ids,
    )
    log = LOGGED.conclude(of_log, work, told, clock)
    ranked = RANKINGS.conclude(of_rankings, replace(work, per_user_folder=None), (), clock)
    inputs = [*log.inputs, *ranked.inputs]
    known = {(w.code, w.message) for w in log.warnings}
    ignored = {w for w in (*log.warnings, *ranked.warnings) if w.code == "not-followed"}
    followed = ignored - ({*log.warnings} & {*ranked.warnings})  # by one of the two
    told = [w for w in log.warnings if w not in followed]
    told += [w for w in ranked.warnings if (w.code, w.message) not in known and w not in followed]
    used = log.statistics
    if used is not None and ranked.statistics is not None:
        used = replace(used, n_tests=used.n_tests + ranked.statistics.n_tests)
    return replace(
        log,
        run_key=key_of_inputs(config, [each.fingerprint for each in inputs], work.sample),
        inputs=tuple(inputs),
        primary=config.primary,
        shown=config.shown,
        estimates=(*log.estimates, *ranked.estimates),
        comparisons=(*log.comparisons, *ranked.comparisons),
        statistics=used,
        standings=ranked.standings,
        findings=ranked.findings,
        macros=ranked.macros,
        graphs=(*log.graphs, *ranked.graphs),
        checks=(*log.checks, *(each for each in ranked.checks if each.model is not None)),
        warnings=tuple(told),
        config=config.dump(),
        per_user_values=ranked.per_user_values,
    )


KIND = Kind(BothSums, open_both, in_one_share(measure_both, conclude_both), measure_both,
            conclude_both)  # fmt: skip
