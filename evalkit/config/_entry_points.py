"""Hints in the words of whoever asked: a config, options, or Python.

Hints are written as a config has it, `duplicates = "best" under [policies]`; where the request came
through another entry point, they are turned into what can be passed there.
"""

import re
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

from evalkit.errors import Errors, EvalkitError

# a config; `evalkit evaluate`, which has options for columns; `--set` alone; Python
EntryPoint = Literal["file", "options", "set", "python"]

_SETTING = re.compile(
    r"""\b(?P<key>\w+)\ =\ (?P<value>"[^"]*"|'[^']*'|\[[^]]*\]|\{[^{}]*\}|\w[\w.]*)
    (?P<others>(?:,?\ (?:or\ )?"[^"]*")*)\ under\ \[(?P<section>[\w.]+)\]""",
    re.VERBOSE,
)
_TABLE = re.compile(r"\{ \w+ = (?:[^{}]|\{[^{}]*\})* \}")  # in one line
_LISTED = ("rankings", "labels", "predictions")  # of which a config may have several


@contextmanager
def speaking(entry_point: EntryPoint) -> Iterator[None]:
    """Turn the hints of what is raised inside into the words of a entry point."""
    try:
        yield
    except EvalkitError as error:
        for each in (error, *(error.errors if isinstance(error, Errors) else ())):
            each.hint = in_words_of(entry_point, each.hint)
        raise


def in_words_of(entry_point: EntryPoint, hint: str) -> str:
    """A hint that speaks of a config, as a entry point has it."""
    if entry_point == "file":
        return hint
    turned = _SETTING.sub(lambda found: _turned(entry_point, found), hint)
    if entry_point != "python":
        return turned
    turned = re.sub(r"--sample (\S+)", r"sample=\1", turned)
    turned = turned.replace("--engine local", "evalkit.evaluate")
    turned = re.sub(r"--memory-limit (\d+)MiB", r"memory_limit=\1 << 20", turned)
    turned = turned.replace("--memory-limit", "memory_limit").replace("--again", "again=True")
    turned = turned.replace("verify_pages = false in a config", "verify_pages=False")
    turned = _TABLE.sub(lambda found: _with_colons(found[0]), turned)
    turned = re.sub(r"\b(\w+) = (?=\[?\{)", r"\1=", turned)
    return re.sub(r"\bwrite (?=\w+=)", "pass ", turned)


def _with_colons(table: str) -> str:
    """`{ a = 1, b = "x" }` as Python has it."""
    return re.sub(r"(\w+) = ", r'"\1": ', table).replace("{ ", "{").replace(" }", "}")


def spell_policy(entry_point: EntryPoint, name: str, value: str) -> str:
    """A policy as it is written at a entry point."""
    return in_words_of(entry_point, f'{name} = "{value}" under [policies]')


def _turned(entry_point: EntryPoint, found: re.Match[str]) -> str:
    key, value, section = found["key"], found["value"], found["section"]
    if entry_point != "python":
        table, _, rest = section.partition(".")
        place = f"{table}[0]" if table in _LISTED else table
        path = ".".join(filter(None, (place, rest, key)))
        bare = value[1:-1] if value.startswith(('"', "'")) else value
        setting = f"{path}={bare}"
        return f"--set {shlex.quote(setting)}{found['others']}"
    value = {"true": "True", "false": "False"}.get(value, value)
    if section.endswith(".columns"):
        columns = f'{{"{key}": {value}}}{found["others"]}'
        table = section.partition(".")[0].partition("[")[0]
        is_own = "(" in value and table in ("truth", "rankings", "train")  # of one table's columns
        return f'columns={{"{table}": {columns}}}' if is_own else f"columns={columns}"
    table, _, name = section.partition(".")
    if key == "where" and table in ("truth", "rankings", "train"):
        return f'where={{"{table}": {value}}}'
    if key == "where":
        return f"frame.filter(pl.sql_expr({value}))"
    if section == "storage":
        return f"{key.upper()}={value} in the environment"
    if table == "segments" and name:
        return f'segments={{"{name}": {{"{key}": {value}, ...}}}}{found["others"]}'
    if section == "items":
        return f'items={{"path": table, "{key}": {value}}}{found["others"]}'
    if section in ("policies", "statistics", "segments"):
        return f'{section}={{"{key}": {value}}}{found["others"]}'
    return f"{'metrics' if section == 'metrics' else key}={value}{found['others']}"
