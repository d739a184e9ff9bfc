"""Measures one share of the users: rounds become sums of users, which no order moves.

Batches of rounds become arrays here; `_units.py` weighs rounds and adds them up.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from evalkit.config import Config
from evalkit.errors import DataError, RequestError, did_you_mean
from evalkit.kernels.arrays import Floats
from evalkit.kinds.logged._slates import PLACE, check_slates
from evalkit.kinds.logged._units import LARGEST, TermUnits, add_rounds
from evalkit.kinds.logged.declaration import LOGGING
from evalkit.kinds.logged.merge import LoggedSums, RoundCounts, WeightsSeen
from evalkit.kinds.logged.open import LoggedTables, open_logged, section_of, targets_of
from evalkit.metrics.logged import Recipe, Term
from evalkit.planning.counters import input_of
from evalkit.planning.work import MeasureOptions, ShareResult
from evalkit.sources import Table, reading
from evalkit.sources.guess import best_guess
from evalkit.sources.ids import USER_KEY, DrawnShare, Sample, as_array, plan_ids, try_seeds

BATCH_ROWS = 1 << 16  # whose terms stay in a core's cache
CONTEXT_SLACK = 1e-6
ROUND = "round_of_its_own"
MOST = 1 << 62  # of a sum, so that one more batch fits
MOST_POSITIONS = 10_000
SQUARES, ZEROS = "squares", "zeros"
SHARED = (Term("ones"), Term("reward"))
ALL = ("ones", "reward", "slates")  # terms of no target


def recipes_of(config: Config) -> list[Recipe]:
    """What each metric adds up."""
    return [
        request.metric.function(
            **{name: v if isinstance(v, str) else float(v) for name, v in request.parameters}
        )
        for request in config.requests
    ]


@dataclass(frozen=True, slots=True)
class TermColumns:
    """Terms of every target, in one order: those of no target, which stand once, come first."""

    terms: tuple[Term, ...]
    n_targets: int
    by_position: bool
    of_slates: bool

    @classmethod
    def of(cls, recipes: Sequence[Recipe], n_targets: int) -> "TermColumns":
        of_slates = any(recipe.is_of_slates for recipe in recipes)
        slates = (Term("slates"),) if of_slates else ()
        found = [term for recipe in recipes for pair in recipe.pairs for term in pair]
        always = (*SHARED, *slates, Term("weight"), Term("weighted"))
        whose = (Term("weight", weight=term.weight) for term in found)
        terms = tuple(dict.fromkeys((*always, *found, *whose)))
        return cls(terms, n_targets, any(r.by_position for r in recipes), of_slates)

    @property
    def own(self) -> list[Term]:
        """The terms of a target."""
        return [term for term in self.terms if term.name not in ALL]

    @property
    def names(self) -> list[str]:
        """Columns of sums."""
        shared = [self.column(0, term) for term in self.terms if term.name in ALL]
        places = range(self.n_targets)
        return [*shared, *(self.column(place, term) for place in places for term in self.own)]

    @property
    def weights(self) -> list[str]:
        """Whose probabilities are read: of the item first."""
        return list(dict.fromkeys(["item", *(term.weight for term in self.own)]))

    @property
    def spreads(self) -> list[str]:
        """Columns of squares of the item's weights, of how many are 0, then of other squares."""
        names = (SQUARES, ZEROS, *(f"{SQUARES}:{each}" for each in self.weights[1:]))
        return [f"{place}:{name}" for name in names for place in range(self.n_targets)]

    def rules(self) -> Floats:
        """float64[n_rules, 7], of each term of a target: weight 0, weighted reward 1 or prediction
        2; whose weight; whether of residuals, and with the prediction added; cap, tau, shrink.
        """
        kinds, weights = ("weight", "weighted", "predicted"), self.weights
        rows = [
            (kinds.index(t.name), weights.index(t.weight), t.residual, t.plus_predicted
             or t.name == "predicted", t.cap, t.tau, t.shrink)
            for t in self.own
        ]  # fmt: skip
        return np.array(rows, np.float64)

    def column(self, target: int, term: Term) -> str:
        """The name of a column of sums; what is of no target stands once."""
        return f"{'all' if term.name in ALL else target}:{self.terms.index(term)}"


def measure_logged(config: Config, work: MeasureOptions) -> ShareResult:
    """As `_measure`, by the first seed of hashes under which no two users share a key."""
    return try_seeds(lambda seed: _measure(config, work, seed))


def _measure(config: Config, work: MeasureOptions, seed: int) -> ShareResult:
    """The sums of one share of the users.

    Raises:
        RequestError: a metric needs a column that is not given [missing-key], or the baseline is
            no target [unknown-model].
        DataError: a propensity is null, 0, negative or above 1 [bad-propensity], a reward is no
            finite number [bad-reward], a target's table does not add up to 1
            [not-a-distribution].
    """
    opened = open_logged(config, work.given)
    if work.opened is not None:
        work.opened(opened.all)
    recipes = recipes_of(config)
    check_baseline(config)
    check_columns(config, recipes)
    n_targets = len(targets_of(config))
    wanted = TermColumns.of(recipes, n_targets)
    table = opened.log
    schema = dict(table.frame.collect_schema())
    keys = [name for name in schema if name.startswith("user_")]
    segments = [name for name in schema if name.startswith("segment_")]
    by = (*(keys or [ROUND]), *segments, *([PLACE] if wanted.by_position else []))
    adding = _RoundSums(
        opened, wanted, TermUnits(by, wanted.names, seed),
        TermUnits(segments, wanted.spreads, seed), WeightsSeen.of(n_targets), RoundCounts(),
    )  # fmt: skip
    check_slates(opened, recipes)
    nobody = pl.DataFrame(schema={**schema, ROUND: pl.Int64})
    for units in (adding.users, adding.spreads):
        units.slots_of(nobody)
    distributions = {
        place: _distribution(config, place, own) for place, own in opened.targets.items()
    }
    types = {name: schema[name] for name in keys}
    plan = plan_ids("user", [(table.role, table.at, types)], seed=seed) if keys else None
    n_rows = 0
    number, n_shares = work.share
    with reading(table):
        for batch in table.stream([pl.all()], most=BATCH_ROWS):
            first, n_rows = n_rows, n_rows + batch.height
            if plan is not None and (n_shares > 1 or work.sample is not None):
                keyed = batch.with_columns(plan.select(USER_KEY))
                held = np.ones(batch.height, np.bool_)
                if n_shares > 1:
                    held &= DrawnShare(number - 1, n_shares, plan).holds(keyed)
                if work.sample is not None:
                    held &= Sample(work.sample, plan).holds(keyed)
                batch = batch.filter(pl.Series(held))
            elif plan is None:
                rounds = pl.int_range(first, n_rows, eager=True)
                batch = batch.with_columns(rounds.alias(ROUND))
                if n_shares > 1:
                    batch = batch.filter(pl.col(ROUND) % n_shares == number - 1)
            if batch.height:
                adding.add(_with_targets(batch, opened, distributions))
    missing = _unsupported(config, opened, distributions)
    ids = {"user": tuple(map(str, types.values()))}
    inputs = [input_of(table, n_rows, "logged")]
    inputs += [input_of(own, own.n_rows_hint() or 0, "targets") for own in opened.targets.values()]
    whole = {number: adding.users.whole()}, {number: adding.spreads.parts()}
    names = tuple(table.user_names)
    unnamed, columns = "", section_of(config).columns
    if config.policies.units != "rounds" and not (columns.user or columns.round):
        unnamed = table.chosen.unread.get("user") or best_guess("user", table.used) or ""
    sums = LoggedSums(*whole, names, adding.counts, adding.seen, missing, table.at, unnamed)
    return ShareResult(config, ids, inputs, sums)


def check_baseline(config: Config) -> None:
    """What targets are held against is the logging policy or one of them.

    Raises:
        RequestError: it is neither [unknown-model].
    """
    known = [LOGGING, *(target.model for target in targets_of(config))]
    baseline = config.statistics.baseline
    if baseline is not None and baseline not in known:
        message = f"no target is called {baseline!r}"
        hint = did_you_mean(baseline, known, f"one of {', '.join(known)}")
        at = config.at("statistics", "baseline")
        raise RequestError(message, code="unknown-model", at=at, hint=hint)


def check_columns(config: Config, recipes: Sequence[Recipe]) -> None:
    """Every column that a metric needs is named.

    Raises:
        RequestError: one is not [missing-key].
    """
    columns = section_of(config).columns
    for request, recipe in zip(config.requests, recipes, strict=True):
        lacking = []
        if recipe.needs_model:
            lacking += [] if columns.predicted else ["predicted under [logged.columns]"]
            lacking += [
                f"predicted of the target {target.model}"
                for target in targets_of(config)
                if target.predicted is None
            ]
        if recipe.is_of_slates and columns.position is None:
            lacking.append("position under [logged.columns]")
        for weight in sorted(recipe.weights - {"item"}):
            if getattr(columns, f"propensity_{weight}") is None:
                lacking.append(f"propensity_{weight} under [logged.columns]")
            lacking += [
                f"probability_{weight} of the target {target.model}"
                for target in targets_of(config)
                if getattr(target, f"probability_{weight}") is None
            ]
        if lacking:
            raise RequestError(
                f"{request.label} needs {lacking[0]}",
                code="missing-key",
                at=config.at("metrics", "names"),
                hint="name the column; docs/logged.md says what each estimator needs",
            )


def _with_targets(
    batch: pl.DataFrame, opened: LoggedTables, distributions: dict[int, pl.DataFrame]
) -> pl.DataFrame:
    """Rows with `p:PLACE:KEY` for every probability of a target."""
    named = {
        f"target_{number}": f"p:{place}:{key}" for number, (place, key) in enumerate(opened.written)
    }
    rows = batch.rename(named)
    for place, table in distributions.items():
        columns = opened.contexts[place]
        keys = [name for name in table.columns if name.startswith("context_")]
        joined = rows.select(_as_in(rows, columns, table, keys)).join(
            table, left_on=list(columns), right_on=keys, how="left", maintain_order="left"
        )
        rows = rows.with_columns(
            joined["probability"].fill_null(0.0).alias(f"p:{place}:probability")
        )
    return rows


def _as_in(
    rows: pl.DataFrame, columns: Sequence[str], table: pl.DataFrame, keys: Sequence[str]
) -> list[pl.Expr]:
    """Columns of the log in the types of a target's table, where both are numbers.

    Raises:
        DataError: one is text and the other is not [bad-type].
    """
    found = []
    for column, key in zip(columns, keys, strict=True):
        own, theirs = _plain(rows, column), table.schema[key]
        mine = rows.select(own).dtypes[0]
        if mine != theirs and not (mine.is_numeric() and theirs.is_numeric()):
            message = f"the log says a context by {mine} and a target's table by {theirs}"
            hint = 'give both one type, such as "cast(user as bigint)"'
            raise DataError(message, code="bad-type", at=column, hint=hint)
        found.append(own.cast(theirs))
    return found


@dataclass(frozen=True, slots=True)
class _RoundSums:
    """Where rounds are added up."""

    opened: LoggedTables
    wanted: TermColumns
    users: TermUnits
    spreads: TermUnits
    seen: WeightsSeen
    counts: RoundCounts

    def add(self, rows: pl.DataFrame) -> None:
        """Add rounds to the sums of users, and to those of all rounds.

        Raises:
            DataError: as `_measure`.
        """
        table, wanted = self.opened.log, self.wanted
        _check_users(rows, table)
        places = range(wanted.n_targets)
        rewards = _numbers(rows, "reward", table)
        nothing = np.zeros(rows.height)
        predicted = _numbers(rows, "predicted", table) if "predicted" in rows.columns else nothing
        endings = ["" if weight == "item" else f"_{weight}" for weight in wanted.weights]
        logged = np.array([_chances(rows, f"propensity{each}", table) for each in endings])
        names = [[f"p:{place}:probability{each}" for each in endings] for place in places]
        weights = np.array([[_chances(rows, name, table) for name in own] for own in names])
        weights /= logged
        means = [f"p:{place}:predicted" for place in places]
        of_model = [_numbers(rows, each, table) for each in means if each in rows.columns]
        firsts = np.zeros(0)
        if wanted.of_slates:
            firsts = _positions(rows, table)
            self.counts.note_positions(firsts)
        by_ending = zip(endings, logged, strict=True)
        self.counts.note(rewards, {f"propensity{each}": float(p.min()) for each, p in by_ending})
        slots, cells = self.users.slots_of(rows), self.spreads.slots_of(rows)
        add_rounds(
            *(rewards, predicted, firsts, weights),
            np.array(of_model if len(of_model) == len(places) else [nothing] * len(places)),
            *(wanted.rules(), slots, self.users.sums.reshape(-1)),
            *(cells, self.spreads.sums.reshape(-1)),
            *(self.seen.bins, self.seen.tops, self.seen.largest_term),
        )
        np.maximum(self.seen.largest, weights[:, 0].max(axis=1), out=self.seen.largest)
        term = float(self.seen.largest_term[0])
        most = max(abs(self.spreads.sums).max(), abs(self.seen.bins).max())
        if not (term < LARGEST and most < MOST):
            message = f"weights and weighted rewards go up to {term:.3g}, which sums do not hold"
            hint = "measure rewards in a larger unit, and look at the smallest propensities"
            raise DataError(message, code="bad-reward", at=table.at, hint=hint)


def _check_users(rows: pl.DataFrame, table: Table) -> None:
    users = [name for name in rows.columns if name.startswith("user_")]
    if any(rows[name].null_count() for name in users):
        n = rows.filter(pl.any_horizontal(pl.col(users).is_null())).height
        raise DataError(f"{n:,} rounds have no user", code="null-id", at=table.at)


def _array(rows: pl.DataFrame, name: str) -> Floats:
    """A column as float64[n_rows], NaN where it is null."""
    found: Floats = as_array(rows[name].cast(pl.Float64))
    return found


def _chances(rows: pl.DataFrame, name: str, table: Table) -> Floats:
    """Probabilities; those of the log are above 0."""
    found, is_logging = _array(rows, name), name.startswith("propensity")
    low = found > 0.0 if is_logging else found >= 0.0
    bad = ~(low & (found <= 1.0))
    if bad.any():
        whose = name if is_logging else name.split(":")[2] + " of a target"
        raise DataError(
            f"{int(bad.sum()):,} values of {whose} are null or no probability, the first "
            f"{rows[name][int(bad.argmax())]!r}",
            code="bad-propensity",
            at=table.at,
            hint="a logged item has a propensity above 0 and at most 1; leave rows out by "
            "where, or mend the log: nothing is clipped here",
        )
    return found


def _numbers(rows: pl.DataFrame, name: str, table: Table) -> Floats:
    """Rewards, or what is predicted of them."""
    found = _array(rows, name)
    bad = ~np.isfinite(found)
    if bad.any():
        named = name if name[1] != ":" else "predicted of a target"
        message = f"{int(bad.sum()):,} values of {named} are null or no finite number"
        hint = "where = ... leaves them out"
        raise DataError(message, code="bad-reward", at=table.at, hint=hint)
    return found


def _positions(rows: pl.DataFrame, table: Table) -> Floats:
    """Positions of slates, whole numbers from 1."""
    found = _array(rows, PLACE)
    bad = ~((found >= 1.0) & (found <= MOST_POSITIONS) & (found == np.floor(found)))
    if bad.any():
        raise DataError(
            f"{int(bad.sum()):,} positions are no whole number from 1 to {MOST_POSITIONS:,}, the "
            f"first {rows[PLACE][int(bad.argmax())]!r}",
            code="bad-slates",
            at=table.at,
            hint='position = "pos + 1" under [logged.columns] where they are counted from 0',
        )
    return found


def _distribution(config: Config, place: int, table: Table) -> pl.DataFrame:
    """A target's table: contexts, item, probability; adding up to 1 a context."""
    target = targets_of(config)[place]
    with reading(table):
        rows = table.frame.collect()
    if target.rank is not None:
        rows = _of_ranks(config, target.model, rows, table.at)
    keys = [name for name in rows.columns if name.startswith("context_")]
    rows = rows.with_columns(_plain(rows, name) for name in keys)
    n_null = rows.filter(pl.any_horizontal(pl.col(keys).is_null())).height
    if n_null and place < len(targets_of(config)) - len(config.rankings):
        message = f"{n_null:,} rows of {target.model} have no context or no item"
        hint = "leave them out, or say which context they are of"
        raise DataError(message, code="null-id", at=table.at, hint=hint)
    value = pl.col("probability").cast(pl.Float64)
    bad = rows.filter(
        (value.is_null() | value.is_nan() | (value < 0) | (value > 1)).fill_null(True)
    )
    if bad.height:
        message = f"{bad.height:,} probabilities of {target.model} are null or not from 0 to 1"
        raise DataError(message, code="bad-propensity", at=table.at)
    twice = rows.height - rows.select(keys).unique().height
    if twice:
        message = f"{twice:,} rows of {target.model} repeat an item of a context"
        raise DataError(message, code="duplicate-pair", at=table.at)
    sums = rows.group_by(keys[:-1]).agg(value.sum().alias("total")).sort(keys[:-1])
    off = sums.filter((pl.col("total") - 1).abs() > CONTEXT_SLACK)
    if off.height and not target.is_partial:
        *context, total = off.row(0)
        raise DataError(
            f"probabilities of {target.model} add up to {total:.6g} in {off.height:,} contexts, "
            f"the first {', '.join(map(str, context))}",
            code="not-a-distribution",
            at=table.at,
            hint="is_partial = true where the table leaves items out on purpose",
        )
    return rows.with_columns(value)


def _of_ranks(config: Config, model: str, rows: pl.DataFrame, at: str) -> pl.DataFrame:
    """Lists as probabilities: of the first item, or of each at its position."""
    first, rank = config.policies.first_rank, pl.col("rank").cast(pl.Float64)
    is_place = rank.is_finite() & (rank == rank.floor()) & (rank >= first)
    if n_bad := rows.filter(~is_place.fill_null(value=False)).height:
        message = f"{n_bad:,} ranks of {model} are no whole numbers from {first} on"
        hint = "write first_rank = 0 under [policies] if ranks start there, or mend the column"
        raise DataError(message, code="bad-rank", at=at, hint=hint)
    if section_of(config).columns.position is None:
        rows = rows.filter(pl.col("rank") == first)
    elif first != 1:
        *_, place, _ = (name for name in rows.columns if name.startswith("context_"))
        rows = rows.with_columns(pl.col(place).cast(pl.Int64) + (1 - first))
    return rows.drop("rank").with_columns(probability=pl.lit(1.0))


def _plain(rows: pl.DataFrame, name: str) -> pl.Expr:
    """A column, as text where it is of categories."""
    is_named = rows.schema[name] in (pl.Categorical, pl.Enum)
    return pl.col(name).cast(pl.String) if is_named else pl.col(name)


def _unsupported(
    config: Config, opened: LoggedTables, distributions: dict[int, pl.DataFrame]
) -> dict[int, float]:
    """Of targets that are tables: the mass on items that the log never shows in that context.

    Raises:
        DataError: a table of probabilities lacks a context of the log [not-a-distribution].
    """
    found = {}
    for place, table in distributions.items():
        columns = list(opened.contexts[place])
        with reading(opened.log):
            shown = opened.log.frame.select(columns).group_by(columns).len().collect()
        keys = [name for name in table.columns if name.startswith("context_")]
        typed = shown.with_columns(_as_in(shown, columns, table, keys))
        renamed = typed.rename(dict(zip(columns, keys, strict=True)))
        rounds = renamed.group_by(keys[:-1]).agg(pl.col("len").sum())
        target, lacking = targets_of(config)[place], rounds.join(table, on=keys[:-1], how="anti")
        if lacking.height and target.rank is None and not target.is_partial:
            first = ", ".join(map(str, lacking.sort(keys[:-1]).row(0)[:-1]))
            raise DataError(
                f"{target.model} says nothing of {lacking.height:,} contexts of the log, of "
                f"{lacking['len'].sum():,} rounds, the first {first}",
                code="not-a-distribution",
                at=opened.targets[place].at,
                hint="is_partial = true counts such rounds as never shown",
            )
        never = table.join(renamed.select(keys), on=keys, how="anti")
        mass = never.group_by(keys[:-1]).agg(pl.col("probability").sum())
        both = rounds.join(mass, on=keys[:-1], how="left").fill_null(0.0).sort(keys[:-1])
        weights = both["len"].to_numpy()
        mass_of_all = float(weights @ both["probability"].to_numpy())
        found[place] = mass_of_all / max(int(weights.sum()), 1)
    return found
