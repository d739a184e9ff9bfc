"""What a selection among many trials costs beside as many separate runs of the whole command.

    python bench/selection_cost.py --users 1e5              # 50 trials, 20 ranks
    python bench/selection_cost.py --users 1e6 --runs 10    # ten of the 50 runs stand for all

Every trial is measured by one `evalkit run` of its own, and all of them by one `evalkit select`,
without the corrected estimate and with it. The values must be the same to the last bit, and both
selections must choose the same. Told are CPU seconds and peak memory of whole processes; the goals
are 0.7 times the CPU of the runs, 1.0 with the estimate, and 8 bytes for each trial and user
beside one run.
"""

import json
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness import (
    ROOT,
    Machine,
    Round,
    count,
    describe_machine,
    environment,
    make_parser,
    refuse,
    run_process,
    table,
    tell,
    write,
)

METRIC = "nDCG@20"
GOALS = {"none": 0.7, "bbc": 1.0}


@dataclass(frozen=True, slots=True)
class Cost:
    """One way to hold trials against one another."""

    name: str
    cpu: float
    wall: float
    peak_mib: int
    ratio: float  # of the CPU seconds of separate runs
    goal: float | None


@dataclass(frozen=True, slots=True)
class Record:
    """One size."""

    machine: Machine
    users: int
    trials: int
    depth: int
    replicates: int
    runs: int  # that were measured; all trials are said to cost their mean
    values_mib: float  # 8 bytes for each trial and user
    costs: tuple[Cost, ...]


def main() -> int:
    """Exit status: 0, or 1 where a goal is missed."""
    parser = make_parser(__doc__)
    parser.add_argument("--users", type=count, default=100_000)
    parser.add_argument("--trials", type=count, default=50)
    parser.add_argument("--depth", type=count, default=20, help="Ranks of a user.")
    parser.add_argument("--replicates", type=count, default=200)
    parser.add_argument("--runs", type=count, default=0, help="Separate runs; default: all.")
    asked = parser.parse_args()
    log = asked.out / "logs" / f"trials-{asked.users}x{asked.trials}x{asked.depth}-s{asked.seed}"
    if not log.exists():
        tell(f"making {log}")
        sizes = ["--users", asked.users, "--depth", asked.depth, "--models", asked.trials]
        evalkit(["synth", *sizes, "--seed", asked.seed, "--out", log, "-q"], asked.threads)
    done = log / "done"
    shutil.rmtree(done, ignore_errors=True)
    done.mkdir()
    names = [f"model-{number + 1}" for number in range(asked.trials)]
    some = names[: asked.runs or None]
    apart, values = [], {}
    for name in some:
        spent, report = run_one(name, done, asked.threads)
        apart.append(spent)
        values[name] = report["metrics"][0]["value"]
    costs = [cost_of("separate runs", apart, asked.trials / len(some))]
    chosen = {}
    for estimate in GOALS:
        spent, found = select(names, done, estimate, asked.replicates, asked.threads)
        costs.append(cost_of(f"select, {estimate}", [spent], 1.0, costs[0].cpu, GOALS[estimate]))
        chosen[estimate] = found
    refuse(iter(list_problems(values, chosen)))
    shutil.rmtree(done)
    record = Record(
        describe_machine(),
        *(asked.users, asked.trials, asked.depth, asked.replicates, len(some)),
        8 * asked.users * asked.trials / 2**20,
        tuple(costs),
    )
    header = ["way", "CPU s", "x runs", "goal", "wall s", "peak MiB"]
    rows = [
        [
            *(each.name, f"{each.cpu:.1f}", f"{each.ratio:.2f}"),
            *("" if each.goal is None else f"{each.goal:.1f}", f"{each.wall:.1f}"),
            f"{each.peak_mib:,}",
        ]
        for each in costs
    ]
    text = table(header, rows, [each.cpu for each in costs])
    text += f"\n\nvalues of all trials: {record.values_mib:,.0f} MiB; the same in all ways"
    stamp = record.machine.when.replace(":", "").replace("-", "")
    write(asked.out, f"selection-cost-{stamp}", record, text)
    return int(any(each.goal is not None and each.ratio > each.goal for each in costs))


def evalkit(arguments: Sequence[object], threads: int) -> tuple[Round, str]:
    """One command in a process of its own."""
    command = [sys.executable, "-P", "-m", "evalkit", *map(str, arguments)]
    ended = run_process(command, environment([ROOT], threads))
    if ended.status:
        raise SystemExit(f"evalkit {arguments[0]} ended with exit status {ended.status}")
    return ended.round, ended.output


def tables_of(names: Sequence[str], folder: Path) -> str:
    """The truth, and rankings of some trials."""
    log = folder.parent
    return f'[truth]\npath = "{log}/truth"\n' + "".join(
        f'[[rankings]]\nmodel = "{name}"\npath = "{log}/rankings/{name}"\n' for name in names
    )


def run_one(name: str, folder: Path, threads: int) -> tuple[Round, dict[str, Any]]:
    """One trial by a run of its own."""
    config = folder / f"{name}.toml"
    config.write_text(f'{tables_of([name], folder)}[metrics]\nnames = ["{METRIC}"]\n')
    given = ["run", config, "--json", "-q", "--out", folder / "runs", "--threads", threads]
    spent, text = evalkit(given, threads)
    return spent, json.loads(text)


def select(
    names: Sequence[str], folder: Path, estimate: str, replicates: int, threads: int
) -> tuple[Round, dict[str, Any]]:
    """All trials by one selection."""
    config = folder / f"{estimate}.toml"
    section = f'metric = "{METRIC}"\nestimate = "{estimate}"\nreplicates = {replicates}\n'
    config.write_text(f"{tables_of(names, folder)}[selection]\n{section}")
    given = ["select", config, "--json", "-q", "--runs", folder / "runs", "--threads", threads]
    spent, text = evalkit(given, threads)
    return spent, json.loads(text)


def cost_of(
    name: str,
    rounds: Sequence[Round],
    times: float,
    cpu_apart: float | None = None,
    goal: float | None = None,
) -> Cost:
    """The sum of some processes, as many times as they stand for."""
    cpu = times * sum(each.cpu for each in rounds)
    wall = times * sum(each.wall for each in rounds)
    peak = max(each.peak_bytes for each in rounds) >> 20
    return Cost(name, cpu, wall, peak, cpu / (cpu_apart or cpu), goal)


def list_problems(values: dict[str, float], chosen: dict[str, dict[str, Any]]) -> list[str]:
    """Where a selection and the runs differ."""
    problems = [
        f"{trial['model']}: {estimate} says {trial['value']!r}, its run {values[trial['model']]!r}"
        for estimate, found in chosen.items()
        for trial in found["trials"]
        if trial["model"] in values and trial["value"] != values[trial["model"]]
    ]
    winners = {found["winner"] for found in chosen.values()}
    return problems + ([f"chosen were {sorted(winners)}"] if len(winners) > 1 else [])


if __name__ == "__main__":
    sys.exit(main())
