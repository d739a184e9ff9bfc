"""Records of a report that are a frame, too: what a notebook shows, filters and sorts."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    import polars as pl

Record = TypeVar("Record")


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
        """A Polars frame: one row a record, columns named as its fields."""
        import polars as pl

        from evalkit.report.record import readable

        def plain(value: object) -> object:
            return readable(value) if isinstance(value, str) else value

        types = {"str": pl.String, "float": pl.Float64, "int": pl.Int64}
        columns = fields(self._kind)
        schema = {each.name: types[str(each.type).partition(" ")[0]] for each in columns}
        rows = {each.name: [plain(getattr(one, each.name)) for one in self] for each in columns}
        return pl.DataFrame(rows, schema=schema)

    def __getitem__(self, key: Any) -> Any:
        return self.frame[key] if isinstance(key, str) else super().__getitem__(key)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self.frame, name)

    def _repr_html_(self) -> str:
        return self.frame._repr_html_()
