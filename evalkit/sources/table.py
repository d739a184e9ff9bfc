"""A table as the next stages take it: a lazy frame with our column names."""

# Long: one table, and all that is asked of it.

import hashlib
import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from typing import NamedTuple

import numpy as np
import polars as pl

from evalkit.errors import DataError, EvalkitError
from evalkit.kernels.arrays import Ints
from evalkit.kernels.threads import usable_cores
from evalkit.sources.batches import stream_batches
from evalkit.sources.delimited import lacks_line_end
from evalkit.sources.extents import Extent, read_extents, wrong_statistics
from evalkit.sources.failures import READ_FAULTS, describe, mapped
from evalkit.sources.guess import ChosenColumns, Columns
from evalkit.sources.ids import IdPlan
from evalkit.sources.memory import Shape
from evalkit.sources.noted import NotedIds
from evalkit.sources.parquet import group_bytes
from evalkit.sources.paths import File, spell_parts
from evalkit.sources.pieces import Piece, cut_into_pieces
from evalkit.sources.row_order import RowScore
from evalkit.sources.scan import open_files
from evalkit.sources.splits import Splitter
from evalkit.sources.trec import Kind, bad_trec_line
from evalkit.sources.versions import Version

FRAME = "POLARS_IDEAL_MORSEL_SIZE"
AHEAD = "POLARS_ROW_GROUP_PREFETCH_SIZE"
AT_ONCE = "POLARS_PARQUET_DECODE_TARGET_VALUES_PER_THREAD"
_BLOCK = 1 << 20


@dataclass(frozen=True, slots=True)
class Made:
    """How a table was made of others: its recipe, and what it was made of.

    Args:
        tables: the training log, and the users.
        keeps: it holds their rows of train; `with_times`: and when they were.
    """

    recipe: str
    tables: tuple["Table", "Table"]
    keeps: bool = False
    with_times: bool = False

    def fingerprint(self) -> str | None:
        """The same for the same recipe and tables; None where one of them has none."""
        prints = [table.fingerprint() for table in self.tables]
        if None in prints:
            return None
        return hashlib.blake2b(repr((self.recipe, prints)).encode(), digest_size=16).hexdigest()


class Stored(NamedTuple):
    """What a table's frame is made of.

    Args:
        frame: as it is made.
        whole: with the table's own columns.
        names: name in `frame` -> the column of `whole` that it is, as it is.
    """

    frame: pl.LazyFrame
    whole: pl.LazyFrame
    names: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Table:
    """Truth, rankings or training log, opened and checked but not read.

    Args:
        role: `truth`, `rankings` or `train`.
        frame: columns `user_0`, `user_1`, ..., `item`, then as present `relevance` or `rank`,
            `score`, `model`, with the types of the data. Rows that `where` leaves, in the
            order of files by path, then row, or of the column that says it.
        user_names: the user columns as the config names them.
        at: where the table stands, for errors.
        is_list: `item`, and `score` if there, are lists, one row a user.
        paths: as given; empty for data in memory.
        files: what the paths meant; empty for data in memory.
        chosen: the columns that are read, and which of them were guessed.
        model: whose rows they are, where no column says it.
        seems: the format of files whose names tell none.
        shape: of a matrix, whose rows and columns are numbered from 0; None where they have ids.
        left_out: what its folders hold that is not read: no tables, and hidden names.
        is_spaced: text of its files has spaces around names and values, which are left out.
        splitters: columns that may say which rows are train, valid and test.
        made: of other tables, as a baseline is.
        used: the table's own columns that are read, and their types.
        users: what makes the user columns of them.
        row_scores: columns that look like scores, where the order of rows ranks.
        look_at_scores: looks at them; None where rows have another order.
        noted: some ids, of rows that were read with ids that are hashed.
    """

    role: str
    frame: pl.LazyFrame
    user_names: tuple[str, ...]
    at: str
    is_list: bool = False
    paths: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    chosen: ChosenColumns = field(default_factory=lambda: ChosenColumns({}))
    model: str | None = None
    seems: str = ""
    is_spaced: bool = False
    shape: Shape = (None, None)
    left_out: tuple[str, ...] = ()
    splitters: tuple[Splitter, ...] = ()
    made: Made | None = None
    used: Mapping[str, pl.DataType] = field(default_factory=dict, repr=False)
    users: tuple[pl.Expr, ...] = field(default=(), repr=False, compare=False)
    _parts: tuple[File, ...] = field(default=(), repr=False)
    _version: Version | None = field(default=None, repr=False)  # of a catalog's table
    _kind: Kind = field(default="qrels", repr=False)
    _n_rows: int | None = field(default=None, repr=False)
    row_scores: tuple[RowScore, ...] = ()
    look_at_scores: Callable[[], tuple[RowScore, ...]] | None = field(
        default=None, repr=False, compare=False
    )
    noted: NotedIds = field(default_factory=NotedIds, repr=False, compare=False)
    _is_whole: bool = field(default=False, repr=False)  # the frame has the rows that are stored
    _stored: Stored | None = field(default=None, repr=False, compare=False)

    @property
    def columns(self) -> Columns:
        """The columns that are read: our name -> the table's, or an expression."""
        return self.chosen.columns

    @property
    def guessed(self) -> tuple[str, ...]:
        """Those of our names that nobody wrote."""
        return self.chosen.guessed

    def fingerprint(self) -> str | None:
        """Hex digest of the files, the same wherever they lie; None for memory and URLs.

        Of a Parquet file it takes the size, the footer and the partition folders: the footer
        holds schema, row counts, and place, size and statistics of every column chunk, so any
        rewrite with other rows shows, in microseconds. It does not see bytes that change
        within a data page, as a failing disk changes them, nor an edit by hand that keeps
        sizes and statistics. Of a Delta or Iceberg table it takes id and version. Every
        other file is hashed whole, and any change shows.
        """
        if self.made is not None:
            return self.made.fingerprint()
        if self._version is not None:
            return hashlib.blake2b(self._version.identity.encode(), digest_size=16).hexdigest()
        if not self._parts or any(part.remote and not part.version for part in self._parts):
            return None
        digest = hashlib.blake2b(digest_size=16)
        for part in self._parts:
            if part.version is not None:
                digest.update(part.version.identity.encode())
                continue
            with mapped(part.path, lambda error: None):
                digest.update(repr(part.partitions).encode())
                digest.update(_file_digest(part.path))
        return digest.hexdigest()

    def n_rows_hint(self) -> int | None:
        """Rows before `where`, where that is cheap: Parquet metadata, frames in memory."""
        if self._n_rows is not None:
            return self._n_rows
        if not self._parts or any(part.remote or part.format != "parquet" for part in self._parts):
            return None
        paths = [part.path for part in self._parts]
        with reading(self):
            rows = pl.scan_parquet(
                paths, glob=False, schema={}, extra_columns="ignore", hive_partitioning=False
            )
            return int(rows.select(pl.len()).collect(engine="streaming").item())

    def count_rows(self) -> int:
        """Rows after `where`, of lists their items; counted by reading where nothing else tells."""
        hint = self.n_rows_hint()
        if hint is not None and self._is_whole and not self.is_list:
            return hint
        length = pl.col("item").list.len().sum() if self.is_list else pl.len()
        with reading(self):
            return int(self.frame.select(length).collect(engine="streaming").item() or 0)

    def extents(self, key: str) -> list[Extent]:
        """Rows, least and greatest of a column of whole numbers by row groups, as footers tell.

        Empty where they do not, or where ids or this column may be null or are made by SQL.
        """
        schema = self.frame.collect_schema()
        names = {name: self.columns[name] for name in ("user", "item", key) if name in self.columns}
        if key not in names or "item" not in schema:
            return []
        plain = all(isinstance(each, str) for each in names.values())
        types = {name: schema["user_0" if name == "user" else name] for name in names}
        if not (plain and self._is_whole and self._parts and types[key].is_signed_integer()):
            return []
        if any(not (types[each].is_integer() or types[each] == pl.String)
               for each in types if each in ("user", "item")):  # fmt: skip
            return []
        return read_extents(self._parts, str(names[key]), [str(each) for each in names.values()])

    def wrong_statistics(self) -> list[DataError]:
        """Its files whose footers tell other least or greatest values than their rows have."""
        with reading(self):
            return [*wrong_statistics(self._parts, self.used)]

    def stored_bytes(self, keys: Collection[str], *, own: Collection[str] = ()) -> tuple[int, int]:
        """Unpacked bytes of columns, by our names, or its own, of all local Parquet files, and of
        the largest row group; a dictionary says a text once.
        """
        names = {*own} | {each for key in keys if isinstance(each := self.columns.get(key), str)}
        if isinstance(several := self.columns.get("user"), tuple) and "user" in keys:
            names |= set(several)
        groups = self._groups(names)
        return int(groups[:, 1].sum()), int(groups[:, 1].max(initial=0))

    def largest_group(self) -> int:
        """Rows of the largest row group of its local Parquet files, of lists their items; 0 where
        there are none."""
        return int(self._groups(self.used)[:, 0].max(initial=0))

    def most_items(self) -> int | None:
        """Items of its lists at most, where footers tell; of frames in memory as many."""
        if not (self.is_list and self._is_whole and self.n_rows_hint() is not None):
            return None
        if not self._parts:
            return self.count_rows()
        return int(self._groups(self.used)[:, 0].sum())

    def _groups(self, names: Collection[str]) -> Ints:
        """Rows and unpacked bytes of columns, of each row group of its local Parquet files."""
        groups = [np.zeros((0, 2), np.int64)]
        with suppress(OSError):  # whoever reads the rows tells of it
            local = [p.path for p in self._parts if p.format == "parquet" and not p.remote]
            groups += [group_bytes(path, names) for path in local]
        return np.concatenate(groups)

    @property
    def has_all_rows(self) -> bool:
        """Whether all rows that are stored are read, in the order in which they stand."""
        return self._is_whole

    @property
    def ranked_by(self) -> str:
        """What ranks: rank, score, the rows (as they stand, or in an order), or lists as they are;
        nothing of tables that are no rankings."""
        if self.role not in ("rankings", "log", "reference", "earlier"):
            return ""
        named = [key for key in ("rank", "score") if key in self.columns or key in self._made_by]
        return " and ".join(named) or ("lists" if self.is_list else "rows")

    @property
    def _made_by(self) -> tuple[str, ...]:
        is_made = self.made is not None or self.is_list  # of records, whose scores nobody named
        return tuple(self.frame.collect_schema()) if is_made else ()

    @property
    def is_by_row(self) -> bool:
        """Whether the order of its rows alone says how they are ranked."""
        ranked = self.role in ("rankings", "log") and not self.is_list and self.made is None
        return ranked and not {"rank", "score", "order"} & set(self.columns)

    def pieces(self, most: int) -> list[Piece]:
        """Its files, those of Parquet in pieces of about `most` rows, in the order of rows."""
        return cut_into_pieces(self._parts, self._kind, most)

    @property
    def n_text_bytes(self) -> int | None:
        """Bytes of local text files that are not compressed; None of any other table."""
        if self.is_list or not self._parts:
            return None
        if any(part.remote or not part.is_plain_text for part in self._parts):
            return None
        with suppress(OSError):
            return sum(os.path.getsize(part.path) for part in self._parts)
        return None

    def with_frame(self, frame: pl.LazyFrame, n_rows: int | None) -> "Table":
        """The same table with other rows, about `n_rows` of them, as a join makes them."""
        return replace(self, frame=frame, _n_rows=n_rows, _is_whole=False)

    def stream(
        self,
        columns: Sequence[pl.Expr],
        *,
        keys: Mapping[str, IdPlan] | None = None,
        most: int,
        skip: int = 0,
        side_by_side: bool = False,
        two_ahead: bool = False,
    ) -> Iterator[pl.DataFrame]:
        """The columns in frames of `most` rows at most, as they stand in the log.

        The frames as they come are one chunk each; asking Polars for a size would copy them
        together.

        Args:
            keys: ids that come with their keys, of these names; hashes of texts are made here.
            skip: rows at the beginning that are not read.
            side_by_side: decode as many row groups together as there are cores, where little else
                is done with them; otherwise about one is decoded while others work.
            two_ahead: decode two even on two cores, so that none waits between two row groups.
        """
        hashed = {name: plan for name, plan in (keys or {}).items() if plan.is_text}
        ids = [
            plan.canonical() if name in hashed else plan.select(name)
            for name, plan in (keys or {}).items()
        ]
        columns = [*chain.from_iterable(ids), *columns]  # in the order of most files, as it is read
        as_stored = None if hashed else self._as_stored(columns)  # of texts more would wait so
        lazy, names = as_stored or (self.frame.select(columns), None)
        lazy = lazy.slice(skip) if skip else lazy
        is_local = not any(part.remote for part in self._parts)
        cores = usable_cores()
        ahead = cores if side_by_side else max(min(1 + two_ahead, cores), cores // 2)
        with _polars_reading(max(1, most * 2 // 3), ahead) if is_local else nullcontext():
            n_rows = self.n_rows_hint() if self._is_whole else None
            frames = stream_batches(lazy, None if n_rows is None else max(0, n_rows - skip))
            first = next(frames, None)  # by now all has been planned
        if first is not None:
            for rows in _sized(chain([first], frames), most):
                if names is not None:
                    rows.columns = names
                for name, plan in hashed.items():
                    rows.insert_column(0, plan.keys_of(rows[plan.columns[0]]).alias(name))
                self.noted.note(rows, skip)
                skip += rows.height
                yield rows

    def _as_stored(self, columns: Sequence[pl.Expr]) -> tuple[pl.LazyFrame, list[str]] | None:
        """The columns as they are stored, and the names they get, if nothing more is asked for.

        Polars keeps more row groups waiting where it has anything to do with them, were it to give
        a column a name or the type that it has: 100 to 500 MiB.
        """
        stored = self._stored
        if stored is None or stored.frame is not self.frame:
            return None
        schema, names = stored.whole.collect_schema(), dict[str, str]()
        for column in columns:
            ours, *others = column.meta.root_names() or [""]
            name, bare = stored.names.get(ours, ""), column.meta.undo_aliases()
            if others or not name or name in names:
                return None
            casts = (pl.col(ours).cast(schema[name], strict=strict) for strict in (True, False))
            if not any(bare.meta.eq(each) for each in (pl.col(ours), *casts)):
                return None
            names[name] = column.meta.output_name()
        return stored.whole.select(list(names)), list(names.values())


def _sized(frames: Iterator[pl.DataFrame], most: int) -> Iterator[pl.DataFrame]:
    """The same rows in frames of `most` rows at most; small frames are joined."""
    small: list[pl.DataFrame] = []
    n_small = 0
    for frame in frames:
        if n_small + frame.height < most // 4:
            small.append(frame)
            n_small += frame.height
            continue
        if n_small:
            frame = pl.concat([*small, frame])
            small, n_small = [], 0
        yield from frame.iter_slices(most)
    if n_small:
        yield pl.concat(small)


@contextmanager
def _polars_reading(n_rows: int, ahead: int) -> Iterator[None]:
    """How Polars reads a local disk, told while it plans; whoever sets one of these keeps it.

    Frames are of about `n_rows`: for each of them threads wait for one another. More row groups
    ahead cost memory, and time to touch it; so the columns of one are decoded side by side.
    """
    ours = {FRAME: n_rows, AHEAD: ahead, AT_ONCE: 1}
    ours = {name: value for name, value in ours.items() if name not in os.environ}
    if FRAME in ours:
        pl.Config.set_streaming_chunk_size(n_rows)
    os.environ.update((name, str(value)) for name, value in ours.items())
    try:
        yield
    finally:
        for name in ours:
            os.environ.pop(name, None)
        if FRAME in ours:
            pl.Config.set_streaming_chunk_size(None)


def _file_digest(path: str) -> bytes:
    with open(path, "rb") as file:
        size = file.seek(0, os.SEEK_END)
        if size >= 12:
            file.seek(size - 8)
            tail = file.read(8)
            n_footer = int.from_bytes(tail[:4], "little")
            if tail[4:] in (b"PAR1", b"PARE") and n_footer <= size - 12:
                file.seek(size - 8 - n_footer)
                footer = file.read(n_footer)
                return hashlib.blake2b(footer + size.to_bytes(8, "little"), digest_size=32).digest()
        file.seek(0)
        digest = hashlib.blake2b(digest_size=32)
        while block := file.read(_BLOCK):
            digest.update(block)
        return digest.digest()


def spell_guesses(tables: Sequence[Table]) -> list[str]:
    """What was guessed of tables, a line for those of which it is the same."""
    titles: dict[str, list[str]] = {}
    for table in tables:
        columns = (f"{key} = {_spell(table.columns[key])}" for key in table.guessed)
        told = f"columns are guessed: {', '.join(columns)}" if table.guessed else ""
        if told and table.chosen.because:
            told += f" (no rank: {table.chosen.because})"
        if told and table.is_by_row:
            told += "; ranks are the order of the rows" + _as_scores_say(table)
        told += table.chosen.spell_unread(table.role, table.used) if told else ""
        if table.is_spaced:
            spaced = "spaces around names and values are left out, as the header has them"
            told = "; ".join(filter(None, [told, spaced]))
        if told and table.role == "rankings":
            told = "; ".join(filter(None, [told, spell_parts(table._parts, table.used)]))
        if table.seems:
            told = "; ".join(filter(None, [f"lines look like {table.seems.upper()}", told]))
        if told:
            titles.setdefault(told, []).append(table.model or table.role)
    for table in tables:
        for part in filter(lacks_line_end, table._parts):
            told = f"the last line of {part.path} has no end: is the file whole?"
            titles.setdefault(told, []).append(table.model or table.role)
    return [f"{', '.join(dict.fromkeys(names))}: {told}" for told, names in titles.items()]


def _as_scores_say(table: Table) -> str:
    """`, as 'est' says, which is not read`."""
    names = [repr(each.name) for each in table.row_scores if each.verdict == "agrees"]
    verb = "say" if len(names) > 1 else "says"
    return f", as {', '.join(names)} {verb}" if names else ""


def _spell(column: str | tuple[str, ...]) -> str:
    return column if isinstance(column, str) else ", ".join(column)


@contextmanager
def reading(table: Table | str) -> Iterator[None]:
    """Where a table's frame is collected: faults of the reader become evalkit's errors.

    Given the table itself, the error names the file among many, and the line of a TREC file.

    Raises:
        DataError: a file is damaged, cut short or not of its format [unreadable-file], gone
            [path-not-found], or has a value that an SQL cast refuses [bad-cast]; a TREC line
            lacks fields [bad-line] or its number is none [not-a-number].
        BusyError: a store does not answer [store-unreachable].
        MachineError: the disk is full, or too many files are open [machine-limit].
    """
    if isinstance(table, str):
        with mapped(table, lambda error: None):
            yield
    else:
        with mapped(table.at, partial(_diagnose, table)):
            yield


def _diagnose(table: Table, error: BaseException) -> EvalkitError | None:
    """Looks for the file that cannot be read; None when each can."""
    is_cast = isinstance(error, pl.exceptions.InvalidOperationError)
    if is_cast and not any(part.format == "trec" for part in table._parts):
        return None
    for part in table._parts:
        if part.remote:
            continue
        try:
            if part.format == "trec":
                found = bad_trec_line(part.path, table._kind)
                if found is not None:
                    return _bad_line(part.path, *found)
            elif len(table._parts) > 1:
                _read_through(part, table)
        except READ_FAULTS as fault:
            return describe(fault, part.path)
    return None


def _bad_line(path: str, line: int, fault: str) -> DataError:
    code = "bad-line" if "field" in fault else "not-a-number"
    form = "topic Q0 document rank similarity tag; qrels: topic iteration document relevance"
    hint = f"a run has lines of {form}"
    if "space" in fault:
        hint = "part the fields by tabs, between which ids may hold spaces"
    return DataError(fault, code=code, at=f"{path}:{line}", hint=hint)


def _read_through(part: File, table: Table) -> None:
    scan = open_files([part], table._kind)
    names = [name for name in table.used if name in scan.names]
    for _ in stream_batches(scan.frame(dict.fromkeys(names, "any"))):
        pass
