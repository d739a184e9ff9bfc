"""Covariates in a table of their own, by unit: values before exposure, or predictions."""

import numpy as np
import polars as pl

from evalkit.errors import DataError
from evalkit.kernels.arrays import Floats
from evalkit.sources import reading
from evalkit.sources.ids import IdPlan, KeyCollisionError

from ._exposures import BATCH_ROWS, Exposed, Logs, keys_of
from ._kernels import TWICE, look_up
from ._units import READ_COVARIATES, as_floats


def read_covariates(
    logs: Logs, plan: IdPlan, exposed: Exposed, counts: dict[str, int]
) -> dict[str, Floats]:
    """float64[n_units] of each column, NaN of units that have none; nothing without a table.

    Raises:
        DataError: a unit has two rows [duplicate-unit], a column no numbers [not-a-number].
        KeyCollisionError: two ids share a key.
    """
    table = logs.covariates
    if table is None:
        return {}
    names = list(dict.fromkeys(name for each in logs.asked.before.values() for name in each))
    found = {name: np.full(exposed.n, np.nan) for name in names}
    n_rows, n_read = np.zeros(exposed.n, dtype=np.int32), 0
    with reading(table):
        for whole in table.stream([*logs.ids(plan), *map(pl.col, names)], most=BATCH_ROWS):
            logs.clock.line.advance(whole.height)
            n_read += whole.height
            frame, _ = logs.held(whole)
            codes = np.empty(frame.height, dtype=np.int64)
            if look_up(*keys_of(frame), exposed.slots, exposed.known, codes) == TWICE:
                raise KeyCollisionError
            is_known = codes >= 0
            np.add.at(n_rows, codes[is_known], 1)
            for name in names:
                found[name][codes[is_known]] = as_floats(frame[name], name, table.at)[is_known]
    if (n_rows > 1).any():
        message = f"{int((n_rows > 1).sum()):,} units have more than one row of covariates"
        hint = "add their rows up first: covariates are one row a unit"
        raise DataError(message, code="duplicate-unit", at=table.at, hint=hint)
    counts |= {READ_COVARIATES: n_read, "units_without_covariates": int((n_rows == 0).sum())}
    logs.clock.stop("covariates")
    return found
