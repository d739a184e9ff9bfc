"""What a config may say of labels, and what evalkit has to know of them beforehand."""

from collections.abc import Mapping

from evalkit.config import SPAN, LabelsTable
from evalkit.metrics import Complaints, CountWords, Declaration, RowFault, Section


def check_times(tree: Mapping[str, object], problems: Complaints) -> None:
    """Times are for sessions, or for copies of items, and nothing else."""
    tables = tree["labels"]
    for number, table in enumerate(tables if isinstance(tables, list) else ()):
        columns = table.get("columns") if isinstance(table, dict) else None
        given = set(columns if isinstance(columns, dict) else ())
        every = table.get("session_every") if isinstance(table, dict) else None
        key = ("labels", number)
        hint = 'time = "shown_at" under [labels.columns]'
        if every is not None and "time" not in given:
            message = "session_every needs times"
            problems.add((*key, "session_every"), "missing-key", message, hint=hint)
        if "item" in given and "time" not in given:
            message = "a user may be shown an item again: copies of rows are told by their time"
            problems.add((*key, "columns", "item"), "missing-key", message, hint=hint)
        if "time" in given and every is None and "item" not in given:
            message = "time is for session_every, and for copies of rows where item is given"
            hint = 'session_every = "1d" under [labels]'
            problems.add((*key, "columns", "time"), "missing-key", message, hint=hint)
        if every is not None and "session" in given:
            message = "session_every and columns.session exclude each other"
            problems.add((*key, "session_every"), "conflicting-keys", message)
        if isinstance(every, str) and not SPAN.fullmatch(every):
            message = f"{every!r} is no span of time"
            hint = 'write minutes, hours or days: "30m", "1h", "1d"'
            problems.add((*key, "session_every"), "out-of-range", message, hint=hint)


DECLARATION = Declaration(
    sections={"labels": Section(LabelsTable, "Scored rows.", is_listed=True, has_model=True)},
    metrics="evalkit.metrics.labels",
    declared_by="@label_metric(...)",
    kernels_take="starts, scores, labels, weights",
    words=CountWords(
        *("labels", "positive row", "rows with the label 1"),
        *("without prediction", "without label", "at most {:,} rows a user"),
        {"duplicates": "duplicates", "depth": "most rows of a user"},
    ),
    check=check_times,
    lenient={
        **{"bad_scores": "drop", "bad_labels": "drop", "unpredicted": "skip", "unrated": "skip"},
        "duplicates": "count",
    },
    follows=(
        *("bad_scores", "bad_labels", "duplicates", "null_ids", "empty_input", "mixed_splits"),
    ),
    faults=(
        RowFault("null_id", "null-id", "null_ids"),
        RowFault("bad_score", "bad-score", "bad_scores"),
        RowFault("bad_label", "bad-label", "bad_labels"),
    ),
)
