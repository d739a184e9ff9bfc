"""`evalkit compare`: is one model really better than another?"""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from typer import Argument, Option

from evalkit.cli import console
from evalkit.cli.guess import name_rankings, tell_columns, unnamed_models
from evalkit.cli.named_runs import JobName, tell_taken, where_of
from evalkit.cli.options import RunOptions, RunsFolder, set_threads, takes
from evalkit.errors import RequestError, did_you_mean

if TYPE_CHECKING:
    from evalkit.config import Config
    from evalkit.planning.tables import Given
    from evalkit.report import Report


@takes(
    "runs name primary metric_file profile overrides variables format json full again threads "
    "memory_limit quiet isolated log_format"
)
def compare(
    models: Annotated[
        list[str],
        Argument(
            metavar="BASELINE CANDIDATE...",
            help="Runs (last, last~1, a tag, a path), models of --config, or rankings of --truth.",
        ),
    ],
    options: RunOptions,
    config: Annotated[
        Path | None, Option("--config", metavar="CONFIG", help="Compare models of this config.")
    ] = None,
    truth: Annotated[
        list[str] | None,
        Option("--truth", metavar="PATH", help="Compare rankings over these interactions."),
    ] = None,
    metric: Annotated[
        list[str] | None,
        Option("--metric", "-m", metavar="METRIC", help="As nDCG@10; default: all there are."),
    ] = None,
    all_pairs: Annotated[
        bool, Option("--all-pairs", help="Every two models, not each with the baseline.")
    ] = False,
    test: Annotated[
        Literal["t", "sign", "wilcoxon", "permutation", "bootstrap"] | None,
        Option("--test", help="Default: t."),
    ] = None,
    correction: Annotated[
        Literal["holm", "bonferroni", "bh", "tukey", "none"] | None,
        Option("--correction", help="Default: holm."),
    ] = None,
    margin: Annotated[
        float | None, Option("--margin", metavar="SIZE", help="A difference that does not matter.")
    ] = None,
    level: Annotated[
        float | None, Option("--level", metavar="SHARE", help="Of confidence; default: 0.95.")
    ] = None,
    power: Annotated[
        bool, Option("--power", help="Show the smallest difference that these users would show.")
    ] = False,
    search: Annotated[
        bool,
        Option("--search", help="Look for segments, and crosses of two, that lose or gain most."),
    ] = False,
    across: Annotated[
        bool, Option("--across", help="Runs of several data sets: mean ranks of their models.")
    ] = False,
    runs: RunsFolder = Path("runs"),
    name: JobName = None,
) -> None:
    """Compare models user by user, over the same truth.

    The first one is the baseline. Nothing is written.
    """
    shown, limit, threads = options.shown, options.limit, options.threads
    is_read = config is not None or bool(truth)
    if config is not None and truth:
        raise _refused("--truth", "--config and --truth exclude each other")
    if len(models) < 2:
        message = f"only {models[0]!r} is named, and it takes two to compare"
        raise RequestError(message, code="nothing-to-compare", hint="evalkit compare last~1 last")
    if config is not None:
        _refuse_twice(models, models, "evalkit compare --config CONFIG BASELINE CANDIDATE")
    if across:
        return show_across(models, metric or [], runs, name, shown, level, is_read=is_read)
    given: dict[str, object] = {"test": test, "correction": correction, "margin": margin}
    given |= {"level": level, "pairs": "all" if all_pairs else "baseline"}
    given["search"] = search or None
    asked = {key: value for key, value in given.items() if value is not None}
    if not is_read:
        _refuse_unread(options, search=search)
    settings = [
        f"{_OPTIONS.get(key, f'statistics.{key}')}={_spelled(value)}"
        for key, value in asked.items()
    ]
    settings += options.settings()
    set_threads(threads)
    if is_read:
        request, tables = _asked(
            models, config, truth or [], metric or [], settings, options.variables or [], runs
        )
        report = _measured(request, tables, runs, again=options.again, threads=threads, limit=limit)
    else:
        report = _of_runs(models, asked, metric or [], options, runs, name)
    _show(report, "table" if power and shown == "screen" else shown, power=power)


_OPTIONS = {name: f"--{name}" for name in ("test", "correction", "margin", "level")}


def _refused(option: str, message: str, hint: str = "") -> RequestError:
    return RequestError(message, code="bad-option", at=option, hint=hint)


def _refuse_twice(those: list[str], called: list[str], hint: str) -> None:
    """Raise where one of them is to be compared with itself."""
    for place, each in enumerate(those):
        if (first := those.index(each)) < place:
            message = (
                f"{called[first]!r} and {called[place]!r} are one, and it takes two to compare"
            )
            raise RequestError(message, code="nothing-to-compare", hint=hint)


def _refuse_unread(options: RunOptions, *, search: bool) -> None:
    """Raise where finished runs, which are not read again, are asked for what only logs say."""
    if search:
        hint = "evalkit compare --config CONFIG BASELINE CANDIDATE --search"
        raise _refused("--search", "finished runs keep no segments of users to search", hint)
    for option, value in {"--set": options.overrides, "--var": options.variables}.items():
        if value is not None:
            message = f"{option} says how logs are read, and finished runs are not read again"
            raise _refused(option, message, "compare models of --config, or rankings of --truth")
    if options.profile is not None:
        message, hint = "runs were made under a profile already", "give --config, or --truth"
        raise _refused("--profile", message, f"{hint} and rankings")


def _spelled(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return repr(value) if isinstance(value, float) else str(value)


def _check_room(
    reports: "list[Report]", metrics: list[str], asked: dict[str, object], limit: int
) -> None:
    """Refuse a comparison of finished runs whose values of users do not fit into memory.

    Raises:
        MachineError: they do not [memory-limit].
    """
    import pyarrow.parquet as pq

    from evalkit.kernels.memory import fits, room_to_compile, too_small
    from evalkit.planning.memory import room_to_compare
    from evalkit.planning.passes import at_rest, with_noise

    n_rows = n_bytes = n_metrics = 0
    for kept in (report.per_user_values for report in reports):
        if kept is None:  # which is told where they are compared
            continue
        n_metrics = max(n_metrics, len(kept.metrics))
        for path in kept.files:
            footer = pq.read_metadata(path)
            n_rows += footer.num_rows
            n_bytes += sum(
                footer.row_group(group).column(column).total_uncompressed_size
                for group in range(footer.num_row_groups)
                for column in range(len(kept.user_columns))
            )
    if metrics:
        n_metrics = min(n_metrics, sum(each.count(",") + 1 for each in metrics))
    drawn = asked.get("test", "t") != "t"
    room = at_rest() + room_to_compare(n_rows, n_metrics, n_bytes, drawn=drawn)
    if not fits(with_noise(room), limit):
        raise too_small(limit, -(-(with_noise(room) + room_to_compile()) // (1 << 20)))


def _of_runs(
    models: list[str],
    asked: dict[str, object],
    metrics: list[str],
    options: RunOptions,
    runs: Path,
    name: str | None,
) -> "Report":
    from evalkit.config import build_statistics
    from evalkit.kernels.memory import run_within
    from evalkit.kernels.threads import usable_cores
    from evalkit.runs.history import load_together
    from evalkit.runs.history.compare import compare_runs

    loaded = list(zip(models, load_together(runs, models, name=name), strict=True))
    for each in loaded:
        on_stdout = options.shown in ("screen", "table") and not options.quiet
        tell_taken(*each, on_stdout=on_stdout)
    hint = f"evalkit compare last~1 last{where_of(runs, name)}"
    _refuse_twice([report.run_id for _, report in loaded], models, hint)

    def compared() -> "Report":
        if options.memory_limit is not None:
            _check_room([report for _, report in loaded], metrics, asked, options.limit)
        return compare_runs(
            loaded,
            build_statistics(asked, _OPTIONS),
            metrics=metrics,
            primary=options.primary or [],
            metric_files=options.metric_file or [],
            threads=options.threads or usable_cores(),
            where=where_of(runs, name),
        )

    return run_within(compared, compared)


def _asked(
    models: list[str],
    config: Path | None,
    truth: list[str],
    metrics: list[str],
    settings: list[str],
    variables: list[str],
    runs: Path,
) -> "tuple[Config, Given]":
    """What is to be measured, of a config or of rankings over a truth."""
    from evalkit.config import evaluate_config, load_config, parse_variables
    from evalkit.planning.tables import Given
    from evalkit.runs.history import name_selected

    filled, given = parse_variables(variables), Given()
    if config is not None:
        if metrics:
            whole = load_config(config, overrides=settings, variables=filled)
            settings = [*_settings_of(metrics, whole), "metrics.primary=[]", *settings]
        settings = [f"statistics.baseline={_as_toml(models[0])}", *settings]
        request = load_config(config, overrides=settings, variables=filled)
        request = name_selected(request, runs)
        models = [request.statistics.baseline or models[0], *models[1:]]
        section = _section_of_models(request)
        tables = getattr(request, section)
        known = [table.model for table in tables]
        if None not in known:  # the others need not be read
            _check_models(models, known, config)
            chosen = [table for table in tables if table.model in models]
            request = request.model_copy(update={section: tuple(chosen)})
    else:
        if not metrics:
            raise RequestError(
                "no metric is named", code="missing-metric", at="-m", hint="-m nDCG@10"
            )
        named = name_rankings(models)
        settings = [f"statistics.baseline={_as_toml(named[0][0])}", *settings]
        request = evaluate_config(
            truth=truth,
            rankings=named,
            metrics=metrics,
            overrides=settings,
            variables=filled,
            command="compare",
        )
        given = Given(unnamed=unnamed_models(models))
    if request.statistics.search:
        request = _with_all_crosses(request)
    return request, given


def _section_of_models(config: "Config") -> str:
    """Which tables of a config are models'."""
    if config.kind == "ratings":
        return "predictions" if config.predictions else "ratings"
    return "labels" if config.kind == "labels" else "rankings"


def _settings_of(metrics: list[str], config: "Config") -> list[str]:
    """What asks for some metrics of a config, and for what those are combined of."""
    written = config.metrics.combined
    if not written:
        return [f"-m={_as_toml(metrics)}"]
    parts = {each.metric.name: each.metric.combined for each in config.requests}
    names = dict.fromkeys(metric for metric in metrics if metric not in written)
    chosen = [metric for metric in metrics if metric in written]
    for combination in (parts[name] for name in chosen):
        assert combination is not None
        names |= dict.fromkeys(part.label for part in combination.parts)
    combined = ", ".join(f"{_as_toml(name)} = {_as_toml(written[name])}" for name in chosen)
    return [f"-m={_as_toml(list(names))}", f"metrics.combined={{{combined}}}"]


def _as_toml(text: "str | list[str]") -> str:
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")  # as TOML wants it


def _measured(
    request: "Config", given: "Given", runs: Path, *, again: bool, threads: int | None, limit: int
) -> "Report":
    from evalkit.pipeline import run_config
    from evalkit.runs.history.holdout_uses import look_ahead, measure_as_look

    def measure(config: "Config") -> "Report":
        return run_config(
            config, given=given, threads=threads, memory_limit=limit, opened=tell_columns
        )

    return measure_as_look(request, runs, look_ahead(request, runs, again=again), measure)


def _with_all_crosses(request: "Config") -> "Config":
    """The config with every two segmentations of users crossed.

    Raises:
        RequestError: there are no segments [no-segments].
    """
    from itertools import combinations

    users = [name for name, rule in request.segments.named.items() if rule.item is None]
    if not users:
        message = "there are no segments of users to search"
        hint = "name them: --set 'segments.n={by = \"n_relevant\", quantiles = 4}'"
        raise RequestError(message, code="no-segments", at="--search", hint=hint)
    known = set(request.segments.cross)
    crosses = [*request.segments.cross]
    crosses += [pair for pair in combinations(users, 2) if not known & {pair, pair[::-1]}]
    segments = request.segments.model_copy(update={"cross": tuple(crosses)})
    return request.model_copy(update={"segments": segments})


def _check_models(wanted: list[str], known: list[str], config: Path) -> None:
    for model in wanted:
        if model not in known:
            message = f"the config has no model {model!r}"
            hint = did_you_mean(model, known, f"it has {', '.join(known)}")
            raise RequestError(message, code="unknown-model", at=str(config), hint=hint)


def _show(report: "Report", format: str, *, power: bool) -> None:
    from evalkit.report import render
    from evalkit.report.comparisons import comparison_lines, finding_lines
    from evalkit.report.findings import searches
    from evalkit.report.screen import MOST_PRIMARY
    from evalkit.report.shown import as_shown

    if format == "screen":
        first = report if report.primary else replace(report, primary=report.leading[:MOST_PRIMARY])
        console.say(render(first, format, width=console.table_width(), color=console.has_color()))
        return
    if format != "table":
        text = render(report, format)
    else:
        width = console.table_width() or 80
        report = as_shown(report)
        lines = comparison_lines(report, width=width, power=power)
        lines += finding_lines(report, width=width) if searches(report) else []
        text = "\n".join(lines).strip("\n")
    console.say(text)
    for warning in report.warnings:
        console.warn(warning.code, warning.message)


def show_across(
    names: Sequence[str],
    metrics: Sequence[str],
    folder: Path,
    job: str | None,
    format: str,
    level: float | None,
    *,
    is_read: bool,
) -> None:
    """Compare finished runs of different data sets by the mean ranks of their models.

    Raises:
        RequestError: options of other comparisons are given [bad-option].
    """
    from evalkit.config import build_statistics
    from evalkit.runs.history import differences_of_measure, load_together
    from evalkit.runs.history.across import compare_across

    if is_read:
        message = "--across compares finished runs"
        hint = "evalkit compare --across runs/a runs/b runs/c"
        raise RequestError(message, code="bad-option", at="--across", hint=hint)
    if len(metrics) > 1:
        message = "data sets are compared by one metric"
        raise RequestError(message, code="bad-option", at="-m", hint=f"-m {metrics[0]}")
    loaded = list(zip(names, load_together(folder, names, name=job), strict=True))
    for name, report in loaded[1:]:
        if differs := differences_of_measure(loaded[0][1], report, of_rows=False):
            message = f"{names[0]} and {name} measure otherwise: {'; '.join(differs)}"
            console.warn("measured-otherwise", message)
    chosen = {} if level is None else {"level": level}
    build_statistics(chosen, {"level": "--level"})
    found = compare_across(loaded, metrics[0] if metrics else None, **chosen)
    if format == "json":
        from evalkit.report.across import render_across

        console.say(render_across(found))
    elif format == "html":
        from evalkit.report.html import render_across_page

        console.say(render_across_page(found))
    elif format == "latex":
        from evalkit.report.forms.latex import across_latex

        console.say(across_latex(found))
    elif format in ("table", "screen"):
        from evalkit.report.across import tell_across

        console.say(tell_across(found))
    else:
        message = f"models over data sets have no form {format}"
        hint = "--format html has the diagram; table, latex and json are there, too"
        raise RequestError(message, code="bad-option", at=f"--format {format}", hint=hint)
