"""What a config may say of experiments, and what evalkit has to know of them beforehand."""

import operator
from collections.abc import Mapping
from typing import Any

from evalkit.config import KindTable, Moment, Names, Record, is_none, key
from evalkit.metrics import Complaints, CountWords, Declaration, Section


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
    before: dict[str, str | Names] = key({}, "Column of a ready-made row -> its covariates.")
    phases: list[PhaseTable] = key(
        [], "Shares that changed midway: { start, variants } each.", exclude_if=operator.not_
    )
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
    triggered: str | None = key(None, "Whether it saw what differs.", exclude_if=is_none)


class ExposuresTable(KindTable):
    """Exposures; or, without [events], one ready-made row a unit."""

    columns: ExposuresColumns = key(ExposuresColumns(), "Default: guessed from their names.")


class EventsColumns(Record):
    """Columns of events: names, or SQL expressions."""

    unit: str | None = key(None, "Whose event it is.")
    time: str | None = key(None, "When it was.")
    kind: str | None = key(None, "What it is: impression, click, purchase.")
    value: str | None = key(None, "How much, of sums of values.", exclude_if=is_none)
    event: str | None = key(None, "Id of the row, for equal_events.", exclude_if=is_none)


class EventsTable(KindTable):
    """Events of units, before exposure too."""

    columns: EventsColumns = key(EventsColumns(), "Default: guessed from their names.")


def check_experiment(tree: Mapping[str, object], problems: Complaints) -> None:
    """Refuse sections that say nothing together."""
    for name in ("experiment", "exposures"):
        if name not in tree:
            hint = "variants = { control = 50, b = 50 }" if name == "experiment" else "path = ..."
            problems.add((), "missing-key", f"[{name}] is not given", hint=f"[{name}] with {hint}")
    section: Any = tree.get("experiment")
    if not isinstance(section, dict):
        return
    variants = section.get("variants")
    shares = variants.values() if isinstance(variants, dict) else ()
    if isinstance(variants, dict) and len(variants) < 2:
        message = f"an experiment has two variants or more, not {len(variants)}"
        problems.add(("experiment", "variants"), "bad-share", message, hint="control = 50, b = 50")
    for share in shares:
        if isinstance(share, int | float) and not share > 0:
            message = f"a share is {share!r}, not above 0"
            problems.add(("experiment", "variants"), "bad-share", message, hint="control = 50")


DECLARATION = Declaration(
    sections={
        "experiment": Section(ExperimentSection, "An online experiment: variants and windows."),
        "exposures": Section(ExposuresTable, "Who was exposed to which variant, and when."),
        "events": Section(EventsTable, "What units did."),
    },
    metrics="evalkit.kinds.experiments.metrics",
    declared_by="@metric(kind='experiment', ...)",
    kernels_take="values",
    words=CountWords(
        *("logs", "unit", "units in one variant"),
        *("without exposure", "without variant", ""),
        {},
    ),
    check=check_experiment,
    refuses=(
        *("weight", "two_way", "curves", "distributions", "method", "test", "pairs"),
        *("replicates", "seed", "skewness", "over_nights", "metrics"),
    ),
)
