"""What the form of a log costs: the same evaluation on rows that come in other shapes.

    python bench/shapes.py                          # 200,000 users x 50 ranks
    python bench/shapes.py --users 1e6 --rounds 7
    python bench/shapes.py --only rank,scattered,text24

Bias: evalkit's authors wrote this and chose the shapes. All logs come from evalkit's own generator
from one seed, so that one relevant row in twenty is ranked, most of them near the top; the user
with very many rows is added to it, and so are ids that are no integers. The truth stands in no
order of users, as in logs that grow with time, but where a line says so. Each shape has a floor of
its own, Polars summing the columns of that very log, since texts and lists cost more to decode.
Every log has two waiting processes; one round warms up, the others are interleaved, medians are
shown. The forms that people have are also measured as whole processes, `evalkit run` in turn with a
script of hand-written DuckDB, which gives the means alone and checks nothing.

No time is shown before rank, score, list, ids of all types and scattered rows have given the same
report byte for byte, each model of ten the same numbers as alone, and the numbers of the logs that
are grouped by user agree to 1e-9 with the hand-written Polars query. Those of whole processes agree
with it, too.
"""

import sys
from argparse import Namespace
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from statistics import median

from contestants import METRICS
from harness import (
    LABELS,
    MODEL,
    TOLERANCE,
    Entry,
    Log,
    Machine,
    Round,
    Shape,
    Task,
    count,
    describe_machine,
    differences,
    list_versions,
    make_parser,
    play_rounds,
    prepare_logs,
    read_references,
    spell_stages,
    spell_versions,
    start,
    table,
    write,
)

FIRST = "rank"
N_MODELS = 10
PARTS = "parts"
PAIR, SPLIT = "pair", "segments"
IDS = {
    "text12": "texts of 12 bytes",
    "text24": "user ids of 24 bytes, items of 8",
    "uuid": "UUIDs as text",
    "uuid-bytes": "UUIDs as 16 bytes",
    "categorical": "categoricals",
}
BY_USER = ("rank-by-user", "text24-by-user")
WHOLE = ("rank", *IDS, *BY_USER, "list", "score", "scattered", "scattered-score")
COMMAND, DUCKDB = "evalkit_command", "duckdb_process"


@dataclass(frozen=True, slots=True)
class Form:
    """A shape to measure."""

    title: str
    shape: Shape
    is_like_first: bool = True  # the report has to be that of the first shape
    contestant: str = "evalkit_call"


@dataclass(frozen=True, slots=True)
class Result:
    """Medians of one shape."""

    name: str
    title: str
    ranked_rows: int
    pairs: int
    megabytes: float
    wall: float
    cpu: float
    floor: float
    floor_cpu: float
    peak_mib: int
    stages: dict[str, float]
    notes: dict[str, float]
    rounds: list[Round]
    floor_rounds: list[Round]

    @property
    def wall_per_row(self) -> float:
        """Seconds for each row of rankings and truth."""
        return self.wall / (self.ranked_rows + self.pairs)


@dataclass(frozen=True, slots=True)
class Whole:
    """Whole processes on one form: medians, and the rounds behind them."""

    name: str
    title: str
    wall: float
    cpu: float
    peak_mib: int
    duckdb_wall: float
    duckdb_cpu: float
    duckdb_peak_mib: int
    rounds: list[Round]
    duckdb_rounds: list[Round]


@dataclass(frozen=True, slots=True)
class Record:
    """All shapes."""

    machine: Machine
    users: int
    depth: int
    seed: int
    threads: int
    rounds: int
    versions: dict[str, str]
    results: list[Result]
    wholes: list[Whole]


def main() -> int:
    """Exit status: 0, or 1 when two shapes disagree."""
    given = parse_arguments()
    machine = describe_machine()
    forms = {name: form for name, form in list_forms(given).items() if name in given.only}
    made = {
        log.shape: log for log in prepare_logs([form.shape for form in forms.values()], given.out)
    }
    logs = {name: made[form.shape] for name, form in forms.items()}
    checked = [
        name
        for name, form in forms.items()
        if name == FIRST or (not form.is_like_first and name not in (PARTS, PAIR, SPLIT))
    ]
    numbers = read_references(logs[name] for name in checked)
    references = {name: numbers[logs[name].path] for name in checked}
    floors = {
        form.shape: Task("floor", "floor", "floor", logs[name].path, LABELS, given.threads)
        for name, form in forms.items()
    }
    tasks = {
        name: Task(name, form.title, form.contestant, logs[name].path, LABELS, given.threads)
        for name, form in forms.items()
    }
    processes = {
        (name, contestant): Task(
            contestant, form.title, contestant, logs[name].path, LABELS, given.threads
        )
        for name, form in forms.items()
        if name in WHOLE
        for contestant in (COMMAND, DUCKDB)
    }
    with start([*tasks.values(), *floors.values(), *processes.values()]) as entries:
        found = dict(zip(tasks, entries, strict=False))
        of_floors = dict(zip(floors, entries[len(tasks) :], strict=False))
        wholes = dict(zip(processes, entries[len(tasks) + len(floors) :], strict=True))
        running = [entry for entry in entries if not entry.skipped]
        play_rounds(
            running,
            given.rounds,
            lambda: chain(
                disagreements(forms, found, references),
                strangers(wholes, references[FIRST]),
            ),
        )
    results = []
    for name, form in forms.items():
        results.append(summarize(name, form, logs[name], found[name], of_floors[form.shape]))
    record = Record(
        machine,
        given.users,
        given.depth,
        given.seed,
        given.threads,
        given.rounds,
        list_versions(running),
        results,
        [
            compare_whole(name, forms[name].title, entry, wholes[name, DUCKDB])
            for (name, contestant), entry in wholes.items()
            if contestant == COMMAND and not wholes[name, DUCKDB].skipped
        ],
    )
    stem = f"shapes-{given.users}x{given.depth}-{machine.commit}"
    write(given.out, stem, record, render(record))
    return 0


def parse_arguments() -> Namespace:
    """Options; the first shape is always measured."""
    parser = make_parser(__doc__)
    parser.add_argument("--users", type=count, default=200_000)
    parser.add_argument("--depth", type=count, default=50, help="Ranks of each user.")
    parser.add_argument("--heavy-rows", type=count, default=1_000_000, help="Of the heavy user.")
    parser.add_argument("--heavy-relevant", type=count, default=100_000)
    parser.add_argument("--rounds", type=int, default=5, help="Timed; 0: the first is timed.")
    parser.add_argument("--only", help="Some of the shapes, besides the first.")
    given = parser.parse_args()
    names = list(list_forms(given))
    given.only = given.only.split(",") if given.only else names
    if unknown := set(given.only) - set(names):
        parser.error(f"no shape is called {', '.join(sorted(unknown))}; {', '.join(names)} are")
    given.only = {FIRST, *given.only}
    return given


def list_forms(given: Namespace) -> dict[str, Form]:
    """Every shape by name."""

    def shape(**changes: object) -> Shape:
        base = {"users": given.users, "depth": given.depth, "truth": "time", "seed": given.seed}
        return Shape(**{**base, **changes})

    rank, models, pair = shape(), shape(models=N_MODELS), shape(models=2)
    heavy = shape(files=2, heavy_rows=given.heavy_rows, heavy_relevant=given.heavy_relevant)
    truth = shape(depth=5, relevant=50.0)
    return {
        FIRST: Form("ranks, integer ids", rank),
        **{ids: Form(title, shape(ids=ids)) for ids, title in IDS.items()},
        "rank-by-user": Form("integer ids, truth by user", shape(truth="user")),
        "text24-by-user": Form("ids of 24 bytes, truth by user", shape(ids="text24", truth="user")),
        "list": Form("list columns", shape(form="list")),
        "score": Form("scores alone", shape(form="score")),
        "scattered": Form("scattered rows", shape(order="scattered")),
        "scattered-score": Form("scattered scores", shape(order="scattered", form="score")),
        "models": Form(f"{N_MODELS} models, one truth", models, False),
        PARTS: Form("the same, one by one", models, False, "evalkit_parts"),
        PAIR: Form("two models", pair, False),
        SPLIT: Form("the same, split and compared", pair, False, "evalkit_segments"),
        "heavy": Form(f"one user with {given.heavy_rows:,} rows", heavy, False),
        "truth": Form("truth ten times the rankings", truth, False),
    }


def disagreements(
    forms: Mapping[str, Form],
    found: Mapping[str, Entry],
    references: Mapping[str, Mapping[str, float]],
) -> Iterator[str]:
    """Where a shape gives another report, or other numbers than the query or than alone."""
    first = found[FIRST]
    for name, form in forms.items():
        entry = found[name]
        if form.is_like_first and entry.digest != first.digest:
            yield f"{form.title} gives another report than {forms[FIRST].title}"
            yield from differences(first.task.title, first.values, form.title, entry.values, 0)
    for name, reference in references.items():
        values = found[name].values
        if name == "models":
            values = {label: values[f"{MODEL}: {label}"] for label in reference}
        yield from differences("the Polars query", reference, forms[name].title, values)
    for one, other in (("models", PARTS), (PAIR, SPLIT)):
        if one in found and other in found:
            left, right = found[one], found[other]
            yield from differences(left.task.title, left.values, right.task.title, right.values, 0)


def strangers(
    wholes: Mapping[tuple[str, str], Entry], reference: Mapping[str, float]
) -> Iterator[str]:
    """Where a whole process, of a form that is like the first, gives other numbers."""
    for (_, contestant), entry in wholes.items():
        if not entry.skipped:
            whose = f"{contestant} of {entry.task.title}"
            yield from differences("the Polars query", reference, whose, entry.values)


def compare_whole(name: str, title: str, ours: Entry, theirs: Entry) -> Whole:
    """Medians of evalkit and of DuckDB on one form."""
    return Whole(
        name,
        title,
        *(ours.wall, ours.cpu, ours.peak_mib),
        *(theirs.wall, theirs.cpu, theirs.peak_mib),
        ours.rounds,
        theirs.rounds,
    )


def summarize(name: str, form: Form, log: Log, entry: Entry, floor: Entry) -> Result:
    """Medians of one shape and of its floor."""
    notes = [each.notes for each in entry.timed]
    keys = [key for key in ("seconds", PARTS) if key in notes[0]]
    return Result(
        name=name,
        title=form.title,
        ranked_rows=log.rows,
        pairs=log.pairs,
        megabytes=log.megabytes,
        wall=entry.wall,
        cpu=entry.cpu,
        floor=floor.wall,
        floor_cpu=floor.cpu,
        peak_mib=entry.peak_mib,
        stages=entry.stages,
        notes={key: median(each[key] for each in notes) for key in keys},
        rounds=entry.rounds,
        floor_rounds=floor.rounds,
    )


def render(record: Record) -> str:
    """The record as Markdown; bars show wall time a row against the first shape."""
    results = {each.name: each for each in record.results}
    first = results[FIRST]
    header = ["", "ranked rows", "truth rows", "wall s", "CPU s", "wall ns/ranked row"]
    header += ["CPU ns/ranked row", "floor s", "x floor", "per row x first", "peak MiB"]
    rows, sizes = [], []
    for result in record.results:
        against_first = result.wall_per_row / first.wall_per_row
        sizes.append(against_first)
        rows.append(
            [
                result.title,
                f"{result.ranked_rows:,}",
                f"{result.pairs:,}",
                f"{result.wall:.3f}",
                f"{result.cpu:.3f}",
                f"{result.wall / result.ranked_rows * 1e9:.1f}",
                f"{result.cpu / result.ranked_rows * 1e9:.1f}",
                f"{result.floor:.3f}",
                f"{result.wall / result.floor:.1f}",
                f"{against_first:.2f}",
                f"{result.peak_mib:,}",
            ]
        )
    lines = [
        f"**{record.users:,} users x {record.depth} ranks in other shapes**, {len(LABELS)} numbers "
        f"of {len(METRICS)} metrics, {record.threads} threads; a row is one of "
        "rankings or truth",
        "",
        table(header, rows, sizes),
        "",
        *render_wholes(record.wholes),
        *render_pairs(results),
        *(
            f"- {each.title}: {spell_stages(each.stages)} s."
            for each in record.results
            if each.stages
        ),
        "",
        f"Medians of {record.rounds} interleaved rounds after one that warms up, warm file cache. "
        "Reports of the same rows are the same bytes; other numbers equal those of the Polars "
        f"query to {TOLERANCE:g}. {spell_versions(record.versions)}.",
        "",
        f"{record.machine}.",
    ]
    return "\n".join(lines) + "\n"


def render_wholes(wholes: Sequence[Whole]) -> Iterator[str]:
    """Whole processes beside DuckDB's; bars show the ratio of wall times."""
    if not wholes:
        return
    header = ["whole processes", "wall s", "DuckDB", "ratio", "CPU s", "DuckDB", "ratio"]
    header += ["peak MiB", "DuckDB"]
    rows = [
        [
            each.title,
            *(f"{each.wall:.2f}", f"{each.duckdb_wall:.2f}", f"{each.wall / each.duckdb_wall:.2f}"),
            *(f"{each.cpu:.2f}", f"{each.duckdb_cpu:.2f}", f"{each.cpu / each.duckdb_cpu:.2f}"),
            *(f"{each.peak_mib:,}", f"{each.duckdb_peak_mib:,}"),
        ]
        for each in wholes
    ]
    yield from (table(header, rows, [each.wall / each.duckdb_wall for each in wholes]), "")


def render_pairs(results: Mapping[str, Result]) -> Iterator[str]:
    """Shapes that have to be seen against each other."""
    if "models" in results and PARTS in results:
        together, parts = results["models"].notes["seconds"], results[PARTS].notes[PARTS]
        yield (
            f"- {N_MODELS} models: {together:.3f} s together, {parts:.3f} s for one truth and "
            f"{N_MODELS} times the rest: {together / parts:.2f}."
        )
    if PAIR in results and SPLIT in results:
        ratio = results[SPLIT].notes["seconds"] / results[PAIR].notes["seconds"]
        cpu = results[SPLIT].cpu / results[PAIR].cpu
        yield (
            f"- three segmentations and a comparison of two models: {ratio:.2f} times the time, "
            f"{cpu:.2f} times the CPU."
        )


if __name__ == "__main__":
    sys.exit(main())
