"""`evalkit history` and `evalkit report` of finished runs."""

import json
import re
import shlex
import shutil
from pathlib import Path

import duckdb
import polars as pl
import pytest
from program import run_here, write_logs

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    """Two runs of the job, of which the first is tagged."""
    folder = write_logs(tmp_path_factory.mktemp("kept"))
    for _ in range(2):
        assert run_here(["run", "job.toml"], folder).status == 0
    ids = sorted(each.name for each in (folder / "runs").glob("2*"))
    tagged = run_here(["history", "tag", "last~1", "prod"], folder)
    assert tagged.out == f"prod: {ids[0]}\n"
    return folder / "runs", ids


@pytest.fixture
def runs(kept, logs):
    folder, ids = kept
    shutil.copytree(folder, logs / "runs", symlinks=True)
    return ids


def test_history_lists_runs(evalkit, runs):
    for outcome in (evalkit("history"), evalkit("history", "list")):
        lines = outcome.out.splitlines()
        assert outcome.status == 0, outcome.err
        assert [line.split()[0] for line in lines] == ["run", runs[1], runs[0]]
        assert lines[2].endswith("prod")
    found = evalkit("history", "list", "--json").document
    assert [(each["run_id"], each["tags"]) for each in found] == [
        (runs[1], []),
        (runs[0], ["prod"]),
    ]


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ("history list --out empty", "evalkit run CONFIG --out empty writes one"),
        ("report last --out empty", "evalkit run CONFIG --out empty writes one"),
        ("report x --out empty", "evalkit run CONFIG --out empty writes one"),
        ("history list --name no", "no run is of job 'no': evalkit history list --out runs shows"),
        ("report job", "it is a job: evalkit history list --out runs --name job"),
        ("report last~7", "evalkit history list --out runs shows runs and tags"),
        ("report other", "it is a folder of runs, and last is the last of them: --out other"),
        ("report pord", "did you mean 'prod'?"),
    ],
)
def test_a_name_of_no_run_is_answered_by_what_there_is(evalkit, runs, logs, asked, told):
    (logs / "empty").mkdir()
    shutil.copytree(logs / "runs", logs / "other", symlinks=True)

    outcome = evalkit(*shlex.split(asked))

    assert told in outcome.err
    assert told not in evalkit(*shlex.split(asked), "--quiet").err or outcome.status


def test_past_runs_lead_with_the_metric_that_decides_and_its_best_model(evalkit, logs, runs):
    primary = 'metrics.primary=["recall@1"]'
    models = 'rankings=[{model="bad", path="bad.parquet"}, {model="good", path="good.parquet"}]'
    done = evalkit("run", "job.toml", "--set", primary, "--set", models)

    listed = evalkit("history", "list", "--json").document[0]
    page = logs / evalkit("history", "html").out.strip()
    (row,) = evalkit("history", "query", "SELECT * FROM runs LIMIT 1", "--format", "json").document

    assert done.status == 0, done.err
    assert (listed["first"], listed["value"]) == ("good recall@1", 0.75)
    assert listed["answer"].startswith(done.out.splitlines()[0].removeprefix("job: "))
    assert all(each in page.read_text() for each in (listed["answer"], "good recall@1"))
    assert (row["best_model"], row["best_metric"]) == ("good", "nDCG@2")


def test_index_names_gates_that_failed_the_day_and_draws_the_trend(evalkit, logs):
    where = "truth.where=\"{day} > ''\""
    gate = 'gates=[{metric="nDCG@2", model="bad", min=MIN}]'
    for day, least in (("2026-11-20", "0.0"), ("2026-11-20", "0.9"), ("2026-11-21", "0.0")):
        sets = "--set", where, "--set", gate.replace("MIN", least)
        evalkit("run", "job.toml", *sets, "--var", f"day={day}")

    page = (logs / evalkit("history", "html").out.strip()).read_text()
    latest, failed, first = re.findall("<tr>.*?</tr>", page)[1:]

    assert "required: &gt;= 0.9" in failed and "✗" in failed  # noqa: PT018
    assert all("2026-11-2" in each for each in (latest, failed, first))
    assert "run again later" in first and "run again later" not in failed + latest  # noqa: PT018
    assert "nDCG@2 over 2 runs" in page
    assert "Crosses: runs that a later one replaced." in page


def test_history_knows_the_folder_before_and_behind_its_command(evalkit, runs, logs):
    (logs / "runs").rename(logs / "kept")

    outcomes = [
        evalkit("history", "--out", "kept"),
        evalkit("history", "--out", "kept", "list"),
        evalkit("history", "--out", "nowhere", "list", "--out", "kept"),
    ]

    for outcome in outcomes:
        assert [line.split()[0] for line in outcome.out.splitlines()] == ["run", runs[1], runs[0]]
    assert evalkit("history").codes == ["missing-runs"]


def test_history_shows_a_metric_over_time(evalkit, runs, logs):
    outcome = evalkit("history", "show", "ndcg@2", "--model", "good")
    page = evalkit("history", "show", "nDCG@2", "--html", "trend.html")

    head, line = outcome.out.splitlines()
    assert "nDCG@2" in head
    assert line.split()[2] == "▄▄"
    assert page.out == "trend.html\n"
    assert (logs / "trend.html").read_text().startswith("<!doctype html>")


def test_history_answers_sql(evalkit, runs):
    sql = "SELECT model, count(*) AS n FROM metrics GROUP BY model ORDER BY model"

    assert evalkit("history", "query", sql).out == "model  n\nbad    4\ngood   4\n"
    assert evalkit("history", "query", sql, "--format", "csv").out == "model,n\nbad,4\ngood,4\n"
    assert evalkit("history", "query", sql, "--format", "json").document[0] == {
        "model": "bad", "n": 4,
    }  # fmt: skip
    refused = evalkit("history", "query", "DELETE FROM runs")
    assert (refused.status, refused.codes) == (2, ["bad-sql"])


def test_duckdb_counts_every_run_once(evalkit, runs, logs):
    evalkit("history", "export", "all.parquet")
    page = (ROOT / "docs" / "jobs.md").read_text(encoding="utf-8")
    for sql in re.findall(r"```sql\n(.*?)```", page, flags=re.DOTALL):
        sql = sql.replace("'runs/", f"'{logs}/runs/").replace("nDCG@10", "nDCG@2")

        for numbers in ("all.parquet", "runs/[0-9]*/metrics.parquet"):
            each = sql.replace(f"{logs}/runs/[0-9]*/metrics.parquet", f"{logs}/{numbers}")
            found = duckdb.sql(each).pl()

            assert found["started"].n_unique() == len(runs) == found.height / 2
            assert set(found["job"]) == {"job"}
            assert found.filter(model="good")["value"].to_list() == [1.0, 1.0]


def test_history_exports_parquet(evalkit, runs, logs):
    outcome = evalkit("history", "export", "all.parquet")

    assert outcome.out == "all.parquet: 8 rows of 2 runs\n"
    frame = pl.read_parquet(logs / "all.parquet")
    assert frame["run_id"].unique().sort().to_list() == runs
    assert frame["value"].dtype == pl.Float64


def test_history_prunes_and_rebuilds(evalkit, runs, logs):
    evalkit("run", "job.toml")

    would = evalkit("history", "prune", "--keep", "1", "--dry-run")
    done = evalkit("history", "prune", "--keep", "1")
    rebuilt = evalkit("history", "rebuild")

    assert would.out == done.out == f"runs/{runs[1]}\n"
    assert rebuilt.out == "runs: 2 runs in the index\n"


def test_tag_can_be_taken_away(evalkit, runs):
    wrong = evalkit("history", "tag", "last", "prod", "--remove")
    right = evalkit("history", "tag", "prod", "prod", "--remove")

    assert (wrong.status, wrong.codes) == (2, ["unknown-tag"])
    assert right.out == f"prod: taken from {runs[0]}\n"


FIRST_WORDS = {
    "table": "job (profile evalkit)",
    "json": "{",
    "csv": "model,metric",
    "markdown": "# job",
    "latex": "% job",
    "html": "<!doctype html>",
}


def test_report_renders_an_old_run(evalkit, runs, logs):
    said = {form: evalkit("report", "last~1", "--format", form) for form in FIRST_WORDS}

    for form, first in FIRST_WORDS.items():
        assert said[form].out.startswith(first), form
    assert said["json"].document["run_id"] == runs[0]
    assert said["html"].out == (logs / "runs" / runs[0] / "report.html").read_text()


def test_report_writes_files(evalkit, runs, logs):
    without = evalkit("report", "prod", "--format", "parquet")
    outcome = evalkit("report", "prod", "--format", "parquet", "--file", "m.parquet")

    assert (without.status, without.codes) == (2, ["bad-option"])
    assert outcome.out == "m.parquet\n"
    assert pl.read_parquet(logs / "m.parquet").height == 4


def test_report_of_no_run_is_told(evalkit, runs):
    unknown = evalkit("report", "prd")
    early = evalkit("report", "last~9")

    assert (unknown.status, unknown.codes) == (2, ["unknown-run"])
    assert (early.status, early.codes) == (3, ["no-such-run"])


WRITERS = [
    ["report", "last", "--file"],
    ["report", "runs/latest", "--out", "nowhere", "--file"],
    ["figures", "last", "--figure", "RR of every model", "--file"],
    ["history", "html", "--file"],
    ["history", "show", "RR", "--html"],
    ["history", "export"],
    ["surrogates", "runs", "--html"],
]


@pytest.mark.parametrize("arguments", WRITERS, ids=" ".join)
def test_no_folder_and_no_file_of_a_run_is_written_over(evalkit, runs, logs, arguments):
    page = logs / "runs" / runs[1] / "report.html"
    there = page.read_bytes()

    on_a_folder = evalkit(*arguments, "runs")
    on_a_run = evalkit(*arguments, f"runs/{runs[1]}/report.html")

    assert (on_a_folder.status, on_a_folder.codes) == (2, ["bad-option"])
    assert on_a_run.status == 2
    assert page.read_bytes() == there


@pytest.mark.parametrize(
    "command",
    ["report last", "compare last~1 last", "history tag last a", "history prune --keep 1"],
)
def test_a_file_is_no_folder_of_runs(evalkit, logs, command):
    outcome = evalkit(*command.split(), "--out", "truth.parquet")

    assert (outcome.status, outcome.codes) == (2, ["missing-runs"])


def test_a_page_over_all_runs_is_written_again(evalkit, runs):
    outcomes = [evalkit("history", "html", "--file", "runs/index.html") for _ in range(2)]

    assert [each.status for each in outcomes] == [0, 0]


def test_damaged_runs_are_warned_of(evalkit, runs, logs):
    path = logs / "runs" / runs[0] / "report.json"
    path.write_text(json.dumps({}))

    outcome = evalkit("history", "rebuild")

    assert outcome.status == 0
    assert "warning[run-damaged]: 1 damaged runs" in outcome.err


def test_nothing_is_compared_with_itself(evalkit, runs):
    of_runs = evalkit("compare", "last", runs[1])
    of_models = evalkit("compare", "--config", "job.toml", "good", "bad", "good")

    why = evalkit("why", runs[1], "last")

    assert [(each.status, each.codes) for each in (of_runs, of_models)] == [
        (2, ["nothing-to-compare"])
    ] * 2
    assert (why.status, why.codes) == (2, ["same-run"])
    assert f"'last' and '{runs[1]}' are one" in of_runs.err


@pytest.mark.parametrize(
    "which",
    [["last~1", "last"], ["last~1", "last", "--across"], ["--config", "job.toml", "good", "bad"]],
)
def test_an_option_that_is_wrong_is_told_by_its_name(evalkit, runs, which):
    level = evalkit("compare", *which, "--level", "95")

    assert (level.status, level.codes) == (2, ["out-of-range"])
    assert "at:   --level\n" in level.err


@pytest.mark.parametrize("name", ['"good"', "a\x7fb", "back\\slash", "5"])
def test_a_first_model_of_any_name_is_the_baseline(evalkit, logs, name):
    rankings = [f"{name}=good.parquet", "bad=bad.parquet"]

    compared = evalkit("compare", "--truth", "truth.parquet", *rankings, "-m", "RR", "--json")

    assert [each["baseline"] for each in compared.document["comparisons"]] == [name]


def test_an_export_is_called_what_it_is(evalkit, runs, logs):
    outcome = evalkit("history", "export", "all.csv")

    assert (outcome.status, outcome.codes) == (2, ["unknown-format"])
    assert not (logs / "all.csv").exists()
    asked = evalkit("history", "query", "SELECT * FROM metrics", "--format", "csv")
    assert asked.status == 0


@pytest.mark.parametrize(
    ("asked", "code", "told"),
    [
        ("compare --across last last~1", "same-truth", "hint: evalkit compare without --across"),
        ("compare --across last last~1 -m RR -m AP", "bad-option", "hint: -m RR"),
        (
            "compare good bad --across --config job.toml",
            "bad-option",
            "--across compares finished runs",
        ),
        ("compare last last~1 --search", "bad-option", "hint: evalkit compare --config CONFIG"),
        ("compare last last~1 --profile ranx", "bad-option", "under a profile already"),
        ("why last~1 last -m AP", "metric-not-in-report", "hint: they have"),
        ("why last~1 last --by nope", "unknown-segmentation", "at:   --by"),
        ("history tag last nope --remove", "unknown-tag", "evalkit history list shows runs"),
        ("history tag last prod --remove", "unknown-tag", "'prod' is the tag of"),
        ("history query 'DROP TABLE runs'", "bad-sql", "such as: SELECT * FROM runs"),
        ("history list --out nothing", "missing-runs", "name it with --out"),
        ("figures last --file x.svg", "bad-option", "figures, and one file"),
        ("report last --format parquet", "bad-option", "--file metrics.parquet"),
        (
            "init --split --truth truth.parquet --log m=good.parquet",
            "bad-option",
            "leave --truth, --train and --log out",
        ),
        ("init --truth t.csv --rankings m=r.csv --out job.toml", "file-exists", "--force"),
        ("split", "missing-option", "evalkit split LOG --test 7d"),
        ("split --check --train t.csv", "missing-option", "evalkit split --check --train"),
        ("experiment --exposures t.csv -m mean(x)", "missing-option", "--variants control=50"),
        ("experiment --exposures t.csv -m mean(x) --variants a", "bad-share", "--variants a=50"),
        (
            "experiment --exposures t.csv -m mean(x) --variants a=1,b=1 --sum x",
            "bad-option",
            "--sum clicks=click",
        ),
    ],
)
def test_what_a_command_cannot_do_is_refused_with_what_it_can(evalkit, runs, asked, code, told):
    refused = evalkit(*shlex.split(asked))

    assert (refused.status, refused.codes) == (2, [code])
    assert told in refused.err


def test_what_runs_did_not_keep_is_not_compared(evalkit, logs):
    weighed = ["--set", "name=weighed", "--set", "statistics.weight.by=1"]
    for _ in range(2):
        assert evalkit("run", "job.toml", *weighed).status == 0
    for name, model in (("one", "good"), ("other", "bad")):
        pl.read_parquet(logs / f"{model}.parquet").write_parquet(logs / f"{name}.parquet")
        kept = ["--per-user", f"{name}-values.parquet", "--set", "output.per_user=true"]
        tables = ["--rankings", f"{name}=good.parquet", "--rankings", f"{name}2=bad.parquet"]
        asked = ["evaluate", "--truth", "truth.parquet", *tables, "-m", "RR", *kept]
        assert evalkit(*asked, "--out", "kept").status == 0

    why = evalkit("why", "last~1", "last", "--name", "weighed")
    ids = sorted(each.name for each in (logs / "kept").glob("2*"))
    compared = evalkit("compare", *ids, "--out", "kept")

    assert (why.status, why.codes) == (3, ["parts-missing"])
    assert (compared.status, compared.codes) == (2, ["ambiguous-model"])
    assert "hint: write --all-pairs" in compared.err
