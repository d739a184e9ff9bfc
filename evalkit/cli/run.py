"""`evalkit run`: the whole job."""

from pathlib import Path

from evalkit.cli import result
from evalkit.cli.options import (
    ConfigFile,
    Format,
    Json,
    LogFormat,
    MemoryLimit,
    Out,
    Overrides,
    PerUserPath,
    Quiet,
    Sample,
    Threads,
    Variables,
    check_sample,
    choose_format,
    memory_limit_of,
    set_threads,
)


def run(
    config: ConfigFile,
    overrides: Overrides = None,
    variables: Variables = None,
    out: Out = None,
    format: Format = None,
    json: Json = False,
    per_user: PerUserPath = None,
    sample: Sample = None,
    threads: Threads = None,
    memory_limit: MemoryLimit = None,
    quiet: Quiet = False,
    log_format: LogFormat = "text",
) -> None:
    """Evaluate what a config asks for, and write its report."""
    from evalkit.config import load_config, parse_variables

    shown = choose_format(format, json)
    limit = memory_limit_of(memory_limit)
    share = check_sample(sample)
    result.check_per_user_path(per_user)
    request = load_config(
        config, overrides=overrides or (), variables=parse_variables(variables or ())
    )
    set_threads(threads)
    result.run_and_show(
        request,
        folder=out or Path(request.output.path),
        format=shown,
        per_user=per_user,
        sample=share,
        threads=threads,
        memory_limit=limit,
    )
