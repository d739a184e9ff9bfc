"""Starting costs little: nothing heavy is imported before a command needs it."""

import resource
import subprocess
import sys

import polars as pl
import pytest
from program import environment

HEAVY = ("polars", "numpy", "numba", "pyarrow", "scipy", "pandas", "jinja2", "rich")

LIST_MODULES = """
import atexit, sys
heavy = sys.argv.pop(1).split(",")
def tell():
    found = sorted({name.partition(".")[0] for name in sys.modules} & set(heavy))
    sys.stderr.write(f"heavy: {found}\\n")
atexit.register(tell)
from evalkit.cli import main
main()
"""


@pytest.mark.parametrize(
    "arguments",
    [
        ["--version"],
        ["--help"],
        ["run", "--help"],
        ["evaluate", "--help"],
        ["schema"],
        ["explain", "few-users"],
        ["rnu"],
        ["run", "missing.toml"],
    ],
    ids=" ".join,
)
def test_light_commands_import_nothing_heavy(python, arguments):
    outcome = python(LIST_MODULES, ",".join(HEAVY), *arguments)

    assert outcome.err.splitlines()[-1] == "heavy: []"


@pytest.mark.parametrize("arguments", [["metrics"], ["metrics", "--json"]], ids=" ".join)
def test_metrics_are_listed_without_what_measures_them(python, arguments):
    heavy = ",".join(each for each in HEAVY if each != "numpy")  # those of lists are arrays
    outcome = python(LIST_MODULES, heavy, *arguments)

    assert outcome.err.splitlines()[-1] == "heavy: []"


def test_completion_imports_nothing_heavy(python):
    outcome = python(
        LIST_MODULES,
        ",".join(HEAVY),
        _EVALKIT_COMPLETE="complete_bash",
        COMP_WORDS="evalkit ex",
        COMP_CWORD="1",
    )

    assert "heavy: []" in outcome.err
    assert "explain" in outcome.out


@pytest.mark.some_cases(2)
@pytest.mark.parametrize("order", ["by user", "shuffled"])
@pytest.mark.parametrize(
    "beside",
    [
        "",
        'train.path = "train.parquet"\nsegments.at = { path = "users.parquet", by = "at" }\n',
    ],
    ids=["alone", "train and segments"],
)
def test_a_run_on_texts_loads_nothing_of_arrow(python, tmp_path, order, beside):
    pairs = pl.DataFrame({"user": [f"a user named {n // 9}" for n in range(900)]}).with_columns(
        item=pl.format("i{}", pl.int_range(900) * 7 % 13), rank=pl.int_range(900) % 9 + 1
    )
    rows = pairs if order == "by user" else pairs.sample(fraction=1, shuffle=True, seed=1)
    rows[::3].drop("rank").write_parquet(tmp_path / "truth.parquet")
    rows[::2].drop("rank").write_parquet(tmp_path / "train.parquet")
    rows.write_parquet(tmp_path / "lists.parquet")
    users = pairs.select("user", at=pl.col("user").str.tail(1)).unique()
    users.write_parquet(tmp_path / "users.parquet")
    (tmp_path / "job.toml").write_text(
        f'{beside}truth.path = "truth.parquet"\nmetrics.names = ["nDCG@5"]\n'
        'rankings = [{ model = "a", path = "lists.parquet" }]\n'
    )

    outcome = python(LIST_MODULES, "pyarrow", "run", "job.toml", "--quiet")

    assert (outcome.status, outcome.err) == (0, "heavy: []\n")  # it costs a run 38 MiB and 24 ms


@pytest.mark.parametrize("command", [["run", "job.toml", "--quiet"], ["check", "job.toml"]])
def test_a_job_of_rankings_loads_nothing_of_other_kinds(evalkit, python, logs, command):
    code = (
        "import atexit, sys\n"
        "from evalkit.metrics import KINDS, other_kinds\n"
        "others = {KINDS[kind] for kind in other_kinds()} | {'numpy.ma'}\n"
        "def tell():\n"
        "    sys.stderr.write(f'\\nothers: {sorted(others & set(sys.modules))}')\n"
        "atexit.register(tell)\n"
        "from evalkit.cli import main\n"
        "main()\n"
    )

    evalkit(*command)  # whoever compiles loads masked arrays, which cost a run 12 ms
    outcome = python(code, *command)

    assert outcome.status == 0
    assert outcome.err.splitlines()[-1] == "others: []"  # their declarations cost a start 25 ms


@pytest.mark.parametrize("module", ["evalkit.report", "evalkit.runs"])
def test_reports_are_read_without_what_measures_them(python, module):
    code = f"import {module}, sys; print(sorted({{*{HEAVY!r}, 'pydantic'}} & set(sys.modules)))"

    assert python(code).out == "[]\n"


def test_importing_the_package_imports_nothing_heavy(python):
    code = f"import evalkit, sys; print(sorted(set({HEAVY!r}) & set(sys.modules)))"

    assert python(code).out == "[]\n"


def cpu_ms(*arguments: str) -> float:
    """CPU time of the best of a few runs; twice the budget still passes on a busy machine."""
    times = []
    for _ in range(3):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(
            [sys.executable, "-m", "evalkit", *arguments],
            env=environment({}),
            stdout=subprocess.DEVNULL,
            check=True,
        )
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        times.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return 1000 * min(times)


@pytest.mark.parametrize(("argument", "budget_ms"), [("--version", 90), ("--help", 150)])
def test_starting_stays_within_its_budget(argument, budget_ms):
    assert cpu_ms(argument) < 2 * budget_ms


def test_version_is_the_package_s(process):
    from evalkit import __version__

    for outcome in (process("--version"), process("--version", "--help")):
        assert (outcome.status, outcome.out) == (0, f"evalkit {__version__}\n")


def test_help_names_every_command_in_full(process):
    outcome = process("--help")

    assert outcome.status == 0
    assert not any(line.endswith("...") for line in outcome.out.splitlines()[1:])
    for command in ("run", "evaluate", "check", "metrics", "explain", "init", "schema", "demo"):
        assert f"\n  {command} " in outcome.out


def test_without_a_command_the_help_goes_to_stderr(process):
    outcome = process()

    assert (outcome.status, outcome.out) == (2, "")
    assert "Commands:" in outcome.err
