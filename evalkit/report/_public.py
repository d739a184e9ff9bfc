# ruff: noqa: F401  # these are the names
"""The names of the room, which its `__init__` gives when one is asked for."""

from evalkit.report.entries import (
    Comparison,
    Counts,
    Curve,
    Distribution,
    Estimate,
    Finding,
    Gap,
    Gate,
    Graph,
    Input,
    Macro,
    Meta,
    ModelCounts,
    Night,
    OverNights,
    Standing,
    StatisticsUsed,
    TruthCounts,
    Warning_,
)
from evalkit.report.formats import check_format, render, written_forms
from evalkit.report.parquet import write_metrics_parquet
from evalkit.report.per_user import UserWriter
from evalkit.report.record import PerUser, Report
