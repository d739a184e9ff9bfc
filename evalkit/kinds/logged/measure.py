"""Measures one share of the users: rounds become sums of users, which no order moves.

A term of a round is cut into multiples of 2^-8 and of 2^-48 that are added up as integers, so that
neither the order of rows nor threads nor batches change a bit; it is rounded at 2^-49. Users are
grouped by Polars, which looks at real ids.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import polars as pl

from evalkit.config import Config
from evalkit.errors import DataError, RequestError
from evalkit.kinds.logged.merge import Biggest, LoggedSums, RowCounts
from evalkit.kinds.logged.open import LoggedTables, open_logged, section_of, targets_of
from evalkit.metrics.logged import Recipe, Term
from evalkit.planning.counters import input_of
from evalkit.planning.work import SEEDS, MeasureOptions, ShareResult
from evalkit.sources import Table, reading
from evalkit.sources.ids import USER_KEY, DrawnShare, Sample, plan_ids

COARSE, FINE = 2.0**8, 2.0**48
LARGEST = 2.0**40  # of a term: its sums over rounds stay below 2^63
BATCH_ROWS = 1 << 20
CONTEXT_SLACK = 1e-6
ROUND = "round_of_its_own"


def recipes_of(config: Config) -> list[Recipe]:
    """What each metric adds up."""
    return [
        request.metric.function(**{name: float(value) for name, value in request.parameters})
        for request in config.requests
    ]


@dataclass(frozen=True, slots=True)
class Wanted:
    """Terms of every target, in one order: `names[target][term]` are columns of sums."""

    terms: tuple[Term, ...]

    @classmethod
    def of(cls, recipes: Sequence[Recipe]) -> "Wanted":
        found = {term: None for recipe in recipes for pair in recipe.pairs for term in pair}
        always = (Term("ones"), Term("reward"), Term("weight"))
        return cls(tuple({term: None for term in (*always, *found)}))

    def column(self, target: int, term: Term) -> str:
        """The name of a column of sums; what is of no target stands once."""
        shared = term.name in ("ones", "reward", "slates")
        return f"{'all' if shared else target}:{self.terms.index(term)}"


def measure_logged(config: Config, work: MeasureOptions) -> ShareResult:
    """The sums of one share of the users.

    Raises:
        RequestError: a metric needs a column that is not given [missing-key].
        DataError: a propensity is null, 0, negative or above 1 [bad-propensity], a reward is no
            finite number [bad-reward], a target's table does not add up to 1
            [not-a-distribution].
    """
    opened = open_logged(config, work.given)
    if work.opened is not None:
        work.opened(opened.all)
    recipes = recipes_of(config)
    check_columns(config, recipes)
    wanted = Wanted.of(recipes)
    table = opened.log
    schema = dict(table.frame.collect_schema())
    keys = [name for name in schema if name.startswith("user_")]
    segments = [name for name in schema if name.startswith("segment_")]
    frames = Frames(keys or [ROUND], segments)
    distributions = {
        place: _distribution(config, place, own) for place, own in opened.targets.items()
    }
    types = {name: schema[name] for name in keys}
    plan = plan_ids("user", [(table.role, table.at, types)], seed=SEEDS[0]) if keys else None
    counts, n_rows = RowCounts(), 0
    biggest = [Biggest() for _ in targets_of(config)]
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
            rows = _with_targets(batch, opened, distributions)
            _check_rows(rows, table, counts)
            terms = _terms(rows, opened, wanted)
            _note(rows, biggest)
            frames.add(terms)
    missing = _unsupported(opened, distributions)
    ids = {"user": tuple(map(str, types.values()))}
    inputs = [input_of(table, n_rows, "logged")]
    inputs += [input_of(own, own.n_rows_hint() or 0, "targets") for own in opened.targets.values()]
    names = tuple(table.user_names)
    sums = LoggedSums({number: frames.whole()}, names, counts, biggest, missing, table.at)
    return ShareResult(config, ids, inputs, sums)


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


@dataclass(slots=True)
class Frames:
    """Sums of users so far; put together when they are many."""

    keys: Sequence[str]
    segments: Sequence[str]
    parts: list[pl.DataFrame] = field(default_factory=list)
    n_rows: int = 0

    def add(self, terms: pl.DataFrame) -> None:
        """Add the rounds of a batch."""
        self.parts.append(self._grouped(terms))
        self.n_rows += self.parts[-1].height
        if len(self.parts) > 8 and self.n_rows > 2 * self.parts[0].height:
            self.parts = [self._grouped(pl.concat(self.parts))]
            self.n_rows = self.parts[0].height

    def _grouped(self, rows: pl.DataFrame) -> pl.DataFrame:
        by = [*self.keys, *self.segments]
        sums = pl.exclude(*by).sum()
        return rows.group_by(by).agg(sums)

    def whole(self) -> pl.DataFrame:
        """All sums, as floats, in the order of the users."""
        rows = self._grouped(pl.concat(self.parts))
        names = [name[2:] for name in rows.columns if name.startswith("c|")]
        summed = [
            (pl.col(f"c|{name}") / COARSE + pl.col(f"f|{name}") / FINE).alias(name)
            for name in names
        ]
        return rows.select(*self.keys, *self.segments, *summed).sort(*self.keys, *self.segments)


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
        joined = rows.select(columns).join(
            table,
            left_on=list(columns),
            right_on=[name for name in table.columns if name.startswith("context_")],
            how="left",
            maintain_order="left",
        )
        rows = rows.with_columns(
            joined["probability"].fill_null(0.0).alias(f"p:{place}:probability")
        )
    return rows


def _check_rows(rows: pl.DataFrame, table: Table, counts: RowCounts) -> None:
    users = [name for name in rows.columns if name.startswith("user_")]
    if users and (n := rows.filter(pl.any_horizontal(pl.col(users).is_null())).height):
        raise DataError(f"{n:,} rounds have no user", code="null-id", at=table.at)
    for name in rows.columns:
        is_logging = name.startswith("propensity")
        if not is_logging and not (name.startswith("p:") and "probability" in name):
            continue
        value = pl.col(name).cast(pl.Float64)
        low = value <= 0 if is_logging else value < 0
        bad = rows.select(
            (value.is_null() | value.is_nan() | low | (value > 1)).fill_null(True)
        ).to_series()
        if bad.any():
            first = int(bad.arg_max() or 0)
            whose = name if is_logging else name.split(":")[2] + " of a target"
            raise DataError(
                f"{int(bad.sum()):,} values of {whose} are null or no probability, the first "
                f"{rows[name][first]!r}",
                code="bad-propensity",
                at=table.at,
                hint="a logged item has a propensity above 0 and at most 1; leave rows out by "
                "where, or mend the log: nothing is clipped here",
            )
    for name in ("reward", "predicted"):
        if name in rows.columns:
            bad = rows.select(
                ~pl.col(name).cast(pl.Float64).is_finite().fill_null(False)
            ).to_series()
            if bad.any():
                message = f"{int(bad.sum()):,} values of {name} are null or no finite number"
                hint = "where = ... leaves them out"
                raise DataError(message, code="bad-reward", at=table.at, hint=hint)
    if rows.height:
        named = [name for name in rows.columns if name.startswith("propensity")]
        ends = rows.select(pl.min("reward"), pl.max("reward").alias("most"), pl.col(named).min())
        low, high, *least = map(float, ends.row(0))
        counts.note(rows.height, (low, high), dict(zip(named, least, strict=True)))


def _weight(place: int, term: Term) -> pl.Expr:
    own = "" if term.weight == "item" else f"_{term.weight}"
    weight = pl.col(f"p:{place}:probability{own}").cast(pl.Float64) / pl.col(
        f"propensity{own}"
    ).cast(pl.Float64)
    if term.cap > 0:
        weight = pl.min_horizontal(weight, pl.lit(term.cap))
    if term.tau > 0:
        weight = pl.when(weight <= term.tau).then(weight).otherwise(0.0)
    if term.shrink > 0:
        weight = weight * term.shrink / (weight**2 + term.shrink)
    return weight


def _value(place: int, term: Term) -> pl.Expr:
    """A term of a round."""
    reward = pl.col("reward").cast(pl.Float64)
    if term.name == "ones":
        return pl.lit(1.0)
    if term.name == "reward":
        return reward
    if term.name == "slates":
        return (pl.col("place") == 1).cast(pl.Float64)
    if term.name == "weight":
        return _weight(place, term)
    if term.name == "squares":
        return _weight(place, term) ** 2
    mean = pl.col(f"p:{place}:predicted").cast(pl.Float64) if _uses_model(term) else pl.lit(0.0)
    if term.name == "predicted":
        return mean
    earned = reward - pl.col("predicted").cast(pl.Float64) if term.residual else reward
    value = _weight(place, term) * earned
    return value + mean if term.plus_predicted else value


def _uses_model(term: Term) -> bool:
    return term.name == "predicted" or term.plus_predicted


SQUARES, ZEROS = "squares", "zeros"


def _terms(rows: pl.DataFrame, opened: LoggedTables, wanted: Wanted) -> pl.DataFrame:
    """Keys, and every term as two integers: `c|NAME` in multiples of 2^-8, `f|NAME` the rest."""
    values: dict[str, pl.Expr] = {}
    n_targets = len(targets_of(opened.config))
    for place in range(n_targets):
        for term in wanted.terms:
            values.setdefault(wanted.column(place, term), _value(place, term))
        weight = _weight(place, Term("weight"))
        values[f"{place}:{SQUARES}"] = weight**2
        values[f"{place}:{ZEROS}"] = (weight == 0).cast(pl.Float64)
    keys = [
        name for name in rows.columns if name.startswith(("user_", "segment_")) or name == ROUND
    ]
    found = rows.select(*keys, *[value.alias(name) for name, value in values.items()])
    largest = found.select(pl.col(list(values)).abs().max()).row(0)
    for most in largest:
        if most is not None and not most < LARGEST:
            raise DataError(
                f"a weighted reward is {most:.3g}, and sums hold values below 2^40",
                code="bad-reward",
                at=opened.log.at,
                hint="measure rewards in a larger unit",
            )
    coarse = [(pl.col(name) * COARSE).floor().cast(pl.Int64).alias(f"c|{name}") for name in values]
    fine = [
        ((pl.col(name) - (pl.col(name) * COARSE).floor() / COARSE) * FINE)
        .round()
        .cast(pl.Int64)
        .alias(f"f|{name}")
        for name in values
    ]
    return found.select(*keys, *coarse, *fine)


def _note(rows: pl.DataFrame, biggest: Sequence[Biggest]) -> None:
    """The largest weights and weighted rewards of each target."""
    for place, big in enumerate(biggest):
        weight = _weight(place, Term("weight"))
        found = rows.select(
            weight.alias("w"), (weight * pl.col("reward").cast(pl.Float64)).alias("x")
        )
        if found.height:
            big.note(found["w"].to_numpy(), found["x"].to_numpy())


def _distribution(config: Config, place: int, table: Table) -> pl.DataFrame:
    """A target's table: contexts, item, probability; adding up to 1 a context."""
    target = targets_of(config)[place]
    with reading(table):
        rows = table.frame.collect()
    keys = [name for name in rows.columns if name.startswith("context_")]
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


def _unsupported(opened: LoggedTables, distributions: dict[int, pl.DataFrame]) -> dict[int, float]:
    """Of targets that are tables: the mass on items that the log never shows in that context."""
    found = {}
    for place, table in distributions.items():
        columns = list(opened.contexts[place])
        with reading(opened.log):
            shown = opened.log.frame.select(columns).group_by(columns).len().collect()
        keys = [name for name in table.columns if name.startswith("context_")]
        renamed = shown.rename(dict(zip(columns, keys, strict=True)))
        rounds = renamed.group_by(keys[:-1]).agg(pl.col("len").sum())
        never = table.join(renamed.select(keys), on=keys, how="anti")
        mass = never.group_by(keys[:-1]).agg(pl.col("probability").sum())
        both = rounds.join(mass, on=keys[:-1], how="left").fill_null(0.0).sort(keys[:-1])
        weights = both["len"].to_numpy()
        mass_of_all = float(weights @ both["probability"].to_numpy())
        found[place] = mass_of_all / max(int(weights.sum()), 1)
    return found
