"""Every example of configs/ runs as it is written, and every schedule runs its command.

systemd's own parser checks the unit and the timer where it is installed. Airflow, Dagster and
Kubernetes are stood in for: their files are executed or parsed here against what they document.
"""

import json
import os
import re
import runpy
import shutil
import subprocess
import sys
import types
from datetime import datetime, timedelta
from pathlib import Path

import pytest
import yaml
from example_logs import write_example_logs
from program import Outcome, run_here

from evalkit.report import Report
from evalkit.report.verdict import render_prometheus

ROOT = Path(__file__).parents[2]
CONFIGS = sorted((ROOT / "configs").glob("*.toml"))
DAY = "2026-11-20"
THREE_IN_THE_MORNING = datetime(2026, 11, 21, 3)


@pytest.fixture
def place(tmp_path) -> Path:
    """A folder as the examples expect it: configs/, logs/, trec/, and the demo of the package."""
    shutil.copytree(ROOT / "configs", tmp_path / "configs")
    (tmp_path / "evalkit").mkdir()
    (tmp_path / "evalkit" / "demo").symlink_to(ROOT / "evalkit" / "demo")
    write_example_logs(tmp_path, [DAY, yesterday(), "2026-11-21"])
    return tmp_path


def yesterday() -> str:
    command = ["date", "-u", "-d", "yesterday", "+%F"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def shell(command: str, folder: Path, *, on_path: bool = True) -> subprocess.CompletedProcess[str]:
    """Run a command line as a scheduler's shell does; `evalkit` is in the folder's environment."""
    shim = folder / ".venv" / "bin" / "evalkit"
    shim.parent.mkdir(exist_ok=True, parents=True)
    shim.write_text(f'#!/bin/sh\nexec {sys.executable} -m evalkit "$@"\n')
    shim.chmod(0o755)
    environment = {
        **os.environ,
        "PATH": f"{shim.parent}{os.pathsep}/usr/bin{os.pathsep}/bin"
        if on_path
        else "/usr/bin:/bin",
        "PYTHONPATH": str(ROOT),
    }
    line = command.replace("/srv/evalkit", str(folder))
    return subprocess.run(
        ["/bin/sh", "-c", line], cwd=folder, env=environment, capture_output=True, text=True
    )


def said_by_shell(command: str, folder: Path) -> Outcome:
    """As `shell`, whose words `evalkit` gets in this process."""
    words = shell(command.replace("evalkit ", "printf '%s\\n' ", 1), folder).stdout.splitlines()
    return run_here(words, folder)


def commands_in(config: Path) -> list[str]:
    return re.findall(
        r"^#     (evalkit (?:run|compare) .*)$", config.read_text(), flags=re.MULTILINE
    )


@pytest.mark.parametrize("config", CONFIGS, ids=lambda path: path.stem)
def test_example_runs_as_its_first_lines_say(place, config):
    commands = commands_in(config)
    if "s3://" in config.read_text():
        pytest.skip("its test brings a store along: tests/runs/test_store.py")
    assert commands

    for command in commands:
        done = said_by_shell(command, place)

        assert done.status == 0, done.out + done.err
    assert (place / "runs" / "latest" / "report.json").is_file()


def test_nights_are_judged_against_the_last_one(place):
    command = "evalkit run configs/nightly.toml --var day={} --if-new --summary"

    first = said_by_shell(command.format(DAY), place)
    again = said_by_shell(command.format(DAY), place)
    second = said_by_shell(command.format("2026-11-21"), place)

    assert (first.status, again.status, second.status) == (0, 0, 0), second.err
    assert "2 cannot tell" in first.out
    assert "nothing-new" in again.err
    assert "cannot tell" not in second.out


# Schedules.

SCHEDULES = ROOT / "configs" / "schedules"


def exec_line() -> str:
    (line,) = re.findall(
        r"^ExecStart=/bin/sh -c '(.*)'$",
        (SCHEDULES / "evalkit-nightly.service").read_text(),
        flags=re.MULTILINE,
    )
    return line.replace("%%", "%")


def cron_line() -> str:
    lines = (SCHEDULES / "crontab").read_text().splitlines()
    (line,) = [each for each in lines if re.match(r"[\d*]", each)]
    fields = line.split(None, 5)
    assert all(re.fullmatch(r"[\d*,/-]+", each) for each in fields[:5])
    assert not re.search(r"(?<!\\)%", fields[5])
    return fields[5].replace("\\%", "%")


def airflow_command(monkeypatch) -> str:
    found = {}

    class Dag:
        def __init__(self, **options):
            assert {"dag_id", "schedule", "start_date"} <= set(options)

        def __enter__(self):
            return self

        def __exit__(self, *_):
            return None

    airflow = types.ModuleType("airflow")
    airflow.DAG = Dag
    bash = types.ModuleType("airflow.providers.standard.operators.bash")
    bash.BashOperator = lambda **options: found.update(options)
    for name in (
        "airflow.providers",
        "airflow.providers.standard",
        "airflow.providers.standard.operators",
    ):
        monkeypatch.setitem(sys.modules, name, types.ModuleType(name))
    monkeypatch.setitem(sys.modules, "airflow", airflow)
    monkeypatch.setitem(sys.modules, bash.__name__, bash)
    runpy.run_path(str(SCHEDULES / "airflow_dag.py"))
    assert callable(found["on_failure_callback"])
    return found["bash_command"]


def rendered(command: str, run_after: datetime) -> str:
    """The command as Airflow's templates fill it for a run that may begin at that time."""
    jinja = pytest.importorskip("jinja2")

    def ds_add(day: str, days: int) -> str:
        return (datetime.fromisoformat(day) + timedelta(days=days)).date().isoformat()

    environment = jinja.Environment(undefined=jinja.StrictUndefined)
    environment.filters["ds"] = lambda moment: moment.strftime("%Y-%m-%d")
    return environment.from_string(command).render(
        dag_run=types.SimpleNamespace(run_after=run_after),
        macros=types.SimpleNamespace(ds_add=ds_add),
    )


def kubernetes_command() -> str:
    yaml = pytest.importorskip("yaml")
    job = yaml.safe_load((SCHEDULES / "kubernetes-cronjob.yaml").read_text())
    assert (job["apiVersion"], job["kind"]) == ("batch/v1", "CronJob")
    spec = job["spec"]
    assert spec["concurrencyPolicy"] in ("Allow", "Forbid", "Replace")
    template = spec["jobTemplate"]["spec"]
    (rule,) = template["podFailurePolicy"]["rules"]
    assert (rule["action"], rule["onExitCodes"]["operator"]) == ("FailJob", "In")
    assert 75 not in rule["onExitCodes"]["values"]
    pod = template["template"]["spec"]
    assert pod["restartPolicy"] == "Never"  # a failure policy of pods asks for it
    (container,) = pod["containers"]
    volumes = {each["name"] for each in pod["volumes"]}
    assert {each["name"] for each in container["volumeMounts"]} <= volumes
    assert container["command"] == ["/bin/sh", "-c"]
    (command,) = container["args"]
    return command


@pytest.mark.parametrize("scheduler", ["systemd", "airflow", "kubernetes"])
def test_scheduled_command_runs(place, scheduler, monkeypatch):
    command = {
        "systemd": exec_line,
        "airflow": lambda: rendered(airflow_command(monkeypatch), THREE_IN_THE_MORNING),
        "kubernetes": kubernetes_command,
    }[scheduler]()

    done = shell(command, place, on_path=scheduler == "kubernetes")  # an image brings its own

    assert done.returncode == 0, done.stdout + done.stderr
    check_run(place, DAY if scheduler == "airflow" else yesterday())


def check_run(place: Path, day: str) -> None:
    assert (place / "runs" / "latest" / "report.html").is_file()
    assert f"day={day}" in (place / "runs" / "latest" / "manifest.json").read_text()


def test_cron_runs_its_command_and_mails_errors_alone(place):
    line = cron_line()
    broken = line.replace("nightly.toml", "missing.toml")

    done, failed = shell(line, place), shell(broken, place)

    assert (done.returncode, done.stderr, done.stdout) == (0, "", "")
    check_run(place, yesterday())
    assert failed.returncode == 2
    assert failed.stderr.startswith("error[")
    assert re.search(r'^MAILTO="[^"]+"$', (SCHEDULES / "crontab").read_text(), flags=re.MULTILINE)


def test_systemd_tells_of_a_failed_night():
    unit = (SCHEDULES / "evalkit-nightly.service").read_text()

    (told,) = re.findall(r"^OnFailure=(.*)$", unit, flags=re.MULTILINE)

    assert "mail" in (SCHEDULES / told).read_text()
    assert re.search(r"^User=(?!root)\w+$", unit, flags=re.MULTILINE)


@pytest.mark.parametrize("hour", [0, 3, 23])
def test_airflow_takes_the_day_before_the_run(monkeypatch, hour):
    command = rendered(airflow_command(monkeypatch), datetime(2026, 3, 1, hour))

    assert "--var day=2026-02-28 " in command


def test_dagster_job_runs_its_command(place, monkeypatch):
    module = types.ModuleType("dagster")

    def same(*args, **options):
        return args[0] if args and callable(args[0]) else lambda function: function

    module.op = module.job = module.schedule = same
    module.Failure = module.RetryRequested = RuntimeError
    monkeypatch.setitem(sys.modules, "dagster", module)
    script = place / "dagster_job.py"
    script.write_text(
        (SCHEDULES / "dagster_job.py").read_text().replace("/srv/evalkit", str(place))
    )
    shell("true", place)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    told = []
    job = runpy.run_path(str(script))
    context = types.SimpleNamespace(
        op_config={"day": DAY}, log=types.SimpleNamespace(info=told.append),
        scheduled_execution_time=THREE_IN_THE_MORNING,
    )  # fmt: skip

    job["evaluate"](context)

    assert "nightly-als: fine" in told[0]
    assert job["every_night"](context) == {"ops": {"evaluate": {"config": {"day": DAY}}}}


def test_prefect_flow_runs_its_command(place, monkeypatch):
    module, told = types.ModuleType("prefect"), []
    module.task = lambda **options: lambda function: function
    module.flow = lambda function: function
    module.get_run_logger = lambda: types.SimpleNamespace(info=told.append)
    monkeypatch.setitem(sys.modules, "prefect", module)
    script = place / "prefect_flow.py"
    text = (SCHEDULES / "prefect_flow.py").read_text()
    script.write_text(text.replace("/srv/evalkit", str(place)))
    shell("true", place)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    job = runpy.run_path(str(script))

    assert "nightly-als: fine" in job["evalkit_nightly"](DAY)

    assert "nightly-als: fine" in told[0]
    assert f"day={yesterday()}" not in job["COMMAND"]
    with pytest.raises(RuntimeError, match="evalkit ended with"):
        job["evaluate"]("1999-01-01")


def test_systemd_accepts_unit_and_timer(tmp_path):
    program = shutil.which("systemd-analyze")
    if program is None:
        pytest.skip("systemd-analyze is not installed")
    files = [SCHEDULES / f"evalkit-nightly.{kind}" for kind in ("service", "timer")]

    done = subprocess.run(
        [program, "verify", "--man=no", *map(str, files)], capture_output=True, text=True
    )
    calendar = subprocess.run(
        [program, "calendar", "*-*-* 03:00:00 UTC"], capture_output=True, text=True
    )

    ours = [line for line in done.stderr.splitlines() if "evalkit-nightly" in line]
    assert ours == []
    assert calendar.returncode == 0, calendar.stderr


OPERATIONS = Path(__file__).parents[2] / "configs" / "operations"


def test_alerts_and_panels_speak_of_what_a_run_writes(place):
    done = run_here(["demo", "--quiet", "--json", "--out", "runs"], place)
    rules = yaml.safe_load((OPERATIONS / "prometheus-rules.yaml").read_text(encoding="utf-8"))

    written = render_prometheus(Report.from_json(done.out))

    asked = [rule["expr"] for rule in rules["groups"][0]["rules"]]
    page = json.loads((OPERATIONS / "grafana.json").read_text(encoding="utf-8"))
    asked += [target["expr"] for panel in page["panels"] for target in panel["targets"]]
    asked += [each["query"] for each in page["templating"]["list"]]
    for line in asked:
        names = re.findall(r"evalkit_\w+", line)
        assert names
        assert all(f"\n{name}{{" in written for name in names), line
        labels = set(re.findall(r"(\w+)=", line)) | set(re.findall(r", (\w+)\)", line))
        assert all(f'{label}="' in written for label in labels), line


def test_examples_of_operations_name_commands_that_there_are():
    texts = [each.read_text(encoding="utf-8") for each in OPERATIONS.iterdir()]

    named = {name for text in texts for name in re.findall(r"(?:run: |RUN )evalkit (\w+)", text)}

    assert named == {"run", "warm", "doctor"}
    assert yaml.safe_load((OPERATIONS / "github-actions.yml").read_text(encoding="utf-8"))["jobs"]
