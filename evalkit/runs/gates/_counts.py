"""Counts of a report that gates judge, and shares of them."""

from evalkit.config import read_split
from evalkit.report import Report

LEAKAGE = "leakage."
SHARES = ("rows_dropped", "users_without_ranking", "users_without_truth", "duplicates")
OF_TRUTH = ("rows", "users", "pairs", "rows_dropped")
OF_MODELS = ("rows", "users", *SHARES)


def count_of(report: Report, model: str | None, name: str) -> float | None:
    """A count, or a share of what it is counted among."""
    truth = report.counts.truth
    if model is None:
        if name == "rows_dropped":
            return _share(truth.rows - truth.rows_used, truth.rows)
        return float(getattr(truth, name))
    counts = report.counts.models.get(model)
    if counts is None or name not in OF_MODELS:
        return None
    if name == "rows_dropped":
        return _share(counts.rows - counts.rows_used, counts.rows)
    if name == "users_without_ranking":
        return _share(counts.users_without_ranking, truth.users)
    if name == "users_without_truth":
        return _share(counts.users_without_truth, counts.users)
    if name == "duplicates":
        return _share(counts.duplicates, counts.rows)
    return float(getattr(counts, name))


def leak_of(report: Report, what: str, *, is_finished: bool) -> tuple[float | None, str]:
    """A count of the split that the truth is a part of, or why there is none.

    Args:
        is_finished: the report is of an earlier run, whose split may have been cut anew since.
    """
    kept = next((each.value for each in report.gates if each.metric == what), None)
    if kept is not None:
        return kept, ""
    truth = (report.config or {}).get("truth")
    folder = truth.get("split") if isinstance(truth, dict) else None
    if folder is None:
        return None, "the truth is no part of a split"
    from evalkit.runs.history.holdout_uses import still_there

    read = [each for each in report.inputs if each.role in ("truth", "train")]
    if is_finished and None in map(still_there, read):
        return None, "the split is not the one that was measured: run it again"
    counts = read_split(folder).get("leakage", {}).get("counts", {})
    found = counts.get(what.removeprefix(LEAKAGE))
    return found, "" if found is not None else "the split does not say"


def _share(part: int, whole: int) -> float:
    return part / whole if whole else 0.0


def shown_count(value: float, name: str) -> str:
    return f"{value:.2%}" if name in SHARES else f"{value:,.0f}"
