"""Ids of any type as 64-bit keys, and the promise that two ids never share one unnoticed.

Integers, dates and timestamps are their own key. Everything else (text, binary, several columns
together) is hashed to 64 bits; `IdPlan.hashed` says so, and whoever matches hashed keys
compares the real ids of what matched (`same_ids`).
"""

# Long: ids in one place, from columns to keys, comparisons and shares.

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt
import polars as pl

from evalkit.errors import DataError, MachineError, RequestError
from evalkit.kernels import kernel
from evalkit.kernels.arrays import Flags, Int32s, Ints, Keys
from evalkit.kernels.intrinsics import folded_product, prefetch_at, word_at
from evalkit.sources.exported import export_texts

USER_KEY = "user_key"
ITEM_KEY = "item_key"
ITEM = "item"

_UNITS = ("ms", "us", "ns")  # from coarse to fine
SEEDS = range(1, 17)  # of the hash of ids; a second one is needed once in 10^5 runs of 10^7 users
SPARKS_UINT64 = pl.Decimal(20, 0)  # what Spark makes of unsigned 64-bit integers


class KeyCollisionError(Exception):
    """Two ids share one 64-bit key; the caller starts again with another seed."""


Found = TypeVar("Found")


def try_seeds(measure: Callable[[int], Found]) -> Found:
    """What is found under the first seed of hashes under which no two ids share a key.

    Raises:
        MachineError: there is none [key-collision].
    """
    for seed in SEEDS:
        with suppress(KeyCollisionError):
            return measure(seed)
    raise MachineError("ids share their keys under every seed", code="key-collision")


@dataclass(frozen=True, slots=True)
class IdPlan:
    """How the id columns of every table become one kind of 64-bit key.

    Args:
        columns: internal column names, one or more.
        dtypes: the type that every table's columns are brought to.
        hashed: keys are hashes of the ids; otherwise the ids themselves.
        unsigned: keys compare as unsigned integers (64-bit unsigned ids).
        seed: of the hash.
        by_kernel: texts of one column are hashed by `hash_texts`, not by Polars.
    """

    columns: tuple[str, ...]
    dtypes: tuple[pl.DataType, ...]
    hashed: bool
    unsigned: bool
    seed: int
    by_kernel: bool = False

    def canonical(self) -> list[pl.Expr]:
        """The id columns in the common type, under their own names."""
        return [
            pl.col(name).cast(dtype) for name, dtype in zip(self.columns, self.dtypes, strict=True)
        ]

    @property
    def is_text(self) -> bool:
        """Whether ids are texts or bytes that a kernel hashes."""
        return self.by_kernel and self.dtypes in ((pl.String(),), (pl.Binary(),))

    def key(self) -> pl.Expr:
        """The key as UInt64 or Int64 bits; null where any id column is null."""
        exprs = self.canonical()
        if not self.hashed:
            dtype = self.dtypes[0]
            if dtype.is_temporal():
                return exprs[0].to_physical().cast(pl.Int64)
            return exprs[0]
        if self.is_text:
            return exprs[0].map_batches(self.keys_of, pl.UInt64, is_elementwise=True)
        whole = exprs[0] if len(exprs) == 1 else pl.struct(exprs)
        absent = pl.any_horizontal([expr.is_null() for expr in exprs])
        return pl.when(~absent).then(hash_ids(whole, self.seed))

    def keys_of(self, texts: pl.Series) -> pl.Series:
        """The same of texts."""
        if not texts.null_count():
            return keys_of_texts(texts, self.seed)
        is_there = texts.is_not_null()
        keys = self.keys_of(texts.drop_nulls())
        places = (is_there.cum_sum() - 1).zip_with(is_there, pl.Series([None]))
        return keys.gather(places)

    def select(self, key_name: str) -> list[pl.Expr]:
        """The key, and the real ids beside it where the key alone proves nothing."""
        real = self.canonical() if self.hashed else []
        return [self.key().alias(key_name), *real]


def hash_ids(ids: pl.Expr, seed: int) -> pl.Expr:
    """64-bit hashes of ids; stable within one version of Polars, so never reported."""
    return ids.hash(seed)


def keys_of_texts(ids: pl.Series, seed: int) -> pl.Series:
    """64-bit hashes of texts, none of which is null; never reported, so that they may change."""
    texts = texts_of(ids)
    assert texts is not None
    keys = np.empty(len(ids), dtype=np.uint64)
    hash_texts(texts, seed, keys)
    return pl.Series(keys)


def plan_ids(
    what: str,
    tables: Sequence[tuple[str, str, dict[str, pl.DataType]]],
    *,
    seed: int,
    spelled: Mapping[tuple[str, str], str] = MappingProxyType({}),
    lists: Collection[tuple[str, str]] = (),
) -> IdPlan:
    """The common key of one kind of id over all tables.

    Args:
        what: "user" or "item", for messages.
        tables: for each table its role, its place for messages, and its id columns with types.
        seed: of the hash, where ids are hashed.
        spelled: role and place -> the column as it is written there, for hints.
        lists: role and place of tables whose ids stand in lists, which no cast of SQL reaches.
    Raises:
        DataError: ids of different kinds [id-kind], of a type that is no id [bad-id-type,
            float-id], or of different numbers of columns [id-columns].
    """
    first_role, _, first = tables[0]
    for role, at, columns in tables[1:]:
        if len(columns) != len(first):
            message = f"{role} has {len(columns)} {what} columns, {first_role} has {len(first)}"
            hint = f"name the same {what} columns in both, in one order"
            raise DataError(message, code="id-columns", at=at, hint=hint)
    dtypes = [
        _common_type(
            what,
            [(role, at, list(columns.values())[place]) for role, at, columns in tables],
            spelled,
            lists,
        )
        for place in range(len(first))
    ]
    names = tuple(first)
    direct = len(dtypes) == 1 and (dtypes[0] in (pl.Int64, pl.UInt64) or dtypes[0].is_temporal())
    return IdPlan(names, tuple(dtypes), not direct, dtypes[0] == pl.UInt64, seed)


def _kind(dtype: pl.DataType) -> str | None:
    if dtype.is_integer() or (isinstance(dtype, pl.Decimal) and dtype.scale == 0):
        return "integer"
    if dtype in (pl.String, pl.Categorical, pl.Enum):
        return "text"
    if dtype == pl.Binary:
        return "binary"
    if dtype == pl.Date:
        return "date"
    if isinstance(dtype, pl.Datetime):
        return "datetime" if dtype.time_zone is None else "datetime with time zone"
    return None


def _section(role: str) -> str:
    return f"[{role}]" if role.startswith("segments.") else f"[{role}.columns]"


def _common_type(
    what: str,
    columns: list[tuple[str, str, pl.DataType]],
    spelled: Mapping[tuple[str, str], str],
    lists: Collection[tuple[str, str]],
) -> pl.DataType:
    typed = [each for each in columns if each[2] != pl.Null]
    if not typed:
        return pl.Int64()
    for role, at, dtype in typed:
        if dtype.is_float():
            raise DataError(
                f"{role}.{what} is {dtype}: floats are no ids",
                code="float-id",
                at=at,
                hint=f"write {what} = {_cast_hint(spelled.get((role, at), what), pl.Int64())} "
                f"under {_section(role)}",
            )
        if _kind(dtype) is None:
            message = f"{role}.{what} is {dtype}, which cannot be an id"
            hint = "ids are integers, text, categoricals, binary, dates or timestamps"
            if isinstance(dtype, pl.Decimal):
                cast = _cast_hint(spelled.get((role, at), what), pl.Int64())
                hint = f"whole numbers are ids: write {what} = {cast} under {_section(role)}"
            raise DataError(message, code="bad-id-type", at=at, hint=hint)
    first_role, _, first = typed[0]
    for role, at, dtype in typed[1:]:
        if _kind(dtype) != _kind(first):
            message = f"{role}.{what} is {dtype}, {first_role}.{what} is {first}: no id can match"
            hint = _mend(what, (role, at, dtype), typed[0], spelled, lists)
            raise DataError(message, code="id-kind", at=at, hint=hint)
    dtypes = [dtype for _, _, dtype in typed]
    kind = _kind(first)
    if kind == "integer":
        return _common_integer(dtypes)
    if kind == "text":
        return pl.String()
    if kind == "binary":
        return pl.Binary()
    if kind == "date":
        return pl.Date()
    units = [dtype.time_unit for dtype in dtypes if isinstance(dtype, pl.Datetime)]
    zone = first.time_zone if isinstance(first, pl.Datetime) else None
    return pl.Datetime(max(units, key=_UNITS.index), zone)


def _common_integer(dtypes: list[pl.DataType]) -> pl.DataType:
    if any(dtype in (pl.Int128, pl.UInt128) or _is_wide(dtype) for dtype in dtypes):
        return pl.Int128()
    if any(dtype in (pl.UInt64, SPARKS_UINT64) for dtype in dtypes):
        # -1 and 2^64-1 are different ids, so a signed partner needs the wider type
        all_unsigned = all(
            dtype.is_unsigned_integer() or dtype == SPARKS_UINT64 for dtype in dtypes
        )
        return pl.UInt64() if all_unsigned else pl.Int128()
    return pl.Int64()


def _is_wide(dtype: pl.DataType) -> bool:
    return isinstance(dtype, pl.Decimal) and dtype.precision > 18 and dtype != SPARKS_UINT64


def _mend(
    what: str,
    one: tuple[str, str, pl.DataType],
    other: tuple[str, str, pl.DataType],
    spelled: Mapping[tuple[str, str], str],
    lists: Collection[tuple[str, str]],
) -> str:
    """How ids of two kinds become one: by a cast that SQL has, of what is not text already."""
    kinds = {_kind(one[2]), _kind(other[2])}
    if kinds == {"binary", "text"}:
        of_bytes, of_text = (one, other) if _kind(one[2]) == "binary" else (other, one)
        column, text = (spelled.get(each[:2], what) for each in (of_bytes, of_text))
        return (
            f"write the bytes of {of_bytes[0]} as text where the table is made, as in Polars "
            f'pl.col("{column}").bin.encode("hex"), and the text without dashes: '
            f"{what} = \"replace(lower({text}), '-', '')\" under {_section(of_text[0])}"
        )
    cast, to = (one, other) if (one[0], one[1]) not in lists else (other, one)
    if (
        _kind(cast[2]) == "text"
        and _kind(to[2]) == "integer"
        and _common_integer([to[2]]) != pl.Int64
    ):
        cast, to = to, cast  # no bigint holds them all
    if (cast[0], cast[1]) in lists:
        column = spelled.get(cast[:2], what)
        made = f'pl.col("{column}").cast(pl.List(pl.{to[2]}))'
        return f"write one type where the lists are made, as in Polars {made}"
    if kinds != {"integer", "text"} and _kind(cast[2]) == "text" and cast[:2] not in lists:
        cast, to = (to, cast) if (to[0], to[1]) not in lists else (cast, to)
    role, at, _ = cast
    return (
        f"give both one type, here {what} = "
        f"{_cast_hint(spelled.get((role, at), what), to[2])} under {_section(role)}"
    )


def _cast_hint(column: str, dtype: pl.DataType) -> str:
    names = {"integer": "bigint", "text": "varchar", "date": "date"}
    type_ = names.get(_kind(dtype) or "", "varchar")
    if column.isidentifier() or "(" in column:
        return f'"cast({column} as {type_})"'
    return f"'cast(\"{column}\" as {type_})'"


def ids_of_keys(plan: IdPlan, keys: Keys) -> pl.DataFrame:
    """The ids that are their own keys."""
    dtype = plan.dtypes[0]
    physical = pl.Series(plan.columns[0], keys if dtype == pl.UInt64 else keys.view(np.int64))
    if dtype == pl.Date:
        physical = physical.cast(pl.Int32)
    return pl.DataFrame([physical.cast(dtype)])


def same_ids(left: pl.DataFrame, right: pl.DataFrame) -> bool:
    """Whether two frames of id columns hold the same ids row by row."""
    pairs = zip(left.get_columns(), right.get_columns(), strict=True)
    return all(bool((one == other).fill_null(value=False).all()) for one, other in pairs)


def ids_follow_keys(ids: Sequence[pl.Series], keys: Keys) -> bool:
    """Whether neighbours with one key have one id, so that a run of a key is one of an id."""
    return all(_follows(column, keys) for column in ids)


def _follows(ids: pl.Series, keys: Keys) -> bool:
    texts = texts_of(ids)
    if texts is not None:
        return bool(compare_neighbours(keys, texts))
    is_other = (ids[1:] != ids[:-1]).to_numpy()
    return not bool((is_other & (keys[1:] == keys[:-1])).any())


class IdTexts(NamedTuple):
    """Texts as Arrow keeps them.

    Args:
        views: uint64[2 * n], 16 bytes of each: its length (4 bytes), and up to 12 bytes the text
            itself; of a longer one its first 4 bytes, the buffer that holds it, and where.
        buffers: int64[n_buffers], addresses; what they hold lives as long as the views do.
    """

    views: Keys
    buffers: Ints


def texts_of(column: pl.Series) -> IdTexts | None:
    """Texts or bytes without a copy; None of other types, and where some are null."""
    if column.dtype not in (pl.String, pl.Binary) or column.null_count():
        return None
    return _exported(column)


def filled_texts(column: pl.Series) -> IdTexts:
    """The same of any column, as text where it is something else; empty ones for nulls."""
    if column.dtype not in (pl.String, pl.Binary):
        column = column.cast(pl.String)
    if column.has_nulls():
        column = column.fill_null(b"" if column.dtype == pl.Binary else "")
    return _exported(column)


def _exported(column: pl.Series) -> IdTexts:
    array = export_texts(column)
    if not array.length:
        return IdTexts(np.empty(0, dtype=np.uint64), np.empty(0, dtype=np.int64))
    _, views, *buffers = array.buffers[: array.n_buffers - 1]  # the last one: how long they are
    interface = {"data": (views + 16 * array.offset, False), "shape": (2 * array.length,)}
    words: Keys = np.asarray(_Borrowed(array, {**interface, "typestr": "<u8", "version": 3}))
    return IdTexts(words, np.array(buffers, dtype=np.int64))


@dataclass(frozen=True, slots=True)
class _Borrowed:
    """Memory that somebody else owns, marked writable for NumPy.

    Zero-copy arrays are read-only, which is another type to numba, and would double every
    kernel's compilation. Kernels never write into what they are given as input.
    """

    owner: object
    __array_interface__: dict[str, Any]


def borrow(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """`array` itself, or a view of the one numba type that kernels are compiled for."""
    array = np.ascontiguousarray(array)
    if array.flags.writeable:
        return array
    interface = array.__array_interface__
    return np.asarray(_Borrowed(array, {**interface, "data": (interface["data"][0], False)}))


def keep_alive(array: npt.NDArray[Any], what: object) -> npt.NDArray[Any]:
    """A view of `array` that something else lives as long as."""
    return np.asarray(_Borrowed((array, what), array.__array_interface__))


def as_array(series: pl.Series) -> npt.NDArray[Any]:
    """The values of a series without nulls as a C array, without a copy where possible."""
    return borrow(series.rechunk().to_numpy())


def as_keys(series: pl.Series) -> Keys:
    """uint64 bits of a key column without nulls."""
    keys: Keys = as_array(series).view(np.uint64)
    return keys


def distinct_keys(keys: Keys) -> Keys:
    """Keys in order, each once; `np.unique`, which hashes them, takes ten times as long."""
    ordered = np.sort(keys)
    is_new = np.ones(ordered.size, dtype=np.bool_)
    np.not_equal(ordered[1:], ordered[:-1], out=is_new[1:])
    return ordered if is_new.all() else ordered[is_new]


@kernel(allocates=False)
def mix(key):  # type: ignore[no-untyped-def]
    """A 64-bit permutation in which every input bit moves every output bit (splitmix64)."""
    key = np.uint64(key)
    key = (key ^ (key >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    key = (key ^ (key >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return key ^ (key >> np.uint64(31))


WHOLE = 12  # bytes of a text that its view holds
WORD = 8  # bytes that are compared together
TOGETHER = 16  # texts that are on their way to the cache
ODD = 0x94D049BB133111EB  # and without pattern, so that products mix


@kernel(allocates=False)
def address_of(texts, row):  # type: ignore[no-untyped-def]
    """Where the bytes of a text lie that its view does not hold."""
    view = texts.views[2 * row + 1]
    buffer = np.int64(view & np.uint64(0xFFFFFFFF))
    return texts.buffers[buffer] + np.int64(view >> np.uint64(32))


@kernel(allocates=False)
def prefetch_text(texts, row):  # type: ignore[no-untyped-def]
    """Ask for the bytes of a text that its view does not hold, if there are any."""
    n = np.int64(texts.views[2 * row] & np.uint64(0xFFFFFFFF))
    if n > WHOLE:
        prefetch_at(address_of(texts, row))
        prefetch_at(address_of(texts, row) + n - WORD)  # often in the next line


@kernel(allocates=False)
def hash_texts(texts, seed, keys):  # type: ignore[no-untyped-def]
    """Fill uint64[n_rows] with hashes of texts; neighbours of one view are hashed once."""
    views, one = texts.views, np.uint64(1)
    begin = mix(seed)
    key = head = rest = np.uint64(0)
    for row in range(keys.size):
        at = np.uint64(row)  # of an index without a sign nobody asks whether it is negative
        head_before, rest_before = head, rest
        head, rest = views[at + at], views[at + at + one]
        if row == 0 or (head ^ head_before) | (rest ^ rest_before) != 0:
            last = np.int64(head & np.uint64(0xFFFFFFFF)) - WORD
            if last <= WHOLE - WORD:
                key = mix(folded_product(head ^ begin, np.uint64(ODD)) ^ rest)
            else:
                prefetch_text(texts, min(row + TOGETHER, keys.size - 1))
                address = address_of(texts, row)
                key = begin ^ np.uint64(last)
                for place in range(0, last, WORD):
                    # not the product alone: the highest bit would move no other one
                    key = folded_product(key ^ word_at(address + place), np.uint64(ODD))
                key = mix(key ^ word_at(address + last))
        keys[at] = key


@kernel(allocates=False)
def is_same_text(left, row, right, place):  # type: ignore[no-untyped-def]
    """Whether two texts are the same, byte for byte."""
    head = left.views[2 * row]
    if head != right.views[2 * place]:  # length, or the first bytes
        return False
    last = np.int64(head & np.uint64(0xFFFFFFFF)) - WORD
    if last <= WHOLE - WORD:
        return left.views[2 * row + 1] == right.views[2 * place + 1]
    one, other = address_of(left, row), address_of(right, place)
    if one == other:
        return True
    for at in range(0, last, WORD):
        if word_at(one + at) != word_at(other + at):
            return False
    return word_at(one + last) == word_at(other + last)


@kernel(allocates=False)
def compare_neighbours(keys, texts):  # type: ignore[no-untyped-def]
    """Whether neighbours of one key are the same texts."""
    views = texts.views
    if keys.size == 0:
        return True
    key, head, rest = keys[0], views[0], views[1]
    for row in range(1, keys.size):
        at = np.uint64(row)  # of an index without a sign nobody asks whether it is negative
        key_before, head_before, rest_before = key, head, rest
        key, head, rest = keys[at], views[at + at], views[at + at + np.uint64(1)]
        # mostly the one text in the same place
        is_other = (head ^ head_before) | (rest ^ rest_before)
        if key == key_before and is_other != 0 and not is_same_text(texts, row - 1, texts, row):
            return False
    return True


@dataclass(frozen=True, slots=True)
class PassShare:
    """The users of one pass over the logs, chosen by their hashed keys.

    Args:
        number: which, from 0.
        n_shares: how many there are.
    """

    number: int
    n_shares: int

    @property
    def is_first(self) -> bool:
        """Whether it is the first pass, with which rows that belong to no user are counted."""
        return self.number == 0

    def holds(self, frame: pl.DataFrame) -> Flags:
        """Which rows of a frame with keys are looked at in the pass."""
        held = np.empty(frame.height, dtype=np.bool_)
        mark_share(as_keys(frame[USER_KEY]), self.number, self.n_shares, held)
        return held


@dataclass(frozen=True, slots=True)
class DrawnShare:
    """Users drawn by a hash of their ids that no seed, and no version of any library, changes.

    Args:
        number: which, from 0.
        n_shares: how many there are.
        plan: of the user ids.
    """

    number: int
    n_shares: int
    plan: IdPlan

    @property
    def is_first(self) -> bool:
        """Whether it is the first share."""
        return self.number == 0

    def holds(self, frame: pl.DataFrame) -> Flags:
        """Which rows of a frame with keys, and with ids where these are hashed, belong to it."""
        held = np.empty(frame.height, dtype=np.bool_)
        mark_drawn(stable_hashes(frame, self.plan), self.number, self.n_shares, held)
        return held


def drawn_shares(frame: pl.DataFrame, plan: IdPlan, n_shares: int) -> Int32s:
    """int32[n_rows], the number of the `DrawnShare` of each row's user, from 0.

    Args:
        frame: user columns under the names of the plan; a null id counts as one of its own.
    """
    keyed = frame.select(plan.select(USER_KEY)).with_columns(pl.col(USER_KEY).fill_null(0))
    numbers = np.empty(frame.height, dtype=np.int32)
    number_drawn(stable_hashes(keyed, plan), n_shares, numbers)
    return numbers


@dataclass(frozen=True, slots=True)
class PartOfShare:
    """The users of one pass over a drawn share."""

    drawn: DrawnShare
    part: PassShare

    @property
    def is_first(self) -> bool:
        """Whether it is the first pass over the first share."""
        return self.drawn.is_first and self.part.is_first

    def holds(self, frame: pl.DataFrame) -> Flags:
        """Which rows of a frame belong to both."""
        return self.drawn.holds(frame) & self.part.holds(frame)


Share: TypeAlias = PassShare | DrawnShare | PartOfShare  # some users; each is in one of several


@kernel(allocates=False)
def share_of_pass(user, n_shares):  # type: ignore[no-untyped-def]
    """In which of several passes a user is looked at."""
    # hashed twice: tables are laid out by the first hash, and a share must fill all of one
    low = np.int64(mix(mix(user)) & np.uint64(0xFFFFFFFF))
    return (low * n_shares) >> 32


@kernel(allocates=False)
def mark_share(users, number, n_shares, held):  # type: ignore[no-untyped-def]
    """`held` becomes True for the users of one share."""
    for row in range(users.size):
        held[row] = share_of_pass(users[row], n_shares) == number


@kernel(allocates=False)
def mark_drawn(hashes, number, n_shares, held):  # type: ignore[no-untyped-def]
    """`held` becomes True where the hash belongs to one of several shares."""
    for row in range(hashes.size):
        held[row] = share_of(hashes[row], n_shares) == number


@kernel(allocates=False)
def number_drawn(hashes, n_shares, numbers):  # type: ignore[no-untyped-def]
    """`numbers` becomes the share of each hash."""
    for row in range(hashes.size):
        numbers[row] = share_of(hashes[row], n_shares)


@kernel(allocates=False)
def share_of(hash_, n_shares):  # type: ignore[no-untyped-def]
    """Which of several shares a hash belongs to."""
    # unlike those of passes and of samples: each cuts the others' users evenly
    value = mix(mix(hash_ ^ np.uint64(0x2545F4914F6CDD1D)))
    return (np.int64(value >> np.uint64(32)) * n_shares) >> 32


@dataclass(frozen=True, slots=True)
class Sample:
    """A share of all users drawn by a hash of their ids that no version of any library changes.

    Args:
        fraction: above 0, at most 1.
        plan: of the user ids.
    Raises:
        RequestError: the fraction is none [bad-sample].
    """

    fraction: float
    plan: IdPlan

    def __post_init__(self) -> None:
        if not 0 < self.fraction <= 1:
            message = f"sample is {self.fraction!r}, not above 0 and at most 1"
            hint = "sample=0.01 measures one user in a hundred"
            raise RequestError(message, code="bad-sample", hint=hint)

    def holds(self, frame: pl.DataFrame) -> Flags:
        """Which rows of a frame with keys belong to users of the sample."""
        held = np.empty(frame.height, dtype=np.bool_)
        hashes = stable_hashes(frame, self.plan)
        mark_sample(hashes, round(self.fraction * 2**32), held)
        return held


def stable_hashes(frame: pl.DataFrame, plan: IdPlan) -> Keys:
    """uint64[n_rows], hashes of user ids that no version of any library changes.

    They are of an id's value, whatever type a table gives it: of integers of any width, and of
    times in any unit.

    Args:
        frame: the key, and the id columns where ids are hashed.
    """
    if not plan.hashed:
        return hashes_of_keys(as_keys(frame[USER_KEY]), plan)
    if plan.dtypes == (pl.Int128(),):
        return as_keys((frame[plan.columns[0]] & 2**64 - 1).cast(pl.UInt64)).copy()
    hashes = np.zeros(frame.height, dtype=np.uint64)
    for name in plan.columns:
        ids = frame[name]
        if isinstance(ids.dtype, pl.Datetime):
            ids = _in_microseconds(ids.to_physical(), ids.dtype)
        hash_bytes(filled_texts(ids), hashes)
    return hashes


def hashes_of_keys(keys: Keys, plan: IdPlan) -> Keys:
    """The same of ids that are their own keys."""
    (dtype,) = plan.dtypes
    if isinstance(dtype, pl.Datetime):
        keys = as_keys(_in_microseconds(pl.Series(keys.view(np.int64)), dtype))
    return keys.copy()


def _in_microseconds(times: pl.Series, dtype: pl.Datetime) -> pl.Series:
    """Whole numbers of a unit of time in microseconds; nanoseconds that are none as they are."""
    if dtype.time_unit == "ms":
        return times * 1000
    if dtype.time_unit == "ns":
        return times.zip_with(times % 1000 != 0, times // 1000)
    return times


@kernel(allocates=False)
def hash_bytes(texts, hashes):  # type: ignore[no-untyped-def]
    """Mix the bytes of each row's text into its hash (FNV-1a, then splitmix64)."""
    for row in range(hashes.size):
        value = np.uint64(0xCBF29CE484222325) ^ mix(hashes[row] + np.uint64(1))
        head = texts.views[2 * row]
        n = np.int64(head & np.uint64(0xFFFFFFFF))
        if n <= WHOLE:
            value = fold_bytes(value, head >> np.uint64(32), min(n, WHOLE - WORD))
            value = fold_bytes(value, texts.views[2 * row + 1], n - (WHOLE - WORD))
        else:
            address = address_of(texts, row)
            for place in range(0, n, WORD):
                n_left = min(int(n - place), WORD)  # nothing behind the text is read
                word = word_at(address + place + n_left - WORD) >> np.uint64(8 * (WORD - n_left))
                value = fold_bytes(value, word, n_left)
        hashes[row] = mix(value)


@kernel(allocates=False)
def fold_bytes(value, word, n):  # type: ignore[no-untyped-def]
    """Take the lowest bytes of a word into a hash."""
    for _ in range(n):
        value = (value ^ (word & np.uint64(0xFF))) * np.uint64(0x100000001B3)
        word >>= np.uint64(8)
    return value


@kernel(allocates=False)
def mark_sample(hashes, limit, held):  # type: ignore[no-untyped-def]
    """`held` becomes True where the hash falls below `limit` of 2^32."""
    for row in range(hashes.size):
        value = mix(hashes[row] ^ np.uint64(0x5851F42D4C957F2D))
        held[row] = np.int64(value >> np.uint64(32)) < limit
