"""Whether the ids of two tables meet, and what would make them, where they do not."""

import json
import re
import shlex
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from heapq import nsmallest

import numpy as np
import polars as pl

from evalkit.config import EntryPoint
from evalkit.kernels.arrays import Keys
from evalkit.planning.repairs import (
    COLUMN,
    FEWEST,
    GLANCE,
    TRIED,
    Repair,
    find_listed,
    find_repair,
    find_signed,
)
from evalkit.report import Warning_
from evalkit.sources import MOST_BYTES, Table, reading
from evalkit.sources.delimited import NO_IDS, SUMS
from evalkit.sources.ids import IdPlan, as_keys, distinct_keys

MANY = 1000  # distinct ids of both sides, of which some should meet by chance alone
LOOKED_AT = 50_000  # distinct ids of a side that are tried
TOLD_FROM = 0.01  # of ids that a repair would make meet, where others meet as they are
SHOWN = 3
BATCH_ROWS = 1 << 18
_KEY = "key"


@dataclass(frozen=True, slots=True)
class Meeting:
    """Whether ids of some rankings are among those of another table; shares add up.

    Args:
        met: one is.
        many: both have a thousand or more.
        mine, theirs: the first thousand of them, as text.
        repair: what would make some meet, or more of them.
        hint: how it is written, at the entry point where somebody asks.
        sql: the same as an expression alone.
        before, after: the part of them that meets as they are, and repaired; of a sample.
    """

    met: bool
    many: bool = False
    mine: tuple[str, ...] = ()
    theirs: tuple[str, ...] = ()
    repair: str = ""
    hint: str = ""
    sql: str = ""
    before: float = 0.0
    after: float = 0.0

    def merge(self, other: "Meeting") -> "Meeting":
        """What both say, whichever is first."""
        told = max(self, other, key=lambda each: (each.repair, each.after, each.mine))
        mine, theirs = _first([*self.mine, *other.mine]), _first([*self.theirs, *other.theirs])
        many = self.many or other.many or min(len(mine), len(theirs)) == MANY
        return replace(told, met=self.met or other.met, many=many, mine=mine, theirs=theirs)

    @property
    def misses(self) -> bool:
        """Whether there are ids on both sides, and none of one is on the other."""
        return not self.met and bool(self.mine) and bool(self.theirs)

    @property
    def examples(self) -> str:
        """`'a', 'b' against 'A', 'B'`."""
        shown = ascii if "Unicode" in self.repair else repr
        sides = (each[:SHOWN] for each in (self.mine, self.theirs))
        mine, theirs = (", ".join(map(shown, each)) for each in sides)
        return f"{mine} against {theirs}"


MET = Meeting(met=True)


# ---------------------------------------------------------------- tables


def look(
    mine: Table, theirs: Table, plan: IdPlan, what: str, *, model: str | None = None
) -> tuple[Meeting, Repair | None]:
    """Whether any id of a table is in another, and what would make some meet where none is.

    Args:
        mine: rankings, of which those of one model where a column names it.
        plan: how ids become keys.
        what: "user" or "item".
    """
    keys, others, shown = _known(theirs, plan, what)
    ids: dict[str, None] = {}
    smallest: tuple[str, ...] = ()
    for frame in _ids_of(mine, plan, what, model):
        found = as_keys(frame[_KEY])
        places = np.searchsorted(keys, found)
        places[places == keys.size] = 0
        if keys.size and bool((keys[places] == found).any()):
            return MET, None
        texts = _texts(frame, plan)
        smallest = _first([*smallest, *_shortest(texts)])
        if len(ids) < LOOKED_AT:
            ids |= dict.fromkeys(texts.to_list())
    many = len(ids) >= MANY and keys.size >= MANY
    told = Meeting(False, many, smallest, shown)
    repaired = None
    if plan.dtypes == (pl.String(),):
        repaired = find_repair([*ids], others)
    elif plan.dtypes == (pl.Int128(),):  # of which one table has a sign
        repaired = find_signed([*ids][:TRIED], {*others})
    return told, None if repaired is None or not repaired[1] else repaired[0]


def _known(table: Table, plan: IdPlan, what: str) -> tuple[Keys, list[str], tuple[str, ...]]:
    """Every key of a table, ascending, some of its ids as text, and the first of them."""
    parts, n_held, n_known = list[Keys](), 0, 0  # put together whenever they have doubled
    ids: dict[str, None] = {}
    smallest: tuple[str, ...] = ()
    for frame in _ids_of(table, plan, what, None):
        parts.append(as_keys(frame[_KEY]))
        n_held += frame.height
        if n_held > 2 * max(n_known, BATCH_ROWS):
            parts = [distinct_keys(np.concatenate(parts))]
            n_held = n_known = parts[0].size
        texts = _texts(frame, plan)
        smallest = _first([*smallest, *_shortest(texts)])
        if len(ids) < LOOKED_AT:
            ids |= dict.fromkeys(texts.to_list())
    return distinct_keys(np.concatenate([np.empty(0, np.uint64), *parts])), [*ids], smallest


def _first(texts: Iterable[str], n: int = MANY) -> tuple[str, ...]:
    """The first of some ids, whatever their order: numbers as numbers."""
    return tuple(nsmallest(n, set(texts), key=lambda text: (len(text), text)))


def _shortest(texts: pl.Series) -> list[str]:
    """Those of a batch that may be the first, without a list of all."""
    text = pl.col("text")
    order = [text.str.len_chars(), text]
    return texts.to_frame().unique().sort(order).head(MANY)["text"].to_list()


def _ids_of(table: Table, plan: IdPlan, what: str, model: str | None) -> Iterator[pl.DataFrame]:
    """The ids of a table with their keys, once each in a batch."""
    schema = table.frame.collect_schema()
    of_model = [pl.col("model").cast(pl.String)] if model is not None and "model" in schema else []
    is_list = what == "item" and table.is_list
    wanted = [pl.col("item")] if is_list else plan.select(_KEY)
    with reading(table):
        for rows in table.stream([*wanted, *of_model], most=BATCH_ROWS // (32 if is_list else 1)):
            kept = rows.filter(pl.col("model") == model) if of_model else rows
            if is_list:
                kept = kept.explode("item").select(plan.select(_KEY))
            yield kept.drop_nulls(_KEY).unique(_KEY, maintain_order=True)


def _texts(frame: pl.DataFrame, plan: IdPlan) -> pl.Series:
    """Ids as text, of several columns side by side; none of those that are very long."""
    columns = plan.columns if plan.hashed else (_KEY,)
    spelled = [
        pl.col(name).bin.encode("hex")
        if frame[name].dtype == pl.Binary
        else pl.col(name).cast(pl.String)
        for name in columns
    ]
    texts = frame.select(pl.concat_str(spelled, separator=" / ")).to_series().drop_nulls()
    return texts.filter(texts.str.len_bytes() <= MOST_BYTES).alias("text")


def look_again(mine: Sequence[str], theirs: Collection[str]) -> tuple[Meeting, Repair] | None:
    """What would make more ids of a sample meet; None where nothing does."""
    known, mine = set(theirs), sorted(mine)[:: -(-len(mine) // TRIED)]
    alone = [text for text in mine if text not in known]
    least, before = max(FEWEST, TOLD_FROM * len(mine)), len(mine) - len(alone)
    if len(alone) < least or find_repair(alone[:GLANCE], sorted(known)[: 5 * GLANCE]) is None:
        return None
    found = find_repair(alone, known)
    if found is None or found[1] < least:
        return None
    repair, n = found
    told = Meeting(
        True,
        False,
        _first(alone, SHOWN),
        _first(known.difference(mine), SHOWN),
        repair.name,
        before=before / len(mine),
        after=(before + n) / len(mine),
    )
    return told, repair


# ---------------------------------------------------------------- hints


def spell_repair(
    repair: Repair, key: str, entry_point: EntryPoint, sides: Sequence[tuple[str, Table]]
) -> str:
    """What to write so that ids meet, at the entry point where somebody asks.

    Args:
        key: user or item.
        sides: the section and the table of mine, then of theirs.
    """
    written: dict[str, str] = {}
    settings = []
    for (section, table), sql in zip(sides, (repair.mine, repair.theirs), strict=True):
        column = table.columns.get(key)
        if not sql or not isinstance(column, str):
            continue
        name = column if column.isidentifier() or "(" in column else f'"{column}"'
        role, sql = section.partition("[")[0], sql.replace(COLUMN, name)
        written[role] = sql
        columns = {**table.columns, key: sql}
        if entry_point == "python":
            continue
        if entry_point == "file":
            settings.append(_in_file(section, columns if table.guessed else {key: sql}))
        else:
            setting = shlex.quote(f"{section}.columns.{key}={sql}")
            settings.append(f"--set {setting}")
    if entry_point == "python" and written:
        tables = {role: {key: sql} for role, sql in written.items()}
        return f"pass columns={json.dumps(tables, ensure_ascii=False)}"
    if not settings:
        return repair.advice
    return "write " + (" " if entry_point != "file" else " and ").join(settings)


_CAST = re.compile(r'(?P<key>user|item) = (?P<sql>"[^"]*") under \[(?P<role>\w+)\.columns\]')


def with_guessed(hint: str, tables: Sequence[Table]) -> str:
    """A hint as a config is written, with the columns beside the one it names that were guessed."""

    def spelled(found: re.Match[str]) -> str:
        guessed = [each for each in tables if each.role == found["role"] and each.guessed]
        columns = {} if not guessed else dict(guessed[0].columns) | {found["key"]: ""}
        if columns.items() <= {("user", "user"), ("item", "item"), (found["key"], "")}:
            return found[0]  # as they are where nobody writes them
        columns[found["key"]] = json.loads(found["sql"])
        return _in_file(found["role"], columns)

    return _CAST.sub(spelled, hint)


def listed_hint(
    rankings: Sequence[tuple[str, Table]], truth: Table, entry_point: EntryPoint
) -> str:
    """What to write where items are lists of numbers as text; empty where none are.

    Args:
        rankings: each with its section.
    """
    for section, table in rankings:
        types = [each.frame.collect_schema()["item"] for each in (table, truth)]
        if types[0] not in (pl.String, pl.Categorical, pl.Enum) or not types[1].is_integer():
            continue
        with reading(table):
            texts, known = (
                each.frame.select(pl.col("item").cast(pl.String)).head(LOOKED_AT).collect()["item"]
                for each in (table, truth)
            )
        repair, n = find_listed(texts.drop_nulls().to_list()[:TRIED], set(known.drop_nulls()))
        if n:
            repair = repair._replace(theirs=f"cast({COLUMN} as varchar)")
            sides = [(section, table), ("truth", truth)]
            return spell_repair(repair, "item", entry_point, sides)
    return ""


def _in_file(section: str, columns: Mapping[str, object]) -> str:
    spelled = ", ".join(f"{key} = {_toml(value)}" for key, value in columns.items())
    table = section.partition("[")[0]
    table = f"[[{table}]]" if table == "rankings" else f"[{table}]"
    return f"columns = {{ {spelled} }} under {table}" if len(columns) > 1 else (
        f"{spelled} under {table.strip('[]').join(('[', '.columns]'))}"
    )  # fmt: skip


def _toml(value: object) -> str:
    return json.dumps(value if isinstance(value, str) else list(value), ensure_ascii=False)  # type: ignore[call-overload]


def null_words(role: str, what: str, ids: Iterable[str] | None) -> Iterator[Warning_]:
    """A warning where some texts are what programs write for a null, or for a sum below users.

    Args:
        role: of their table; `what`: whose ids they are.
    """
    met = frozenset(ids or ())
    for kind, known in (("null", NO_IDS), ("sum", () if what == "item" else SUMS)):
        if words := sorted(met.intersection(known)):
            named = ", ".join(map(repr, words))
            message = f"{role} has {what}s called {named}, as programs write a {kind}: they count"
            yield Warning_("null-words", message)


def texts_among(ids: pl.Series) -> list[str]:
    """Which of the texts that `null_words` knows are among some ids; none of other types."""
    if ids.dtype not in (pl.String, pl.Categorical, pl.Enum):
        return []
    return ids.cast(pl.String).filter(ids.cast(pl.String).is_in([*NO_IDS, *SUMS])).to_list()
