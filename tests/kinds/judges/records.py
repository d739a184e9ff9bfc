"""Fixtures and records of libraries, read from EVALKIT_TEST_DATA."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

FOLDER = Path(os.environ.get("EVALKIT_TEST_DATA", "absent")) / "conformance" / "judges"


def fixture(name: str) -> dict[str, Any]:
    """One fixture; counts of ratings are spelled out as ratings of as many judges."""
    found = json.loads((FOLDER / "fixtures" / f"{name}.json").read_text())
    if "counts" in found:
        units = [
            [level for level, n in enumerate(row) for _ in range(n)] for row in found["counts"]
        ]
        found["ratings"] = np.array(units).T.tolist()
    return dict(found)


def records(library: str) -> Iterator[dict[str, Any]]:
    """Records with a number of one library, without those that hold its errors."""
    for line in (FOLDER / f"{library}.jsonl").read_text().splitlines()[1:]:
        record = json.loads(line)
        if record.get("values") is not None and "not_a_target" not in record:
            yield record


def codes(
    ratings: list[list[float | None]], levels: npt.NDArray[np.float64] | None = None
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
    """Places of levels, int64[n_units, n_judges], of one list a judge; and the levels."""
    table = np.array([[np.nan if each is None else each for each in row] for row in ratings]).T
    found = np.unique(table[~np.isnan(table)]) if levels is None else levels
    places = np.searchsorted(found, np.nan_to_num(table, nan=found[0]))
    return np.where(np.isnan(table), -1, places).astype(np.int64), found
