"""`evalkit audit`: one metric under every profile, and the conventions that move it."""

from typing import Annotated, Literal

from typer import Option

from evalkit.cli import console
from evalkit.cli.guess import tell_columns
from evalkit.cli.isolation import Isolated
from evalkit.cli.options import (
    ConfigFile,
    Json,
    LogFormat,
    MemoryLimit,
    Overrides,
    Quiet,
    Sample,
    Threads,
    Variables,
    check_sample,
    choose_format,
    memory_limit_of,
    set_threads,
)


def audit(
    config: ConfigFile,
    metric: Annotated[
        str, Option("--metric", "-m", metavar="METRIC", help="One metric, as nDCG@10.")
    ],
    profile: Annotated[
        list[str] | None,
        Option("--profile", metavar="NAME", help="Repeat for several. Default: all there are."),
    ] = None,
    model: Annotated[
        str | None, Option("--model", metavar="NAME", help="One model. Default: all.")
    ] = None,
    overrides: Overrides = None,
    variables: Variables = None,
    format: Annotated[
        Literal["table", "json", "markdown"] | None, Option("--format", help="Default: table.")
    ] = None,
    json: Json = False,
    sample: Sample = None,
    threads: Threads = None,
    memory_limit: MemoryLimit = None,
    quiet: Quiet = False,
    isolated: Isolated = False,
    log_format: LogFormat = "text",
) -> None:
    """Measure one metric as every library does, and say what moves it.

    For every two profiles: the smallest set of conventions that explains the difference, and
    how much each of them contributes, measured by switching them.
    """
    from evalkit.config import load_config, parse_variables
    from evalkit.errors import RequestError, nearest

    shown = choose_format(format, json)
    limit, share = memory_limit_of(memory_limit), check_sample(sample)
    request = load_config(
        config, overrides=overrides or (), variables=parse_variables(variables or ())
    )
    set_threads(threads)
    from evalkit.audit import audit_config, render_audit

    audits = audit_config(
        request,
        metric,
        profiles=profile or (),
        threads=threads,
        memory_limit=limit,
        sample=share,
        opened=tell_columns,
    )
    names = [each.model for each in audits]
    if model is not None and model not in names:
        close = nearest(model, names)
        raise RequestError(
            f"no model is called {model!r}",
            code="unknown-model",
            at="--model",
            hint=f"did you mean {close!r}?" if close else f"there is {', '.join(names)}",
        )
    chosen = [each for each in audits if model in (None, each.model)]
    console.say(render_audit(chosen, shown).rstrip("\n"))
