"""`evalkit split`: one log into train, validation and test."""

import re
from collections.abc import Mapping
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated, Any, Literal

from typer import Argument, Option

from evalkit.cli import console
from evalkit.cli.options import (
    RunOptions,
    UserColumns,
    check_columns,
    refuse_idle,
    set_threads,
    takes,
)
from evalkit.errors import EvalkitError, RequestError
from evalkit.kernels.memory import let_polars_give_back

if TYPE_CHECKING:
    from evalkit.config import SplitConfig


@takes("memory_limit out overrides variables json threads quiet isolated log_format")
def split(
    options: RunOptions,
    source: Annotated[
        str | None,
        Argument(metavar="CONFIG.toml|LOG", help="A config with [split], or the log itself."),
    ] = None,
    by: Annotated[
        str | None, Option(metavar="RULE", help="time, user, item, users, rows, ...")
    ] = None,
    test: Annotated[
        str | None,
        Option(metavar="SIZE", help="7d, a moment, a share as 0.1, or rows of a user as 1."),
    ] = None,
    validation: Annotated[
        str | None, Option(metavar="SIZE", help="The same before the test.")
    ] = None,
    folds: Annotated[int | None, Option(min=1, metavar="N", help="So many splits.")] = None,
    like: Annotated[
        str | None, Option(metavar="LIBRARY", help="Follow a library's rules, as recbole.")
    ] = None,
    user: UserColumns = None,
    item: Annotated[str | None, Option(metavar="COLUMN", help="Item column.")] = None,
    time: Annotated[str | None, Option(metavar="COLUMN", help="Time column.")] = None,
    relevance: Annotated[str | None, Option(metavar="COLUMN", help="Relevance column.")] = None,
    write: Annotated[
        Literal["parts", "assignment", "where"] | None,
        Option(help="Rows, one byte a row, or predicates. Default: parts."),
    ] = None,
    check: Annotated[
        bool, Option("--check", help="Look for leaks of parts that are there: give their paths.")
    ] = False,
    train: Annotated[
        str | None, Option(metavar="PATH", help="With --check, as --validation and --test then.")
    ] = None,
    fail_on: Annotated[
        Literal["across-users", "within-users", "rows-shared"] | None,
        Option("--fail-on", help="End with status 1 at this verdict, or a worse one."),
    ] = None,
    out: Annotated[
        Path | None, Option("--out", "-o", metavar="DIR", help="New folder of the split.")
    ] = None,
) -> int:
    """Cut a log into train, validation and test.

    The folder appears whole or not at all: a Parquet file for each part, and split.json, which
    says what was done. An argument that ends in .toml is a config, any other is the log.
    """
    check_columns(user=user, item=item, time=time, relevance=relevance)
    named = {"item": item, "time": time, "relevance": relevance, "user": user}
    ids: dict[str, object] = {key: each for key, each in named.items() if each}
    of_rules: dict[str, object] = {"by": by, "folds": folds, "like": like, "write": write}
    if check:
        parts = {"train": train, "validation": validation, "test": test}
        given = {name: path for name, path in parts.items() if path is not None}
        idle = of_rules | {"memory-limit": options.memory_limit}
        refuse_idle({f"--{name}": each for name, each in idle.items()}, "a check of parts")
        return _check(source, given, ids, options, out, fail_on)
    refuse_idle({"--train": train}, "a log that is cut")
    if source is None:
        hint = "evalkit split LOG --test 7d --out DIR, or evalkit split CONFIG.toml"
        raise RequestError("no log is given", code="missing-option", at="evalkit split", hint=hint)
    asked: dict[str, Any] = {
        **{**of_rules, "test": test, "validation": validation, "columns": ids or None},
        "memory_limit": options.limit if options.memory_limit is not None else None,
    }
    given = {key: each for key, each in asked.items() if each is not None}
    if source.endswith(".toml"):
        settings = {f"split.{key}": each for key, each in given.items()}
        config = _load(source, settings, options)
    else:
        config = _build("split", {"path": source, **given}, options)
    set_threads(options.threads)
    if config.split.memory_limit is not None:
        let_polars_give_back()
    from evalkit.splits.show import run_split

    try:
        return run_split(
            config, out, is_json=options.json, fail_on=fail_on, say=console.say, note=console.note
        )
    except EvalkitError as error:
        if not source.endswith(".toml"):
            error.hint = _as_options(error.hint)
        raise


def _as_options(hint: str) -> str:
    """A hint that speaks of keys of [split], for a command without a config."""

    def option(found: re.Match[str]) -> str:
        name, value = found[1], found[2].strip('"')
        own = ("by", "test", "validation", "folds", "like", "write")
        if name in own:
            return f"--{name} {quote(value)}"
        return f"--set {quote(f'split.{name}={value}')}"

    return re.sub(r'\b([a-z_]+) = ("[^"]*"|\[[^]]*\]|\{[^}]*\}|[\w.]+)', option, hint)


def _check(
    source: str | None,
    parts: dict[str, str],
    ids: dict[str, object],
    options: RunOptions,
    out: Path | None,
    fail_on: str | None,
) -> int:
    if "train" not in parts or len(parts) < 2:
        message = "a check needs train and what is held out"
        hint = "evalkit split --check --train PATH --validation PATH --test PATH"
        raise RequestError(message, code="missing-option", at="evalkit split --check", hint=hint)
    if source is not None and not source.endswith(".toml"):
        hint = "evalkit split --check --train PATH --test PATH"
        message = "the parts are looked at, and no log beside them"
        raise RequestError(message, code="bad-option", at=source, hint=hint)
    if source is not None:
        settings = {f"split.columns.{key}": each for key, each in ids.items()}
        config = _load(source, settings, options)
    else:
        config = _build("check", {"columns": ids} if ids else {}, options)
    from evalkit.splits.show import run_check

    return run_check(config, parts, out, is_json=options.json, fail_on=fail_on, say=console.say)


def _load(source: str, settings: Mapping[str, object], options: RunOptions) -> "SplitConfig":
    from evalkit.config import load_split

    own = [f"{key}={_spelled(each)}" for key, each in settings.items()]
    overrides = [*own, *(options.overrides or ())]
    return load_split(source, overrides=overrides, variables=options.filled)


def _build(name: str, section: dict[str, object], options: RunOptions) -> "SplitConfig":
    from evalkit.config import Places, build_split

    own, filled = options.overrides or (), options.filled
    told: dict[tuple[str | int, ...], str] = {("split",): "evalkit split"}
    told |= {("split", key): f"--{key}" for key in section if key not in ("path", "columns")}
    return build_split(
        {"split": section},
        name=name,
        places=Places(options=told),
        overrides=own,
        variables=filled,
        entry_point="set",
    )


def _spelled(value: object) -> str:
    from json import dumps

    if isinstance(value, dict):
        return "{" + ", ".join(f"{key} = {dumps(each)}" for key, each in value.items()) + "}"
    return dumps(value)
