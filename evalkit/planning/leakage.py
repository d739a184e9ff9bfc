"""Truth that the models were trained on, and tables that mix the parts of a split."""

import json
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias, TypeVar

from evalkit import sources
from evalkit.config import Config, Key, spell
from evalkit.config.credentials import storing
from evalkit.errors import DataError, EvalkitError, raise_all
from evalkit.metrics import KINDS, declared
from evalkit.report import TruthCounts, Warning_
from evalkit.sources import Splitter, Table

Found = TypeVar("Found")
Known: TypeAlias = dict[int, dict[str, list[str]]]

TOLD_FROM = 0.01  # of the truth's pairs; people who come back for the same item are no fault
IS_TRAIN_FROM = 0.95  # people do not come back as often as that
FEW_OTHERS = 2  # values beside train in a column that splits; toys have more kinds than trains


@dataclass(frozen=True, slots=True)
class Leak:
    """What is to be said of truth pairs that stand in train; `refused`: the run ends with it."""

    code: str
    message: str
    hint: str
    refused: bool


def find_leak(counts: TruthCounts, config: Config) -> Leak | None:
    """What is to be said of the pairs that truth and train share; None: nothing."""
    if not counts.in_train:
        return None
    share = counts.in_train / counts.pairs
    policy = config.policies.truth_in_train
    drops = config.train is not None and config.train.drop_seen
    message = (
        f"{counts.in_train:,} of {counts.pairs:,} pairs of the truth ({share:.2%}) stand in train"
    )
    if policy != "count" and share >= IS_TRAIN_FROM:
        message += ": the models have seen the right answers"
        hint = "give the truth held-out rows, and train the rows before them"
        return Leak("truth-is-train", message, _or_count(hint, config), refused=True)
    is_told = drops or (policy != "count" and share >= TOLD_FROM)
    if not is_told:
        return None
    if drops:
        message += ", and drop_seen takes them out of the rankings: right answers that cannot hit"
    hint = "leave these rows out of the truth, or out of train"
    refused = policy == "error" and share >= TOLD_FROM
    return Leak("truth-in-train", message, _or_count(hint, config), refused)


def _or_count(hint: str, config: Config) -> str:
    counted = config.spell_policy("truth_in_train", "count")
    return f"{hint}; where users take an item again: {counted}"


# ---------------------------------------------------------------- columns that split a table


@dataclass(frozen=True, slots=True)
class Remark:
    """What may be wrong with the split of a table, and need not be."""

    code: str
    message: str
    at: str
    hint: str


def check_splits(tables: Sequence[Table], config: Config) -> list[Warning_]:
    """Refuse tables that mix the parts of a split, where the policy does not keep them.

    Returns:
        What a report says of a truth that is rows of train.
    Raises:
        DataError: a column says that rows of a table are train and others test [mixed-splits].
    """
    known: Known = {}
    if config.policies.mixed_splits == "error":
        raise_all(find_mixed(tables, config, known))
    found: list[Warning_] = []
    with storing(config.storage):
        for key, table in _keyed(tables, config):
            role = str(key[0])
            if role not in ("truth", "log"):
                continue
            spelled = {
                each: known[id(each)] if id(each) in known else _spellings(table, each)
                for each in table.splitters
            }
            remarks = [*_train_rows(role, table, spelled)]
            if list(sources.parts_of_files(table.files)) == [sources.TRAIN]:
                remarks += _file_remarks(role, table)
            found += [Warning_(each.code, each.message) for each in remarks]
    return found


def find_mixed(
    tables: Sequence[Table], config: Config, known: Known | None = None
) -> list[EvalkitError]:
    """What is wrong with the tables of a run, as columns that split them say.

    Args:
        known: takes what each column says, by the identity of its splitter.
    """
    found: list[EvalkitError] = []
    with storing(config.storage):
        for key, table in _keyed(tables, config):
            for splitter in table.splitters:
                spelled = _spellings(table, splitter)
                if known is not None:
                    known[id(splitter)] = spelled
                if _is_mixed(table, splitter, spelled):
                    found.append(_mixed(key, table, splitter, spelled, config))
    return found


def choose_rows(role: str, splitters: Sequence[Splitter], *, at: str) -> tuple[str, str] | None:
    """The `where` that a table of this role needs to be of one part, and what it takes of what.

    None where it is of one part already.
    """
    splitter, spelled = _first_that_splits(splitters, at)
    if splitter is None:
        return None
    others = ", ".join(text for texts in spelled.values() for text in texts[:3])
    return splitter.predicate(choose_parts(role, spelled)), f"{splitter.name} has {others}"


def has_train(splitters: Sequence[Splitter], *, at: str) -> bool:
    """Whether a column says which rows are train, and which are others."""
    return sources.TRAIN in _first_that_splits(splitters, at)[1]


def _first_that_splits(
    splitters: Sequence[Splitter], at: str
) -> tuple[Splitter | None, Mapping[str, Sequence[str]]]:
    """The first column that names several parts, and how it spells them."""
    for splitter in splitters:
        if splitter.kind == "split" and splitter.is_text:
            with sources.reading(at):
                spelled = splitter.spellings()
            if len(spelled) > 1:
                return splitter, spelled
    return None, {}


def choose_parts(role: str, spelled: Mapping[str, Sequence[str]]) -> list[str]:
    """The spellings of the part that a table of this role is to hold."""
    order = (
        (sources.TRAIN, "valid", "dev") if role == "train" else (*sources.HELD_OUT, sources.TRAIN)
    )
    return next((list(spelled[part]) for part in order if part in spelled), [])


def _keyed(tables: Sequence[Table], config: Config) -> Iterator[tuple[Key, Table]]:
    """The tables that must be of one part, and the keys of the config that they stand under."""
    numbers: dict[str, int] = {}
    for table in tables:
        role = table.role
        number = numbers[role] = numbers.get(role, -1) + 1
        if config.log is not None and role in ("truth", "rankings"):
            if role == "truth":
                yield ("log",), table
        elif role in ("truth", "train"):
            yield (role,), table
        elif role in KINDS:
            yield ((role, number) if declared(role).sections[role].is_listed else (role,)), table


def _spellings(table: Table, splitter: Splitter) -> dict[str, list[str]]:
    if splitter.kind != "split" or not splitter.is_text:
        return {}
    return _look(table, splitter.spellings) or {}


def _look(table: Table, act: Callable[[], Found]) -> Found | None:
    try:
        with sources.reading(table):
            return act()
    except DataError as error:
        if error.code == "schema-differs":  # of a column that nobody asked for
            return None
        raise


def _is_mixed(table: Table, splitter: Splitter, spelled: Mapping[str, Sequence[str]]) -> bool:
    if table.role == "train":  # rows of valid may have been trained on in the end
        return any(part in spelled for part in sources.NEVER_TRAIN)
    if len(spelled) < 2 or table.role != "rankings":
        return len(spelled) >= 2
    with sources.reading(table):  # lists of other users do no harm
        return splitter.mixes_lists(spelled)


def _mixed(
    key: Key, table: Table, splitter: Splitter, spelled: Mapping[str, Sequence[str]], config: Config
) -> DataError:
    values = ", ".join(repr(text) for texts in spelled.values() for text in texts[:3])
    role = str(key[0])
    what = "holds held-out rows" if role == "train" else "mixes rows of several splits"
    chosen = choose_parts(role, spelled)
    hint = _predicate_hint(key, table, splitter, chosen, config) if chosen else ""
    keep = f"to keep all rows: {config.spell_policy('mixed_splits', 'keep')}"
    return DataError(
        f"{role} {what}: column {splitter.name!r} has {values}",
        code="mixed-splits",
        at=table.at,
        hint=f"{hint}; {keep}" if hint else keep,
    )


def _predicate_hint(
    key: Key, table: Table, splitter: Splitter, chosen: Sequence[str], config: Config
) -> str:
    """What to write so that the rows with the chosen values alone are read."""
    role, where = str(key[0]), splitter.predicate(chosen)
    if config.entry_point == "python":
        return f"pass {splitter.filters('frame' if table.paths else role, chosen)}"
    if config.entry_point != "file":
        setting = f"{spell(key)}.where={where}"
        is_plain = not set(setting) & set('"$`\\!')
        return f'add --set "{setting}"' if is_plain else f"add --set {shlex.quote(setting)}"
    section = f"[{role}]" if len(key) == 1 else f"[[{role}]]"
    return f"write where = {json.dumps(where, ensure_ascii=False)} under {section}"


def split_remarks(tables: Sequence[Table], config: Config) -> list[Remark]:
    """What columns and names of files say of the split, and what may be meant as it is."""
    found: list[Remark] = []
    with storing(config.storage), sources.verifying(config.verify_pages):
        for key, table in _keyed(tables, config):
            found += _column_remarks(str(key[0]), table)
            found += _file_remarks(str(key[0]), table)
    return found


def _file_remarks(role: str, table: Table) -> Iterator[Remark]:
    parts = sources.parts_of_files(table.files)
    is_odd = len(parts) > 1 or sources.TRAIN in parts
    if role == "train":
        is_odd = any(part in parts for part in sources.NEVER_TRAIN)
    if role != "rankings" and is_odd:
        named = ", ".join(f"{file} ({part})" for part, file in parts.items())
        message = f"{role} is read from files that are named after a part of the data: {named}"
        yield Remark("split-files", message, table.at, "name the files of one part in path")


def _train_rows(
    role: str, table: Table, spelled_of: Mapping[Splitter, Mapping[str, Sequence[str]]]
) -> Iterator[Remark]:
    """Columns that say that a table which should be held out is train."""
    for splitter, spelled in spelled_of.items():
        if list(spelled) != [sources.TRAIN] or role in ("train", "rankings"):
            continue
        values = _look(table, splitter.few_values)
        if values is not None and len(values) - len(spelled[sources.TRAIN]) <= FEW_OTHERS:
            message = (
                f"{role} holds rows of {', '.join(map(repr, spelled[sources.TRAIN]))}: column "
            )
            hint = "held-out rows are the right answers; training rows were seen by the models"
            yield Remark("train-rows", f"{message}{splitter.name!r}", table.at, hint)


def _column_remarks(role: str, table: Table) -> Iterator[Remark]:
    """What the columns say: words of one part alone, or else numbered folds and flags."""
    found = {splitter: _spellings(table, splitter) for splitter in table.splitters}
    by_words = {splitter: spelled for splitter, spelled in found.items() if spelled}
    yield from _train_rows(role, table, by_words)
    for splitter in () if by_words else table.splitters:
        name = splitter.name
        if splitter.where is not None and name in splitter.where:
            continue  # somebody has thought of it
        values = _look(table, splitter.few_values)
        if values is None or len(values) < 2:
            continue
        if splitter.kind == "flag" and set(map(str.lower, values)) <= _TRUE_AND_FALSE:
            message = f"{role} has rows with and without {name!r}, which tells those of "
            hint = f"where leaves the rows of one part, unless {name} means something else"
            yield Remark("split-flag", f"{message}{sources.flag_part(name)}", table.at, hint)
        elif splitter.kind == "split" and _are_folds(values):
            message = f"{role} has rows of the folds {', '.join(values)}: column {name!r}"
            hint = "where leaves the rows of one fold, or of train those of the others"
            yield Remark("numbered-folds", message, table.at, hint)


_TRUE_AND_FALSE = {"true", "false", "0", "1", "0.0", "1.0"}


def _are_folds(values: Sequence[str]) -> bool:
    """Whether values are 0, 1, 2, ... or 1, 2, 3, ..., alone or behind one word."""
    words = {text.rstrip("0123456789.") for text in values}
    numbers = [text[len(word) :].removesuffix(".0") for text in values for word in words]
    if len(words) != 1 or not all(map(str.isdigit, numbers)):
        return False
    whole = sorted(map(int, numbers))
    return whole in (list(range(len(whole))), list(range(1, len(whole) + 1)))
