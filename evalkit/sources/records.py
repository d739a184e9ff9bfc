"""Lists of records, as Spark's ALS writes them: an item and its score in each."""

from collections.abc import Iterator
from dataclasses import replace

import polars as pl

from evalkit.errors import DataError
from evalkit.sources.columns import ColumnPlan, Wanted
from evalkit.sources.guess import best_guess

_HINT = "write a row an item: frame.explode(column).unnest(column) in Polars, inline(column) in SQL"


def unpack_records(plan: ColumnPlan, schema: pl.Schema) -> ColumnPlan:
    """The plan, where a list of records of items and scores is a list of either.

    Raises:
        DataError: nothing says which field is the item, or what ranks [ambiguous-column].
    """
    keys = {each.key for each in plan.wanted}
    if plan.role != "rankings" or not keys.isdisjoint({"rank", "score"}):
        return plan
    wanted, expressions = [], []
    for each, expression in zip(plan.wanted, plan.expressions, strict=True):
        dtype = schema.get(each.text)
        inner = dtype.inner if isinstance(dtype, (pl.List, pl.Array)) else None
        if each.key != "item" or not isinstance(inner, pl.Struct):
            wanted.append(each)
            expressions.append(expression)
            continue
        lists = expression.arr.to_list() if isinstance(dtype, pl.Array) else expression
        for key, field in _fields_of(inner, each.text, plan.at):
            wanted.append(each if key == "item" else Wanted(key, key, f"{each.text}.{field}"))
            expressions.append(lists.list.eval(pl.element().struct.field(field)))
    return replace(plan, wanted=tuple(wanted), expressions=tuple(expressions))


def _fields_of(record: pl.Struct, column: str, at: str) -> Iterator[tuple[str, str]]:
    """The fields of the item and of the score, by our names."""
    types = {field.name: field.dtype for field in record.fields}
    numbers = [name for name, dtype in types.items() if dtype.is_float()]
    others = [name for name in types if name not in numbers]
    item = best_guess("item", types)
    if item is None and len(others) == 1 and len(types) <= 2:
        (item,) = others
    rank = best_guess("rank", types)
    if item is None or rank is not None:
        why = "which of them is the item" if item is None else f"whether {rank} ranks them"
        message = f"{column} is a list of records of {', '.join(types)}, and nothing says {why}"
        raise DataError(message, code="ambiguous-column", at=at, hint=_HINT)
    yield "item", item
    rest = [name for name in types if name != item]
    score = best_guess("score", rest) or best_guess("rating", rest)
    if score is None and len(rest) == 1 and rest[0] in numbers:
        (score,) = rest
    if score is not None:
        yield "score", score
    elif rest:
        message = (
            f"{column} is a list of records of {', '.join(types)}, and nothing says which of them "
            "is the score"
        )
        raise DataError(message, code="ambiguous-column", at=at, hint=_HINT)
