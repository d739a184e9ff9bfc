"""Rows of a user, a true rating and a prediction, from one table or from two."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from evalkit.config import Config, Policies
from evalkit.errors import DataError, RequestError
from evalkit.keys import IdPlan, as_array, as_keys, plan_ids
from evalkit.rows import Grouping, Rows, order_keys
from evalkit.sources import Table, reading

N_RATED, N_PREDICTED = "n_rated", "n_predicted"


@dataclass(frozen=True, slots=True)
class Pairs:
    """Tables whose rows hold a rating and a prediction; `models` None reads them from the rows."""

    models: Sequence[tuple[str | None, Table]]
    joined: bool


def join_pairs(
    config: Config, ratings: Table, predictions: Sequence[tuple[str | None, Table]], seed: int
) -> Pairs:
    """Every model's predictions beside the true ratings: one group-by that finds repeats too.

    Raises:
        DataError: ids of two kinds [id-kind].
        RequestError: a policy that a join cannot follow [bad-policy].
    """
    refuse_policies(config.policies)
    tables = [ratings, *(table for _, table in predictions)]
    user, item = _plans(tables, seed)
    joined: list[tuple[str | None, Table]] = []
    for model, table in predictions:
        names = [model] if model is not None else _models_of(table)
        for name in names:
            rows = table.frame if model is not None else table.frame.filter(pl.col("model") == name)
            frame = _join(ratings.frame, rows, user, item)
            hints = [each.n_rows_hint() for each in (ratings, table)]
            n_rows = None if None in hints else max(each or 0 for each in hints)
            joined.append((name, ratings.with_frame(frame, n_rows)))
    return Pairs(joined, joined=True)


def refuse_policies(policies: Policies) -> None:
    """Repeated pairs are refused; of a rating that is there twice, the largest may count."""
    refused = []
    if policies.duplicates != "error":
        refused.append(f"duplicates = {policies.duplicates!r}")
    if policies.truth_duplicates not in ("error", "max"):
        refused.append(f"truth_duplicates = {policies.truth_duplicates!r}")
    if policies.bad_scores == "last":
        refused.append("bad_scores = 'last'")
    if refused:
        raise RequestError(
            f"{', '.join(refused)} says nothing about ratings",
            code="bad-policy",
            at="[policies]",
            hint="leave it out: a pair predicted twice is an error",
        )


def _plans(tables: Sequence[Table], seed: int) -> tuple[IdPlan, IdPlan]:
    users, items = [], []
    for table in tables:
        schema = table.frame.collect_schema()
        ids = {name: dtype for name, dtype in schema.items() if name.startswith("user_")}
        users.append((table.role, table.at, ids))
        items.append((table.role, table.at, {"item": schema["item"]}))
    return plan_ids("user", users, seed=seed), plan_ids("item", items, seed=seed)


def _models_of(table: Table) -> list[str]:
    with reading(table):
        found = table.frame.select(pl.col("model").unique(maintain_order=True)).collect(
            engine="streaming"
        )["model"]
    if found.null_count():
        raise DataError(
            "rows have no model",
            code="null-model",
            at=table.at,
            hint='leave them out: where = "model is not null"',
        )
    return [str(each) for each in found]


def _join(
    ratings: pl.LazyFrame, predictions: pl.LazyFrame, user: IdPlan, item: IdPlan
) -> pl.LazyFrame:
    ids = [*user.canonical(), *item.canonical()]
    one, none = pl.lit(1, pl.UInt32), pl.lit(0, pl.UInt32)
    rated = ratings.select(
        *ids,
        pl.col("rating").cast(pl.Float64),
        pl.lit(None, pl.Float64).alias("prediction"),
        one.alias(N_RATED),
        none.alias(N_PREDICTED),
    )
    predicted = predictions.select(
        *ids,
        pl.lit(None, pl.Float64).alias("rating"),
        pl.col("prediction").cast(pl.Float64),
        none.alias(N_RATED),
        one.alias(N_PREDICTED),
    )
    names = [*user.columns, *item.columns]
    both = pl.concat([rated, predicted])
    return both.group_by(names).agg(
        pl.col("rating").max(),
        pl.col("prediction").max(),
        pl.col(N_RATED).sum(),
        pl.col(N_PREDICTED).sum(),
    )


@dataclass(frozen=True, slots=True)
class PairReader:
    """Sorts rows out and makes keys of their ratings and predictions."""

    policies: Policies
    joined: bool
    user: Grouping

    def columns(self, table: Table) -> list[pl.Expr]:
        """What is read of a table."""
        schema = table.frame.collect_schema()
        found = [
            pl.col(name).cast(pl.Float64) if schema[name] != pl.Float64 else pl.col(name)
            for name in ("rating", "prediction")
        ]
        if self.joined:
            found += [
                pl.col(N_RATED),
                pl.col(N_PREDICTED),
                pl.col("item").is_null().alias("no_item"),
            ]
        return found

    def dtypes(self, table: Table) -> dict[str, type]:
        return {"rating": np.uint64, "prediction": np.uint64}

    def prepare(self, rows: Rows, table: Table) -> None:
        """Unpredicted pairs and unrated predictions are counted and left out, or refused."""
        if self.joined:
            self._count_joined(rows, table)
        frame = rows.frame
        no_rating, no_prediction = frame["rating"].is_null(), frame["prediction"].is_null()
        alone = no_rating & ~no_prediction if self.joined else no_rating
        n_unpredicted = int((no_prediction & ~no_rating).sum())
        n_unrated = int(alone.sum())
        policies = self.policies
        if n_unpredicted and policies.unpredicted == "error":
            raise _refused("unpredicted", n_unpredicted, "ratings have no prediction", table)
        if n_unrated and policies.unrated == "error":
            raise _refused("unrated", n_unrated, "predictions have no true rating", table)
        tally = rows.tally
        tally.noted["unpredicted"] = n_unpredicted
        tally.dropped["unrated"] = n_unrated
        if not self.joined:
            tally.dropped["unpredicted"] = n_unpredicted
        for reason, mask in (("unpredicted", no_prediction & ~no_rating), ("unrated", alone)):
            if mask.any():
                keys = as_keys(frame[self.user.key].filter(mask))
                tally.users[reason] = [np.unique(keys)]
        if n_unpredicted or n_unrated or no_rating.any():
            rows.frame = frame.filter(~(no_rating | no_prediction))
        self._check_numbers(rows, table)

    def _count_joined(self, rows: Rows, table: Table) -> None:
        """Rows were pairs; from here on they are counted as predictions."""
        frame, tally = rows.frame, rows.tally
        n_rated = int(frame[N_RATED].sum())
        repeated = int((frame[N_PREDICTED] > 1).sum())
        truth_repeats = n_rated - int((frame[N_RATED] > 0).sum())
        n_nulls = tally.dropped["null_id"]
        if bool(frame["no_item"].any()):
            n_nulls += int(frame.filter("no_item")[N_PREDICTED].sum())
            rows.frame = frame = frame.filter(~frame["no_item"])
            if self.policies.null_ids == "error":
                raise _refused("null-id", n_nulls, "predictions have no item", table)
        if repeated:
            raise _refused("duplicate-pair", repeated, "pairs are predicted twice or more", table)
        if truth_repeats and self.policies.truth_duplicates == "error":
            raise _refused("duplicate-truth", truth_repeats, "ratings repeat a pair", table)
        tally.rows = int(frame[N_PREDICTED].sum()) + n_nulls + tally.dropped["not_sampled"]
        tally.noted["rated"] = n_rated
        tally.noted["truth_duplicates"] = truth_repeats

    def _check_numbers(self, rows: Rows, table: Table) -> None:
        counts = np.zeros(2, dtype=np.int64)
        keys = {}
        for name in ("rating", "prediction"):
            keys[name] = order_keys(as_array(rows.frame[name]), counts)
        rows.tally.dropped["bad_score"] = 0
        if counts.any():
            bad = ~(rows.frame["rating"].is_finite() & rows.frame["prediction"].is_finite())
            if self.policies.bad_scores == "error":
                number = int(bad.sum())
                raise _refused(
                    "bad-score", number, "rows have a rating or prediction that is no number", table
                )
            rows.drop(bad, "bad_score")
            return self._check_numbers_again(rows)
        rows.columns.update(keys)
        return None

    def _check_numbers_again(self, rows: Rows) -> None:
        counts = np.zeros(2, dtype=np.int64)
        for name in ("rating", "prediction"):
            rows.columns[name] = order_keys(as_array(rows.frame[name]), counts)


_POLICY = {
    "unpredicted": 'unpredicted = "skip"',
    "unrated": 'unrated = "skip"',
    "null-id": 'null_ids = "drop"',
    "duplicate-truth": 'truth_duplicates = "max"',
    "bad-score": 'bad_scores = "drop"',
}


def _refused(code: str, number: int, what: str, table: Table) -> DataError:
    policy = _POLICY.get(code)
    return DataError(
        f"{number:,} {what}",
        code=code,
        at=table.at,
        hint=f"write {policy} under [policies] to leave them out and count them"
        if policy
        else "keep one of them: a join that repeats rows moves every number",
    )


__all__ = ["PairReader", "Pairs", "join_pairs", "refuse_policies"]
