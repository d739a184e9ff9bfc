"""Records of a report that are a frame, too: what a notebook shows, filters and sorts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import MISSING, fields, make_dataclass
from functools import cache
from itertools import repeat
from operator import attrgetter
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    import polars as pl

Record = TypeVar("Record")
MANY = 256  # numbers that are spelled together
SPELLED_OTHERWISE = 1e-9, 1e-4  # sizes of numbers that Polars spells otherwise than Python
_ASKED = ("label", "name", "cutoff", "parameters", "segmentation", "segment")


def frame_of(
    kind: type, records: Sequence[object], as_text: Callable[[str], str] = str
) -> pl.DataFrame:
    """A Polars frame: one row a record, columns named as its fields; texts by `as_text`."""
    import polars as pl

    types = {"str": pl.String, "float": pl.Float64, "int": pl.Int64}
    schema = {each.name: types[str(each.type).partition(" ")[0]] for each in fields(kind)}
    by_field = zip(*map(attrgetter(*schema), records), strict=True)
    columns: dict[str, Sequence[Any]] = dict.fromkeys(schema, ())
    columns |= zip(schema, by_field, strict=False)  # there may be no record
    for name in (name for name, of in schema.items() if of == pl.String):
        texts = {each: each if each is None else as_text(each) for each in set(columns[name])}
        columns[name] = [*map(texts.__getitem__, columns[name])]
    return pl.DataFrame(columns, schema=schema)


def numbers_first(frame: pl.DataFrame) -> pl.DataFrame:
    """The same columns, those that tell what was asked last: the first are what is printed."""
    last = [name for name in _ASKED if name in frame.columns]
    return frame.select([name for name in frame.columns if name not in last] + last)


def spell_numbers(
    values: Sequence[float | None], spell: Callable[[float | None], str]
) -> list[str]:
    """`spell` of each, which gives `repr` of finite numbers; of many floats by Polars.

    Of many integers, which are few that are met again and again, once each.

    >>> spell_numbers([0.5, None], repr)
    ['0.5', 'None']
    """
    kinds = set(map(type, values)) if len(values) >= MANY else {object}
    if kinds <= {int, type(None)}:
        known = {each: spell(each) for each in set(values)}
        return [*map(known.__getitem__, values)]
    if not kinds <= {float, type(None)}:
        return [*map(spell, values)]
    import polars as pl

    numbers = pl.Series(values, dtype=pl.Float64)
    sizes = numbers.abs()
    is_alike = sizes.is_finite() & ~sizes.is_between(*SPELLED_OTHERWISE)
    texts: list[str] = numbers.cast(pl.String).to_list()
    for place in (~is_alike.fill_null(value=False)).arg_true().to_list():
        texts[place] = spell(values[place])
    return texts


def make_records(kind: type[Record], columns: Mapping[str, Iterable[object]]) -> list[Record]:
    """Very many frozen records of columns named as fields; others have their defaults.

    Each is filled while it is not frozen yet, in a third of the time.
    """
    known: Any = kind
    made = [
        *map(
            _open_twin(known),
            *(
                columns[each.name]
                if each.default is MISSING
                else columns.get(each.name, repeat(each.default))
                for each in fields(known)
            ),
        )
    ]
    for each in made:
        each.__class__ = kind
    return made


@cache
def _open_twin(kind: type) -> type:
    """A class of the same slots that is not frozen."""
    return make_dataclass(kind.__name__, [each.name for each in fields(kind)], slots=True)


class Records(tuple[Record, ...]):
    """A tuple of records; `frame` has a row for each, and whatever a frame can do is passed to it.

    >>> found = evalkit.compare(truth, rankings, metrics=["RR"]).comparisons  # doctest: +SKIP
    >>> found[0].delta, found.sort("delta"), found["verdict"]  # doctest: +SKIP
    """

    _kind: type

    @classmethod
    def of(cls, kind: type[Record], records: Iterable[Record]) -> Records[Record]:
        """The records, all of one kind, which says what the columns of none are."""
        made = cls(records)
        made._kind = kind
        return made

    @property
    def frame(self) -> pl.DataFrame:
        """A Polars frame: one row a record, columns named as its fields; undefined is null."""
        import polars.selectors as cs

        return numbers_first(frame_of(self._kind, self)).with_columns(cs.float().fill_nan(None))

    def __getitem__(self, key: Any) -> Any:
        return self.frame[key] if isinstance(key, str) else super().__getitem__(key)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self.frame, name)

    def _repr_html_(self) -> str:
        return self.frame._repr_html_()
