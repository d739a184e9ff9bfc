"""What a config may say of ratings, and what evalkit has to know of them beforehand."""

from collections.abc import Mapping

from evalkit.config import PredictionsTable, RatingsTable
from evalkit.metrics import Complaints, CountWords, Declaration, RowFault, Section


def check_tables(tree: Mapping[str, object], problems: Complaints) -> None:
    """Predictions stand beside the ratings, or in tables of their own, not both."""
    if not tree.get("predictions"):
        return
    if not tree.get("ratings"):
        hint = "[ratings] has the true ratings; or give it a prediction column instead"
        problems.add((), "missing-key", "[ratings] is not given", hint=hint)
        return
    tables = tree["ratings"]
    if not isinstance(tables, list):
        return
    if len(tables) > 1:
        message = "with [[predictions]] there is one table of ratings"
        hint = "files of one table are a list of paths"
        problems.add(("ratings", 1), "conflicting-keys", message, hint=hint)
    for number, table in enumerate(tables):
        columns = table.get("columns") if isinstance(table, dict) else None
        if isinstance(table, dict) and "model" in table:
            message = "a model is named by [[predictions]], not by [ratings] beside them"
            problems.add(("ratings", number, "model"), "conflicting-keys", message)
        for name in ("prediction", "model"):
            if isinstance(columns, dict) and name in columns:
                key = ("ratings", number, "columns", name)
                message = f"columns.{name} and [[predictions]] exclude each other"
                problems.add(key, "conflicting-keys", message)


DECLARATION = Declaration(
    sections={
        "ratings": Section(RatingsTable, "True ratings.", is_listed=True),
        "predictions": Section(PredictionsTable, "Predictions.", is_listed=True, has_model=True),
    },
    metrics="evalkit.metrics.ratings",
    declared_by="@rating_metric(...)",
    kernels_take="starts, ratings, predictions",
    words=CountWords(
        *("ratings", "pair", "rated pairs of a user and an item"),
        *("without prediction", "without rating", "at most {:,} rows a user"),
        {
            "users_without_ranking": "users without prediction",
            "users_without_truth": "users without rating",
            "duplicates": "duplicates",
            "depth": "most rows of a user",
        },
    ),
    check=check_tables,
    lenient={
        **{"bad_scores": "drop", "bad_labels": "drop", "unpredicted": "skip", "unrated": "skip"},
        "duplicates": "error",  # a pair predicted twice is always refused
    },
    follows=(
        *("bad_scores", "unpredicted", "unrated", "duplicates", "truth_duplicates", "null_ids"),
        *("empty_input", "mixed_splits"),
    ),
    faults=(
        RowFault("null_id", "null-id", "null_ids"),
        RowFault("bad_score", "bad-score", "bad_scores"),
        RowFault("unpredicted", "unpredicted", "unpredicted"),
        RowFault("unrated", "unrated", "unrated"),
    ),
)
