"""Measures one share of the users: rounds become sums of users, which no order moves.

Polars makes the terms of rounds, batch by batch; `_units.py` adds them up.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from evalkit.config import Config
from evalkit.errors import DataError, RequestError
from evalkit.kinds.logged._units import TermUnits
from evalkit.kinds.logged.merge import Biggest, LoggedSums, RoundCounts
from evalkit.kinds.logged.open import LoggedTables, open_logged, section_of, targets_of
from evalkit.metrics.logged import Recipe, Term
from evalkit.planning.counters import input_of
from evalkit.planning.work import MeasureOptions, ShareResult, try_seeds
from evalkit.sources import Table, reading
from evalkit.sources.ids import USER_KEY, DrawnShare, Sample, plan_ids

LARGEST = 2.0**40  # of a term: its sums over rounds stay below 2^63
BATCH_ROWS = 1 << 16  # whose terms stay in a core's cache
CONTEXT_SLACK = 1e-6
ROUND = "round_of_its_own"


def recipes_of(config: Config) -> list[Recipe]:
    """What each metric adds up."""
    return [
        request.metric.function(**{name: float(value) for name, value in request.parameters})
        for request in config.requests
    ]


@dataclass(frozen=True, slots=True)
class TermColumns:
    """Terms of every target, in one order: `names[target][term]` are columns of sums."""

    terms: tuple[Term, ...]

    @classmethod
    def of(cls, recipes: Sequence[Recipe]) -> "TermColumns":
        found = {term: None for recipe in recipes for pair in recipe.pairs for term in pair}
        always = (Term("ones"), Term("reward"), Term("weight"), Term("weighted"))
        return cls(tuple({term: None for term in (*always, *found)}))

    def column(self, target: int, term: Term) -> str:
        """The name of a column of sums; what is of no target stands once."""
        shared = term.name in ("ones", "reward", "slates")
        return f"{'all' if shared else target}:{self.terms.index(term)}"


def measure_logged(config: Config, work: MeasureOptions) -> ShareResult:
    """As `_measure`, by the first seed of hashes under which no two users share a key."""
    return try_seeds(lambda seed: _measure(config, work, seed))


def _measure(config: Config, work: MeasureOptions, seed: int) -> ShareResult:
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
    wanted = TermColumns.of(recipes)
    table = opened.log
    schema = dict(table.frame.collect_schema())
    keys = [name for name in schema if name.startswith("user_")]
    segments = [name for name in schema if name.startswith("segment_")]
    names = list(
        dict.fromkeys(
            wanted.column(p, t) for p, _ in enumerate(targets_of(config)) for t in wanted.terms
        )
    )
    spreads = [
        f"{place}:{name}" for name in (SQUARES, ZEROS) for place in range(len(targets_of(config)))
    ]
    users = TermUnits((*(keys or [ROUND]), *segments), names, seed)
    weights = TermUnits(segments, spreads, seed)
    distributions = {
        place: _distribution(config, place, own) for place, own in opened.targets.items()
    }
    types = {name: schema[name] for name in keys}
    plan = plan_ids("user", [(table.role, table.at, types)], seed=seed) if keys else None
    counts, n_rows = RoundCounts(), 0
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
            _add(rows, opened, wanted, (users, weights), biggest)
    missing = _unsupported(opened, distributions)
    ids = {"user": tuple(map(str, types.values()))}
    inputs = [input_of(table, n_rows, "logged")]
    inputs += [input_of(own, own.n_rows_hint() or 0, "targets") for own in opened.targets.values()]
    whole = {number: users.whole()}, {number: weights.parts()}
    sums = LoggedSums(*whole, tuple(table.user_names), counts, biggest, missing, table.at)
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
            table,
            left_on=list(columns),
            right_on=keys,
            how="left",
            maintain_order="left",
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
    for column, key in zip(columns, keys, strict=True):
        mine, theirs = rows.schema[column], table.schema[key]
        if mine.is_numeric() != theirs.is_numeric():
            raise DataError(
                f"the log says a context by {mine} and a target's table by {theirs}",
                code="bad-type",
                at=column,
                hint='give both one type, such as "cast(user as bigint)"',
            )
    return [
        pl.col(column).cast(table.schema[key]) if table.schema[key].is_numeric() else pl.col(column)
        for column, key in zip(columns, keys, strict=True)
    ]


def _check_rows(rows: pl.DataFrame, table: Table, counts: RoundCounts) -> None:
    users = [name for name in rows.columns if name.startswith("user_")]
    if users and (n := rows.filter(pl.any_horizontal(pl.col(users).is_null())).height):
        raise DataError(f"{n:,} rounds have no user", code="null-id", at=table.at)
    checks: dict[str, pl.Expr] = {}
    for name in rows.columns:
        is_logging = name.startswith("propensity")
        if not is_logging and not (name.startswith("p:") and "probability" in name):
            continue
        value = pl.col(name).cast(pl.Float64)
        low = value > 0 if is_logging else value >= 0
        checks[name] = (low & (value <= 1)).fill_null(False)
    holds = rows.select(each.all().alias(name) for name, each in checks.items())
    for name in [name for name in checks if rows.height and not holds[name][0]]:
        is_logging = name.startswith("propensity")
        bad = ~rows.select(checks[name]).to_series()
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
        least_reward, most, *least = map(float, ends.row(0))
        counts.note(rows.height, (least_reward, most), dict(zip(named, least, strict=True)))


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


def _add(
    rows: pl.DataFrame,
    opened: LoggedTables,
    wanted: TermColumns,
    sums: tuple[TermUnits, TermUnits],
    biggest: Sequence[Biggest],
) -> None:
    """Add rounds to the sums of users, and to those of weights of a segment."""
    values: dict[str, pl.Expr] = {}
    for place in range(len(biggest)):
        for term in wanted.terms:
            values.setdefault(wanted.column(place, term), _value(place, term))
    found = rows.select(
        pl.lit(each).alias(name) if not isinstance(each, pl.Expr) else each.alias(name)
        for name, each in values.items()
    )
    users, spreads = sums
    matrix = found.to_numpy(order="fortran").T
    largest = users.add(rows, matrix)
    if not rows.height:
        return
    at = [
        users.terms.index(f"{place}:{wanted.terms.index(Term('weight'))}")
        for place in range(len(biggest))
    ]
    largest = max(largest, spreads.add_weights(rows, matrix, at))
    if not largest < LARGEST:
        raise DataError(
            f"a weighted reward is {largest:.3g}, and sums hold values below 2^40",
            code="bad-reward",
            at=opened.log.at,
            hint="measure rewards in a larger unit",
        )
    earned = wanted.terms.index(Term("weighted"))
    for place, big in enumerate(biggest):
        big.note(matrix[at[place]], matrix[users.terms.index(f"{place}:{earned}")])


def _distribution(config: Config, place: int, table: Table) -> pl.DataFrame:
    """A target's table: contexts, item, probability; adding up to 1 a context."""
    target = targets_of(config)[place]
    with reading(table):
        rows = table.frame.collect()
    if target.rank is not None:
        if section_of(config).columns.position is None:
            rows = rows.filter(pl.col("rank") == 1)
        rows = rows.drop("rank").with_columns(probability=pl.lit(1.0))
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
        typed = shown.with_columns(_as_in(shown, columns, table, keys))
        renamed = typed.rename(dict(zip(columns, keys, strict=True)))
        rounds = renamed.group_by(keys[:-1]).agg(pl.col("len").sum())
        never = table.join(renamed.select(keys), on=keys, how="anti")
        mass = never.group_by(keys[:-1]).agg(pl.col("probability").sum())
        both = rounds.join(mass, on=keys[:-1], how="left").fill_null(0.0).sort(keys[:-1])
        weights = both["len"].to_numpy()
        mass_of_all = float(weights @ both["probability"].to_numpy())
        found[place] = mass_of_all / max(int(weights.sum()), 1)
    return found
