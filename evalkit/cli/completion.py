"""What a shell completes: metrics, profiles, codes, runs, models and columns of files given before.

What an option or argument takes is told by its metavar, as `METRIC`. What cannot be read is not
completed, and no word is said of it.
"""

import glob
import os
import re
import tomllib
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from typer import Context

Completer = Callable[[Context, object, str], list[str]]

CUTOFFS = (5, 10, 20, 50)
TABLES = ("truth", "rankings", "more", "log", "source", "train", "test", "users", "split")
_RUN_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


def _metrics(context: Context, incomplete: str) -> Iterator[str]:
    """Metrics of every kind, with some cutoffs where they have one."""
    from evalkit.metrics import folders, registry_of

    for kind in folders():
        for metric in registry_of(kind).values():
            if metric.name.startswith(incomplete.partition("@")[0]):
                yield metric.name
                if metric.cutoff == "optional":
                    yield from (f"{metric.name}@{cutoff}" for cutoff in CUTOFFS)


def _explained(context: Context, incomplete: str) -> Iterator[str]:
    """Metrics, and codes of errors and warnings."""
    from evalkit.cli.codes import all_codes

    yield from _metrics(context, incomplete)
    yield from all_codes()


def _profiles(context: Context, incomplete: str) -> Iterator[str]:
    """Profiles of libraries."""
    folder = Path(__file__).parent.parent / "metrics" / "profiles"
    yield from sorted(each.stem for each in folder.glob("*.toml"))


def _runs(context: Context, incomplete: str) -> Iterator[str]:
    """`last`, tags, and the ids of runs, the newest first; of the folder that the line names."""
    folder = Path(context.params.get("out") or context.params.get("runs") or "runs")
    yield from ("last", "last~1", "last-passed", *_tags(context, incomplete))
    for name in sorted(os.listdir(folder), reverse=True):
        is_run = (folder / name / "manifest.json").is_file() and not (folder / name).is_symlink()
        if is_run and _RUN_ID.fullmatch(name):
            yield name


def _tags(context: Context, incomplete: str) -> Iterator[str]:
    """Tags of runs."""
    folder = Path(context.params.get("out") or context.params.get("runs") or "runs")
    if (folder / "tags").is_dir():
        yield from sorted(filter(_RUN_ID.fullmatch, os.listdir(folder / "tags")))


def _compared(context: Context, incomplete: str) -> Iterator[str]:
    """Models of `--config`, or runs where there is none."""
    config = context.params.get("config")
    if config is None:
        yield from [] if context.params.get("truth") else _runs(context, incomplete)
        return
    tree = tomllib.loads(Path(config).read_text(encoding="utf-8"))
    yield from (each["model"] for each in tree["rankings"] if "model" in each)


def _columns(context: Context, incomplete: str) -> Iterator[str]:
    """Columns of the tables that the line names before."""
    for table in TABLES:
        given = context.params.get(table) or ()
        for each in (given,) if isinstance(given, str | Path) else given:
            yield from _columns_of(str(each))


def _columns_of(given: str) -> Iterator[str]:
    """Columns of the first file that `[NAME=]PATH` means: a file, a glob, a folder."""
    path = given if os.path.exists(given) else given.partition("=")[2] or given
    pattern = os.path.join(glob.escape(path), "**", "*") if os.path.isdir(path) else path
    file = next(filter(os.path.isfile, sorted(glob.glob(pattern, recursive=True))))
    from evalkit.sources import read_schema

    yield from read_schema([glob.escape(file)], role="truth")


def _quiet(find: Callable[[Context, str], Iterable[str]]) -> Completer:
    def complete(context: Context, _: object, incomplete: str) -> list[str]:
        found: list[str] = []
        with suppress(Exception):
            found += (each for each in find(context, incomplete) if each.isprintable())
        return [each for each in dict.fromkeys(found) if each.startswith(incomplete)]

    return complete


COMPLETERS = {
    "METRIC": _quiet(_metrics),
    **dict.fromkeys(("RUN", "BEFORE", "AFTER"), _quiet(_runs)),
    "TAG": _quiet(_tags),
    "COLUMN": _quiet(_columns),
    "BASELINE CANDIDATE...": _quiet(_compared),
}
OF_NAMES = {"profile": _quiet(_profiles), "name": _quiet(_explained)}  # whose metavar is NAME


def complete(program: Any) -> None:
    """Let the options and arguments of a command, and of those below it, complete what they take.

    Typer takes the same as `autocompletion=`, of every option by itself.
    """
    for parameter in program.params:
        metavar = parameter.metavar
        found = COMPLETERS.get(metavar)
        if metavar == "NAME" and (parameter.name != "name" or program.name == "explain"):
            found = OF_NAMES.get(parameter.name)
        if found is not None:
            parameter._custom_shell_complete = found
    for each in getattr(program, "commands", {}).values():
        complete(each)
