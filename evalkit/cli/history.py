"""`evalkit history`: past runs, listed, shown over time, queried, tagged, pruned."""

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from pathlib import Path
from shlex import quote
from typing import Annotated, Any, Literal

import typer
from typer import Argument, Option

from evalkit.cli import console
from evalkit.cli.options import (
    Json,
    LogFormat,
    Quiet,
    RunsFolder,
    Wait,
    check_file_option,
    runs_in,
    takes,
)
from evalkit.cli.store_runs import ReadFolder, is_copy, local_copy
from evalkit.errors import MachineError, RequestError, clean

Name = Annotated[
    str | None, Option("--name", metavar="NAME", help="Runs of that job. Default: of all.")
]
RUNS = Path("runs")

history = typer.Typer(
    help="Past runs: list, show, nights, query, export, tag, prune.",
    no_args_is_help=False,
    invoke_without_command=True,
    rich_markup_mode=None,
)


@history.callback()
def begin(context: typer.Context, out: RunsFolder = RUNS) -> None:
    """Past runs.

    The runs' directories are the truth; history.sqlite beside them is an index, and made anew
    when it is lost."""
    if context.invoked_subcommand is None:
        list_runs(local_copy(out))
    else:
        context.default_map = {context.invoked_subcommand: {"out": str(out)}}


def _latest_runs(out: Path, name: str | None, limit: int) -> list[tuple[Any, ...]]:
    """What the index holds of each of the last runs; `first` is the best model and its metric."""
    from evalkit.runs.history import open_index

    sql = """
        SELECT run_id, name, is_fine, n_warnings, seconds,
               (SELECT group_concat(tag, ' ') FROM tags WHERE tags.run_id = runs.run_id),
               best_model || ' ' || best_metric, best_value, answer, started, best_metric,
               variables, (SELECT json_group_array(message) FROM
                           (SELECT message FROM gates WHERE gates.run_id = runs.run_id AND fails
                            ORDER BY gates.rowid))
        FROM runs WHERE ? IS NULL OR name = ? ORDER BY run_id DESC LIMIT ?
    """
    with open_index(out) as (connection, damaged):
        rows = connection.execute(sql, (name, name, limit)).fetchall()
    _warn_of_damage(out, damaged)
    return rows


@history.command("html")
@takes("quiet log_format")
def write_index(
    out: ReadFolder = RUNS,
    name: Name = None,
    limit: Annotated[int, Option("--limit", min=1, metavar="N", help="The last N runs.")] = 1000,
    file: Annotated[
        Path | None, Option("--file", metavar="FILE", help="Default: index.html beside the runs.")
    ] = None,
) -> None:
    """Write one page over all runs, with links to their pages."""
    import os
    from json import loads

    from evalkit.report.html import render_index
    from evalkit.report.trend import PastRun, days_of
    from evalkit.runs.history import read_trends

    if file is None and is_copy(out):
        raise RequestError(
            "no page is written into a store", code="bad-option", hint="--file index.html"
        )
    check_file_option(file, "--file", runs_in(out))
    page = file or out / "index.html"
    runs = [
        PastRun(
            run_id=run_id,
            job=job,
            started=started,
            is_fine=bool(is_fine),
            n_warnings=n_warnings,
            answer=answer,
            best=best or "",
            metric=metric or "",
            value=value,
            tags=tuple((tags or "").split()),
            page=os.path.relpath(found, page.parent) if found.is_file() else None,
            failed=tuple(loads(failed)),
            variables=loads(variables or "{}"),
        )
        for row in _latest_runs(out, name, limit)
        for run_id, job, is_fine, n_warnings, _, tags, best, value, answer, started, *more in (row,)
        for metric, variables, failed in (more,)
        for found in (out / run_id / "report.html",)
    ]
    trends = []
    for latest in {each.job: each for each in reversed(runs)}.values():
        days = (key for key, at in latest.variables.items() if days_of(at) is not None)
        if latest.value is not None and sum(each.job == latest.job for each in runs) > 1:
            trends += read_trends(out, latest.metric, name=latest.job, by=next(days, None))[0]
    console.write(page, render_index(runs, trends))


@history.command("list")
def list_runs(
    out: ReadFolder = RUNS,
    name: Name = None,
    limit: Annotated[int, Option("--limit", min=1, metavar="N", help="The last N runs.")] = 20,
    json: Json = False,
    quiet: Quiet = False,
    log_format: LogFormat = "text",
) -> None:
    """List runs, the latest first: verdict, the best model by the metric that decides, tags."""
    rows = _latest_runs(out, name, limit)
    if not rows:
        from evalkit.runs.history import hint_of_runs

        of_job = "" if name is None else f"no run is of job {name!r}: "
        console.note(of_job + hint_of_runs(out))
    keys = "run_id name is_fine n_warnings seconds tags first value answer".split()
    if json:
        console.say_json(
            [
                dict(zip(keys, row, strict=False))
                | {"is_fine": bool(row[2]), "tags": (row[5] or "").split()}
                for row in rows
            ]
        )
        return
    from evalkit.report.text import show_values

    values = show_values([row[7] if row[7] is not None else float("nan") for row in rows])
    console.say(
        _table(
            ("run", "job", "verdict", "warnings", "seconds", "best", "", "tags"),
            [
                (
                    *(row[0], row[1], "fine" if row[2] else "failed", str(row[3])),
                    *(f"{row[4]:.1f}", row[6] or "", value, row[5] or ""),
                )
                for row, value in zip(rows, values, strict=True)
            ],
            right={3, 4, 6},
        )
    )


@history.command()
@takes("quiet log_format")
def show(
    metric: Annotated[str, Argument(metavar="METRIC", help="As nDCG@10.")],
    out: ReadFolder = RUNS,
    name: Name = None,
    model: Annotated[
        str | None, Option("--model", metavar="MODEL", help="That model. Default: all.")
    ] = None,
    segment: Annotated[
        str | None, Option("--segment", metavar="RULE=NAME", help="Default: all users.")
    ] = None,
    by: Annotated[
        str | None,
        Option("--by", metavar="VARIABLE", help="Order by it, as day of --var; default: start."),
    ] = None,
    limit: Annotated[int, Option("--limit", min=2, metavar="N", help="The last N runs.")] = 60,
    html: Annotated[
        Path | None, Option("--html", metavar="FILE", help="Write a page with a plot.")
    ] = None,
    json: Json = False,
) -> None:
    """Show one metric over time, a line for each model."""
    check_file_option(html, "--html", runs_in(out))
    from evalkit.runs.history import read_trends

    trends, damaged = read_trends(
        *(out, metric),
        name=name,
        model=model,
        segment=segment,
        limit=limit,
        by=by,
        beside=None if html is None else html.parent,
    )
    _warn_of_damage(out, damaged)
    if html is not None:
        from evalkit.report.html import render_trends

        return console.write(html, render_trends(trends))
    if json:
        from dataclasses import asdict

        console.say_json([asdict(each) for each in trends])
        return
    from evalkit.report.text import show_values, sparkline
    from evalkit.report.trend import tell_signals

    rows = []
    for trend in trends:
        values = [point.value for point in trend.points]
        last, least, most = show_values([values[-1], min(values), max(values)])
        change = f"{values[-1] - values[-2]:+.6f}" if len(values) > 1 else ""
        line = sparkline(values)
        where = f"{trend.segmentation}={trend.segment}" if trend.segment is not None else ""
        limits = trend.points[-1].expected_low, trend.points[-1].expected_high
        expected = "" if None in limits else " … ".join(show_values([e or 0.0 for e in limits]))
        ends = (last, change, expected, least, most, str(len(values)))
        rows.append((trend.job, trend.model, where, line, *ends))
    head = ("job", "model", "segment", clean(trends[0].metric), "last", "change", "expected")
    console.say(_table((*head, "least", "most", "runs"), rows, right={4, 5, 6, 7, 8, 9}))
    console.say(*(clean(line) for trend in trends for line in tell_signals(trend)))


@history.command("nights")
@takes("quiet log_format")
def compare_nights(
    run: Annotated[
        str, Argument(metavar="RUN", help="The last night: last, a tag, an id or a path.")
    ] = "last",
    metric: Annotated[
        list[str] | None,
        Option("--metric", "-m", metavar="METRIC", help="Default: the primary ones, or the first."),
    ] = None,
    users: Annotated[
        Literal["overlapping", "disjoint"] | None,
        Option("--users", help="Whether nights may share users. Default: as the run's config."),
    ] = None,
    out: RunsFolder = RUNS,
    name: Name = None,
    json: Json = False,
) -> None:
    """Compare models over all nights of a job, valid however often somebody looks."""
    from evalkit.report.nights import tell_nights
    from evalkit.runs.history import load_named
    from evalkit.runs.history.nights import compare_over_nights, users_of

    report = load_named(out, run, name=name)
    compared = compare_over_nights(report, out, users or users_of(report), metrics=metric or ())
    if not compared:
        message = f"run {report.run_id} compares no two models by such a metric"
        hint = "write baseline = MODEL under [statistics]"
        raise RequestError(message, code="nothing-in-common", at=str(out), hint=hint)
    if json:
        from evalkit.report.json_ import dump_line

        console.say("[\n" + ",\n".join(f"  {dump_line(each)}" for each in compared) + "\n]")
        return
    console.say(*map(clean, tell_nights(compared)))


@history.command("query")
@takes("quiet log_format")
def query_runs(
    sql: Annotated[str, Argument(metavar="SQL", help="One SELECT.")],
    out: ReadFolder = RUNS,
    format: Annotated[
        Literal["table", "json", "csv"], Option("--format", help="What stdout shows.")
    ] = "table",
) -> None:
    """Read the index by SQL: tables runs, metrics, comparisons, gates, counts, tags."""
    from evalkit.runs.history import query

    found = query(out, sql)
    rows = [[_plain(value) for value in row] for row in found.rows]
    if format == "json":
        console.say_json([dict(zip(found.columns, row, strict=True)) for row in rows])
    elif format == "csv":
        import csv
        from io import StringIO

        from evalkit.report.forms.csv_ import safe_cell

        text = StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(map(safe_cell, found.columns))
        writer.writerows([safe_cell(value) for value in row] for row in rows)
        console.say(text.getvalue())
    else:
        numbers = {
            place
            for place in range(len(found.columns))
            if any(isinstance(row[place], int | float) for row in rows)
        }
        texts = [["" if value is None else str(value) for value in row] for row in rows]
        console.say(_table(found.columns, texts, right=numbers))


@history.command()
@takes("quiet log_format")
def export(
    file: Annotated[Path, Argument(metavar="FILE", help="Parquet file to write.")],
    out: ReadFolder = RUNS,
) -> None:
    """Write every number of every run to one Parquet file."""
    if file.suffix.lower() in (".csv", ".tsv", ".json"):
        message = f"what is written is Parquet, and not {file.suffix}"
        hint = 'FILE.parquet, or evalkit history query "SELECT * FROM metrics" --format csv'
        raise RequestError(message, code="unknown-format", at=str(file), hint=hint)
    check_file_option(file, "FILE", runs_in(out))
    from io import BytesIO

    import polars as pl

    from evalkit.runs import replacing
    from evalkit.runs.history import query

    found = query(
        out,
        "SELECT runs.name AS job, runs.started, runs.is_fine, metrics.* FROM metrics "
        "JOIN runs USING (run_id) ORDER BY run_id, metrics.rowid",
    )
    numbers = ("value", "low", "high", "std_error")
    wholes = ("is_fine", "cutoff", "n_users", "n_undefined")
    schema = {
        column: pl.Float64 if column in numbers else pl.Int64 if column in wholes else pl.String
        for column in found.columns
    }
    frame = pl.DataFrame(list(found.rows), schema=schema, orient="row")
    content = BytesIO()
    moment = pl.col("started").str.to_datetime("%+", time_unit="ms", time_zone="UTC", strict=False)
    frame.with_columns(moment, pl.col("is_fine").cast(pl.Boolean)).write_parquet(content)
    with replacing(file) as fresh:
        fresh.write(content.getbuffer())
    console.say(f"{file}: {frame.height:,} rows of {frame['run_id'].n_unique():,} runs")


@history.command()
@takes("quiet log_format")
def looks(
    truth: Annotated[
        list[str] | None,
        Option("--truth", metavar="PATH", help="A test part. Default: those that are known here."),
    ] = None,
    out: RunsFolder = RUNS,
    json: Json = False,
) -> None:
    """List the runs that looked at a test part, found by what it holds.

    What ran in other folders and on other machines cannot be known."""
    from dataclasses import asdict

    from evalkit.runs.history.holdout_uses import HoldoutPart, find_looks, known_parts

    if truth:
        from evalkit.config import TruthTable
        from evalkit.sources import Guessing, open_truth

        table = open_truth(TruthTable(path=tuple(truth)), None, Guessing("options"))
        parts = [HoldoutPart.of(table)]
    else:
        parts = known_parts(out)
    found = [(part, find_looks(out, part)) for part in parts]
    if json:
        listed = [
            {"content": part.content, "name": part.name, "looks": [*map(asdict, each_of)]}
            for part, each_of in found
        ]
        console.say_json(listed)
        return
    if not found:
        console.say("no test part is known here: --truth PATH names one")
    for part, each_of in found:
        told = "1 look" if len(each_of) == 1 else f"{len(each_of):,} looks"
        console.say(f"{clean(part.name)} ({part.content}): {told} here")
        rows = [(each.run_id, each.job, each.started, ", ".join(each.models)) for each in each_of]
        if rows:
            console.say(_table(("run", "job", "started", "models"), rows))
    console.note("what ran in other folders and on other machines cannot be known")


@history.command()
@takes("quiet log_format")
def tag(
    run: Annotated[str, Argument(metavar="RUN", help="last, last~1, a tag, an id or a path.")],
    tag: Annotated[str, Argument(metavar="TAG", help="As prod; it moves if it is there.")],
    out: RunsFolder = RUNS,
    name: Name = None,
    remove: Annotated[bool, Option("--remove", help="Take the tag from the run.")] = False,
) -> None:
    """Give a run a name that stays: for baselines, and against pruning."""
    from evalkit.runs.history import find_named, read_tags, tag_run, untag

    found = find_named(out, run, name=name)
    if not remove:
        tag_run(out, found, tag)
        console.say(f"{tag}: {found.name}")
        return
    if tag in (tags := read_tags(out)) and tags[tag] != found.name:
        message = f"{tag!r} is the tag of {tags[tag]}"
        hint = f"evalkit history tag {tags[tag]} {tag} --remove --out {quote(str(out))}"
        raise RequestError(message, code="unknown-tag", at=str(out), hint=hint)
    untag(out, tag)
    console.say(f"{tag}: taken from {found.name}")


@history.command()
@takes("quiet log_format")
def prune(
    keep: Annotated[int, Option("--keep", min=1, metavar="N", help="Of every job.")],
    out: RunsFolder = RUNS,
    name: Name = None,
    dry_run: Annotated[bool, Option("--dry-run", help="Say what would be removed.")] = False,
    wait: Wait = 0.0,
) -> None:
    """Remove old runs; the last ones, `last-passed`, tagged ones and `latest` stay."""
    from evalkit.runs.history import prune, refresh

    removed = prune(out, keep=keep, name=name, wait_seconds=wait, dry=dry_run)
    console.say(*map(str, removed))
    console.note(f"{len(removed)} runs {'would be ' if dry_run else ''}removed")
    if not dry_run:
        refresh(out)


@history.command()
def rebuild(out: RunsFolder = RUNS, quiet: Quiet = False, log_format: LogFormat = "text") -> None:
    """Make the index anew from the runs' directories."""
    from evalkit.runs.history import open_index

    with open_index(out, anew=True) as (connection, damaged):
        (number,) = connection.execute("SELECT count(*) FROM runs").fetchone()
        (*_, file) = connection.execute("PRAGMA database_list").fetchone()
    _warn_of_damage(out, damaged)
    if not file:  # it is in memory, and gone now
        message = "the index cannot be written there; whoever reads it makes it anew"
        raise MachineError(message, code="not-writable", at=str(out), hint="make room on the disk")
    console.say(f"{out}: {number:,} runs in the index")


def _warn_of_damage(folder: Path, damaged: int) -> None:
    if damaged:
        console.warn(
            "run-damaged",
            f"{damaged} damaged runs are left out",
            at=str(folder),
            hint=f'for run in {quote(str(folder))}/*/; do evalkit verify "$run"; done',
        )


def _plain(value: str | int | float | bytes | None) -> str | int | float | None:
    return value.hex() if isinstance(value, bytes) else value


def _table(
    head: Sequence[str], rows: Sequence[Sequence[str]], *, right: AbstractSet[int] = frozenset()
) -> str:
    from evalkit.report.text import lay_out

    return "\n".join(lay_out((head, *rows), right))
