"""Columns that say which rows are train, valid and test, and what the rows of a table hold.

A column is looked at for its name; what it is, its values say: words such as train and test.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import polars as pl

from evalkit.sources.batches import stream_batches

WORDS: Mapping[str, str] = {
    "train": "train training trn trained learn learning",
    "valid": "valid validation validate val",
    "dev": "dev devel develop development",
    "test": "test testing tst tested",
    "holdout": "holdout heldout",
    "eval": "eval evaluation evaluate",
}
PARTS = {word: part for part, words in WORDS.items() for word in words.split()}
HELD_OUT = ("test", "holdout", "eval", "valid", "dev")  # the best truth first
NEVER_TRAIN = ("test", "holdout", "eval")
TRAIN = "train"

_NAMES = frozenset(  # of columns, as they are
    "split splits splitname datasplit datasetsplit evalsplit part parts partition fold folds "
    "subset set setname phase".split()
)
_NAME_WORDS = frozenset("split splits fold folds subset partition".split())  # within a name
_FLAG = rf"(?:is|in|for)?({'|'.join(PARTS)})(?:set|flag|mask|row|rows)?"
_SUFFIX = r"(?<=...)(?:sub)?(?:set|split|data|part|fold|rows?|examples?|samples?)$"
_TEXT = (pl.String, pl.Categorical, pl.Enum)
_KNOWN_START = r"(?i)^[\W\d_]*(?:train|trn|learn|val|dev|test|tst|hold|held|eval)"
LONGEST = 40  # characters of such a word with what stands around it
MOST_SPELLINGS = 20  # of one part, beyond which a predicate would not name them all
FEW = 25  # values of a column of numbered folds


def part_of(text: str) -> str | None:
    """The part of the data that a word means: `Test_set` is test; None for other words."""
    plain = re.sub(r"[\W\d_]+", "", text).lower()
    return PARTS.get(plain) or PARTS.get(re.sub(_SUFFIX, "", plain))


@dataclass(frozen=True, slots=True)
class Splitter:
    """A column of a table whose name says that it splits the rows.

    Args:
        name: as the table has it.
        kind: split, whose values may be words or numbers; flag, true for the rows of one part.
        is_text: whether the values may be words.
        where: the predicate that the rows have passed.
        open: a frame of these rows: `split`, text, and the columns of their users and model.
    """

    name: str
    kind: str
    is_text: bool
    where: str | None
    open: Callable[[], pl.LazyFrame]

    def spellings(self) -> dict[str, list[str]]:
        """How the rows spell the parts that they belong to, in the order of `WORDS`."""
        known = pl.col("split").str.len_chars().le(LONGEST)
        known &= pl.col("split").str.contains(_KNOWN_START)
        found: dict[str, set[str]] = {}
        for values in self._values(known):
            for text in values:
                part = part_of(text)
                if part is not None and len(found.setdefault(part, set())) <= MOST_SPELLINGS:
                    found[part].add(text)
        return {part: sorted(found[part]) for part in WORDS if part in found}

    def few_values(self) -> list[str] | None:
        """The values of the rows; None where they are many."""
        found: set[str] = set()
        for values in self._values(pl.col("split").is_not_null()):
            found.update(values)
            if len(found) > FEW:
                return None
        return sorted(found)

    def mixes_lists(self, spelled: Mapping[str, Sequence[str]]) -> bool:
        """Whether one user's rows of one model belong to several parts."""
        parts = {text: part for part, texts in spelled.items() for text in texts}
        frame = self.open()
        by = [name for name in frame.collect_schema() if name != "split"]
        part = pl.col("split").replace_strict(parts, default=None, return_dtype=pl.String)
        lists = frame.with_columns(part.alias("part")).drop_nulls("part")
        counts = lists.group_by(by).agg(pl.col("part").n_unique())
        return bool(counts.select((pl.col("part") > 1).any()).collect(engine="streaming").item())

    def predicate(self, texts: Sequence[str]) -> str:
        """`where` that leaves the rows with one of these values, of those that it left before."""
        test = sql_of_values(self.name, texts)
        return test if self.where is None else f"({self.where}) and {test}"

    def filters(self, table: str, texts: Sequence[str]) -> str:
        """The same in the words of Polars and pandas, over a table in memory."""
        name, listed = json.dumps(self.name, ensure_ascii=False), list(texts)
        if len(listed) == 1:
            test = f" == {json.dumps(listed[0], ensure_ascii=False)}"
            return f"{table}.filter(pl.col({name}){test}), in pandas {table}[{table}[{name}]{test}]"
        spelled = json.dumps(listed, ensure_ascii=False)
        return (
            f"{table}.filter(pl.col({name}).is_in({spelled})), "
            f"in pandas {table}[{table}[{name}].isin({spelled})]"
        )

    def _values(self, chosen: pl.Expr) -> Iterator[list[str]]:
        frame = self.open().select("split").filter(chosen)
        for batch in stream_batches(frame):
            yield batch["split"].unique().to_list()


def sql_of_values(name: str, texts: Sequence[str]) -> str:
    """The rows of which a column has one of these values."""
    plain = re.fullmatch(r"[^\W\d]\w*", name)
    name = name if plain else '"' + name.replace('"', '""') + '"'
    quoted = ["'" + text.replace("'", "''") + "'" for text in texts]
    return f"{name} = {quoted[0]}" if len(quoted) == 1 else f"{name} in ({', '.join(quoted)})"


def find_splitters(
    schema: Mapping[str, pl.DataType],
    used: Sequence[str],
    where: str | None,
    open_column: Callable[[str], pl.LazyFrame],
) -> tuple[Splitter, ...]:
    """The columns that may split a table, without those that are `used` as something else."""
    found = []
    for name, dtype in schema.items():
        plain = re.sub(r"[\W\d_]+", "", name).lower()
        is_number = dtype.is_numeric() or dtype == pl.Boolean
        is_text = dtype.base_type() in _TEXT
        if name in used or not (is_text or is_number):
            continue
        words = {word.lower() for word in re.findall(r"[A-Z]?[^\W\d_A-Z]+|[A-Z]+", name)}
        is_split = plain in _NAMES or bool(words & _NAME_WORDS)
        kind = "split" if is_split else "flag" if re.fullmatch(_FLAG, plain) else None
        if kind is not None:
            opened = _opening(open_column, name)
            found.append(Splitter(name, kind, is_text, where, opened))
    return tuple(found)


def _opening(open_column: Callable[[str], pl.LazyFrame], name: str) -> Callable[[], pl.LazyFrame]:
    return lambda: open_column(name)


def flag_part(name: str) -> str | None:
    """The part of which a column of true and false tells: `is_train` is train."""
    found = re.fullmatch(_FLAG, re.sub(r"[\W\d_]+", "", name).lower())
    return None if found is None else PARTS[found[1]]


def parts_of_files(files: Sequence[str]) -> dict[str, str]:
    """The parts that files are named after, each with the first such file.

    What all paths begin with says nothing, unless there is only one.
    """
    pieces = [re.split(r"[/\\]", file) for file in files]
    shared = 0
    if len(pieces) > 1:
        while all(len(each) > shared + 1 and each[shared] == pieces[0][shared] for each in pieces):
            shared += 1
    found: dict[str, str] = {}
    for file, piece in zip(files, pieces, strict=True):
        own = piece[shared:] if len(pieces) > 1 else piece[-1:]
        for step in reversed([each for each in own if "=" not in each]):  # those are columns
            parts = [part for word in re.split(r"[\W\d_]+", step) if (part := part_of(word))]
            if parts:
                found.setdefault(parts[0], file)
                break
    return found
