"""Where each key of a config was given.

`tomllib` keeps no positions, so a small scanner finds the line of every key in text that tomllib
has accepted.
"""

import re
import tomllib
from bisect import bisect_right
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

Key: TypeAlias = tuple[str | int, ...]


def spell(key: Key) -> str:
    """A key as people write it: `rankings[0].columns.user`."""
    text = ""
    for step in key:
        text += f"[{step}]" if isinstance(step, int) else f".{step}" if text else step
    return text


def table_in(tree: object, *key: str) -> Mapping[str, object]:
    """The table under a key of a config that nobody has checked; empty where there is none."""
    for name in key:
        tree = tree.get(name) if isinstance(tree, Mapping) else None
    return tree if isinstance(tree, Mapping) else {}


@dataclass(frozen=True, slots=True)
class Places:
    """Where each key of a config was given: a line of a file, or an option."""

    source: str = ""
    lines: dict[Key, int] = field(default_factory=dict)
    options: dict[Key, str] = field(default_factory=dict)

    def replace(self, key: Key, option: str) -> None:
        """Note that an option gave a key, and with it everything below."""
        for places in (self.lines, self.options):
            for each in [each for each in places if each[: len(key)] == key]:
                del places[each]
        self.options[key] = option

    def make_list(self, section: str) -> None:
        """Note that a table is read as the first one of a list."""
        for places in (self.lines, self.options):
            found = [key for key in places if key[:1] == (section,) and len(key) > 1]
            places.update({(section, 0, *key[1:]): places[key] for key in found})  # type: ignore[misc]

    def at(self, key: Key) -> str:
        """The place of a key, or that of the nearest table around it."""
        name = spell(key)
        if key not in self.lines:
            for given, option in self.options.items():
                if key and given[: len(key)] == key:
                    return option
        for length in range(len(key), 0, -1):
            part = key[:length]
            if part in self.options:
                return f"{self.options[part]}: {name}"
            if part in self.lines:
                return f"{self.source}:{self.lines[part]}: {name}"
        return ": ".join(each for each in (self.source, name) if each)

    def order(self, key: Key) -> tuple[int, int]:
        """Sorts problems as a reader meets them: by line, then options."""
        if key and any(given[: len(key)] == key for given in self.options):
            return 1, 0
        for length in range(len(key), 0, -1):
            part = key[:length]
            if part in self.options:
                return 1, 0
            if part in self.lines:
                return 0, self.lines[part]
        return 0, 0


class _LineScanner:
    """Finds the line of every key in TOML text that tomllib has accepted."""

    _BARE = re.compile(r"[A-Za-z0-9_-]+")
    _SPACE = re.compile(r"(?:[ \t\n]|#[^\n]*)*")
    _BLANK = re.compile(r"[ \t]*")
    _STRING = re.compile(
        r'"""(?:[^"\\]|\\.|"{1,2}(?!"))*"{3,5}'
        r"|'''(?:[^']|'{1,2}(?!'))*'{3,5}"
        r'|"(?:[^"\\]|\\.)*"'
        r"|'[^']*'",
        re.DOTALL,
    )
    _SCALAR = re.compile(r"[^,\]}\n#]*")

    def __init__(self, text: str) -> None:
        self.text = text.replace("\r\n", "\n")
        self.offset = 0
        self.ends = [match.start() for match in re.finditer("\n", self.text)]
        self.lines: dict[Key, int] = {}
        self.n_tables: dict[Key, int] = {}

    def scan(self) -> dict[Key, int]:
        table: Key = ()
        self._skip(self._SPACE)
        while self.offset < len(self.text):
            if self.text.startswith("[[", self.offset):
                self.offset += 2
                *around, last = self._key()
                path = (*self._current(tuple(around)), last)
                number = self.n_tables.get(path, 0)
                self.n_tables[path] = number + 1
                table = (*path, number)
                self._note(path)
                self.offset += 2
            elif self.text[self.offset] == "[":
                self.offset += 1
                names = self._key()
                for length in range(1, len(names)):
                    self._note(self._current(names[:length]))
                table = self._current(names)
                self.offset += 1
            else:
                self._pair(table)
            self._note(table)
            self._skip(self._SPACE)
        return self.lines

    def _note(self, key: Key) -> None:
        if key:
            self.lines.setdefault(key, bisect_right(self.ends, self.offset - 1) + 1)

    def _skip(self, pattern: re.Pattern[str]) -> str:
        match = pattern.match(self.text, self.offset)
        if match is None:
            raise ValueError(f"no {pattern.pattern} at offset {self.offset}")
        self.offset = match.end()
        return match.group()

    def _current(self, names: Key) -> Key:
        path: Key = ()
        for name in names:
            path = (*path, name)
            if path in self.n_tables:
                path = (*path, self.n_tables[path] - 1)
        return path

    def _key(self) -> Key:
        names: list[str] = []
        while True:
            self._skip(self._BLANK)
            if self.text[self.offset] in "\"'":
                names.append(tomllib.loads(f"key = {self._skip(self._STRING)}")["key"])
            else:
                names.append(self._skip(self._BARE))
            self._skip(self._BLANK)
            if self.text[self.offset] != ".":
                return tuple(names)
            self.offset += 1

    def _pair(self, table: Key) -> None:
        names = self._key()
        for length in range(1, len(names) + 1):
            self._note((*table, *names[:length]))
        self.offset += 1  # the equals sign
        self._skip(self._BLANK)
        self._value((*table, *names))

    def _value(self, key: Key) -> None:
        first = self.text[self.offset]
        if first in "\"'":
            self._skip(self._STRING)
        elif first == "[":
            for number in self._members("]"):
                self._note((*key, number))
                self._value((*key, number))
        elif first == "{":
            for _ in self._members("}"):
                self._pair(key)
        else:
            self._skip(self._SCALAR)

    def _members(self, close: str) -> Iterator[int]:
        self.offset += 1
        number = 0
        while True:
            self._skip(self._SPACE)
            if self.text[self.offset] == close:
                self.offset += 1
                return
            yield number
            number += 1
            self._skip(self._SPACE)
            if self.text[self.offset] == ",":
                self.offset += 1


def key_lines(text: str) -> dict[Key, int]:
    """The line, from 1, of every key, table and array element of a TOML document."""
    return _LineScanner(text).scan()
