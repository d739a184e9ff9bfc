"""What to evaluate, as one frozen record: read from TOML, `--set` and `--var`, or from options.

Every mistake is reported at once, each with the line it stands on. `tomllib` keeps no
positions, so a small scanner finds the line of every key in text that tomllib has accepted.
"""

import difflib
import os
import re
import tomllib
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import UnionType
from typing import Annotated, Literal, TypeAlias, Union, cast, get_args, get_origin

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PrivateAttr,
    ValidationError,
    WithJsonSchema,
)

from evalkit.errors import Errors, EvalkitError, RequestError, nearest, raise_all
from evalkit.metrics import load_metric_files, parse_metrics

MAX_BYTES = 1 << 20

Key: TypeAlias = tuple[str | int, ...]


# ---------------------------------------------------------------- records


def _tuple_of_texts(value: object) -> object:
    if isinstance(value, str):
        return (value,)
    return tuple(value) if isinstance(value, list) else value


def _tuple_of_list(value: object) -> object:
    return tuple(value) if isinstance(value, list) else value


_TEXT_OR_TEXTS = {
    "anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}, "minItems": 1}]
}
Texts = Annotated[tuple[str, ...], BeforeValidator(_tuple_of_texts), WithJsonSchema(_TEXT_OR_TEXTS)]
Names = Annotated[tuple[str, ...], BeforeValidator(_tuple_of_list)]
Threshold = Annotated[float, Field(allow_inf_nan=False)]


class _Record(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class TruthColumns(_Record):
    """Columns of the truth: names, or SQL expressions over its columns."""

    user: Texts = Field(
        default=("user",), description="User column, or a list of columns together."
    )
    item: str = Field(default="item", description="Item column.")
    relevance: str | None = Field(
        default=None, description="Relevance column; without one every row is relevant."
    )


class RankingsColumns(_Record):
    """Columns of the rankings: names, or SQL expressions over its columns."""

    user: Texts = Field(
        default=("user",), description="User column, or a list of columns together."
    )
    item: str = Field(default="item", description="Item column; may be a list column.")
    rank: str | None = Field(
        default=None, description="Rank column; without rank and score, row order is the order."
    )
    score: str | None = Field(
        default=None, description="Score column, higher is better; a rank column orders before it."
    )
    model: str | None = Field(
        default=None, description="Model column, for one table with many models."
    )


class LogColumns(RankingsColumns):
    """Columns of a joined log: names, or SQL expressions over its columns."""

    label: str = Field(default="label", description="Relevance of the row's item.")


class TrainColumns(_Record):
    """Columns of the training log: names, or SQL expressions over its columns."""

    user: Texts = Field(
        default=("user",), description="User column, or a list of columns together."
    )
    item: str = Field(default="item", description="Item column.")


_PATH = "File, glob, directory, URL, or a list of them; relative to the config file."
_FORMAT = "Format where the name does not tell: parquet, ipc, csv, ndjson, trec."
_WHERE = "SQL predicate; rows in are the rows after it."


class TruthTable(_Record):
    """Held-out interactions: the right answers."""

    path: Texts = Field(description=_PATH)
    format: str | None = Field(default=None, description=_FORMAT)
    columns: TruthColumns = Field(default_factory=TruthColumns, description="Column names.")
    where: str | None = Field(default=None, description=_WHERE)
    threshold: Threshold | None = Field(
        default=None, description="Relevant from here on; default: relevance above 0."
    )


class RankingsTable(_Record):
    """Rankings that one model made, or many with `columns.model`."""

    model: str | None = Field(default=None, description="Name of the model; or name columns.model.")
    path: Texts = Field(description=_PATH)
    format: str | None = Field(default=None, description=_FORMAT)
    columns: RankingsColumns = Field(default_factory=RankingsColumns, description="Column names.")
    where: str | None = Field(default=None, description=_WHERE)


class LogTable(_Record):
    """A joined log: rankings whose rows carry the label."""

    model: str | None = Field(default=None, description="Name of the model; or name columns.model.")
    path: Texts = Field(description=_PATH)
    format: str | None = Field(default=None, description=_FORMAT)
    columns: LogColumns = Field(default_factory=LogColumns, description="Column names.")
    where: str | None = Field(default=None, description=_WHERE)
    threshold: Threshold | None = Field(
        default=None, description="Relevant from here on; default: label above 0."
    )


class TrainTable(_Record):
    """What the models had seen: ranked items found here are counted."""

    path: Texts = Field(description=_PATH)
    format: str | None = Field(default=None, description=_FORMAT)
    columns: TrainColumns = Field(default_factory=TrainColumns, description="Column names.")
    where: str | None = Field(default=None, description=_WHERE)
    drop_seen: bool = Field(default=False, description="Drop seen items from the rankings.")


class MetricsSection(_Record):
    """What to measure."""

    names: Names = Field(
        min_length=1,
        description="Metrics as name(parameter=value)@cutoff, such as nDCG@{5,10,20}.",
    )
    profile: Literal["evalkit"] = Field(default="evalkit", description="Named set of conventions.")
    files: Names = Field(default=(), description="Python files with metrics of your own.")


class Policies(_Record):
    """What to do at each edge of the data."""

    missing_ranking: Literal["zero", "skip"] = Field(
        default="zero", description="A truth user without a ranking."
    )
    no_relevant: Literal["skip", "zero"] = Field(
        default="skip", description="A truth user without relevant items."
    )
    unknown_users: Literal["skip", "error"] = Field(
        default="skip", description="A ranked user that the truth lacks; always counted."
    )
    duplicates: Literal["error", "best", "first", "last", "count"] = Field(
        default="error", description="An item twice in a ranking."
    )
    truth_duplicates: Literal["max", "error", "sum", "last"] = Field(
        default="max", description="An item twice in a user's truth."
    )
    ties: Literal["item", "item-desc", "item-text", "item-text-desc", "input"] = Field(
        default="item", description="Order of equal scores; item: smaller item id first."
    )
    bad_scores: Literal["error", "last", "drop"] = Field(
        default="error", description="NaN or null scores; infinities order as numbers."
    )
    null_ids: Literal["error", "drop"] = Field(default="error", description="Null users or items.")
    bad_ranks: Literal["error", "keep", "compress"] = Field(
        default="error", description="Ranks below first_rank, gaps and repeats."
    )
    first_rank: int = Field(
        default=1,
        ge=-(2**31),
        le=2**31 - 1,
        description="The number that the best rank has in the logs.",
    )
    negative_relevance: Literal["ignore", "error", "subtract"] = Field(
        default="ignore", description="Relevance below 0; ignore: not relevant, no gain."
    )
    beyond_depth: Literal["warn", "error"] = Field(
        default="warn", description="A cutoff deeper than any ranking."
    )
    no_common_user: Literal["error", "warn"] = Field(
        default="error", description="Truth and rankings share no user."
    )
    empty_input: Literal["error", "warn"] = Field(
        default="error", description="A table without rows."
    )


class OutputSection(_Record):
    """Where the report goes and in which forms."""

    path: str = Field(default="runs", description="Folder of runs; relative to the config file.")
    formats: Annotated[
        tuple[Literal["json", "parquet", "csv", "markdown"], ...], BeforeValidator(_tuple_of_list)
    ] = Field(default=("json", "parquet", "markdown"), description="Forms of the report to write.")
    per_user: bool = Field(default=False, description="Write every user's values too.")


class Config(_Record):
    """The whole request. Either [truth] with [[rankings]], or [log]."""

    name: str = Field(
        default="", description="Jobs of one name share history; default: the file's name."
    )
    truth: TruthTable | None = Field(default=None, description="Held-out interactions.")
    rankings: Annotated[tuple[RankingsTable, ...], BeforeValidator(_tuple_of_list)] = Field(
        default=(), description="One table for each model, or one with columns.model."
    )
    log: LogTable | None = Field(
        default=None, description="A joined log instead of truth and rankings."
    )
    train: TrainTable | None = Field(default=None, description="What the models had seen.")
    metrics: MetricsSection = Field(description="Metrics, profile, and files with your own.")
    policies: Policies = Field(default_factory=Policies, description="Choices at edges.")
    output: OutputSection = Field(default_factory=OutputSection, description="Where to write.")

    _places: "Places" = PrivateAttr(default_factory=lambda: Places())

    def at(self, *key: str | int) -> str:
        """Where a key stands, for errors: `configs/nightly.toml:14: metrics.names[2]`."""
        return self._places.at(key)


# ---------------------------------------------------------------- places of keys


def spell(key: Key) -> str:
    """A key as people write it: `rankings[0].columns.user`."""
    text = ""
    for step in key:
        text += f"[{step}]" if isinstance(step, int) else f".{step}" if text else step
    return text


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


# ---------------------------------------------------------------- reading


def load_config(
    path: str | os.PathLike[str],
    *,
    overrides: Sequence[str] = (),
    variables: Mapping[str, str] | None = None,
) -> Config:
    """The config that a TOML file holds; relative paths are taken from its folder.

    Args:
        path: the TOML file.
        overrides: `key=value` texts, as `--set` takes them.
        variables: values of the `{name}` places in paths and SQL, as `--var` gives them.
    Raises:
        RequestError: [missing-config], [config-too-large], [config-encoding], and those of
            `parse_config`.
    """
    file = Path(path)
    try:
        if file.is_dir():
            raise IsADirectoryError
        with file.open("rb") as stream:
            content = stream.read(MAX_BYTES + 1)
    except IsADirectoryError:
        hint = _config_hint(file / "config.toml") or "give a TOML file"
        raise RequestError(
            "the config is a folder", code="missing-config", at=str(file), hint=hint
        ) from None
    except OSError as error:
        reason = error.strerror.lower() if error.strerror else "it cannot be read"
        raise RequestError(
            f"no config can be read there: {reason}",
            code="missing-config",
            at=str(file),
            hint=_config_hint(file) or "evalkit init writes a config from your files",
        ) from None
    if len(content) > MAX_BYTES:
        raise RequestError(
            f"a config holds at most {MAX_BYTES:,} bytes", code="config-too-large", at=str(file)
        )
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise RequestError(
            f"byte {content[error.start]:#04x} is no UTF-8",
            code="config-encoding",
            at=f"{file}:{line}",
            hint="save the file as UTF-8",
        ) from None
    return parse_config(
        text, source=str(file), base=file.parent, overrides=overrides, variables=variables
    )


def parse_config(
    text: str,
    *,
    source: str,
    base: str | os.PathLike[str] = "",
    overrides: Sequence[str] = (),
    variables: Mapping[str, str] | None = None,
) -> Config:
    """The config that TOML text holds.

    Args:
        text: the TOML document.
        source: its name in errors; its stem is the default of `name`.
        base: the folder that relative paths start from.
        overrides: `key=value` texts; a value that is no TOML is text.
        variables: values of the `{name}` places in paths and SQL.
    Raises:
        RequestError: [config-syntax], [unknown-key], [missing-key], [wrong-type],
            [unknown-choice], [out-of-range], [conflicting-keys], [duplicate-model],
            [bad-set], [unknown-variable], [unused-variable], [quoted-variable], and those
            of `evalkit.metrics.parse_metrics`; all of them together.
    """
    try:
        tree: dict[str, object] = tomllib.loads(text)
        lines = key_lines(text)
    except RecursionError:
        raise RequestError(
            "tables or arrays are nested too deep", code="config-syntax", at=source
        ) from None
    except ValueError as error:
        raise _syntax_error(str(error), text, source) from None
    places = Places(source, lines)
    return build_config(
        tree,
        name=Path(source).stem,
        places=places,
        base=base,
        overrides=overrides,
        variables=variables,
    )


def evaluate_config(
    *,
    truth: Sequence[str],
    rankings: Sequence[tuple[str, str]],
    metrics: Sequence[str],
    truth_columns: Mapping[str, str | Sequence[str]] | None = None,
    rankings_columns: Mapping[str, Mapping[str, str | Sequence[str]]] | None = None,
    overrides: Sequence[str] = (),
    variables: Mapping[str, str] | None = None,
    name: str = "evaluate",
) -> Config:
    """The config of one `evalkit evaluate`, from its options.

    Args:
        truth: paths of the truth.
        rankings: (model, path) pairs.
        metrics: metric names as they are written in a config.
        truth_columns: our column names to those of the truth, where they differ.
        rankings_columns: the same for each model.
        overrides: `key=value` texts.
        variables: values of the `{name}` places in paths and SQL.
        name: the run's name.
    Raises:
        RequestError: as `parse_config`.
    """
    options: dict[Key, str] = {("truth",): "--truth", ("metrics", "names"): "-m"}
    for number, (model, path) in enumerate(rankings):
        options["rankings", number] = f"--rankings {model}={path}"
    for number, metric in enumerate(metrics):
        options["metrics", "names", number] = f"-m {metric}"
    tables: list[object] = [
        {"model": model, "path": path, "columns": _plain((rankings_columns or {}).get(model))}
        for model, path in rankings
    ]
    tree: dict[str, object] = {
        "truth": {"path": list(truth), "columns": _plain(truth_columns)},
        "rankings": tables,
        "metrics": {"names": list(metrics)},
    }
    places = Places("", {}, options)
    return build_config(tree, name=name, places=places, overrides=overrides, variables=variables)


def parse_variables(texts: Sequence[str]) -> dict[str, str]:
    """Names and values of `--var name=value` texts.

    Raises:
        RequestError: [bad-var] no equals sign, no name, or a name twice.
    """
    variables: dict[str, str] = {}
    problems: list[EvalkitError] = []
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not _VARIABLE_NAME.fullmatch(name):
            message = f"{text!r} is not name=value"
        elif name in variables:
            message = f"{name!r} is given twice"
        else:
            variables[name] = value
            continue
        problems.append(
            RequestError(message, code="bad-var", at=f"--var {text}", hint="--var day=2026-01-31")
        )
    raise_all(problems)
    return variables


def config_schema() -> dict[str, object]:
    """JSON Schema of the config, with descriptions and defaults."""
    schema: dict[str, object] = Config.model_json_schema()
    schema["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    schema["title"] = "evalkit config"
    schema["oneOf"] = [{"required": ["truth", "rankings"]}, {"required": ["log"]}]
    return schema


def _plain(columns: Mapping[str, str | Sequence[str]] | None) -> dict[str, object]:
    return {
        name: column if isinstance(column, str) else list(column)
        for name, column in (columns or {}).items()
    }


def _config_hint(file: Path) -> str:
    try:
        found = [str(each) for each in sorted(file.parent.glob("*.toml"))[:1000]]
    except OSError:
        return ""
    close = nearest(str(file), found)
    return f"did you mean {close!r}?" if close else ""


def _syntax_error(message: str, text: str, source: str) -> RequestError:
    found = re.search(r"\s*\(at (?:line (\d+), column \d+|end of document)\)$", message)
    at = source
    if found:
        message = message[: found.start()]
        at = f"{source}:{found[1] or text.count(chr(10), 0, len(text.rstrip())) + 1}"
    message = message[:1].lower() + message[1:]
    return RequestError(
        f"this is no TOML: {message}",
        code="config-syntax",
        at=at,
        hint="text stands in quotes, and each key once; https://toml.io shows the form",
    )


# ---------------------------------------------------------------- building


@dataclass(frozen=True, slots=True)
class _Problems:
    """Collects every mistake with its key, so that they can be told in file order."""

    places: Places
    found: list[tuple[tuple[int, int], EvalkitError]] = field(default_factory=list)

    def add(self, key: Key, code: str, message: str, *, hint: str = "") -> None:
        problem = RequestError(message, code=code, at=self.places.at(key), hint=hint)
        self.found.append((self.places.order(key), problem))

    def add_error(self, key: Key, error: EvalkitError) -> None:
        for each in error.errors if isinstance(error, Errors) else (error,):
            line = re.match(re.escape(self.places.source) + r":(\d+): ", each.at)
            order = (0, int(line[1])) if line else self.places.order(key)
            self.found.append((order, each))

    def raise_all(self) -> None:
        raise_all([problem for _, problem in sorted(self.found, key=lambda each: each[0])])


def build_config(
    tree: dict[str, object],
    *,
    name: str,
    places: "Places | None" = None,
    base: str | os.PathLike[str] = "",
    overrides: Sequence[str] = (),
    variables: Mapping[str, str] | None = None,
) -> Config:
    """The config that nested dicts and lists hold, shaped as the TOML is; they are changed.

    Args:
        tree: tables, lists and values as TOML would give them.
        name: the run's name, where the tree has none.
        places: where each key was given, for errors.
        base: the folder that relative paths start from.
        overrides: `key=value` texts.
        variables: values of the `{name}` places in paths and SQL.
    Raises:
        RequestError: as `parse_config`, without [config-syntax].
    """
    places = places or Places()
    places = Places(places.source, dict(places.lines), dict(places.options))
    problems = _Problems(places)
    for override in overrides:
        _override(tree, override, places, problems)
    match tree.get("log"):
        case [dict() as only]:
            tree["log"] = only
    _fill_variables(tree, variables or {}, problems)
    _resolve_paths(tree, os.fspath(base))
    tree.setdefault("name", name)

    config: Config | None = None
    try:
        config = Config.model_validate(tree)
    except ValidationError as error:
        for each in error.errors(include_url=False):
            _translate(cast("dict[str, object]", each), tree, problems)
    _check_tables(tree, problems)
    _check_names(tree, problems)
    _check_metrics(tree, problems)
    problems.raise_all()
    if config is None:
        raise AssertionError("a config with no problem is a config")
    config._places = places
    return config


_SET_KEY = re.compile(r"[A-Za-z0-9_-]+(?:\[\d+\])*(?:\.[A-Za-z0-9_-]+(?:\[\d+\])*)*")


def _override(tree: dict[str, object], override: str, places: Places, problems: _Problems) -> None:
    """Write one `--set key=value` into the tree; the later one of a key wins."""
    spelled, equals, text = override.partition("=")
    spelled, text = spelled.strip(), text.strip()

    def refuse(message: str, hint: str) -> None:
        error = RequestError(message, code="bad-set", at=f"--set {override}", hint=hint)
        problems.found.append(((1, 0), error))

    if not equals or not _SET_KEY.fullmatch(spelled):
        return refuse(f"{override!r} is not key=value", "--set policies.ties=input")
    key = tuple(
        int(number) if number else name
        for number, name in re.findall(r"\[(\d+)\]|([\w-]+)", spelled)
    )
    branch: object = tree
    for depth, step in enumerate(key):
        if isinstance(step, int):
            if not isinstance(branch, list):
                return refuse(f"{spell(key[:depth])} is no list", "leave the number out")
            if step >= len(branch):
                return refuse(
                    f"{spell(key[: depth + 1])} does not exist",
                    f"{spell(key[:depth])} has {len(branch)} entries, counted from 0",
                )
        elif not isinstance(branch, dict):
            if isinstance(branch, list):
                rest = key[depth + 1 :] if step.isdigit() else key[depth:]
                which = int(step) if step.isdigit() else 0
                return refuse(
                    f"{spell(key[:depth])} is a list",
                    f"say which: {spell((*key[:depth], which, *rest))}",
                )
            return refuse(f"{spell(key[:depth])} is no table", "evalkit schema shows all keys")
        if depth == len(key) - 1:
            branch[step] = _override_value(key, text)
        elif isinstance(step, int):
            branch = cast("list[object]", branch)[step]
        else:
            branch = cast("dict[str, object]", branch).setdefault(step, {})
    places.replace(key, f"--set {spelled}")
    return None


def _override_value(key: Key, text: str) -> object:
    """The TOML value that the text spells; the text itself where a key takes only text."""
    try:
        parsed = tomllib.loads(f"value = {text}")
    except (ValueError, RecursionError):
        return text
    value: object = parsed["value"]
    if len(parsed) > 1:
        return text
    if not isinstance(value, str | list | dict) and _takes_text(_annotation_at(key)):
        return text
    return value


def _annotation_at(key: Key) -> object:
    """The type that a key is declared with; None where no such key exists."""
    annotation: object = Config
    for step in key:
        if isinstance(step, int):
            continue  # tables and texts keep their declaration inside a list
        record = _record_in(annotation)
        if record is None or step not in record.model_fields:
            return None
        annotation = record.model_fields[step].annotation
    return annotation


def _record_in(annotation: object) -> type[_Record] | None:
    if isinstance(annotation, type) and issubclass(annotation, _Record):
        return annotation
    for inner in get_args(annotation):
        if (record := _record_in(inner)) is not None:
            return record
    return None


def _takes_text(annotation: object) -> bool:
    if annotation is str:
        return True
    if get_origin(annotation) in (Union, UnionType, Annotated, tuple):
        return any(_takes_text(inner) for inner in get_args(annotation))
    return get_origin(annotation) is Literal


# ---------------------------------------------------------------- variables and paths

_VARIABLE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
_PLACE = re.compile(r"\{([A-Za-z_][A-Za-z0-9_-]*)\}")
_SQL_PIECE = re.compile(
    r"""(?P<quoted>'(?:[^']|'')*'|"(?:[^"]|"")*")|\{(?P<name>[A-Za-z_][A-Za-z0-9_-]*)\}"""
)


def _tables(tree: Mapping[str, object]) -> Iterator[tuple[Key, dict[str, object]]]:
    """Every table of rows that the tree holds, whatever else is wrong with it."""
    for section in ("truth", "rankings", "log", "train"):
        match tree.get(section):
            case dict() as table:
                yield (section,), table
            case list() as tables:
                for number, table in enumerate(tables):
                    if isinstance(table, dict):
                        yield (section, number), table


Rewrite: TypeAlias = Callable[[Key, str], str]


def _rewrite(branch: object, name: str, key: Key, rewrite: Rewrite) -> None:
    """Rewrite the text, the list of texts or the table of texts under one name."""
    if not isinstance(branch, dict) or name not in branch:
        return
    match branch[name]:
        case str() as text:
            branch[name] = rewrite((*key, name), text)
        case list() as texts:
            branch[name] = [
                rewrite((*key, name, number), text) if isinstance(text, str) else text
                for number, text in enumerate(texts)
            ]
        case dict() as table:
            for inner in table:
                _rewrite(table, inner, (*key, name), rewrite)


def _rewrite_paths(tree: Mapping[str, object], rewrite: Rewrite) -> None:
    for key, table in _tables(tree):
        if not isinstance(table.get("path"), dict):
            _rewrite(table, "path", key, rewrite)
    _rewrite(tree.get("metrics"), "files", ("metrics",), rewrite)
    _rewrite(tree.get("output"), "path", ("output",), rewrite)


def _fill_variables(
    tree: Mapping[str, object], variables: Mapping[str, str], problems: _Problems
) -> None:
    places: set[str] = set()

    def value_of(key: Key, name: str) -> str | None:
        places.add(name)
        if name not in variables:
            close = nearest(name, variables)
            hint = f"--var {close} is given" if close else f"give it: --var {name}=..."
            message = f"{{{name}}} has no value"
            problems.add(key, "unknown-variable", message, hint=hint)
        return variables.get(name)

    def fill_path(key: Key, text: str) -> str:
        return _PLACE.sub(lambda place: value_of(key, place[1]) or "", text)

    def fill_sql(key: Key, text: str) -> str:
        def piece(found: re.Match[str]) -> str:
            if found["name"]:
                value = value_of(key, found["name"]) or ""
                return "'" + value.replace("'", "''") + "'"
            for name in _PLACE.findall(found["quoted"]):
                if name in variables:
                    places.add(name)
                    problems.add(
                        key,
                        "quoted-variable",
                        f"{{{name}}} stands inside quotes",
                        hint=f"write {{{name}}} alone: it becomes a quoted literal",
                    )
            return found["quoted"]

        return _SQL_PIECE.sub(piece, text)

    _rewrite_paths(tree, fill_path)
    for key, table in _tables(tree):
        if isinstance(table.get("where"), str):
            _rewrite(table, "where", key, fill_sql)
        if isinstance(table.get("columns"), dict):
            _rewrite(table, "columns", key, fill_sql)
    for name in variables:
        if name not in places:
            close = nearest(name, places)
            hint = f"did you mean {close!r}?" if close else "no path and no SQL has that place"
            error = RequestError(
                f"{{{name}}} is nowhere in the config",
                code="unused-variable",
                at=f"--var {name}={variables[name]}",
                hint=hint,
            )
            problems.found.append(((1, 0), error))


def _resolve_paths(tree: dict[str, object], base: str) -> None:
    folder = "" if base == "." else base

    def resolve(key: Key, path: str) -> str:
        is_url = re.match(r"[A-Za-z][A-Za-z0-9+.-]+://", path)
        return path if not path or is_url else os.path.join(folder, os.path.expanduser(path))

    if "output" not in tree:
        tree["output"] = {}
    if isinstance(tree["output"], dict):
        tree["output"].setdefault("path", OutputSection.model_fields["path"].default)
    _rewrite_paths(tree, resolve)


# ---------------------------------------------------------------- checks

_KINDS = {
    "string_type": "text",
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "bool_type": "true or false",
    "tuple_type": "a list",
    "model_type": "a table",
    "model_attributes_type": "a table",
}


def _translate(each: Mapping[str, object], tree: object, problems: _Problems) -> None:
    """Say one of pydantic's findings in our words."""
    key = cast(Key, each["loc"])
    kind = cast(str, each["type"])
    value = each.get("input")
    context = cast("dict[str, object]", each.get("ctx", {}))
    if kind == "extra_forbidden":
        name = str(key[-1])
        problems.add(key, "unknown-key", f"no key is called {name!r}", hint=_key_hint(key))
    elif kind == "missing":
        hint = 'names = ["nDCG@10", "recall@10"] under [metrics]' if key[0] == "metrics" else ""
        where = key if key[:-1] else ()
        if spell(key) == "metrics":
            key = where = ("metrics", "names")
        problems.add(where, "missing-key", f"{spell(key)!r} is not given", hint=hint)
    elif kind == "literal_error":
        choices = _choices(_annotation_at(key))
        close = nearest(value, choices) if isinstance(value, str) else None
        problems.add(
            key,
            "unknown-choice",
            f"{_show(value)} is none of {', '.join(choices)}",
            hint=f"did you mean {close!r}?" if close else "",
        )
    elif kind in _KINDS:
        wanted = _KINDS[kind]
        if kind == "tuple_type" and _takes_text(_annotation_at(key)) and key[-1] in _TEXT_KEYS:
            wanted = "text or a list of texts"
        hint = _type_hint(key, value, wanted)
        problems.add(key, "wrong-type", f"{_show(value)} is not {wanted}", hint=hint)
    elif kind == "too_short":
        problems.add(key, "missing-key", f"{spell(key)!r} is empty", hint="name one at least")
    elif kind == "finite_number":
        problems.add(key, "out-of-range", f"{_show(value)} is not a finite number")
    elif kind in ("greater_than_equal", "less_than_equal"):
        limit = context.get("ge", context.get("le"))
        side = "at least" if "ge" in context else "at most"
        problems.add(key, "out-of-range", f"{_show(value)} is not {side} {limit}")
    else:
        problems.add(key, "wrong-type", f"{_show(value)}: {each['msg']}")


_TEXT_KEYS = ("path", "user")


def _show(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dict):
        return "a table"
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _type_hint(key: Key, value: object, wanted: str) -> str:
    if wanted == "text" and isinstance(value, int | float) and not isinstance(value, bool):
        return f'{key[-1]} = "{value}"' if isinstance(key[-1], str) else "put it in quotes"
    if wanted == "a list" and key[-1] == "rankings":
        return "write [[rankings]], in double brackets"
    if wanted == "a list" and isinstance(value, str):
        return f'{key[-1]} = ["{value}"]'
    if wanted == "a table" and isinstance(value, list):
        return f"write [{spell(key)}] once; columns.model takes a table of many models"
    if wanted in ("a number", "a whole number", "true or false") and isinstance(value, str):
        return "leave the quotes out"
    return ""


def _choices(annotation: object) -> list[str]:
    if get_origin(annotation) is Literal:
        return [str(choice) for choice in get_args(annotation)]
    return [choice for inner in get_args(annotation) for choice in _choices(inner)]


def _key_hint(key: Key) -> str:
    record = _record_in(_annotation_at(key[:-1])) if key[:-1] else Config
    known = list(record.model_fields) if record else []
    name = str(key[-1])
    close = nearest(name, known)
    if close:
        return f"did you mean {close!r}?"
    homes = [
        spell(home) for home, fields in _known_tables(Config, ()) if name in fields and home != key
    ]
    if homes:
        return f"{name!r} stands under {' or '.join(homes)}"
    elsewhere = {
        field: spell(home)
        for home, fields in reversed(_known_tables(Config, ()))
        for field in fields
    }
    if close := nearest(name, elsewhere):
        if len(difflib.get_close_matches(name.lower(), [close.lower()], cutoff=0.8)) == 1:
            return f"did you mean {close!r} under {elsewhere[close]}?"
    return f"{spell(key[:-1]) or 'a config'} has {', '.join(known)}" if known else ""


def _known_tables(record: type[_Record], at: Key) -> list[tuple[Key, list[str]]]:
    found = [(at or ("the top",), list(record.model_fields))]
    for name, declared in record.model_fields.items():
        inner = _record_in(declared.annotation)
        if inner is not None:
            found += _known_tables(inner, (*at, name))
    return found


def _check_tables(tree: Mapping[str, object], problems: _Problems) -> None:
    """Truth and rankings or a log; every table has a path and, where it ranks, a model."""
    has = {section for section in ("truth", "rankings", "log") if section in tree}
    if tree.get("rankings") == []:
        has.discard("rankings")
    if "log" in has and len(has) > 1:
        others = " and ".join(f"[{each}]" for each in ("truth", "rankings") if each in has)
        problems.add(
            ("log",),
            "conflicting-keys",
            f"[log] and {others} exclude each other",
            hint="a joined log holds truth and rankings in one table",
        )
    elif not has:
        problems.add(
            (),
            "missing-key",
            "there is nothing to evaluate",
            hint="give [truth] and [[rankings]], or [log]; evalkit init writes them",
        )
    elif "log" not in has and len(has) == 1:
        missing = "[[rankings]]" if has == {"truth"} else "[truth]"
        problems.add((), "missing-key", f"{missing} is not given", hint="or [log] instead of both")

    seen: dict[str, str] = {}
    for key, table in _tables(tree):
        path = table.get("path")
        if path in ([], "") or (isinstance(path, list) and "" in path):
            problems.add((*key, "path"), "missing-key", f"{spell((*key, 'path'))!r} is empty")
        if key[0] not in ("rankings", "log") or key == ("rankings",):
            continue
        columns = table.get("columns")
        has_column = isinstance(columns, dict) and "model" in columns
        if "model" in table and has_column:
            problems.add(
                (*key, "model"),
                "conflicting-keys",
                "model and columns.model exclude each other",
                hint="columns.model reads the name from each row",
            )
        elif "model" not in table and not has_column:
            problems.add(
                key,
                "missing-key",
                f"{spell((*key, 'model'))!r} is not given",
                hint='model = "als", or columns.model for one table with many models',
            )
        model = table.get("model")
        if model == "":
            problems.add((*key, "model"), "missing-key", "the model has no name")
        elif isinstance(model, str):
            if model in seen:
                problems.add(
                    (*key, "model"),
                    "duplicate-model",
                    f"two rankings are called {model!r}",
                    hint=f"the first is at {seen[model]}; files of one model are a list of paths",
                )
            seen.setdefault(model, problems.places.at((*key, "model")))


def _check_names(tree: Mapping[str, object], problems: _Problems) -> None:
    name = tree.get("name")
    if isinstance(name, str) and (
        not name.strip() or name.startswith(".") or not name.isprintable() or set(name) & set("/\\")
    ):
        problems.add(
            ("name",),
            "out-of-range",
            f"{name!r} cannot name a run",
            hint="no slash, no leading dot, printable characters",
        )


def _check_metrics(tree: Mapping[str, object], problems: _Problems) -> None:
    match tree.get("metrics"):
        case {"names": list() as names, **others}:
            pass
        case _:
            return
    texts = [(number, name) for number, name in enumerate(names) if isinstance(name, str)]
    files = others.get("files")
    key: Key = ("metrics", "names")
    metrics = None
    if isinstance(files, list) and all(isinstance(file, str) for file in files) and files:
        try:
            metrics = load_metric_files(files)
        except EvalkitError as error:
            return problems.add_error(("metrics", "files"), error)
    try:
        parse_metrics(
            [name for _, name in texts],
            metrics=metrics,
            at=lambda number: problems.places.at((*key, texts[number][0])),
        )
    except EvalkitError as error:
        problems.add_error(key, error)
    return None
