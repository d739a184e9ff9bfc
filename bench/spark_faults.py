"""A cluster of Spark whose executors and workers are killed at random: the same bytes, or an error.

    python bench/spark_faults.py --runs 50 --drivers 20
    python bench/spark_faults.py --runs 2 --drivers 1 --seed 7

Needs the extra spark, psutil and Java. Starts a standalone master and two workers on loopback, runs
one config with everything that merges in this process, then `--runs` times on the cluster. In each
run one process dies at a random time: in turns an executor, and a Python worker of one. A run may
end with an error; then nothing may be left that looks like a report. Then `--drivers` more, each a
command of its own that is killed: it left a whole run or none, and the next run removes the rest.
Values of users, which executors write, are held against those of this process too. Prints one JSON
record, and exits 1 where bytes differ, where a failed run left something, or where nothing was ever
killed.
"""

import argparse
import io
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import psutil  # type: ignore[import-untyped]

CONFIG = """
[truth]
path = "truth/*.parquet"
[[rankings]]
model = "a"
path = "a/*.parquet"
[[rankings]]
model = "b"
path = "b/*.parquet"
[metrics]
names = ["nDCG@{5,10}", "recall@10", "AP", "RR"]
[segments]
kind = { by = "kind" }
n = { by = "n_relevant", quantiles = 3 }
[statistics]
baseline = "a"
method = "bootstrap"
replicates = 100
curves = true
[output]
per_user = true
"""
ON_SPARK = '[engine]\nkind = "spark"\npartitions = 6\n'
LOCAL = {
    **{"SPARK_LOCAL_IP": "127.0.0.1", "SPARK_LOCAL_HOSTNAME": "127.0.0.1"},
    **{"SPARK_PUBLIC_DNS": "127.0.0.1", "SPARK_DAEMON_MEMORY": "256m"},
}
OPTIONS = {
    **{"spark.executor.memory": "512m", "spark.executor.cores": "1", "spark.cores.max": "2"},
    **{"spark.driver.memory": "512m", "spark.driver.host": "127.0.0.1"},
    **{"spark.driver.bindAddress": "127.0.0.1", "spark.log.level": "OFF"},
}
OF_ITS_OWN = ("meta", "run_id", "run_key", "inputs")


def main() -> int:
    """The record of all runs, on stdout."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=50, help="In each of which something dies.")
    parser.add_argument("--drivers", type=int, default=10, help="That are killed themselves.")
    parser.add_argument("--users", type=int, default=4_000, help="With 20 ranks of two models.")
    parser.add_argument("--seed", type=int, default=1, help="Of the logs, and of who dies when.")
    asked = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # what was started ends with this
    with tempfile.TemporaryDirectory(prefix="evalkit-faults-") as folder:
        found = run_all(Path(folder), asked.runs, asked.drivers, asked.users, asked.seed)
    print(json.dumps(found, indent=1))
    return 0 if found["same"] and found["clean"] and found["killed"] else 1


def run_all(folder: Path, n_runs: int, n_drivers: int, n_users: int, seed: int) -> dict[str, Any]:
    """How many runs gave the bytes of one process, how many an error, and what was killed."""
    os.environ.update(LOCAL, SPARK_LOCAL_DIRS=str(folder), SPARK_WORKER_DIR=str(folder))
    os.environ["PYSPARK_PYTHON"] = sys.executable
    make_logs(folder, n_users, seed)
    expected = told(folder, CONFIG)
    rng, outcomes, killed = random.Random(seed), Counter[str](), Counter[str]()
    is_clean, errors = True, list[str]()
    with cluster(folder) as master:
        with session_of(master):
            for _ in ("cold", "warm"):  # a kill at a time of the cold run would come too late
                begin = time.perf_counter()
                assert told(folder, CONFIG + ON_SPARK) == expected, "an undisturbed run differs"
                took = time.perf_counter() - begin
            for number in range(n_runs):
                kind = ("executor", "worker")[number % 2]
                with killing(kind, rng.uniform(0, took)) as dead:
                    outcome = told(folder, CONFIG + ON_SPARK)
                killed.update([kind] * len(dead))
                is_error = isinstance(outcome, str)
                outcomes["error" if is_error else "same" if outcome == expected else "differs"] += 1
                if isinstance(outcome, str):
                    errors.append(outcome)
                    is_clean &= not [*(folder / "runs").rglob("manifest.json")]
        drivers = Counter(each for each in kill_drivers(folder, master, n_drivers, expected, rng))
    killed["driver"] = n_drivers - drivers["ended before"]
    is_clean &= drivers["something else"] == 0
    same = outcomes["differs"] == 0 and outcomes["same"] > 0
    return {
        **{"runs": dict(outcomes), "killed": dict(killed), "drivers": dict(drivers)},
        **{"same": same, "clean": is_clean},
        **{"seconds_of_a_run": round(took, 1), "errors": errors},
    }


def kill_drivers(
    folder: Path, master: str, n_drivers: int, expected: object, rng: random.Random
) -> Iterator[str]:
    """What commands leave that are killed, each at a random time of an undisturbed one."""
    from evalkit.runs import finished

    options = ", ".join(f'"{name}" = "{value}"' for name, value in OPTIONS.items())
    engine = f'{ON_SPARK}master = "{master}"\noptions = {{ {options} }}\n'
    runs = folder / "runs"
    line = [sys.executable, "-m", "evalkit", "run", "nightly.toml", "--out", str(runs), "--quiet"]
    took = 0.0
    for number in range(-1, n_drivers + 1) if n_drivers else ():  # the first is cold
        shutil.rmtree(runs, ignore_errors=True)
        (folder / "nightly.toml").write_text(CONFIG + engine)
        begin = time.perf_counter()
        with open(os.devnull, "wb") as nowhere:
            driver = subprocess.Popen(line, cwd=folder, stdout=nowhere, stderr=nowhere)
        try:
            driver.wait(rng.uniform(took / 4, took) if number > 0 else None)
        except subprocess.TimeoutExpired:
            driver.kill()
        if number <= 0:
            assert driver.returncode == 0, "an undisturbed command failed"
            took = time.perf_counter() - begin
            continue
        is_killed = driver.wait() != 0
        left = [path for path, _ in finished(runs)] if runs.is_dir() else []
        right = all(read_run(path) == expected for path in left)
        told(folder, CONFIG, is_new=False)  # the next run removes what is left
        left_over = [*runs.glob(".tmp-*"), *folder.glob(".evalkit-*")]
        if not right or left_over or len([*finished(runs)]) != len(left) + 1:
            yield "something else"
        else:
            yield ("a whole run" if left else "no run") if is_killed else "ended before"


def make_logs(folder: Path, n_users: int, seed: int) -> None:
    """Truth and rankings of two models, each in three files whose rows stand in no order."""
    rng = np.random.default_rng(seed)
    users = np.repeat(np.arange(n_users), 20)
    frames = {
        name: pl.DataFrame(
            {
                "user": users,
                "item": np.concatenate([rng.permutation(60)[:20] for _ in range(n_users)]),
                "rank": np.tile(np.arange(1, 21), n_users),
            }
        )
        for name in "ab"
    }
    kinds = pl.Series(["new", "old", None])
    truth = frames["a"].filter(pl.Series(rng.random(users.size) < 0.2)).select("user", "item")
    frames["truth"] = truth.with_columns(kind=kinds.gather(truth["user"] % 3))
    for name, frame in frames.items():
        (folder / name).mkdir()
        shuffled = frame.sample(fraction=1.0, shuffle=True, seed=seed)
        for number, part in enumerate(shuffled.iter_slices(-(-frame.height // 3))):
            part.write_parquet(folder / name / f"{number}.parquet")


def told(folder: Path, text: str, *, is_new: bool = True) -> dict[str, Any] | str:
    """The run that the command publishes, or the error that it ends with."""
    from evalkit.cli.app import run_command

    if is_new:
        shutil.rmtree(folder / "runs", ignore_errors=True)
    (folder / "nightly.toml").write_text(text)
    errors = io.StringIO()
    asked = ["run", str(folder / "nightly.toml"), "--out", str(folder / "runs"), "--quiet"]
    with redirect_stdout(io.StringIO()), redirect_stderr(errors):
        status = run_command(asked)
    return errors.getvalue() if status else read_run(folder / "runs" / "latest")


def read_run(path: Path) -> dict[str, Any]:
    """The report of a run, and the values of its users."""
    from evalkit.runs import load_run

    report = load_run(path)
    document = json.loads(report.to_json())
    found = {key: each for key, each in document.items() if key not in OF_ITS_OWN}
    assert report.per_user_values is not None
    return found | {"values": report.per_user_values.table().collect().rows()}


@contextmanager
def cluster(folder: Path) -> Iterator[str]:
    """A standalone master and two workers; its address."""
    import pyspark

    home = os.path.dirname(pyspark.__file__)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    started: list[subprocess.Popen[bytes]] = []

    def start(kind: str, *asked: str) -> None:
        line = [f"{home}/bin/spark-class", f"org.apache.spark.deploy.{kind}"]
        line += ["--host", "127.0.0.1", "--webui-port", "0", *asked]
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        environment = os.environ | {"SPARK_HOME": home}
        started.append(subprocess.Popen(line, env=environment, cwd=folder, **quiet))  # type: ignore[call-overload]

    try:
        start("master.Master", "--port", str(port))
        wait_for(port)
        address = f"spark://127.0.0.1:{port}"
        for _ in range(2):
            start("worker.Worker", "--cores", "1", "--memory", "1g", address)
        yield address
    finally:
        for worker in started:
            with psutil.Process(worker.pid).oneshot():
                family = psutil.Process(worker.pid).children(recursive=True)
            for process in family:
                process.kill()
            worker.kill()
            worker.wait()


def wait_for(port: int) -> None:
    """Until a server takes calls."""
    for _ in range(600):
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            time.sleep(0.1)
        else:
            return
    raise SystemExit("the master did not come up in a minute")


@contextmanager
def session_of(master: str) -> Iterator[None]:
    """A session of the cluster, which every run takes."""
    from pyspark.sql import SparkSession

    from evalkit.engines._spark import new_session

    session = new_session(SparkSession, master=master, options=OPTIONS)
    try:
        yield
    finally:
        session.stop()


@contextmanager
def killing(kind: str, after: float) -> Iterator[list[int]]:
    """A process of this kind dies after so many seconds, if there is one then; which did."""
    dead: list[int] = []
    ended = threading.Event()

    def kill() -> None:
        if ended.wait(after):
            return
        while not dead and not ended.wait(0.05):
            for pid in processes_of(kind):
                os.kill(pid, signal.SIGKILL)
                dead.append(pid)
                return

    thread = threading.Thread(target=kill)
    thread.start()
    try:
        yield dead
    finally:
        ended.set()
        thread.join()


def processes_of(kind: str) -> list[int]:
    """Executors among what this process started, or Python workers of theirs that work."""
    found = []
    for child in psutil.Process().children(recursive=True):
        try:
            line = " ".join(child.cmdline())
            is_executor = "CoarseGrainedExecutorBackend" in line
            is_worker = "pyspark.daemon" in line and "pyspark.daemon" in " ".join(
                child.parent().cmdline()
            )
        except (psutil.Error, AttributeError):
            continue
        if is_executor if kind == "executor" else is_worker:
            found.append(child.pid)
    return random.sample(found, len(found))


if __name__ == "__main__":
    sys.exit(main())
