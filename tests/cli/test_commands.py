"""The commands do what the interface says."""

import json
import math
import os
import pty
import subprocess
import sys
import tomllib

import jsonschema
import polars as pl
import pytest
from program import environment

from evalkit.cli.codes import all_codes
from evalkit.config import Policies, load_config

GUESSED = (
    "truth: columns are guessed: user = user_id, item = item_id, relevance = rating\n"
    "good: columns are guessed: user = user_id, item = item_id, rank = rank\n"
)


# ---------------------------------------------------------------- run


def test_run_prints_table_path_and_verdict(process, logs):
    outcome = process("run", "job.toml")

    lines = outcome.out.splitlines()
    assert (outcome.status, outcome.err) == (0, "")
    assert any(line.split()[:1] == ["good"] and "1.000000" in line for line in lines)
    assert lines[-2] == f"report: {next((logs / 'runs').glob('2*')).relative_to(logs)}"
    assert lines[-1] == "verdict: fine, no gate configured, 1 warning"


def test_run_writes_what_verify_accepts(evalkit, logs):
    evalkit("run", "job.toml", "--out", "elsewhere")

    outcome = evalkit("verify", "elsewhere/latest")

    assert outcome.status == 0
    assert outcome.out == "elsewhere/latest: every file is as it was written\n"


def test_verify_tells_a_changed_file(evalkit, logs):
    evalkit("run", "job.toml")
    report = logs / "runs" / "latest" / "report.json"
    report.chmod(0o644)
    report.write_text(report.read_text().replace("1.0", "0.9", 1))

    outcome = evalkit("verify", "runs/latest")

    assert (outcome.status, outcome.codes) == (3, ["changed-run"])


def test_json_is_one_document_on_stdout(process, logs):
    outcome = process("run", "job.toml", "--json")

    values = {
        (each["model"], each["metric"]): each["value"] for each in outcome.document["metrics"]
    }
    assert values["good", "nDCG@2"] == 1.0
    assert values["bad", "recall@1"] == 0.0
    assert "\nreport: runs/" in outcome.err


@pytest.mark.parametrize(
    ("format", "first"), [("csv", "model,metric,value,low,high"), ("markdown", "#")]
)
def test_other_formats_are_one_document_too(evalkit, logs, format, first):
    outcome = evalkit("run", "job.toml", "--format", format, "--quiet")

    assert outcome.out.startswith(first)
    assert outcome.err == ""


def test_set_and_var_reach_the_run(evalkit, logs):
    outcome = evalkit(
        "run", "job.toml", "--json", "--set", "metrics.names=['RR']", "--set", "name=weekly",
        "--set", "truth.path={which}.parquet", "--var", "which=truth",
    )  # fmt: skip

    assert outcome.document["name"] == "weekly"
    assert {each["metric"] for each in outcome.document["metrics"]} == {"RR"}


def test_threads_and_samples_reach_the_run(evalkit, logs):
    outcome = evalkit("run", "job.toml", "--json", "--threads", "1", "--sample", "1")

    assert outcome.document["meta"]["threads"] == 1
    assert [each["code"] for each in outcome.document["warnings"]] == ["sample", "few-users"]


def test_per_user_values_are_written_to_a_file(evalkit, logs):
    evalkit("run", "job.toml", "--per-user", "users.parquet")

    frame = pl.read_parquet(logs / "users.parquet")
    assert frame.columns == ["user_id", "model", "nDCG@2", "recall@1"]
    assert frame["user_id"].to_list() == [1, 1, 2, 2]
    assert frame["model"].to_list() == ["good", "bad"] * 2
    assert not (logs / "runs" / "latest" / "per_user.parquet").exists()
    assert not [each for each in logs.iterdir() if each.name.startswith(".")]


def test_values_of_units_are_written_to_a_file(evalkit, tmp_path):
    rows = {"unit": range(40), "variant": ["a", "b"] * 20, "clicks": [0, 1, 2, 1, 0] * 8}
    pl.DataFrame(rows).write_parquet(tmp_path / "rows.parquet")
    (tmp_path / "job.toml").write_text("""experiment = { variants = { a = 50, b = 50 } }
exposures = { path = "rows.parquet", columns = { unit = "unit", variant = "variant" } }
metrics = { names = ["mean(clicks)"] }
output = { per_user = true }
""")

    outcome = evalkit("run", "job.toml", "--per-user", "units.parquet")

    assert outcome.status == 0
    kept = pl.read_parquet(tmp_path / "runs" / "latest" / "per_user.parquet")
    assert pl.read_parquet(tmp_path / "units.parquet").equals(kept)


@pytest.mark.parametrize(
    ("command", "file"),
    [
        ("run job.toml --per-user", "job.toml"),
        ("run job.toml --prometheus", "truth.parquet"),
        ("evaluate --truth truth.parquet --rankings good.parquet -m RR --per-user", "good.parquet"),
        ("baseline popular --train truth.parquet --users truth.parquet --out", "truth.parquet"),
        ("split truth.parquet --by users --test 0.5 --out", "job.toml"),
        ("init --force --truth truth.parquet good.parquet --out", "truth.parquet"),
        ("init --force --truth truth.parquet a=good.parquet --out", "good.parquet"),
        ("surrogates truth.parquet --html", "truth.parquet"),
    ],
)
def test_no_file_that_is_read_is_written_over(evalkit, logs, command, file):
    there = (logs / file).read_bytes()

    outcome = evalkit(*command.split(), file)

    assert outcome.status == 2
    assert outcome.codes in (["bad-option"], ["file-exists"])
    assert "written over" in outcome.err or "a file is there" in outcome.err
    assert (logs / file).read_bytes() == there


def test_a_sample_of_nobody_says_what_to_do(evalkit, logs):
    outcome = evalkit("run", "job.toml", "--sample", "1e-9")

    assert (outcome.status, set(outcome.codes)) == (3, {"no-common-user"})
    assert "hint: --sample 0.5 takes half of the users" in outcome.err


def test_keys_of_an_engine_that_is_not_asked_for_are_told(evalkit, logs):
    outcome = evalkit(
        *("run", "job.toml", "--set", "engine.master=local[2]", "--set", "engine.partitions=3")
    )

    assert outcome.status == 0
    assert "warning[not-followed]: engine.master, engine.partitions: of Spark" in outcome.err


def test_per_user_values_need_no_run(evalkit, logs):
    asked = "evaluate --truth truth.parquet --rankings good.parquet -m RR --per-user users.parquet"
    outcomes = [evalkit(*asked.split()) for _ in range(2)]  # its own file is written over

    assert [each.status for each in outcomes] == [0, 0]
    assert pl.read_parquet(logs / "users.parquet")["RR"].to_list() == [1.0, 1.0]
    assert not (logs / "runs").exists()


def test_per_user_of_the_config_goes_to_the_run(evalkit, logs):
    evalkit("run", "job.toml", "--set", "output.per_user=true")

    assert (logs / "runs" / "latest" / "per_user.parquet").exists()


def test_a_run_of_the_same_name_must_wait(process, logs):
    from evalkit.runs import hold

    (logs / "runs").mkdir()
    with hold(logs / "runs", "job"):
        outcome = process("run", "job.toml")

    assert (outcome.status, outcome.codes) == (75, ["run-locked"])


def test_wrong_data_writes_nothing(evalkit, logs):
    outcome = evalkit("run", "job.toml", "--set", "rankings[0].path=nowhere.parquet")

    assert (outcome.status, outcome.codes) == (3, ["path-not-found"])
    assert not (logs / "runs").exists()


def test_a_wrong_config_tells_every_mistake(process, logs):
    outcome = process("run", "job.toml", "--set", "polices.ties=input", "--set", "name=")

    assert outcome.status == 2
    assert outcome.codes == ["unknown-key", "out-of-range"]


def test_progress_is_drawn_on_a_terminal_only(logs):
    ours, theirs = pty.openpty()
    done = subprocess.run(
        [sys.executable, "-m", "evalkit", "run", "job.toml"],
        cwd=logs,
        env=environment({}),
        stdout=subprocess.PIPE,
        stderr=theirs,
        check=True,
        timeout=120,
    )
    os.close(theirs)
    drawn = os.read(ours, 10_000) if select_ready(ours) else b""
    os.close(ours)

    assert b"\x1b" not in done.stdout
    assert drawn == b"" or drawn.endswith(b"\r\x1b[K")


def select_ready(descriptor: int) -> bool:
    import select

    return bool(select.select([descriptor], [], [], 0)[0])


# ---------------------------------------------------------------- evaluate


def test_evaluate_guesses_columns_and_writes_nothing(process, logs):
    before = set(logs.iterdir())

    outcome = process(
        "evaluate", "--truth", "truth.parquet", "--rankings", "good.parquet", "-m", "nDCG@2"
    )

    assert (outcome.status, outcome.err) == (0, GUESSED)
    assert "1.000000" in outcome.out
    assert "report:" not in outcome.out
    assert set(logs.iterdir()) == before


def test_evaluate_takes_many_models_and_metrics(evalkit, logs):
    outcome = evalkit(
        "evaluate", "--truth", "truth.parquet", "--rankings", "best=good.parquet", "bad.parquet",
        "-m", "nDCG@{1,2}", "-m", "MRR", "--json", "--quiet",
    )  # fmt: skip

    found = [(each["model"], each["metric"]) for each in outcome.document["metrics"]]
    assert found == [
        (model, metric) for model in ("best", "bad") for metric in ("nDCG@1", "nDCG@2", "RR")
    ]
    assert outcome.err == ""


def test_evaluate_writes_with_out(evalkit, logs):
    outcome = evalkit(
        "evaluate", "--truth", "truth.parquet", "--rankings", "good.parquet", "-m", "RR",
        "--out", "runs",
    )  # fmt: skip

    assert (logs / "runs" / "latest" / "report.json").exists()
    assert "report: runs/" in outcome.out


def test_evaluate_combines_metrics(evalkit, logs):
    outcome = evalkit(
        "evaluate", "--truth", "truth.parquet", "--rankings", "bad.parquet", "--json", "-q",
        "-m", "nDCG@2", "-m", "recall@2", "--combined", "both=mean(nDCG@2, recall@2)",
    )  # fmt: skip
    values = {each["metric"]: each["value"] for each in outcome.document["metrics"]}

    assert values["both"] == pytest.approx((values["nDCG@2"] + values["recall@2"]) / 2)


def test_evaluate_takes_named_columns(evalkit, logs):
    pl.read_parquet(logs / "good.parquet").rename(
        {"user_id": "who", "item_id": "what", "rank": "place"}
    ).with_columns(score=pl.lit(0.5), user_id=pl.lit(7)).write_parquet(logs / "odd.parquet")
    truth = pl.read_parquet(logs / "truth.parquet")
    truth.rename({"user_id": "who", "item_id": "what"}).write_parquet(logs / "truth.parquet")

    outcome = evalkit(
        "evaluate", "--truth", "truth.parquet", "--rankings", "odd.parquet", "-m", "nDCG@2",
        "--user", "who", "--item", "what", "--rank", "place", "--json",
    )  # fmt: skip

    assert outcome.document["metrics"][0]["value"] == 1.0
    assert outcome.err.splitlines()[0] == "truth: columns are guessed: relevance = rating"


def test_evaluate_reads_a_model_column(evalkit, logs):
    pl.concat(
        pl.read_parquet(logs / f"{model}.parquet").with_columns(model=pl.lit(model))
        for model in ("good", "bad")
    ).write_parquet(logs / "both.parquet")
    options = ("--truth", "truth.parquet", "-m", "nDCG@2", "--json", "-q", "--rankings")

    outcome = evalkit("evaluate", *options, "both.parquet")

    assert [each["model"] for each in outcome.document["metrics"]] == ["bad", "good"]


def test_evaluate_tells_ambiguous_columns(evalkit, logs):
    pl.read_parquet(logs / "good.parquet").with_columns(userid=pl.col("user_id")).write_parquet(
        logs / "odd.parquet"
    )
    options = ("--truth", "truth.parquet", "--rankings", "odd.parquet", "-m", "RR")

    assert evalkit("evaluate", *options).codes == ["ambiguous-column"]
    assert evalkit("evaluate", *options, "--user", "user_id").status == 0


def test_two_rankings_of_one_name_are_told(evalkit, logs):
    (logs / "x").mkdir()

    outcome = evalkit(
        "evaluate", "--truth", "t", "--rankings", "good.parquet", "x/good.parquet", "-m", "RR"
    )

    assert outcome.codes == ["duplicate-model"]
    assert "--rankings good-2=x/good.parquet" in outcome.err


# ---------------------------------------------------------------- check


def test_check_of_good_data_finds_nothing_wrong(evalkit, logs):
    before = set(logs.iterdir())

    outcome = evalkit("check", "job.toml")

    assert outcome.status == 0
    assert outcome.out.splitlines()[-1].startswith("job.toml: 0 wrong")
    assert set(logs.iterdir()) == before


def test_check_tells_ratings_without_a_threshold(evalkit, logs):
    rated = pl.read_parquet(logs / "truth.parquet").with_columns(rating=pl.Series([1.0, 5.0, 3.0]))
    rated.write_parquet(logs / "truth.parquet")

    assert "no-threshold" in evalkit("check", "job.toml").out
    assert "no-threshold" not in evalkit("check", "job.toml", "--set", "truth.threshold=4").out


def test_check_tells_every_fault_of_the_data(evalkit, logs):
    pl.DataFrame(
        {"user_id": [1, 1, None, 2], "item_id": [10, 10, 12, 13], "rank": [1, 2, 1, 5]}
    ).write_parquet(logs / "bad.parquet")

    outcome = evalkit("check", "job.toml", "--json")

    codes = {each["code"] for each in outcome.document if each["is_error"]}
    assert outcome.status == 3
    assert codes >= {"null-id", "bad-ranks", "duplicate-item"}


def test_check_tells_mistakes_of_the_config(evalkit, logs):
    outcome = evalkit("check", "job.toml", "--set", "policies.tise=item")

    assert (outcome.status, outcome.codes) == (2, ["unknown-key"])


# ---------------------------------------------------------------- metrics, explain, schema


def test_metrics_lists_all_within_80_columns(evalkit):
    from evalkit.metrics import registry

    outcome = evalkit("metrics")

    names = [line.split()[0] for line in outcome.out.splitlines() if line[:1].strip()]
    assert names[: len(registry())] == list(registry())
    assert max(map(len, outcome.out.splitlines())) <= 80


def test_metrics_are_json_when_asked_for(evalkit):
    by_name = {each["name"]: each for each in json.loads(evalkit("metrics", "--json").out)}

    assert by_name["AP"]["parameters"][0]["default"] == "min_k"


def test_every_metric_is_explained(capsys, monkeypatch):
    from evalkit.cli.app import run_command
    from evalkit.metrics import registry

    monkeypatch.setenv("COLUMNS", "80")
    for metric in registry().values():
        assert run_command(["explain", metric.name]) == 0
        text = capsys.readouterr().out

        assert metric.summary.split()[0] in text
        assert max(len(line) for line in text.splitlines() if "latex" not in line) <= 100
        for part in ("formula", "source", "Example", *(each.name for each in metric.parameters)):
            assert part in text, (metric.name, part)


def test_every_metric_of_lists_has_a_worked_example():
    from evalkit.cli import list_examples
    from evalkit.metrics import registry_of

    known = registry_of("lists").values()
    variants = [each for metric in known for each in list_examples._variants(metric.request())]
    values = dict(
        zip([each.label for each in variants], list_examples._measure(variants), strict=True)
    )

    assert {each.metric.name for each in variants} == {metric.name for metric in known}
    for metric in known:
        own = [values[each.label] for each in variants if each.metric.name == metric.name]
        assert any(math.isfinite(value) for value in own), metric.name
    # two lists begin with a, one with c, of four items: (-3 * 0 - 0 + 1 + 3 * 2) / (4 * 3)
    assert values["gini@1"] == pytest.approx(7 / 12)
    assert values["user_coverage@3"] == 3 / 4  # dan has no list
    assert values["bias_disparity(group='x', part='list')@3"] == pytest.approx(5 / 8 / (1 / 2))


def test_explain_of_lists_shows_the_lists_and_the_value(evalkit):
    text = evalkit("explain", "gini").out

    assert "the lists      a b c    a b d    c a\n" in text
    assert "gini@1                             0.583333\n" in text


def test_explain_shows_the_value_of_the_example(evalkit):
    text = evalkit("explain", "MAP").out

    # hits at ranks 1, 3 and 4 of 4 relevant items
    assert "MAP is read as AP." in text
    assert f"AP@5                      {(1 / 1 + 2 / 3 + 3 / 4) / 4:.6f}" in text
    assert f"AP(over='k')@5            {(1 / 1 + 2 / 3 + 3 / 4) / 5:.6f}" in text


def test_schema_is_json_schema(evalkit):
    jsonschema.Draft202012Validator.check_schema(evalkit("schema").document)


# ---------------------------------------------------------------- init


def test_init_writes_a_config_that_runs(evalkit, logs):
    written = evalkit(
        "init", "--truth", "truth.parquet", "--rankings", "good.parquet", "worst=bad.parquet",
        "--out", "new.toml",
    )  # fmt: skip
    outcome = evalkit("run", "new.toml", "--json", "-q")

    assert written.out == "new.toml\n"
    assert outcome.status == 0
    assert {each["model"] for each in outcome.document["metrics"]} == {"good", "worst"}


def test_init_shows_the_defaults_in_comments(evalkit, logs):
    evalkit("init", "--truth", "truth.parquet", "--rankings", "good.parquet", "-o", "new.toml")
    text = (logs / "new.toml").read_text()
    policies = text[text.index("[policies]") :]

    uncommented = text[: text.index("[policies]")] + "\n".join(
        line.removeprefix("# ") if line.startswith("# ") and " = " in line else line
        for line in policies.splitlines()
    )
    (logs / "all.toml").write_text(uncommented)

    plain = load_config(logs / "new.toml").model_dump(exclude={"name"})
    full = load_config(logs / "all.toml").model_dump(exclude={"name"})
    assert full == plain
    assert tomllib.loads(uncommented)["policies"].keys() == Policies.model_fields.keys()
    assert max(map(len, text.splitlines())) <= 100


def test_init_suggests_segments_of_users_and_keeps_keys_where_they_belong(evalkit, logs):
    users = pl.read_parquet(logs / "truth.parquet").select("user_id").unique()
    kinds = users.with_row_index().select(
        pl.col("index").mod(2).cast(pl.String).alias("a kind"),
        pl.col("index").alias("age"),
        pl.lit("one").alias("same"),
        pl.col("index").cast(pl.String).alias("cross"),
    )
    users.hstack(kinds).write_parquet(logs / "users.parquet")
    pl.DataFrame({"item_id": ["a"], "genres": ["x|y"]}).write_parquet(logs / "items.parquet")

    outcome = evalkit(
        "init", "--truth", "truth.parquet", "--rankings", "good.parquet",
        "--users", "users.parquet", "--items", "items.parquet", "-o", "-",
    )  # fmt: skip

    said = outcome.out[outcome.out.index("[items]") : outcome.out.index("min_users")]
    asked = "\n".join(line.removeprefix("# ") for line in said.splitlines())
    document = tomllib.loads(asked)
    assert document["items"]["separator"] == "|"
    of_users = {"path": "users.parquet", "user": "user_id"}
    segments = document["segments"]
    assert segments["a kind"] == {**of_users, "by": "a kind"}
    assert segments.keys() == {"activity", "a kind", "age"}


def test_init_finds_numbers_of_users_in_text_files_too(evalkit, logs):
    users = pl.read_parquet(logs / "truth.parquet").select("user_id").unique()
    many = pl.DataFrame({"user_id": range(100), "age": range(100), "kind": ["a", "b"] * 50})
    many.cast({"user_id": users["user_id"].dtype}).write_csv(logs / "users.csv")

    outcome = evalkit(
        "init", "--truth", "truth.parquet", "--rankings", "good.parquet",
        "--users", "users.csv", "-o", "-",
    )  # fmt: skip

    of_users = '{ path = "users.csv", user = "user_id", by = '
    assert f'# age = {of_users}"age", quantiles = 4 }}' in outcome.out
    assert f'# kind = {of_users}"kind" }}' in outcome.out


def test_the_gate_that_init_suggests_judges_the_models_and_metrics_of_the_files(evalkit, logs):
    named = ["--truth", "truth.parquet", "prod=bad.parquet", "new=good.parquet"]
    pl.DataFrame({"item_id": [10, 11]}).write_parquet(logs / "items.parquet")
    lists = ["--items", "items.parquet", "new=good.parquet"]

    for arguments, gate in (
        (named, {"metric": "nDCG@10", "model": "new", "baseline": "prod"}),
        (lists, {"metric": "item_coverage@10", "baseline": "last-passed"}),
    ):
        text = evalkit("init", *arguments, "-o", "-").out
        start = text.index("# [[gates]]")
        lines = text[start : text.index("[policies]")].splitlines()
        whole = text[:start] + "\n".join(line.removeprefix("# ") for line in lines)
        (logs / "gated.toml").write_text(whole)
        outcome = evalkit("run", "gated.toml", "--json", "-q")

        (found,) = tomllib.loads(whole)["gates"]
        assert found == {**gate, "max_drop": 0.002, "unclear": "fail"}
        assert outcome.status == 1, outcome.err  # two users, and no run before, cannot tell
        assert outcome.codes == ["gate-failed"]


def test_init_cuts_no_choice_in_two(evalkit, logs):
    evalkit("init", "--truth", "truth.parquet", "--rankings", "good.parquet", "-o", "new.toml")

    lines = (logs / "new.toml").read_text().splitlines()

    assert not [line for line in lines if line.startswith("#") and line.endswith("-")]


def test_init_writes_paths_relative_to_the_config(evalkit, logs):
    (logs / "configs").mkdir()

    evalkit(
        "init", "--truth", "truth.parquet", "--rankings", "good.parquet", "-o", "configs/a.toml"
    )

    assert load_config(logs / "configs/a.toml").truth.path[0].endswith("configs/../truth.parquet")


def test_init_writes_a_joined_log(evalkit, logs):
    frame = pl.read_parquet(logs / "good.parquet").with_columns(clicked=pl.lit(1))
    frame.write_parquet(logs / "log.parquet")

    outcome = evalkit("init", "--log", "log.parquet", "-o", "-")

    assert tomllib.loads(outcome.out)["log"]["columns"] == {
        "user": "user_id",
        "item": "item_id",
        "label": "clicked",
        "rank": "rank",
    }


def test_init_shows_the_columns_for_profiles_that_look_at_scores(evalkit, logs):
    rows = pl.read_parquet(logs / "good.parquet")
    rows.with_columns(score=1 / pl.col("rank")).write_parquet(logs / "both.parquet")

    outcome = evalkit("init", "--truth", "truth.parquet", "--rankings", "both.parquet", "-o", "-")

    assert tomllib.loads(outcome.out)["rankings"][0]["columns"] == {
        "user": "user_id",
        "item": "item_id",
        "rank": "rank",
    }
    (other,) = [line for line in outcome.out.splitlines() if 'score = "score" }' in line]
    assert other.startswith('# columns = { user = "user_id", item = "item_id", score = "score" }')


def test_init_leaves_a_gap_where_no_column_looks_like_the_item(evalkit, logs):
    rows = pl.read_parquet(logs / "good.parquet")
    rows.rename({"item_id": "thing"}).write_parquet(logs / "odd.parquet")
    rows.with_columns(pl.col("user_id").alias("UserId")).write_parquet(logs / "two.parquet")

    for file, key in (("odd.parquet", "item"), ("two.parquet", "user")):
        files = ("--truth", "truth.parquet", "--rankings", file, "-o", "gap.toml", "--force")
        written = evalkit("init", *files)
        checked = evalkit("check", "gap.toml")

        assert written.status == 0
        assert f"{file}: no one column looks like the {key}; write it for FILL_IN" in written.err
        assert "hint: it has user_id" in checked.out


def test_check_says_how_to_mend_what_a_run_would_refuse(evalkit, logs):
    rows = pl.read_parquet(logs / "good.parquet")
    rows.with_columns(pl.col("rank") - 1).write_parquet(logs / "low.parquet")
    evalkit("init", "--truth", "truth.parquet", "--rankings", "low.parquet", "-o", "low.toml")
    written = (logs / "low.toml").read_text()

    found = evalkit("check", "low.toml")
    (logs / "low.toml").write_text(written.replace("first_rank = 0", ""))
    checked = evalkit("check", "low.toml")

    assert (found.status, checked.status) == (0, 3)
    assert "hint: Write first_rank = 0" in checked.out


def test_check_helps_with_ids_that_differ(evalkit, logs):
    rows = pl.read_parquet(logs / "good.parquet").rename({"user_id": "Customer ID"})
    rows = rows.rename({"item_id": "sku"})
    for name, ids in (("text", "varchar"), ("far", "bigint")):
        users = pl.col("Customer ID") + 1000
        cast = users.cast(pl.String) if ids == "varchar" else users
        rows.with_columns(cast).write_parquet(logs / f"{name}.parquet")
        given = ("--truth", "truth.parquet", "--rankings", f"{name}.parquet", "-o", f"{name}.toml")
        evalkit("init", *given)
    first = str(rows["Customer ID"][0] + 1000)

    kinds, far = evalkit("check", "text.toml"), evalkit("check", "far.toml")

    column = "user = 'cast(\"Customer ID\" as bigint)' under [rankings.columns]"
    assert (kinds.status, far.status) == (3, 3)
    assert column in kinds.out
    assert "compare the ids: truth.parquet has " in far.out
    assert f"far.parquet has {first}" in far.out


def test_init_suggests_kinds_of_rows_and_says_where_ranks_are_the_order_of_rows(evalkit, logs):
    kinds = pl.read_parquet(logs / "truth.parquet").with_columns(
        pl.when(pl.int_range(pl.len()) % 2 == 0)
        .then(pl.lit("buy"))
        .otherwise(pl.lit("it's"))
        .alias("evt type")
    )
    kinds.write_parquet(logs / "kinds.parquet")
    ids = pl.read_parquet(logs / "good.parquet").drop("rank")
    for day in ("1", "2"):
        (logs / f"ids/day=d{day}").mkdir(parents=True)
        ids.write_parquet(logs / f"ids/day=d{day}/a.parquet")

    text = evalkit("init", "--truth", "kinds.parquet", "--rankings", "ids", "-o", "-").out

    assert """# where = "\\"evt type\\" = 'buy'"        # or "it's"; default: all rows""" in text
    assert "no column looks like a rank or a score: ranks are the order" in text
    assert """# where = "day = 'd2'"                  # or 'd1'; default: all rows""" in text


def test_init_names_the_models_of_one_table_for_a_baseline(evalkit, logs):
    good = pl.read_parquet(logs / "good.parquet")
    both = [good.with_columns(model_id=pl.lit(name)) for name in ("als", "bpr")]
    pl.concat(both).write_parquet(logs / "both-models.parquet")

    files = ("--truth", "truth.parquet", "--rankings", "both-models.parquet")
    text = evalkit("init", *files, "-o", "-").out

    assert '# baseline = "als"' in text
    assert '; or "bpr"' in text


def test_init_says_where_ranks_begin_at_zero(evalkit, logs):
    shifted = pl.read_parquet(logs / "good.parquet").with_columns(pl.col("rank") - 1)
    shifted.write_parquet(logs / "zero.parquet")

    written = evalkit(
        "init", "--truth", "truth.parquet", "--rankings", "zero.parquet", "-o", "z.toml"
    )

    assert "first_rank = 0, as the ranks" in written.err
    assert evalkit("check", "z.toml").status == 0
    files = ("--truth", "truth.parquet", "--rankings", "good.parquet")
    assert "\n# first_rank = 1" in evalkit("init", *files, "-o", "-").out


def test_init_overwrites_nothing(evalkit, logs):
    options = ("init", "--truth", "truth.parquet", "--rankings", "good.parquet", "-o", "job.toml")

    assert evalkit(*options).codes == ["file-exists"]
    assert evalkit(*options, "--force").status == 0


# ---------------------------------------------------------------- demo, synth, warm


def test_demo_evaluates_real_data(process, tmp_path):
    outcome = process("demo")

    assert outcome.status == 0
    assert "popularity" in outcome.out
    assert (tmp_path / "runs" / "latest" / "report.md").exists()


def test_synth_writes_logs_that_run(evalkit, tmp_path):
    written = evalkit("synth", "--users", "1e2", "--depth", "5", "--items", "100", "--out", "logs")
    outcome = evalkit("run", "logs/config.toml", "--out", "runs", "-q", "--json")

    assert written.out.splitlines()[0] == "logs/config.toml"
    assert outcome.document["counts"]["truth"]["users"] == 100


def test_synth_tells_numbers_outside_their_limits(evalkit):
    outcome = evalkit("synth", "--users", "0", "--items", "1", "--out", "logs")

    assert (outcome.status, set(outcome.codes)) == (2, {"bad-synth-option"})


CALL_KERNELS = """
import gc, pathlib, tempfile
from evalkit.cli.warming import run_all
from evalkit.kernels import Kernel

with tempfile.TemporaryDirectory() as folder:
    run_all(pathlib.Path(folder))
kernels = [each for each in gc.get_objects() if isinstance(each, Kernel)]
assert kernels
"""
FIND_UNUSED = """
from evalkit.kernels.decorator import _read_globals

# some of numbers, not of rows, are called as plain Python
called = [kernel for kernel in kernels if kernel.entries or "plain" in vars(kernel)]
for kernel in called:  # grows
    read = [value for _, value in _read_globals(kernel.py_func)]
    called += [each for each in read if isinstance(each, Kernel) and each not in called]
for kernel in kernels:
    if kernel not in called:
        print("never called:", kernel)
"""
FIND_COMPILED = """
for kernel in kernels:
    if kernel._part is not None:
        print("compiled for another kernel:", kernel)
    if not all(each.is_kept for each in kernel.entries.values()):
        print("compiled:", kernel)
    of_columns = kernel.py_func.__module__ in (
        "evalkit.kinds.pointwise.kernels", "evalkit.kinds.labels._kernels"
    )
    most = 3 if of_columns else 1  # columns of rows are uint8, uint32 or uint64
    if kernel.py_func.__name__ in (
        "probe_ranks", "probe_unsorted", "count_strengths", "count_disagreements", "gather_hits"
    ):
        most = 2  # ranks are int16, or int32 in deep lists
    if kernel.py_func.__name__ == "part_rows":
        most = 2  # keys are gathered whole, or by their halves where all fit
    if kernel.py_func.__name__ == "strengths_of_floats":
        most = 2  # scores are float32 or float64
    if len(kernel.entries) > most:
        print("several signatures:", kernel, list(kernel.entries))
"""


@pytest.mark.campaign  # a minute
@pytest.mark.skipif(os.environ.get("NUMBA_DISABLE_JIT", "0") != "0", reason="nothing to compile")
def test_warming_compiles_every_kernel_for_one_signature(process, python):
    warmed = process("warm")  # what other tests need is kept too
    again = python(CALL_KERNELS + FIND_UNUSED + FIND_COMPILED)

    assert (warmed.status, again.status) == (0, 0), warmed.err + again.err
    assert "evalkit" in warmed.out
    assert again.out == ""


def test_explain_says_what_a_code_means(evalkit):
    code = all_codes()["few-users"]

    outcome = evalkit("explain", "few-users")
    assert outcome.status == 0
    shown = " ".join(outcome.out.split())
    assert shown == f"few-users: {code.means} cause {code.cause} cure {code.cure}"
    assert evalkit("explain", "few-users", "--json").document["cure"] == code.cure


def test_every_command_knows_trec_files_by_their_lines_and_says_so(evalkit, tmp_path):
    (tmp_path / "qrels.test").write_text("301 0 A 1\n301 0 B 0\n")
    (tmp_path / "results.test").write_text("301 Q0 B 1 2.5 x\n301 Q0 A 2 1.5 x\n")
    files = ("--truth", "qrels.test", "--rankings", "x=results.test")
    told = "x: lines look like TREC; columns are guessed: user = user, item = item, score = score"

    evaluated = evalkit("evaluate", *files, "-m", "RR")
    written = evalkit("init", *files, "-o", "job.toml")
    text = (tmp_path / "job.toml").read_text()
    unnamed = "\n".join(line for line in text.splitlines() if not line.startswith("columns ="))
    (tmp_path / "job.toml").write_text(unnamed.replace('format = "trec"', ""))
    checked = evalkit("check", "job.toml")
    ran = evalkit("run", "job.toml")

    assert (evaluated.status, written.status, checked.status, ran.status) == (0, 0, 0, 0)
    assert text.count('format = "trec"') == 2
    assert told in evaluated.err
    assert told in checked.out
    assert told in ran.err
