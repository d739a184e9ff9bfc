"""`evalkit judge`: what people should judge next."""

from pathlib import Path
from typing import Annotated

import typer

from evalkit.cli import console
from evalkit.cli.options import ConfigFile, RunOptions, check_file_option, takes
from evalkit.errors import RequestError

judge = typer.Typer(no_args_is_help=True, help="People as judges: what to judge next.")


@judge.callback()
def judges() -> None:
    """People as judges: what to judge next. Ratings are measured by evalkit run, with [judges]."""


@judge.command()
@takes("metric_file overrides variables")
def plan(
    config: ConfigFile,
    metric: Annotated[
        str, typer.Option("--metric", "-m", metavar="METRIC", help="One metric, as nDCG@10.")
    ],
    options: RunOptions,
    n: Annotated[int, typer.Option("-n", min=1, help="Pairs that can be judged.")] = 100,
    model: Annotated[
        list[str] | None,
        typer.Option("--model", metavar="NAME", help="Two of the models. Default: both there are."),
    ] = None,
    relevance: Annotated[
        float | None,
        typer.Option(help="Of an item as relevant as can be. Default: the truth's largest."),
    ] = None,
    out: Annotated[
        Path, typer.Option("--out", "-o", help="CSV file of the pairs; judges fill it in.")
    ] = Path("to-judge.csv"),
) -> None:
    """Find the unjudged pairs of user and item that could turn the verdict on two models.

    The file has empty columns judge and rating; [judges] reads it as it is, when it is filled.
    """
    from evalkit.api import evaluate
    from evalkit.kinds.judges.plan import plan_of_config
    from evalkit.planning.tables import Given
    from evalkit.runs import machine_errors, replacing

    _check_plan(out)
    asked = options.load(config)
    found = plan_of_config(
        asked,
        metric,
        given=Given(),
        n=n,
        models=model or (),
        relevance=relevance,
        evaluate=evaluate,
    )
    with machine_errors(out), replacing(out) as file:
        found.frame.write_csv(file)
    for judged, delta, low, high, width, interval in found.bounds.iter_rows():
        expected = "" if judged == "now" else "expected "
        own = "" if interval is None else f", 95 % interval {expected}{interval:.4f} wide"
        console.say(
            f"{judged}: {metric} differs by {delta:+.4f}; all judgements: {low:+.4f} to "
            f"{high:+.4f}, {expected}width {width:.4f}{own}"
        )
    console.say(f"plan: {out} ({found.frame.height:,} pairs)")


def _check_plan(out: Path) -> None:
    """Refuses, before any work, to write over judgements, or over what is no plan."""
    import csv

    check_file_option(out, "--out")
    if not out.is_file():
        return
    with out.open(encoding="utf-8", errors="replace", newline="") as file:
        is_filled = any(row.get("rating") != "" for row in csv.DictReader(file))
    if is_filled:
        message, hint = "there are judgements already, or no plan", "--out another file"
        raise RequestError(message, code="file-exists", at=str(out), hint=hint)
