"""Files as one lazy frame: each format's scan, and one type for a column of many files."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import polars as pl

from evalkit.config.credentials import reader_options
from evalkit.errors import DataError, EvalkitError, note, raise_all
from evalkit.sources import delimited
from evalkit.sources.arrow import CONTINUES
from evalkit.sources.checksums import FEW_FILES, check_pages, forget_order
from evalkit.sources.contents import check_content, check_header, is_blank
from evalkit.sources.failures import READ_FAULTS, describe, mapped
from evalkit.sources.paths import File, partitions_of
from evalkit.sources.times import in_utc
from evalkit.sources.trec import Kind, scan_trec, trec_schema
from evalkit.sources.versions import scan_version

Schema: TypeAlias = Mapping[str, pl.DataType]

_SIGNED = (pl.Int8, pl.Int16, pl.Int32, pl.Int64, pl.Int128)
_UNSIGNED = (pl.UInt8, pl.UInt16, pl.UInt32, pl.UInt64)
_TEXT = (pl.String, pl.Categorical, pl.Enum)
MOST_DIGITS = 38  # of a decimal that Polars reads


@dataclass(frozen=True, slots=True)
class FileScan:
    """Files of one table, their columns, and how to scan them.

    Args:
        files: ordered by path; their rows follow one another in that order.
        schemas: one for each file, partition columns included. Columns of CSV files are
            text until `frame` has looked at them.
        kind: what a TREC file is.
    """

    files: tuple[File, ...]
    schemas: tuple[Schema, ...]
    kind: Kind

    @property
    def names(self) -> tuple[str, ...]:
        """Columns of any of the files, in order of first appearance."""
        return tuple(dict.fromkeys(name for schema in self.schemas for name in schema))

    @property
    def schema(self) -> dict[str, pl.DataType]:
        """Each column's type in the first file that has it."""
        merged: dict[str, pl.DataType] = {}
        for schema in reversed(self.schemas):
            merged |= schema
        return {name: merged[name] for name in self.names}

    def having(self, name: str) -> "FileScan":
        """The files that have a column, one at least."""
        pairs = zip(self.files, self.schemas, strict=True)
        kept = [(file, schema) for file, schema in pairs if name in schema]
        files, schemas = zip(*kept, strict=True)
        return FileScan(files, schemas, self.kind)

    def frame(self, uses: Mapping[str, delimited.Use]) -> pl.LazyFrame:
        """The columns in `uses`, each of one type through all files.

        Raises:
            DataError: a file lacks a column, or has it with a type that does not fit the
                others' [schema-differs]; pages that cannot be what they claim [unreadable-file].
        """
        claims_order = check_pages(self.files, uses)
        schemas = _with_csv_types(self.files, self.schemas, uses)
        types = in_utc(_common_types(self.files, schemas, uses))
        if _scans_as_one(self.files, schemas, types):
            frame = _scan_parquet(self.files, types)
            return forget_order(frame, types) if claims_order else frame
        frames = [
            _select(_scan(file, schema, types, self.kind), file, schema, types)
            for file, schema in zip(self.files, schemas, strict=True)
        ]
        frame = pl.concat(frames, how="vertical") if len(frames) > 1 else frames[0]
        return forget_order(frame, types) if claims_order else frame


def scan_file(file: File, types: Schema, kind: Kind) -> pl.LazyFrame:
    """Columns of one file of a table, in the types that they have through all of its files."""
    schema = _schema(file, kind)
    if file.format in delimited.SEPARATORS:
        schema = {**schema, **types}
    return _select(_scan(file, schema, types, kind), file, schema, types)


_HEADED = "write header = false, and columns as column_1, column_2 (header = true: it names them)"


def open_files(files: Sequence[File], kind: Kind, headed: str = _HEADED) -> FileScan:
    """The schemas of files; nothing else is read, but for NDJSON, whose types stand in its rows.

    Empty text files (as engines write for empty partitions) count as files without rows.

    Args:
        headed: how somebody says whether the first line of a text file names its columns.

    Raises:
        DataError: a file cannot be read [unreadable-file], a text file names a column twice
            [duplicate-column], or its first line looks like a row [no-header].
    """
    errors: list[EvalkitError] = []
    kept, schemas = [], []
    for file in files:
        if is_blank(file):
            continue
        try:
            check_content(file, is_many=len(files) > FEW_FILES)
            schema = _schema(file, kind)
            check_header(file, schema, headed)
        except DataError as error:
            errors.append(error)
            continue
        except READ_FAULTS as error:
            note(describe(error, file.path), errors)
            continue
        inside = tuple(pair for pair in file.partitions if pair[0] not in schema)
        kept.append(replace(file, partitions=inside))
        schemas.append(schema)
    raise_all(errors)
    if not kept:
        raise DataError(
            "the file is empty: it does not even name columns",
            code="unreadable-file",
            at=", ".join(file.path for file in files[:3]),
            hint="write the header line, or leave the file out",
        )
    types = _partition_types(kept)
    schemas = [
        {**schema, **{name: types[name] for name, _ in file.partitions}}
        for file, schema in zip(kept, schemas, strict=True)
    ]
    return FileScan(tuple(kept), tuple(schemas), kind)


# ---------------------------------------------------------------- one file


def _schema(file: File, kind: Kind) -> Schema:
    if file.format == "trec":
        return trec_schema(kind)
    if file.format in delimited.SEPARATORS:
        return dict.fromkeys(delimited.columns_of(file), pl.String())
    return _plain_scan(file).collect_schema()


def _pattern(file: File) -> str:
    # scan_ipc and scan_ndjson always read their path as a pattern.
    return file.path if file.remote else file.path.translate(_LITERAL)


_LITERAL = str.maketrans({"[": "[[]", "*": "[*]", "?": "[?]"})


def _plain_scan(file: File) -> pl.LazyFrame:
    if file.version is not None:
        return scan_version(file.path, file.format, file.version.number)
    options = reader_options(file.path) if file.remote else None
    if file.format == "parquet":
        return pl.scan_parquet(
            file.path,
            glob=file.remote,
            hive_partitioning=file.remote,
            use_statistics=file.remote,  # wrong ones would leave out rows; to look costs 2 ns a row
            cast_options=pl.ScanCastOptions(integer_cast="upcast"),
            storage_options=options,
        )
    if file.format == "ipc":
        if _is_ipc_stream(file):
            return pl.read_ipc_stream(file.path).lazy()
        return pl.scan_ipc(_pattern(file), hive_partitioning=False, storage_options=options)
    return pl.scan_ndjson(_pattern(file), infer_schema_length=None, storage_options=options)


def _is_ipc_stream(file: File) -> bool:
    if file.remote:
        return False
    with open(file.path, "rb") as stream:
        return stream.read(len(CONTINUES)) == CONTINUES


def _scan(file: File, schema: Schema, types: Schema, kind: Kind) -> pl.LazyFrame:
    if file.format == "trec":
        return scan_trec(file.path, kind)
    if file.format in delimited.SEPARATORS:
        inside = dict(file.partitions)
        texts = {name: dtype for name, dtype in types.items() if name not in inside}
        frame = delimited.scan_delimited(file, _own_names(file, schema), texts)
        # Polars reads an empty line as a row of nulls.
        rows = [pl.col(name).is_not_null() for name in texts]
        return frame.filter(pl.any_horizontal(rows)) if rows else frame
    return _plain_scan(file)


def _own_names(file: File, schema: Schema) -> list[str]:
    """The columns that stand in a file, and not in its path."""
    inside = dict(file.partitions)
    return [name for name in schema if name not in inside]


def _select(frame: pl.LazyFrame, file: File, schema: Schema, types: Schema) -> pl.LazyFrame:
    inside = dict(file.partitions)
    return frame.select(
        pl.lit(inside[name], dtype=pl.String).cast(dtype).alias(name)
        if name in inside
        else pl.col(name)
        if schema[name] == dtype
        else pl.col(name).cast(dtype)
        for name, dtype in types.items()
    )


# ---------------------------------------------------------------- many files


def _partition_types(files: Sequence[File]) -> dict[str, pl.DataType]:
    """Types of the partition columns: integers where all values are, and none is written twice."""
    values: dict[str, list[str | None]] = {}
    for file in files:
        for name, value in file.partitions:
            values.setdefault(name, []).append(value)
    types: dict[str, pl.DataType] = {}
    for name, texts in values.items():
        given = pl.Series(texts, dtype=pl.String).drop_nulls()
        whole = given.cast(pl.Int64, strict=False)
        is_whole = not given.is_empty() and not whole.has_nulls()
        is_whole = is_whole and whole.n_unique() == given.n_unique()  # 01 is not 1
        types[name] = pl.Int64() if is_whole else pl.String()
    return types


def _scans_as_one(files: Sequence[File], schemas: Sequence[Schema], types: Schema) -> bool:
    """Whether Polars' own scan of many Parquet files gives these columns and types."""
    if any(file.format != "parquet" or file.remote for file in files):
        return False
    from_path = [name for name in types if any(name in dict(file.partitions) for file in files)]
    folders = {name for file in files for name, _ in partitions_of(file.path)}
    if any(name not in dict(file.partitions) for name in from_path for file in files):
        return False
    if from_path and any(name in folders for name in types if name not in from_path):
        return False  # Polars would let the folder's value hide the file's column
    return all(
        schema[name] == dtype or (dtype.is_integer() and schema[name].is_integer())
        for schema in schemas
        for name, dtype in types.items()
    )


def _scan_parquet(files: Sequence[File], types: Schema) -> pl.LazyFrame:
    partitions = {name: dtype for name, dtype in types.items() if name in dict(files[0].partitions)}
    in_files = {name: dtype for name, dtype in types.items() if name not in partitions}
    # Polars wants a type for each key=value folder of a path, used or not.
    others = {name: pl.String() for file in files for name, _ in partitions_of(file.path)}
    frame = pl.scan_parquet(
        [file.path for file in files],
        glob=False,
        schema=in_files,
        extra_columns="ignore",
        use_statistics=False,
        hive_partitioning=bool(partitions),
        hive_schema={**others, **partitions} if partitions else None,
        cast_options=pl.ScanCastOptions(integer_cast="upcast"),
    )
    return frame.select(list(types))


def _common_types(
    files: Sequence[File], schemas: Sequence[Schema], uses: Mapping[str, delimited.Use]
) -> dict[str, pl.DataType]:
    types: dict[str, pl.DataType] = {}
    errors = []
    for name in uses:
        having = [
            (file, schema[name])
            for file, schema in zip(files, schemas, strict=True)
            if name in schema
        ]
        lacking = [file for file, schema in zip(files, schemas, strict=True) if name not in schema]
        if lacking:
            errors.append(_lacks(name, lacking, len(files), having[0][0]))
            continue
        first_file, common = having[0]
        for file, dtype in having[1:]:
            joined = _join(common, dtype, loose=file.format == "ndjson" == first_file.format)
            if joined is None:
                errors.append(_differs(name, first_file, common, file, dtype))
                break
            common = joined
        if isinstance(common, pl.Decimal) and common.precision > MOST_DIGITS:
            errors.append(_too_wide(name, common, first_file))
        types[name] = common
    raise_all(errors)
    return types


def _lacks(name: str, lacking: Sequence[File], n_files: int, having: File) -> DataError:
    return DataError(
        f"{len(lacking)} of {n_files} files have no column {name!r}, as {having.path} has",
        code="schema-differs",
        at=", ".join(file.path for file in lacking[:3]) + (", ..." if len(lacking) > 3 else ""),
        hint="write these files again with one schema, or leave them out of path",
    )


def _differs(
    name: str, first: File, first_type: pl.DataType, other: File, other_type: pl.DataType
) -> DataError:
    message = f"column {name!r} is {other_type} here but {first_type} in {first.path}"
    hint = "write these files again with one schema"
    return DataError(message, code="schema-differs", at=other.path, hint=hint)


def _too_wide(name: str, dtype: pl.Decimal, file: File) -> DataError:
    message = f"column {name!r} has numbers of {dtype.precision} digits, more than {MOST_DIGITS}"
    hint = "write it again with at most so many, or as float64 where it is no id"
    return DataError(message, code="bad-type", at=file.path, hint=hint)


def _join(one: pl.DataType, other: pl.DataType, *, loose: bool) -> pl.DataType | None:
    """The type that holds both without a change of any value; None when they do not fit."""
    if one == other:
        return one
    if one == pl.Null:
        return other
    if other == pl.Null:
        return one
    if isinstance(one, pl.List) and isinstance(other, pl.List):
        inner = _join(_dtype(one.inner), _dtype(other.inner), loose=loose)
        return None if inner is None else pl.List(inner)
    if one.base_type() in _TEXT and other.base_type() in _TEXT:
        return pl.String()
    if loose and one.is_numeric() and other.is_numeric() and (one.is_float() or other.is_float()):
        return pl.Float64()  # JSON has one kind of number
    if not one.is_integer() or not other.is_integer():
        return None
    for family in (_SIGNED, _UNSIGNED):
        if one.base_type() in family and other.base_type() in family:
            return max(one, other, key=lambda dtype: family.index(dtype.base_type()))
    signed, unsigned = (one, other) if one.base_type() in _SIGNED else (other, one)
    place = max(_SIGNED.index(signed.base_type()), _UNSIGNED.index(unsigned.base_type()) + 1)
    return _SIGNED[place]() if place < len(_SIGNED) - 1 else None


def _dtype(dtype: object) -> pl.DataType:
    return dtype() if isinstance(dtype, type) else dtype  # type: ignore[return-value]


# ---------------------------------------------------------------- text files


def _with_csv_types(
    files: Sequence[File], schemas: Sequence[Schema], uses: Mapping[str, delimited.Use]
) -> tuple[Schema, ...]:
    """Schemas in which the used columns of CSV files have the type that all their rows fit.

    One pass over these columns decides, so that a type does not depend on which rows stand
    first. Ids are integers only if each is spelt as Polars would print it: `007`, `+7` and
    `7.0` make the column text.
    """
    places = [place for place, file in enumerate(files) if file.format in delimited.SEPARATORS]
    if not places:
        return tuple(schemas)
    partitions = {name for file in files for name, _ in file.partitions}
    common = [
        name
        for name in uses
        if name not in partitions and all(name in schemas[place] for place in places)
    ]
    types: dict[str, pl.DataType] = {}
    errors: list[EvalkitError] = []
    at = files[places[0]].path + (", ..." if len(places) > 1 else "")
    frames = []
    for place in places:
        names = _own_names(files[place], schemas[place])
        rows = delimited.scan_delimited(files[place], names, {})
        frames.append(rows.select(*(pl.col(name) for name in common), *delimited.doubts(names)))
    rows = pl.concat(frames)
    # what most columns are is asked first: more is asked of the others
    tests = [
        test for name in common for test in delimited.type_tests(name, uses[name], is_first=True)
    ]
    with mapped(at, lambda error: None):
        tests += [pl.col(delimited.SHORT).any(), pl.col(delimited.LONG).any()]
        row = rows.select(tests).collect(engine="streaming").row(0, named=True)
        if row[delimited.SHORT] or row[delimited.LONG]:
            _refuse_ragged([(files[place], schemas[place]) for place in places])
        others = [
            name for name in common if not row[f"{name} {delimited.CANDIDATES[uses[name]][0]}"]
        ]
        tests = [test for name in others for test in delimited.type_tests(name, uses[name])]
        if tests:
            row |= rows.select(tests).collect(engine="streaming").row(0, named=True)
    has_values = any(row[f"{name} any"] for name in common)
    for name in common:
        candidates = delimited.CANDIDATES[uses[name]]
        types[name] = next((each for each in candidates if row.get(f"{name} {each}")), pl.String())
        if not row[f"{name} any"]:
            types[name] = pl.String() if has_values else pl.Null()
        elif uses[name] == "number" and types[name] == pl.String:
            errors.append(_no_number(name, row[f"{name} text"], at))
        elif row.get(f"{name} word") is not None:
            errors.append(_no_id(name, row[f"{name} word"], at))
    raise_all(errors)
    return tuple(
        {**schema, **types} if place in places else schema for place, schema in enumerate(schemas)
    )


def _refuse_ragged(files: Sequence[tuple[File, Schema]]) -> None:
    found = [delimited.ragged_row(file, len(_own_names(file, schema))) for file, schema in files]
    raise_all([error for error in found if error is not None])


_NUMBERS_AS_TEXT = {  # and the SQL that makes numbers of them
    r"[+-]?\d*,\d+": "cast(replace({}, ',', '.') as double)",
    r"[+-]?[\d.]+ ?%": "cast(replace(replace({}, '%', ''), ' ', '') as double)",
    r"(?i)\\+N|null|na|n/a|<na>|none": "try_cast({} as double), which makes nulls of such words",
    r"(?i)true|false": "case when lower({}) = 'true' then 1 else 0 end",
}


def _no_id(name: str, word: str, at: str) -> DataError:
    kind = "sum" if word in delimited.SUMS else "null"
    message = f"column {name!r} has ids that are numbers, and {word!r}, which looks like a {kind}"
    column = name if name.isidentifier() else f'"{name}"'
    hint = f"read it as try_cast({column} as bigint), which makes nulls of such words, or as "
    hint += f"cast({column} as varchar), which keeps them as ids"
    return DataError(message, code="null-id", at=f"{at}: column {name!r}", hint=hint)


def _no_number(name: str, value: str, at: str) -> DataError:
    message = f"column {name!r} must be a number, and one of its values is {value!r}"
    hint = "correct the file, or name another column"
    column = name if name.isidentifier() else f'"{name}"'
    for form, sql in _NUMBERS_AS_TEXT.items():
        if re.fullmatch(form, value):
            hint = f"read it as {sql.format(column)}, or name another column"
    return DataError(message, code="not-a-number", at=f"{at}: column {name!r}", hint=hint)
