"""What `check` finds of lists, whether rows of a user lie together or apart."""

from collections import Counter
from pathlib import Path

import polars as pl
import pytest

from evalkit.config import build_config
from evalkit.jobs import whole_lists
from evalkit.jobs.check import CheckFinding, check_config

LISTS = pl.DataFrame(
    {
        "user": [*"aaaabbbbcccc", None, *"aa"],
        "item": [1, 2, 2, 4, 1, 1, 1, 5, 7, 8, 9, None, 1, 3, 9],
        "rank": [1, 2, 3, 4, 1, 2, 3, 3, 1, 2, 3, 4, 1, 5, 5],
    }
)


def write_lists(folder: Path, rows: pl.DataFrame, order: str) -> Path:
    """Lists of many users: as they stand, or in another order of rows."""
    lists = pl.concat(
        [rows.with_columns(pl.format("{}-{}", "user", pl.lit(copy))) for copy in range(50)]
    )
    if order == "together":
        lists = lists.sort("user", maintain_order=True, nulls_last=True)
    elif order == "apart":
        lists = lists.sample(fraction=1, shuffle=True, seed=1)
    lists.write_parquet(folder / "m.parquet", row_group_size=64)
    return folder / "m.parquet"


def find_faults(path: Path, **columns: str) -> dict[str, CheckFinding]:
    """What is found, by code."""
    pl.DataFrame({"user": ["a-0", "b-1"], "item": [1, 5]}).write_parquet(path.parent / "t.parquet")
    ids = {"user": "user", "item": "item"}
    tree = {
        "truth": {"path": str(path.parent / "t.parquet"), "columns": ids},
        "rankings": [{"path": str(path), "columns": {**ids, **columns}, "model": "m"}],
        "metrics": {"names": ["hit@1"]},
    }
    return {each.code: each for each in check_config(build_config(tree, name="checked"))}


def count_twice(rows: pl.DataFrame, key: str) -> int:
    """Pairs that stand in a list more than once, in plain Python."""
    pairs = [pair for pair in rows.select("user", key).rows() if None not in pair]
    return sum(number > 1 for number in Counter(pairs).values())


@pytest.mark.some_cases(3)
@pytest.mark.parametrize("order", ["as it stands", "together", "apart"])
@pytest.mark.parametrize("most_rows", [7, whole_lists.MOST_ROWS])
def test_what_stands_twice_is_found_wherever_rows_lie(tmp_path, order, most_rows, monkeypatch):
    monkeypatch.setattr(whole_lists, "MOST_ROWS", most_rows)

    found = find_faults(write_lists(tmp_path, LISTS, order), rank="rank")

    n_items, n_ranks = (50 * count_twice(LISTS, key) for key in ("item", "rank"))
    assert (n_items, n_ranks) == (100, 100)
    pairs = f"{n_items} (user, item) pairs stand in a list more than once: user a-0 item 2, "
    assert found["duplicate-item"].message.startswith(pairs)
    assert found["duplicate-rank"].message.startswith(f"{n_ranks} ranks are given twice: user a-0")


def test_lists_are_looked_at_like_their_rows(tmp_path):
    rows = LISTS.drop("rank").drop_nulls()
    path = write_lists(tmp_path, rows, "together")
    lists = pl.read_parquet(path).group_by("user", maintain_order=True).agg("item")
    of_rows = find_faults(path)["duplicate-item"]
    lists.rename({"item": "items"}).write_parquet(path)

    of_lists = find_faults(path, item="items")["duplicate-item"]

    assert of_lists.message == of_rows.message


def test_what_a_run_refuses_of_items_is_wrong_here_too(tmp_path):
    lists = pl.DataFrame({"user": ["a-0", "b-1"], "item": ["N1A", "N5A"], "rank": [1, 1]})
    lists.write_csv(tmp_path / "m.csv")
    truth = pl.DataFrame({"user": ["a-0", "b-1"], "item": ["n1a", "n5a"]})
    truth.write_csv(tmp_path / "t.csv")
    ids = {"user": "user", "item": "item"}
    tree = {
        "truth": {"path": str(tmp_path / "t.csv"), "columns": ids},
        "rankings": [{"path": str(tmp_path / "m.csv"), "columns": ids, "model": "m"}],
        "metrics": {"names": ["hit@1"]},
    }

    def wrong(**policies):
        config = build_config(tree | {"policies": policies}, name="checked")
        return [each.code for each in check_config(config) if each.is_error]

    assert wrong() == ["no-common-item"]
    assert wrong(no_common_item="warn") == []
