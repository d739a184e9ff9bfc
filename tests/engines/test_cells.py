"""Rows cut by share and put together again: all of them, once, in their order."""

from datetime import datetime

import numpy as np
import polars as pl
import pytest

from evalkit.engines._cut import FAULT, Cells, Cutter, failing_as_cells, make_loads
from evalkit.engines._layout import GivenPlace, LaidTable
from evalkit.engines._proofs import check_proof, proof
from evalkit.errors import DataError, EvalkitError, MachineError
from evalkit.sources.ids import DrawnShare, drawn_shares, plan_ids
from evalkit.sources.paths import File
from evalkit.sources.pieces import Piece, cut_into_pieces

N = 5_000
IDS = {
    "whole": pl.Series(np.arange(N) % 700 - 30),
    "unsigned": pl.Series([2**64 - 1 - n % 700 for n in range(N)], dtype=pl.UInt64),
    "text": pl.Series([f"user {n % 700}" for n in range(N)]),
    "category": pl.Series([f"u{n % 700}" for n in range(N)], dtype=pl.Categorical),
    "time": pl.Series([datetime(2026, 1, 1 + n % 28) for n in range(N)], dtype=pl.Datetime("ns")),
}


@pytest.mark.parametrize("kind", IDS)
@pytest.mark.parametrize("n_shares", [1, 7])
def test_cells_hold_all_rows_once_and_in_order(tmp_path, kind, n_shares):
    items = pl.Series(np.arange(N))
    rows = pl.DataFrame({"user": IDS[kind], "item": items, "tags": [[n, n + 1] for n in range(N)]})
    rows = rows.with_columns(user=pl.when(items % 97 != 0).then("user"))
    paths = [tmp_path / f"{number}.parquet" for number in range(2)]
    for path, part in zip(paths, (rows.head(3_000), rows.slice(3_000)), strict=True):
        part.write_parquet(path, row_group_size=400)
    files = [File(str(path), "parquet") for path in paths]
    pieces = cut_into_pieces(files, "qrels", 1_000)
    plan = plan_ids("user", [("truth", "", {"user_0": rows.schema["user"]})], seed=1)
    kept = (LaidTable(GivenPlace("truth"), rows.schema, (pl.col("user"),), "truth"),)
    cutter = Cutter(kept, plan, n_shares, {}, proof())
    loads = make_loads((0, piece) for piece in pieces)

    batches = [batch for n, load in enumerate(loads) for batch in cutter.cut_load(load, n)]

    assert sum(each.n_rows for each in pieces) == N
    assert max(each.n_rows for each in pieces) <= 1_000
    cells = [cell for batch in batches for cell in batch.to_pylist()]
    found = []
    for share in range(n_shares):
        own = [batch.filter(np.array(batch["share"]) == share) for batch in reversed(batches)]
        held = Cells.of(kept, own)
        assert held.n_rows == [sum(c["n_rows"] for c in cells if c["share"] == share)]
        frame = held.open().get(0, rows.clear())
        assert frame.schema == rows.schema
        assert frame["item"].is_sorted()
        found.append(frame)
    assert pl.concat(found).sort("item").equals(rows)
    together = pl.concat(found).drop_nulls("user").select("user").unique().height
    assert sum(each.drop_nulls("user")["user"].n_unique() for each in found) == together


def test_a_share_is_that_of_a_partial():
    plan = plan_ids("user", [("truth", "", {"user_0": pl.String()})], seed=1)
    users = pl.DataFrame({"user_0": [f"u{n}" for n in range(500)]})
    keyed = users.select(plan.select("user_key"))

    numbers = drawn_shares(users, plan, 5)

    for number in range(5):
        assert (DrawnShare(number, 5, plan).holds(keyed) == (numbers == number)).all()


def test_loads_join_small_files_and_leave_uncounted_ones_alone():
    small = [(part, Piece(File(f"{part}", "parquet"), "qrels", 0, 10)) for part in range(3)]
    text = (3, Piece(File("text.csv", "csv"), "qrels"))

    assert make_loads([*small, text, small[0]]) == [small, [text], [small[0]]]


def test_an_error_is_a_cell_and_is_raised_where_rows_are_wanted():
    def failing():
        raise DataError("it is damaged", code="unreadable-file", at="x.parquet", hint="mend it")
        yield

    (batch,) = failing_as_cells(failing())

    assert batch.to_pylist()[0]["part"] == FAULT
    with pytest.raises(EvalkitError, match="it is damaged") as caught:
        Cells.of((), [batch]).open()
    assert (caught.value.code, caught.value.at) == ("unreadable-file", "x.parquet")


@pytest.mark.parametrize("name", ["evalkit", "polars", "logarithms and powers"])
def test_an_executor_with_another_library_is_refused(name):
    check_proof(proof() | {"python": "2.7"})

    with pytest.raises(MachineError, match=f"do not agree: {name} is"):
        check_proof(proof() | {name: "another"})
