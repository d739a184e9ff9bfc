"""What to judge next: unjudged pairs of user and item that could turn a verdict.

Every possible judgement of a pair is tried by the metric's own kernel: a scenario is the user once
more, under a number of its own, with the pair judged. Bounds over all judgements are found by
judging everything in favour of one model, then taking back what does not help; for metrics that
add up over ranks they are exact, for others (nDCG, AP) no scenario that was tried lies outside.
Where a metric looks at judgements (`judged`, `unjudged = "skip"`), a pair that is judged and not
relevant is a third state beside one that nobody judged; elsewhere the two count the same.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from evalkit.aggregate.user_values.checks import of_judged
from evalkit.config import Config, policies_of
from evalkit.errors import RequestError
from evalkit.metrics import parse_metrics
from evalkit.planning.tables import Given, open_tables
from evalkit.sources import Table, reading
from evalkit.statistics.agreement import Values

Measure = Callable[[pl.DataFrame, pl.DataFrame], pl.DataFrame]
States = npt.NDArray[np.int64]
UNJUDGED, NOT_RELEVANT, RELEVANT = range(3)
ROUNDS = 8


@dataclass(frozen=True, slots=True)
class JudgePlan:
    """Pairs to judge, those first that move the difference most, and what is possible.

    Args:
        frame: user columns, `item`, `gain` (the most that one judgement moves the difference of
            the means), `stratum` (whom a relevant item favours), and `judge` and `rating`, empty:
            the table that [judges] reads when judges have filled it.
        bounds: `judged`, `delta`, `low`, `high`: the difference now, and its bounds over all
            possible judgements; likewise where the pairs of the plan turn out not relevant.
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
        truth: `place`, `item`, `relevance`.
        lists: by model: `place`, `item`, `rank`.
        pairs: `place`, `item`.
        answers: what people may say of a pair that changes a number: `RELEVANT`, or both.
    """

    users: pl.DataFrame
    truth: pl.DataFrame
    lists: Mapping[str, pl.DataFrame]
    pairs: pl.DataFrame
    relevance: float
    measure: Measure
    answers: tuple[int, ...]

    def deltas(self, states: States) -> Values:
        """The difference of every user, float64[n_users], with the pairs in these states."""
        rows = self.pairs.with_columns(pl.Series("state", states))
        return self._differences(self.truth, rows, self.lists, self.users.height)

    def single(self, states: States, other: int) -> Values:
        """The user's difference where one pair alone is in another state, float64[n_pairs]."""
        scenario = self.pairs.with_row_index("scenario").select("scenario", "place", "item")
        set_now = self.pairs.with_columns(pl.Series("state", states))
        truth = scenario.select("scenario", "place").join(self.truth, on="place")
        others = scenario.join(set_now, on="place", suffix="_other")
        is_own = pl.col("item") == pl.col("item_other")
        rows = others.select(
            pl.col("scenario").alias("place"),
            pl.col("item_other").alias("item"),
            pl.when(is_own).then(other).otherwise("state").alias("state"),
        )
        lists = {
            model: scenario.select("scenario", "place")
            .join(frame, on="place")
            .select(pl.col("scenario").alias("place"), "item", "rank")
            for model, frame in self.lists.items()
        }
        renamed = truth.select(pl.col("scenario").alias("place"), "item", "relevance")
        return self._differences(renamed, rows, lists, scenario.height)

    def _differences(
        self,
        truth: pl.DataFrame,
        stated: pl.DataFrame,
        lists: Mapping[str, pl.DataFrame],
        n: int,
    ) -> Values:
        whole = pl.concat(
            [
                truth.with_columns(pl.col("place").cast(pl.Int64)),
                stated.filter(pl.col("state") != UNJUDGED).select(
                    pl.col("place").cast(pl.Int64),
                    "item",
                    ((pl.col("state") == RELEVANT) * self.relevance).alias("relevance"),
                ),
            ]
        )
        values = []
        for frame in lists.values():
            found = self.measure(whole, frame.with_columns(pl.col("place").cast(pl.Int64)))
            own = np.zeros(n)
            own[found["user"].to_numpy()] = np.nan_to_num(found["value"].to_numpy())
            values.append(own)
        return np.asarray(values[1] - values[0])


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
    (request,) = parse_metrics([metric])
    if request.cutoff is None:
        raise RequestError(
            f"{metric} has no cutoff: a plan looks at the first ranks",
            code="missing-cutoff",
            at="metric",
            hint=f"write {metric}@10",
        )
    called: Sequence[str] = ()
    if config.truth is not None and config.truth.judgements is not None:
        from evalkit.kinds.judges.judged_truth import with_consensus

        called = config.truth.columns.user
        config, given = with_consensus(config, given)
    asks = bool(of_judged([request], config.policies))
    skips = policies_of(request, config.policies).unjudged == "skip"
    tables = open_tables(config, given)
    with reading(tables.truth):
        truth = tables.truth.frame.collect()
    if "relevance" not in truth.columns:
        truth = truth.with_columns(relevance=pl.lit(1.0))
    names = {f"user_{place}": name for place, name in enumerate(called or tables.truth.user_names)}
    lists: dict[str, pl.DataFrame] = {}
    for model, table in tables.rankings:
        lists |= _ranked(model, table, names)
    unknown = [model for model in models if model not in lists]
    if unknown:
        raise RequestError(
            f"no model is called {unknown[0]!r}",
            code="unknown-model",
            at="models",
            hint=f"the models are {', '.join(lists)}",
        )

    policies = {
        **config.policies.model_dump(exclude_unset=True),
        "no_judged": "warn",
        "unknown_users": "skip",
    }
    threshold = config.truth.threshold if config.truth is not None else None

    def measure(judged: pl.DataFrame, ranked: pl.DataFrame) -> pl.DataFrame:
        found: pl.DataFrame = evaluate(
            judged.rename({"place": "user"}),
            {"model": ranked.rename({"place": "user"})},
            metrics=[metric],
            profile=config.metrics.profile,
            policies=policies,
            threshold=threshold,
            per_user=True,
        ).per_user(metric)
        return found

    largest = truth["relevance"].cast(pl.Float64).max()
    most = relevance if relevance is not None else float(str(largest or 1.0))
    return plan_judgements(
        truth.rename(names),
        {model: lists[model] for model in models or lists},
        n=n,
        cutoff=request.cutoff,
        relevance=most,
        measure=measure,
        answers=(NOT_RELEVANT, RELEVANT) if asks else (RELEVANT,),
        skips=skips,
    )


def _ranked(model: str | None, table: Table, names: Mapping[str, str]) -> dict[str, pl.DataFrame]:
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
            rows = rows.sort("score", descending=True, maintain_order=True)
        rows = rows.with_columns(pl.int_range(1, pl.len() + 1).over(by).alias("rank"))
    shown = rows.rename(dict(names))
    columns = [*names.values(), "item", "rank"]
    if "model" not in rows.columns:
        return {str(model): shown.select(columns)}
    parts = shown.partition_by("model", as_dict=True)
    return {str(name): part.select(columns) for (name,), part in parts.items()}


def plan_judgements(
    truth: pl.DataFrame,
    lists: Mapping[str, pl.DataFrame],
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
        measure: gives `user` and `value` of a truth and a list with users numbered.
        answers: what people may say of a pair that changes a number.
        skips: items that nobody judged leave their list, and ranks close up.
    Raises:
        RequestError: there are not two models, or nothing is unjudged [nothing-to-judge].
    """
    if len(lists) != 2:
        raise RequestError(
            f"a plan holds two models against each other, and {len(lists)} are given",
            code="nothing-to-judge",
            hint="name two: those whose verdict is to be settled",
        )
    pool = _pool_of(truth, lists, cutoff, relevance, measure, answers, skips)
    if not pool.pairs.height:
        raise RequestError(
            f"every item of the first {cutoff} ranks is judged",
            code="nothing-to-judge",
            hint="look deeper: a larger cutoff",
        )
    n_users = pool.users.height
    none = np.full(pool.pairs.height, UNJUDGED)
    now = pool.deltas(none)
    places = pool.pairs["place"].to_numpy()
    tried = np.array([pool.single(none, answer) - now[places] for answer in answers[::-1]])
    moves = tried[np.abs(tried).argmax(axis=0), np.arange(tried.shape[1])]
    chosen = _chosen(moves, n)
    reference, candidate = lists
    frame = (
        pool.pairs.with_columns(
            pl.Series("gain", np.abs(moves) / n_users),
            pl.Series(
                "stratum", np.where(moves > 0, f"favours {candidate}", f"favours {reference}")
            ),
        )[chosen]
        .join(pool.users.with_row_index("place"), on="place", how="left", maintain_order="left")
        .select(*pool.users.columns, "item", "gain", "stratum")
        .with_columns(judge=pl.lit(None, pl.String), rating=pl.lit(None, pl.Float64))
    )
    all_, rest = np.ones(len(none), np.bool_), np.ones(len(none), np.bool_)
    rest[chosen] = False
    after = np.where(rest, UNJUDGED, NOT_RELEVANT)
    rows = [
        (label, pool.deltas(states).mean(), *(_extreme(pool, states, free, s) for s in (-1, 1)))
        for label, states, free in (("now", none, all_), ("after the plan", after, rest))
    ]
    schema = ["judged", "delta", "low", "high"]
    return JudgePlan(frame, pl.DataFrame(rows, schema=schema, orient="row"))


def _chosen(moves: Values, n: int) -> npt.NDArray[np.int64]:
    """Places of the pairs that move most; what favours either model in turn, so that a pool that
    is judged by the plan leans to neither."""
    order = np.argsort(-np.abs(moves), kind="stable")
    order = order[moves[order] != 0]
    up, down = order[moves[order] > 0], order[moves[order] < 0]
    both = min(len(up), len(down))
    turns = np.empty(2 * both, np.int64)
    turns[0::2], turns[1::2] = up[:both], down[:both]
    rest = up[both:] if len(up) > both else down[both:]
    return np.concatenate([turns, rest])[:n].astype(np.int64)


def _extreme(pool: _Pool, states: States, free: npt.NDArray[np.bool_], sign: int) -> float:
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
    lists: Mapping[str, pl.DataFrame],
    cutoff: int,
    relevance: float,
    measure: Measure,
    answers: tuple[int, ...],
    skips: bool,
) -> _Pool:
    keys = [name for name in truth.columns if name not in ("item", "relevance")]
    users = truth.select(keys).unique().sort(keys)
    numbered = users.with_row_index("place")

    def place(frame: pl.DataFrame, columns: Sequence[str]) -> pl.DataFrame:
        return frame.join(numbered, on=keys).select("place", *columns)

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
        pl.concat([frame.select("place", "item") for frame in first.values()])
        .unique()
        .join(judged, on=["place", "item"], how="anti")
        .sort("place", "item")
    )
    return _Pool(users, judged, ranked, pairs, relevance, measure, answers)
