"""How old the truth of a run is."""

from datetime import date, datetime, timedelta

from evalkit.report import Report

_IN_A_DAY = {"d": 1, "h": 24, "m": 1440}


def days_of(span: str) -> float:
    """A span of time, as 36h, in days."""
    return int(span[:-1]) / _IN_A_DAY[span[-1]]


def age_of_truth(report: Report) -> tuple[float | None, str]:
    """Days between its newest row and {day}, or the run's start, either way; and this in words.

    From {day} whole days are counted. None: nobody knows.
    """
    newest, variables = report.counts.truth.newest, (report.config or {}).get("variables")
    if newest is None:
        return None, "not in the report, or no row has a time"
    day = variables.get("day") if isinstance(variables, dict) else None
    try:
        days, origin = _days_since(newest, day, report.meta.started)
    except (ValueError, TypeError) as error:  # somebody wrote the report by hand
        return None, str(error)
    side = "before" if days >= 0.0 else "after"
    where = f"{abs(days):,.3g} days {side} {origin}" if days else f"of {origin}"
    return abs(days), f"its newest row, {newest}, is {where}"


def _days_since(newest: str, day: object, started: str) -> tuple[float, str]:
    moment = datetime.fromisoformat(newest)
    if isinstance(day, str):
        since = date.fromisoformat(day)
        return float((since - moment.date()).days), f"{since}, which is {{day}}"
    return (datetime.fromisoformat(started) - moment) / timedelta(days=1), "the run's start"
