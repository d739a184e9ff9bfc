"""Counts of a report that gates judge, and shares of them."""

from evalkit.report import Report

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


def _share(part: int, whole: int) -> float:
    return part / whole if whole else 0.0


def shown_count(value: float, name: str) -> str:
    return f"{value:.2%}" if name in SHARES else f"{value:,.0f}"
