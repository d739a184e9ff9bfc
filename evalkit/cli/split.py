"""`evalkit split`: one log into train, validation and test."""

from pathlib import Path
from typing import Annotated, Any, Literal

from typer import Argument, Option

from evalkit.cli import console
from evalkit.cli.options import RunOptions, set_threads, takes
from evalkit.errors import RequestError


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
    user: Annotated[
        list[str] | None, Option("--user", metavar="COLUMN", help="Repeat for several together.")
    ] = None,
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
    from evalkit.config import build_split, load_split

    ids: dict[str, object] = {
        key: each
        for key, each in (("item", item), ("time", time), ("relevance", relevance))
        if each
    }
    if user:
        ids["user"] = user
    if check:
        parts = {"train": train, "validation": validation, "test": test}
        given = {name: path for name, path in parts.items() if path is not None}
        return _check(source, given, ids, options, out, fail_on)
    if source is None:
        hint = "evalkit split LOG --test 7d --out DIR, or evalkit split CONFIG.toml"
        raise RequestError("no log is given", code="missing-option", at="evalkit split", hint=hint)
    asked: dict[str, Any] = {
        "by": by,
        "test": test,
        "validation": validation,
        "folds": folds,
        "like": like,
        "write": write,
        "memory_limit": options.limit if options.memory_limit is not None else None,
        **({"columns": ids} if ids else {}),
    }
    given = {key: each for key, each in asked.items() if each is not None}
    values, overrides = options.filled, options.overrides
    if source.endswith(".toml"):
        settings = [f"split.{key}={_spelled(each)}" for key, each in given.items()]
        config = load_split(source, overrides=[*settings, *(overrides or ())], variables=values)
    else:
        config = build_split(
            {"split": {"path": source, **given}},
            name="split",
            overrides=overrides or (),
            variables=values,
            entry_point="set",
        )
    set_threads(options.threads)
    from evalkit.splits.show import run_split

    return run_split(
        config, out, is_json=options.json, fail_on=fail_on, say=console.say, note=console.note
    )


def _check(
    source: str | None,
    parts: dict[str, str],
    ids: dict[str, object],
    options: RunOptions,
    out: Path | None,
    fail_on: str | None,
) -> int:
    from evalkit.config import build_split, load_split

    if "train" not in parts or len(parts) < 2:
        message = "a check needs train and what is held out"
        hint = "evalkit split --check --train PATH --validation PATH --test PATH"
        raise RequestError(message, code="missing-option", at="evalkit split --check", hint=hint)
    values, overrides = options.filled, options.overrides
    if source is not None:
        settings = [f"split.columns.{key}={_spelled(each)}" for key, each in ids.items()]
        config = load_split(source, overrides=[*settings, *(overrides or ())], variables=values)
    else:
        config = build_split(
            {"split": {"columns": ids} if ids else {}},
            name="check",
            overrides=overrides or (),
            variables=values,
            entry_point="set",
        )
    from evalkit.splits.show import run_check

    return run_check(config, parts, out, is_json=options.json, fail_on=fail_on, say=console.say)


def _spelled(value: object) -> str:
    from json import dumps

    if isinstance(value, dict):
        return "{" + ", ".join(f"{key} = {dumps(each)}" for key, each in value.items()) + "}"
    return dumps(value)
