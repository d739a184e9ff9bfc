"""What a config may say of judges, and what evalkit has to know of them beforehand."""

from collections.abc import Mapping
from typing import Literal

from evalkit.config import KindTable, Listed, Record, Texts, key
from evalkit.metrics import OF_EXPERIMENTS, Complaints, CountWords, Declaration, Section

Level = str | float
RATED, PREFERRED = ("unit", "judge", "rating"), ("judge", "first", "second", "preferred")


class JudgesColumns(Record):
    """Columns of ratings, or of preferences."""

    unit: Texts | None = key(None, "Columns that together say what was rated: query and item.")
    judge: str | None = key(None, "Who rated.")
    rating: str | None = key(None, "The rating; null where none was made.")
    ratings: Texts | None = key(None, "Of a wide table: one column of ratings for each judge.")
    time: str | None = key(None, "Seconds that a rating took, or the moment when it was made.")
    gold: str | None = key(None, "The known right rating, on units where there is one.")
    first: str | None = key(None, "Of preferences: the model that was shown first.")
    second: str | None = key(None, "Of preferences: the model that was shown second.")
    preferred: str | None = key(None, "first, second, tie, or the name of the model.")


class ConsensusSection(Record):
    """One rating of several, written as a table that [truth] reads."""

    path: str | None = key(None, "Parquet file to write, or CSV (.csv); default: the report alone.")
    method: Literal["majority", "mean", "median", "dawid-skene"] = key(
        "majority", "How several ratings become one."
    )
    ties: Literal["lower", "higher", "undefined"] = key("lower", "Which of two levels that tie.")
    min_votes: int = key(1, "Units with fewer ratings are left out.", ge=1)


class JudgesTable(KindTable):
    """Ratings of units by judges, or preferences between two models."""

    columns: JudgesColumns = key(JudgesColumns(), "Columns by our names.")
    levels: Listed[Level] = key(
        (), "What a rating may be, from low to high; default: what was given."
    )
    kind: Literal["nominal", "ordinal", "interval", "ratio"] = key(
        "ordinal", "What may be said of two levels."
    )
    judges: Literal["these", "others"] = key(
        "these", "Limits hold for these judges, or for others like them (judges are drawn too)."
    )
    models: Texts = key((), "Judges that are models: held against what people say.")
    truth: ConsensusSection = key(ConsensusSection(), "One rating of several.")


def check_judges(tree: Mapping[str, object], problems: Complaints) -> None:
    """Refuse what neither ratings nor preferences can be."""
    section = tree.get("judges")
    columns = section.get("columns", {}) if isinstance(section, dict) else {}
    given = set(columns) if isinstance(columns, dict) else set()
    place = ("judges", "columns")
    if given & {"first", "second", "preferred"}:
        missing = [name for name in PREFERRED if name not in given]
        hint = 'columns = { judge = "who", first = "left", second = "right", preferred = "won" }'
    else:
        wide = "ratings" in given
        missing = [name for name in (("unit",) if wide else RATED) if name not in given]
        hint = 'columns = { unit = ["query", "item"], judge = "who", rating = "grade" }'
    if missing and isinstance(section, dict):
        problems.add(place, "missing-key", f"columns name no {' and no '.join(missing)}", hint=hint)
    if {"ratings", "rating"} <= given:
        message = "rating (one row a rating) and ratings (one column a judge) exclude each other"
        problems.add((*place, "ratings"), "conflicting-keys", message, hint="give one of them")
    segments = tree.get("segments")
    for name, rule in segments.items() if isinstance(segments, dict) else ():
        if isinstance(rule, dict) and set(rule) - {"by"}:
            key_ = ("segments", name, sorted(set(rule) - {"by"})[0])
            message = "segments of units are made by columns of the ratings"
            problems.add(key_, "conflicting-keys", message, hint='by = "genre" alone')


DECLARATION = Declaration(
    sections={"judges": Section(JudgesTable, "What people rated or preferred.")},
    metrics="evalkit.metrics.judges",
    declared_by="@metric(kind='judges', ...)",
    kernels_take="kind",
    words=CountWords(
        *("ratings", "rating", "ratings of units by judges"),
        *("without rating", "without unit", "at most {:,} ratings a unit"),
        {"depth": "most ratings of a unit"},
        "unit",
    ),
    check=check_judges,
    refuses=(
        *("weight", "two_way", "curves", "distributions", "cluster", "baseline", "over_nights"),
        *("search", "margin"),
    ),
    segments=("by",),
    idle=(*OF_EXPERIMENTS, "method", "limits", "skewness", "pairs", "test", "family", "power"),
)
