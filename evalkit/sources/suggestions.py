"""What files suggest that a config says of them: `evalkit init` writes it down."""

import os
from collections.abc import Sequence

import polars as pl

from evalkit.errors import EvalkitError
from evalkit.sources._source import Bare, Source, open_source
from evalkit.sources.delimited import SEPARATORS
from evalkit.sources.guess import BY_CONFIG, OF_ITEMS, ROLE_KEYS, Guessing, choose_columns
from evalkit.sources.heads import format_by_head
from evalkit.sources.paths import format_of
from evalkit.sources.splits import FEW, Splitter, find_splitters, sql_of_values
from evalkit.sources.times import form_of_dates
from evalkit.sources.trec import Kind

BLANK = "FILL_IN"  # no column is called so, and no SQL
TIME_FORMS = (  # of text, as `strptime` of SQL takes them
    "%Y-%m-%dT%H:%M:%S%.f",
    "%Y-%m-%d %H:%M:%S%.f",
    "%+",
    "%Y-%m-%d %H:%M:%S%.f UTC",
    "%Y-%m-%d %H:%M",
    "%Y-%m-%d",
)
GROUPING = (pl.String, pl.Categorical, pl.Enum, pl.Boolean)
LOOKED_AT = 1000  # rows that have to be of one form
KINDS_AMONG = 100_000  # rows whose kinds are looked for
MOST_KINDS = 6  # of rows, as views and purchases are


def guess_table(
    paths: Sequence[str], role: str
) -> tuple[dict[str, str], str | None, dict[str, str]]:
    """What a config has to say of files: their columns, and the format if no name tells it.

    `BLANK` stands for a column that no name suggests. The columns come again for profiles that
    look at scores alone.

    Raises:
        DataError: as `read_schema`.
    """
    source = _open(paths, None, role)
    keys = (*ROLE_KEYS[role], *OF_ITEMS) if role == "items" else None
    guessing = Guessing(order="both", blank=BLANK)
    both = choose_columns(role, None, source.names, guessing, keys=keys, at=source.at)
    columns = {key: str(column) for key, column in both.columns.items()}
    by_score = dict(columns)
    if {"rank", "score"} <= set(columns):
        del columns["score"], by_score["rank"]
    return columns, source.files[0].format if source.seems else None, by_score


def read_splitters(
    paths: Sequence[str], format: str | None = None, *, role: str, used: Sequence[str] = ()
) -> tuple[Splitter, ...]:
    """Columns that may split the rows of a table, without those that are `used`.

    Raises:
        DataError: as `read_schema`.
    """
    source = _open(paths, format, role)

    def open_column(name: str) -> pl.LazyFrame:
        frame = source.having(name).frame({name: "any"})
        return frame.select(pl.col(name).cast(pl.String).alias("split"))

    return find_splitters(source.schema(), used, None, open_column)


def read_schema(
    paths: Sequence[str], format: str | None = None, *, role: str
) -> dict[str, pl.DataType]:
    """Names and types of all columns; those of CSV files are text. What `guess_columns` takes.

    Raises:
        DataError: path-not-found, no-files, unknown-format, unreadable-file.
    """
    return _open(paths, format, role).schema()


def read_groups(
    paths: Sequence[str], format: str | None = None, *, used: Sequence[str] = ()
) -> dict[str, bool]:
    """Columns that may put users into few groups, and whether as numbers that have to be cut.

    Raises:
        DataError: as `read_schema`.
    """
    source = _open(paths, format, "users")
    groups = {}
    for name in source.names:
        if name in used:
            continue
        frame = source.having(name).frame({name: "any"})
        dtype = frame.collect_schema()[name]
        if not dtype.is_numeric() and dtype.base_type() not in GROUPING:
            continue
        n_values = frame.select(pl.col(name).n_unique()).collect(engine="streaming").item()
        if n_values > 1 and (dtype.is_numeric() or n_values <= FEW):
            groups[name] = n_values > FEW
    return groups


def read_kinds(
    paths: Sequence[str], format: str | None = None, *, role: str, used: Sequence[str] = ()
) -> tuple[str, list[str]] | None:
    """SQL that takes one kind of rows, as purchases, and the other kinds; None: all are alike.

    A kind is a value of the first column of text that has few of them, or the last one of a column
    that folders are named after, as days: of rankings those alone.

    Raises:
        DataError: as `read_schema`.
    """
    source = _open(paths, format, role)
    folders = {name for file in source.files for name, _ in file.partitions}
    for name in source.names:
        frame = source.having(name).frame({name: "any"})
        if name in used or frame.collect_schema()[name].base_type() not in GROUPING[:-1]:
            continue
        if name in folders:
            days = sorted({dict(file.partitions).get(name) or "" for file in source.files})
            if len(days) > 1:
                return sql_of_values(name, days[-1:]), days[-2:-MOST_KINDS:-1]
        if name in folders or role == "rankings":
            continue
        values = frame.select(pl.col(name).cast(pl.String)).head(KINDS_AMONG).drop_nulls()
        kinds = values.collect(engine="streaming").unique()[name].sort().to_list()
        if 1 < len(kinds) <= MOST_KINDS:
            return sql_of_values(name, kinds[:1]), kinds[1:]
    return None


def read_models(paths: Sequence[str], format: str | None, column: str) -> list[str]:
    """The first models that a column of rankings names, as far as the first rows tell.

    Raises:
        DataError: as `read_schema`.
    """
    frame = _open(paths, format, "rankings").having(column).frame({column: "any"})
    names = frame.select(pl.col(column).cast(pl.String)).head(KINDS_AMONG).unique().drop_nulls()
    return sorted(names.collect(engine="streaming")[column].to_list())[:MOST_KINDS]


def counts_from_zero(paths: Sequence[str], format: str | None, role: str, column: str) -> bool:
    """Whether a column of ranks begins at 0, as far as the first rows tell.

    Raises:
        DataError: as `read_schema`.
    """
    frame = _open(paths, format, role).having(column).frame({column: "any"})
    if not frame.collect_schema()[column].is_integer():
        return False
    return bool(frame.head(KINDS_AMONG).collect(engine="streaming")[column].min() == 0)


def read_time(
    paths: Sequence[str], format: str | None = None, *, role: str, column: str
) -> str | None:
    """The SQL that makes times of text, or of dates as numbers; None where none is needed or fits.

    Raises:
        DataError: as `read_schema`.
    """
    return time_of_text(_open(paths, format, role), column)


def time_of_text(source: Source, column: str) -> str | None:
    """As `read_time`, of a table that is open."""
    frame = source.having(column).frame({column: "any"}).select(pl.col(column).alias("time"))
    name = column if column.isidentifier() else f'"{column}"'
    dtype = frame.collect_schema()["time"]
    if dtype == pl.Float64 and any(file.format in SEPARATORS for file in source.files):
        return f"cast({name} as bigint)"  # whole seconds, as `time()` of Python writes them
    if dtype != pl.String and not dtype.is_integer():
        return None
    texts = frame.drop_nulls().head(LOOKED_AT).collect(engine="streaming")["time"]
    if dtype.is_integer():
        form = form_of_dates(texts)
        return form and f"strptime(cast({name} as varchar), '{form}')"
    for form in TIME_FORMS:
        if texts.len() and not texts.str.to_datetime(form, strict=False).has_nulls():
            return f"strptime({name}, '{form}')"
    return None


def told_form(
    paths: Sequence[str], format: str | None = None, *, role: str
) -> tuple[dict[str, object], str]:
    """What a config has to say of the form of files, beside columns; and their first row, where
    no line names the columns.

    Raises:
        DataError: as `read_schema`.
    """
    source = _open(paths, format, role)
    form: dict[str, object] = {}
    if any(format_of(file.path) is None for file in source.files):
        form["format"] = source.files[0].format
    if any(file.header is False for file in source.files):
        form["header"] = False
    row = source.frame(dict.fromkeys(source.names, "any")).head(1).collect() if form else None
    if row is None or "header" not in form:
        return form, ""
    return form, ", ".join(f"{name} {value!r}" for name, value in row.row(0, named=True).items())


def _open(paths: Sequence[str], format: str | None, role: str) -> Source:
    """The table; of text whose name tells no format and whose first line is a row, too."""
    kind: Kind = "run" if role in ("rankings", "log") else "qrels"
    header: bool | None = None
    while True:
        bare = Bare(tuple(paths), format, header)
        try:
            return open_source(role, bare, None, BY_CONFIG, kind=kind)
        except EvalkitError as error:
            codes = {each.code for each in getattr(error, "errors", [error])}
            if codes == {"no-header"} and header is None:
                header = False
            elif codes <= {"unknown-format", "no-files"} and format is None:
                format = next((form for path in paths if (form := _format_inside(path))), None)
                if format is None:
                    raise
            else:
                raise


def _format_inside(path: str) -> str | None:
    """The format that the first bytes of a file, or of the first file of a folder, tell."""
    if os.path.isdir(path):
        files = sorted(each for each in os.listdir(path) if each[0] not in "._")
        path = os.path.join(path, files[0]) if files else path
    return format_by_head(path) if os.path.isfile(path) else None
