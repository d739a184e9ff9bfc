"""What the weights of logged feedback are, as one table that every form shows."""

from collections.abc import Mapping

from evalkit.report.entries import Check
from evalkit.report.record import Report

EFFECTIVE = "effective-sample-size"
COLUMNS: Mapping[str, str] = {  # check -> its head
    EFFECTIVE: "effective rounds",
    "effective-groups": "effective by group",
    "effective-cascades": "effective cascades",
    "effective-slates": "effective slates",
    "weight-mean": "mean weight",
    "weight-max": "largest",
    "top10-share": "ten carry",
    "weight-zero-share": "weight 0",
    "unsupported-mass": "never shown",
}
OF_METRICS = {
    "effective-groups": "MIPS", "effective-cascades": "RIPS", "effective-slates": "slate-IPS",
}  # fmt: skip
SHARES = ("top10-share", "weight-zero-share", "unsupported-mass")


def weight_rows(report: Report) -> tuple[list[str], list[list[str]]]:
    """Heads, and a row of text for each target; nothing where rounds have no weights."""
    found: dict[str, dict[str, str]] = {}
    for check in report.checks if report.kind == "logged" else ():
        if (
            check.segment is None
            and check.check in COLUMNS
            and check.model
            and check.value is not None
        ):
            shown = f"{check.value:.1%}" if check.check in SHARES else f"{check.value:,.4g}"
            if check.check.startswith("effective"):
                shown = f"{check.value:,.0f} of {check.expected or 0:,.0f}"
            mark = "" if check.verdict == "ok" else " !"
            found.setdefault(check.model, {})[check.check] = shown + mark
    names = [name for name in COLUMNS if any(name in of for of in found.values())]
    rows = [[model, *(of.get(name, "-") for name in names)] for model, of in found.items()]
    return (["target", *(COLUMNS[name] for name in names)], rows) if rows else ([], [])


def is_thin(check: Check, metric: str) -> bool:
    """Whether so little carries the weights of a metric that it tells nothing apart."""
    is_own = OF_METRICS.get(check.check, metric) == metric
    return is_own and check.check.startswith("effective") and check.verdict != "ok"


def spell_effective(check: Check) -> str:
    """How many carry a metric: 18 effective slates."""
    of = {"effective-users": "users", "effective-groups": "rounds", EFFECTIVE: "rounds"}
    return f"{check.value or 0:,.0f} effective {of.get(check.check, 'slates')}"


def effective_of(report: Report) -> dict[tuple[str | None, str], float]:
    """Segment and target -> its effective rounds."""
    return {
        (check.segment, check.model): check.value
        for check in (report.checks if report.kind == "logged" else ())
        if check.check == EFFECTIVE and check.model is not None and check.value is not None
    }
