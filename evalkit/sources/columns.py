"""Columns of a table: names or SQL over names, checked before anything but a schema is read."""

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import polars as pl

from evalkit.errors import DataError, EvalkitError, nearest, raise_all
from evalkit.sources.delimited import Use
from evalkit.sources.failures import PanicException, first_line, mapped
from evalkit.sources.guess import best_guess, some_names
from evalkit.sources.scan import Schema
from evalkit.sources.sql_words import Refused

_NUMBERS = ("relevance", "rank", "score", "label", "rating", "prediction", "weight", "propensity")
_USES: dict[str, Use] = dict.fromkeys(_NUMBERS, "number")
_LARGEST: Mapping[object, int] = {  # absolute value of an integer
    pl.Int8: 1 << 7, pl.Int16: 1 << 15, pl.Int32: 1 << 31, pl.Int64: 1 << 63,
    pl.UInt8: 1 << 8, pl.UInt16: 1 << 16, pl.UInt32: 1 << 32, pl.UInt64: 1 << 64,
    pl.Int128: (1 << 127) - 1, pl.UInt128: (1 << 127) - 1,
}  # fmt: skip
ORDER = "order"  # our name of what rows are put in order by
_PLAIN_NAME = re.compile(r"[^\W\d][\w .\-:/]*")


@dataclass(frozen=True, slots=True)
class Wanted:
    """One column that a table shall have, and what the config says it is.

    Args:
        key: the config's word: user, item, relevance, label, rank, score or model.
        output: the name that it gets.
        text: a column name or an SQL expression.
        use: of columns that a kind declares; of others the output tells.
    """

    key: str
    output: str
    text: str
    use: Use | None = None


@dataclass(frozen=True, slots=True)
class ColumnPlan:
    """Expressions that make the wanted columns from those that a table has."""

    role: str
    at: str
    wanted: tuple[Wanted, ...]
    expressions: tuple[pl.Expr, ...]
    where: pl.Expr | None
    where_text: str | None
    uses: Mapping[str, Use]

    def apply(self, frame: pl.LazyFrame) -> pl.LazyFrame:
        """`frame` with `where` applied and the wanted columns under their names."""
        if self.where is not None:
            frame = frame.filter(self.where)
        return frame.select(
            expression.alias(each.output)
            for each, expression in zip(self.wanted, self.expressions, strict=True)
        )

    def stored(self) -> dict[str, str]:
        """Output -> the column that it is, as it stands; none where rows are left out."""
        outputs = [each.output for each in self.wanted] if self.where is None else []
        columns = zip(outputs, self.expressions, strict=False)
        return {
            output: each.meta.output_name() for output, each in columns if each.meta.is_column()
        }


def plan_columns(
    role: str, wanted: Sequence[Wanted], where: str | None, names: Sequence[str], *, at: str
) -> ColumnPlan:
    """What to read of a table with the columns `names`.

    A name that exists wins over SQL of the same text.

    Raises:
        DataError: columns are missing, all told at once [missing-column], or SQL cannot be
            parsed [bad-sql].
    """
    errors: list[EvalkitError] = []
    missing: list[tuple[Wanted, str]] = []
    uses: dict[str, Use] = {}
    expressions = []
    for column in wanted:
        if column.text in names:
            expressions.append(pl.col(column.text))
            _note_use(uses, column.text, _use_of(column))
            continue
        expression = _parse(column.text, names)
        roots = _roots(expression)
        absent = [root for root in roots if root not in names]
        if _is_a_name(column.text, expression, names):
            missing.append((column, column.text))
        elif isinstance(expression, Refused):
            errors.append(_bad_sql(column.key, column.text, expression, role, at, names))
        elif absent:
            missing += [(column, name) for name in absent]
        elif not roots and column.key in ("user", "session", "item", "rank", ORDER):
            errors.append(_bad_sql(column.key, column.text, "it names no column", role, at, names))
        else:
            expressions.append(expression)
            for root in roots:
                _note_use(uses, root, "any")
    predicate = None
    if where is not None:
        parsed = _parse(where, names)
        if isinstance(parsed, Refused):
            errors.append(_bad_sql("where", where, parsed, role, at, names))
        else:
            predicate = parsed
            for root in _roots(parsed):
                if root in names:
                    _note_use(uses, root, "any")
                else:
                    missing.append((Wanted("where", "", where), root))
    if missing:
        errors.insert(0, _missing_error(role, missing, names, uses, at))
    raise_all(errors)
    return ColumnPlan(role, at, tuple(wanted), tuple(expressions), predicate, where, uses)


def _section_of(role: str) -> str:
    return "[segments]" if role == "segments" else f"[{role}.columns]"


def _use_of(wanted: Wanted) -> Use:
    if wanted.key in ("by", "published", ORDER):
        return "any"
    if wanted.key == "vector":
        return "number"
    return wanted.use or _USES.get(wanted.output, "id")


def _note_use(uses: dict[str, Use], name: str, use: Use) -> None:
    order: tuple[Use, ...] = ("any", "number", "id")
    uses[name] = max(uses.get(name, use), use, key=order.index)


# ---------------------------------------------------------------- SQL


def _parse(text: str, names: Collection[str]) -> pl.Expr | Refused:
    """The expression, or why there is none."""
    from evalkit.sources.sql import check_expression

    try:
        return pl.sql_expr(check_expression(text, names).text)
    except Refused as refused:
        return refused
    except (pl.exceptions.PolarsError, PanicException) as error:
        return Refused(first_line(error), hint="")


def typed_plan(plan: ColumnPlan, schema: pl.Schema) -> ColumnPlan:
    """The plan, where no integer of these types goes around.

    Raises:
        DataError: it computes with integers that may be too large [bad-sql].
    """
    errors: list[EvalkitError] = []

    def widened(key: str, text: str, expression: pl.Expr) -> pl.Expr:
        if text in schema:
            return expression
        try:
            return _widened(text, expression, schema)
        except Refused as why:
            errors.append(_bad_sql(key, text, why, plan.role, plan.at, list(schema)))
        return expression

    expressions = tuple(
        widened(each.key, each.text, expression)
        for each, expression in zip(plan.wanted, plan.expressions, strict=True)
    )
    where = plan.where
    if where is not None and plan.where_text is not None:
        where = widened("where", plan.where_text, where)
    raise_all(errors)
    return replace(plan, expressions=expressions, where=where)


def _widened(text: str, expression: pl.Expr, schema: pl.Schema) -> pl.Expr:
    from evalkit.sources.sql import check_expression

    types = {name: schema[name] for name in _roots(expression) if name in schema}
    largest = {
        name: -_LARGEST[_inner(dtype)] if _is_list(dtype) else _LARGEST[dtype]
        for name, dtype in types.items()
        if _inner(dtype) in _LARGEST
    }
    times = {
        name: getattr(dtype, "time_unit", None) == "ns"
        for name, dtype in types.items()
        if dtype.is_temporal()
    }
    wide = pl.sql_expr(check_expression(text, schema.names(), largest, times).text)
    if any(dtype in (pl.UInt64, pl.Int128, pl.UInt128) for dtype in types.values()):
        return wide
    try:
        dtype = pl.LazyFrame(schema=schema).select(wide.alias("wide")).collect_schema()["wide"]
    except pl.exceptions.PolarsError:
        return wide  # told where all types are checked
    return wide.cast(pl.Int64) if dtype == pl.Int128 else wide


def _roots(expression: pl.Expr | Refused) -> list[str]:
    if isinstance(expression, Refused):
        return []
    return list(dict.fromkeys(expression.meta.root_names()))


def _is_a_name(text: str, expression: pl.Expr | Refused, names: Collection[str]) -> bool:
    """Whether text that is no column was meant as one: a word, or words that are no SQL."""
    if re.fullmatch(r'[^\W\d]\w*|"[^"]*"', text):
        return True
    is_sql = any(root in names for root in _roots(expression))
    return not is_sql and _PLAIN_NAME.fullmatch(text) is not None


def _bad_sql(
    key: str, text: str, why: Refused | str, role: str, at: str, names: Sequence[str]
) -> DataError:
    hint = why.hint if isinstance(why, Refused) else ""
    why = str(why)
    if "date/datetime/time" in why or "string value" in why:
        hint = hint or "write dates as date '2024-01-31'"
    elif "comparison between series" in why and "Datetime" in why:
        hint = hint or "in UTC: cast(COLUMN as timestamp) >= timestamp '2026-01-31 00:00:00'"
    elif "string with numeric" in why:
        hint = hint or "compare like with like: quote text, not numbers, or cast(... as double)"
    columns = f"it has {some_names(names)}; names with other characters stand in double quotes"
    return DataError(
        f"{key} = {text!r} is no SQL expression that works here: {why}",
        code="bad-sql",
        at=f"{at}: {role}.{key}" if key == "where" else f"{at}: {role}.columns.{key}",
        hint=hint or columns,
    )


# ---------------------------------------------------------------- missing columns


def _missing_error(
    role: str,
    missing: Sequence[tuple[Wanted, str]],
    names: Sequence[str],
    used: Collection[str],
    at: str,
) -> DataError:
    absent = list(dict.fromkeys(name for _, name in missing))
    taken = set(names)
    advice = []
    for wanted, name in missing:
        found = nearest(name, taken) or (
            None
            if wanted.key in ("where", "by")
            else best_guess(wanted.key, taken.difference(used))
        )
        if wanted.key == "by" and role != "segments":
            tip = "a segment by another table's column has a path, as path = 'users.parquet'"
            advice += [tip] if tip not in advice else []
        if found is None:
            continue
        if wanted.key in ("where", "by"):
            tip = f"did you mean {found!r} in {wanted.key}?"
        elif wanted.text == name:
            tip = f'write {wanted.key} = "{found}" under {_section_of(role)}'
        else:
            tip = f"did you mean {found!r} in {wanted.key}?"
        if tip not in advice:
            advice.append(tip)
    has = f"it has {some_names(names)}" if names else "it has no columns"
    message = f"{role} needs the columns {absent!r}"
    return DataError(message, code="missing-column", at=at, hint="; ".join([has, *advice]))


# ---------------------------------------------------------------- types


def check_columns(plan: ColumnPlan, schema: Schema) -> bool:
    """Checks the types that the plan makes of `schema`; whether items are lists.

    Raises:
        DataError: SQL that does not fit the types [bad-sql], float ids [float-id], text where
            a number belongs [not-a-number], another type that cannot be used [bad-type].
    """
    with mapped(plan.at, lambda error: None):  # damage can make types that cannot be
        empty = pl.DataFrame(schema=dict(schema)).lazy()
    errors: list[EvalkitError] = []
    if plan.where is not None and plan.where_text is not None:
        why = _fault(lambda: empty.filter(plan.where).collect())  # type: ignore[arg-type]
        if why is not None:
            errors.append(_bad_sql("where", plan.where_text, why, plan.role, plan.at, list(schema)))
    types: dict[str, pl.DataType] = {}
    for wanted, expression in zip(plan.wanted, plan.expressions, strict=True):
        frame = empty.select(expression.alias(wanted.output))
        why = _fault(frame.collect)
        if why is not None:
            errors.append(_bad_sql(wanted.key, wanted.text, why, plan.role, plan.at, list(schema)))
        else:
            types[wanted.output] = frame.collect_schema()[wanted.output]
    is_list = plan.role == "rankings" and _is_list(types.get("item"))
    for wanted in plan.wanted:
        if wanted.output in types:
            fault = _type_fault(wanted, types[wanted.output], plan, is_list=is_list)
            if fault is not None:
                errors.append(fault)
    raise_all(errors)
    return is_list


def _fault(act: Callable[[], object]) -> str | None:
    try:
        act()
    except (pl.exceptions.PolarsError, PanicException) as error:
        return first_line(error)
    return None


def _is_list(dtype: pl.DataType | None) -> bool:
    return isinstance(dtype, (pl.List, pl.Array))


def _inner(dtype: pl.DataType) -> pl.DataType:
    inner = dtype.inner if isinstance(dtype, (pl.List, pl.Array)) else dtype
    return inner() if isinstance(inner, type) else inner


def _type_fault(
    wanted: Wanted, dtype: pl.DataType, plan: ColumnPlan, *, is_list: bool
) -> DataError | None:
    key, at = wanted.key, f"{plan.at}: {wanted.key} = {wanted.text!r}"
    of_items = any(each.key == "item" for each in plan.wanted)  # which may be in many segments
    may_be_list = (is_list and key in ("item", "score")) or (key == "by" and of_items)
    if plan.role == "items":
        may_be_list = key in ("genres", "vector")
    if _is_list(dtype) and not may_be_list:
        return _bad_list(key, dtype, plan.role, at, is_list=is_list)
    if is_list and key == "score" and not _is_list(dtype):
        hint = "give a list of scores, as long as the list of items"
        return DataError(
            f"score is {dtype} while item is a list", code="bad-type", at=at, hint=hint
        )
    inner = _inner(dtype)
    if inner == pl.Null:
        return None
    if key == "by" or wanted.use == "any":
        if not inner.is_nested() and inner.base_type() not in (pl.Object, pl.Unknown):
            return None
        hint = "it may be text, a number, true or false, or a date"
        return DataError(f"{key} is {dtype}", code="bad-type", at=at, hint=hint)
    if key == ORDER:
        return _order_fault(inner, at, is_list=is_list)
    if key == "genres":
        return _genre_fault(inner, dtype, at)
    if key in ("user", "session", "item", "model") or wanted.use == "id":
        return _id_fault(wanted, dtype, inner, plan.role, at)
    if key in ("time", "published"):
        if isinstance(inner, (pl.Date, pl.Datetime)) or inner.is_integer():
            return None
        if key == "published" and isinstance(inner, pl.String):
            return None  # as ISO writes a date; others are told where they are read
        call = f"strptime({wanted.text}, '%Y-%m-%d %H:%M:%S')"
        hint = f'{key} = "{call}" under {_section_of(plan.role)}, if it is text of that form; '
        hint += "evalkit init --split finds others"
        message = f"{key} is {dtype}, neither a date nor whole seconds"
        if inner.is_float():
            message += "; in Float32 times of today are steps of 128 s" * (inner == pl.Float32)
            hint = f'{key} = "cast({wanted.text} as bigint)" under {_section_of(plan.role)}, if it '
            hint += "is whole seconds still"
        return DataError(message, code="bad-time", at=at, hint=hint)
    if key == "rank" and (is_list or inner == pl.Boolean):
        hint = _NO_RANK if is_list else "give numbers, 1 the best"
        return DataError(f"rank is {dtype}", code="bad-type", at=at, hint=hint)
    if inner.is_numeric() or inner == pl.Boolean:
        return None
    text = inner.base_type() in (pl.String, pl.Categorical, pl.Enum)
    if text or inner.is_temporal():
        hint = f'{key} must be a number; write {key} = "cast({wanted.text} as double)" under '
        return DataError(
            f"{key} is {dtype}, not a number",
            code="not-a-number",
            at=at,
            hint=hint + _section_of(plan.role) if text else f"{key} must be a number",
        )
    return DataError(f"{key} is {dtype}", code="bad-type", at=at, hint=f"{key} must be a number")


def _genre_fault(inner: pl.DataType, dtype: pl.DataType, at: str) -> DataError | None:
    if inner.base_type() in (pl.String, pl.Categorical, pl.Enum) or inner.is_integer():
        return None
    hint = "genres are a list of texts, or one text: separator under [items] says what parts it"
    return DataError(f"genres is {dtype}, no list of texts", code="bad-type", at=at, hint=hint)


_NO_RANK = "a list of items is in order: leave rank out, or drop its column where it was guessed"


def _order_fault(inner: pl.DataType, at: str, *, is_list: bool) -> DataError | None:
    if not is_list and not inner.is_nested() and inner.base_type() not in (pl.Object, pl.Unknown):
        return None
    hint = "a list of items is in order: leave order out" if is_list else _ORDERED
    return DataError(f"order is {inner}", code="bad-type", at=at, hint=hint)


_ORDERED = "rows are put in order by a number, a time or text"


def _bad_list(key: str, dtype: pl.DataType, role: str, at: str, *, is_list: bool) -> DataError:
    if key == "item":
        hint = f"{role} has one item a row: explode the lists before evalkit reads them"
    elif key == "score" and not is_list:
        hint = "a list of scores needs a list of items beside it"
    elif key == "rank":
        hint = _NO_RANK if is_list else "give numbers, 1 the best"
    else:
        hint = f"{key} must be one value a row: explode the lists before evalkit reads them"
    return DataError(f"{key} is {dtype}, a list", code="bad-type", at=at, hint=hint)


def _id_fault(
    wanted: Wanted, dtype: pl.DataType, inner: pl.DataType, role: str, at: str
) -> DataError | None:
    key = wanted.key
    if inner.is_float():
        hint = f'write {key} = "cast({wanted.text} as bigint)" under {_section_of(role)}'
        if inner != dtype:
            hint = "write the lists again with whole numbers or text"
        return DataError(
            f"{key} is {dtype}, and floats are no ids", code="float-id", at=at, hint=hint
        )
    if inner.is_nested() or inner.base_type() in (pl.Object, pl.Unknown):
        hint = "an id is a number, text, a date or bytes; name the columns that make it up"
        return DataError(f"{key} is {dtype}", code="bad-type", at=at, hint=hint)
    return None


# ---------------------------------------------------------------- rows in order


def put_in_order(frame: pl.LazyFrame) -> pl.LazyFrame:
    """The rows by their column `order`, which is read for that alone.

    Rows that agree there are put in order by what else is read of them, so that where and how
    they are stored shows nowhere; those without a value come last.
    """
    keys = [
        pl.col(name).cast(pl.String) if isinstance(dtype, pl.Categorical) else pl.col(name)
        for name, dtype in frame.collect_schema().items()
        if name != ORDER
    ]
    return frame.sort(ORDER, *keys, nulls_last=True).drop(ORDER)
