"""Invented logs of any size: truth and rankings that look like a shop's, from a seed.

Every row is a hash of seed, user and rank, so it does not depend on threads or on how the
work is cut, and logs far larger than memory are written in a stream.
"""

# Long: a tool of its own, beside the street.

import shutil
import tempfile
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from math import gcd
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias, get_args

import numpy as np
import numpy.typing as npt

from evalkit.errors import EvalkitError, RequestError, raise_all

if TYPE_CHECKING:
    import pyarrow as pa

Ids = Literal["int", "string"]
Order = Literal["grouped", "scattered"]
Form = Literal["rank", "score", "both", "list"]

Integers: TypeAlias = npt.NDArray[np.int64]
Hashes: TypeAlias = npt.NDArray[np.uint64]
Bytes: TypeAlias = npt.NDArray[np.bytes_]

ROWS_PER_GROUP = 1 << 20  # of a Parquet row group
ROWS_PER_BLOCK = 1 << 16  # arrays of so many rows stay in the cache of a core
DEEPEST = 1 << 22  # strictly falling scores must fit the 24 bits of a float32
LARGEST_CATALOGUE = 1 << 31
HITS_PER_RANK = 0.05  # one ranked row in twenty is a relevant item
FOUND_BY_OTHERS = 0.1  # share of relevant items among what only weaker models show
REPLACED = 0.2  # share of the rows of one model that the next weaker one replaces
POPULARITY_SHIFT = 50.0  # Zipf-Mandelbrot: an item's share falls as 1 / (shift + place)
CUTOFFS = (1, 5, 10, 20, 50)

GOLDEN = np.uint64(0x9E3779B97F4A7C15)


def generate(
    out: Path,
    *,
    users: int,
    depth: int = 50,
    items: int = 100_000,
    relevant: float = 7.6,
    models: int = 1,
    ids: Ids = "int",
    order: Order = "grouped",
    files: int = 1,
    form: Form = "both",
    seed: int = 1,
) -> dict[str, Path]:
    """Paths of "config", "truth" and of every model's rankings, all below `out`.

    The truth has user, item and relevance (1 to 5); an item's popularity follows Zipf and
    the number of a user's relevant items has a long tail. The first model is the best: about
    one of its ranked rows in twenty is relevant, most of these near the top. Every ranking
    holds `depth` different items.

    Args:
        out: a folder that does not exist yet, or is empty; it appears whole or not at all.
        depth: items in every user's ranking.
        items: size of the catalogue, at least twice the depth.
        relevant: mean number of relevant items of a user, at least 1.
        ids: int64, or text of one length that orders like the numbers.
        order: all rows of a user side by side, or rows in pseudo-random order (those of the
            truth within windows of about a million).
        files: Parquet files of the truth and of each model.
        form: which columns say the order; "list" has one row a user, with items and scores.
    Raises:
        RequestError: a number outside its limits [bad-synth-option], or a folder that holds
            something [folder-not-empty].
    """
    limits = {
        "users": (users, 1, 10**9),
        "depth": (depth, 1, DEEPEST),
        "items": (items, 2 * depth, LARGEST_CATALOGUE),
        "relevant": (relevant, 1, 10_000),
        "models": (models, 1, 100),
        "files": (files, 1, min(max(users, 1), 10_000)),
    }
    choices = {
        "ids": (ids, get_args(Ids)),
        "order": (order, get_args(Order)),
        "form": (form, get_args(Form)),
    }
    _check(out, limits, choices)
    log = _Log.of(users, depth, items, relevant, models, seed)
    names = [f"model-{model + 1}" for model in range(models)]
    out.parent.mkdir(parents=True, exist_ok=True)
    fresh = Path(tempfile.mkdtemp(prefix=f".{out.name}-", dir=out.parent))
    try:
        with ThreadPoolExecutor(2) as pool:
            _write_truth(log, fresh / "truth", ids, order, files, pool)
            for model, name in enumerate(names):
                folder = fresh / "rankings" / name
                _write_rankings(log, model, folder, ids, order, files, form, pool)
        (fresh / "config.toml").write_text(_render_config(out.name, names, depth, form))
        fresh.chmod(0o755)
        fresh.replace(out)
    except BaseException:
        shutil.rmtree(fresh, ignore_errors=True)
        raise
    rankings = {name: out / "rankings" / name for name in names}
    return {"config": out / "config.toml", "truth": out / "truth", **rankings}


def _check(
    out: Path,
    limits: Mapping[str, tuple[float, float, float]],
    choices: Mapping[str, tuple[str, tuple[str, ...]]],
) -> None:
    problems: list[EvalkitError] = []
    for name, (value, low, high) in limits.items():
        if not low <= value <= high:
            message = f"{name} is {value!r}, not between {low:,} and {high:,}"
            problems.append(RequestError(message, code="bad-synth-option"))
    for name, (choice, known) in choices.items():
        if choice not in known:
            message = f"{name} is {choice!r}, not one of {', '.join(known)}"
            problems.append(RequestError(message, code="bad-synth-option"))
    if out.exists() and not (out.is_dir() and not any(out.iterdir())):
        problems.append(
            RequestError(
                "the folder for the logs is not empty",
                code="folder-not-empty",
                at=str(out),
                hint="name another folder, or remove this one",
            )
        )
    raise_all(problems)


def _mix(x: Hashes) -> Hashes:
    """The finalizer of splitmix64 (Steele, Lea and Flood 2014, OOPSLA)."""
    x = x ^ (x >> np.uint64(30))
    x *= np.uint64(0xBF58476D1CE4E5B9)
    x ^= x >> np.uint64(27)
    x *= np.uint64(0x94D049BB133111EB)
    x ^= x >> np.uint64(31)
    return x


def _hash(keys: Hashes, numbers: Integers) -> Hashes:
    """Hashes of pairs: the `numbers`-th value of the stream that each key starts."""
    return _mix(keys + (numbers.astype(np.uint64) + np.uint64(1)) * GOLDEN)


def _below(hashes: Hashes, bounds: Integers) -> Integers:
    """Numbers from 0 to below `bounds`, from the upper 32 bits."""
    return ((hashes >> np.uint64(32)) * bounds.astype(np.uint64) >> np.uint64(32)).astype(np.int64)


def _bits(hashes: Hashes, low: int, width: int) -> Integers:
    return ((hashes >> np.uint64(low)) & np.uint64((1 << width) - 1)).astype(np.int64)


def _scramble(size: int) -> tuple[int, int]:
    """Factor and offset of a permutation of `size` numbers that has no visible order."""
    factor = int(size * 0.6180339887498949) | 1
    while gcd(factor, size) != 1:
        factor += 2
    return factor, size // 3


@dataclass(frozen=True, slots=True)
class _Log:
    """Tables from which every row follows; places count items from the most popular."""

    users: int
    depth: int
    items: int
    models: int
    seeds: Hashes  # one for each independent stream
    bounds: Integers  # catalogue cut into 2 * depth parts: one for each slot, shown or replaced
    cells: Integers  # catalogue cut into 4096 parts of equal popularity
    steps: Integers  # numbers without a factor in common with the depth
    top_heavy: Integers  # 4096 equally likely positions of a hit
    counts: npt.NDArray[np.float64]  # 65536 equally likely numbers of further relevant items
    shown: int  # of 65536: relevant items that the first model shows
    found: int  # of 65536: relevant items that some other model may show

    @classmethod
    def of(
        cls, users: int, depth: int, items: int, relevant: float, models: int, seed: int
    ) -> "_Log":
        def cut(parts: int) -> Integers:
            share = np.arange(parts + 1) / parts
            reach = (items + POPULARITY_SHIFT) / POPULARITY_SHIFT
            places = np.floor(POPULARITY_SHIFT * (reach**share - 1.0)).astype(np.int64)
            places[-1] = items
            return places

        middles = (np.arange(65536) + 0.5) / 65536
        tail = (1.0 - middles) ** (-1.0 / 3.0) - 1.0
        positions = (depth + 1) ** ((np.arange(4096) + 0.5) / 4096)
        steps = [step for step in range(1, min(depth, 1000) + 1) if gcd(step, depth) == 1]
        shown = min(0.6, HITS_PER_RANK * depth / relevant)
        streams = np.arange(4, dtype=np.uint64) + np.uint64(seed % (1 << 62)) * np.uint64(4)
        return cls(
            users=users,
            depth=depth,
            items=items,
            models=models,
            seeds=_mix(streams * GOLDEN),
            # every part holds an item at least, so that no two slots can share one
            bounds=np.maximum(cut(2 * depth), np.arange(2 * depth + 1)),
            cells=cut(4096),
            steps=np.array(steps, dtype=np.int64),
            top_heavy=np.minimum(positions.astype(np.int64), depth) - 1,
            counts=(relevant - 1.0) * tail / tail.mean(),
            shown=int(65536 * shown),
            found=int(65536 * FOUND_BY_OTHERS) if models > 1 else 0,
        )

    def rank_items(
        self, model: int | Integers, users: Integers, positions: Integers
    ) -> tuple[Integers, Hashes]:
        """Place in the catalogue of the item at each position, and the hash that chose it."""
        keys = _hash(self.seeds[:1], users)
        steps = self.steps[_bits(keys, 0, 16) % self.steps.size]
        slots = (positions * steps + _bits(keys, 16, 32)) % self.depth
        drawn = positions
        parts = 2 * slots + _bits(keys, 48, 1)
        if not isinstance(model, int) or model > 0:
            models = np.atleast_1d(np.asarray(model))
            coins = _hash(_hash(keys, models + self.depth), positions)
            bars = (65536 * (1.0 - (1.0 - REPLACED) ** models)).astype(np.int64)
            replaced = _bits(coins, 0, 16) < bars
            drawn = np.where(replaced, (models << 24) + positions, positions)
            parts = parts ^ replaced
        hashes = _hash(_mix(keys), drawn)
        lows = self.bounds[parts]
        return lows + _below(hashes, self.bounds[parts + 1] - lows), hashes

    def score(self, positions: Integers, hashes: Hashes) -> npt.NDArray[np.float32]:
        """Scores above 0 and up to 1 that fall from each position to the next."""
        room = 24 - self.depth.bit_length()
        levels = ((self.depth - 1 - positions) << room) + _bits(hashes, 0, room) + 1
        scores: npt.NDArray[np.float32] = levels.astype(np.float32) / np.float32(1 << 24)
        return scores

    def count_relevant(self, users: Integers) -> Integers:
        """How many relevant items each user has."""
        hashes = _hash(self.seeds[1:2], users)
        further = self.counts[_bits(hashes, 0, 16)] + _bits(hashes, 16, 32) / 4294967296.0
        return np.minimum(1 + further.astype(np.int64), max(1, self.items // 2))

    def draw_relevant(self, users: Integers) -> tuple[Integers, Integers, Integers]:
        """Row of `users`, place in the catalogue and relevance of every relevant item."""
        counts = self.count_relevant(users)
        owners = np.repeat(np.arange(users.size), counts)
        numbers = np.arange(owners.size) - np.repeat(np.cumsum(counts) - counts, counts)
        keys = _hash(self.seeds[2:3], users)[owners]
        places = self._propose(users[owners], _hash(keys, numbers))
        attempt = 0
        while (again := _repeats(owners * self.items + places)).size:
            attempt += 1
            hashes = _hash(keys[again], numbers[again] + (attempt << 32))
            # popular places may be used up: from the ninth attempt on, all are alike
            places[again] = (
                self._pick_popular(hashes)
                if attempt < 9
                else _below(hashes, np.full(again.size, self.items))
            )
        relevance = 1 + _bits(_hash(_mix(keys), numbers), 8, 16) * 5 // 65536
        return owners, places, relevance

    def _propose(self, users: Integers, hashes: Hashes) -> Integers:
        """Places by the three ways in which an item becomes relevant."""
        kinds = _bits(hashes, 0, 16)
        shown = np.flatnonzero(kinds < self.shown)
        found = np.flatnonzero((kinds >= self.shown) & (kinds < self.shown + self.found))
        places = self._pick_popular(_mix(hashes))
        positions = self.top_heavy[_bits(hashes, 16, 12)]
        if shown.size:
            places[shown] = self.rank_items(0, users[shown], positions[shown])[0]
        if found.size:
            model = 1 + _bits(hashes, 28, 16)[found] % (self.models - 1)
            places[found] = self.rank_items(model, users[found], positions[found])[0]
        return places

    def _pick_popular(self, hashes: Hashes) -> Integers:
        cells = _bits(hashes, 0, 12)
        lows = self.cells[cells]
        return lows + _below(hashes, np.maximum(self.cells[cells + 1] - lows, 1))

    def identify(self, places: Integers) -> Integers:
        """Item ids, from 1 to the size of the catalogue, without any order of popularity."""
        factor, offset = _scramble(self.items)
        return 1 + (places * factor + offset) % self.items

    def scatter(self, rows: Integers) -> Integers:
        """Rows of the grouped table in pseudo-random order: a Feistel network over two digits.

        Source:
            Black and Rogaway 2002, Ciphers with Arbitrary Finite Domains, section 5.
        """
        total = self.users * self.depth
        base = int(np.ceil(np.sqrt(total)))
        shuffled = self._exchange(rows, base)
        while (outside := np.flatnonzero(shuffled >= total)).size:
            shuffled[outside] = self._exchange(shuffled[outside], base)
        return shuffled

    def _exchange(self, rows: Integers, base: int) -> Integers:
        left, right = np.divmod(rows, base)
        for turn in range(4):
            hashes = _hash(self.seeds[3:4], right + (turn << 40))
            left, right = right, (left + _below(hashes, np.array([base]))) % base
        return left * base + right


def _repeats(keys: Integers) -> Integers:
    """Positions of all but the first of equal keys."""
    order = np.argsort(keys, kind="stable")
    ordered = keys[order]
    return np.sort(order[1:][ordered[1:] == ordered[:-1]])


def _spell(letter: str, numbers: Integers, largest: int) -> Bytes:
    """A letter and as many digits for each number as the largest one has."""
    digits = len(str(largest))
    letters = np.empty((numbers.size, digits + 1), dtype=np.uint8)
    letters[:, 0] = ord(letter)
    rest = numbers
    for place in range(digits, 0, -1):
        above = rest // 10
        letters[:, place] = rest - above * 10 + ord("0")
        rest = above
    return letters.view(f"S{digits + 1}").reshape(-1)


def _column(letter: str, numbers: Integers, ids: Ids, largest: int) -> "pa.Array":
    import pyarrow as pa

    if ids == "int":
        return pa.array(numbers)
    texts = _spell(letter, numbers, largest)
    offsets = np.arange(texts.size + 1, dtype=np.int32) * np.int32(texts.itemsize)
    return pa.StringArray.from_buffers(texts.size, pa.py_buffer(offsets), pa.py_buffer(texts))


def _blocks(numbers: Integers, step: int) -> Iterator[Integers]:
    for start in range(0, numbers.size, step):
        yield numbers[start : start + step]


Make: TypeAlias = "Callable[[int, int], pa.Table]"


def _write(
    folder: Path, make: Make, total: int, step: int, files: int, pool: ThreadPoolExecutor
) -> None:
    """Parquet files of the tables that `make` gives for `step` of the `total` units at a time."""
    import pyarrow.parquet as pq

    folder.mkdir(parents=True)
    for number in range(files):
        start, stop = total * number // files, total * (number + 1) // files
        pieces = _ahead(make, range(start, stop, step), stop, pool)
        first = next(pieces)
        plain = [name for name in first.schema.names if name.startswith("score")]
        with pq.ParquetWriter(
            folder / f"part-{number:04}.parquet",
            first.schema,
            compression="zstd",
            use_dictionary=[name for name in first.schema.names if name not in plain],
        ) as writer:
            writer.write_table(first, row_group_size=ROWS_PER_GROUP)
            for piece in pieces:
                writer.write_table(piece, row_group_size=ROWS_PER_GROUP)


def _ahead(make: Make, starts: range, stop: int, pool: ThreadPoolExecutor) -> "Iterator[pa.Table]":
    """The pieces in order, each made while the one before is written."""
    waiting: deque[Future[pa.Table]] = deque()
    for start in starts:
        waiting.append(pool.submit(make, start, min(start + starts.step, stop)))
        if len(waiting) == 2:
            yield waiting.popleft().result()
    while waiting:
        yield waiting.popleft().result()


def _write_truth(
    log: _Log, folder: Path, ids: Ids, order: Order, files: int, pool: ThreadPoolExecutor
) -> None:
    import pyarrow as pa

    mean = float(log.counts.mean()) + 1.0

    def make(start: int, stop: int) -> pa.Table:
        drawn = [
            (users[owners], places, relevance)
            for users in _blocks(np.arange(start, stop), max(1, int(ROWS_PER_BLOCK / mean)))
            for owners, places, relevance in [log.draw_relevant(users)]
        ]
        users, places, relevance = (np.concatenate(parts) for parts in zip(*drawn, strict=True))
        if order == "scattered":
            shuffle = np.argsort(_hash(_mix(places.astype(np.uint64)), users), kind="stable")
            users, places, relevance = users[shuffle], places[shuffle], relevance[shuffle]
        columns = {
            "user": _column("u", users + 1, ids, log.users),
            "item": _column("i", log.identify(places), ids, log.items),
            "relevance": pa.array(relevance.astype(np.int32)),
        }
        return pa.table(columns)

    _write(folder, make, log.users, max(1, int(ROWS_PER_GROUP / mean)), files, pool)


def _write_rankings(
    log: _Log,
    model: int,
    folder: Path,
    ids: Ids,
    order: Order,
    files: int,
    form: Form,
    pool: ThreadPoolExecutor,
) -> None:
    import pyarrow as pa

    def make_rows(users: Integers, positions: Integers) -> pa.RecordBatch:
        places, hashes = log.rank_items(model, users, positions)
        rows = np.broadcast_arrays(users, positions, places, hashes)
        columns = {
            "user": _column("u", rows[0].reshape(-1) + 1, ids, log.users),
            "item": _column("i", log.identify(places).reshape(-1), ids, log.items),
        }
        if form in ("rank", "both"):
            columns["rank"] = pa.array(rows[1].reshape(-1).astype(np.int32) + np.int32(1))
        if form in ("score", "both"):
            columns["score"] = pa.array(log.score(positions, hashes).reshape(-1))
        return pa.RecordBatch.from_pydict(columns)

    def make_lists(users: Integers, positions: Integers) -> pa.RecordBatch:
        places, hashes = log.rank_items(model, users, positions)
        offsets = pa.array(np.arange(users.size + 1, dtype=np.int32) * np.int32(log.depth))
        item_ids = _column("i", log.identify(places).reshape(-1), ids, log.items)
        scores = pa.array(log.score(positions, hashes).reshape(-1))
        columns = {
            "user": _column("u", users.reshape(-1) + 1, ids, log.users),
            "items": pa.ListArray.from_arrays(offsets, item_ids),
            "scores": pa.ListArray.from_arrays(offsets, scores),
        }
        return pa.RecordBatch.from_pydict(columns)

    every = np.arange(log.depth)[None, :]
    by_row = order == "scattered" and form != "list"
    rows_of_one = 1 if by_row else log.depth

    def make(start: int, stop: int) -> pa.Table:
        numbers = np.arange(start, stop)
        if order == "scattered" and not by_row:
            numbers = numbers[np.argsort(_hash(log.seeds[3:4], numbers), kind="stable")]
        batches = []
        for block in _blocks(numbers, max(1, ROWS_PER_BLOCK // rows_of_one)):
            if by_row:
                batches.append(make_rows(*np.divmod(log.scatter(block), log.depth)))
            else:
                batches.append((make_lists if form == "list" else make_rows)(block[:, None], every))
        return pa.Table.from_batches(batches)

    total = log.users * log.depth if by_row else log.users
    _write(folder, make, total, max(1, ROWS_PER_GROUP // rows_of_one), files, pool)


def _render_config(name: str, models: list[str], depth: int, form: Form) -> str:
    orders = {
        "rank": 'item = "item", rank = "rank"',
        "score": 'item = "item", score = "score"',
        "both": 'item = "item", rank = "rank", score = "score"',
        "list": 'item = "items", score = "scores"',
    }
    cutoffs = ",".join(str(cutoff) for cutoff in CUTOFFS if cutoff <= depth) or str(depth)
    wanted = ["nDCG", "recall", "precision", "AP", "RR", "hit", "F1"]
    names = ",\n  ".join(f'"{each}@{{{cutoffs}}}"' for each in wanted)
    rankings = "".join(
        f'\n[[rankings]]\nmodel = "{model}"\npath = "rankings/{model}/*.parquet"\n'
        f'columns = {{ user = "user", {orders[form]} }}\n'
        for model in models
    )
    spelled = name.replace("\\", "\\\\").replace('"', '\\"')
    return (
        f'name = "{spelled}"\n\n[truth]\npath = "truth/*.parquet"\n'
        'columns = { user = "user", item = "item", relevance = "relevance" }\n'
        f"{rankings}\n[metrics]\nnames = [\n  {names},\n]\n"
    )
