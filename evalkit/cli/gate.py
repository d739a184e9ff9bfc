"""`evalkit gate`: the gates alone, on a finished run."""

from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option

from evalkit.cli import console
from evalkit.cli.named_runs import JobName, tell_taken, where_of
from evalkit.cli.options import RunOptions, RunsFolder, takes
from evalkit.errors import FINE, GATE_FAILED, DataError, RequestError, clean

if TYPE_CHECKING:
    from evalkit.config import GateRule
    from evalkit.report import Report
    from evalkit.runs.gates import Baselines


@takes("out name metric_file overrides variables json quiet log_format")
def gate(
    run: Annotated[str, Argument(metavar="RUN", help="last, last~1, a tag, an id or a path.")],
    options: RunOptions,
    baseline: Annotated[
        str | None,
        Option("--baseline", metavar="RUN", help="Compare with that run, whatever the gates say."),
    ] = None,
    config: Annotated[
        Path | None,
        Option("--config", metavar="FILE", help="Gates of that config. Default: the run's own."),
    ] = None,
    out: RunsFolder = Path("runs"),
    name: JobName = None,
) -> int:
    """Judge a finished run by its gates, or by those of a config.

    Exit status 1 where one fails. Nothing is written."""
    from evalkit.runs.gates import find_baselines, judge
    from evalkit.runs.history import load_named

    report = load_named(out, run, name=name)
    if config is not None:
        asked = options.load(config)
        rules, level = asked.gates, asked.statistics.level
    else:
        for option, value in {"--set": options.overrides, "--var": options.variables}.items():
            if value is not None:
                message = f"{option} changes a config, and the gates are the run's own"
                hint = "name a config of gates too: --config FILE"
                raise RequestError(message, code="bad-option", at=option, hint=hint)
        again = f"evalkit gate {quote(run)}{where_of(out, name)}"
        rules, level = _rules_of(report, run, baseline, again)
    if not rules and not any(each.is_alarm for each in report.checks):
        message = "there are no gates"
        hint = "write [[gates]] in a config and give it: --config FILE"
        raise RequestError(message, code="no-gates", at=str(config or report.run_id), hint=hint)
    _check_level(report, rules, level, at=str(config))
    if baseline is not None:
        rules = tuple(
            each
            if each.baseline is None or each.max_drop_relative is not None  # a share of a model's
            else each.model_copy(update={"baseline": baseline})
            for each in rules
        )
    # A gate's own `last` is the run before this one, a person's the same as everywhere.
    baselines = find_baselines(
        rules,
        report.models,
        out,
        name=report.name,
        before=report.run_id if baseline is None else None,
        elsewhere=config is not None or baseline is not None,
    )
    _tell_taken(run, report, baselines, where_of(out, name))
    found = judge(rules, report, baselines, level=level, is_finished=True)
    if options.json:
        from dataclasses import asdict

        console.say_json([asdict(each) for each in found])
    else:
        console.say(*(f"{each.outcome}: {clean(each.message)}" for each in found))
    for gate in found:
        if gate.fails:
            console.tell(DataError(gate.message, code="gate-failed", at=report.run_id))
    return GATE_FAILED if any(each.fails for each in found) else FINE


def _check_level(report: "Report", rules: "tuple[GateRule, ...]", level: float, *, at: str) -> None:
    """Refuse to judge values by limits of another level than is asked for."""
    used = report.statistics
    judge_values = any(
        each.metric is not None
        and (each.max_drop is None or each.baseline in report.models)  # whose limits are there
        for each in rules
    )
    if used is not None and used.level != level and judge_values:
        message = f"the limits of {report.run_id} are at {used.level:g}, not at {level:g}"
        hint = f"--set statistics.level={used.level:g}, or run it again at {level:g}"
        raise RequestError(message, code="other-level", at=at, hint=hint)


def _tell_taken(run: str, report: "Report", baselines: "Baselines", where: str) -> None:
    """Tell which runs are meant, and refuse to hold one against itself."""
    tell_taken(run, report)
    for reference in baselines.paths:
        old = baselines.report(reference)
        if old is None:
            continue
        if old.run_id == report.run_id:
            message = f"{reference!r} is the run that is judged"
            hint = f"evalkit gate last --baseline last~1{where}"
            raise RequestError(message, code="same-run", at=report.run_id, hint=hint)
        tell_taken(reference, old)


def _rules_of(
    report: "Report", run: str, baseline: str | None, again: str
) -> "tuple[tuple[GateRule, ...], float]":
    """The gates that a run was made with, from its manifest.

    Raises:
        DataError: they are none [run-damaged].
        RequestError: one of them compares with a path, which nobody here has named [bad-baseline].
    """
    import os

    from evalkit.config import build_gates

    try:
        rules, level = build_gates(report.config or {})
    except RequestError as error:
        message = f"the gates that it was made with cannot be read: {error.message}"
        hint = f"give the gates: {again} --config FILE"
        raise DataError(message, code="run-damaged", at=run, hint=hint) from error
    for rule in rules:
        if baseline is None and rule.baseline is not None and os.sep in rule.baseline:
            message = f"its gate compares with {rule.baseline!r}, and a run names no paths"
            hint = f"{again} --baseline {quote(rule.baseline)}"
            raise RequestError(message, code="bad-baseline", at=run, hint=hint)
    return rules, level
