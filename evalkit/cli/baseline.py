"""`evalkit baseline`: rankings that every model should beat."""

from pathlib import Path
from typing import Annotated, Literal

from typer import Argument, Option

from evalkit.cli import console
from evalkit.cli.guess import tell_columns
from evalkit.cli.options import Threads as ThreadCount
from evalkit.cli.options import (
    UserColumns,
    check_columns,
    check_file_option,
    set_threads,
    takes,
)


@takes("quiet log_format")
def baseline(
    builtin: Annotated[str, Argument(metavar="BUILTIN", help="random, popular, recent or last.")],
    train: Annotated[list[str], Option("--train", metavar="PATH", help="What models had seen.")],
    users: Annotated[
        list[str], Option("--users", metavar="PATH", help="Who gets a list, as the truth.")
    ],
    out: Annotated[Path, Option("--out", "-o", metavar="FILE", help="Parquet file to write.")],
    k: Annotated[int, Option("--k", metavar="N", help="Items of a list.")] = 50,
    seen: Annotated[
        Literal["drop", "keep"] | None,
        Option("--seen", help="Items that train has of the user. Default: drop."),
    ] = None,
    seed: Annotated[
        int | None, Option("--seed", metavar="N", help="Of random. Default: 1.")
    ] = None,
    half_life: Annotated[
        str | None, Option("--half-life", metavar="SPAN", help="Of recent. Default: 30d.")
    ] = None,
    window: Annotated[
        str | None, Option("--window", metavar="SPAN", help="Of recent: the last 7d alone.")
    ] = None,
    by: Annotated[
        Literal["time", "count"] | None, Option("--by", help="Of last. Default: time.")
    ] = None,
    user: UserColumns = None,
    item: Annotated[str | None, Option("--item", metavar="COLUMN", help="Item column.")] = None,
    time: Annotated[str | None, Option("--time", metavar="COLUMN", help="Time column.")] = None,
    threads: ThreadCount = None,
) -> None:
    """Write rankings of a baseline, made of train alone.

    popular orders items by their rows in train, recent by rows that count less with age, last
    gives users their own items again. In a config: [[rankings]] with builtin = "popular"."""
    from evalkit.config import build_builtin

    check_columns(user=user, item=item, time=time)
    check_file_option(out, "--out", [*train, *users])
    asked = {"builtin": builtin, "k": k, "seen": seen, "seed": seed, "by": by}
    asked |= {"half_life": half_life, "window": window}
    options = {name: f"--{name.replace('_', '-')}" for name in asked}
    rule = build_builtin(asked, {**options, "builtin": "BUILTIN"})
    set_threads(threads)
    from evalkit.jobs.baseline import open_baseline, write_baseline

    named = {"user": user, "item": item, "time": time}
    columns = {name: each for name, each in named.items() if each}
    table = open_baseline(rule, train, users, columns=columns, entry_point="options")
    tell_columns(table.made.tables if table.made is not None else ())
    n_rows = write_baseline(table, out)
    console.say(f"{out}: {n_rows:,} rows")
