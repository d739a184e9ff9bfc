"""What would make ids meet that are written in two ways."""

import re
import unicodedata
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import NamedTuple

GLANCE = 200  # of a sample, and five times as many of the other: a look that costs nothing
TRIED = 2_000  # of one side that are held against those of the other
FEWEST = 2  # ids that would meet so
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
    yield find_signed(alone, known)
    for name, sql, form in _FORMS:
        yield _formed(name, sql, form, alone, known)
    yield _unbracketed(alone, known)
    yield find_listed(alone, known)
    _, n = find_listed([*known][:TRIED], set(alone))
    advice = "write one item a row, the lists of the truth are text"
    yield Repair("one a row, where there are lists written as text,", advice=advice), n
    for prefix, suffix, n in _affixes(alone, known):
        yield Repair(_name_of(prefix, suffix, "those of the rankings"),
                     mine=_cut(prefix, suffix)), n  # fmt: skip
    few = sorted(known)[:: -(-len(known) // TRIED)]
    for prefix, suffix, n in _affixes(few, set(alone)):
        yield Repair(_name_of(prefix, suffix, "the others"), theirs=_cut(prefix, suffix)), n


def find_signed(alone: Sequence[str], known: set[str]) -> tuple[Repair, int]:
    """64 bits that are read as a negative number here, and as a large one there."""
    bits = set(map(_bits, known)) - {0}
    advice = "write both as Int64 where the tables are made, in Polars by reinterpret(signed=True)"
    n = sum(_bits(text) in bits for text in alone)
    return Repair("as 64-bit numbers with a sign", advice=advice), n if n >= FEWEST else 0


def _bits(text: str) -> int:
    """The bits of a number that some read with a sign; of all others 0."""
    number = int(text) if text.isascii() and text.removeprefix("-").isdecimal() else 0
    return number % (1 << 64) if not -1 < number < 1 << 63 else 0


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


def find_listed(alone: Sequence[str], known: set[str]) -> tuple[Repair, int]:
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
