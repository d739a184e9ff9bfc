"""What past experiments say of offline metrics: a record, and how it is told."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import polars as pl


@dataclass(frozen=True, slots=True)
class Surrogates:
    """What past experiments say of an offline metric.

    Args:
        numbers: name, value, low, high; with several offline metrics `metric` before them.
        decisions: offline, online (keep, unclear, ship) and n.
        gates: every `max_drop` at which a gate changes: what it stopped, let through and cost.
        past_gates: the same of gates that offline runs had, over all experiments.
        experiments: what was read: effects and errors of both sides.
        warnings: what makes the numbers weak.
        sentence: all of that, in words.
    """

    numbers: "pl.DataFrame"
    decisions: "pl.DataFrame"
    gates: "pl.DataFrame"
    past_gates: "pl.DataFrame"
    experiments: "pl.DataFrame"
    warnings: tuple[str, ...]
    sentence: str

    @property
    def tables(self) -> dict[str, "pl.DataFrame"]:
        """Every table that has rows."""
        names = ("numbers", "decisions", "past_gates", "gates", "experiments")
        return {name: each for name in names if (each := getattr(self, name)).height}

    def __str__(self) -> str:
        import polars as pl

        flags = {"tbl_hide_dataframe_shape": True, "tbl_hide_column_data_types": True}
        with pl.Config(tbl_rows=60, tbl_cols=-1, tbl_width_chars=120, fmt_str_lengths=60, **flags):  # type: ignore[arg-type]
            told = (each for name, each in self.tables.items() if name != "experiments")
            return "\n".join([self.sentence, *self.warnings, *map(str, told)])
