"""`evalkit partial`: one share of the users, for any scheduler."""

from pathlib import Path
from typing import Annotated

from typer import Option

from evalkit.cli import console
from evalkit.cli.guess import tell_columns
from evalkit.cli.options import ConfigFile, RunOptions, takes
from evalkit.errors import FINE


@takes(
    "metric_file profile overrides variables per_user sample threads memory_limit "
    "quiet isolated log_format"
)
def partial(
    config: ConfigFile,
    share: Annotated[
        str, Option("--share", metavar="I/N", help="Which share of how many, from 1/N to N/N.")
    ],
    out: Annotated[Path, Option("--out", "-o", metavar="FILE", help="File of the partial.")],
    options: RunOptions,
    per_user: Annotated[
        bool, Option("--per-user", help="Keep every user's values, for merge --per-user.")
    ] = False,
) -> int:
    """Measure one share of the users; merge makes a report of all.

    The shares may be measured anywhere, at any time. What is wrong with rows is told by merge."""
    from evalkit.jobs.partial import check_target, parse_share, write_partial

    options.check()
    which = parse_share(share)
    check_target(out)
    request = options.load(config)
    try:
        write_partial(
            request,
            which,
            out,
            sample=options.share,
            threads=options.threads,
            memory_limit=options.limit,
            per_user=per_user,
            progress=console.progress_line(),
            opened=tell_columns,
        )
    finally:
        console.clear_progress()
    console.say(f"partial: {out}")
    return FINE
