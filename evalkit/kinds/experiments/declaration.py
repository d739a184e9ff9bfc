"""What a config may say of experiments, and what evalkit has to know of them beforehand."""

import operator
from collections.abc import Mapping
from typing import Any

from evalkit.config import KindTable, Moment, Names, Record, key, unsaid
from evalkit.metrics import Complaints, CountWords, Declaration, RowFault, Section


class SumTable(Record):
    """A column of a unit that is made of events."""

    kind: str = key(..., "Kind of events that count.")
    of: str | None = key(None, "value: add values up; without it rows are counted.")


class PhaseTable(Record):
    """Shares from a moment on."""

    start: Moment = key(..., "First exposures from then on have these shares.")
    variants: dict[str, float] = key(..., "Name and share of each variant.")


class ExperimentSection(Record):
    """What is asked of an experiment."""

    variants: dict[str, float] = key(..., "Name and share of each; the first is the baseline.")
    window: str | None = key(None, 'Events count so long after exposure, as "7d".')
    until: Moment | None = key(None, "Logs are complete until then; default: the last event.")
    covariate_days: float = key(14.0, "Days before exposure whose events are covariates.", ge=0)
    sums: dict[str, str | SumTable] = key(
        {}, "Columns of a unit: a kind of events, or { kind, of }; default: columns are kinds."
    )
    before: dict[str, str | Names] = key(
        {}, "Column of a unit -> its covariates, in [covariates] or in the ready-made row."
    )
    phases: list[PhaseTable] = key(
        [], "Shares that changed midway: { start, variants } each.", exclude_if=operator.not_
    )
    strata: Names = key((), "As in [statistics].", exclude_if=operator.not_)
    exclude: str | None = key(None, "SQL of exposures: units with such a row are left out.")
    profile: str = key("evalkit", "tea-tasting, gbstats, spotify-confidence, ambrosia, statsmodels")

    @property
    def path(self) -> tuple[str, ...]:
        """It holds no table of its own."""
        return ()


class ExposuresColumns(Record):
    """Columns of exposures: names, or SQL expressions."""

    unit: str | None = key(None, "What was assigned: a user, a session, a device.")
    variant: str | None = key(None, "The variant it was assigned to.")
    time: str | None = key(None, "When it was exposed.")
    triggered: str | None = unsaid("Whether it saw what differs.")


class ExposuresTable(KindTable):
    """Exposures; or, without [events], one ready-made row a unit."""

    columns: ExposuresColumns = key(ExposuresColumns(), "Default: guessed from their names.")


class EventsColumns(Record):
    """Columns of events: names, or SQL expressions."""

    unit: str | None = key(None, "Whose event it is.")
    time: str | None = key(None, "When it was.")
    kind: str | None = key(None, "What it is: impression, click, purchase.")
    value: str | None = unsaid("How much, of sums of values.")
    event: str | None = unsaid("Id of the row, for equal_events.")


class EventsTable(KindTable):
    """Events of units, before exposure too."""

    columns: EventsColumns = key(EventsColumns(), "Default: guessed from their names.")


class CovariatesColumns(Record):
    """Columns of covariates: names, or SQL expressions."""

    unit: str | None = key(None, "Whose they are, one row each.")


class CovariatesTable(KindTable):
    """Values before exposure, or predictions made without the experiment; `before` names them."""

    columns: CovariatesColumns = key(CovariatesColumns(), "Default: guessed from their names.")


def check_experiment(tree: Mapping[str, object], problems: Complaints) -> None:
    """Refuse sections that say nothing together."""
    for name in ("experiment", "exposures"):
        if name not in tree:
            hint = "variants = { control = 50, b = 50 }" if name == "experiment" else "path = ..."
            problems.add((), "missing-key", f"[{name}] is not given", hint=f"[{name}] with {hint}")
    section: Any = tree.get("experiment")
    if not isinstance(section, dict):
        return
    if "covariates" in tree and ("events" not in tree or not section.get("before")):
        message, hint = "no column takes its covariates from there", "before = { clicks = COLUMN }"
        if "events" not in tree:
            message, hint = "ready-made rows hold their covariates", "leave [covariates] out"
        problems.add(("covariates",), "conflicting-keys", message, hint=hint)
    elif "events" in tree and "covariates" not in tree and section.get("before"):
        message = "before names covariates, and there is no table of them"
        hint = "add [covariates] with path = ...; events before exposure need no name"
        problems.add(("experiment", "before"), "conflicting-keys", message, hint=hint)
    statistics = tree.get("statistics")
    if section.get("strata") and isinstance(statistics, dict) and statistics.get("strata"):
        message, hint = "strata are named twice", "leave them out of [statistics]"
        problems.add(("statistics", "strata"), "conflicting-keys", message, hint=hint)
    variants = section.get("variants")
    shares = variants.values() if isinstance(variants, dict) else ()
    if isinstance(variants, dict) and len(variants) < 2:
        message = f"an experiment has two variants or more, not {len(variants)}"
        problems.add(("experiment", "variants"), "bad-share", message, hint="control = 50, b = 50")
    for share in shares:
        if isinstance(share, int | float) and not share > 0:
            message = f"a share is {share!r}, not above 0"
            problems.add(("experiment", "variants"), "bad-share", message, hint="control = 50")


OF_POLICIES = (
    *("crossed_units", "unknown_variants", "bad_values", "open_windows", "unexposed_events"),
    "equal_events",
)
DECLARATION = Declaration(
    sections={
        "experiment": Section(ExperimentSection, "An online experiment: variants and windows."),
        "exposures": Section(ExposuresTable, "Who was exposed to which variant, and when."),
        "events": Section(EventsTable, "What units did."),
        "covariates": Section(CovariatesTable, "What was known of units before exposure."),
    },
    metrics="evalkit.kinds.experiments.metrics",
    declared_by="@metric(kind='experiment', ...)",
    kernels_take="values",
    words=CountWords(
        *("logs", "unit", "units in one variant"), *("without exposure", "without variant", ""), {}
    ),
    check=check_experiment,
    refuses=(
        *("weight", "two_way", "curves", "distributions", "method", "test", "pairs"),
        *("replicates", "seed", "skewness", "over_nights", "metrics"),
    ),
    follows=OF_POLICIES,
    segments=("by", "min_users"),
    idle=("skewness",),
    lenient={
        **{"unknown_variants": "drop", "bad_values": "drop", "unexposed_events": "drop"},
        "crossed_units": "first",
    },
    faults=(
        RowFault("unknown_variant", "unknown-variant", "unknown_variants"),
        RowFault("null_variant", "unknown-variant", "unknown_variants"),
        RowFault("event_value_nan", "bad-values", "bad_values"),
        RowFault("event_value_null", "bad-values", "bad_values"),
        RowFault("event_value_infinite", "bad-values", "bad_values"),
        RowFault("event_never_exposed", "unexposed-events", "unexposed_events"),
        RowFault("units_with_open_window", "left-out", ""),
        RowFault("units_excluded", "left-out", ""),
        RowFault("null_unit", "left-out", ""),
        RowFault("event_null_unit", "left-out", ""),
        RowFault("exposure_after_until", "left-out", ""),
        RowFault("event_after_until", "left-out", ""),
    ),
)
