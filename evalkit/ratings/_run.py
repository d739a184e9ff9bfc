"""Ratings from config to report."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import numpy.typing as npt

from evalkit.config import Config
from evalkit.errors import DataError, MachineError
from evalkit.exact import SCALE_BITS, ExactSums, root_of
from evalkit.keys import KeyCollisionError
from evalkit.ledger import Clock
from evalkit.metrics import Request, over
from evalkit.plan import Given
from evalkit.ratings._pairs import (
    N_PREDICTED,
    PairReader,
    Pairs,
    join_pairs,
    refuse_policies,
)
from evalkit.ratings._smooth import SMOOTH, user_sums
from evalkit.ratings._sums import PairSums
from evalkit.report import (
    Distribution,
    Graph,
    Input,
    Report,
    TruthCounts,
    Warning_,
)
from evalkit.rows import (
    Findings,
    Floats,
    Grouping,
    HeldRows,
    Keeping,
    KeptParts,
    Measured,
    ModelRows,
    Models,
    Number,
    Reading,
    Room,
    RowTally,
    Store,
    TermSums,
    WeightedMean,
    bin_of,
    check_memory,
    check_resampled,
    check_rows,
    compares,
    find_repeats,
    find_users,
    group_by,
    inputs_of,
    make_report,
    nice_edges,
    number_groups,
    open_all,
    open_row_segments,
    sort_rows,
    tables_of,
    values_of,
)
from evalkit.segments import ALL, SegmentTable
from evalkit.sources import Table, open_predictions, open_ratings
from evalkit.threads import ordered_map

SEEDS = range(1, 17)
RESIDUAL_BINS, RATING_BINS = 40, 20
BYTES_A_ROW, BYTES_A_JOINED_ROW = 30, 200


def run_ratings(
    config: Config,
    *,
    given: Given,
    threads: int,
    memory_limit: int | None,
    sample: float | None,
    per_user: bool,
    per_user_folder: Path | None,
    clock: Clock,
) -> Report:
    """The report of a config with [ratings].

    Args:
        given: tables in memory, in place of the paths of [ratings] and then [[predictions]].
        threads: kernels that run side by side.
        memory_limit: bytes that a run may take.
        sample: share of the users.
        per_user: keep the values of every user.
        per_user_folder: in a Parquet file there; None: in memory.
        clock: of the run; tables are set here.
    Raises:
        RequestError: the request is wrong.
        DataError: the data is wrong.
        MachineError: the rows do not fit into the memory [memory-limit].
    """
    refuse_policies(config.policies)
    requests = config.requests
    check_resampled(config)
    tables = _open(config, given.rankings)
    held = [*given.rankings, *([None] * len(config.ratings))]
    own = list(zip(config.ratings, held, strict=False))
    sources = open_row_segments(config, own, given.segments)
    clock.line.tables = [table for _, table in tables.all]
    cost = BYTES_A_JOINED_ROW if tables.truth is not None else BYTES_A_ROW
    check_memory([table for _, table in tables.all], cost, memory_limit)
    keeping = None
    if per_user:
        keeping = Keeping.of(requests, tables.all[0][1].user_names, per_user_folder)
    clock.start()
    for seed in SEEDS:
        try:
            return _Run(config, requests, tables, sources, keeping, threads, sample, clock).report(
                seed
            )
        except KeyCollisionError:
            continue
    raise MachineError("ids share their keys under every seed", code="key-collision")


@dataclass(frozen=True, slots=True)
class _Tables:
    truth: Table | None  # where predictions are in tables of their own
    models: Models

    @property
    def all(self) -> list[tuple[str | None, Table]]:
        return ([(None, self.truth)] if self.truth is not None else []) + list(self.models)


def _open(config: Config, given: Sequence[object | None]) -> _Tables:
    held = [*given, *([None] * (len(config.ratings) + len(config.predictions)))]
    alone = not config.predictions
    n_ratings = len(config.ratings)

    def opening(place: int) -> Table:
        if place < n_ratings:
            return open_ratings(config.ratings[place], held[place], alone=alone)
        return open_predictions(config.predictions[place - n_ratings], held[place])

    places = range(n_ratings + len(config.predictions))
    opened = open_all([lambda place=place: opening(place) for place in places])  # type: ignore[misc]
    if alone:
        return _Tables(None, [(t.model, o) for t, o in zip(config.ratings, opened, strict=True)])
    names = [table.model for table in config.predictions]
    return _Tables(opened[0], list(zip(names, opened[1:], strict=True)))


def open_ratings_of(config: Config) -> list[Table]:
    """The table of ratings, then those of predictions, or all tables with both; segments last."""
    own = [(table, None) for table in config.ratings]
    segments = tables_of(open_row_segments(config, own, {}))
    return [*(table for _, table in _open(config, ()).all), *segments]


@dataclass(slots=True)
class _Part:
    """What one part of the users gives."""

    sums: PairSums
    means: list[WeightedMean]  # of requests over users
    spread: TermSums
    kept: KeptParts
    residuals: npt.NDArray[np.int64]
    rating_bins: ExactSums  # error, distance, rating of each bin
    n_users: int
    most_rows: int
    users: npt.NDArray[np.uint64]


@dataclass(frozen=True, slots=True)
class _Run:
    config: Config
    requests: Sequence[Request]
    tables: _Tables
    sources: Sequence[SegmentTable]
    keeping: Keeping | None
    threads: int
    sample: float | None
    clock: Clock

    @property
    def keeps(self) -> bool:
        """Whether values of users are needed, beyond what sums say."""
        return compares(self.config) or self.keeping is not None

    def report(self, seed: int) -> Report:
        config, clock = self.config, self.clock
        found = Findings(keeping=self.keeping)
        if self.tables.truth is not None:
            pairs = join_pairs(config, self.tables.truth, self.tables.models, seed)
        else:
            pairs = Pairs(self.tables.models, joined=False)
        of_users = [table for _, table in pairs.models]
        of_users += [each.table for each in self.sources if each.table is not None]
        user = group_by("user", of_users, seed)
        tables = [table for _, table in self.tables.all]
        find_users(config, tables, user, self.sources, found, sample=self.sample)
        clock.stop("segments")
        reader = PairReader(config.policies, pairs.joined, user)
        reading = Reading(
            (user,),
            reader.columns,
            reader.prepare,
            reader.dtypes,
            config.policies,
            self.threads,
            self.sample,
            clock.line.advance,
            Room(None, self.threads),
            counted_by=N_PREDICTED if pairs.joined else None,
        )
        models = {
            name: rows
            for model, table in pairs.models
            for name, rows in reading.models_of(model, table)
        }
        clock.stop("read")
        places = {name: table.at for name, table in pairs.models if name is not None}
        found.warnings += check_rows(config, models, places)
        self._find_repeats(models, found)
        for name, rows in models.items():
            self._measure(name, rows, user, found)
            found.warnings += _warnings(name, rows.tally)
        if len({rows.tally.rows_used for rows in models.values()}) > 1:
            message = "models predict different numbers of pairs: errors stand on other rows each"
            found.warnings.append(Warning_("different-pairs", message))
        clock.stop("measure")
        tallies = {name: rows.tally for name, rows in models.items()}
        return make_report(
            config,
            self.requests,
            self._inputs(tallies),
            tallies,
            self._truth_counts(tallies, found),
            found,
            clock,
            threads=self.threads,
            sample=self.sample,
        )

    def _find_repeats(self, models: Mapping[str, ModelRows], found: Findings) -> None:
        if self.tables.truth is not None:
            for rows in models.values():
                rows.tally.noted["duplicates"] = 0  # or it were refused
            return
        for model, table in self.tables.models:
            if "item" not in table.frame.collect_schema():
                continue
            repeats = sum(find_repeats(table, ["item"]).values())
            if repeats:
                raise DataError(
                    f"{repeats:,} rows list a user's item a second time",
                    code="duplicate-pair",
                    at=table.at,
                    hint="leave columns.item out to take every row as it stands",
                )
            for name in models if model is None else [model]:
                models[name].tally.noted["duplicates"] = 0

    def _inputs(self, tallies: Mapping[str, RowTally]) -> list[Input]:
        if self.tables.truth is None:
            return inputs_of("ratings", self.tables.models, tallies, self.sources)
        truth = self.tables.truth
        rated = max((tally.noted.get("rated", 0) for tally in tallies.values()), default=0)
        first = Input("ratings", None, truth.paths, rated, truth.fingerprint())
        return [first, *inputs_of("predictions", self.tables.models, tallies, self.sources)]

    def _truth_counts(self, tallies: Mapping[str, RowTally], found: Findings) -> TruthCounts:
        """Of the table of ratings; without one, the rated pairs of the model that has most."""
        if self.tables.truth is not None:
            rated = max((tally.noted.get("rated", 0) for tally in tallies.values()), default=0)
            repeats = max(
                (tally.noted.get("truth_duplicates", 0) for tally in tallies.values()), default=0
            )
            dropped = {"duplicate": repeats}
        else:
            rated = max(
                (t.rows - t.dropped.get("unrated", 0) - t.dropped.get("null_id", 0)
                 for t in tallies.values()),
                default=0,
            )  # fmt: skip
            repeats, dropped = 0, {}
        users = max(
            (
                found.users.get(name, 0) + tally.noted.get("users_without_prediction", 0)
                for name, tally in tallies.items()
            ),
            default=0,
        )
        return TruthCounts(rated, rated - repeats, dropped, users, 0, rated - repeats)

    # ---------------------------------------------------------------- measuring

    def _measure(self, name: str, rows: ModelRows, user: Grouping, found: Findings) -> None:
        assert isinstance(rows, HeldRows)
        store = rows.stores["user"]
        edges = _edges_of_residuals(store, self.threads), _edges_of_ratings(store)
        if found.segments is not None:
            for segment, part in found.segments.split(rows, user, threads=self.threads):
                measured = self._measured(self._add_up(part, user, *edges))
                found.measured.setdefault(segment, {})[name] = measured
        total = self._add_up(rows, user, *edges)
        found.users[name] = total.n_users
        found.most_rows[name] = total.most_rows
        found.measured.setdefault(ALL, {})[name] = self._measured(total)
        if rows.tally.rows_used:
            found.distributions.append(
                Distribution(name, "residual", tuple(edges[0]), tuple(map(int, total.residuals)))
            )
            found.graphs += _errors_by_rating(name, total.rating_bins)
        self._count_lost_users(rows, total.users)

    def _add_up(self, rows: ModelRows, user: Grouping, edges: Floats, rated: Floats) -> _Part:
        """What all pairs give; `edges` are those of errors, `rated` of ratings."""
        (store,) = rows.shares(user)
        own = [request for request in self.requests if over(request) == "users"]
        pooled = tuple(dict.fromkeys(r.metric.name for r in self.requests if over(r) == "rows"))
        middle = float((rated[0] + rated[-1]) / 2.0) if math.isfinite(rated[0]) else 0.0

        def work(part: int) -> _Part:
            names = ["user_key", "rating", "prediction"]
            columns = store.part(part, names)
            checks = store.part(part, [user.check])[0] if user.check is not None else None
            groups = number_groups(columns[0], checks)
            if groups is None:
                raise KeyCollisionError
            starts, ordered = sort_rows(groups, columns[1:])
            ratings, predictions = (values_of(each) for each in ordered)
            sums = PairSums(pooled)
            sums.add(ratings, predictions)
            sizes = np.diff(starts)
            values, means = np.empty((sizes.size, len(own))), [WeightedMean() for _ in own]
            for place, (request, mean) in enumerate(zip(own, means, strict=True)):
                value = np.empty(sizes.size)
                request.metric.kernel(starts, ratings, predictions, *request.encoded, value)
                mean.add(value, np.ones(sizes.size))
                values[:, place] = value
            spread, kept = TermSums([SMOOTH[name] for name in pooled]), KeptParts()
            terms = user_sums(spread.terms, starts, ratings, predictions, middle)
            spread.add(terms)
            if self.keeps:
                kept.add(groups.keys, values, np.ones(values.shape), terms)
            errors = _errors_of(ratings, predictions)
            counts = np.bincount(bin_of(errors, edges), minlength=edges.size - 1)
            bins = _sum_by_bin(bin_of(ratings, rated), rated.size - 1, errors, ratings)
            most = int(sizes.max()) if sizes.size else 0
            return _Part(
                sums, means, spread, kept, counts, bins, groups.n_groups, most, groups.keys
            )

        parts = ordered_map(work, range(store.n_parts), threads=self.threads)
        total = next(parts)
        users = [total.users]
        for part in parts:
            total.sums.merge(part.sums)
            for mine, theirs in zip(total.means, part.means, strict=True):
                mine.merge(theirs)
            total.spread.merge(part.spread)
            total.kept.merge(part.kept)
            total.residuals += part.residuals
            total.rating_bins.merge(part.rating_bins)
            total.n_users += part.n_users
            total.most_rows = max(total.most_rows, part.most_rows)
            users.append(part.users)
        return replace(total, users=np.concatenate(users))

    def _measured(self, total: _Part) -> Measured:
        """Numbers in the order of the requests, and columns of users where they are needed."""
        level, means = self.config.statistics.level, iter(total.means)
        numbers = []
        for request in self.requests:
            if over(request) == "users":
                numbers.append(Number.of_mean(request, next(means), level=level))
                continue
            constant = str(dict(request.parameters).get("constant", "undefined"))
            value = total.sums.value(request.metric.name, constant)
            error = total.spread.std_error(SMOOTH[request.metric.name])
            numbers.append(Number.of_rows(value, error, total.n_users, level=level))
        if not self.keeps:
            return Measured(numbers, total.n_users)
        own = [request for request in self.requests if over(request) == "users"]
        rows = [SMOOTH[each.metric.name] for each in self.requests if over(each) == "rows"]
        columns = total.kept.columns(list(zip(own, total.means, strict=True)), total.spread, rows)
        return Measured(numbers, total.n_users, {"users": columns})

    def _count_lost_users(self, rows: ModelRows, users: npt.NDArray[np.uint64]) -> None:
        """Users with ratings but no predicted pair, and the other way round."""
        for reason, key in (
            ("unpredicted", "users_without_prediction"),
            ("unrated", "users_without_rating"),
        ):
            seen = rows.tally.users.get(reason, [])
            lost = np.unique(np.concatenate(seen)) if seen else np.empty(0, dtype=np.uint64)
            rows.tally.noted[key] = int((~np.isin(lost, users)).sum())


# ---------------------------------------------------------------- residuals


def _errors_of(ratings: Floats, predictions: Floats) -> Floats:
    with np.errstate(over="ignore"):  # the edges take an infinite one
        return predictions - ratings


def _edges_of_residuals(store: Store, threads: int) -> Floats:
    """Edges around the smallest and the largest error."""

    def extremes(number: int) -> tuple[float, float]:
        batch = store.batches[number]
        ratings, predictions = (
            values_of(store.rows(batch, name)) for name in ("rating", "prediction")
        )
        if not ratings.size:
            return math.inf, -math.inf
        errors = _errors_of(ratings, predictions)
        return float(errors.min()), float(errors.max())

    pairs = list(ordered_map(extremes, range(len(store.batches)), threads=threads))
    low = min((pair[0] for pair in pairs), default=math.inf)
    high = max((pair[1] for pair in pairs), default=-math.inf)
    return _edges(low, high, RESIDUAL_BINS)


def _edges_of_ratings(store: Store) -> Floats:
    found = [store.rows(batch, "rating") for batch in store.batches if batch.n_rows]
    if not found:
        return _edges(math.inf, -math.inf, RATING_BINS)
    low, high = min(each.min() for each in found), max(each.max() for each in found)
    first, last = values_of(np.array([low, high], dtype=np.uint64))
    return _edges(float(first), float(last), RATING_BINS)


def _edges(low: float, high: float, most: int) -> Floats:
    if not math.isfinite(low) or not math.isfinite(high) or max(abs(low), abs(high)) > 1e300:
        return np.array([-math.inf, math.inf])
    return nice_edges(low, high, most)


def _sum_by_bin(
    bins: npt.NDArray[np.intp], n_bins: int, errors: Floats, ratings: Floats
) -> ExactSums:
    """Sums of error, distance and rating, three columns a bin."""
    sums = ExactSums(3 * n_bins)
    order = np.argsort(bins.astype(np.uint8), kind="stable")
    ends = np.cumsum(np.bincount(bins, minlength=n_bins))
    first = 0
    for number, end in enumerate(ends):
        rows = order[first:end]
        if rows.size:
            columns = np.stack([errors[rows], np.abs(errors[rows]), ratings[rows]], axis=1)
            sums.add(columns, first_column=3 * number)
        first = int(end)
    return sums


def _errors_by_rating(name: str, bins: ExactSums) -> list[Graph]:
    """MAE, RMSE and bias of each bin of true ratings, at its mean rating."""
    found = []
    for number in range(bins.counts.shape[0] // 3):
        error, distance, rating = (bins.sum_of(3 * number + column) for column in range(3))
        if error.count:
            root = root_of(Fraction(error.squares, error.count << 2 * SCALE_BITS))
            found.append((rating.mean, distance.mean, root, error.mean, error.count))
    x = tuple(each[0] for each in found)
    rows = tuple(float(each[4]) for each in found)
    return [
        Graph(
            name, "error-by-rating", "rating", metric, x, tuple(e[place] for e in found), rows=rows
        )
        for place, metric in ((1, "MAE"), (2, "RMSE"), (3, "bias"))
    ]


def _warnings(name: str, tally: RowTally) -> list[Warning_]:
    found = []
    unpredicted = tally.noted.get("unpredicted", 0)
    unrated = tally.dropped.get("unrated", 0)
    if unpredicted:
        message = f"{unpredicted:,} true ratings have no prediction and are left out: errors say "
        found.append(Warning_("unpredicted", message + "nothing about them", name))
    if unrated:
        message = f"{unrated:,} predictions have no true rating and are left out"
        found.append(Warning_("unrated", message, name))
    if repeats := tally.noted.get("truth_duplicates", 0):
        message = f"{repeats:,} ratings repeat a pair; the largest rating counts"
        found.append(Warning_("duplicate-truth", message))
    return found
