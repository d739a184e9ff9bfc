"""What to judge next: unjudged pairs of user and item that could turn a verdict.

Every possible judgement of a pair is tried by the metric's own kernel: a scenario is the user once
more, under a number of its own, with the pair judged. Bounds over all judgements are found by
judging everything in favour of one model, then taking back what does not help; for metrics that
add up over ranks they are exact, for others (nDCG, AP) no scenario that was tried lies outside.
Where a metric looks at judgements (`judged`, `unjudged = "skip"`), a pair that is judged and not
relevant is a third state beside one that nobody judged; elsewhere the two count the same.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from typing import Any

import numpy as np
import polars as pl

from evalkit.aggregate.user_values.checks import of_judged
from evalkit.config import Config, Policies, policies_of
from evalkit.errors import DataError, RequestError
from evalkit.kernels.arrays import Flags, Floats, Ints
from evalkit.kinds.judges.ratings import in_order
from evalkit.metrics import Request, parse_metrics
from evalkit.planning.tables import Given, open_tables, plan_ids_of
from evalkit.sources import Table, reading
from evalkit.statistics.distributions import t_quantile

Lists = Mapping[str, pl.DataFrame]
Measure = Callable[[pl.DataFrame, Lists], Sequence[pl.DataFrame]]
UNJUDGED, NOT_RELEVANT, RELEVANT = range(3)
ROUNDS = 8
FEWEST_DRAWN = 200  # users, with outcomes of the plan drawn for each
BOUNDS = ["judged", "delta", "low", "high", "width", "interval"]


@dataclass(frozen=True, slots=True)
class JudgePlan:
    """Pairs to judge, those first that move the difference most, and what is possible.

    Args:
        frame: user columns, `item`, `gain` (the most that one judgement moves the difference of
            the means), `stratum` (whom a relevant item favours), and `judge` and `rating`, empty:
            the table that [judges] reads when judges have filled it.
        bounds: `judged`, `delta`, `low`, `high`: the difference now, and its bounds over all
            possible judgements; likewise where the pairs of the plan turn out not relevant.
            `width` is that of the bounds, `interval` that of the 95 % interval over users: after
            the plan as is expected where as many of its pairs are relevant as of what is judged
            (half, where nothing that is not relevant is judged).
    """

    frame: pl.DataFrame
    bounds: pl.DataFrame

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self.frame, name)

    def __getitem__(self, key: Any) -> Any:
        return self.frame[key]


@dataclass(frozen=True, slots=True)
class _Pool:
    """Users with their truth, both lists cut at the cutoff, and what nobody judged.

    Args:
        truth: `place` of the user, `item`, `relevance`.
        lists: by model: `place`, `item`, `rank`.
        pairs: `place`, `item`, `standing`: the sum over lists of 1 / log2(rank + 1).
        answers: what people may say of a pair that changes a number: `RELEVANT`, or both.
        found: differences by what they are of, a checksum: bounds come back to the same states.
    """

    n_users: int
    truth: pl.DataFrame
    lists: Lists
    pairs: pl.DataFrame
    relevance: float
    measure: Measure
    answers: tuple[int, ...]
    found: dict[bytes, Floats] = field(default_factory=dict)

    def deltas(self, states: Ints) -> Floats:
        """The difference of every user, float64[n_users], with the pairs in these states."""
        return self._once(states, "deltas", lambda: self._deltas(states))

    def single(self, states: Ints, other: int) -> Floats:
        """The user's difference where one pair alone is in another state, float64[n_pairs]."""
        return self._once(states, other, lambda: self._single(states, other))

    def _once(self, states: Ints, what: object, work: Callable[[], Floats]) -> Floats:
        key = blake2b(states.tobytes() + f"{what}".encode()).digest()
        if key not in self.found:
            self.found[key] = work()
        return self.found[key]

    def _deltas(self, states: Ints) -> Floats:
        judged = pl.concat([self.truth, _rows_of(self.pairs, states, self.relevance)])
        values = []
        for found in self.measure(judged, self.lists):
            own = np.zeros(self.n_users)
            own[found["user"].to_numpy()] = np.nan_to_num(found["value"].to_numpy())
            values.append(own)
        return np.asarray(values[1] - values[0])

    def _single(self, states: Ints, other: int) -> Floats:
        each = self.pairs.select(_COPY, "place")
        pairs = each.join(self.pairs.with_row_index("pair"), on="place", maintain_order="left")
        is_own = (pairs["pair"] == pairs["copy"]).to_numpy()
        copied = np.where(is_own, other, states[pairs["pair"].to_numpy()])
        return self._of(each)._deltas(copied)

    def drawn(self, n_draws: int) -> "_Pool":
        """Every user so many times."""
        copies = pl.DataFrame({"number": np.arange(n_draws)})
        places = pl.DataFrame({"place": np.arange(self.n_users)})
        return self._of(copies.join(places, how="cross").select(_COPY, "place"))

    def _of(self, copies: pl.DataFrame) -> "_Pool":
        """The users of `place`, each under the number `copy`."""

        def of(frame: pl.DataFrame) -> pl.DataFrame:
            found = copies.join(frame, on="place", maintain_order="left_right")
            return found.drop("place").rename({"copy": "place"})

        lists = {model: of(frame) for model, frame in self.lists.items()}
        return replace(
            self,
            n_users=copies.height,
            truth=of(self.truth),
            lists=lists,
            pairs=of(self.pairs),
            found={},
        )


_COPY = pl.int_range(pl.len()).alias("copy")


def _rows_of(pairs: pl.DataFrame, states: Ints, relevance: float) -> pl.DataFrame:
    """What the truth says of pairs in these states."""
    judged = pl.Series((states == RELEVANT) * relevance)
    rows = pairs.select("place", "item", relevance=judged)
    return rows.filter(pl.Series(states != UNJUDGED))


def plan_of_config(
    config: Config,
    metric: str,
    *,
    given: Given,
    n: int,
    models: Sequence[str],
    relevance: float | None,
    evaluate: Callable[..., Any],
) -> JudgePlan:
    """The plan for the truth and two of the rankings of a config.

    Args:
        evaluate: `evalkit.evaluate`, which measures what is tried.
    Raises:
        RequestError: as `judge_plan` does.
        DataError: as `open_tables` does.
    """
    request, cutoff = _with_cutoff(metric)
    for name, value in (("n", n), ("relevance", relevance)):
        if value is not None and not 0 < value < math.inf:
            message = f"{name} is {value!r}, not a number above 0"
            raise RequestError(message, code="out-of-range", at=name, hint=f"{name}=3")
    called: Sequence[str] = ()
    if config.truth is not None and config.truth.judgements is not None:
        from evalkit.kinds.judges.judged_truth import with_consensus

        called = config.truth.columns.user
        config, given = with_consensus(config, given)
    asks = bool(of_judged([request], config.policies))
    skips = policies_of(request, config.policies).unjudged == "skip"
    tables = open_tables(config, given)
    plan_ids_of(tables, 1)  # of one kind
    with reading(tables.truth):
        truth = tables.truth.frame.collect()
    if not truth.height:
        hint = "judge some pairs first: a plan says which to judge next"
        raise DataError("the truth has no rows", code="empty-input", at=tables.truth.at, hint=hint)
    if "relevance" not in truth.columns:
        truth = truth.with_columns(relevance=pl.lit(1.0))
    names = {f"user_{place}": name for place, name in enumerate(called or tables.truth.user_names)}
    lists = _lists_of(tables.rankings, names, models, config.policies)
    policies = {
        **config.policies.model_dump(exclude_unset=True),
        "no_judged": "warn",
        "unknown_users": "skip",
    }
    threshold = config.truth.threshold if config.truth is not None else None

    def measure(judged: pl.DataFrame, lists: Lists) -> list[pl.DataFrame]:
        report = evaluate(
            judged.rename({"place": "user"}),
            {model: ranked.rename({"place": "user"}) for model, ranked in lists.items()},
            metrics=[metric],
            profile=config.metrics.profile,
            policies=policies,
            threshold=threshold,
            per_user=True,
        )
        return [report.per_user(metric, model=model) for model in lists]

    largest = truth["relevance"].cast(pl.Float64).max()
    most = float(str(largest or 1.0)) if relevance is None else float(relevance)
    return plan_judgements(
        truth.rename(names),
        lists,
        n=n,
        cutoff=cutoff,
        relevance=most,
        measure=measure,
        answers=(NOT_RELEVANT, RELEVANT) if asks else (RELEVANT,),
        skips=skips,
    )


def _with_cutoff(metric: str) -> tuple[Request, int]:
    request, *others = parse_metrics([metric])
    if request.cutoff is None or others:
        message = f"{metric} has no cutoff of its own: a plan looks at the first ranks"
        hint = f"write {request.metric.name}@10"
        raise RequestError(message, code="missing-cutoff", at="metric", hint=hint)
    return request, request.cutoff


def _lists_of(
    rankings: Sequence[tuple[str | None, Table]],
    names: Mapping[str, str],
    models: Sequence[str],
    policies: Policies,
) -> dict[str, pl.DataFrame]:
    """Ranked rows of these models, or of all.

    Raises:
        RequestError: there is no such model [unknown-model].
        DataError: a score is null or NaN [bad-score].
    """
    lists: dict[str, pl.DataFrame] = {}
    for model, table in rankings:
        lists |= _ranked(model, table, names, policies)
    for model in models:
        if model not in lists:
            message = f"no model is called {model!r}"
            hint = f"the models are {', '.join(lists)}"
            raise RequestError(message, code="unknown-model", at="models", hint=hint)
    return {model: lists[model] for model in models or lists}


def _ranked(
    model: str | None, table: Table, names: Mapping[str, str], policies: Policies
) -> dict[str, pl.DataFrame]:
    """Rows of a table of rankings with a rank: as given, else by score, else by their order."""
    with reading(table):
        rows = table.frame.collect()
    users = list(names)
    if isinstance(rows.schema["item"], pl.List):
        lists = [name for name in ("item", "rank", "score") if name in rows.columns]
        rows = rows.explode(lists)
    by = ["model", *users] if "model" in rows.columns else users
    if "rank" not in rows.columns:
        if "score" in rows.columns:
            rows = _by_score(rows, policies, table.at)
        rows = rows.with_columns(pl.int_range(1, pl.len() + 1).over(by).alias("rank"))
    shown = rows.rename(dict(names))
    columns = [*names.values(), "item", "rank"]
    if "model" not in rows.columns:
        return {str(model): shown.select(columns)}
    parts = shown.partition_by("model", as_dict=True)
    return {str(name): part.select(columns) for (name,), part in parts.items()}


def _by_score(rows: pl.DataFrame, policies: Policies, at: str) -> pl.DataFrame:
    if rows.schema["score"].is_float():
        rows = rows.with_columns(pl.col("score").fill_nan(None))
    n_bad = rows["score"].null_count()
    if n_bad and policies.bad_scores == "error":
        hint = 'leave such rows out, or write bad_scores = "drop" under [policies]'
        raise DataError(f"{n_bad:,} scores are null or NaN", code="bad-score", at=at, hint=hint)
    if policies.bad_scores == "drop":
        rows = rows.drop_nulls("score")
    item = pl.col("item").cast(pl.String) if "text" in policies.ties else pl.col("item")
    ties = [] if policies.ties == "input" else [item]
    down = [True, policies.ties.endswith("-desc")][: 1 + len(ties)]
    return rows.sort("score", *ties, descending=down, nulls_last=True, maintain_order=True)


def plan_judgements(
    truth: pl.DataFrame,
    lists: Lists,
    *,
    n: int,
    cutoff: int,
    relevance: float,
    measure: Measure,
    answers: tuple[int, ...] = (RELEVANT,),
    skips: bool = False,
) -> JudgePlan:
    """The plan.

    Args:
        truth: user columns, `item`, `relevance`; 0 is judged and not relevant.
        lists: of two models, the reference first: user columns, `item`, `rank`.
        n: pairs that can be judged.
        cutoff: ranks that are looked at.
        relevance: of an item that is as relevant as can be.
        measure: gives `user` and `value` of a truth and each of the lists, with users numbered.
        answers: what people may say of a pair that changes a number.
        skips: items that nobody judged leave their list, and ranks close up.
    Raises:
        RequestError: there are not two models, or nothing is unjudged [nothing-to-judge].
    """
    if len(lists) != 2:
        message = f"a plan holds two models against each other, and {len(lists)} are given"
        hint = "name two: those whose verdict is to be settled"
        raise RequestError(message, code="nothing-to-judge", hint=hint)
    users, pool = _pool_of(truth, lists, cutoff, relevance, measure, answers, skips)
    if not pool.pairs.height:
        message = f"every item of the first {cutoff} ranks is judged"
        raise RequestError(message, code="nothing-to-judge", hint="look deeper: a larger cutoff")
    none = np.full(pool.pairs.height, UNJUDGED)
    now = pool.deltas(none)
    places = pool.pairs["place"].to_numpy()
    tried = np.array([pool.single(none, answer) - now[places] for answer in answers[::-1]])
    moves = tried[np.abs(tried).argmax(axis=0), np.arange(tried.shape[1])]
    chosen = _chosen(moves, pool.pairs["standing"].to_numpy(), n)
    reference, candidate = lists
    favours = np.where(moves > 0, f"favours {candidate}", f"favours {reference}")
    frame = (
        pool.pairs.with_columns(
            pl.Series("gain", np.abs(moves) / pool.n_users), pl.Series("stratum", favours)
        )[chosen]
        .join(users, on="place", how="left", maintain_order="left")
        .select(*users.columns[1:], "item", "gain", "stratum")
        .with_columns(judge=pl.lit(None, pl.String), rating=pl.lit(None, pl.Float64))
    )
    free = np.ones(len(none), np.bool_)
    rest = free.copy()
    rest[chosen] = False
    after = np.where(rest, UNJUDGED, NOT_RELEVANT)
    copies = pool.drawn(-(-FEWEST_DRAWN // pool.n_users))
    others = np.tile(rest, copies.n_users // pool.n_users)
    # what people may say of the plan: as many are relevant as of what they have judged
    judged = pool.truth["relevance"].to_numpy()
    share = (judged > 0).mean() if (judged <= 0).any() else 0.5
    is_relevant = np.random.Generator(np.random.PCG64(1)).random(len(others)) < share
    said = np.where(others, UNJUDGED, np.where(is_relevant, RELEVANT, NOT_RELEVANT))
    expected = _bounds(copies, said, others, pool.n_users)
    rows = [
        ("now", *_bounds(pool, none, free, pool.n_users)),
        ("after the plan", *_bounds(pool, after, rest, pool.n_users)[:3], *expected[3:]),
    ]
    return JudgePlan(frame, pl.DataFrame(rows, BOUNDS, orient="row"))


def _bounds(
    pool: _Pool, states: Ints, free: Flags, n_users: int
) -> tuple[float, float, float, float, float | None]:
    """The mean difference, its bounds where free pairs may be judged in any way, their width, and
    the width of Student's 95 % interval over `n_users` users.
    """
    low, high = (_extreme(pool, states, free, sign) for sign in (-1, 1))
    deltas, interval = pool.deltas(states), None
    if n_users > 1:
        half = t_quantile(0.975, n_users - 1) * float(deltas.std(ddof=1)) / math.sqrt(n_users)
        interval = 2 * half
    return float(deltas.mean()), low, high, high - low, interval


def _chosen(moves: Floats, standing: Floats, n: int) -> Ints:
    """Places of the pairs that are expected to move most: what they move where they are relevant,
    times how high both lists put them. What counts alike favours either model in turn.
    """
    rows = pl.DataFrame({"score": (np.abs(moves) * standing).round(12), "up": moves > 0})
    turn = pl.int_range(pl.len()).over("score", "up")
    rows = rows.with_row_index("place").filter(pl.col("score") > 0).with_columns(turn=turn)
    rows = rows.sort("score", "turn", "up", descending=[True, False, True])
    return rows["place"].head(n).to_numpy().astype(np.int64)


def _extreme(pool: _Pool, states: Ints, free: Flags, sign: int) -> float:
    """The largest (sign 1) or smallest mean difference that judging free pairs can give."""
    places = pool.pairs["place"].to_numpy()
    best = pool.deltas(states)
    kinds = np.array((UNJUDGED, *pool.answers))
    for _ in range(ROUNDS):
        tried = np.array([sign * (pool.single(states, kind) - best[places]) for kind in kinds])
        moves, wanted = tried.max(axis=0), kinds[tried.argmax(axis=0)]
        better = free & (moves > 1e-12)
        if not better.any():
            break
        trial = np.where(better, wanted, states)
        worse = (sign * (pool.deltas(trial) - best) < -1e-12)[places]
        # where all of a user's changes together do not help, the best one alone is taken
        top = np.full(len(best), -np.inf)
        np.maximum.at(top, places[better], moves[better])
        alone = better & (moves == top[places])
        states = np.where(worse, np.where(alone, wanted, states), trial)
        best = pool.deltas(states)
    return float(best.mean())


def _pool_of(
    truth: pl.DataFrame,
    lists: Lists,
    cutoff: int,
    relevance: float,
    measure: Measure,
    answers: tuple[int, ...],
    skips: bool,
) -> tuple[pl.DataFrame, _Pool]:
    """`place` of every user, and the pool."""
    keys = [name for name in truth.columns if name not in ("item", "relevance")]
    users = in_order(truth.select(keys).unique(), keys)
    users = users.select(pl.int_range(pl.len()).alias("place"), *keys)

    def place(frame: pl.DataFrame, columns: Sequence[str]) -> pl.DataFrame:
        return frame.join(users, on=keys).select("place", *columns)

    judged = place(truth, ("item", "relevance")).with_columns(pl.col("relevance").cast(pl.Float64))
    ranked = {model: place(frame, ("item", "rank")) for model, frame in lists.items()}
    if skips:  # an item may be shown once those before it that nobody judged are gone
        is_judged = judged.select("place", "item", before=pl.lit(1))
        n_before = pl.col("before").fill_null(0).cum_sum().over("place", order_by="rank")
        first = {
            model: frame.join(is_judged, on=["place", "item"], how="left").filter(n_before < cutoff)
            for model, frame in ranked.items()
        }
    else:
        first = ranked = {
            model: frame.filter(pl.col("rank") <= cutoff) for model, frame in ranked.items()
        }
    pairs = (
        pl.concat([frame.select("place", "item", "rank") for frame in first.values()])
        .group_by("place", "item")
        .agg(standing=(1 / (pl.col("rank") + 1).log(2)).sum())
        .join(judged, on=["place", "item"], how="anti")
    )
    pairs = in_order(pairs, ("place", "item"))
    return users, _Pool(users.height, judged, ranked, pairs, relevance, measure, answers)
