"""`evalkit merge`: the report of all shares."""

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from evalkit.cli import result
from evalkit.cli.alert import named_alerts
from evalkit.cli.options import RunOptions, set_threads, takes


@takes(
    "out allow_missing metric_file variables format json full summary if_new wait prometheus "
    "per_user again threads quiet isolated log_format"
)
def merge(
    options: RunOptions,
    files: Annotated[
        list[Path] | None, Argument(metavar="FILES...", help="What evalkit partial wrote.")
    ] = None,
    allow_missing: Annotated[
        bool, Option("--allow-missing", help="Merge what is there; the report says what is not.")
    ] = False,
    alerts: Annotated[
        Path | None,
        Option("--alerts", metavar="CONFIG", help="Tell whom [alerts] of this config names."),
    ] = None,
) -> int:
    """Write the report of all shares, as run does of a whole log.

    Exit status 1 where a gate failed; the report is complete then, too."""
    options.check()
    set_threads(options.threads)
    from evalkit.jobs.merge import open_for_merge

    named = None if alerts is None else named_alerts(options.load(alerts), alerts)
    config, partials = open_for_merge(
        files or (), allow_missing=allow_missing, metric_files=options.metric_file or ()
    )
    return result.run_and_show(
        config, options, partials=partials, folder=options.out or config.output.path, alerts=named
    )
