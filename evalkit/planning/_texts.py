"""How long ids are that are texts: by footers, then by reading them, before a row is held."""

from dataclasses import dataclass

from evalkit.planning._counts import count_rows
from evalkit.planning.memory import count_items
from evalkit.planning.survey import IdBytes, id_bytes
from evalkit.planning.tables import Tables, plan_ids_of
from evalkit.sources import Table
from evalkit.sources.ids import IdPlan

USUAL_TEXT = 250  # bytes of a user's and an item's id together, up to which nothing else is counted
LARGE_GROUP = 128 << 20  # bytes: a row group of longer texts is not decoded to look at it
LOOKED_AT = 1 << 15  # rows
# times the bytes of a row group of long texts: unpacked, as rows, gathered, and not given back yet
DECODED, DECODED_IN_SHARES = 2.5, 4.0
# slots and records of ids that are kept, at most; their keys and views in order, where asked for
HASHED_ID = 48 + 32
TEXT_COPIES = 1.2  # of the bytes of an id, kept and being compared


@dataclass(frozen=True, slots=True)
class TextSizes:
    """What ids take beside their keys, where they are hashed; the most that any table has.

    Args:
        mean: bytes of a user's and an item's id together.
        group: bytes of the largest row group of long ones.
        is_hashed: there are such ids.
    """

    mean: float = 0.0
    group: int = 0
    is_hashed: bool = False

    @classmethod
    def of(cls, tables: Tables) -> "TextSizes":
        """Look at the ids of all logs."""
        plans = plan_ids_of(tables, 1)
        if not any(plan.hashed for plan in plans):
            return cls()
        found = [_look(table, plans) for table in tables.logs]
        return cls(max(each.mean for each in found), max(each.group for each in found), True)


def _look(table: Table, plans: tuple[IdPlan, IdPlan]) -> TextSizes:
    n_bytes, group = table.stored_bytes(["user", "item"])
    if table.made is not None or table.is_list:
        mean = n_bytes / max(1, count_rows(table)) if n_bytes else 0.0
    else:
        mean = n_bytes / max(1, table.n_rows_hint() or 1)
        if group <= LARGE_GROUP:  # a dictionary says a text once
            mean = max(mean, id_bytes(table, *plans, most=LOOKED_AT).mean)
    if table.n_text_bytes is not None:  # of which as much is on its way
        group = min(table.n_text_bytes, LARGE_GROUP)
    return TextSizes(mean, group if mean > USUAL_TEXT else 0)


@dataclass(frozen=True, slots=True)
class Ids:
    """So many different ids in so many rows."""

    n: float
    n_rows: float
    sizes: IdBytes

    def taken(self, share: float) -> float:
        """Bytes of those that a share of the rows has at most."""
        n_rows = share * self.n_rows
        n = min(self.n, n_rows)
        n_bytes = min(n * self.sizes.longest, n_rows * self.sizes.mean)
        return n * HASHED_ID + TEXT_COPIES * n_bytes


def ids_of_items(tables: Tables, plan: IdPlan, sample: float) -> list[Ids]:
    """The items of the truth and of train."""
    logs = [each for each in (tables.truth, tables.train) if each is not None]
    return [
        Ids(count_items(tables, [each]), sample * count_rows(each), id_bytes(each, plan))
        for each in logs
    ]
