"""`evalkit gate`: the gates alone, on a finished run."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option

from evalkit.cli import console
from evalkit.cli.options import Json, LogFormat, Overrides, Quiet, RunsFolder, Variables
from evalkit.errors import FINE, GATE_FAILED, DataError, RequestError, clean

if TYPE_CHECKING:
    from evalkit.config import GateRule
    from evalkit.report import Report


def gate(
    run: Annotated[str, Argument(metavar="RUN", help="last, last~1, a tag, an id or a path.")],
    baseline: Annotated[
        str | None,
        Option("--baseline", metavar="RUN", help="Compare with that run, whatever the gates say."),
    ] = None,
    config: Annotated[
        Path | None,
        Option("--config", metavar="FILE", help="Gates of that config. Default: the run's own."),
    ] = None,
    out: RunsFolder = Path("runs"),
    name: Annotated[
        str | None, Option("--name", metavar="NAME", help="Runs of that job, for last.")
    ] = None,
    overrides: Overrides = None,
    variables: Variables = None,
    json: Json = False,
    quiet: Quiet = False,
    log_format: LogFormat = "text",
) -> int:
    """Judge a finished run by its gates, or by those of a config.

    Exit status 1 where one fails. Nothing is written."""
    from evalkit.gates import find_baselines, judge
    from evalkit.history import load_named

    report = load_named(out, run, name=name)
    if config is not None:
        from evalkit.config import load_config, parse_variables

        asked = load_config(
            config, overrides=overrides or (), variables=parse_variables(variables or ())
        )
        rules, level = asked.gates, asked.statistics.level
    else:
        rules, level = _rules_of(report)
    if not rules:
        raise RequestError(
            "there are no gates",
            code="no-gates",
            at=str(config or report.run_id),
            hint="write [[gates]] in a config and give it: --config FILE",
        )
    if baseline is not None:
        rules = tuple(
            each if each.baseline is None else each.model_copy(update={"baseline": baseline})
            for each in rules
        )
    baselines = find_baselines(
        rules, report.models, out, name=name or report.name, before=report.run_id
    )
    found = judge(rules, report, baselines, level=level)
    if json:
        from dataclasses import asdict

        console.say_json([asdict(each) for each in found])
    else:
        for each in found:
            console.say(f"{each.outcome}: {clean(each.message)}")
    for each in found:
        if each.fails:
            console.tell(DataError(each.message, code="gate-failed", at=report.run_id))
    return GATE_FAILED if any(each.fails for each in found) else FINE


def _rules_of(report: "Report") -> "tuple[tuple[GateRule, ...], float]":
    """The gates that a run was made with, from its manifest."""
    from evalkit.config import GateRule

    config = report.config or {}
    listed, statistics = config.get("gates"), config.get("statistics")
    rules = listed if isinstance(listed, list) else []
    level = statistics.get("level") if isinstance(statistics, dict) else None
    return tuple(GateRule.model_validate(each) for each in rules), level or 0.95
