"""Commands that are killed at any moment: nothing finished is torn, nothing half done stays.

    python bench/kills.py                           # 300 kills, a quarter of an hour
    python bench/kills.py --kills 20 --signal TERM
    python bench/kills.py --kills 60 --store        # runs that go to S3, as moto plays it
    python bench/kills.py --kills 60 --choice       # splits, baselines and selections

Runs, comparisons, gates, prunings, reports and configs are written into one folder, and killed by
SIGKILL (or another signal) after a random part of the time that they take. After each kill every
directory that looks like a run must verify, every file beside them be whole or missing, and the
history be listed; after the next run that ends, nothing of the killed ones may be left, neither
there nor in the folder of temporary files.
"""

import json
import os
import random
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from dataclasses import dataclass
from logging import getLogger
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from harness import ROOT, Machine, count, describe_machine, environment, make_parser, table, write

CONFIG = """
name = "job"
[truth]
path = "truth.parquet"
[[rankings]]
model = "a"
path = "a.parquet"
columns = { user = "user", item = "item", rank = "rank" }
[metrics]
names = ["RR", "recall@2"]
[[gates]]
metric = "RR"
min = 0.0
[output]
path = "runs"
per_user = true
formats = ["json", "parquet", "csv", "markdown", "html", "latex"]
"""
COMMANDS = {
    "run": "run job.toml --quiet --prometheus m.prom --per-user u.parquet --set {setting}",
    "compare": "compare last~1 last",
    "gate": "gate last --config job.toml",
    "prune": "history prune --keep 2",
    "export": "history export h.parquet",
    "report": "report last --format html --file r.html",
    "init": "init --truth truth.parquet --rankings a=a.parquet --out i.toml --force",
}
CHOICE = """
[truth]
split = "s"
part = "validation"
[train]
split = "s"
[[rankings]]
model = "popular"
builtin = "popular"
k = 10
[[rankings]]
model = "last"
builtin = "last"
k = 10
[selection]
metric = "RR"
replicates = 200
confirm = { split = "s", part = "test" }
"""
ON_THE_WAY = {
    "split": "split log.parquet --by user --test 1 --validation 1 --out s-{number} --quiet",
    "baseline": "baseline popular --train s/train --users s/test --out b.parquet --quiet",
    "select": "select choice.toml --again --quiet --runs runs-{number} --out selections",
}
WEIGHTS = (6, 1, 1, 2, 1, 1, 1)
LOGS = ("truth.parquet", "a.parquet", "job.toml")
TO_STORE = {"run": "run job.toml --quiet --out s3://lake/runs --set {setting}"}
FILES = ("m.prom", "u.parquet", "h.parquet", "r.html", "i.toml")  # that commands write


@dataclass(frozen=True, slots=True)
class Record:
    """A whole campaign."""

    machine: Machine
    seed: int
    signal: str
    seconds: float
    killed: dict[str, int]  # by command
    ended: dict[str, int]  # before the signal came
    findings: list[str]


class Folder:
    """A folder of logs and runs, whose commands are killed."""

    commands = COMMANDS
    weights: tuple[int, ...] = WEIGHTS

    def __init__(self, path: Path, rng: random.Random, number: signal.Signals) -> None:
        self.path, self.rng, self.number = path, rng, number
        self.findings: list[str] = []
        self.number_of = 0  # commands that were started
        (path / "tmp").mkdir()
        os.environ["TMPDIR"] = str(path / "tmp")
        self.make()
        self.seconds = {name: self._timed(name) for name in self.commands}

    def make(self) -> None:
        """Logs, a config and two runs."""
        import polars as pl

        path, users = self.path, range(5_000)
        truth = {"user": users, "item": [user % 5 for user in users]}
        pl.DataFrame(truth).write_parquet(path / "truth.parquet")
        rows = {"user": [user for user in users for _ in range(5)], "item": [*range(5)] * 5_000}
        rankings = pl.DataFrame(rows | {"rank": [*range(1, 6)] * 5_000})
        rankings.write_parquet(path / "a.parquet")
        (path / "job.toml").write_text(CONFIG)
        for _ in range(2):
            self.run()

    def start(self, command: str) -> "subprocess.Popen[str]":
        self.number_of += 1
        filled = command.format(
            setting=f"policies.tie_share={self.rng.random() / 2:.9f}", number=self.number_of
        )
        return subprocess.Popen(
            [sys.executable, "-P", "-m", "evalkit", *shlex.split(filled)],
            cwd=self.path,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            env=environment([ROOT], 1),
        )

    def run(self, command: str | None = None) -> None:
        """A command that nobody kills."""
        process = self.start(command or self.commands["run"])
        _, errors = process.communicate()
        if process.returncode:
            self.findings.append(f"{command}: status {process.returncode}: {errors[-300:]}")

    def _timed(self, name: str) -> float:
        began = time.monotonic()
        self.run(self.commands[name])
        return time.monotonic() - began

    def kill(self, name: str) -> bool:
        """Start a command and kill it; False where it ended before."""
        process = self.start(self.commands[name])
        time.sleep(self.rng.uniform(0.1, 1.05) * self.seconds[name])
        was_alive = process.poll() is None
        process.send_signal(self.number)
        _, errors = process.communicate()
        if "Traceback" in errors or "panicked" in errors:
            self.findings.append(f"{name}: {errors[-300:]}")
        return was_alive

    def check(self) -> None:
        """What must hold after each kill."""
        import polars as pl

        from evalkit import runs

        for run in sorted((self.path / "runs").glob("2*")):
            if problems := runs.verify(run):
                self.findings.append(f"{run.name}: {problems}")
        for name in FILES:
            file = self.path / name
            if not file.exists():
                continue
            if file.suffix == ".parquet":
                if not pl.read_parquet(file).height:
                    self.findings.append(f"{name} is empty")
            elif not file.read_text().rstrip().endswith("</html>" if name == "r.html" else ""):
                self.findings.append(f"{name} is torn")
            elif not file.stat().st_size:
                self.findings.append(f"{name} is empty")

    def check_sweeping(self) -> None:
        """What must hold after a run that nobody killed."""
        self.run()
        self.run("history list")
        known = {*LOGS, *FILES, "runs", "tmp"}
        left = [path.name for path in self.path.iterdir() if path.name not in known]
        left += os.listdir(self.path / "tmp")
        hidden = (path.name for path in (self.path / "runs").glob(".*"))
        left += [each for each in hidden if not each.startswith(".lock-")]
        if left:
            self.findings.append(f"left over: {left}")


class Lake(Folder):
    """A folder of logs, whose runs are published to a store."""

    commands = TO_STORE
    weights = WEIGHTS[:1]

    def __init__(self, path: Path, rng: random.Random, number: signal.Signals) -> None:
        import boto3  # type: ignore[import-untyped]
        from moto.server import ThreadedMotoServer

        getLogger("werkzeug").setLevel("ERROR")
        server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
        server.start()
        host, port = server.get_host_and_port()
        os.environ |= {
            "AWS_ACCESS_KEY_ID": "someone",
            "AWS_SECRET_ACCESS_KEY": "something",
            "AWS_REGION": "us-east-1",
            "AWS_ENDPOINT_URL": f"http://{host}:{port}",
            "AWS_ALLOW_HTTP": "true",
        }
        self.client: Any = boto3.client("s3", endpoint_url=os.environ["AWS_ENDPOINT_URL"])
        self.client.create_bucket(Bucket="lake")
        self.verified: set[str] = set()
        super().__init__(path, rng, number)

    def _keys(self) -> list[str]:
        found = self.client.list_objects_v2(Bucket="lake", Prefix="runs/")
        return [each["Key"].removeprefix("runs/") for each in found.get("Contents", ())]

    def check(self) -> None:
        """Every prefix with a manifest is a whole run, and `latest` names one of them."""
        from evalkit import runs

        store = runs.open_store("s3://lake/runs", {})
        whole = {key.partition("/")[0] for key in self._keys() if key.endswith("/manifest.json")}
        if (latest := store.latest()) not in whole:
            self.findings.append(f"latest is {latest}")
        for run_id in whole - self.verified:
            with TemporaryDirectory(dir=self.path) as copy:
                if problems := runs.verify(store.fetch(run_id, Path(copy))):
                    self.findings.append(f"{run_id}: {problems}")
            self.verified.add(run_id)
        for key in self._keys():  # as if two minutes had passed
            if key.startswith(".lock-"):
                self.client.put_object(Bucket="lake", Key=f"runs/{key}", Body=b'{"ends": 0}')

    def check_sweeping(self) -> None:
        """What must hold after a run that nobody killed."""
        self.run()
        keys = self._keys()
        whole = {key.partition("/")[0] for key in keys if key.endswith("/manifest.json")}
        left = [key for key in keys if key.partition("/")[0] not in (*whole, "latest")]
        left += os.listdir(self.path / "tmp")
        if left:
            self.findings.append(f"left over: {left}")


class Choice(Folder):
    """A folder of a log, whose splits, baselines and selections are killed."""

    commands = ON_THE_WAY
    weights = (1, 1, 2)

    def __init__(self, path: Path, rng: random.Random, number: signal.Signals) -> None:
        super().__init__(path, rng, number)
        self.baseline = (path / "b.parquet").read_bytes()

    def make(self) -> None:
        """A log, a split of it, and what is chosen by it."""
        import polars as pl

        users = range(5_000)
        rows = [(user, (user + 7 * n) % 40, n) for n in range(6) for user in users]
        log = pl.DataFrame(rows, schema=["user", "item", "time"], orient="row")
        log.write_parquet(self.path / "log.parquet")
        (self.path / "choice.toml").write_text(CHOICE)
        self.run(self.commands["split"].replace("s-{number}", "s"))

    def check(self) -> None:
        """Every split, list and selection that is there is whole."""
        from evalkit import runs
        from evalkit.config import find_part
        from evalkit.runs.history import read_tags

        for split in self.path.glob("s-*"):
            for part in ("train", "validation", "test"):
                find_part(split, part)
            json.loads((split / "leakage.json").read_bytes())
            shutil.rmtree(split)
        lists = self.path / "b.parquet"
        if lists.exists() and lists.read_bytes() != self.baseline:
            self.findings.append("other lists, or torn ones")
        for folder in self.path.glob("runs-*"):
            for run in folder.glob("2*"):
                self.findings += [f"{run.name}: {each}" for each in runs.verify(run)]
            chosen = read_tags(folder).get("selected")
            told = [
                json.loads((each / "selection.json").read_bytes())["run_id"]
                for each in (self.path / "selections").glob("2*")
                if (each / "selection.html").read_text().rstrip().endswith("</html>")
            ]
            if chosen is not None and chosen not in told:
                self.findings.append(f"{chosen} is selected by no selection")
            shutil.rmtree(folder)

    def check_sweeping(self) -> None:
        """What must hold after commands that nobody killed."""
        for command in self.commands.values():
            self.run(command)
        self.check()
        known = {"log.parquet", "choice.toml", "s", "b.parquet", "selections", "tmp"}
        left = [path.name for path in self.path.iterdir() if path.name not in known]
        left += [path.name for path in (self.path / "selections").glob(".*")]
        left += os.listdir(self.path / "tmp")
        if left:
            self.findings.append(f"left over: {left}")


def main() -> int:
    """Exit status: 0, or 1 where there are findings."""
    parser = make_parser(__doc__)
    parser.add_argument("--kills", type=count, default=300)
    parser.add_argument("--signal", default="KILL", choices=["KILL", "TERM", "INT"])
    parser.add_argument("--store", action="store_true", help="Publish to S3, as moto plays it.")
    parser.add_argument("--choice", action="store_true", help="Splits, baselines, selections.")
    asked = parser.parse_args()
    rng = random.Random(asked.seed)
    killed: Counter[str] = Counter()
    ended: Counter[str] = Counter()
    machine, began = describe_machine(), time.monotonic()
    with TemporaryDirectory(prefix="evalkit-kills-") as name:
        kind = Lake if asked.store else Choice if asked.choice else Folder
        folder = kind(Path(name), rng, signal.Signals[f"SIG{asked.signal}"])
        while sum(killed.values()) < asked.kills:
            (command,) = rng.choices(list(folder.commands), folder.weights)
            (killed if folder.kill(command) else ended)[command] += 1
            folder.check()
            if sum(killed.values()) % 25 == 24:
                folder.check_sweeping()
        folder.check_sweeping()
    seconds = time.monotonic() - began
    told = dict(killed.most_common())
    record = Record(machine, asked.seed, asked.signal, seconds, told, dict(ended), folder.findings)
    rows = [[each, str(n), str(ended[each])] for each, n in told.items()]
    text = table(["command", "killed", "ended before"], rows, list(map(float, told.values())))
    text += "\n\n" + (json.dumps(folder.findings, indent=1) if folder.findings else "no findings")
    write(asked.out, f"kills-{machine.when.replace(':', '').replace('-', '')}", record, text)
    return 1 if folder.findings else 0


if __name__ == "__main__":
    sys.exit(main())
