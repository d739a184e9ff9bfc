"""`evalkit run`: the whole job."""

from evalkit.cli import result
from evalkit.cli.isolation import Isolated
from evalkit.cli.options import (
    Again,
    ConfigFile,
    Engine,
    Format,
    Full,
    IfNew,
    Json,
    LogFormat,
    MemoryLimit,
    Out,
    Overrides,
    PerUserPath,
    Profile,
    Prometheus,
    Quiet,
    Sample,
    Summary,
    Threads,
    Variables,
    Wait,
    check_sample,
    choose_format,
    memory_limit_of,
    set_threads,
    with_engine,
    with_profile,
)


def run(
    config: ConfigFile,
    profile: Profile = None,
    overrides: Overrides = None,
    variables: Variables = None,
    out: Out = None,
    format: Format = None,
    json: Json = False,
    full: Full = False,
    summary: Summary = False,
    if_new: IfNew = False,
    wait: Wait = 0.0,
    prometheus: Prometheus = None,
    per_user: PerUserPath = None,
    sample: Sample = None,
    again: Again = False,
    threads: Threads = None,
    memory_limit: MemoryLimit = None,
    engine: Engine = None,
    quiet: Quiet = False,
    isolated: Isolated = False,
    log_format: LogFormat = "text",
) -> int:
    """Evaluate what a config asks for, and write its report.

    Exit status 1 where a gate failed; the report is complete then, too."""
    from evalkit.config import load_config, parse_variables

    shown = choose_format(format, json, "screen", full=full)
    limit, share = memory_limit_of(memory_limit), check_sample(sample)
    result.check_file_option(per_user, "--per-user")
    result.check_file_option(prometheus, "--prometheus")
    request = load_config(
        config,
        overrides=with_engine(with_profile(overrides, profile), engine),
        variables=parse_variables(variables or ()),
    )
    set_threads(threads)
    is_default_elsewhere = request.engine.kind != "local" and memory_limit is None
    return result.run_and_show(
        request,
        folder=out or request.output.path,
        format=shown,
        summary=summary,
        prometheus=prometheus,
        wait_seconds=wait,
        if_new=if_new,
        per_user=per_user,
        sample=share,
        again=again,
        threads=threads,
        memory_limit=None if is_default_elsewhere else limit,
    )
