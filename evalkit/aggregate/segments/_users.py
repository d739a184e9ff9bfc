"""Segments of the truth's users."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol

import numpy as np
import polars as pl

from evalkit.aggregate.segments import _buckets
from evalkit.aggregate.segments._opened import SegmentTable
from evalkit.errors import CountedError, EvalkitError, noting, raise_all
from evalkit.kernels.arrays import Flags, Floats, Ints, Keys
from evalkit.kernels.threads import ordered_map
from evalkit.sources import ids, reading
from evalkit.truth import BATCH_ROWS, Truth

CODE = "code"
MOST_KEPT = 1 << 22  # rows, before those that repeat another are left out
MOST_WEIGHT = 1e150  # times any value, and added up, still a float


@dataclass(frozen=True, slots=True)
class UserSegments:
    """One way to split the truth's users.

    Args:
        name: of the segmentation.
        groups: the segment of each user code.
    """

    name: str
    groups: _buckets.IdGroups


class KnownUsers(Protocol):
    """Users by code, such as those of the truth."""

    @property
    def user_plan(self) -> ids.IdPlan:
        """How ids become keys."""

    @property
    def n_users(self) -> int:
        """How many there are."""

    def codes_of(self, keys: Keys) -> Ints:
        """The code of each user; -1 of others."""

    def are_ids_of_users(self, rows: pl.DataFrame) -> bool:
        """Whether rows with keys of these users show their ids."""


def read_user_values(source: SegmentTable, users: KnownUsers) -> list[pl.Series]:
    """For each segmentation of a table the value of each user code; null where there is none.

    Raises:
        DataError: a user has several values [segment-conflict].
        KeyCollisionError: two users share a key.
    """
    n_users, plan = users.n_users, users.user_plan
    if source.table is None:
        assert isinstance(users, Truth)
        return [pl.Series(users.pairs.n_relevant) for _ in source.names]
    values = [pl.col(f"value_{place}") for place in range(len(source.names))]
    known: list[pl.DataFrame] = []
    n_known, most = 0, MOST_KEPT
    with reading(source.table):
        for rows in source.table.stream([*plan.select(ids.USER_KEY), *values], most=BATCH_ROWS):
            kept = rows.filter(pl.col(ids.USER_KEY).is_not_null())
            codes = users.codes_of(ids.as_keys(kept[ids.USER_KEY]))
            is_known = codes >= 0
            kept, codes = kept.filter(pl.Series(is_known)), codes[is_known]
            if not users.are_ids_of_users(kept):
                raise ids.KeyCollisionError
            kept = kept.select(pl.Series(CODE, codes), *values)
            known.append(_without_repeats(kept) if (codes[1:] == codes[:-1]).any() else kept)
            n_known += known[-1].height
            if n_known > most:  # rows of a user lie apart
                known = [pl.concat(known).unique()]
                n_known = known[0].height
                most = max(MOST_KEPT, 2 * n_known)
    schema = source.table.frame.select(values).collect_schema()
    empty = pl.DataFrame(schema={CODE: pl.Int64, **schema})
    found = pl.concat([empty, *known])
    row_of_each = _row_of_each(found, n_users)
    if np.count_nonzero(row_of_each >= 0) == found.height:  # as a table of users has them
        return _gather(found.select(values), row_of_each)
    series: list[pl.Series] = []
    problems: list[EvalkitError] = []
    for place in range(len(source.names)):
        column = found.select(CODE, pl.col(f"value_{place}").alias("value"))
        with noting(problems):
            series.append(one_value_each(column, n_users, source, place, "users"))
    raise_all(problems)
    return series


def _without_repeats(rows: pl.DataFrame) -> pl.DataFrame:
    """Rows that differ from the row before: a user's rows mostly lie together."""
    changed = pl.any_horizontal(
        [pl.col(name).ne_missing(pl.col(name).shift()) for name in rows.columns]
    )
    first = pl.int_range(pl.len()) == 0
    return rows.filter(first | changed)


def one_value_each(
    found: pl.DataFrame, n_ids: int, source: SegmentTable, place: int, what: str
) -> pl.Series:
    """The value of each code, of rows with `code` and `value`; null where there is none.

    Raises:
        DataError: a user, or an item, has several values [segment-conflict].
    """
    rule, name = source.rules[place], source.names[place]
    if found["value"].dtype.is_float():
        found = found.with_columns(pl.col("value").fill_nan(None))
    found = found.drop_nulls("value")
    if found["value"].dtype == pl.Categorical:  # its order is no order
        found = found.with_columns(pl.col("value").cast(pl.String))
    rows = _row_of_each(found, n_ids)
    if np.count_nonzero(rows >= 0) < found.height:  # rows of one code
        groups = found.group_by(CODE).agg(
            pl.col("value").min().alias("min"), pl.col("value").max().alias("max")
        )
        if rule.pick == "same":
            several = groups.filter(pl.col("min") != pl.col("max"))
            if several.height:
                assert source.table is not None
                raise CountedError(
                    f"{{n}} {what} have several values of {name!r}",
                    several.height,
                    code="segment-conflict",
                    at=source.table.at,
                    hint='segments take pick = "min" or pick = "max"; a cluster is one for all '
                    "rows of a user",
                )
        chosen = "max" if rule.pick == "max" else "min"
        found = groups.select(CODE, pl.col(chosen).alias("value"))
        rows = _row_of_each(found, n_ids)
    return _gather(found.select("value"), rows)[0]


def _gather(found: pl.DataFrame, rows: Ints) -> list[pl.Series]:
    """The columns at some rows, null where a row is -1; NaN is null."""
    columns = [
        each.fill_nan(None) if each.dtype.is_float() else each for each in found.get_columns()
    ]
    columns = [each.cast(pl.String) if each.dtype == pl.Categorical else each for each in columns]
    if rows.size == found.height and np.array_equal(rows, np.arange(rows.size)):
        return columns
    index = pl.Series(rows)
    index = index.set(index < 0, None)
    return [each.gather(index) for each in columns]


def _row_of_each(found: pl.DataFrame, n_ids: int) -> Ints:
    """int64[n_ids], a row of each code; -1 where there is none."""
    rows = np.full(n_ids, -1, dtype=np.int64)
    rows[found[CODE].to_numpy()] = np.arange(found.height)
    return rows


def split_users(
    source: SegmentTable,
    values: Sequence[pl.Series],
    counted: Flags,
    edges: Mapping[str, Sequence[float]],
    seen: _buckets.SeenValues,
    threads: int,
) -> list[UserSegments]:
    """The segments that a table's values make.

    Args:
        counted: bool[n_users], users whose values make the quantiles.
        edges: of segmentations whose edges are known already, by name.
        seen: told of the values that make a segment each.
        threads: segmentations that are made side by side.
    Raises:
        RequestError: more groups than a report can hold [too-many-segments].
        DataError: buckets are to be made of what is no number [not-a-number].
    """
    at = source.table.at if source.table is not None else "truth"

    def split(number: int) -> UserSegments:
        name, rule, series = source.names[number], source.rules[number], values[number]
        inner: Sequence[float] = rule.edges or edges.get(name, ())
        if rule.quantiles is not None and name not in edges:
            inner = _buckets.quantile_edges(
                _buckets.as_numbers(series, at)[counted], rule.quantiles
            )
        place = f"{at}: {name}"
        note = partial(seen.note, name, place)
        return UserSegments(name, _buckets.group_values(series, rule, inner, place, note))

    def attempt(number: int) -> UserSegments | EvalkitError:
        try:
            return split(number)
        except EvalkitError as error:
            return error

    made = list(ordered_map(attempt, range(len(values)), threads=threads))
    raise_all([each for each in made if isinstance(each, EvalkitError)])
    return [each for each in made if isinstance(each, UserSegments)]


def cross_segments(one: UserSegments, other: UserSegments) -> UserSegments:
    """Users by two segmentations at once; an unknown half stays by its name."""
    n_one, n_other = len(one.groups.labels), len(other.groups.labels)
    both = one.groups.codes.astype(np.int64) * n_other + other.groups.codes
    present, codes = _buckets.without_gaps(both, n_one * n_other)
    labels: list[str] = []
    keys: list[_buckets.SortKey] = []
    for code in present.tolist():
        first, second = divmod(code, n_other)
        parts = (one.groups.labels[first], other.groups.labels[second])
        labels.append(" & ".join(part.replace(" &", " &&") for part in parts))
        keys.append(one.groups.keys[first] + other.groups.keys[second])
    groups = _buckets.IdGroups(tuple(labels), tuple(keys), codes)
    return UserSegments(f"{one.name} & {other.name}", groups)


def numbers_of(source: SegmentTable, truth: Truth, counted: Flags) -> dict[str, Floats]:
    """The numbers of the counted users, for each segmentation by quantiles."""
    at = source.table.at if source.table is not None else "truth"
    values = read_user_values(source, truth)
    return {
        name: _buckets.as_numbers(series, at)[counted]
        for name, rule, series in zip(source.names, source.rules, values, strict=True)
        if rule.quantiles is not None
    }


def read_weights(source: SegmentTable | None, truth: Truth) -> Floats | None:
    """float64[n_users], how much each user counts; None without a table.

    Raises:
        DataError: a user has no weight, one below 0 or above `MOST_WEIGHT` [bad-weight].
    """
    if source is None:
        return None
    at = source.table.at if source.table is not None else "truth"
    weights = _buckets.as_numbers(read_user_values(source, truth)[0], at)
    n_bad = int(np.count_nonzero(~((weights >= 0.0) & (weights <= MOST_WEIGHT))))
    if n_bad:
        message = f"{{n}} users have no weight, or one that is no number from 0 to {MOST_WEIGHT:g}"
        hint = 'give every user of the truth one, such as by = "coalesce(weight, 1)"'
        raise CountedError(message, n_bad, code="bad-weight", at=at, hint=hint)
    return weights


def read_clusters(source: SegmentTable | None, truth: Truth) -> Keys | None:
    """uint64[n_users], a stable hash of each user's cluster; None without a column.

    Raises:
        DataError: a user has no cluster [no-cluster].
    """
    if source is None:
        return None
    values = read_user_values(source, truth)[0]
    if values.null_count():
        raise no_cluster(source, values.null_count())
    return hash_clusters(values)


def no_cluster(source: SegmentTable, n_users: int) -> CountedError:
    """Users whose rows name no cluster."""
    return CountedError(
        "{n} users have no cluster",
        n_users,
        code="no-cluster",
        at=source.table.at if source.table is not None else "truth",
        hint="give every user one, or leave cluster out",
    )


def hash_clusters(values: pl.Series) -> Keys:
    """uint64[n_users], hashes of clusters that no version of any library changes."""
    frame = values.cast(pl.String).alias("user_0").to_frame()
    return ids.stable_hashes(
        frame, ids.plan_ids("user", [("truth", "", dict(frame.schema))], seed=1)
    )
