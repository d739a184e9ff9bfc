"""Whether the ids of two tables meet, and what would make them, where they do not."""

import json
import re
import shlex
import unicodedata
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from heapq import nsmallest
from typing import NamedTuple

import numpy as np
import polars as pl

from evalkit.config import EntryPoint
from evalkit.kernels.arrays import Keys
from evalkit.sources import MOST_BYTES, Table, reading
from evalkit.sources.ids import IdPlan, as_keys, distinct_keys

MANY = 1000  # distinct ids of both sides, of which some should meet by chance alone
LOOKED_AT = 50_000  # distinct ids of a side that are tried
GLANCE = 200  # of a sample, and five times as many of the other: a look that costs nothing
TRIED = 2_000  # of one side that are held against those of the other
TOLD_FROM = 0.01  # of ids that a repair would make meet, where others meet as they are
FEWEST = 2  # ids that would meet so
SHOWN = 3
BATCH_ROWS = 1 << 18
_KEY = "key"
COLUMN = "\0"
_BRACKETS = "[](){}<>'\"`"
_BARE = _BRACKETS + " "
_WHOLE = re.compile(r"[+]?0*(\d+)(?:\.0*)?")
_AFFIXES = 64  # characters of a prefix or suffix


class Repair(NamedTuple):
    """What makes ids meet.

    Args:
        name: as a message has it, "in one case".
        mine, theirs: SQL of a column, which stands in it as `COLUMN`, where that side needs it.
        advice: what to do where no SQL does it.
    """

    name: str
    mine: str = ""
    theirs: str = ""
    advice: str = "write both as one"


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


# ---------------------------------------------------------------- repairs


def _whole(text: str) -> str:
    if text.isdecimal() and text[0] != "0":
        return text
    found = _WHOLE.fullmatch(text)
    return text if found is None else found[1]


_FORMS: tuple[tuple[str, str, Callable[[str], str]], ...] = (
    ("without the spaces around them", f"trim({COLUMN})", str.strip),
    ("in one case", f"lower({COLUMN})", str.lower),
    (
        "in one Unicode form (NFC)",
        f"normalize({COLUMN}, NFC)",
        lambda text: text if text.isascii() else unicodedata.normalize("NFC", text),
    ),
    (
        "trimmed, in one case and in one Unicode form (NFC)",
        f"lower(trim(normalize({COLUMN}, NFC)))",
        lambda text: (
            (text if text.isascii() else unicodedata.normalize("NFC", text)).strip().lower()
        ),
    ),
    (
        "without dashes and in one case",
        f"replace(lower({COLUMN}), '-', '')",
        lambda text: text.replace("-", "").lower(),
    ),
    ("as whole numbers", f"cast(cast(cast({COLUMN} as double) as bigint) as varchar)", _whole),
)


def find_repair(mine: Sequence[str], theirs: Collection[str]) -> tuple[Repair, int] | None:
    """What makes most of `mine` meet `theirs` that do not as they are, and how many it makes."""
    known = set(theirs)
    alone = [text for text in mine[:TRIED] if text not in known]
    found = [] if not alone or not known else [*_tried(alone, known)]
    found = [each for each in found if each[1]]
    return max(found, key=lambda each: each[1]) if found else None


def _tried(alone: Sequence[str], known: set[str]) -> Iterator[tuple[Repair, int]]:
    yield _signed(alone, known)
    for name, sql, form in _FORMS:
        yield _formed(name, sql, form, alone, known)
    yield _unbracketed(alone, known)
    yield _listed(alone, known)
    _, n = _listed([*known][:TRIED], set(alone))
    advice = "write one item a row, the lists of the truth are text"
    yield Repair("one a row, where there are lists written as text,", advice=advice), n
    for prefix, suffix, n in _affixes(alone, known):
        yield Repair(_name_of(prefix, suffix, "those of the rankings"),
                     mine=_cut(prefix, suffix)), n  # fmt: skip
    few = sorted(known)[:: -(-len(known) // TRIED)]
    for prefix, suffix, n in _affixes(few, set(alone)):
        yield Repair(_name_of(prefix, suffix, "the others"), theirs=_cut(prefix, suffix)), n


def _signed(alone: Sequence[str], known: set[str]) -> tuple[Repair, int]:
    """64 bits that are read as a negative number here, and as a large one there."""
    bits = {number for text in known if (number := _bits(text)) is not None}
    n = sum(_bits(text) in bits for text in alone)
    advice = (
        "write both as Int64 where the tables are made, as Polars does by reinterpret(signed=True)"
    )
    return Repair("as 64-bit numbers with a sign", advice=advice), n


def _bits(text: str) -> int | None:
    """The number of 64 bits without a sign, where a text is one that some read with a sign."""
    if not (text.isascii() and text.removeprefix("-").isdecimal()):
        return None
    number = int(text)
    is_one = -(1 << 63) <= number < 0 or 1 << 63 <= number < 1 << 64
    return number % (1 << 64) if is_one else None


def _formed(
    name: str, sql: str, form: Callable[[str], str], alone: Sequence[str], known: set[str]
) -> tuple[Repair, int]:
    values = set(map(form, known))
    meeting = [text for text in alone if form(text) in values]
    if not meeting:
        return Repair(name), 0
    met = set(map(form, meeting))
    changed = any(form(text) != text for text in meeting)
    others = any(text != form(text) and form(text) in met for text in known)
    return Repair(name, sql if changed else "", sql if others else ""), len(meeting)


def _unbracketed(alone: Sequence[str], known: set[str]) -> tuple[Repair, int]:
    def bare(text: str) -> str:
        return text.strip(_BARE)

    plain = {bare(text) for text in known}
    meeting = [text for text in alone if bare(text) in plain]
    if not meeting:
        return Repair(""), 0
    sides = []
    for texts in (meeting, [text for text in known if bare(text) != text]):
        marks = {mark for text in texts for mark in text if mark in _BRACKETS}
        sides.append(_without(sorted(marks)) if marks else "")
    return Repair("without brackets and quotes", *sides), len(meeting)


def _without(marks: Sequence[str]) -> str:
    sql = COLUMN
    for mark in marks:
        sql = f"replace({sql}, {_quoted(mark)}, '')"
    return f"trim({sql})"


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _listed(alone: Sequence[str], known: set[str]) -> tuple[Repair, int]:
    """Texts that are lists of ids, as Python, JSON or words between spaces write them."""
    best = (Repair(""), 0)
    for mark in (",", ";", "|", " ", "\t"):
        n = 0
        marks: set[str] = set()
        is_padded = False  # as NumPy prints numbers of unequal length
        for text in [text for text in alone if mark in text]:
            split = text.split(None if mark == " " else mark)
            parts = [bare for part in split if (bare := part.strip(_BARE))]
            if parts and sum(part in known for part in parts) * 2 >= len(parts):
                n += 1
                marks |= {each for each in text if each in _BRACKETS}
                is_padded |= "  " in text
        if n > best[1]:
            plain = _without(sorted(marks)) if marks else COLUMN
            if mark != " ":
                plain = f"replace({plain}, ' ', '')"
            for blanks in ("    ", "  ", "  ") if mark == " " and is_padded else ():
                plain = f"trim(replace({plain}, '{blanks}', ' '))"
            sql = f"string_to_array({plain}, '{mark}')"
            best = Repair("as lists, which are written as text here", mine=sql), n
    return best


def _affixes(some: Sequence[str], known: set[str]) -> Iterator[tuple[str, str, int]]:
    """Beginnings and ends that texts have in common and others lack."""
    if len(some) < FEWEST:
        return
    begin, end = _ends(some)
    of_known = _ends(known)

    def fits(prefix: str, suffix: str) -> bool:
        core = some[0][len(prefix) : len(some[0]) - len(suffix)]
        return core.startswith(of_known[0]) and core.endswith(of_known[1])

    prefixes = [begin[:n] for n in range(min(len(begin), _AFFIXES) + 1)]
    suffixes = [end[len(end) - n :] for n in range(min(len(end), _AFFIXES) + 1)]
    pairs = [(one, two) for two in suffixes for one in prefixes if (one or two) and fits(one, two)]
    tested = some[:GLANCE]
    cut = [each for each in pairs if any(_core(text, *each) for text in tested[:FEWEST])]
    for prefix, suffix in cut:
        cores = [_core(text, prefix, suffix) for text in tested]
        n = sum(core is not None and core in known for core in cores)
        if n >= min(FEWEST, len(known)):
            yield prefix, suffix, n * len(some) // max(1, len(tested))
            return
    for prefix, suffix in pairs:  # of one word with what follows: most must be known
        if prefix[-1:].isdigit() or suffix[:1].isdigit():
            continue
        cores = [text[len(prefix) : len(text) - len(suffix)] for text in tested]
        n = sum(core in known for core in cores)
        if n >= max(FEWEST + 1, len(tested) // 2):
            yield prefix, suffix, n * len(some) // max(1, len(tested))
            return


def _ends(texts: Collection[str]) -> tuple[str, str]:
    """What all of them begin and end with."""
    turned = [text[::-1] for text in texts]
    return _common(min(texts), max(texts)), _common(min(turned), max(turned))[::-1]


def _common(one: str, other: str) -> str:
    n = 0
    while n < min(len(one), len(other)) and one[n] == other[n]:
        n += 1
    return one[:n]


def _core(text: str, prefix: str, suffix: str) -> str | None:
    """What is between, where the beginning and the end are words of their own."""
    core = text[len(prefix) : len(text) - len(suffix)]
    if not core or (prefix and _is_one(prefix[-1], core[0])) or (
        suffix and _is_one(core[-1], suffix[0])
    ):  # fmt: skip
        return None
    return core


def _is_one(before: str, after: str) -> bool:
    return (before.isdigit() and after.isdigit()) or (before.isalpha() and after.isalpha())


def _name_of(prefix: str, suffix: str, whose: str) -> str:
    named = [f"the prefix {prefix!r}"] * bool(prefix) + [f"the suffix {suffix!r}"] * bool(suffix)
    return f"without {' and '.join(named)} of {whose}"


def _cut(prefix: str, suffix: str) -> str:
    sql = COLUMN
    for text in filter(None, (prefix, suffix)):
        sql = f"replace({sql}, {_quoted(text)}, '')"
    return sql


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
        repaired = _signed([*ids][:TRIED], {*others})
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
        repair, n = _listed(texts.drop_nulls().to_list()[:TRIED], set(known.drop_nulls()))
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
