"""Opens the table of outcomes; no row is read."""

from dataclasses import dataclass, replace
from typing import cast

from evalkit.config import Config
from evalkit.planning.tables import Given, settle_columns
from evalkit.sources import Table, open_section
from outcomes.declaration import DECLARATION, OutcomesTable


@dataclass(frozen=True, slots=True)
class OutcomeTables:
    """The table of a config, opened."""

    config: Config
    outcomes: Table

    @property
    def all(self) -> list[Table]:
        """Every table with rows of its own."""
        return [self.outcomes]


def open_outcomes(config: Config, given: Given) -> OutcomeTables:
    """The table of a config, and its columns where they were guessed."""
    section = cast("OutcomesTable", config.outcomes)  # type: ignore[attr-defined]
    guessing = replace(given.guessing(config), section="outcomes")
    (held, *_) = (*given.rankings, None)
    table = open_section("outcomes", section, held, guessing, numbers=DECLARATION.numbers)
    return OutcomeTables(settle_columns(config, {"outcomes": [table]}), table)
