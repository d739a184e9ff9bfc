"""`evalkit why`: what moved a number between two runs."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option

from evalkit.cli import console
from evalkit.cli.named_runs import JobName, tell_taken, where_of
from evalkit.cli.options import RunOptions, RunsFolder, takes
from evalkit.errors import RequestError, clean

if TYPE_CHECKING:
    from evalkit.report import Report
    from evalkit.runs.history.why import Explained


@takes("json quiet log_format")
def why(
    before: Annotated[str, Argument(metavar="BEFORE", help="A run: last~1, a tag, a path.")],
    after: Annotated[str, Argument(metavar="AFTER", help="A later run: last, a tag, a path.")],
    options: RunOptions,
    metric: Annotated[
        list[str] | None,
        Option("--metric", "-m", metavar="METRIC", help="As nDCG@10; default: all in common."),
    ] = None,
    model: Annotated[
        list[str] | None, Option("--model", metavar="NAME", help="Default: all in common.")
    ] = None,
    by: Annotated[
        str | None,
        Option("--by", metavar="SEGMENTATION", help="Split the mix by it; default: the first."),
    ] = None,
    runs: RunsFolder = Path("runs"),
    name: JobName = None,
) -> None:
    """Split the change of a number between two runs into its parts.

    Mix: which segments the users are in. Truth: how many relevant items they have. Coverage: how
    many are ranked. Within: the values of users who are alike in all of these. The parts add up.
    """
    from evalkit.runs.history import differences_of_measure, load_together
    from evalkit.runs.history.why import explain_runs

    first, second = load_together(runs, (before, after), name=name)
    if first.run_id == second.run_id:
        message = f"{before!r} and {after!r} are one run"
        hint = f"evalkit why last~1 last{where_of(runs, name)}"
        raise RequestError(message, code="same-run", at=first.run_id, hint=hint)
    _check_jobs(first, second)
    if differs := differences_of_measure(first, second):
        message = f"{before} and {after} measure otherwise: {'; '.join(differs)}"
        console.warn("measured-otherwise", message)
    pair = (before, first), (after, second)
    explained = explain_runs(*pair, metrics=metric or [], models=model or [], by=by)
    if not explained:
        raise RequestError(
            f"{before} and {after} have no model and metric in common", code="nothing-in-common"
        )
    for reference, report in pair:
        tell_taken(reference, report, on_stdout=not (options.json or options.quiet))
    console.say(_document(explained) if options.json else _table(explained))


def _check_jobs(before: "Report", after: "Report") -> None:
    """Refuse runs whose numbers are of two different jobs: no parts of a change explain them."""
    if before.name != after.name:
        message = f"run {before.run_id} is of {before.name!r}, run {after.run_id} of {after.name!r}"
        hint = f"evalkit compare {before.run_id} {after.run_id} compares jobs over one truth"
        raise RequestError(message, code="different-jobs", hint=hint)


NAMES = ("mix", "truth", "coverage", "within")


def _document(explained: "list[Explained]") -> str:
    from evalkit.report.json_ import dump_line

    rows = []
    for explanation in explained:
        change = explanation.change
        rows.append(
            {
                "model": explanation.model,
                "metric": explanation.metric,
                "segmentation": explanation.segmentation,
                "before": change.before,
                "after": change.after,
                "delta": change.after - change.before,
                **{name: getattr(change.parts, name) for name in NAMES},
                "level": explanation.level,
                "limits": {name: explanation.limits(name) for name in ("delta", *NAMES)},
                "no_limits_because": explanation.unknown or None,
                "segments": [
                    {
                        "segment": segment,
                        **{name: getattr(parts, name) for name in NAMES},
                        "limits": {name: explanation.limits(name, segment) for name in NAMES},
                    }
                    for segment, parts in change.segments.items()
                ],
            }
        )
    return "[\n" + ",\n".join(f"  {dump_line(row)}" for row in rows) + "\n]"


def _table(explained: "list[Explained]") -> str:
    from evalkit.report.text import lay_out, shorten, shorten_all, show_level

    header = ["model", "metric", "before", "after", "delta", *NAMES]
    models = list(dict.fromkeys(each.model for each in explained))
    short = dict(zip(models, shorten_all(models, 16), strict=True))
    rows = [header]
    for explanation in explained:
        change, parts = explanation.change, explanation.change.parts
        numbers = [parts.total, *(getattr(parts, name) for name in NAMES)]
        rows.append(
            [
                short[explanation.model],
                shorten(clean(explanation.metric), 16),
                f"{change.before:.4f}",
                f"{change.after:.4f}",
                *(f"{number:+.4f}" for number in numbers),
            ]
        )
        if explanation.errors is not None:
            limits = [explanation.limits(name) or (0.0, 0.0) for name in ("delta", *NAMES)]
            halves = (f"±{(high - low) / 2.0:.4f}" for low, high in limits)
            rows.append(["", "", "", show_level(explanation.level), *halves])
    lines = lay_out(rows, right=range(2, len(header)), gap=" ")
    by = explained[0].segmentation
    lines.append(
        "one group of all users, so the mix is 0" if by is None else f"mix: by {clean(by)}"
    )
    reasons = dict.fromkeys(each.unknown for each in explained if each.unknown)
    lines += [f"no limits: {clean(each)}" for each in reasons]
    if any(each.errors is not None for each in explained):
        lines.append("±: as if both runs had drawn their users; users of both make it too wide")
    return "\n".join(lines)
