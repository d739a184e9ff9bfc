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
    folder = out or Path(request.output.path)
    with result.held(folder, request.name) as job:
        report = result.measure(
            request,
            threads=threads,
            memory_limit=limit,
            sample=share,
            per_user=request.output.per_user or per_user is not None,
        )
        path = result.publish(report, request, folder, job=job)
    if per_user is not None:
        result.write_per_user(report, per_user)
    result.show(report, shown, path=path)
