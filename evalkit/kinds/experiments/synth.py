"""Invented logs of an experiment of any size: exposures and events that look like a shop's."""

from pathlib import Path
from typing import Literal

import numpy as np
import polars as pl

from evalkit.errors import RequestError

ROWS = 1 << 22  # that are made at a time
EXPOSURES_A_UNIT, EVENTS_A_UNIT = 5, 50
START = np.datetime64("2026-01-05T00:00:00", "us")
DAYS, BEFORE = 14, 14
KINDS = np.array(["impression", "click", "purchase", "dwell"])
ODDS = (0.80, 0.11, 0.01, 0.08)


def generate_experiment(
    folder: Path, *, units: int, ids: Literal["int", "string"] = "int", seed: int = 1
) -> dict[str, Path]:
    """Write exposures and events in Parquet, and a config for them; the same for the same seed.

    Args:
        folder: new or empty.
    Raises:
        RequestError: the folder holds something [folder-not-empty].
    """
    folder.mkdir(parents=True, exist_ok=True)
    if any(folder.iterdir()):
        raise RequestError(
            f"{str(folder)!r} holds something", code="folder-not-empty", hint="name a new folder"
        )
    draw = np.random.default_rng(seed)
    first = draw.integers(0, (DAYS - 7) * 86_400_000_000, units)
    is_b = draw.random(units) < 0.5
    for name, per_unit in (("exposures", EXPOSURES_A_UNIT), ("events", EVENTS_A_UNIT)):
        (folder / name).mkdir()
        for number, begin in enumerate(range(0, units * per_unit, ROWS)):
            n = min(ROWS, units * per_unit - begin)
            if name == "exposures":
                of = np.arange(begin, begin + n) // per_unit
                is_later = np.arange(begin, begin + n) % per_unit > 0
                later = draw.integers(0, 5 * 86_400_000_000, n) * is_later
                frame = pl.DataFrame(
                    {
                        "unit": of,
                        "variant": np.where(is_b[of], "b", "control"),
                        "time": START + (first[of] + later).astype("timedelta64[us]"),
                    }
                )
            else:
                of = (draw.random(n) ** 1.5 * units).astype(np.int64)
                moments = draw.integers(-BEFORE * 86_400_000_000, DAYS * 86_400_000_000, n)
                kinds = draw.choice(4, n, p=ODDS)
                values = np.where(kinds == 2, draw.lognormal(3.0, 1.0, n), draw.exponential(8.0, n))
                frame = pl.DataFrame(
                    {
                        "unit": of,
                        "time": START + moments.astype("timedelta64[us]"),
                        "kind": KINDS[kinds],
                        "value": np.round(values, 2),
                    }
                )
            if ids == "string":
                unit = pl.lit("user-") + pl.col("unit").cast(pl.String)
                frame = frame.with_columns(unit.alias("unit"))
            frame.write_parquet(folder / name / f"{number:04}.parquet")
    config = folder / "experiment.toml"
    config.write_text(CONFIG, encoding="utf-8")
    return {
        "exposures": folder / "exposures" / "*.parquet",
        "events": folder / "events" / "*.parquet",
        "config": config,
    }


CONFIG = """name = "experiment"
[experiment]
variants = { control = 50, b = 50 }
window = "7d"
sums = { shown = "impression", clicks = "click", revenue = { kind = "purchase", of = "value" } }
[exposures]
path = "exposures/*.parquet"
[events]
path = "events/*.parquet"
[metrics]
names = ["mean(clicks)", "ratio(clicks, shown)", "mean(revenue, winsor=0.999)"]
primary = ["ratio(clicks, shown)"]
guardrails = ["mean(revenue, winsor=0.999)"]
"""
