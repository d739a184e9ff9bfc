"""Rounds that columns name are slates: each position once, no gaps, one chance of the whole."""

from collections.abc import Sequence

import polars as pl

from evalkit.errors import DataError
from evalkit.kinds.logged.open import LoggedTables
from evalkit.metrics.logged import Recipe
from evalkit.sources import reading

PLACE = "place"
ROUNDING = 1e-6  # of a probability


def check_slates(opened: LoggedTables, recipes: Sequence[Recipe]) -> None:
    """Refuse rounds that are no slates, where columns name round and position.

    Raises:
        DataError: a position stands twice in its round or lacks one above it, or a probability of
            the slate differs within it, or one down to a position rises [bad-slates]; or a slate is
            in two segments [segment-varies].
    """
    frame = opened.log.frame
    names = frame.collect_schema().names()
    if "round" not in names or PLACE not in names:
        return
    keys = [name for name in names if name.startswith("user_") or name == "round"]
    place = pl.col(PLACE)
    found: dict[str, pl.Expr] = {"have a position twice": pl.len() > place.n_unique()}
    if any(recipe.is_of_slates for recipe in recipes):
        found["lack a position"] = (place.min() == 1) & (place.max() > place.n_unique())
        own = (name for name in names if name.startswith("segment_"))
        for rule, name in zip(opened.config.segments.named, own, strict=True):
            found[f"are in two segments of {rule!r}"] = pl.col(name).n_unique() > 1
    asked = {weight for recipe in recipes for weight in recipe.weights}
    for name, whose in _chances(opened):
        chance = pl.col(name)
        if whose.endswith("_slate") and "slate" in asked:
            differs = chance.max() - chance.min() > ROUNDING * chance.max()
            found[f"have more than one {whose}"] = differs
        if whose.endswith("_cascade") and "cascade" in asked:
            down = chance.sort_by(PLACE)
            rises = (down.diff() > ROUNDING * down).any()
            found[f"have a {whose} that rises"] = rises
    with reading(opened.log):
        rounds = frame.group_by(keys).agg(**found).collect(engine="streaming").sort("round")
    for what in found:
        bad = rounds.filter(what)
        if bad.height:
            message = f"{bad.height:,} rounds {what}, the first {bad['round'][0]!r}"
            hint = "a round has one item at each position from 1 on, and one probability as a whole"
            code = "segment-varies" if "segments" in what else "bad-slates"
            raise DataError(message, code=code, at=opened.log.at, hint=hint)


def _chances(opened: LoggedTables) -> list[tuple[str, str]]:
    """Columns of probabilities, and what they are called."""
    names = opened.log.frame.collect_schema().names()
    own = [(name, name) for name in names if name.startswith("propensity_")]
    written = enumerate(opened.written)
    return own + [(f"target_{number}", key) for number, (_, key) in written]
