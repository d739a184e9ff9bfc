"""A form of the report, a metric and a kind of evaluation are new files each, and no edit."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import polars as pl
import program
import pytest

import evalkit
from evalkit.cli.app import run_command
from evalkit.config import load_config
from evalkit.errors import Errors
from evalkit.metrics import KINDS
from evalkit.pipeline import run_config

FORM = '''
"""report.adoc: for AsciiDoc."""

from evalkit.config.form_names import Form
from evalkit.report.record import Report


def render_asciidoc(report: Report) -> str:
    """A title, and a line for each number."""
    lines = [f"* {each.model} {each.metric}: {each.value}" for each in report.estimates]
    return "\\n".join([f"= {report.name}", *lines, ""])


FORM = Form("report.adoc", render_asciidoc)
'''

RATING = '''
"""Mean fourth power of errors."""

import math

from evalkit.metrics import ROWS, kernel, of_sums, over_rows_or_users, rating_metric, ratio


def fourth_power(ratings, predictions):
    """The fourth power of each error."""
    return (predictions - ratings) ** 4


@rating_metric(
    name="M4E",
    summary="Mean fourth power of errors.",
    formula="mean of (prediction - rating)^4",
    latex=r"\\frac{1}{n} \\sum (\\hat r - r)^4",
    source="Somebody 2026, A metric of our own",
    bounds=(0.0, math.inf),
    undefined="without a predicted pair",
    parameters=(over_rows_or_users(),),
    higher_is_better=False,
    over_rows=of_sums(fourth_power, ROWS, by=ratio),
)
@kernel(allocates=False)
def m4e(starts, ratings, predictions, over, out):
    """Mean fourth power of errors of each group."""
    for group in range(out.size):
        total = 0.0
        for row in range(starts[group], starts[group + 1]):
            total += (predictions[row] - ratings[row]) ** 4
        n = starts[group + 1] - starts[group]
        out[group] = total / n if n > 0 else math.nan
'''

LABEL = '''
"""Mean distance of scores from labels."""

from evalkit.metrics import kernel, label_metric, over_rows_or_groups


@label_metric(
    name="distance",
    summary="Mean distance of score and label.",
    formula="mean of |s - y|",
    latex=r"\\frac{1}{n} \\sum |s - y|",
    source="Somebody 2026, A metric of our own",
    bounds=(0.0, 1.0),
    undefined="without rows",
    parameters=over_rows_or_groups(),
    higher_is_better=False,
    is_loss=True,
    of_probabilities=True,
)
@kernel(allocates=False)
def distance(scores, labels, losses):
    """|score - label| of each row."""
    for row in range(losses.size):
        losses[row] = abs(scores[row] - (1.0 if labels[row] != 0 else 0.0))
'''

RATINGS = pl.DataFrame(
    {"user": [1, 1, 2], "item": [1, 2, 1], "rating": [1.0, 2.0, 3.0], "prediction": [1.0, 3.0, 5.0]}
)
LABELS = pl.DataFrame(
    {"user": [1, 1, 2], "item": [1, 2, 1], "score": [0.5, 1.0, 0.0], "label": [1, 1, 0]}
)


@pytest.fixture(scope="module")
def house(tmp_path_factory):
    """evalkit with three files that its makers have not seen, and a folder with two tables."""
    folder = tmp_path_factory.mktemp("house")
    copy = folder / "copy" / "evalkit"
    shutil.copytree(Path(evalkit.__file__).parent, copy)  # with bytecode
    (copy / "report" / "forms" / "asciidoc.py").write_text(FORM.lstrip())
    (copy / "metrics" / "ratings" / "m4e.py").write_text(RATING.lstrip())
    (copy / "metrics" / "labels" / "distance.py").write_text(LABEL.lstrip())
    for name, frame in (("ratings", RATINGS), ("labels", LABELS)):
        frame.write_parquet(folder / f"{name}.parquet")
    return folder


IN_THE_COPY = """
import json, sys
from pathlib import Path
from program import run_here
ended = [run_here(each.split(), Path.cwd()) for each in sys.argv[1:]]
print(json.dumps([each.out for each in ended if not each.status]))
"""


def ask(house: Path, *commands: str) -> list[str]:
    """What commands of the copy print, in one process that compiles nothing."""
    paths = os.pathsep.join(map(str, (house / "copy", Path(program.__file__).parent)))
    done = subprocess.run(
        [sys.executable, "-c", IN_THE_COPY, *commands],
        cwd=house,
        env={**os.environ, "PYTHONPATH": paths, "NUMBA_DISABLE_JIT": "1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize(
    ("kind", "metric", "value"), [("ratings", "M4E", 17 / 3), ("labels", "distance", 0.5 / 3)]
)
def test_a_file_of_a_newcomer_is_seen_at_config_command_and_run_directory(
    house, kind, metric, value
):
    """By hand: (0 + 1 + 16) / 3 of the ratings, (0.5 + 0 + 0) / 3 of the labels."""
    (house / "job.toml").write_text(
        f'name = "job"\nmetrics.names = ["{metric}"]\noutput.formats = ["asciidoc"]\n'
        f'[[{kind}]]\nmodel = "m"\npath = "{kind}.parquet"\n'
    )
    text = f"= job\n* m {metric}: {value}\n"

    ran, again, options, explained = ask(
        *(house, "run job.toml --format asciidoc --quiet", "report last --format asciidoc"),
        *("report --help", f"explain {metric}"),
    )

    assert ran.startswith(text)
    assert (house / "runs" / "latest" / "report.adoc").read_text() == text
    assert again == text
    assert "asciidoc" in options
    assert metric in explained


OUTCOMES = pl.DataFrame(
    {
        "user": [1, 1, 2, 3, 4, 4, 5],
        "group": ["b", "b", "a", "b", "a", "a", "b"],
        "outcome": [2.0, 4.0, 1.0, 6.0, 2.0, 4.0, None],
    }
)
JOB = """
name = "job"
metrics.names = ["mean"]
[outcomes]
path = "outcomes.parquet"
[policies]
bad_scores = "drop"
[[gates]]
metric = "mean"
model = "a"
min = 1.5
min_users = 2
unclear = "pass"
[[gates]]
data = "users"
min = 2
"""


@pytest.fixture
def with_outcomes(tmp_path, monkeypatch):
    """The folder `outcomes` beside these tests is a kind of evaluation: its name is listed."""
    monkeypatch.setitem(KINDS, "outcomes", "outcomes")
    OUTCOMES.write_parquet(tmp_path / "outcomes.parquet")
    (tmp_path / "job.toml").write_text(JOB)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def command(capfd):
    """Runs a command here, where the list of kinds is the longer one: its status, what it says."""

    def run(*arguments: str) -> tuple[int, str]:
        capfd.readouterr()
        status = run_command(arguments)
        return status, " ".join("".join(capfd.readouterr()).split())

    return run


def test_a_kind_in_one_folder_runs_is_judged_and_is_shown(with_outcomes, command):
    """By hand: (1 + 3) / 2 of the users of a, (3 + 6) / 2 of b, whose fifth user has no outcome."""
    ran = command("run", "job.toml", "--quiet")
    assert ran[0] == 0, ran

    report = evalkit.load("runs/latest")
    values = {each.model: (each.value, each.n_users) for each in report.estimates}
    assert values == {"a": (2.0, 2), "b": (4.5, 2)}
    assert report.kind == "outcomes"
    assert {each.fails for each in report.gates} == {False}
    assert "most rows of a user" in command("report", "last", "--format", "html")[1]
    assert command("gate", "last", "--config", "job.toml")[0] == 0
    assert command("run", "job.toml", "--quiet", "--set", "gates[0].unclear=fail")[0] == 1


def test_shares_of_a_newcomers_kind_merge_to_what_one_run_says(with_outcomes, command):
    whole = run_config(load_config("job.toml"))
    for share in (3, 1, 2):
        asked = ("--share", f"{share}/3", "--out", f"{share}.partial")
        assert command("partial", "job.toml", *asked)[0] == 0

    merged = evalkit.merge(sorted(with_outcomes.glob("*.partial")))
    assert merged.estimates == whole.estimates
    assert merged.counts == whole.counts
    assert merged.run_key == whole.run_key


def test_what_is_wrong_with_a_newcomers_config_or_rows_is_told(with_outcomes, command):
    assert "1 rows are left out: bad score" in command("check", "job.toml")[1]

    wrong = JOB.replace("[outcomes]\n", "[outcomes]\npth = 1\n").replace("mean", "man")
    (with_outcomes / "wrong.toml").write_text(wrong + '[statistics]\nbaseline = "a"\n')
    with pytest.raises(Errors) as raised:
        load_config("wrong.toml")
    told = {each.code for each in raised.value.errors}
    assert told == {"unknown-key", "unknown-metric", "conflicting-keys"}
    asked = ("check", "job.toml", "--set", 'outcomes.columns.outcome="group"')
    assert "not-a-number" in command(*asked)[1]


def test_a_kind_that_is_not_listed_has_no_section(tmp_path):
    (tmp_path / "job.toml").write_text(JOB)

    with pytest.raises(evalkit.EvalkitError, match="no key is called 'outcomes'"):
        load_config(tmp_path / "job.toml")


def test_what_a_newcomers_kind_cannot_do_is_refused(with_outcomes):
    config = load_config("job.toml", overrides=["engine.kind=spark"])

    with pytest.raises(evalkit.EvalkitError, match="outcomes are measured, which Spark cannot do"):
        run_config(config)
