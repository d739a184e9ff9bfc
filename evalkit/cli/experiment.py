"""`evalkit experiment`: a look at an experiment without a config, and before there is one."""

from math import isfinite
from typing import TYPE_CHECKING, Annotated, Any

from typer import Option

from evalkit.cli import console, result
from evalkit.cli.options import RunOptions, RunsWritten, file_settings, set_threads, takes
from evalkit.errors import FINE, RequestError

if TYPE_CHECKING:
    from evalkit.config import Config


@takes("metric_file overrides out format json full threads memory_limit quiet log_format")
def experiment(
    exposures: Annotated[
        list[str], Option("--exposures", metavar="PATH", help="unit, variant, time.")
    ],
    metric: Annotated[
        list[str], Option("--metric", "-m", metavar="METRIC", help="As ratio(click, impression).")
    ],
    options: RunOptions,
    variants: Annotated[
        str, Option("--variants", metavar="NAME=SHARE,...", help="The first is the baseline.")
    ] = "",
    events: Annotated[
        list[str] | None, Option("--events", metavar="PATH", help="unit, time, kind, value.")
    ] = None,
    window: Annotated[str | None, Option("--window", metavar="SPAN", help="As 7d.")] = None,
    sums: Annotated[
        list[str] | None,
        Option("--sum", metavar="COLUMN=KIND[:value]", help="Default: columns are kinds."),
    ] = None,
    primary: Annotated[
        list[str] | None, Option("--primary", metavar="METRIC", help="What decides.")
    ] = None,
    guardrail: Annotated[
        list[str] | None, Option("--guardrail", metavar="METRIC", help="What must not get worse.")
    ] = None,
    power: Annotated[
        bool, Option("--power", help="Sizes and durations on the log of before; no effects.")
    ] = False,
    relative: Annotated[
        float | None, Option("--relative", metavar="SHARE", help="Effect to plan for, as 0.01.")
    ] = None,
    delta: Annotated[
        float | None, Option("--delta", metavar="NUMBER", help="The same in the metric's unit.")
    ] = None,
    aa: Annotated[
        int | None, Option("--aa", metavar="N", min=1, help="Split N times without an effect.")
    ] = None,
    out: RunsWritten = None,
) -> int:
    """Read an experiment without a config, or plan one by its past.

    Every key of a config can be set: --set statistics.cluster=household.
    """
    from evalkit.config import build_config

    options.check()
    is_plan = power or aa is not None
    _check_effects({"--relative": relative, "--delta": delta}, has_power=power and aa is None)
    section: dict[str, Any] = {"variants": _shares(variants, is_plan=is_plan)}
    if window is not None:
        section["window"] = window
    if sums:
        section["sums"] = dict(map(_sum, sums))
    metrics: dict[str, Any] = {"names": metric}
    metrics |= {"primary": primary} if primary else {}
    metrics |= {"guardrails": guardrail} if guardrail else {}
    tree: dict[str, object] = {
        "experiment": section,
        "exposures": {"path": exposures},
        "metrics": metrics,
    }
    if events:
        tree["events"] = {"path": events}
    if is_plan and not variants:
        tree["exposures"] = {"path": exposures, "columns": {"variant": "'control'"}}
    settings = [*(options.overrides or ()), *file_settings(options.metric_file)]
    config = build_config(tree, name="experiment", overrides=settings, entry_point="options")
    set_threads(options.threads)
    if is_plan:
        _plan(config, relative, delta, aa, options.threads)
        return FINE
    return result.run_and_show(config, options, folder=out, memory_limit=options.limit)


def _shares(text: str, *, is_plan: bool) -> dict[str, float]:
    if not text and is_plan:
        return {"control": 1.0, "candidate": 1.0}
    if not text:
        message = "nobody says which variants there are"
        hint = "--variants control=50,b=50: as the column spells them, the baseline first"
        raise RequestError(message, code="missing-option", at="--variants", hint=hint)
    found: dict[str, float] = {}
    names = [part.partition("=")[0].strip() for part in text.split(",")]
    for part in text.split(","):
        name, equals, share = part.partition("=")
        try:
            found[name.strip()] = float(share)
        except ValueError:
            equals = ""
        if not equals or not name.strip():
            message = f"{text!r} are no variants with shares"
            hint = f"--variants {','.join(f'{each}=50' for each in names)}"
            raise RequestError(message, code="bad-share", at="--variants", hint=hint)
    return found


def _check_effects(effects: dict[str, float | None], *, has_power: bool) -> None:
    """Refuse an effect to plan for that is none, and one where nothing is planned."""
    given = {option: size for option, size in effects.items() if size is not None}
    for option, size in given.items():
        message, hint = "", f"--power {option} 0.01"
        if not has_power:
            message = f"{option} is an effect to plan for"
        elif size == 0 or not isfinite(size):
            message = f"{size} is no effect to plan for"
        elif len(given) > 1:
            message, hint = f"{' and '.join(given)} exclude each other", "leave one out"
        if message:
            raise RequestError(message, code="bad-option", at=option, hint=hint)


def _sum(text: str) -> tuple[str, object]:
    name, equals, kind = text.partition("=")
    if not equals:
        hint = "--sum clicks=click, or --sum revenue=purchase:value"
        raise RequestError(f"{text!r} is not COLUMN=KIND", code="bad-option", at="--sum", hint=hint)
    kind, colon, of = kind.partition(":")
    return name, {"kind": kind, "of": of} if colon else kind


def _plan(
    config: "Config",
    relative: float | None,
    delta: float | None,
    n_splits: int | None,
    threads: int | None,
) -> None:
    """Print what an experiment on these units would take, and what its false alarms would be."""
    import polars as pl

    from evalkit.kinds.experiments.kind import units_of_config
    from evalkit.kinds.experiments.planning import false_alarms, power_of

    asked, units = units_of_config(config, threads)
    shown = {"tbl_rows": 200, "tbl_hide_dataframe_shape": True, "fmt_str_lengths": 60}
    with pl.Config(**shown, tbl_hide_column_data_types=True):  # type: ignore[arg-type]
        if n_splits is None:
            sizes, by_week = power_of(units, asked, relative=relative, delta=delta)
            what = "units that show it" if relative or delta else "the smallest effect they show"
            console.say(f"{units.n:,} units of before; {what}, with power {asked.statistics.power}")
            console.say(str(sizes))
            if by_week.height:
                console.say("the smallest effect by week:", str(by_week))
            return
        found = list(false_alarms(units, asked, n_splits))
        console.say(
            f"{units.n:,} units split {n_splits:,} times without an effect; "
            f"{1.0 - asked.statistics.level:.1%} false alarms are expected"
        )
        rows = [
            {
                "metric": each.metric,
                "false alarms": each.rate,
                "low": each.low,
                "high": each.high,
                "would see": each.smallest,
                "relative": each.relative,
            }
            for each in found
        ]
        console.say(str(pl.DataFrame(rows)))
