"""The whole street on one screen: config, sources, truth, ranks, values, exact sums, report."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt
import polars as pl

from evalkit import __version__
from evalkit.aggregate import measure_users
from evalkit.config import Config, LogTable, RankingsTable, TruthTable
from evalkit.errors import DataError, EvalkitError, MachineError, RequestError, raise_all
from evalkit.exact import ExactSums
from evalkit.keys import IdPlan, KeyCollisionError, Sample, Share, plan_ids
from evalkit.ledger import Clock, Progress, ProgressLine, Tally, versions
from evalkit.metrics import Request, load_metric_files, parse_metrics
from evalkit.ranks import ModelProbe, RankScan, scan_ranks
from evalkit.report import Counts, Estimate, Input, PerUser, Report, UserWriter, Warning_
from evalkit.runs import new_run_id, run_key
from evalkit.sources import Table, open_log, open_rankings, open_train, open_truth, reading
from evalkit.threads import usable_cores
from evalkit.truth import Truth, build_train, build_truth

SEEDS = range(1, 17)  # of the hash of ids; a second one is needed once in 10^5 runs of 10^7 users
BYTES_A_ROW = 12  # of the truth at the peak: half a key, code, rank
BYTES_A_WIDE_KEY = 4  # its other half, where ids are no small integers
BYTES_OF_IDS = 120  # of a row whose real ids are kept, text of usual length
BYTES_A_USER = 130  # runs, table entry, state
LARGEST_EXPONENT = 960.0  # 2^960 still adds up over many items and squares
LARGEST_RELEVANCE = 1e140
MOST_BYTES_A_ROW = BYTES_A_ROW + BYTES_A_WIDE_KEY + BYTES_OF_IDS + BYTES_A_USER
BYTES_AT_REST = 260 << 20  # interpreter, libraries, kernels
BYTES_ON_THE_WAY = 380 << 20  # row groups that are being decoded and probed, at most
BYTES_A_RANKED_ROW = 60  # of these
SAMPLED_ROWS = 1 << 18  # that say how many rows a user has


@dataclass(frozen=True, slots=True)
class Given:
    """Tables that are in memory already, in place of the config's paths."""

    truth: object | None = None
    rankings: Sequence[object | None] = ()
    train: object | None = None


@dataclass(frozen=True, slots=True)
class Tables:
    """Every log of a run, opened but not read."""

    truth: Table
    threshold: float | None
    rankings: Sequence[tuple[str | None, Table]]
    train: Table | None
    is_log: bool

    @property
    def all(self) -> list[Table]:
        """Truth, rankings, training log."""
        rest = [] if self.train is None else [self.train]
        return [self.truth, *(table for _, table in self.rankings), *rest]


@dataclass(slots=True)
class Model:
    """What has been added up of one model so far."""

    sums: ExactSums
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
    progress: Callable[[Progress], None] | None = None,
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
        progress: called now and then with the rows that were read.
    Raises:
        RequestError: the request is wrong.
        DataError: the data is wrong.
        MachineError: no split holds the memory limit [memory-limit].
    """
    metrics = load_metric_files(config.metrics.files)
    requests = parse_metrics(config.metrics.names, metrics=metrics)
    tables = open_tables(config, given or Given())
    clock = Clock(ProgressLine(progress, tables.all))
    evaluation = Evaluation(
        config,
        requests,
        tables,
        _useful(threads),
        sample,
        per_user or per_user_folder is not None,
        per_user_folder,
        clock,
    )
    n_shares = count_shares(tables, memory_limit)
    for seed in SEEDS:
        try:
            return evaluation.report(seed, n_shares)
        except KeyCollisionError:
            continue
    raise MachineError("ids share their keys under every seed", code="key-collision")


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


def open_tables(config: Config, given: Given) -> Tables:
    """Open every log; all that is wrong with any of them at once."""
    problems: list[EvalkitError] = []
    opened: list[Table] = []

    def attempt(action: Callable[[], Table | tuple[Table, Table]]) -> None:
        try:
            found = action()
        except EvalkitError as error:
            problems.append(error)
            return
        opened.extend(found if isinstance(found, tuple) else [found])

    threshold: float | None
    models: list[str | None]
    if config.log is not None:
        log: LogTable = config.log
        attempt(lambda: open_log(log, given.truth))
        threshold, models = log.threshold, [log.model]
    else:
        truth: TruthTable = config.truth  # type: ignore[assignment]  # the config holds one of both
        attempt(lambda: open_truth(truth, given.truth))
        for place, table in enumerate(config.rankings):
            held = given.rankings[place] if given.rankings else None
            attempt(_opening(table, held))
        threshold, models = truth.threshold, [table.model for table in config.rankings]
    if config.train is not None:
        train = config.train
        attempt(lambda: open_train(train, given.train))
    raise_all(problems)
    ranked = opened[1 : 1 + len(models)]
    return Tables(
        opened[0],
        threshold,
        list(zip(models, ranked, strict=True)),
        opened[-1] if config.train is not None else None,
        config.log is not None,
    )


def _opening(table: RankingsTable, held: object | None) -> Callable[[], Table]:
    return lambda: open_rankings(table, held)


def plan_tables(tables: Tables, seed: int) -> tuple[IdPlan, IdPlan]:
    """How the users and the items of all tables become keys."""
    described = [(table, table.frame.collect_schema()) for table in tables.all]
    users = [
        (
            table.role,
            table.at,
            {name: dtype for name, dtype in schema.items() if name.startswith("user_")},
        )
        for table, schema in described
    ]
    items = []
    for table, schema in described:
        dtype = schema["item"]
        inner = dtype.inner if isinstance(dtype, (pl.List, pl.Array)) else dtype
        items.append((table.role, table.at, {"item": inner}))
    return plan_ids("user", users, seed=seed), plan_ids("item", items, seed=seed)  # type: ignore[arg-type]


def count_shares(tables: Tables, memory_limit: int | None) -> int:
    """Into how many passes users are split, so that truth and ranks stay below the limit.

    Raises:
        MachineError: the limit is below what a run needs before it reads a row [memory-limit].
    """
    rows = tables.truth.n_rows_hint()
    if memory_limit is None or rows is None:
        return 1
    ranked = [table.n_rows_hint() for _, table in tables.rankings]
    known = [BYTES_A_RANKED_ROW * n for n in ranked if n is not None]
    streamed = sum(known) if len(known) == len(ranked) else BYTES_ON_THE_WAY
    at_rest = BYTES_AT_REST + min(BYTES_ON_THE_WAY, streamed)
    room = memory_limit - at_rest
    if room < 16 << 20:
        raise MachineError(
            f"a limit of {memory_limit >> 20:,} MiB leaves no room for the truth",
            code="memory-limit",
            hint=f"give at least {(at_rest >> 20) + 64:,} MiB",
        )
    if rows * MOST_BYTES_A_ROW <= room:  # nothing need be read to know that it fits
        return 1
    return max(1, math.ceil(rows * _bytes_a_truth_row(tables) / room))


def _bytes_a_truth_row(tables: Tables) -> float:
    """What a row of the truth takes at the peak, its share of its user's entries with it."""
    users, items = plan_tables(tables, SEEDS[0])
    head = tables.truth.frame.select(users.key().alias("key")).head(SAMPLED_ROWS)
    with reading(tables.truth):
        sampled = head.collect(engine="streaming")["key"]
    users_a_row = sampled.n_unique() / max(1, sampled.len())
    wide = BYTES_A_WIDE_KEY if items.hashed or items.unsigned else 0
    ids = BYTES_OF_IDS if users.hashed or items.hashed else 0
    return BYTES_A_ROW + wide + ids + BYTES_A_USER * users_a_row


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
    truth_tally: Tally = field(default_factory=Tally)
    train_rows: int = 0
    writer: UserWriter | None = None
    warnings: list[Warning_] = field(default_factory=list)

    def report(self, seed: int, n_shares: int) -> Report:
        """Measure every share of the users and put the exact sums together."""
        self.models.clear()
        self.truth_tally = Tally()
        if self.per_user_folder is not None:
            labels = [request.label for request in self.requests]
            names = self.tables.truth.user_names
            self.writer = UserWriter(self.per_user_folder, names, labels)
        self.clock.start()
        user_plan, item_plan = plan_tables(self.tables, seed)
        for number in range(n_shares):
            share = Share(number, n_shares) if n_shares > 1 else None
            self._measure_share(user_plan, item_plan, share)
        self._check_inputs()
        estimates = tuple(self._estimates())
        self.clock.stop("aggregate")
        return self._report(estimates, self._kept_values(in_order=n_shares == 1))

    def _measure_share(self, user_plan: IdPlan, item_plan: IdPlan, share: Share | None) -> None:
        config, clock = self.config, self.clock
        sample = None if self.sample is None else Sample(self.sample, user_plan)
        truth = build_truth(
            self.tables.truth,
            threshold=self.tables.threshold,
            user_plan=user_plan,
            item_plan=item_plan,
            policies=config.policies,
            threads=self.threads,
            sample=sample,
            share=share,
            clock=clock.stop,
        )
        self.truth_tally.add_truth(truth)
        self._check_gains(truth)
        clock.stop("build")
        train = None
        if self.tables.train is not None:
            train = build_train(
                self.tables.train,
                truth,
                null_ids=config.policies.null_ids,
                threads=self.threads,
            )
            self.train_rows = train.rows
            clock.stop("train")
        order = truth.order_of_users() if self.per_user else None
        problems: list[EvalkitError] = []
        for model, table in self.tables.rankings:
            scan = RankScan(
                table,
                model,
                truth,
                config.policies,
                self.threads,
                train=train,
                drop_seen=config.train is not None and config.train.drop_seen,
                sample=sample,
                share=share,
                progress=clock.line.advance,
            )
            try:
                probes = scan_ranks(scan)
            except EvalkitError as error:
                problems.append(error)
                continue
            clock.stop("probe")
            for name, probe in probes.items():
                self._measure_model(name, probe, truth, order)
            clock.stop("measure")
        raise_all(problems)

    def _check_gains(self, truth: Truth) -> None:
        """Refuse relevances whose gains no float64 holds, before they turn into NaN."""
        largest = truth.pairs.grades.largest
        for request in self.requests:
            exponential = dict(request.parameters).get("gain") == "exp2"
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

    def _measure_model(
        self, name: str, probe: ModelProbe, truth: Truth, order: npt.NDArray[np.int64] | None
    ) -> None:
        model = self.models.setdefault(name, Model(ExactSums(len(self.requests))))
        model.tally.add_model(probe, self.config)
        labels = [request.label for request in self.requests]

        def keep(users: npt.NDArray[np.int64], values: npt.NDArray[np.float64]) -> None:
            ids = truth.ids_of_users(users).cast(self._user_types)
            ids.columns = list(self.tables.truth.user_names)
            rows = ids.hstack([pl.Series(label, values[:, n]) for n, label in enumerate(labels)])
            if self.writer is not None:
                self.writer.add(name, rows)
            else:
                model.users.append(rows)

        model.sums.merge(
            measure_users(
                truth,
                probe.ranks,
                self.requests,
                policies=self.config.policies,
                threads=self.threads,
                keep=keep if self.per_user else None,
                order=order,
            )
        )

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
        if self.sample is not None:
            message = f"numbers stand on a sample of {self.sample:.2%} of the users"
            self.warnings.append(Warning_("sample", message))

    def _place_of(self, name: str) -> str:
        places = dict(self.tables.rankings)
        table = places.get(name) or places.get(None)
        return table.at if table is not None else ""

    def _estimates(self) -> list[Estimate]:
        estimates = []
        for name, model in self.models.items():
            for column, request in enumerate(self.requests):
                if model.sums.n_infinite(column):
                    raise DataError(
                        f"{request.label} of {name!r} is infinite for "
                        f"{model.sums.n_infinite(column):,} users",
                        code="infinite-value",
                        hint="exponential gains overflow on such relevances: use linear gains",
                    )
                total = model.sums.sum_of(column)
                estimates.append(
                    Estimate(
                        model=name,
                        metric=request.label,
                        name=request.metric.name,
                        cutoff=request.cutoff,
                        parameters=dict(request.parameters),
                        value=total.mean,
                        std_error=total.std_error,
                        n_users=total.count,
                        n_undefined=model.sums.n_undefined(column),
                        higher_is_better=request.metric.higher_is_better,
                    )
                )
        return estimates

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

    def _report(self, estimates: tuple[Estimate, ...], per_user: PerUser | None) -> Report:
        config, tables = self.config, self.tables
        rows = {None: self.truth_tally.rows}
        inputs = [Input("truth", None, tables.truth.paths, rows[None], tables.truth.fingerprint())]
        for model, table in tables.rankings:
            known = self.models.get(model) if model is not None else None
            n_rows = (
                sum(m.tally.rows for m in self.models.values())
                if known is None
                else known.tally.rows
            )
            inputs.append(Input("rankings", model, table.paths, n_rows, table.fingerprint()))
        if tables.train is not None:
            train = tables.train
            inputs.append(Input("train", None, train.paths, self.train_rows, train.fingerprint()))
        asked = config.model_dump(mode="json", exclude={"output", "name"})
        definitions = [
            [request.label, dict(request.parameters), request.metric.kernel.digest]
            for request in self.requests
        ]
        key = run_key(
            {**asked, "sample": self.sample},
            [each.fingerprint for each in inputs],
            {"evalkit": __version__},
            definitions,
        )
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
            estimates=estimates,
            meta=self.clock.meta(n_read, self.threads, versions()),
            warnings=tuple(self.warnings),
            config=config.model_dump(mode="json"),
            per_user_values=per_user,
        )
