"""Logs of three models with a table of users to be segmented by."""

import numpy as np
import polars as pl

N_USERS = 240
ITEMS = 40


def make_logs(folder):
    """A truth with a country, two models, a users table that lacks twenty users."""
    rng = np.random.default_rng(7)
    users = np.arange(N_USERS)
    truth = pl.DataFrame(
        {"user": np.repeat(users, 4), "item": rng.integers(0, ITEMS, 4 * N_USERS)}
    ).unique(maintain_order=True)
    country = pl.Series(["de", "fr", "jp"]).gather(truth["user"] % 3)
    truth = truth.with_columns(country=country)
    truth.write_parquet(folder / "truth.parquet")
    for model in ("a", "b", "c"):
        lists = [rng.permutation(ITEMS)[:8] for _ in users]
        pl.DataFrame(
            {
                "user": np.repeat(users, 8),
                "item": np.concatenate(lists),
                "rank": np.tile(np.arange(1, 9), N_USERS),
            }
        ).write_parquet(folder / f"{model}.parquet")
    known = users[:-20]
    people = pl.DataFrame(
        {
            "who": known,
            "age": rng.integers(18, 80, known.size),
            "kind": rng.choice(["new", "old"], known.size),
        }
    )
    people.write_parquet(folder / "users.parquet")
    return truth, people
