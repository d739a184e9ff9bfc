"""`evalkit demo`: real data in one command."""

from pathlib import Path
from shlex import quote
from typing import Annotated

from typer import Option

from evalkit.cli import console, result
from evalkit.cli.options import (
    Format,
    Full,
    Json,
    LogFormat,
    Overrides,
    Quiet,
    Threads,
    choose_format,
    memory_limit_of,
    set_threads,
)


def demo(
    out: Annotated[Path, Option("--out", "-o", metavar="DIR", help="Folder of runs.")] = Path(
        "runs"
    ),
    overrides: Overrides = None,
    format: Format = None,
    json: Json = False,
    full: Full = False,
    threads: Threads = None,
    quiet: Quiet = False,
    log_format: LogFormat = "text",
) -> int:
    """Compare four models on real ratings, and judge one of them."""
    shown = choose_format(format, json, "screen", full=full)
    set_threads(threads)
    from evalkit.config import load_config
    from evalkit.demo import demo_config

    path = demo_config()
    config = load_config(path, overrides=overrides or ())
    console.note(f"evalkit run {path}")
    status = result.run_and_show(
        config, folder=out, format=shown, threads=threads, memory_limit=memory_limit_of(None)
    )
    where = "" if out == Path("runs") else f" --out {quote(str(out))}"
    for command in (
        f"evalkit report last{where} --format latex",
        f"evalkit compare --config {quote(str(path))} als ease",
        "evalkit init --truth YOUR_TRUTH --rankings NAME=YOUR_RANKINGS",
    ):
        console.note(f"next: {command}")
    return status
