"""What a config may say of outcomes."""

from collections.abc import Mapping

from evalkit.config import KindTable, Record, Texts, key
from evalkit.metrics import Complaints, CountWords, Declaration, RowFault, Section


class OutcomesColumns(Record):
    """Columns of outcomes."""

    user: Texts = key(("user",), "User column, or a list of columns together.")
    group: str = key("group", "Group that the user was put into.")
    outcome: str = key("outcome", "What is averaged.")


class OutcomesTable(KindTable):
    """Outcomes, some of each user."""

    columns: OutcomesColumns = key(OutcomesColumns(), "Default: guessed from their names.")


def check_outcomes(tree: Mapping[str, object], problems: Complaints) -> None:
    """Refuse what pairs users: groups have none in common."""
    statistics = tree.get("statistics")
    for name in ("baseline", "pairs", "cluster"):
        if isinstance(statistics, dict) and name in statistics:
            message = f"{name} is not for outcomes of independent groups"
            place = ("statistics", name)
            problems.add(place, "conflicting-keys", message, hint="leave it out")


DECLARATION = Declaration(
    sections={"outcomes": Section(OutcomesTable, "What users did.")},
    metrics="outcomes.metrics",
    declared_by="@metric(kind='outcomes', ...)",
    kernels_take="starts, outcomes",
    words=CountWords(
        *("outcomes", "outcome", "outcomes of users"),
        *("without outcome", "without group", "at most {:,} rows a user"),
        {"depth": "most rows of a user"},
    ),
    check=check_outcomes,
    numbers=("outcome",),
    lenient={"null_ids": "drop", "bad_scores": "drop"},
    follows=("null_ids", "bad_scores"),
    faults=(
        RowFault("null_id", "null-id", "null_ids"),
        RowFault("bad_score", "bad-score", "bad_scores"),
    ),
)
