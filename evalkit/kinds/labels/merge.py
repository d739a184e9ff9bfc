"""What the rows of some users, or sessions, add up to; that of others merges into it."""

from dataclasses import dataclass

from evalkit.kinds.labels._bands import UserSpread
from evalkit.kinds.pointwise.units import UnitSums


@dataclass(slots=True)
class LabelSums:
    """What users, or sessions, of one model add up to; `bands` of curves where they are drawn."""

    units: UnitSums
    bands: UserSpread | None = None

    def merge(self, other: "LabelSums") -> None:
        """Take over what other users, or sessions, add up to."""
        self.units.merge(other.units)
        if self.bands is not None and other.bands is not None:
            self.bands.merge(other.bands)
