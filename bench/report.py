"""What writing a report takes: many segments, models and metrics, with and without comparisons.

    python bench/report.py
    python bench/report.py --segments 200 --models 4

Makes a report of invented numbers, renders it in every form, publishes it in the four default ones,
brings the index of runs up to date and reads the run back. Checks first that report.json, the run
and metrics.parquet say what was put in. Prints seconds of processor time and sizes.
"""

import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from evalkit.report import (
    Comparison,
    Counts,
    Estimate,
    Meta,
    ModelCounts,
    Report,
    StatisticsUsed,
    TruthCounts,
    render,
)
from evalkit.report.parquet import OF_RUN
from evalkit.runs import history, load_run, publish
from harness import Machine, count, describe_machine, make_parser, table, write

FORMS = ("json", "markdown", "html", "csv", "latex", "table")


@dataclass(frozen=True)
class Row:
    """Processor time of one step, and the bytes that it made."""

    comparisons: bool
    step: str
    seconds: float
    size: int


@dataclass(frozen=True)
class Record:
    """A whole benchmark."""

    machine: Machine
    segments: int
    models: int
    metrics: int
    rows: list[Row]


def invent(segments: int, models: int, metrics: int, *, compares: bool, seed: int) -> Report:
    """A report over all users and so many segments."""
    rng = random.Random(seed)
    names = [f"model-{number}" for number in range(models)]
    labels = [f"nDCG@{number + 1}" for number in range(metrics)]
    places = [(None, None), *(("group", f"segment {each:05}") for each in range(segments))]

    def estimate(model: str, cutoff: int, rule: str | None, segment: str | None) -> Estimate:
        value, half = rng.random(), rng.random() / 50
        return Estimate(
            model, labels[cutoff], "nDCG", cutoff + 1, {}, value, rng.randint(100, 9_999), 0,
            rule, segment, value - half, value + half, half / 1.96,
        )  # fmt: skip

    def compare(model: str, label: str, rule: str | None, segment: str | None) -> Comparison:
        delta, half = rng.random() - 0.5, rng.random() / 50
        return Comparison(
            baseline=names[0], candidate=model, metric=label, segmentation=rule, segment=segment,
            delta=delta, std_error=half / 1.96, low=delta - half, high=delta + half,
            relative=delta / 2, p_value=rng.random(), p_adjusted=rng.random(), effect_size=delta,
            test="t", n_users=1_000, wins=300, ties=400, losses=300, verdict="cannot tell",
            smallest_difference=half,
        )  # fmt: skip

    compared = [
        compare(model, label, *place)
        for model in (names[1:] if compares else ())
        for place in places
        for label in labels
    ]
    counts = ModelCounts(1_000, 1_000, {}, 100, 0, 0, 0, "relevant", None, 0, 0, 50)
    return Report(
        evalkit="0",
        run_id=f"invented-{int(compares)}",
        run_key="0" * 32,
        name="invented",
        profile="evalkit",
        inputs=(),
        counts=Counts(TruthCounts(1_000, 1_000, {}, 100, 0, 900), dict.fromkeys(names, counts)),
        estimates=tuple(
            estimate(model, cutoff, *place)
            for model in names
            for place in places
            for cutoff in range(metrics)
        ),
        meta=Meta("2026-01-01T00:00:00.000Z", 1.0, 1.0, 1 << 20, 1e6, 2),
        comparisons=tuple(compared),
        statistics=StatisticsUsed(
            level=0.95,
            method="normal",
            test="t",
            correction="holm",
            power=0.8,
            family="metric",
            n_tests=len(compared),
            baseline=names[0] if compares else None,
        ),
    )


def timed(rows: list[Row], compares: bool, step: str, work: Callable[[], int]) -> None:
    """Note what one step takes."""
    began = time.process_time()
    size = work()
    rows.append(Row(compares, step, time.process_time() - began, size))


def check(report: Report, path: Path) -> None:
    """Refuse times of what does not say what was put in."""
    import polars as pl

    read = load_run(path)
    if (read.estimates, read.comparisons) != (report.estimates, report.comparisons):
        raise SystemExit("the run reads back otherwise")
    if Report.from_json(report.to_json()).to_json() != report.to_json():
        raise SystemExit("report.json reads back otherwise")
    metrics = pl.read_parquet(path / "metrics.parquet").drop(*OF_RUN, "caveats")
    if not metrics.equals(report.metrics):
        raise SystemExit("metrics.parquet reads back otherwise")


def _render(report: Report, form: str) -> int:
    return len(render(report, form).encode())


def measure(report: Report, *, compares: bool) -> list[Row]:
    """Every step of one report."""
    rows: list[Row] = []
    for form in FORMS:
        timed(rows, compares, form, partial(_render, report, form))
    with TemporaryDirectory() as folder:
        found: list[Path] = []

        def put() -> int:
            found.append(publish(report, folder))
            history.refresh(Path(folder), report)
            return sum(each.stat().st_size for each in found[0].iterdir())

        timed(rows, compares, "run and index", put)
        timed(rows, compares, "read back", lambda: len(load_run(found[0]).estimates))
        check(report, found[0])
    return rows


def main() -> None:
    """Run it."""
    parser = make_parser(__doc__)
    parser.add_argument("--segments", type=count, default=2000)
    parser.add_argument("--models", type=count, default=10)
    parser.add_argument("--metrics", type=count, default=10)
    asked = parser.parse_args()
    sizes = (asked.segments, asked.models, asked.metrics)
    rows = []
    for compares in (False, True):
        rows += measure(invent(*sizes, compares=compares, seed=asked.seed), compares=compares)
    cells = [
        [("no", "yes")[row.comparisons], row.step, f"{row.seconds:.2f}", f"{row.size / 1e6:.1f}"]
        for row in rows
    ]
    head = ["comparisons", "step", "CPU s", "MB"]
    text = table(head, cells, [row.seconds for row in rows])
    record = Record(describe_machine(), *sizes, rows)
    stamp = record.machine.when.replace(":", "").replace("-", "")
    write(asked.out, f"report-{stamp}", record, text)


if __name__ == "__main__":
    main()
