"""Which column of a table is its user, item, rank and so on: one guess for every entry point."""

import json
import os
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Literal

import polars as pl
from pydantic import BaseModel

from evalkit.config import EntryPoint
from evalkit.errors import DataError, EvalkitError, raise_all
from evalkit.sources.shell import argument, writing

Order = Literal["rank", "score", "both"]
Columns = Mapping[str, str | tuple[str, ...]]

# One group a line, best first; letters and digits only, lower case.
_GUESSES: dict[str, tuple[str, ...]] = {
    "user": (
        "user userid users useridx uid",
        "visitor visitorid customer customerid account accountid member memberid person personid "
        "profileid reviewerid",
        "session sessionid",
        "query queryid qid topic topicid",
        "u",
    ),
    "item": (
        "item itemid items itemids itemidx iid",
        "recommendations recommendeditems recommended recs",
        "movie movieid product productid sku asin article articleid track trackid song songid "
        "video videoid book bookid news newsid business businessid doc docid docno document "
        "documentid content contentid",
        "i",
    ),
    "rank": (
        "rank ranks ranking",
        "position pos",
        "itemrank listrank rankposition listposition positioninlist posinlist",
    ),
    "score": (
        "score scores",
        "prediction predictions pred predictedscore predictedrating",
        "similarity probability prob logit",
        "modelscore itemscore rankingscore predscore finalscore",
    ),
    "relevance": ("relevance rel", "rating ratings", "label labels grade stars"),
    "label": ("label labels", "relevance rel", "rating ratings clicked click", "target targets"),
    "model": ("model modelname modelid",),
    "rating": ("rating ratings stars", "relevance rel"),
    "prediction": (
        "prediction predictions pred predicted predictedrating ratinghat",
        "score scores estimate est",
    ),
    "session": ("session sessionid",),
    "genres": ("genres genre", "categories category tags topics"),
    "vector": ("vector vectors embedding embeddings",),
    "published": (
        "published publishedat publishedon publicationdate publishdate",
        "released releasedat releasedate date created createdat",
    ),
    "unit": (
        "unit unitid user userid uid",
        "visitor visitorid customer customerid account accountid member memberid device deviceid",
        "session sessionid",
    ),
    "variant": (
        "variant variantid variantname arm",
        "group experimentgroup bucket treatment treatmentgroup branch variation variationid",
    ),
    "kind": ("kind", "event eventtype eventname eventkind", "type action name"),
    "value": ("value", "amount revenue price eventvalue", "duration"),
    "weight": ("weight weights sampleweight",),
    "reward": ("reward rewards", "click clicks clicked"),
    "propensity": (
        "propensity propensities propensityscore pscore",
        "actionprob actionprobability loggingprob loggingprobability",
        "probability prob p",
    ),
    "time": (
        "timestamp time ts datetime date",
        "eventtime eventtimestamp createdat created ratedat clickedat unixtime day",
        "exposedat exposuretime occurredat happenedat",
        "firstseen firstseenat firstexposure assignedat assignmenttime enrolledat startedat",
    ),
}
ROLE_KEYS = {
    "truth": ("user", "item", "relevance"),
    "rankings": ("user", "item", "rank", "score", "model"),
    "train": ("user", "item"),
    "items": ("item",),
    "users": ("user",),
    "log": ("user", "item", "label", "rank", "score", "model"),
    "ratings": ("user", "rating", "prediction", "model"),
    "predictions": ("user", "item", "prediction", "model"),
    "labels": ("user", "score", "label", "model"),
    "segments": ("user",),
    "split": ("user", "item", "time", "relevance"),
}
_NUMBERED = re.compile(  # what names of ids end in, as articleNo or customer_key
    r"[\W_](?i:no|nr|number|code|key|uuid|guid|hash)$|(?<=[a-z])(?:No|Nr|Number|Code|Key|Uuid|UUID)$"
)
_TYPE_OF_RECBOLE = re.compile(r":(token|float)$")  # as in user_id:token, and no list of them
_SEPARATOR = r"[,;\t|]"
MOST_ABOVE = 20  # lines of a text file that may stand above its header
OF_ITEMS = ("genres", "vector", "published")  # looked for where a metric needs them
_OPTIONAL_KEYS = ("relevance", "rank", "score", "model", "time", *OF_ITEMS)
_ONLY_NAMED = {
    "labels": ("weight",),
    "logged": ("user",),
    "rankings": ("day",),
}  # read where they are named, and told where they are not
_LOOKS = {  # words of names that are not guessed, and told where nothing is read
    ("truth", "relevance"): frozenset(
        "rating ratings rate stars score label target click clicked clicks like liked overall "
        "relevance grade purchased feedback response reward weight plays playcount".split()
    ),
    ("rankings", "model"): frozenset("algorithm algo recommender method".split()),
    ("rankings", "day"): frozenset("dt ds day date".split()),
}


@dataclass(frozen=True, slots=True)
class Guessing:
    """How columns that nobody named are found.

    Args:
        entry_point: who asks. A config's `columns` are all that is read; what a command or Python
            names replaces the guess of that name alone.
        order: which of a rank and a score is read where both are guessed.
        because: why the score is read, where it is.
        unnamed: models whose names a column gives instead, where there is one.
        section: of the table, as a config spells it, for hints.
        own_score: a column that is the score where no other is, as the profile has it.
        blank: what stands for a column that no name suggests; empty: it is an error.
    """

    entry_point: EntryPoint = "file"
    order: Order = "rank"
    because: str = ""
    unnamed: frozenset[str] = frozenset()
    section: str = ""
    blank: str = ""
    own_score: str = ""


BY_CONFIG = Guessing()


@dataclass(frozen=True, slots=True)
class ChosenColumns:
    """The columns that are read of a table.

    Args:
        columns: our name -> a column or an SQL expression; several columns of the user.
        guessed: those of our names that nobody wrote.
        unread: our name -> a column that looks like it, and is not read.
        because: why a score is read and no rank, where both look like it.
        looks_otherwise: it looks like rankings and is the truth, or the other way round.
    """

    columns: Columns
    guessed: tuple[str, ...] = ()
    unread: Mapping[str, str] = field(default_factory=dict)
    because: str = ""
    looks_otherwise: bool = False

    def with_defaults(self, **columns: str) -> "ChosenColumns":
        """Also these columns, where nothing is read in their place."""
        return replace(self, columns={**columns, **self.columns})

    def spell_unread(self, role: str, used: Collection[str]) -> str:
        """What it means that a column which looks like a relevance, model or day is not read."""
        if role == "truth" and "relevance" in self.unread:
            return f"; every row is relevant, {self.unread['relevance']!r} is not read"
        if role == "rankings" and "model" in self.unread:
            return f"; all rows are of one model, {self.unread['model']!r} is not read"
        if role == "rankings" and "day" in self.unread and self.unread["day"] not in used:
            return f"; rows of any day are one list, {self.unread['day']!r} is not read"
        return ""


# a column of that very name is what it says, also where another key is given it too
_NEVER_MISSING = ("user", "item", "rating", "score", "label")


def choose_columns(
    role: str,
    written: BaseModel | None,
    names: Sequence[str],
    guessing: Guessing,
    *,
    keys: Sequence[str] | None = None,
    has_model: bool = False,
    at: str = "",
) -> ChosenColumns:
    """The columns to read of a table that has the columns `names`.

    Args:
        written: what a config or a caller wrote; None: nothing, everything is guessed.
        keys: our names that the table may have, by default those of its role.
        has_model: its model has a name already, which no column gives.

    Raises:
        DataError: as `guess_columns`.
    """
    keys = ROLE_KEYS[role] if keys is None else keys
    named: dict[str, str | tuple[str, ...]] = {}
    if written is not None:
        is_law = guessing.entry_point == "file"
        for key in type(written).model_fields:
            value = getattr(written, key)
            if value not in (None, ()) and (is_law or key in written.model_fields_set):
                named[key] = value[0] if isinstance(value, tuple) and len(value) == 1 else value
        if is_law:
            return ChosenColumns(named, unread=_unread(role, keys, named, names))
    used = _columns_of(named)
    asked = [key for key in keys if key not in named and not (key == "model" and has_model)]
    itself = [key for key in asked if key in _NEVER_MISSING]
    guessed = guess_columns(
        [name for name in names if name not in used or name in itself],
        role,
        keys=asked,
        at=at,
        guessing=guessing,
    )
    if role == "rankings" and "score" in asked and guessing.own_score in names:
        guessed.setdefault("score", guessing.own_score)
    written_sql = " ".join(used)
    for key in ("rank", "score", "relevance"):  # what SQL makes ids of is no number
        if re.search(rf"\b{re.escape(guessed.get(key, chr(0)))}\b", written_sql):
            del guessed[key]
    because = ""
    if "rank" in named or "score" in named:
        guessed = {key: each for key, each in guessed.items() if key not in ("rank", "score")}
    elif "rank" in guessed and "score" in guessed and guessing.order != "both":
        left, because = ("rank", guessing.because) if guessing.order == "score" else ("score", "")
        del guessed[left]
    columns = {key: each for key in (*keys, *named) if (each := named.get(key, guessed.get(key)))}
    other = {"truth": "rank", "rankings": "relevance"}.get(role)
    has_own = bool(columns.keys() & {"relevance", "rank", "score"})
    looks_otherwise = other is not None and not has_own and bool(_guess(other, names))
    unread = _unread(role, keys, columns, names)
    return ChosenColumns(columns, tuple(guessed), unread, because, looks_otherwise)


def choose_users(
    written: Sequence[str] | None, of_truth: Sequence[str], names: Sequence[str]
) -> ChosenColumns:
    """The user columns of a table of users: as written, as in the truth, or as the names suggest.

    Args:
        of_truth: the user columns of the truth, which a table of users mostly has too.
    """
    users = tuple(of_truth if written is None else written)
    if written is None and len(users) == 1 and users[0] not in names:
        guessed = best_guess("user", names)
        if guessed is not None and users[0].isidentifier():
            return ChosenColumns({"user": guessed}, ("user",))
    return ChosenColumns({"user": users[0] if len(users) == 1 else users})


def _unread(
    role: str, keys: Sequence[str], columns: Columns, names: Sequence[str]
) -> dict[str, str]:
    """Columns that look like what is not read, of names that can be left out."""
    used = _columns_of(columns)
    others = [name for name in names if name not in used]
    found: dict[str, str] = {}
    for key in (*keys, *_ONLY_NAMED.get(role, ())):
        if key in columns or (key == "score" and "rank" in columns):
            continue
        words = _LOOKS.get((role, key), frozenset())
        alike = _guess(key, others) or [name for name in others if words & words_of(name)]
        if alike:
            found[key] = alike[0]
    return found


def words_of(name: str) -> set[str]:
    """The words of a name, as of `user_rating`, `Book-Rating` or `isClick`; lower case."""
    return {word.lower() for word in re.findall(r"[A-Z]?[^\W\d_A-Z]+|[A-Z]+", name)}


def _columns_of(columns: Mapping[str, object]) -> set[str]:
    """Every column that is named, by whichever name."""
    return {
        name
        for each in columns.values()
        for name in ((each,) if isinstance(each, str) else each)  # type: ignore[attr-defined]
    }


def _plain(name: str) -> str:
    return re.sub(r"[\W_]", "", _TYPE_OF_RECBOLE.sub("", name)).lower()


def _guess(key: str, names: Iterable[str]) -> list[str]:
    plain = {name: _plain(name) for name in names}
    for group in _GUESSES.get(key, (key,)):
        found = [name for name, each in plain.items() if each in group.split()]
        if found:
            return found
    short = {_NUMBERED.sub("", name): name for name in plain if _NUMBERED.search(name)}
    if short and key in ("user", "item"):
        return [short[name] for name in _guess(key, short)]
    return []


def best_guess(key: str, names: Iterable[str]) -> str | None:
    """The one column that looks like `key` most; None where there is none, or several."""
    found = _guess(key, sorted(names))
    return found[0] if len(found) == 1 else None


def guess_columns(
    schema: Mapping[str, pl.DataType] | Sequence[str],
    role: str,
    *,
    keys: Sequence[str] | None = None,
    at: str = "",
    guessing: Guessing | None = None,
) -> dict[str, str]:
    """The columns that a table's names suggest: a name for each key of the role that has one.

    Args:
        keys: what to look for, by default what tables of the role have.
        guessing: who asks, for hints.

    Raises:
        DataError: no column looks like one that the role needs [missing-column], or several do
            and none more than another [ambiguous-column].
    """
    names = list(schema)
    guessed: dict[str, str] = {}
    several: dict[str, list[str]] = {}
    lacking = []
    for key in ROLE_KEYS[role] if keys is None else keys:
        found = [name for name in _guess(key, names) if name not in guessed.values()]
        if len(found) == 1:
            guessed[key] = found[0]
        elif found:
            several[key] = found
        elif key not in _OPTIONAL_KEYS or (role, key) == ("labels", "score"):
            lacking.append(key)
    listed = {}
    if role == "rankings" and "item" in lacking and (side_by_side := _in_ranks(names)):
        together = f"concat_ws('|', {', '.join(side_by_side)})"
        listed["item"] = f"string_to_array(nullif({together}, ''), '|')"  # '' is no list
    if guessing is not None and guessing.blank:
        return guessed | dict.fromkeys([*lacking, *several], guessing.blank) | listed
    wanted = {key: found[0] for key, found in several.items()}
    wanted |= dict.fromkeys(lacking, "...") | listed
    errors: list[EvalkitError] = []
    if lacking:
        message = f"no column of {role} looks like the {' or the '.join(lacking)}"
        is_one = len(names) == 1 or names[:1] == ["sep="]
        advice = _above_header(at) if names[:1] != ["sep="] else ""
        advice = advice or (_parted(names[0], at) if is_one else "")
        advice = advice or _advice(guessed, wanted, lacking, role, guessing)
        hint = f"it has {some_names(names)}; {advice}" if names else "it has no columns"
        errors.append(DataError(message, code="missing-column", at=at, hint=hint))
    for key, found in several.items():
        message = f"{role} has several columns that may be the {key}: {', '.join(found)}"
        hint = _advice(guessed, wanted, [key], role, guessing)
        errors.append(DataError(message, code="ambiguous-column", at=at, hint=hint))
    raise_all(errors)
    return guessed


def _in_ranks(names: Sequence[str]) -> list[str]:
    """Columns for the first, second, ... item of a list, as SQL has them, in their order."""
    stems: dict[str, list[tuple[int, str]]] = {}
    for name in names:
        if found := re.fullmatch(r"(.*?)[\W_]*(\d{1,4})", name):
            spelt = name if name.isidentifier() else '"' + name.replace('"', '""') + '"'
            stems.setdefault(found[1], []).append((int(found[2]), spelt))
    stems = {stem: columns for stem, columns in stems.items() if len(columns) > 1}
    alike = [stem for stem in stems if _guess("item", [stem])] or list(stems)
    return [column for _, column in sorted(stems[alike[0]])] if len(alike) == 1 else []


def _above_header(at: str) -> str:
    """The command that leaves out notes above the line that names columns; empty where none are."""
    with suppress(OSError, UnicodeDecodeError), open(at, encoding="utf-8-sig") as file:
        first = re.split(_SEPARATOR, file.readline())
        for place, line in enumerate(islice(file, MOST_ABOVE), 1):
            names = [name.strip('" \r\n') for name in re.split(_SEPARATOR, line)]
            is_note = first[0].startswith("#") or len(first) < len(names)
            if is_note and (_guess("user", names) or _guess("item", names)):
                lines = "line, which names" if place == 1 else f"{place} lines, which name"
                command = writing(f"tail -n +{place + 1} FILE", at, ".csv")
                return f"leave out the first {lines} no columns: {command}"
    return ""


def _parted(name: str, at: str) -> str:
    """The command that makes columns of text which other characters part, by its first line."""
    read = "cat FILE/*" if os.path.isdir(at) else "cat FILE"
    if name.startswith("sep="):
        command = writing("tail -n +2 FILE", at, ".csv")
        return f"leave out the first line, that names the separator: {command}"
    if "\x01" in name:
        command = writing(read + r" | tr '\001' '\t'", at, ".tsv")
        return f"put tabs between its columns: {command}"
    if re.fullmatch(r"\d+:", name):
        awk = """awk -F, 'NF == 1 { sub(":.*", ""); item = $1; next } { print item "," $0 }'"""
        command = writing(f"{read} | {awk}", at, ".csv")
        return f"put the item before each row below it: {command}"
    if re.search(r"\S \S", name) and "," not in name:
        lists = """awk '{ for (n = 2; n <= NF; n++) print $1 "\\t" $n }'"""
        tabs, pairs = (
            writing(f"{read} | {each}", at, ".tsv") for each in ("tr -s ' ' '\\t'", lists)
        )
        return f"put tabs between its columns: {tabs}; of a user and its items a line: {pairs}"
    return ""


_OPTIONS = ("user", "item", "rank", "score", "relevance", "time")  # of commands


def _advice(
    guessed: Mapping[str, str],
    wanted: Mapping[str, str],
    keys: Sequence[str],
    role: str,
    guessing: Guessing | None,
) -> str:
    """How `keys` are named at the entry point where somebody asks; a config names all columns."""
    entry_point = "options" if guessing is None else guessing.entry_point
    given = guessing.section if guessing is not None else ""
    section = given or role
    if entry_point == "file":
        both = {**guessed, **wanted}.items()
        pairs = [f"{key} = {json.dumps(name, ensure_ascii=False)}" for key, name in both]
        return f"write columns = {{ {', '.join(pairs)} }} under [{section}]"
    if entry_point == "python":
        pairs = [f'"{key}": {json.dumps(wanted[key], ensure_ascii=False)}' for key in keys]
        columns = f"{{{', '.join(pairs)}}}"
        if given.partition("[")[0] == role:  # one of several, which have names of their own
            columns = f'{{"{role}": {columns}}}'
        return f"pass columns={columns}"
    options = []
    for key in keys:
        name = "COLUMN" if wanted[key] == "..." else wanted[key]
        is_of_one = role in ("truth", "rankings") and key not in ("user", "item")
        is_option = entry_point == "options" and key in _OPTIONS
        is_option &= is_of_one or given == "--train"  # others name columns of all tables
        setting = name if is_option else f"{section}.columns.{key}={name}"
        options.append(
            f"--{key} {argument(setting)}" if is_option else f"--set {argument(setting)}"
        )
    return "write " + " ".join(options)


def some_names(names: Sequence[str], limit: int = 30) -> str:
    """The first of many names."""
    return ", ".join(names[:limit]) + (", ..." if len(names) > limit else "")
