"""The whole street on one screen: config, sources, truth, ranks, values, exact sums, report."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import polars as pl

from evalkit import __version__
from evalkit.conclusions.inference import Inference
from evalkit.config import Config, speaking
from evalkit.credentials import storing
from evalkit.errors import (
    DataError,
    EvalkitError,
    Faults,
    FaultyShareError,
    MachineError,
    RequestError,
    raise_all,
)
from evalkit.ids import IdPlan, KeyCollisionError, Sample, Share
from evalkit.kernels.threads import usable_cores
from evalkit.looks.details import Details
from evalkit.looks.resampling import Resampling, resamples
from evalkit.looks.weighted import Ratios
from evalkit.metrics import Request
from evalkit.planning.leakage import check_splits, find_leak
from evalkit.planning.ledger import Clock, Progress, ProgressLine, Tally, input_of, versions
from evalkit.planning.passes import Asked, count_shares
from evalkit.planning.tables import Given, Tables, open_tables, plan_ids_of
from evalkit.ranks import ModelProbe, RankScan, are_held_whole, scan_alike
from evalkit.report import Counts, PerUser, Report, UserWriter, Warning_
from evalkit.runs import new_run_id, run_key
from evalkit.segments import (
    CellSet,
    ItemPart,
    SeenValues,
    Segment,
    UserSegments,
    cross_segments,
    make_cells,
    most_cells,
    numbers_of,
    quantile_edges,
    read_clusters,
    read_item_segments,
    read_user_values,
    read_weights,
    split_users,
)
from evalkit.sources import Table
from evalkit.sums import GrandTotals, Lacking, Pair, Totals, pairs_among
from evalkit.truth import TRUTH_CODES, Truth, build_train, build_truth, count_in_train
from evalkit.values.blocks import UserValues, measure_models
from evalkit.values.checks import (
    check_item_segments,
    check_scores,
    convention_warnings,
    helping_requests,
    users_of_rankings,
)
from evalkit.values.gather import ListRules, RankSets, rules_of
from evalkit.values.settle import as_kept

if TYPE_CHECKING:
    from evalkit.rows import RowsKind

SEEDS = range(1, 17)  # of the hash of ids; a second one is needed once in 10^5 runs of 10^7 users
LARGEST_EXPONENT = 960.0  # 2^960 still adds up over many items and squares
LARGEST_RELEVANCE = 1e140

TRUTH, GAINS, TRAIN, SEGMENTS, RANKINGS, VALUES = range(6)  # the steps of a share, in their order


@dataclass(frozen=True, slots=True)
class Probes:
    """The ranks of one model.

    Args:
        main: the probe whose counts the report has.
        ranks: by each set of rules that lists are put in order by.
    """

    main: ModelProbe
    ranks: RankSets


@dataclass(frozen=True, slots=True)
class Split:
    """How one share of the users is split.

    Args:
        users: segmentations of the users, crosses last.
        cells: what their segments are made of.
        items: the truth with the items of one group alone, by segment.
        lacking: of groups without items in this share, where there are other shares.
        weights: float64[n_users], where users count differently.
        clusters: uint64[n_users], a key of each user's cluster, where users vary together.
    """

    users: Sequence[UserSegments]
    cells: Sequence[CellSet]
    items: Sequence[tuple[Segment, ItemPart]]
    lacking: Lacking | None
    weights: npt.NDArray[np.float64] | None
    clusters: npt.NDArray[np.uint64] | None


@dataclass(slots=True)
class Model:
    """What is known of one model so far."""

    tally: Tally = field(default_factory=Tally)
    users: list[pl.DataFrame] = field(default_factory=list)


def run_config(
    config: Config,
    *,
    given: Given | None = None,
    threads: int | None = None,
    memory_limit: int | None = None,
    sample: float | None = None,
    per_user: bool = False,
    per_user_folder: Path | None = None,
    keep_parts: bool = False,
    progress: Callable[[Progress], None] | None = None,
    opened: Callable[[Sequence[Table]], None] | None = None,
) -> Report:
    """The report of a config.

    Args:
        given: tables in memory, in place of the config's paths.
        threads: kernels that run side by side; as many as there are usable cores by default and
            at most.
        memory_limit: bytes; above what one pass needs, users are split into several passes.
        sample: share of the users, drawn by a hash of their ids.
        per_user: keep the values of every user, in memory.
        per_user_folder: stream them to a Parquet file in this folder instead, which the report
            names; it exists and nobody else uses it.
        keep_parts: keep the sums that `evalkit why` explains a change by.
        progress: called now and then with the rows that were read.
        opened: called with every table, before a row is read.
    Raises:
        RequestError: the request is wrong.
        DataError: the data is wrong.
        MachineError: no split holds the memory limit [memory-limit].
    """
    with speaking(config.door):
        if config.kind != "rankings":
            from evalkit.rows import RowJob

            with storing(config.storage):
                job = RowJob(
                    config,
                    config.requests,
                    given or Given(),
                    _useful(threads),
                    memory_limit,
                    sample,
                    per_user or per_user_folder is not None,
                    per_user_folder,
                    Clock(ProgressLine(progress, ())),
                    opened,
                )
                return _kind_of_rows(config).run(job)
        tables = open_tables(config, given or Given())
        config = tables.config
        if opened is not None:
            opened(tables.all)
        check_splits(tables.logs, config)
        clock = Clock(ProgressLine(progress, tables.logs))
        evaluation = Evaluation(
            config,
            config.requests,
            tables,
            _useful(threads),
            sample,
            per_user or per_user_folder is not None,
            per_user_folder,
            clock,
            keep_parts=keep_parts and config.statistics.weight is None,  # parts are of plain means
        )
        n_shares = count_shares(tables, memory_limit, evaluation.asked)
        for seed in SEEDS:
            try:
                return evaluation.report(seed, n_shares)
            except KeyCollisionError:
                continue
        raise MachineError("ids share their keys under every seed", code="key-collision")


def _kind_of_rows(config: Config) -> "RowsKind":
    """What runs a config of ratings or of labels; loaded by those alone that need it."""
    if config.kind == "ratings":
        from evalkit.ratings import RATINGS

        return RATINGS
    from evalkit.labels import LABELS

    return LABELS


def key_of_run(config: Config, *, sample: float | None = None) -> str | None:
    """The run key that the report of a config would have now; None where an input has no
    fingerprint. Of Parquet files the footers alone are read.

    Raises:
        RequestError, DataError: as `run_config` does for what can be seen without reading rows.
    """
    if config.kind != "rankings":
        from evalkit.rows import key_of_rows

        with storing(config.storage):
            return key_of_rows(*_kind_of_rows(config).open_all(config), sample)
    tables = open_tables(config, Given())
    fingerprints = [table.fingerprint() for table in tables.all]
    if None in fingerprints:
        return None
    return _key(tables.config, config.requests, fingerprints, sample)


def _key(
    config: Config,
    requests: Sequence[Request],
    fingerprints: Sequence[str | None],
    sample: float | None,
) -> str:
    asked = config.model_dump(mode="json", exclude={"output", "name"})
    definitions = [
        [
            request.label,
            dict(request.parameters),
            dict(request.policies),
            request.metric.kernel.digest,
        ]
        for request in requests
    ]
    return run_key({**asked, "sample": sample}, fingerprints, {"evalkit": __version__}, definitions)


def _useful(threads: int | None) -> int:
    """The threads asked for, but never more than cores: they would only wait for one another."""
    cores = usable_cores()
    if threads is None:
        return cores
    if threads < 1:
        raise RequestError(
            f"threads is {threads}, not 1 or more",
            code="bad-threads",
            hint="leave it out to use every core",
        )
    return min(threads, cores)


@dataclass(slots=True)
class Evaluation:
    """One config on its way to a report."""

    config: Config
    requests: Sequence[Request]
    tables: Tables
    threads: int
    sample: float | None
    per_user: bool
    per_user_folder: Path | None
    clock: Clock
    models: dict[str, Model] = field(default_factory=dict)
    totals: GrandTotals = field(default_factory=GrandTotals)
    resampling: Resampling | None = None
    ratios: Ratios | None = None
    keep_parts: bool = False
    details: Details = field(init=False)
    truth_tally: Tally = field(default_factory=Tally)
    train_rows: int = 0
    writer: UserWriter | None = None
    warnings: list[Warning_] = field(default_factory=list)
    faults: Faults = field(default_factory=Faults)
    seen_values: SeenValues = field(default_factory=SeenValues)
    largest: float = 0.0  # relevance
    measured: list[Request] = field(init=False)  # the requests, then what helps them

    def __post_init__(self) -> None:
        helping = helping_requests(self.requests, self.config.policies)
        self.measured = [*self.requests, *helping]
        check_item_segments(self.measured, self.config)

    def report(self, seed: int, n_shares: int) -> Report:
        """Measure every share of the users and put the exact sums together."""
        self.models.clear()
        self.totals = GrandTotals()
        self.resampling = Resampling.of(self.config, self.requests, in_passes=n_shares > 1)
        self.ratios = self._start_ratios(in_passes=n_shares > 1)
        self.details = Details(self.config, self.requests, self.keep_parts)
        self.warnings[:] = convention_warnings(self.config, self.requests)
        self.truth_tally = Tally()
        self.faults, self.seen_values, self.largest = Faults(), SeenValues(), 0.0
        if self.per_user_folder is not None:
            labels = [request.label for request in self.requests]
            names = self.tables.truth.user_names
            self.writer = UserWriter(self.per_user_folder, names, labels)
        self.clock.start()
        plans = plan_ids_of(self.tables, seed)
        shares = [Share(number, n_shares) for number in range(n_shares)] if n_shares > 1 else [None]
        edges = self._find_edges(plans, shares) if n_shares > 1 else {}
        for share in shares:
            with suppress(FaultyShareError):
                self._measure_share(plans, share, edges)
        self.faults.tell()
        self._check_inputs()
        self.details.drop_parts(self.totals.n_segments)
        self.totals.complete()
        self.totals.pool_small(self.config.segments.min_users)
        if self.resampling is not None:
            self.resampling.pool(self.totals)
        if self.ratios is not None:
            self.ratios.pool(self.totals)
        found = Inference.of(
            self.config,
            self.measured,
            tuple(self.models),
            self.totals,
            self.resampling,
            self.ratios,
        )
        self.warnings.extend(found.warnings)
        self.clock.stop("aggregate")
        return self._report(found, self._kept_values(in_order=n_shares == 1), n_shares)

    @property
    def compares(self) -> bool:
        """Whether models share users' draws or pairs, so that they are measured at one time."""
        statistics = self.config.statistics
        compares = statistics.baseline is not None or statistics.pairs == "all"
        is_ratio = statistics.weight is not None or statistics.cluster is not None
        return compares or is_ratio or resamples(statistics)

    @property
    def asked(self) -> Asked:
        """What of the config takes memory."""
        statistics, listed = self.config.statistics, set()
        for number, (_, table) in enumerate(self.tables.rankings):
            schema = table.frame.collect_schema()
            has = {"has_rank": "rank" in schema, "has_score": "score" in schema}
            for rules in {rules_of(each, self.config.policies, **has) for each in self.measured}:
                if rules.detailed or are_held_whole(rules.applied_to(self.config.policies), **has):
                    listed.add(number)
        return Asked(
            len(self.measured),
            self.compares,
            statistics.baseline is not None,
            statistics.pairs == "all",
            frozenset(listed),
            1.0 if self.sample is None else self.sample,
        )

    def _start_ratios(self, *, in_passes: bool) -> Ratios | None:
        """What adds up clusters and weights, where the config has any."""
        statistics = self.config.statistics
        if statistics.weight is None and statistics.cluster is None:
            return None
        if statistics.cluster is not None and in_passes:
            raise RequestError(
                "clusters of users must be whole, and several passes would cut them",
                code="cluster-passes",
                at=self.config.at("statistics", "cluster"),
                hint="raise --memory-limit",
            )
        return Ratios(len(self.requests), in_clusters=statistics.cluster is not None)

    def _truth_of(self, plans: tuple[IdPlan, IdPlan], share: Share | None) -> Truth:
        user_plan, item_plan = plans
        return build_truth(
            self.tables.truth,
            threshold=self.tables.threshold,
            user_plan=user_plan,
            item_plan=item_plan,
            policies=self.config.policies,
            threads=self.threads,
            sample=None if self.sample is None else Sample(self.sample, user_plan),
            share=share,
            clock=self.clock.stop,
            extra=self._ranked_users(user_plan),
        )

    def _ranked_users(self, user_plan: IdPlan) -> pl.LazyFrame | None:
        """Users whom the truth may lack, where the policies count them."""
        if self.config.policies.unknown_users != "count":
            return None
        tables = [table for _, table in self.tables.rankings]
        return users_of_rankings(tables, user_plan, self.tables.threshold)

    def _measure_share(
        self,
        plans: tuple[IdPlan, IdPlan],
        share: Share | None,
        edges: Mapping[str, Sequence[float]],
    ) -> None:
        config, clock, faults = self.config, self.clock, self.faults
        with faults.step(TRUTH, codes=TRUTH_CODES):
            truth = self._truth_of(plans, share)
        self.truth_tally.add_truth(truth)
        with faults.step(GAINS):
            self._check_gains(truth)
        clock.stop("build")
        train = None
        if self.tables.train is not None:
            with faults.step(TRAIN):
                train = build_train(
                    self.tables.train,
                    truth,
                    null_ids=config.policies.null_ids,
                    threads=self.threads,
                )
            self.train_rows = train.rows
            self.truth_tally.add_in_train(count_in_train(truth, train, threads=self.threads))
            clock.stop("train")
        split = self._split(truth, share, edges)
        if self.tables.segments:
            clock.stop("segments")
        held: dict[str, Probes] = {}
        with faults.step(RANKINGS):
            pass
        for number, (model, table) in enumerate(self.tables.rankings):
            rules = self._rules_of(table)
            schema = table.frame.collect_schema()
            scans = [
                RankScan(
                    table,
                    model,
                    truth,
                    rule.applied_to(config.policies),
                    self.threads,
                    train=train,
                    drop_seen=config.train is not None and config.train.drop_seen,
                    sample=None if self.sample is None else Sample(self.sample, plans[0]),
                    share=share,
                    progress=clock.line.advance,
                    detailed=rule.detailed,
                )
                for rule in rules
            ]
            try:
                by_rule = scan_alike(scans)
            except EvalkitError as error:
                faults.note(error, (RANKINGS,), number)
                continue
            clock.stop("probe")
            if faults:
                continue
            probes = {
                name: Probes(
                    main,
                    RankSets(
                        {rule: each[name].ranks for rule, each in zip(rules, by_rule, strict=True)},
                        "score" in schema,
                        "rank" in schema,
                    ),
                )
                for name, main in by_rule[0].items()
            }
            if self.compares:
                held.update(probes)
                continue
            for name, probe in probes.items():
                self._measure({name: probe}, truth, split)
            clock.stop("measure")
        if held:
            with faults.step(VALUES):
                self._measure(held, truth, split)
            clock.stop("measure")

    def _split(
        self, truth: Truth, share: Share | None, edges: Mapping[str, Sequence[float]]
    ) -> Split:
        """How the users of a share are split."""
        tables, faults = self.tables, self.faults
        n_sources = len(tables.segments)
        segmentations = self._segments_of(truth, edges)
        self.totals.note_users(segmentations, self._counted(truth))
        with faults.step(SEGMENTS, n_sources):
            cells = self._cells_of(truth, segmentations)
        with faults.step(SEGMENTS, n_sources + 1, adds_up=False):  # every share reads all items
            items = self._item_parts_of(truth)
        lacking = self._lacking(truth, items) if share is not None else None
        with faults.step(SEGMENTS, n_sources + 2):
            weights = read_weights(tables.weight, truth)
        with faults.step(SEGMENTS, n_sources + 3):
            clusters = read_clusters(tables.cluster, truth)
        return Split(segmentations, cells, items, lacking, weights, clusters)

    def _rules_of(self, table: Table) -> list[ListRules]:
        """The ways in which what is measured wants the lists of a log to be put in order."""
        schema = table.frame.collect_schema()
        has_score, has_rank = "score" in schema, "rank" in schema
        policies = self.config.policies
        found = check_scores(self.requests, policies, self.config, at=table.at, columns=[*schema])
        self.warnings.extend(each for each in found if each not in self.warnings)
        rules = [
            rules_of(request, policies, has_score=has_score, has_rank=has_rank)
            for request in self.measured
        ]
        return list(dict.fromkeys(rules))

    def _measure(
        self,
        probes: Mapping[str, Probes],
        truth: Truth,
        split: Split,
    ) -> None:
        """Add up the values of some models, user by user."""
        for name, probe in probes.items():
            tally = self.models.setdefault(name, Model()).tally
            tally.add_model(probe.main, self.config, truth)
        labels = [request.label for request in self.requests]

        def keep(name: str, users: npt.NDArray[np.int64], values: npt.NDArray[np.float64]) -> None:
            ids = truth.ids_of_users(users).cast(self._user_types)
            ids.columns = list(self.tables.truth.user_names)
            own = as_kept(values)
            rows = ids.hstack([pl.Series(label, own[:, n]) for n, label in enumerate(labels)])
            if self.writer is not None:
                self.writer.add(name, rows)
            else:
                self.models[name].users.append(rows)

        ranks = {name: probe.ranks for name, probe in probes.items()}
        pairs = self._pairs_among(tuple(probes))
        users = UserValues(truth, ranks, self.measured, self.config.policies)
        watch = self.details.watch(truth, ranks, split.users)
        totals = measure_models(
            users,
            tuple(ranks),
            cell_sets=split.cells,
            pairs=pairs,
            threads=self.threads,
            keep=keep if self.per_user else None,
            order=truth.order_of_users() if self.per_user else None,
            watch=watch,
        )
        if watch is not None:
            watch.close(users.columns)
        self.details.draw_curves(truth, ranks, self.threads)
        for each, found in zip(split.cells, totals, strict=True):
            self.totals.take(found, each.members, users.columns, is_last=True)
        for segment, part in split.items:
            over_part, columns = self._measure_part(part, ranks, pairs)
            self.totals.take(over_part, {segment: np.arange(1)}, columns)
        if split.lacking is not None:
            nothing = ItemPart.of(truth, np.empty(0, dtype=np.int64))
            split.lacking.totals.append(self._measure_part(nothing, ranks, pairs))
        if self.resampling is not None:
            drawn = UserValues(truth, ranks, self.resampling.requests, self.config.policies)
            keys = split.clusters if split.clusters is not None else truth.stable_hashes()
            self.resampling.add(drawn, keys, tuple(ranks), pairs, split.cells, self.threads)
        if self.ratios is not None:
            hashes = truth.stable_hashes()
            self.ratios.add(
                UserValues(truth, ranks, self.requests, self.config.policies),
                tuple(ranks),
                pairs,
                np.ones(hashes.size) if split.weights is None else split.weights,
                hashes if split.clusters is None else split.clusters,
                hashes,
                split.users,
                self.threads,
            )

    def _measure_part(
        self, part: ItemPart, ranks: Mapping[str, RankSets], pairs: Sequence[Pair]
    ) -> tuple[Totals, npt.NDArray[np.int64]]:
        """Sums over all users, of the items of one part alone, and the column of each request."""
        own = {name: each.over(part.ranks_of) for name, each in ranks.items()}
        users = UserValues(part.truth, own, self.measured, self.config.policies)
        one = CellSet.of_one(users.n_users)
        (found,) = measure_models(
            users, tuple(own), cell_sets=[one], pairs=pairs, threads=self.threads
        )
        return found, users.columns

    def _lacking(self, truth: Truth, items: Sequence[tuple[Segment, ItemPart]]) -> Lacking | None:
        """Room for what a share adds to groups of items that only other shares have."""
        if not any(source.of_items for source in self.tables.segments):
            return None
        n_users = truth.n_users if self.config.policies.no_relevant != "skip" else 0
        found = Lacking(frozenset(segment for segment, _ in items), n_users)
        self.totals.lacking.append(found)
        return found

    def _item_parts_of(self, truth: Truth) -> list[tuple[Segment, ItemPart]]:
        """The truth with the items of one group alone, for every group of items."""
        found = []
        for source in self.tables.segments:
            for each in read_item_segments(source, truth) if source.of_items else ():
                for one in each.segments:
                    part = ItemPart.of(truth, one.places)
                    segment = (each.name, one.label)
                    found.append((segment, part))
                    n_users = int(self._counted(part.truth).sum())
                    self.totals.note_segment(segment, one.key, n_users)
        return found

    def _pairs_among(self, models: Sequence[str]) -> list[Pair]:
        at = self.config.at("statistics", "baseline")
        return pairs_among(models, self.config.statistics, at=at)

    def _counted(self, truth: Truth) -> npt.NDArray[np.bool_]:
        """bool[n_users], the users that numbers stand on."""
        if self.config.policies.no_relevant == "skip":
            counted: npt.NDArray[np.bool_] = truth.pairs.n_relevant > 0
            return counted
        return np.ones(truth.pairs.n_users, dtype=np.bool_)

    def _find_edges(
        self, plans: tuple[IdPlan, IdPlan], shares: Sequence[Share | None]
    ) -> dict[str, list[float]]:
        """Edges of the quantiles over all users, which no share of them knows: 8 bytes a user."""
        sources = [
            each
            for each in self.tables.segments
            if not each.of_items and any(rule.quantiles is not None for rule in each.rules)
        ]
        numbers: dict[str, list[npt.NDArray[np.float64]]] = {}
        for share in shares if sources else ():
            with suppress(FaultyShareError), self.faults.step(TRUTH, codes=TRUTH_CODES):
                truth = self._truth_of(plans, share)
            for source in () if self.faults else sources:
                with suppress(EvalkitError):  # a share finds it again when it is measured
                    for name, known in numbers_of(source, truth, self._counted(truth)).items():
                        numbers.setdefault(name, []).append(known)
        self.faults.tell()
        buckets = {name: rule.quantiles or 1 for name, rule in self.config.segments.named.items()}
        return {
            name: quantile_edges(np.concatenate(parts), buckets[name])
            for name, parts in numbers.items()
        }

    def _segments_of(
        self, truth: Truth, edges: Mapping[str, Sequence[float]]
    ) -> list[UserSegments]:
        """The segments of the users, in the order of the config, crosses last."""
        counted = self._counted(truth)
        found: dict[str, UserSegments] = {}
        for number, source in enumerate(self.tables.segments):
            if source.of_items:
                continue
            with self.faults.step(SEGMENTS, number, 0):
                values = read_user_values(source, truth)
            with self.faults.step(SEGMENTS, number, 1):
                for each in split_users(
                    source, values, counted, edges, self.seen_values, self.threads
                ):
                    found[each.name] = each
        segments = self.config.segments
        listed = [found[name] for name in segments.named if name in found]
        return listed + [cross_segments(found[one], found[two]) for one, two in segments.cross]

    def _cells_of(self, truth: Truth, listed: Sequence[UserSegments]) -> list[CellSet]:
        """The cells that every segment of the users is made of."""
        n_targets = len(self.tables.rankings) * (2 if self.compares else 1)
        known = self.totals.n_segments
        n_segments = {each.name: known[each.name] for each in listed}
        most = most_cells(n_segments, len(self.measured) * n_targets)
        return make_cells(listed, truth.pairs.n_users, most)

    def _check_gains(self, truth: Truth) -> None:
        """Refuse relevances whose gains no float64 holds, before they turn into NaN."""
        largest = self.largest = max(self.largest, truth.pairs.grades.largest)
        for request in self.requests:
            exponential = str(dict(request.parameters).get("gain")).startswith("exp2")
            limit = LARGEST_EXPONENT if exponential else LARGEST_RELEVANCE
            if largest > limit:
                raise DataError(
                    f"{request.label} cannot hold the gain of a relevance of {largest!r}; "
                    f"at most {limit:g}",
                    code="gain-overflow",
                    at=self.tables.truth.at,
                    hint='scale it down: relevance = "rating / 100" under [truth.columns]',
                )

    @property
    def _user_types(self) -> pl.Schema:
        schema = self.tables.truth.frame.collect_schema()
        return pl.Schema({name: schema[name] for name in schema if name.startswith("user_")})

    def _check_inputs(self) -> None:
        """Nothing to read, nobody in common, cutoffs that no list reaches."""
        policies = self.config.policies
        problems: list[EvalkitError] = []

        def tell(
            policy: str, code: str, message: str, at: str, hint: str, model: str | None
        ) -> None:
            if policy == "error":
                problems.append(DataError(message, code=code, at=at, hint=hint))
            else:
                self.warnings.append(Warning_(code, message, model))

        if self.truth_tally.rows == 0:
            hint = 'write empty_input = "warn" under [policies] if that can be'
            at = self.tables.truth.at
            tell(policies.empty_input, "empty-input", "the truth has no rows", at, hint, None)
        leak = find_leak(self.truth_tally.truth_counts(), self.config)
        if leak is not None:
            told = "error" if leak.refused else "warn"
            tell(told, leak.code, leak.message, self.tables.truth.at, leak.hint, None)
        for name, model in self.models.items():
            tally = model.tally
            at = self._place_of(name)
            if tally.rows == 0 and tally.users == 0:
                message = f"the rankings of {name!r} have no rows"
                hint = 'write empty_input = "warn" under [policies] if that can be'
                tell(policies.empty_input, "empty-input", message, at, hint, name)
            elif tally.users_with_truth == 0 and self.truth_tally.rows:
                message = f"none of {tally.users:,} ranked users is in the truth"
                hint = "compare some ids of both by eye: are they of one kind and one day?"
                tell(policies.no_common_user, "no-common-user", message, at, hint, name)
            else:
                deep = [r.label for r in self.requests if (r.cutoff or 0) > tally.depth]
                if deep:
                    message = (
                        f"{', '.join(deep)}: the lists of {name!r} hold at most "
                        f"{tally.depth:,} ranks"
                    )
                    hint = 'lower the cutoff, or write beyond_depth = "warn" under [policies]'
                    tell(policies.beyond_depth, "cutoff-beyond-depth", message, at, hint, name)
            self.warnings.extend(tally.warnings(name, self.config))
        raise_all(problems)
        if self.truth_tally.negative and policies.negative_relevance == "ignore":
            message = f"{self.truth_tally.negative:,} items of the truth have a relevance below 0"
            self.warnings.append(Warning_("negative-relevance", message + ", which counts as 0"))
        if self.tables.is_log:
            message = "relevant items are those logged: what was never shown cannot be missed"
            self.warnings.append(Warning_("joined-log", message))
        drawn = [r.label for r in self.requests if r.metric.name == "sampled"]
        if drawn:
            message = (
                f"{', '.join(drawn)}: ranks among sampled candidates can put models in another "
                "order than ranks in the whole catalogue; the estimate has less bias, more spread"
            )
            self.warnings.append(Warning_("sampled-candidates", message))
        if self.sample is not None:
            message = f"numbers stand on a sample of {self.sample:.2%} of the users"
            self.warnings.append(Warning_("sample", message))

    def _place_of(self, name: str) -> str:
        places = dict(self.tables.rankings)
        table = places.get(name) or places.get(None)
        return table.at if table is not None else ""

    def _kept_values(self, *, in_order: bool) -> PerUser | None:
        if self.writer is not None:
            return self.writer.finish(in_order=in_order)
        if not self.per_user:
            return None
        names = self.tables.truth.user_names
        frames = {
            name: pl.concat(model.users).sort(names, maintain_order=True)
            for name, model in self.models.items()
        }
        return PerUser(names, tuple(request.label for request in self.requests), frames)

    def _report(self, found: Inference, per_user: PerUser | None, n_shares: int) -> Report:
        config, tables = self.config, self.tables
        inputs = [input_of(tables.truth, self.truth_tally.rows, "truth")]
        for model, table in tables.rankings:
            known = self.models.get(model) if model is not None else None
            n_rows = (
                sum(m.tally.rows for m in self.models.values())
                if known is None
                else known.tally.rows
            )
            inputs.append(input_of(table, n_rows, "rankings", model))
        if tables.train is not None:
            inputs.append(input_of(tables.train, self.train_rows, "train"))
        inputs += [
            input_of(each, each.n_rows_hint() or 0, "segments") for each in tables.segment_tables
        ]
        fingerprints = [each.fingerprint for each in inputs]
        key = _key(config, self.requests, fingerprints, self.sample)
        n_read = sum(each.rows for each in inputs)
        return Report(
            evalkit=__version__,
            run_id=new_run_id(self.clock.started),
            run_key=key,
            name=config.name,
            profile=config.metrics.profile,
            inputs=tuple(inputs),
            counts=Counts(
                self.truth_tally.truth_counts(),
                {name: model.tally.model_counts(config) for name, model in self.models.items()},
            ),
            estimates=found.estimates,
            comparisons=found.comparisons,
            statistics=found.used,
            standings=found.standings,
            findings=found.findings,
            macros=found.macros,
            curves=self.details.found_curves,
            graphs=self.details.found_graphs,
            distributions=self.details.found_distributions,
            parts=self.details.found_parts,
            meta=replace(
                self.clock.meta(n_read, self.threads, versions()),
                resampling_bytes=None if self.resampling is None else self.resampling.n_bytes,
                passes=n_shares,
            ),
            warnings=tuple(self.warnings),
            config=config.dump(),
            per_user_values=per_user,
        )
