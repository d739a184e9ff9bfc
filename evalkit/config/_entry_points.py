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
_BARE = re.compile(  # a setting without its section; texts are passed over
    r"""\"[^"]*"|\b(?P<key>\w+)\ =\ (?P<value>"[^"]*"|'[^']*'|\[[^]]*\]
    |(?:true|false|[\d.]*\d)\b)""",
    re.VERBOSE,
)
_SECTION = re.compile(
    r"\[\[?(?:\w+\.)?(columns|truth|rankings|train|items|users|ratings|predictions|labels|logged"
    r"|targets|metrics|policies|segments|statistics|experiment|exposures|events|covariates)\]\]?"
)
_COLUMNS = (
    *("user", "item", "time", "score", "rank", "relevance", "label", "session", "rating"),
    *("prediction", "reward", "position", "unit", "judge"),
)
_OF_PARTS = ("targets", "policies", "segments", "statistics", "metrics.combined")
_IN_PYTHON = {"true": "True", "false": "False"}
_OF_SEVERAL = ("truth", "rankings", "train", "exposures", "events")  # tables, columns alike
_LISTED = ("rankings", "labels", "predictions")  # of which a config may have several


@contextmanager
def speaking(entry_point: EntryPoint) -> Iterator[None]:
    """Turn the hints of what is raised inside into the words of a entry point."""
    try:
        yield
    except EvalkitError as error:
        for each in (error, *(error.errors if isinstance(error, Errors) else ())):
            each.hint = in_words_of(entry_point, each.hint, each.at)
            if entry_point == "python":
                each.message = _SECTION.sub(r"\1", each.message)
        raise


def in_words_of(entry_point: EntryPoint, hint: str, at: str = "") -> str:
    """A hint that speaks of a config, as a entry point has it; `at` is where its error stands."""
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
    turned = turned.replace(" under [judges]", "").replace("where = ...", "frame.filter(...)")
    is_part = at.startswith(_OF_PARTS)
    turned = _BARE.sub(lambda found: _passed(found, is_part), _SECTION.sub(r"\1", turned))
    return re.sub(r"\bwrite (?=\w+=)", "pass ", turned)


def _passed(found: re.Match[str], is_part: bool) -> str:
    """A setting without its section, as an argument or as a part of one."""
    key, value = found["key"], found["value"]
    if key in (None, "format", "where"):  # of one table, or of several by name
        return found[0]
    value = _IN_PYTHON.get(value, value)
    if key in _COLUMNS:
        return f'columns={{"{key}": {value}}}'
    return f'"{key}": {value}' if is_part else f"{key}={value}"


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
    value = _IN_PYTHON.get(value, value)
    if section.endswith(".columns"):
        columns = f'{{"{key}": {value}}}{found["others"]}'
        table = section.partition(".")[0].partition("[")[0]
        is_own = "(" in value and table in _OF_SEVERAL  # of one table's columns
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
