"""Every mistake in a config, told at once and in the order of the file."""

import re
from dataclasses import dataclass, field

from evalkit.config._places import Key, Places
from evalkit.errors import Errors, EvalkitError, RequestError, raise_all


@dataclass(frozen=True, slots=True)
class Problems:
    """Collects every mistake with its key, so that they can be told in file order.

    `unnamed` are models whose names a column gives instead, where their table has one.
    """

    places: Places
    found: list[tuple[tuple[int, int], EvalkitError]] = field(default_factory=list)
    unnamed: frozenset[str] = frozenset()

    def add(self, key: Key, code: str, message: str, *, hint: str = "") -> None:
        problem = RequestError(message, code=code, at=self.places.at(key), hint=hint)
        self.found.append((self.places.order(key), problem))

    def add_error(self, key: Key, error: EvalkitError) -> None:
        for problem in error.errors if isinstance(error, Errors) else (error,):
            line = re.match(re.escape(self.places.source) + r":(\d+): ", problem.at)
            order = (0, int(line[1])) if line else self.places.order(key)
            self.found.append((order, problem))

    def raise_all(self) -> None:
        raise_all([problem for _, problem in sorted(self.found, key=lambda each: each[0])])
