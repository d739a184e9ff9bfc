"""Logs as the configs of configs/ expect them."""

from collections.abc import Sequence
from pathlib import Path

import polars as pl

USERS = 240  # all alike: 184 are enough for max_drop = 0.02 of configs/nightly.toml


def write_example_logs(folder: Path, days: Sequence[str]) -> None:
    """Write logs/ and trec/ below a folder, with interactions and rankings of some days."""
    users = list(range(USERS))
    items = [user % 24 for user in users]

    def write(path: str, columns: dict[str, list]) -> None:
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        pl.DataFrame(columns).write_parquet(folder / path)

    def ranked(shift: int) -> dict[str, list]:
        rows = [(user, (user + shift + place) % 24, place) for user in users for place in range(20)]
        return {
            "user_id": [row[0] for row in rows],
            "item_id": [row[1] for row in rows],
            "rank": [row[2] + 1 for row in rows],
        }

    for day in dict.fromkeys(days):
        bought = {"event": ["purchase"] * USERS, "rating": [5.0] * USERS}
        truth = {"user_id": users, "item_id": items, **bought}
        write(f"logs/interactions/day={day}/part.parquet", truth)
        write(f"logs/rankings/als/day={day}/part.parquet", ranked(24))
        write(f"logs/rankings/popularity/day={day}/part.parquet", ranked(7))
    write(
        "logs/users.parquet",
        {
            "user_id": users,
            "activity": ["new" if user % 3 else "regular" for user in users],
            "country": ["fr" if user % 4 else "de" for user in users],
            "age": [18 + user % 60 for user in users],
        },
    )
    kinds = ["war" if item % 2 else "love" for item in range(24)]
    write("logs/items.parquet", {"item_id": list(range(24)), "genre": kinds})
    sessions = {"account_id": users, "session_id": [1] * USERS}
    bought = {"item_id": items, "rating": [5.0] * USERS, "event": ["purchase"] * USERS}
    write("logs/interactions/part.parquet", {**sessions, **bought})
    many = ranked(24)
    scored = {
        "account_id": many["user_id"],
        "session_id": [1] * (20 * USERS),
        "item_id": many["item_id"],
        "score": [-float(rank) for rank in many["rank"]],
        "model_name": ["als"] * (20 * USERS),
    }
    write("logs/rankings/week-1/part.parquet", scored)
    write("logs/rankings/week-2/part.parquet", {**scored, "model_name": ["ease"] * (20 * USERS)})
    write("logs/train.parquet", {**sessions, "item_id": [99] * USERS})
    shown = ranked(24)
    write(
        "logs/impressions/part.parquet",
        {
            "user_id": shown["user_id"],
            "session_id": shown["user_id"],
            "p_click": [1 / (rank + 1) for rank in shown["rank"]],
            "item_id": shown["item_id"],
            "position": [rank - 1 for rank in shown["rank"]],
            "clicked": [rank == 3 for rank in shown["rank"]],
            "surface": ["home"] * (20 * USERS),
        },
    )
    stars = [float(1 + user % 5) for user in users]
    write("logs/ratings/part.parquet", {"user_id": users, "item_id": items, "stars": stars})
    for model in ("svd", "item-mean"):
        predicted = [star + len(model) / 10 for star in stars]
        columns = {"user_id": users, "item_id": items, "score": predicted}
        write(f"logs/predictions/{model}.parquet", columns)
    (folder / "trec").mkdir()
    (folder / "trec" / "qrels.test").write_text("q1 0 d1 1\nq1 0 d2 0\n")
    (folder / "trec" / "bm25.run").write_text("q1 Q0 d1 1 2.5 x\nq1 Q0 d2 2 1.5 x\n")
