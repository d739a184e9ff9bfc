"""Which conventions cannot matter on some logs: what they are about does not occur."""

from collections.abc import Mapping

import polars as pl

from evalkit.config import Policies
from evalkit.jobs.audit._points import Point, with_values
from evalkit.jobs.whole_lists import find_copies, read_whole_lists
from evalkit.metrics import Value
from evalkit.planning.tables import Tables, plan_ids_of
from evalkit.sources import reading

# about what: the axes that are moot where it does not occur
NO_COPIES = "no item stands twice in a list"
NO_TIES = "there are no scores, or no two of a list are equal as float32"
SUBJECTS: dict[str, tuple[str, ...]] = {
    NO_COPIES: ("duplicates", "rel_size"),
    NO_TIES: ("ties", "score_type"),
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
    with reading(tables.truth):
        known = _users(truth, users)
    plan, _ = plan_ids_of(tables, 1)
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
        # equal scores have all their orders beside written ranks too
        values = [pl.col("item")]
        values += [pl.col("score").cast(pl.Float32)] if "score" in schema else []
        for rows in read_whole_lists(table, frame.select(*by, *values), by, plan):
            for why, name in zip((NO_COPIES, NO_TIES), rows.columns[len(by) :], strict=False):
                found[why] = found[why] and find_copies(rows.select(*by, name)).is_empty()
        with reading(table):
            if "score" in schema:
                low = frame.select((pl.col("score").fill_null(0) <= 0).any())
                found["no score is 0 or below"] &= not low.collect(engine="streaming").item()
            ranked = _users(frame, by)
        models = ranked["model"].n_unique() if "model" in schema else 1
        alone = ranked.join(known, on="user", how="anti").height
        shared = ranked.join(known, on="user", how="semi").height
        found["the truth has every ranked user"] &= alone == 0
        found["every user of the truth has a ranking"] &= shared == known.height * models
    return found


def _users(frame: pl.LazyFrame, by: list[str]) -> pl.DataFrame:
    """Users of each model, as text, which is one type in every log."""
    found = frame.select(by).unique().collect(engine="streaming")
    users = [pl.col(name).cast(pl.String) for name in by if name != "model"]
    key = pl.concat_str(users, separator="\x00").alias("user")
    return found.select(key, *[name for name in by if name == "model"]).unique()
