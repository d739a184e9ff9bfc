"""Whether the ids of rankings are those of the truth, of the training log and of the catalogue.

Hits are looked at first: only where a model has none, or users have no list, are ids read again.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from evalkit.kinds.rankings._reader import Probed
from evalkit.kinds.rankings.merge import RankingSums
from evalkit.planning.meeting import MET, Meeting, look, look_again, null_words, spell_repair
from evalkit.planning.repairs import COLUMN, Repair
from evalkit.planning.tables import Tables
from evalkit.ranks import ModelProbe
from evalkit.sources import Table
from evalkit.sources.ids import IdPlan
from evalkit.truth import Train, Truth

_A_PIECE = 1 << 16
_COLUMNS = {"user": "user_0", "item": "item"}
TRUTH = "truth"


@dataclass(frozen=True, slots=True)
class Meetings:
    """Notes whether ids of rankings are among those of other tables.

    Args:
        plans: how ids of users and of items become keys.
        looked: what whole tables say, once for all passes.
        is_shared: other shares are measured elsewhere, so that none may have rows here.
    """

    tables: Tables
    plans: tuple[IdPlan, IdPlan]
    looked: dict[tuple[object, ...], Meeting]
    is_shared: bool

    def note(
        self, number: int, probed: Mapping[str, Probed], truth: Truth, sums: RankingSums
    ) -> None:
        """Remember whether users and items of one table of the rankings are among the truth's."""
        tables, config = self.tables, self.tables.config
        _, table = tables.rankings[number]
        if config.is_truthless or config.log is not None or table.made is not None:
            return
        for name, probed_one in probed.items():
            main = probed_one.main
            if not main.rows and not self.is_shared:
                continue
            for what, meets in (("user", _shares_users(main, truth)), ("item", _has_hits(main))):
                found = MET if meets else self._looked(number, tables.truth, what, name)
                sums.note_meeting(key_of(what, TRUTH, name), found)
        for what, column in _COLUMNS.items():
            mine, theirs = (each.noted.ids.get(column) for each in (table, tables.truth))
            sums.note_warnings([*null_words(tables.truth.role, what, theirs)])
            sums.note_warnings([*null_words(table.role, what, mine)])
            if mine and theirs:
                again = look_again([*mine], theirs)
                if again is not None:
                    spelled = self._spelled(number, again, tables.truth, what)
                    sums.note_meeting(f"{what} {number}", spelled)

    def note_beside(self, truth: Truth, train: Train | None, sums: RankingSums) -> None:
        """Remember whether ranked items are among those of the train and of the catalogue."""
        tables = self.tables
        is_seen = any(each.seen for each in sums.models.values()) or bool(sums.truth.in_train)
        for number, (_, table) in enumerate(tables.rankings):
            if table.made is not None:
                continue
            for name in [name for name, place in sums.tables.items() if place == number]:
                row_counts = sums.models.get(name)
                if tables.train is not None and train is not None:
                    meets = is_seen or _shares_items(truth, train)
                    found = MET if meets else self._looked(number, tables.train, "item", name)
                    found = MET if found.misses and self._truth_meets(tables.train) else found
                    sums.note_meeting(key_of("item", "train", name), found)
                if tables.items is not None and row_counts is not None and row_counts.listed_rows:
                    is_known = row_counts.unknown_items < row_counts.listed_rows
                    found = MET if is_known else self._looked(number, tables.items, "item", name)
                    sums.note_meeting(key_of("item", "items", name), found)

    def _looked(self, number: int, other: Table, what: str, name: str) -> Meeting:
        """What all rows of both tables say."""
        key = what, other.role, other.at, number, name
        if key not in self.looked:
            model, table = self.tables.rankings[number]
            one_of = name if model is None else None
            found, repair = look(table, other, self.plans[what == "item"], what, model=one_of)
            if repair is not None:
                found = self._spelled(number, (found, repair), other, what)
            self.looked[key] = found
        return self.looked[key]

    def _truth_meets(self, train: Table) -> bool:
        """Whether an item of the whole truth is in train, whichever users a share has."""
        if self.tables.config.is_truthless:
            return False
        key = "item", train.role, TRUTH
        if key not in self.looked:
            self.looked[key], _ = look(self.tables.truth, train, self.plans[1], "item")
        return self.looked[key].met

    def _spelled(
        self, number: int, found: tuple[Meeting, Repair], other: Table, what: str
    ) -> Meeting:
        meeting, repair = found
        sides = [(f"rankings[{number}]", self.tables.rankings[number][1]), (other.role, other)]
        hint = spell_repair(repair, what, self.tables.config.entry_point, sides)
        sql = (repair.mine or repair.theirs).replace(COLUMN, what)
        return replace(meeting, repair=repair.name, hint=hint, sql=sql)


def key_of(what: str, other: str, model: str) -> str:
    """What a meeting is remembered by."""
    return f"{what} {other} {model}"


def _has_hits(probe: ModelProbe) -> bool:
    ranks = probe.ranks.ranks
    none = np.iinfo(ranks.dtype).max
    return any(
        bool((ranks[begin : begin + _A_PIECE] != none).any())
        for begin in range(0, ranks.size, _A_PIECE)
    )


def _shares_users(probe: ModelProbe, truth: Truth) -> bool:
    present = probe.ranks.present
    return bool((present if truth.is_extra is None else present & ~truth.is_extra).any())


def _shares_items(truth: Truth, train: Train) -> bool:
    """Whether an item of the truth is among those that its users had seen."""
    if not truth.pairs.n_users or not train.pairs.n_users:
        return False
    keys, theirs = truth.item_keys(), train.item_keys()
    return any(
        bool(np.isin(theirs[begin : begin + _A_PIECE], keys).any())
        for begin in range(0, theirs.size, _A_PIECE)
    )
