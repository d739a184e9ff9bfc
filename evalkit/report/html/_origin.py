"""Where the numbers come from: rows that were read and dropped, warnings, how the run was made."""

from collections.abc import Iterable, Iterator, Mapping

from evalkit.report.entries import Input, ModelCounts, TruthCounts
from evalkit.report.html._markup import Html, el, join, raw
from evalkit.report.html._tables import name_cell, number_cell, table, text_cell
from evalkit.report.record import Report
from evalkit.report.text import count_words, show_level


def data_section(report: Report) -> Html:
    """Counts of the truth and of every model, and everything odd."""
    truth, words = report.counts.truth, count_words(report)
    odd = words.odd
    logs: list[tuple[str, TruthCounts | ModelCounts]]
    logs = [(words.truth, truth), *report.counts.models.items()]
    dropped = (pair for _, counts in logs for pair in counts.rows_dropped.items())
    reasons = list(dict.fromkeys(reason for reason, number in dropped if number))
    head = [
        *("log", "rows", "used"),
        *(f"dropped: {reason.replace('_', ' ')}" for reason in reasons),
        *(f"{words.unit}s", *odd.values()),
    ]
    rows = [
        [
            name_cell(name),
            *map(_count, (counts.rows, counts.rows_used)),
            *(_count(counts.rows_dropped.get(reason)) for reason in reasons),
            _count(counts.users),
            *(_count(getattr(counts, each, None)) for each in odd),  # the truth has none of them
        ]
        for name, counts in logs
    ]
    note = f"{truth.pairs:,} {words.pairs_are}"
    if truth.users_without_relevant:
        note += f"; {truth.users_without_relevant:,} users of the truth have none"
    if truth.in_train is not None:
        note += f"; {truth.in_train:,} stand in train"
    return join(
        el("h2", "Data", id="data"),
        _warnings(report),
        el("p", f"{note}. Rows are rows used and rows dropped.", class_="soft"),
        table(head, rows, pin=True, sortable=False, class_="data"),
    )


def _count(number: int | None) -> Html:
    return number_cell("" if number is None else f"{number:,}")


def _warnings(report: Report) -> Html | None:
    if not report.warnings:
        return None
    return el(
        "ul",
        (
            el(
                "li",
                el("b", each.code),
                f": {each.message}",
                f" ({each.model})" if each.model is not None else None,
            )
            for each in report.warnings
        ),
        class_="warnings",
    )


def origin_section(report: Report) -> Html:
    """Run, inputs, versions, time, memory, statistics, config."""
    meta = report.meta
    facts = [
        ("run", report.run_id),
        ("run key", report.run_key),
        ("profile", report.profile),
        ("started", meta.started),
        (
            "took",
            f"{meta.seconds:.2f} s; {meta.cpu_seconds:.2f} s of CPU on {meta.threads} threads",
        ),
        ("memory", f"{meta.peak_bytes / 2**20:,.0f} MiB at most"),
        ("speed", f"{meta.rows_per_second:,.0f} rows a second"),
        ("stages", ", ".join(f"{name} {each:.2f} s" for name, each in meta.stages.items())),
        ("made with", ", ".join(f"{name} {each}" for name, each in meta.versions.items())),
    ]
    used = report.statistics
    if used is not None:
        drawn = f", {used.replicates} replicates, seed {used.seed}" if used.replicates else ""
        facts.append(
            (
                "statistics",
                f"{show_level(used.level)} intervals, {used.method}{drawn}; test {used.test}, "
                f"correction {used.correction}",
            )
        )
    listed = [[name_cell(name), text_cell(value, wrap=True)] for name, value in facts if value]
    inputs = [
        [
            name_cell(each.role if each.model is None else f"{each.role}: {each.model}"),
            number_cell(f"{each.rows:,}"),
            text_cell(_paths(each.paths), wrap=True),
            text_cell(_columns(each), wrap=True),
            text_cell(each.fingerprint or "none"),
        ]
        for each in report.inputs
    ]
    different = {(each.metric, id(each.parameters)): each for each in report.estimates}
    parameters = dict.fromkeys(
        f"{each.metric}: {', '.join(f'{key} = {value}' for key, value in each.parameters.items())}"
        for each in different.values()
        if each.parameters
    )
    return join(
        el("h2", "How this was made", id="origin"),
        table(["", ""], listed, sortable=False),
        el("h3", "Inputs"),
        table(["log", "rows", *_texts("paths", "columns", "fingerprint")], inputs, sortable=False),
        el("details", el("summary", "Parameters of metrics"), el("pre", _lines(parameters)))
        if parameters
        else None,
        el("details", el("summary", "Config"), el("pre", _lines(_toml(report.config))))
        if report.config
        else None,
    )


def _texts(*names: str) -> list[Html]:
    return [el("th", name, class_="text", scope="col") for name in names]


def _columns(log: Input) -> str:
    spelled = (
        f"{key} = {column if isinstance(column, str) else ', '.join(column)}"
        + (" (guessed)" if key in log.guessed else "")
        for key, column in log.columns.items()
    )
    ranked = (f"ranked by {log.ranked_by}",) if log.ranked_by else ()
    return ", ".join((*spelled, *ranked))


def _paths(paths: tuple[str, ...]) -> str:
    if not paths:
        return "in memory"
    more = f" and {len(paths) - 4:,} more" if len(paths) > 4 else ""
    return ", ".join(paths[:4]) + more


def _lines(lines: Iterable[str]) -> Iterator[Html]:
    return (join(line, raw("\n")) for line in lines)


def _toml(config: Mapping[str, object] | None, at: str = "") -> list[str]:
    """The config as `key = value` lines; what is not set is left out."""
    lines: list[str] = []
    for key, value in (config or {}).items():
        name = f"{at}.{key}" if at else str(key)
        if isinstance(value, Mapping):
            lines += _toml(value, name)
        elif isinstance(value, list | tuple) and any(isinstance(each, Mapping) for each in value):
            for place, each in enumerate(value):
                lines += _toml(each, f"{name}[{place}]") if isinstance(each, Mapping) else []
        elif value is not None and value != "" and value != []:
            lines.append(f"{name} = {value!r}")
    return lines
