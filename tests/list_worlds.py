"""Lists and what stands beside them, made of plain records; list metrics measured without a run.

A world is a mapping as in the fixtures of list metrics: `items` (item, genres, provider,
published, vector), `train`, `qrels`, `run`, `run_b`, `run_before` (user, items[, rels]), `users`
(user, group), `now`, `threshold`; all but `run` may be missing.
"""

import json
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from evalkit.metrics import (
    NO_CUTOFF,
    Genres,
    Groups,
    ItemContext,
    Items,
    Lists,
    Request,
    Shown,
    Vectors,
    attention,
    measure_lists,
    registry_of,
    worth,
)


def load(folder: Path, name: str) -> dict[str, Any]:
    """One fixture of `conformance/lists`."""
    found: dict[str, Any] = json.loads((folder / "fixtures" / f"{name}.json").read_text())
    return found


@dataclass(frozen=True)
class World:
    """What kernels are given, and the users in the order of their rows."""

    users: list[Any]
    lists: Lists
    context: ItemContext
    raw: Mapping[str, Any]


def _by_user(rows: Sequence[Mapping[str, Any]]) -> dict[Any, Mapping[str, Any]]:
    return {row["user"]: row for row in rows}


def build(
    raw: Mapping[str, Any], *, run: str = "run", seed: int | None = None, draws: bool = False
) -> World:
    """A world's arrays; with a seed, items and rows of lists stand in another order.

    Args:
        draws: the other run is one more list of the model.
    """
    tables = {name: _by_user(raw.get(name, ())) for name in ("train", "qrels", "run", "run_b")}
    tables["run_before"] = _by_user(raw.get("run_before", ()))
    table = {row["item"]: row for row in raw.get("items", ())}
    names = set(table)
    for rows in tables.values():
        names.update(item for row in rows.values() for item in row["items"])
    known = sorted(names)
    if seed is not None:
        known = [known[place] for place in np.random.default_rng(seed).permutation(len(known))]
    code = {item: place for place, item in enumerate(known)}
    named = [row["user"] for row in raw.get("users", ())]
    users = list(dict.fromkeys([*tables[run], *named]))  # also those without a list
    threshold = raw.get("threshold", 1)

    def lists(rows: Mapping[Any, Sequence[Any]], *, is_sorted: bool = False) -> Lists:
        codes = [[code[item] for item in rows.get(user, ())] for user in users]
        codes = [sorted(set(row)) if is_sorted else row for row in codes]
        lengths = np.array([len(row) for row in codes], dtype=np.int64)
        starts = np.concatenate([[0], np.cumsum(lengths)])[:-1].astype(np.int64)
        return Lists(starts, lengths, np.array([x for row in codes for x in row], dtype=np.int32))

    def ranked(name: str) -> Lists:
        return lists({user: row["items"] for user, row in tables[name].items()})

    rels = {
        user: {i: g for i, g in zip(row["items"], row.get("rels", [1] * 999), strict=False)}
        for user, row in tables["qrels"].items()
    }
    relevant = {u: [i for i, g in row.items() if g >= threshold] for u, row in rels.items()}
    wanted = lists(relevant, is_sorted=True)
    gains = [
        float(rels[user][known[item]])
        for user, start, n in zip(users, wanted.starts, wanted.lengths, strict=True)
        for item in wanted.items[start : start + n]
    ]
    history = {user: row["items"] for user, row in tables["train"].items()}
    holders = Counter(item for row in history.values() for item in set(row))
    rows = Counter(item for row in history.values() for item in row)
    items = Items(
        is_listed=np.array([not table or item in table for item in known]),
        has_table=bool(table),
        order=_places(known, key=lambda item: item),
        text_order=_places(known, key=str),
        popularity=np.array([holders[item] for item in known], dtype=np.int64),
        interactions=np.array([rows[item] for item in known], dtype=np.int64),
        n_train_users=len(history),
        ages=np.array(
            [
                float(raw["now"] - table[item]["published"])
                if item in table and table[item].get("published") is not None and "now" in raw
                else math.nan
                for item in known
            ]
        ),
        genres=_genres([table.get(item, {}).get("genres", ()) for item in known]),
        vectors=_vectors([table.get(item, {}).get("vector") for item in known]),
        first_rows=_first_rows(known, [i for row in history.values() for i in row]),
        groups={"provider": _groups([table.get(item, {}).get("provider") for item in known])},
    )
    context = ItemContext(
        items=items,
        history=lists(history, is_sorted=True),
        relevant=wanted,
        gains=np.array(gains),
        threshold=threshold,
        reference=ranked("run_b"),
        earlier=(ranked("run_before"), ranked("run_b"))[: 2 if draws else 1],
        targets=np.ones(len(users), dtype=bool),
        history_in_order=lists({user: [*dict.fromkeys(own)] for user, own in history.items()}),
    )
    return World(users, ranked(run), context, raw)


def _first_rows(known: Sequence[Any], rows: Sequence[Any]) -> Any:
    first: dict[Any, int] = {}
    for place, item in enumerate(rows):
        first.setdefault(item, place)
    return np.array([first.get(item, len(rows)) for item in known], dtype=np.int64)


def _places(known: Sequence[Any], key: Any) -> Any:
    places = np.empty(len(known), dtype=np.int64)
    places[sorted(range(len(known)), key=lambda at: key(known[at]))] = np.arange(len(known))
    return places


def _genres(rows: Sequence[Sequence[str]]) -> Genres:
    names = sorted({genre for row in rows for genre in row})
    codes = [sorted({names.index(genre) for genre in row}) for row in rows]
    bits = np.zeros((len(rows), max(1, -(-len(names) // 64))), dtype=np.uint64)
    for place, row in enumerate(codes):
        for each in row:
            bits[place, each // 64] |= np.uint64(1) << np.uint64(each % 64)
    starts = np.concatenate([[0], np.cumsum([len(row) for row in codes])]).astype(np.int64)
    return Genres(
        starts, np.array([x for row in codes for x in row], dtype=np.int32), tuple(names), bits
    )


def _vectors(rows: Sequence[Sequence[float] | None]) -> Vectors:
    size = max((len(row) for row in rows if row is not None), default=1)
    numbers = np.array([[0.0] * size if row is None else row for row in rows], dtype=np.float64)
    norms = np.array(
        [-1.0 if row is None else math.sqrt(math.fsum(x * x for x in row)) for row in rows]
    )
    return Vectors(numbers.reshape(len(rows), size), norms)


def _groups(rows: Sequence[Any]) -> Groups:
    names = sorted({row for row in rows if row is not None})
    codes = [-1 if row is None else names.index(row) for row in rows]
    return Groups(np.array(codes, dtype=np.int32), tuple(str(name) for name in names))


def shown_at(world: World, request: Request, cutoff: int) -> Shown:
    """How often the first items of all lists show each item."""
    n_items = world.context.items.popularity.size
    lists = np.zeros(n_items, np.int64)
    exposure, by_length, by_share = np.zeros(n_items), np.zeros(n_items), np.zeros(n_items)
    rows, gains = np.zeros(n_items, np.int64), np.zeros(n_items)
    relevant, own_gains = world.context.relevant, world.context.gains
    values = dict(request.parameters)
    weights = np.ones(0)
    if "attention" in values:
        weights = attention(values, int(world.lists.lengths.max(initial=0)))
    n_users = 0
    for user, (start, length) in enumerate(
        zip(world.lists.starts, world.lists.lengths, strict=True)
    ):
        own = slice(relevant.starts[user], relevant.starts[user] + relevant.lengths[user])
        worths = worth(values.get("gain", "binary"), own_gains[own], world.context.threshold)
        by_item = dict(zip(relevant.items[own].tolist(), worths.tolist(), strict=True))
        first = world.lists.items[start : start + min(length, cutoff)].tolist()
        n_users += bool(first)
        for rank, item in enumerate(first):
            rows[item] += 1
            gains[item] += by_item.get(item, 0.0)
            exposure[item] += weights[rank] if weights.size else 0.0
        for item in set(first):
            lists[item] += 1
            by_length[item] += 1.0 / math.sqrt(len(first))
            by_share[item] += 1.0 / len(first)
    return Shown(lists, exposure, by_length, n_users, by_share, cutoff, 0, rows, gains)


def measure(
    name: str,
    world: World,
    cutoffs: Sequence[int | None],
    *,
    kernel: Any = None,
    **parameters: str | float,
) -> Any:
    """float64[n_users, n_cutoffs] of a metric of users; float64[n_cutoffs] of other families."""
    metric = registry_of("lists")[name]
    assert metric.lists is not None
    request = metric.request(**parameters)
    values = dict(request.parameters)
    wanted = np.array([NO_CUTOFF if each is None else each for each in cutoffs], dtype=np.int64)
    assert (np.diff(wanted) > 0).all()
    if metric.lists.family == "counts":
        pairs = [
            metric.function(shown_at(world, request, int(k)), world.context.items, values)
            for k in wanted
        ]
        return np.array([number for number, _ in pairs])
    within = np.minimum(world.lists.lengths[:, None], wanted[None, :])
    tables = metric.tables(values, world.context) if metric.tables is not None else ()
    shape: tuple[int, ...] = within.shape
    if metric.lists.family == "sums":
        assert metric.lists.n_sums is not None
        shape = (*shape, metric.lists.n_sums(values, world.context))
    out = np.full(shape, -12345.0)
    if kernel is None:
        measure_lists(request, world.lists, wanted, tables, out)
    else:
        kernel(metric.kernel)(world.lists, within, wanted, *tables, *request.encoded, out)
    if metric.lists.family == "users":
        if "users" not in metric.lists.needs(values):
            out[world.lists.lengths == 0] = math.nan
        return out
    assert metric.lists.by is not None
    is_there = ~np.isnan(out).any(axis=2) & (world.lists.lengths > 0)[:, None]
    return np.array(
        [
            metric.lists.by(
                values, world.context, [float(x) for x in out[is_there[:, c], c].sum(0)]
            )
            for c in range(wanted.size)
        ]
    )
