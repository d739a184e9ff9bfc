"""Configs from files, text and options; the JSON Schema."""

import os
import re
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal, cast

from evalkit.config._building import build_config, build_split
from evalkit.config._joined import joined, of_one_table
from evalkit.config._places import Key, Places, key_lines
from evalkit.config._records import Config, SplitConfig
from evalkit.errors import RequestError, did_you_mean
from evalkit.metrics import other_kinds

MAX_BYTES = 1 << 20


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
    text, file = _read_text(path), Path(path)
    return parse_config(
        text, source=str(file), base=file.parent, overrides=overrides, variables=variables
    )


def load_split(
    path: str | os.PathLike[str],
    *,
    overrides: Sequence[str] = (),
    variables: Mapping[str, str] | None = None,
) -> SplitConfig:
    """What the config that a TOML file holds asks `evalkit split` for.

    Raises:
        RequestError: as `load_config`; sections of other commands are not looked at.
    """
    file = Path(path)
    tree, places = _parse(_read_text(path), str(file))
    return build_split(
        tree,
        name=file.stem,
        places=places,
        base=file.parent,
        overrides=overrides,
        variables=variables,
    )


def is_split_alone(path: str | os.PathLike[str]) -> bool:
    """Whether a TOML file has a section `[split]`, and nothing that is measured.

    Raises:
        RequestError: it cannot be read, or is no TOML [missing-config, config-syntax, ...].
    """
    tree, _ = _parse(_read_text(path), str(path))
    measured = {"truth", "log", "rankings", *other_kinds(), "metrics", "selection"}
    return "split" in tree and not measured & tree.keys()


def _read_text(path: str | os.PathLike[str]) -> str:
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
        message = f"no config can be read there: {reason}"
        hint = _config_hint(file) or "evalkit init writes a config from your files"
        raise RequestError(message, code="missing-config", at=str(file), hint=hint) from None
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
    return text


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
    tree, places = _parse(text, source)
    return build_config(
        tree,
        name=Path(source).stem,
        places=places,
        base=base,
        overrides=overrides,
        variables=variables,
    )


def _parse(text: str, source: str) -> tuple[dict[str, object], Places]:
    try:
        tree: dict[str, object] = tomllib.loads(text)
        lines = key_lines(text)
    except RecursionError:
        raise RequestError(
            "tables or arrays are nested too deep", code="config-syntax", at=source
        ) from None
    except ValueError as error:
        raise _syntax_error(str(error), text, source) from None
    return tree, Places(source, lines)


def evaluate_config(
    *,
    truth: Sequence[str],
    rankings: Sequence[tuple[str, str]],
    metrics: Sequence[str],
    truth_columns: Mapping[str, str | Sequence[str]] | None = None,
    rankings_columns: Mapping[str, Mapping[str, str | Sequence[str]]] | None = None,
    overrides: Sequence[str] = (),
    variables: Mapping[str, str] | None = None,
    command: Literal["evaluate", "compare"] = "evaluate",
    unnamed: frozenset[str] = frozenset(),
) -> Config:
    """The config of one `evalkit evaluate` or `compare`, from its options.

    Args:
        truth: paths of the truth, if any.
        rankings: (model, path) pairs.
        metrics: metric names as they are written in a config.
        truth_columns: our column names to those of the truth, where they differ.
        rankings_columns: the same for each model.
        overrides: `key=value` texts.
        variables: values of the `{name}` places in paths and SQL.
        command: what was called; the run has its name.
        unnamed: models whose names a column gives instead, where their table has one.
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
    tree: dict[str, object] = {"rankings": tables, "metrics": {"names": list(metrics)}}
    if truth:
        tree["truth"] = {"path": list(truth), "columns": _plain(truth_columns)}
    return build_config(
        tree,
        name=command,
        places=Places("", {}, options),
        overrides=overrides,
        variables=variables,
        unnamed=unnamed,
        entry_point="options" if command == "evaluate" else "set",
    )


def config_schema() -> dict[str, object]:
    """JSON Schema of the config, with descriptions and defaults."""
    schema: dict[str, object] = joined(Config, other_kinds()).model_json_schema()
    schema["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    schema["title"] = "evalkit config"
    properties = cast("dict[str, dict[str, object]]", schema["properties"])
    for section in of_one_table(other_kinds()):
        told = properties[section].pop("description")
        one = properties[section]["items"]
        properties[section] = {"description": told, "anyOf": [one, properties[section]]}
    defined = cast("dict[str, dict[str, object]]", schema["$defs"])
    for table in ("TruthTable", "TrainTable"):
        del defined[table]["required"]
        defined[table]["oneOf"] = [{"required": ["path"]}, {"required": ["split"]}]
    schema["oneOf"] = [
        {"required": ["rankings"]},
        *({"required": [section]} for section in ("log", *other_kinds())),
    ]
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
    return did_you_mean(str(file), found)


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
