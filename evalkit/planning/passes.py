"""How much memory a run of rankings takes, and in how many passes over its users that fits.

Peaks are those of `bench/memory.py` on two cores. What a share of the users takes is counted before
a row is held: the truth's users are read once, if a bound by the number of rows does not do.
"""

import math
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from evalkit.config import policies_of
from evalkit.errors import EvalkitError
from evalkit.kernels import memory as machine
from evalkit.kernels.arrays import Floats
from evalkit.kernels.threads import usable_cores
from evalkit.planning import _counts, _texts, list_memory, memory
from evalkit.planning.item_memory import AskedOfItems, memory_of_items
from evalkit.planning.memory import MemoryNeeds, Sizes
from evalkit.planning.survey import CELLS, Survey, id_bytes
from evalkit.planning.tables import Tables, plan_ids_of
from evalkit.sources import Table
from evalkit.sources.ids import IdPlan
from evalkit.truth import LONE_RUNS

MIB = 1 << 20

# -- what is there whatever the users: interpreter, libraries, loaded kernels; rows on their way
AT_REST = 148 * MIB + machine.LLVM
KEPT = 100 * MIB  # by Polars' allocator, where it was loaded before a limit was known
NOISE, LEAST_NOISE = 1.03, 8 * MIB  # from run to run, from machine to machine
STREAMED_ROW = 60  # a ranked row, decoded and being probed
STREAMED, STREAMED_A_CORE = 90 * MIB, 25 * MIB  # of integer ids: what waits, and room to probe in
GATHERED_A_CORE = 24 * MIB  # of rows whose users lie apart, of integer ids in one pass
SCORED_A_CORE = 18 * MIB  # of rows by score, of integer ids in shares
RANKED, RANKED_BY_USER, TEXTS_BY_USER = 35 * MIB, 65 * MIB, 36 * MIB  # less in shares, by rank
SHORT_TEXTS = 128  # bytes of a row's ids; of longer ones it is what is decoded that counts
USUAL_GROUP = 1 << 18  # rows of a row group; of larger ones, so many are there in a share
LARGE_GROUPS, GROUP_ROW, GROUP_TEXT_ROW = 7, 26, 36
STREAMED_TRUTH, STREAMED_TRUTH_ROW = 24 * MIB, 12  # what waits, where nothing is probed yet
STREAMED_TEXTS, TEXTS_A_CORE = 3 << 18, 16 * MIB  # rows with texts at a time
TEXTS_WAIT, TEXT_WAITS = 25 * MIB, 64  # of texts, beside each row: at most, and of a row
SCORED_TEXT_ROW, SCORED_TEXTS_A_CORE = 148, 44 * MIB  # where rows are by score, which may lie apart

HELD_SHARE = 0.25  # of the memory, for ranked rows that wait, where nobody sets a limit

# -- of a truth row: half a key, code, rank; the key's other half where ids are no small integers
ROW, WIDE_KEY = 13, 4
RUN, LONE_RUN = 16, 8  # a run of rows of one user; of one row, where nearly all have one
MOVED_ROW = 24  # where the rows of a user lie apart and are brought together
USER = 130  # table entry, run, state

# -- of a further model whose ranks are held, by truth row and by user
RANK, RANKED_USER = 4, 16
TIED = 4  # of a model by score, by truth row: where equal scores stand
SUM_OF_CELL = memory.SUM + 500  # and what holds it
PACKED_SUM = 700  # of all passes before, without what is 0
ESTIMATE, COMPARISON = 1_500, 3_300  # in columns and in Parquet; while it is made, and its sums
WRITTEN_RESULT = 8_000  # the same in report.json
MOST_SHARES = 16  # more passes would take many times as long as one
NAMED_SHARES = 8  # passes that the limit is named for where it is refused, if one takes more
LAST_SHARES = 256  # where the machine has no more memory to give

# -- what is taken for granted where nothing is read: more of it costs a look at the users
USUAL_MODELS = 256  # of a table that names them
_MANY = 1 << 40  # rows of a table that nobody has counted
SORTED_ROW = 150  # of a table whose column says the order, which is sorted whole
SEEN_ROW, SEEN_MOVED = 16, 16  # of a training log, of the truth's users; while it is grouped
GROWN = 2.0  # runs that are put together, where nobody knows how many rows come

SKEW = 1.05  # of the largest share to what cells say
SCATTERED = 1.1  # runs a user, from which on users are taken to lie apart


@dataclass(frozen=True, slots=True)
class Asked:
    """What of a config takes memory.

    Args:
        n_columns: requests that are measured.
        holds_all: the ranks of all models are held side by side.
        has_baseline, all_pairs: which models are compared.
        listed: tables of rankings whose lists are looked at whole, by their number.
        closes_up: those with ranks are held; of others, those whose users come back.
        sample: share of the users.
        lists, items: what metrics of lists ask for, and errors over users and items.
        n_kept: columns of the values of users that are written.
        n_ordered: of those that numbers stand on by their order.
    """

    n_columns: int
    holds_all: bool
    has_baseline: bool
    all_pairs: bool
    listed: frozenset[int]
    sample: float
    lists: list_memory.AskedOfLists | None = None
    threads: int = 1
    items: AskedOfItems | None = None
    n_kept: int = 0
    n_ordered: int = 0
    closes_up: bool = False


def look_at_texts(tables: Tables, memory_limit: int | None) -> _texts.TextSizes | None:
    """What ids take beside their keys; None where no limit asks."""
    return None if memory_limit is None else _texts.TextSizes.of(tables)


def count_shares(
    tables: Tables, memory_limit: int | None, asked: Asked, texts: _texts.TextSizes | None = None
) -> int:
    """Into how many passes users are split, so that the process stays below the limit.

    Args:
        texts: what ids take, where somebody has looked.
    Raises:
        MachineError: no number of passes holds the limit [memory-limit].
    """
    if memory_limit is None:
        return 1
    looks_at_items = asked.lists is not None or any(each.made for _, each in tables.rankings)
    n_items = float(_counts.most_items(tables)) if looks_at_items else 0.0
    segments = _counts.by_name(_counts.most_segments, tables)
    texts = texts or _texts.TextSizes.of(tables)
    bound_of = partial(_bound, tables, asked, texts, _most_listed(tables, asked))
    if machine.fits(bound_of(n_items, segments), memory_limit):  # seen without holding a row
        return 1
    n_models = _counts.count_models(tables)
    bound = bound_of(n_items, segments, n_models)
    if machine.fits(bound, memory_limit):
        return 1
    least = texts.group and at_rest() + 2 * _texts.DECODED * texts.group  # no pass decodes less
    are_counted = all(table.n_text_bytes is None for table in tables.logs)
    if are_counted and with_noise(least) > memory_limit:
        raise machine.too_small(memory_limit, math.ceil((bound + machine.room_to_compile()) / MIB))
    with suppress(EvalkitError):  # of a table that cannot be read, which is told in its turn
        # much less than users, as items are
        segments = _counts.by_name(_counts.count_segments, tables)
        if machine.fits(bound_of(n_items, segments, n_models), memory_limit):
            return 1
    if looks_at_items:
        n_items = list_memory.count_listed_items(tables)
        if machine.fits(bound_of(n_items, segments, n_models), memory_limit):
            return 1
    machine.give_back_early()
    return _Needs.of(tables, asked, n_items, texts).n_shares(memory_limit)


def memory_of_rows(
    tables: Tables, memory_limit: int | None, asked: Asked, texts: _texts.TextSizes | None
) -> int:
    """Bytes that a run in one pass leaves for rows, which are read twice where they do not fit."""
    most = int(HELD_SHARE * machine.default_limit())
    if memory_limit is None or texts is None:
        return most
    looks_at_items = asked.lists is not None or any(each.made for _, each in tables.rankings)
    n_items = float(_counts.most_items(tables)) if looks_at_items else 0.0
    segments = _counts.by_name(_counts.most_segments, tables)
    bound = _bound(tables, asked, texts, _most_listed(tables, asked), n_items, segments)
    return max(0, min(most, int((memory_limit - bound - machine.COMPILING) / NOISE)))


def _bound(
    tables: Tables,
    asked: Asked,
    texts: _texts.TextSizes,
    n_listed: int,
    n_items: float,
    segments: Mapping[str, int],
    n_models: int | None = None,
) -> int:
    """More than a run of so many items needs, of segments of each segmentation, and held rows."""
    rows = _counts.most_rows(tables.truth)
    seen = 0 if tables.train is None else _counts.most_rows(tables.train)
    text = max(float(_texts.USUAL_TEXT), texts.mean) if texts.is_hashed else 0.0
    truth: float = ROW + memory.weighed(tables) + WIDE_KEY + GROWN * RUN + MOVED_ROW + USER
    truth += text and 2 * (_texts.HASHED_ID + text)
    lists = (list_memory.LISTED_ROW + text) * n_listed
    train = (SEEN_ROW + GROWN * SEEN_MOVED + (text and _texts.HASHED_ID + text)) * seen
    if n_models is None:
        names = [table.frame.collect_schema() for _, table in tables.rankings]
        n_models = USUAL_MODELS if any("model" in each for each in names) else len(names)
    shown = _counts.users_of_lists(tables) if n_items else []
    n_ranked = max((_counts.most_different([table], "user") for table in shown), default=0)
    crosses = tables.config.segments.cross
    n_segments = sum(segments.values())
    n_segments += sum(segments[one] * segments[other] for one, other in crosses)
    sizes = Sizes(
        n_items,
        n_ranked,
        n_models,
        _count_pairs(n_models, asked),
        n_segments,
        asked.threads,
        max(_counts.models_by_score(table, n_models) for _, table in tables.rankings),
        seen,
        seen,
        text=text,
        extra=list_memory.bytes_of_items(tables.items),
    )
    room = list_memory.memory_of_lists(asked.lists, sizes, holds_all=asked.holds_all)
    if asked.items is not None:
        room = memory_of_items(asked.items, replace(sizes, n_items=rows), segments, rows, rows)
    made = list_memory.MadeMemory.of(tables, n_ranked, n_items, seen, text)
    truth += TIED * sizes.n_apart
    if asked.holds_all:
        truth += (n_models - 1) * (RANK + RANKED_USER)
    known = [table.n_rows_hint() for _, table in tables.rankings if not table.is_list]
    n_rows = [rows, seen, *(each or _MANY for each in known)] if known else [_MANY]
    by_score = sizes.n_apart > 0
    streamed = _streamed(0, max(n_rows), text, texts.group, by_score=by_score, in_shares=False)
    streamed += _in_any_pass(tables, text)
    sums = _sums(tables, n_models, n_segments, asked) + _ordered(asked, n_models, rows)
    sums += _beside(asked, n_models, rows)
    held = asked.sample * (rows * truth + train + room.share) + made.kept + made.first + lists
    first = room.first + room.paired
    of_users = n_models, asked.sample * rows, text, asked.n_kept
    values = memory.room_of_values(*of_users, n_passes=1, together=asked.holds_all)
    last = max(room.last, values)
    whole = (
        _ordered(asked, n_models, rows)
        + room.fixed
        + room.counted
        + max(held + max(first, room.measured), last)
    )
    return with_noise(at_rest() + streamed + whole + sums)


def _beside(asked: Asked, n_models: int, n_users: float) -> int:
    """What values of further models take beside those of the first, while users are measured."""
    n_beside = (n_models - 1) * asked.holds_all
    return int(memory.room_of_blocks(n_users, n_beside, asked.n_columns, asked.threads))


def _ordered(asked: Asked, n_models: int, n_users: float) -> int:
    return int(asked.sample * memory.room_of_ordered(n_models, n_users, asked.n_ordered))


def with_noise(n_bytes: float) -> int:
    """What has to be there for a run that takes so much, so that it holds on any machine."""
    return int(n_bytes * NOISE) + LEAST_NOISE


def at_rest() -> int:
    """What the process takes before a row is read, besides compiling."""
    return AT_REST if machine.polars_gives_back() else AT_REST + KEPT


def _streamed(
    n_truth: int,
    n_rows: int,
    text: float,
    group: int,
    *,
    by_score: bool,
    in_shares: bool,
    less: int = 0,
) -> int:
    """What is decoded and on its way, of rows with so many bytes of text, and of row groups."""
    is_gathered = not text and not in_shares
    a_core = STREAMED_A_CORE + (GATHERED_A_CORE if is_gathered else 0)
    most = STREAMED + usable_cores() * (a_core + (TEXTS_A_CORE if text else 0))
    of_truth = min(most, STREAMED_TRUTH + STREAMED_TRUTH_ROW * n_truth)
    decoded = (_texts.DECODED_IN_SHARES if in_shares else _texts.DECODED) * group
    of_texts = int(max(decoded, min(max(n_truth, n_rows), STREAMED_TEXTS) * text))
    row, waiting = STREAMED_ROW, 0
    if text:
        waiting = min(TEXTS_WAIT, TEXT_WAITS * n_rows)
        row = SCORED_TEXT_ROW if by_score else STREAMED_ROW
        most += usable_cores() * SCORED_TEXTS_A_CORE if by_score else 0
    elif by_score and in_shares:
        most += usable_cores() * SCORED_A_CORE
    return max(of_truth, min(most - less, row * n_rows + waiting)) + of_texts


def _less_by_rank(tables: Tables, asked: Asked, users: IdPlan, text: float) -> int:
    """By how much less of rankings whose rows have ranks is on its way in a share."""
    policies = [policies_of(each, tables.config.policies) for each in tables.config.requests]
    is_counted = bool(asked.listed) or any(each.bad_ranks == "compress" for each in policies)
    if is_counted or not all(map(_counts.is_plain, tables.logs)):
        return 0
    by_user = all(_counts.begins_by_user(table, users) for _, table in tables.rankings)
    if text:
        return TEXTS_BY_USER if by_user and text <= SHORT_TEXTS and tables.train is None else 0
    return RANKED_BY_USER if by_user else RANKED


def _most_listed(tables: Tables, asked: Asked) -> int:
    return sum(_counts.most_rows(tables.rankings[number][1]) for number in asked.listed)


def _grown(table: Table) -> float:
    """Times as much as runs take where nobody knows how many rows come."""
    return GROWN if table.n_rows_hint() is None else 1.0


def _waiting(tables: Tables, text: float) -> int:
    """What of large row groups waits in a share, beside what is on its way anyhow."""
    rows = max((table.largest_group() for table in tables.logs if not table.is_list), default=0)
    row = GROUP_TEXT_ROW if text else GROUP_ROW
    return LARGE_GROUPS * row * max(0, rows - USUAL_GROUP)


def _in_any_pass(tables: Tables, text: float, users: IdPlan | None = None) -> int:
    """What no number of passes lessens: a table that is put in order, and row groups of lists."""
    rows = [_counts.count_rows(table) for table in tables.logs if "order" in table.columns]
    sorted_rows = int(max(rows, default=0) * (SORTED_ROW + 2 * text))
    return sorted_rows + list_memory.waiting_of_lists(tables, text, users)


def _sums(tables: Tables, n_models: int, n_segments: int, asked: Asked) -> int:
    """Exact sums of all cells, of models and of pairs, or what becomes of them afterwards."""
    output = tables.config.output
    n_pairs, n_cells = _count_pairs(n_models, asked), n_segments + 1
    n_results = asked.n_columns * (n_models + n_pairs)
    n_written = n_results * (n_cells if output.segments_in_json else 1)
    made = asked.n_columns * (ESTIMATE * n_models + COMPARISON * n_pairs)
    return max(n_cells * n_results * SUM_OF_CELL, n_cells * made + n_written * WRITTEN_RESULT)


def _count_pairs(n_models: int, asked: Asked) -> int:
    if asked.all_pairs:
        return n_models * (n_models - 1) // 2
    return n_models - 1 if asked.has_baseline else 0


def _cells(survey: Survey, row: float, user: float, grown: float) -> tuple[Floats, Floats]:
    """Bytes of the truth's users in each cell, of so many a row and user; more to move."""
    n_runs = survey.runs.sum()
    is_scattered = n_runs > SCATTERED * survey.n_users
    run = LONE_RUN if n_runs >= LONE_RUNS * survey.rows.sum() else RUN
    cells = survey.rows * row + is_scattered * survey.runs * run * grown
    return cells + user * survey.n_users / CELLS, is_scattered * survey.rows * MOVED_ROW


@dataclass(frozen=True, slots=True)
class _Needs:
    """Bytes of a run.

    Args:
        fixed: whatever the number of shares.
        streamed: of rows on their way; `alone`: in a single pass, where more texts come together.
        cells: float64[CELLS], of the users of each cell of the hash that shares are cut by.
        apart: the same, while rows of a user are brought together, before other rows come.
        ids: of items, which any share may have all of.
        lists: of lists that are looked at whole.
        extra: of metrics of lists, or errors over users and items; its `share` is of all users.
        made: of baselines.
        moved: of all rows of train, while users' rows are brought together.
        values: of users, while a file of them is written, by the number of passes.
        beside: values of further models, of a share of the users.
        packed: of the sums of passes before.
    """

    fixed: int
    streamed: int
    alone: int
    cells: Floats
    apart: Floats
    ids: list[_texts.Ids]
    lists: list_memory.WholeLists
    extra: MemoryNeeds
    made: list_memory.MadeMemory
    moved: float
    values: Callable[..., float]
    beside: Callable[[float], int]
    packed: int

    @classmethod
    def of(cls, tables: Tables, asked: Asked, n_items: float, texts: _texts.TextSizes) -> "_Needs":
        """Read the truth's users, and count models and segments."""
        users, items = plan_ids_of(tables, 1)
        survey = Survey.of(tables.truth, users)
        n_models = _counts.count_models(tables)
        row, user, text = float(ROW + memory.weighed(tables)), float(USER), 0.0
        if items.hashed or items.unsigned:
            row += WIDE_KEY
        n_users, n_truth = survey.n_users, int(survey.rows.sum())
        if users.hashed or items.hashed:
            text = survey.text.mean + id_bytes(tables.truth, items).mean
            text = max(text, texts.mean) if texts.mean > _texts.USUAL_TEXT else text
        if users.hashed:
            user += _texts.Ids(n_users, n_truth, survey.text).taken(1.0) / max(1.0, n_users)
        n_apart = max(_counts.models_by_score(table, n_models) for _, table in tables.rankings)
        row += TIED * n_apart
        n_beside = (n_models - 1) * asked.holds_all
        row, user = row + n_beside * RANK, user + n_beside * RANKED_USER
        held, apart = _cells(survey, row, user, _grown(tables.truth))
        cells = asked.sample * held
        ranked = [_counts.count_rows(table) for _, table in tables.rankings]
        listed = [(tables.rankings[n][1], asked.sample * ranked[n]) for n in asked.listed]
        n_rows, n_seen, moved = max(ranked), 0, 0.0
        if tables.train is not None:
            n_seen, moved = _counts.count_rows(tables.train), SEEN_MOVED * _grown(tables.train)
            n_rows = max(n_rows, n_seen)
            cells += asked.sample * SEEN_ROW * n_seen / CELLS
        segments = _counts.by_name(_counts.count_segments, tables)
        n_segments = sum(segments.values())
        sums = _sums(tables, n_models, n_segments, asked)
        extra, made = MemoryNeeds(), list_memory.MadeMemory()
        ordered, n_pairs = _in_any_pass(tables, text, users), _count_pairs(n_models, asked)
        sizes = Sizes(n_items, n_users, n_models, n_pairs, n_segments, asked.threads, text=text)
        if asked.items is not None:
            sizes = replace(sizes, n_items=memory.count_items(tables, [tables.truth]))
            most = float(survey.rows.max())  # of users who share a cell
            extra = memory_of_items(asked.items, sizes, segments, asked.sample * n_truth, most)
        if n_items:
            own = [Survey.of(table, users) for table in _counts.users_of_lists(tables)]
            of_items = id_bytes(tables.items or tables.train or tables.rankings[0][1], items).mean
            n_listed_users = max(each.n_users for each in own)
            sizes = replace(sizes, n_items=n_items, n_users=n_listed_users, text=of_items)
            made = list_memory.MadeMemory.of(tables, sizes.n_users, n_items, n_seen, text)
        if asked.lists is not None:
            if tables.train is not None:
                seen = Survey.of(tables.train, users)
                moved *= not seen.in_order
                sizes = replace(
                    sizes, n_train=n_seen, n_train_users=seen.n_users, in_order=seen.in_order
                )
            by_score = [
                _counts.models_by_score(table, n_models) * (not each.in_order)
                for (_, table), each in zip(tables.rankings, own, strict=True)
            ]
            sizes = replace(
                sizes, n_apart=max(by_score), extra=list_memory.bytes_of_items(tables.items)
            )
            extra = list_memory.memory_of_lists(asked.lists, sizes, holds_all=asked.holds_all)
            extra = replace(extra, share=asked.sample * extra.share)
            right = n_truth * asked.lists.has_relevant * list_memory.RELEVANT
            cells += asked.sample * (user * survey.n_beside(own) + right) / CELLS
        is_by_rank = not n_apart and bool(text or not (users.hashed or items.hashed))
        less = _less_by_rank(tables, asked, users, text) if is_by_rank else 0
        of_lists = 0 if text else list_memory.less_of_lists(tables, users)
        of_users = n_models, asked.sample * n_users, survey.text.mean, asked.n_kept
        streamed = partial(_streamed, n_truth, n_rows, text, texts.group, by_score=n_apart > 0)
        return cls(
            at_rest() + machine.room_to_compile() + sums + _ordered(asked, n_models, n_users),
            streamed(in_shares=True, less=less + of_lists) + _waiting(tables, text) + ordered,
            streamed(in_shares=False, less=of_lists) + ordered,
            cells,
            asked.sample * apart,
            _texts.ids_of_items(tables, items, asked.sample) if items.hashed else [],
            list_memory.WholeLists.of(listed, users, text, asked.threads, asked.closes_up),
            extra,
            made,
            asked.sample * moved * n_seen,
            partial(memory.room_of_values, *of_users, together=asked.holds_all),
            lambda share: _beside(asked, n_models, share * n_users),
            PACKED_SUM * (n_segments + 1) * asked.n_columns * (n_models + n_pairs),
        )

    def n_shares(self, limit: int) -> int:
        """The fewest passes that hold the limit.

        Many are taken where a larger limit would be more than the machine has.

        Raises:
            MachineError: there are none [memory-limit].
        """
        least = min(self._taken(1), self._taken(NAMED_SHARES))  # sums of shares may be the larger
        needed = math.ceil(with_noise(least) / MIB)
        most = MOST_SHARES if needed * MIB <= machine.default_limit() else LAST_SHARES
        n_shares = 1
        while n_shares <= most:
            if with_noise(self._taken(n_shares)) <= limit:
                return n_shares
            n_shares += max(1, n_shares // 8)
        raise machine.too_small(limit, needed)

    def _taken(self, n_shares: int) -> float:
        """By the largest of so many shares."""
        if n_shares == 1:
            share, streamed = 1.0, self.alone
        else:
            share, streamed = SKEW / n_shares, self.streamed
        held, apart = (_of_largest(cells, n_shares) for cells in (self.cells, self.apart))
        held += sum(each.taken(share) for each in self.ids)
        first = held + self.extra.first + share * self.extra.paired  # and nothing is counted yet
        held += max(
            apart,
            share * self.moved,
            self.made.first,
            streamed + max(share * self.lists.collected, self.lists.looked_at),
            share * self.lists.held,
            share * self.extra.share + max(streamed, self.extra.measured),
        )
        counted = self.extra.counted * min(2, n_shares) + self.packed * (n_shares > 1)
        last = max(first, counted + max(held, self.extra.last, self.values(n_passes=n_shares)))
        return self.fixed + self.extra.fixed + self.made.kept + self.beside(share) + last


def _of_largest(cells: Floats, n_shares: int) -> float:
    """Bytes of the largest of so many shares."""
    if n_shares == 1:
        return float(cells.sum())
    return SKEW * float(np.bincount(np.arange(CELLS) * n_shares // CELLS, weights=cells).max())
