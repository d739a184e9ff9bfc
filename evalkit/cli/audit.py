"""`evalkit audit`: one metric under every profile, and the conventions that move it."""

from typing import Annotated, Literal

from typer import Option

from evalkit.cli import console
from evalkit.cli.guess import tell_columns
from evalkit.cli.options import ConfigFile, RunOptions, choose_format, takes


@takes(
    "metric_file overrides variables format json sample threads memory_limit "
    "quiet isolated log_format"
)
def audit(
    config: ConfigFile,
    options: RunOptions,
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
    format: Annotated[
        Literal["table", "json", "markdown"] | None, Option("--format", help="Default: table.")
    ] = None,
) -> None:
    """Measure a metric as every library does, and what moves it.

    For every two profiles: the smallest set of conventions that explains the difference, and
    how much each of them contributes, measured by switching them.
    """
    from evalkit.errors import RequestError, did_you_mean

    shown = choose_format(format, options.json)
    limit, share = options.limit, options.share
    request = options.load(config)
    from evalkit.jobs.audit import audit_config, render_audit

    audits = audit_config(
        request,
        metric,
        profiles=profile or (),
        threads=options.threads,
        memory_limit=limit,
        sample=share,
        opened=tell_columns,
    )
    names = [each.model for each in audits]
    if model is not None and model not in names:
        message = f"no model is called {model!r}"
        hint = did_you_mean(model, names, f"there is {', '.join(names)}")
        raise RequestError(message, code="unknown-model", at="--model", hint=hint)
    chosen = [each for each in audits if model in (None, each.model)]
    console.say(render_audit(chosen, shown).rstrip("\n"))
