"""What the users of a table say of the memory that it takes: read once, before a row is held."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import polars as pl

from evalkit.kernels import kernel
from evalkit.kernels.arrays import Floats, Keys
from evalkit.sources import Table, reading
from evalkit.sources.ids import IdPlan, as_keys, distinct_keys, mix
from evalkit.truth import BATCH_ROWS

PLACES = 3  # of a table that are looked at
CELLS = 4096  # of the hash that shares are cut by
SAMPLED_KEYS = 1 << 14


@kernel(allocates=False)
def count_cells(keys, rows, runs, hashes):  # type: ignore[no-untyped-def]
    """Count rows and runs of each cell; `hashes` begins with those of the runs' keys; how many."""
    n_runs, cell = 0, np.int64(0)
    for row in range(keys.size):
        if row == 0 or keys[row] != keys[row - 1]:
            hashes[n_runs] = mix(mix(keys[row]))
            cell = np.int64((hashes[n_runs] & np.uint64(0xFFFFFFFF)) >> np.uint64(20))
            runs[cell] += 1.0
            n_runs += 1
        rows[cell] += 1.0
    return n_runs


def do_users_come_back(table: Table, plan: IdPlan) -> bool:
    """Whether rows of a user and model lie apart: read once, with 8 bytes for each of them."""
    keys = [plan.key().alias("key")]
    keys += [pl.col("model").hash().alias("model")] if "model" in table.columns else []
    known, checked = [np.empty(0, dtype=np.uint64)], 0
    with reading(table):
        for frame in table.stream(keys, most=BATCH_ROWS):
            frame = frame.drop_nulls("key")
            lists = as_keys(frame["key"])
            if "model" in frame.columns:
                lists = lists ^ frame["model"].to_numpy()
            begins = np.flatnonzero(lists[1:] != lists[:-1]) + 1
            first = lists[:1] if not known[-1].size or lists[:1] != known[-1][-1:] else lists[:0]
            known.append(np.concatenate([first, lists[begins]]))
            n_known = sum(part.size for part in known)
            if n_known > 2 * checked:
                known, checked = [np.concatenate(known)], n_known
                if distinct_keys(known[0]).size < n_known:
                    return True
    every = np.concatenate(known)
    return bool(distinct_keys(every).size < every.size)


class IdBytes(NamedTuple):
    """Bytes of ids that are kept beside their keys: mean of a row, and those of the longest."""

    mean: float = 0.0
    longest: int = 0


@dataclass(frozen=True, slots=True)
class Survey:
    """What reading the truth's users says.

    Args:
        rows, runs: float64[CELLS], rows, and runs of rows of one user, by cell.
        sampled: uint64, the smallest hashes of users.
        text: bytes of a user's id, where ids are hashed.
        in_order: keys ascend, so that the rows of each user lie together.
    """

    rows: Floats
    runs: Floats
    sampled: Keys
    text: IdBytes
    in_order: bool

    @classmethod
    def of(cls, table: Table, plan: IdPlan) -> "Survey":
        """Read the users of a table once."""
        rows, runs = np.zeros(CELLS), np.zeros(CELLS)
        sampled = np.empty(0, dtype=np.uint64)
        limit, in_order, last = np.uint64(2**64 - 1), True, np.uint64(0)
        with reading(table):
            for frame in table.stream([plan.key().alias("key")], most=BATCH_ROWS):
                keys = as_keys(frame["key"].drop_nulls())
                if not keys.size:
                    continue
                in_order = in_order and bool(keys[0] >= last and (keys[1:] >= keys[:-1]).all())
                last = keys[-1]
                hashes = np.empty(keys.size, dtype=np.uint64)
                hashes = hashes[: count_cells(keys, rows, runs, hashes)]
                sampled = distinct_keys(np.concatenate([sampled, hashes[hashes <= limit]]))
                if sampled.size > SAMPLED_KEYS:  # the smallest ones say how many there are
                    sampled = sampled[:SAMPLED_KEYS]
                    limit = sampled[-1]
        return cls(rows, runs, sampled, id_bytes(table, plan), in_order)

    @property
    def n_users(self) -> float:
        """About how many there are."""
        return _count_users(self.sampled)

    def n_beside(self, others: "Iterable[Survey]") -> float:
        """About how many users others have that are not among these."""
        every = distinct_keys(np.concatenate([self.sampled, *(each.sampled for each in others)]))
        return max(0.0, _count_users(every) - self.n_users)


def _count_users(hashes: Keys) -> float:
    """About how many users there are, by the smallest of their hashes."""
    if hashes.size < SAMPLED_KEYS:
        return float(hashes.size)
    return (SAMPLED_KEYS - 1) / (float(hashes[SAMPLED_KEYS - 1]) / 2.0**64)


def id_bytes(table: Table, *plans: IdPlan, most: int | None = None) -> IdBytes:
    """How long ids are that are kept beside their keys.

    Args:
        most: rows that are looked at, some here and there in the table; None: all.
    """
    sizes = [
        expr.bin.size() if dtype == pl.Binary else expr.str.len_bytes()
        for plan in plans
        for expr, dtype in zip(plan.canonical(), plan.dtypes, strict=True)
        if dtype in (pl.String, pl.Binary)
    ]
    if not sizes:
        return IdBytes()
    frames = [table.frame]
    if most is not None:
        n_rows = table.n_rows_hint() if table.has_all_rows else None
        begins = [0] if n_rows is None or n_rows <= most else range(0, n_rows, -(-n_rows // PLACES))
        frames = [table.frame.slice(begin, most // len(begins)) for begin in begins]
    size = pl.sum_horizontal(sizes)
    whole = [size.sum().alias("bytes"), pl.len(), size.max().alias("longest")]
    with reading(table):
        found = [frame.select(whole).collect(engine="streaming").row(0) for frame in frames]
    n_bytes, n_rows = sum(each[0] for each in found), sum(each[1] for each in found)
    return IdBytes(n_bytes / max(1, n_rows), max(each[2] or 0 for each in found))
