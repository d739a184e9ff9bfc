"""Rows of a table on their way into stores: how they are grouped, and what became of them."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import polars as pl

from evalkit.aggregate.sums import Merges, add_all
from evalkit.errors import CountedError, raise_all
from evalkit.kernels.arrays import Flags, Keys
from evalkit.kinds.pointwise.store import Column
from evalkit.sources.ids import IdPlan, as_array, as_keys, distinct_keys, hash_ids

OTHER_SEED = 0x9E3779B9
WORD = "word"  # begins the names of notes on ids that programs write for a null
CODES = (  # as rows meet them
    *("null-id", "bad-score", "score-too-large", "bad-label", "not-a-probability", "bad-weight"),
)


@dataclass(frozen=True, slots=True)
class Grouping:
    """How rows are grouped: the columns of an id, and its keys.

    Args:
        name: "user" or "session", with columns `<name>_0`, `<name>_1`, ... of the table; or "item".
        plan: of the keys.
    """

    name: str
    plan: IdPlan

    @property
    def key(self) -> str:
        return f"{self.name}_key"

    @property
    def check(self) -> str | None:
        """The column of a second hash, where the key is one itself and might be shared."""
        return f"{self.name}_check" if self.plan.hashed else None

    def select(self) -> list[pl.Expr]:
        """The key as it is stored, and the check."""
        found = [self.plan.key().alias(self.key)]
        if self.check is not None:
            exprs = self.plan.canonical()
            whole = exprs[0] if len(exprs) == 1 else pl.struct(exprs)
            check = hash_ids(whole, self.plan.seed + OTHER_SEED) // (1 << 32)
            found.append(check.cast(pl.UInt32).alias(self.check))
        return found

    def dtypes(self) -> dict[str, type]:
        found: dict[str, type] = {self.key: np.uint64}
        return found if self.check is None else {**found, self.check: np.uint32}


@dataclass(slots=True)
class Lost:
    """Users of whom some rows were left out, and no other row was seen yet.

    Args:
        users: keys, ascending.
    """

    users: Keys

    @classmethod
    def between(cls, before: Keys, after: Keys) -> "Lost":
        """Users who had rows before, and have none after."""
        return cls(np.setdiff1d(distinct_keys(before), distinct_keys(after), assume_unique=True))

    def merge(self, other: "Lost") -> None:
        """Take over those of other rows."""
        self.users = distinct_keys(np.concatenate([self.users, other.users]))


@dataclass(slots=True)
class RowOutcomes:
    """What became of the rows of one model."""

    rows: int = 0
    dropped: dict[str, int] = field(default_factory=dict)
    noted: dict[str, int] = field(default_factory=dict)
    marks: dict[str, Merges] = field(default_factory=dict)
    refused: dict[tuple[int, str], CountedError] = field(default_factory=dict)

    @property
    def rows_used(self) -> int:
        return self.rows - sum(self.dropped.values())

    def add(self, other: "RowOutcomes") -> None:
        """What became of some rows more."""
        self.rows += other.rows
        for mine, theirs in ((self.dropped, other.dropped), (self.noted, other.noted)):
            for reason, number in theirs.items():
                mine[reason] = mine.get(reason, 0) + number
        add_all(self.marks, other.marks)
        for error in other.refused.values():
            self.refuse(error)

    def refuse(self, error: CountedError) -> None:
        """Remember rows that a policy does not allow."""
        key = (CODES.index(error.code), error.template)
        known = self.refused.get(key)
        self.refused[key] = error if known is None else known.joined(error)

    def tell(self) -> None:
        """Raise what was refused, if anything was.

        Raises:
            DataError: every kind of row that is refused, with how many there are.
        """
        raise_all([self.refused[key] for key in sorted(self.refused)])


@dataclass(slots=True)
class CheckedRows:
    """Some rows of one model as arrays, while faulty ones are sorted out."""

    frame: pl.DataFrame
    row_counts: RowOutcomes
    columns: dict[str, Column] = field(default_factory=dict)

    def refuse_rows(self, code: str, n: int, what: str, *, at: str, hint: str) -> None:
        """Remember so many rows that a policy does not allow, where there are any."""
        if n:
            self.row_counts.refuse(CountedError(f"{{n}} {what}", n, code=code, at=at, hint=hint))

    def drop(self, bad: Flags | pl.Series, reason: str) -> None:
        """Leave out the rows of a mask, and count them."""
        mask = bad if isinstance(bad, pl.Series) else pl.Series(bad)
        number = int(mask.sum() or 0)
        self.row_counts.dropped[reason] = self.row_counts.dropped.get(reason, 0) + number
        if number:
            self.frame = self.frame.filter(~mask)

    def drop_nulls(self, names: Sequence[str], reason: str) -> None:
        """Leave out rows in which one of these columns is null."""
        having = [name for name in names if self.frame[name].null_count()]
        if not having:
            self.row_counts.dropped.setdefault(reason, 0)
            return
        self.drop(
            self.frame.select(pl.any_horizontal(pl.col(having).is_null())).to_series(), reason
        )

    def take_groups(self, groupings: Sequence[Grouping]) -> None:
        """The keys of rows as columns."""
        for grouping in groupings:
            self.columns[grouping.key] = as_keys(self.frame[grouping.key])
            if grouping.check is not None:
                self.columns[grouping.check] = as_array(self.frame[grouping.check])
