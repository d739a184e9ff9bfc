"""`evalkit partial`: one share of the users, for any scheduler."""

from pathlib import Path
from typing import Annotated

from typer import Option

from evalkit.cli import console
from evalkit.cli.guess import tell_columns
from evalkit.cli.isolation import Isolated
from evalkit.cli.options import (
    ConfigFile,
    LogFormat,
    MemoryLimit,
    Overrides,
    Profile,
    Quiet,
    Sample,
    Threads,
    Variables,
    check_sample,
    memory_limit_of,
    set_threads,
    with_profile,
)
from evalkit.errors import FINE


def partial(
    config: ConfigFile,
    share: Annotated[
        str, Option("--share", metavar="I/N", help="Which share of how many, from 1/N to N/N.")
    ],
    out: Annotated[Path, Option("--out", "-o", metavar="FILE", help="File of the partial.")],
    profile: Profile = None,
    overrides: Overrides = None,
    variables: Variables = None,
    per_user: Annotated[
        bool, Option("--per-user", help="Keep every user's values, for merge --per-user.")
    ] = False,
    sample: Sample = None,
    threads: Threads = None,
    memory_limit: MemoryLimit = None,
    quiet: Quiet = False,
    isolated: Isolated = False,
    log_format: LogFormat = "text",
) -> int:
    """Measure one share of the users; merge makes a report of all.

    The shares may be measured anywhere, at any time. What is wrong with rows is told by merge."""
    from evalkit.config import load_config, parse_variables
    from evalkit.jobs.partial import check_target, parse_share, write_partial

    limit, fraction, which = memory_limit_of(memory_limit), check_sample(sample), parse_share(share)
    check_target(out)
    request = load_config(
        config,
        overrides=with_profile(overrides, profile),
        variables=parse_variables(variables or ()),
    )
    set_threads(threads)
    try:
        write_partial(
            request,
            which,
            out,
            sample=fraction,
            threads=threads,
            memory_limit=limit,
            per_user=per_user,
            progress=console.progress_line(),
            opened=tell_columns,
        )
    finally:
        console.clear_progress()
    console.say(f"partial: {out}")
    return FINE
