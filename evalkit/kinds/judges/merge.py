"""What a share of the units leaves behind: its rows. Tables of judges are small."""

from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl


@dataclass(slots=True)
class JudgeRows:
    """Rows of ratings or of preferences.

    Args:
        rows: by share, from 1.
        unit_names: of the unit's columns, as they were given.
        at: where they stand, for errors.
    """

    rows: dict[int, pl.DataFrame]
    unit_names: Sequence[str]
    at: str

    def merge(self, other: "JudgeRows") -> None:
        """Take over the rows of other shares."""
        self.rows.update(other.rows)

    @property
    def frame(self) -> pl.DataFrame:
        """The rows of all shares."""
        return pl.concat([self.rows[share] for share in sorted(self.rows)])
