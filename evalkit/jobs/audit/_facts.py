"""Which conventions cannot matter on some logs: what they are about does not occur."""

from collections.abc import Mapping

import polars as pl

from evalkit.config import Policies
from evalkit.jobs.audit._points import Point, with_values
from evalkit.metrics import Value
from evalkit.planning.tables import Tables
from evalkit.sources import reading

# about what: the axes that are moot where it does not occur
SUBJECTS: dict[str, tuple[str, ...]] = {
    "no item stands twice in a list": ("duplicates", "rel_size"),
    "there are no scores, or no two of a list are equal as float32": ("ties", "score_type"),
    "no score is 0 or below": ("nonpositive_scores",),
    "every user of the truth has a ranking": ("missing_ranking",),
    "no ranking is empty": ("empty_ranking",),
    "every user of the truth has a relevant item": (),
    "the truth has every ranked user": ("unknown_users",),
    "no relevance is below 0": ("negative_relevance", "idcg_negative"),
    "every relevance is a whole number": ("fractional_relevance",),
    "the threshold is a whole number, or none": ("threshold_rule",),
    "no relevance is below the threshold, but for 0": ("below_threshold",),
}

OF_SCORES = ("ties", "score_type", "nonpositive_scores")


def inert_axes(tables: Tables, threshold: float | None) -> dict[str, str]:
    """Axis -> why it cannot matter. The logs are read once more, by Polars."""
    holds = _observe(tables, threshold)
    return {axis: why for why, axes in SUBJECTS.items() if holds.get(why) for axis in axes}


def settled(point: Point, inert: Mapping[str, str]) -> Point:
    """The point with evalkit's own value of every axis that cannot matter."""
    defaults = Policies()
    known: dict[str, Value] = {
        axis: getattr(defaults, axis) for axis in inert if hasattr(defaults, axis)
    }
    known.update({"idcg_negative": "left_out"} if "idcg_negative" in inert else {})
    known.update({"below_threshold": "count"} if "below_threshold" in inert else {})
    return with_values(point, known)


def _observe(tables: Tables, threshold: float | None) -> dict[str, bool]:
    users = [name for name in tables.truth.frame.collect_schema() if name.startswith("user_")]
    truth = tables.truth.frame
    found = {why: True for why in SUBJECTS}
    found["the threshold is a whole number, or none"] = threshold is None or threshold == int(
        threshold
    )
    if "relevance" in truth.collect_schema():
        grade = pl.col("relevance").cast(pl.Float64)
        asked = truth.select(
            negative=(grade < 0).any(),
            fractional=(grade != grade.floor()).any(),
            below=((grade != 0) & (grade < (threshold or 0.0))).any(),
        )
        with reading(tables.truth):
            seen = asked.collect(engine="streaming").row(0, named=True)
        found["no relevance is below 0"] = not seen["negative"]
        found["every relevance is a whole number"] = not seen["fractional"]
        found["no relevance is below the threshold, but for 0"] = not seen["below"]
    known = truth.select(_key(users)).unique()
    for _, table in tables.rankings:
        frame = table.frame
        schema = frame.collect_schema()
        if table.is_list:
            length = pl.col("item").list.len()
            empty = frame.select((length == 0).any())
            with reading(table):
                found["no ranking is empty"] &= not empty.collect(engine="streaming").item()
            frame = frame.explode(["item", "score"] if "score" in schema else ["item"])
        by = [*users, "model"] if "model" in schema else users
        with reading(table):
            rows = frame.select(pl.struct(*by, "item").n_unique() != pl.len())
            found["no item stands twice in a list"] &= not rows.collect().item()
            if "score" in schema:  # equal ones have all their orders beside written ranks too
                narrow = pl.col("score").cast(pl.Float32)
                equal = frame.select(pl.struct(*by, narrow).n_unique() != pl.len())
                found[
                    "there are no scores, or no two of a list are equal as float32"
                ] &= not equal.collect().item()
            if "score" in schema:
                low = frame.select((pl.col("score").fill_null(0) <= 0).any())
                found["no score is 0 or below"] &= not low.collect(engine="streaming").item()
            models = (
                1
                if "model" not in schema
                else int(frame.select(pl.col("model").n_unique()).collect().item())
            )
            ranked = frame.select(_key(users), *(["model"] if models > 1 else [])).unique()
            alone = ranked.join(known, on="user", how="anti").select(pl.len()).collect().item()
            shared = ranked.join(known, on="user", how="semi").select(pl.len()).collect().item()
            n_known = known.select(pl.len()).collect().item()
        found["the truth has every ranked user"] &= alone == 0
        found["every user of the truth has a ranking"] &= shared == n_known * models
    return found


def _key(users: list[str]) -> pl.Expr:
    """Users as text, which is one type in every log."""
    return pl.concat_str([pl.col(name).cast(pl.String) for name in users], separator="\x00").alias(
        "user"
    )
