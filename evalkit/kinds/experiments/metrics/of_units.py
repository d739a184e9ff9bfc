"""Metrics of units: what each gives of a unit's columns, of which a variant's number is made."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from evalkit.kernels.arrays import Floats
from evalkit.metrics import Metric, Parameter, choice, metric, number, text

OF = text("of", "", doc="Column of a unit.")
BY = text("by", "", doc="Column of a unit that the first is divided by.")
WINSOR = number(
    "winsor", 1.0, above=0.0, below=1.0, doc="Quantile of all units at which values are capped."
)
WINSOR_OVER = choice(
    "winsor_over",
    {"all": "All units count.", "nonzero": "Units whose value is 0 do not."},
    doc="Of which units the quantile is.",
)
CAP = Parameter("cap", math.inf, "A number that larger values count as.")
ABOVE = number("above", 0.0, doc="What a value must exceed.")
Q = Parameter("q", 0.0, "The share of values at or below.", above=0.0, below=1.0)
OVER = choice(
    "over",
    {"units": "Values are those of units.", "events": "Values are events; units are clusters."},
    doc="What the quantile is over.",
)
WINDOW = text("window", "", doc="How long after exposure events count, as 7d.")
CUPED = choice(
    "cuped",
    {"auto": "By what was before exposure, where there is something.", "off": "As it is."},
    doc="Whether covariates adjust it.",
)
REAL, SHARE = (-math.inf, math.inf), (0.0, 1.0)
DELTA = "Deng, Knoblich and Lu 2018, Applying the Delta Method in Metric Analytics, KDD"


def of_units(**declared: Any) -> Callable[[Any], Metric]:
    """Makes a metric of units of the function below it, which is given arrays of their values."""
    return metric(kind="experiment", cutoff="never", monotone=False, **declared)


@of_units(
    name="mean",
    summary="Mean of a unit's values; units without events count as 0.",
    formula="sum of the values over the number of units",
    latex=r"\bar y",
    source="Welch 1947, Biometrika 34(1/2), 28-35",
    bounds=REAL,
    undefined="without a unit",
    parameters=(OF, WINSOR, WINSOR_OVER, CAP, WINDOW, CUPED),
    columns=("of",),
)
def mean(values: Floats) -> Floats:
    """A unit's value."""
    return values


@of_units(
    name="fraction",
    summary="Share of the units whose value is above a number, as of those who converted.",
    formula="units above over all units",
    latex=r"\frac{1}{n} \sum [y > a]",
    source="Newcombe 1998, Statistics in Medicine 17(8), 873-890",
    bounds=SHARE,
    undefined="without a unit",
    parameters=(OF, ABOVE, WINDOW, CUPED),
    columns=("of",),
)
def fraction(values: Floats, above: float) -> Floats:
    """1 of a unit above, 0 of others."""
    return (values > above).astype(np.float64)


@of_units(
    name="ratio",
    summary="Sum of one column over the sum of another, with units as what varies.",
    formula="sum of the first over sum of the second",
    latex=r"\frac{\sum y}{\sum d}",
    source=DELTA,
    bounds=REAL,
    undefined="where the second adds up to 0",
    parameters=(OF, BY, WINSOR, WINSOR_OVER, CAP, WINDOW, CUPED),
    columns=("of", "by"),
)
def ratio(values: Floats) -> Floats:
    """A unit's value of either column."""
    return values


@of_units(
    name="quantile",
    summary="Smallest value with a share of at least q at or below.",
    formula="inf { y : F(y) >= q }",
    latex=r"F^{-1}(q)",
    source=f"{DELTA}, section 4",
    bounds=REAL,
    undefined="without a value",
    parameters=(OF, Q, OVER, WINDOW),
    columns=("of",),
)
def quantile(values: Floats) -> Floats:
    """A unit's value."""
    return values


@of_units(
    name="sum",
    summary="Sum over all units of a variant; not compared, as variants differ in size.",
    formula="sum of the values",
    latex=r"\sum y",
    source="A total",
    bounds=REAL,
    undefined="never",
    parameters=(OF, WINDOW),
    columns=("of",),
    higher_is_better=None,
)
def total(values: Floats) -> Floats:
    """A unit's value."""
    return values


@of_units(
    name="count",
    summary="Number of units with a value above 0; not compared, as variants differ in size.",
    formula="number of values above 0",
    latex=r"\sum [y > 0]",
    source="A total",
    bounds=(0.0, math.inf),
    undefined="never",
    parameters=(OF, WINDOW),
    columns=("of",),
    higher_is_better=None,
)
def count(values: Floats) -> Floats:
    """1 of a unit above 0, 0 of others."""
    return (values > 0.0).astype(np.float64)
