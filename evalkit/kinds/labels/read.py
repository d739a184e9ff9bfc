"""Scored rows with labels, checked and turned into keys that can be sorted."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl

from evalkit.config import Policies
from evalkit.errors import RequestError
from evalkit.kernels.arrays import Keys
from evalkit.kinds.labels._parts import Leading
from evalkit.kinds.pointwise.counts import CheckedRows
from evalkit.kinds.pointwise.open import float_column
from evalkit.kinds.pointwise.store import order_keys
from evalkit.sources import Table
from evalkit.sources.hints import keep_rows, turn_column
from evalkit.sources.ids import as_array

LARGEST_WEIGHT = 1e100  # the pairs of two rows weigh as their product
LARGEST_WHOLE = 2.0**53  # float64 holds every whole number up to it
SMALL = (pl.Boolean, pl.UInt8)


def refuse_policies(policies: Policies) -> None:
    """Refuse what a policy cannot mean for labels."""
    if policies.bad_scores == "last":
        message = "bad_scores = 'last' says nothing about labels"
        hint = 'write bad_scores = "drop" or "error" under [policies]'
        raise RequestError(message, code="bad-policy", at="[policies]", hint=hint)
    if policies.duplicates not in ("error", "count"):
        message = f"duplicates = {policies.duplicates!r} says nothing about labels"
        hint = 'write duplicates = "count" under [policies] to keep copies of rows'
        raise RequestError(message, code="bad-policy", at="[policies]", hint=hint)


@dataclass(frozen=True, slots=True)
class LabelReader:
    """Sorts rows out. Keys of scores are turned round: they ascend as scores descend.

    Args:
        thresholds: of labels, by table.
        probable: metrics of users or sessions whose scores are probabilities, as they are named.
    """

    policies: Policies
    thresholds: Mapping[int, float | None]
    probable: str = ""

    def columns(self, table: Table) -> list[pl.Expr]:
        """What is read of a table: score, label as 0, 1 or 2 for none, and weight if there."""
        schema = table.frame.collect_schema()
        found = [float_column("score", schema["score"]).alias("score")]
        label = pl.col("label")
        threshold = self.thresholds[id(table)]
        if threshold is not None:
            number = label.cast(pl.Float64)
            good = number.is_not_null() & number.is_not_nan()
            label = pl.when(good).then((number >= threshold).cast(pl.UInt8))
            label = label.otherwise(pl.lit(2, pl.UInt8))
        elif schema["label"] in SMALL:
            label = label.cast(pl.UInt8)
        else:
            one, zero, none = (pl.lit(each, pl.UInt8) for each in (1, 0, 2))
            label = pl.when(label == 1).then(one).when(label == 0).then(zero).otherwise(none)
        found.append(label.alias("label"))
        if "weight" in schema:
            found.append(pl.col("weight").cast(pl.Float64))
        return found

    def dtypes(self, table: Table) -> dict[str, type]:
        """The columns of the store."""
        schema = table.frame.collect_schema()
        is_small = schema["score"] in (pl.Float32, pl.Float16)
        found: dict[str, type] = {"score": np.uint32 if is_small else np.uint64, "label": np.uint8}
        return {**found, "weight": np.uint64} if "weight" in schema else found

    def prepare(self, rows: CheckedRows, table: Table) -> None:
        """Faulty scores, labels and weights are refused, or counted and left out."""
        rows.drop_nulls(["score"], "bad_score")
        scores, counts = _floats(rows.frame["score"]), np.zeros(2, dtype=np.int64)
        keys = order_keys(scores, counts)
        n_bad = rows.row_counts.dropped["bad_score"] + int(counts[0])
        if self.policies.bad_scores == "error":
            hint = 'write bad_scores = "drop" under [policies] to leave them out'
            rows.refuse_rows("bad-score", n_bad, "scores are NaN or null", at=table.at, hint=hint)
        _check_whole_scores(scores, rows, table)
        if counts[0]:
            rows.drop(np.isnan(scores), "bad_score")
            keys = order_keys(_floats(rows.frame["score"]), counts)
        labels = rows.frame["label"].fill_null(2)
        n_bad = int((labels > 1).sum())
        rows.row_counts.dropped["bad_label"] = 0
        if n_bad:
            if self.policies.bad_labels == "error":
                hint, what = 'bad_labels = "drop" under [policies]', "labels are null or NaN"
                if self.thresholds[id(table)] is None:
                    grades = "threshold = 4 if they are grades"
                    hint = f"write threshold = 1 under [labels] if -1 and 1, {grades}, or {hint}"
                    what = "labels are neither 0 nor 1"
                rows.refuse_rows("bad-label", n_bad, what, at=table.at, hint=hint)
            rows.drop(labels > 1, "bad_label")
            keys = order_keys(_floats(rows.frame["score"]), counts)
            labels = rows.frame["label"]
        if self.probable:
            scores = _floats(rows.frame["score"])
            bad = (scores < 0.0) | (scores > 1.0)
            if table.frame.collect_schema()["score"].is_integer():
                bad &= np.abs(scores) <= LARGEST_WHOLE  # larger ones are refused as such
            n_bad = int(bad.sum())
            what = f"scores are below 0 or above 1, and {self.probable} needs probabilities"
            hint = f"if they are logits: {turn_column(table, 'score', '1 / (1 + exp(-{}))')}"
            rows.refuse_rows("not-a-probability", n_bad, what, at=table.at, hint=hint)
        rows.columns["score"] = ~keys
        rows.columns["label"] = as_array(labels)
        rows.row_counts.noted["positives"] = int(rows.columns["label"].sum())
        if "weight" in rows.frame.columns:
            rows.columns["weight"] = _weights(rows, table)


def mark_scores(rows: CheckedRows) -> None:
    """Notes how the scores are spread."""
    rows.row_counts.marks["scores"] = Leading.of(rows.columns)


def _floats(series: pl.Series) -> npt.NDArray[np.floating]:
    return as_array(series)


def _check_whole_scores(scores: npt.NDArray[np.floating], rows: CheckedRows, table: Table) -> None:
    schema = table.frame.collect_schema()
    if not schema["score"].is_integer():
        return
    n_bad = int((np.abs(scores) > LARGEST_WHOLE).sum())
    what = "scores are whole numbers above 2^53, which float64 does not tell apart"
    hint = turn_column(table, "score", "cast({} as double) / 1000000") + ", for one"
    rows.refuse_rows("score-too-large", n_bad, what, at=table.at, hint=hint)


def _weights(rows: CheckedRows, table: Table) -> Keys:
    weights = rows.frame["weight"]
    good = ((weights >= 0) & weights.is_finite()).fill_null(value=False)
    n_bad = weights.len() - int(good.sum())
    if n_bad:
        hint = keep_rows(table, "weight", "between 0 and 1e100")
        what = "weights are null, NaN, infinite or below 0"
        rows.refuse_rows("bad-weight", n_bad, what, at=table.at, hint=hint)
        weights = weights.zip_with(good, pl.Series([1.0]))
    extreme = (weights > 0) & ~weights.is_between(1 / LARGEST_WEIGHT, LARGEST_WEIGHT)
    what = (
        f"weights are above {LARGEST_WEIGHT:g} or below its inverse, whose products are no numbers"
    )
    hint = f"bring them near 1: {turn_column(table, 'weight', '{} / 1e200')}, for one"
    rows.refuse_rows("bad-weight", int(extreme.sum()), what, at=table.at, hint=hint)
    return order_keys(as_array(weights), np.zeros(2, dtype=np.int64))
