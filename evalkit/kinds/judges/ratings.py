"""From rows to a table of units and judges; every row that does not fit is refused or counted."""

import datetime
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl

from evalkit.errors import DataError
from evalkit.kernels.arrays import Floats, Ints
from evalkit.kinds.judges.declaration import JudgesTable
from evalkit.statistics.agreement import MISSING

MOST = 1e100  # squares of levels, and their sums, are far from the end of float64


@dataclass(frozen=True, slots=True)
class Ratings:
    """What every judge said of every unit.

    Args:
        units: `user_0`, ..., in an order that their types do not change; a row a unit.
        judges: their names, sorted.
        codes: int64[n_units, n_judges], places among the levels, or `MISSING`.
        levels: float64[n_levels], ascending; of texts their places.
        names: of the levels, as they were written.
        gold: int64[n_units], the known rating's place, or `MISSING`.
        seconds: float64[n_units, n_judges] that a rating took, NaN where unknown; None without.
        segments: by segmentation, the segment of each unit.
        n_rows, n_null: rows, and those without a rating.
        knows_levels: the config names the levels, or the type of the column does.
    """

    units: pl.DataFrame
    judges: tuple[str, ...]
    codes: Ints
    levels: Floats
    names: tuple[str, ...]
    gold: Ints
    seconds: Floats | None
    segments: dict[str, npt.NDArray[np.object_]]
    n_rows: int
    n_null: int
    knows_levels: bool

    @property
    def are_texts(self) -> bool:
        """Whether a level is no number: then all are texts, in the order that they have."""
        return pl.Series(self.names).cast(pl.Float64, strict=False).null_count() > 0

    def of(self, judges: Sequence[str]) -> Ints:
        """The ratings of some judges."""
        return self.codes[:, [self.judges.index(judge) for judge in judges]]


def long_rows(frame: pl.DataFrame, judges: Sequence[str]) -> pl.DataFrame:
    """Rows of one rating each, of a table with a column for each judge."""
    wide = [name for name in frame.columns if name.startswith("ratings_")]
    if not wide:
        return frame
    named = dict(zip(wide, judges, strict=True))
    return frame.unpivot(
        wide,
        index=[name for name in frame.columns if name not in wide],
        variable_name="judge",
        value_name="rating",
    ).with_columns(pl.col("judge").replace_strict(named))


def read_ratings(
    frame: pl.DataFrame, section: JudgesTable, segmentations: Sequence[str], *, at: str
) -> Ratings:
    """The table of units and judges.

    Raises:
        DataError: a unit or judge is null [null-id], a rating is none of the levels
            [unknown-level], a judge rated a unit twice [duplicate-rating], a unit is in two
            segments [segment-varies], or nobody rated anything [empty-input].
    """
    frame = long_rows(frame, section.columns.ratings or ())
    unit_columns = [name for name in frame.columns if name.startswith("user_")]
    # text of what is written, so that 2 and 2.0 are one level
    dtype = frame.schema["rating"]
    of_type = dtype.categories.to_list() if isinstance(dtype, pl.Enum) else []
    declared = section.levels or of_type
    rating = _level_of(frame, "rating", declared)
    frame = frame.with_columns(pl.col("judge").cast(pl.String), rating)
    n_rows, n_null = frame.height, frame["rating"].null_count()
    # a plan's row that nobody took has neither
    frame = frame.filter(~pl.all_horizontal(pl.col("judge", "rating").is_null()))
    nulls = frame.filter(pl.any_horizontal(pl.col(*unit_columns, "judge").is_null())).height
    if nulls:
        message = f"{nulls:,} rows have no unit or no judge"
        raise DataError(message, code="null-id", at=at, hint="where = ... leaves them out")
    rated = frame.filter(pl.col("rating").is_not_null())
    if not rated.height:
        raise DataError("no row has a rating", code="empty-input", at=at)
    if not declared:
        _refuse_several(rated["rating"], at)
    levels, names = _levels_of(rated["rating"], declared, section.kind, at)
    _refuse_strange(rated["rating"], names, "ratings", at)
    _refuse_twice(rated, [*unit_columns, "judge"], at)
    units = in_order(frame.select(unit_columns).unique(), unit_columns)
    judges = frame["judge"].unique().sort()
    placed = rated.join(units.with_row_index("unit"), on=unit_columns, how="left")
    rows = placed["unit"].to_numpy()
    columns = judges.search_sorted(placed["judge"]).to_numpy()
    codes = np.full((units.height, len(judges)), MISSING, np.int64)
    place = {name: number for number, name in enumerate(names)}
    codes[rows, columns] = placed["rating"].replace_strict(place, return_dtype=pl.Int64).to_numpy()
    gold = np.full(units.height, MISSING, np.int64)
    if "gold" in frame.columns:
        frame = frame.with_columns(_level_of(frame, "gold", declared))
        _refuse_strange(frame["gold"].drop_nulls(), names, "known ratings", at)
        known = _of_units(frame, units, "gold", "has two known ratings", at)
        given = known.replace_strict(place, default=MISSING, return_dtype=pl.Int64)
        gold = given.fill_null(MISSING).to_numpy()
    seconds = None
    if "time" in frame.columns:
        seconds = np.full(codes.shape, np.nan)
        seconds[rows, columns] = _seconds_of(placed, at)
    segments = {
        name: _of_units(
            frame, units, f"segment_{number}", f"is in two segments of {name!r}", at
        ).to_numpy()
        for number, name in enumerate(segmentations)
    }
    return Ratings(
        *(units, tuple(judges), codes, levels, names, gold, seconds, segments, n_rows, n_null),
        knows_levels=bool(declared),
    )


def in_order(frame: pl.DataFrame, ids: Sequence[str]) -> pl.DataFrame:
    """Rows by ids as text, shorter ones first: 2 before 10, as numbers and as texts."""
    texts = [
        pl.col(name).bin.encode("hex")
        if frame.schema[name] == pl.Binary
        else pl.col(name).cast(pl.String)
        for name in ids
    ]
    return frame.sort([key for text in texts for key in (text.str.len_bytes(), text)])


def _level_of(frame: pl.DataFrame, name: str, declared: Sequence[str | float]) -> pl.Expr:
    """Levels as text; an empty one is none, as an empty cell of a CSV file."""
    text = _text_of(pl.col(name), frame.schema[name])
    return text if "" in declared else text.replace("", None)


def _text_of(column: pl.Expr, dtype: pl.DataType) -> pl.Expr:
    if dtype.is_float() or dtype.is_decimal():
        column = column.cast(pl.Float32 if dtype == pl.Float32 else pl.Float64).fill_nan(None)
        whole = column.cast(pl.Int64, strict=False)
        text = (
            pl.when(whole == column).then(whole.cast(pl.String)).otherwise(column.cast(pl.String))
        )
        return text.alias(column.meta.output_name())
    return column.cast(pl.String)


def _levels_of(
    ratings: pl.Series, given: Sequence[str | float], kind: str, at: str
) -> tuple[Floats, tuple[str, ...]]:
    """The levels' values, ascending, and how they are written."""
    written = [
        pl.select(_text_of(pl.lit(level), pl.Float64())).item()
        if isinstance(level, float) and math.isfinite(level)
        else str(level)
        for level in given
    ]
    names = written or ratings.unique().sort().to_list()
    numbers = pl.Series(names, dtype=pl.String).cast(pl.Float64, strict=False)
    if numbers.null_count():  # texts: their places, the first where one stands there twice
        values = np.array([names.index(name) for name in names], dtype=np.float64)
    else:
        values = numbers.to_numpy()
    order = np.argsort(values, kind="stable")
    values, names = values[order], [names[place] for place in order]
    for is_odd, what in (
        (~np.isfinite(values), "is no finite number"),
        (np.abs(values) > MOST, f"is beyond {MOST:g}"),
        (np.append(values[1:] == values[:-1], False), "stands there twice"),
        ((values < 0) & (kind == "ratio"), 'is below 0, and kind = "ratio" starts there'),
    ):
        if is_odd.any():
            name = names[int(is_odd.argmax())]
            hint = "levels under [judges] name each once, from low to high"
            raise DataError(f"level {name!r} {what}", code="unknown-level", at=at, hint=hint)
    return values, tuple(names)


def _refuse_strange(written: pl.Series, names: Sequence[str], what: str, at: str) -> None:
    strange = written.filter(~written.is_in(list(names)))
    if strange.len():
        some = ", ".join(map(repr, strange.unique().sort().head(3)))
        message = f"{strange.len():,} {what} are none of the levels {', '.join(names)}: {some}"
        hint = "add them to levels under [judges]; where = ... leaves them out"
        raise DataError(message, code="unknown-level", at=at, hint=hint)


def _refuse_several(written: pl.Series, at: str) -> None:
    """Lists and objects of JSON: what a control of several choices gave is no level."""
    several = written.filter(written.str.contains(r'^(\[.*\]|\{".*\})$'))
    several = several.filter(several.map_elements(_is_json, return_dtype=pl.Boolean))
    if several.len():
        message = f"{several.len():,} ratings are several in one: {several[0]!r}"
        hint = "where = ... leaves them out; levels under [judges] takes each for a level"
        raise DataError(message, code="unknown-level", at=at, hint=hint)


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


def _refuse_twice(rated: pl.DataFrame, keys: list[str], at: str) -> None:
    twice = rated.group_by(keys).len().filter(pl.col("len") > 1).sort(keys)
    if twice.height:
        *unit, judge, _ = twice.row(0)
        raise DataError(
            f"{twice.height:,} times a judge rated a unit twice: {judge!r} rated "
            f"{', '.join(map(str, unit))}",
            code="duplicate-rating",
            at=at,
            hint="name the unit by more columns; where = ... leaves them out",
        )


def _seconds_of(placed: pl.DataFrame, at: str) -> Floats:
    """Seconds that each rating took: as given, or since the judge's rating before."""
    if placed.schema["time"].is_temporal():
        moments = placed.with_row_index("row").sort("judge", "time")
        gaps = moments.with_columns(
            (pl.col("time").diff().over("judge") / datetime.timedelta(seconds=1)).alias("gap")
        )
        return gaps.sort("row")["gap"].cast(pl.Float64).to_numpy()
    seconds = placed["time"].cast(pl.Float64, strict=False)
    if seconds.null_count() > placed["time"].null_count():
        message = "time holds texts that are no seconds"
        hint = 'moments are read of text by time = "cast(... as timestamp)" under columns'
        raise DataError(message, code="not-a-number", at=at, hint=hint)
    return seconds.to_numpy()


def _of_units(
    frame: pl.DataFrame, units: pl.DataFrame, column: str, what: str, at: str
) -> pl.Series:
    """What a column says of each unit, null where it says nothing."""
    said = pl.col(column).cast(pl.String)
    is_gold = column == "gold"  # which need not stand on every row
    found = frame.select(*units.columns, said)
    found = (found.drop_nulls(column) if is_gold else found).unique()
    twice = found.group_by(units.columns).len().filter(pl.col("len") > 1)
    if twice.height:
        message = f"{twice.height:,} times a unit {what}"
        hint = "it is the same on all rows of a unit"
        raise DataError(message, code="segment-varies", at=at, hint=hint)
    return units.join(found, on=units.columns, how="left", maintain_order="left")[column]
