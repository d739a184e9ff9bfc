"""Nights of a scheduler that nothing spares: runs are killed, late, repeated, and come together.

    python bench/nights.py --nights 50
    python bench/nights.py --minutes 120 --kills 0.5

Every night has new logs. Its job is started as a scheduler starts it, and may be killed by SIGKILL
at a random moment, stopped by SIGTERM or SIGINT, started twice at once, or started again after it
was done. After each night every directory that looks like a run must verify, `latest` must point to
a run of that night, nothing half done may be left, and the index must hold what the folder holds.
"""

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory

import polars as pl

from evalkit import runs
from evalkit.runs import history

CONFIG = """
name = "nightly"
[truth]
path = "logs/day={day}/truth.parquet"
[[rankings]]
model = "als"
path = "logs/day={day}/als.parquet"
columns = { rank = "rank" }
[metrics]
names = ["nDCG@10", "recall@10"]
[[gates]]
metric = "recall@10"
max_drop = 0.9
baseline = "last"
unclear = "pass"
[output]
formats = ["json", "parquet", "markdown", "html"]
"""
EVENTS = ("plain", "repeated", "together", "killed", "stopped", "index lost")
STOPPED_WITHIN = 2.0  # seconds that a stopped run may take to end


class Night:
    """One night in a folder: its logs, its job, and what must hold afterwards."""

    def __init__(self, folder: Path, number: int, rng: random.Random) -> None:
        self.folder, self.number, self.rng = folder, number, rng
        self.day = f"{number:05}"
        self.told: Counter[str] = Counter()
        logs = folder / "logs" / f"day={self.day}"
        logs.mkdir(parents=True)
        users = list(range(200))
        pl.DataFrame({"user": users, "item": [user % 7 for user in users]}).write_parquet(
            logs / "truth.parquet"
        )
        pl.DataFrame(
            {
                "user": [user for user in users for _ in range(10)],
                "item": [item for _ in users for item in rng.sample(range(12), 10)],
                "rank": list(range(1, 11)) * len(users),
            }
        ).write_parquet(logs / "als.parquet")

    def start(self, *options: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "evalkit", "run", "nightly.toml", "--quiet", "--summary"]
        return subprocess.Popen(
            [*command, "--var", f"day={self.day}", *options],
            cwd=self.folder,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def run(self, *options: str, expected: tuple[int, ...] = (0,)) -> float:
        began = time.monotonic()
        status = self.start(*options).wait(timeout=600)
        if status not in expected:
            raise SystemExit(f"night {self.day}: status {status}, not one of {expected}")
        return time.monotonic() - began

    def pass_with(self, event: str, seconds: float) -> None:
        """Let one night go by; `seconds` is what a run takes."""
        self.told[event] += 1
        if event == "repeated":
            self.run()
            before = self.runs()
            self.run("--if-new")
            if self.runs() != before:
                raise SystemExit(f"night {self.day}: the same work was done again")
        elif event == "together":
            both = [self.start("--wait", "300"), self.start()]
            statuses = [each.wait(timeout=600) for each in both]
            if statuses[0] != 0 or statuses[1] not in (0, 75):
                raise SystemExit(f"night {self.day}: statuses {statuses}")
        elif event in ("killed", "stopped"):
            self.interrupt(event, seconds)
            self.run("--if-new")
        else:
            if event == "index lost":
                (self.folder / "runs" / history.INDEX).unlink(missing_ok=True)
            self.run()

    def interrupt(self, event: str, seconds: float) -> None:
        number = signal.SIGKILL
        if event == "stopped":
            number = self.rng.choice((signal.SIGTERM, signal.SIGINT))
        job = self.start()
        time.sleep(self.rng.uniform(0.0, 1.1 * seconds))
        job.send_signal(number)
        began = time.monotonic()
        status = job.wait(timeout=60)
        if status == 0:
            self.told["was done already"] += 1
        elif number != signal.SIGKILL and time.monotonic() - began > STOPPED_WITHIN:
            self.told["took longer to stop"] += 1
        # Before Python has come to its handlers a signal ends it as it ends any program.
        elif status not in (-number, 128 + number):
            raise SystemExit(f"night {self.day}: status {status} after {number!r}")

    def runs(self) -> list[str]:
        return sorted(path.name for path in (self.folder / "runs").glob("2*"))

    def check(self) -> None:
        """What must hold in the morning."""
        folder = self.folder / "runs"
        for name in [*self.runs(), runs.LATEST]:
            problems = runs.verify(folder / name)
            if problems:
                raise SystemExit(f"night {self.day}: {name}: {problems}")
        if left := [each for each in os.listdir(folder) if each.startswith(".tmp")]:
            raise SystemExit(f"night {self.day}: left over: {left}")
        newest = json.loads((folder / runs.LATEST / "manifest.json").read_text())
        if f"day={self.day}" not in newest["inputs"][0]["paths"][0]:
            raise SystemExit(f"night {self.day}: latest is of another night")
        indexed = history.query(folder, "SELECT run_id FROM runs ORDER BY run_id").rows
        if [name for (name,) in indexed] != self.runs():
            raise SystemExit(f"night {self.day}: the index holds other runs")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--nights", type=int, default=20)
    parser.add_argument("--minutes", type=float, help="instead of --nights")
    parser.add_argument("--kills", type=float, default=0.4, help="share of nights that are killed")
    parser.add_argument("--keep", type=int, default=30, help="runs that stay")
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    rng = random.Random(asked.seed)
    told: Counter[str] = Counter()
    began = time.monotonic()
    with TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "nightly.toml").write_text(CONFIG)
        first = Night(folder, 0, rng)
        first.run()
        seconds = first.run()  # of a warm run
        number = 0
        while True:
            number += 1
            if asked.minutes is None and number > asked.nights:
                break
            if asked.minutes is not None and time.monotonic() - began > 60 * asked.minutes:
                break
            night = Night(folder, number, rng)
            killed = rng.random() < asked.kills
            night.pass_with("killed" if killed else rng.choice(EVENTS), seconds)
            night.check()
            told += night.told
            history.prune(folder / "runs", keep=asked.keep, dry=False)
    nights = number - 1
    print(json.dumps({"nights": nights, "seconds": round(time.monotonic() - began), **told}))


if __name__ == "__main__":
    main()
