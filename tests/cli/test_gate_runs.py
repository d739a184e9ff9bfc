"""Gates decide how a run ends, and keep what the next run needs."""

import shlex
import shutil

import polars as pl
import pytest
from program import run_here, write_logs


@pytest.fixture
def job(logs):
    return write_job(logs)


def write_job(logs):
    """Fifty users; `good` is right for all, `bad` for every other one, and a config to add to."""
    users = list(range(50))
    pl.DataFrame({"user_id": users, "item_id": [1] * 50, "rating": [1.0] * 50}).write_parquet(
        logs / "truth.parquet"
    )

    def rank(name: str, wrong: int) -> None:
        items = [2 if wrong and user % wrong == 0 else 1 for user in users]
        pl.DataFrame({"user_id": users, "item_id": items, "rank": [1] * 50}).write_parquet(
            logs / f"{name}.parquet"
        )

    rank("good", 0)
    rank("bad", 2)
    text = (logs / "job.toml").read_text()

    def config(gates: str) -> None:
        (logs / "job.toml").write_text(text + gates)

    return config, rank


DROP = '[[gates]]\nmetric = "recall@1"\nmodel = "good"\nmax_drop = 0.08\nbaseline = "last"\n'


def test_gates_decide_the_exit_status(process, job, logs):
    config, _ = job
    config('[[gates]]\nmetric = "recall@1"\nmin = 0.9\n')

    outcome = process("run", "job.toml")

    assert (outcome.status, outcome.codes) == (1, ["gate-failed"])
    assert "verdict: failed, 2 gates: 1 failed, 1 passed, 2 warnings" in outcome.out
    assert "recall@1 of bad is 0.5000" in outcome.err
    assert process("verify", "runs/latest").status == 0
    assert "Failed: 1 of 2 gates" in (logs / "runs" / "latest" / "report.html").read_text()
    assert "**fail**" in (logs / "runs" / "latest" / "report.md").read_text()


def test_names_in_gate_lines_cannot_command_a_terminal(evalkit, job, logs):
    config, _ = job
    config('[[gates]]\nmetric = "recall@1"\nmin = 0.1\n')
    text = (logs / "job.toml").read_text()
    (logs / "job.toml").write_text(text.replace('"bad"', r'"bad\n::error::\u001b[31m"'))

    outcomes = [evalkit("run", "job.toml", "--full"), evalkit("gate", "last")]

    for outcome in outcomes:
        assert outcome.status == 0
        assert "\n::error" not in outcome.out + outcome.err
        assert "\x1b" not in outcome.out + outcome.err
        assert "recall@1 of bad\ufffd::error::" in outcome.out


def test_drop_against_the_last_run_is_judged_user_by_user(evalkit, job, logs):
    config, rank = job
    config(DROP)

    first = evalkit("run", "job.toml")
    same = evalkit("run", "job.toml", "--json")
    rank("good", 5)
    worse = evalkit("run", "job.toml", "--json")

    assert (first.status, first.codes) == (1, ["gate-failed"])
    assert "there is no run 'last' yet" in first.err
    assert same.status == 0
    (gate,) = same.document["gates"]
    assert (gate["outcome"], gate["judged_by"], gate["delta"]) == ("pass", "paired", 0.0)
    assert worse.status == 1
    (gate,) = worse.document["gates"]
    assert (gate["outcome"], gate["judged_by"]) == ("fail", "paired")
    assert gate["delta"] == pytest.approx(-0.2)
    kept = pl.read_parquet(logs / "runs" / "latest" / "per_user.parquet")
    assert kept.columns == ["user_id", "model", "recall@1"]


def test_models_of_one_run_are_compared_user_by_user(evalkit, job, logs):
    config, _ = job
    config(DROP.replace('"last"', '"bad"') + DROP.replace('"last"', '"good"').replace(
        'model = "good"', 'model = "bad"'
    ))  # fmt: skip

    outcome = evalkit("run", "job.toml", "--json")

    better, worse = outcome.document["gates"]
    assert (better["outcome"], better["judged_by"], better["delta"]) == ("pass", "paired", 0.5)
    assert (worse["outcome"], worse["judged_by"], worse["delta"]) == ("fail", "paired", -0.5)
    assert not (logs / "runs" / "latest" / "per_user.parquet").exists()


def test_last_passed_is_no_ratchet(evalkit, job):
    config, rank = job
    config(DROP.replace('"last"', '"last-passed"') + 'unclear = "pass"\n')

    evalkit("run", "job.toml")
    rank("good", 5)
    once = evalkit("run", "job.toml")
    again = evalkit("run", "job.toml")

    assert (once.status, again.status) == (1, 1)


def test_the_first_night_serves_as_the_last_that_passed(evalkit, job):
    config, rank = job
    config(DROP.replace('"last"', '"last-passed"'))

    first = evalkit("run", "job.toml")
    second = evalkit("run", "job.toml", "--json")
    rank("good", 5)
    worse = evalkit("run", "job.toml")

    assert first.status == 1
    assert "this run will be it" in first.err
    (gate,) = second.document["gates"]
    assert (second.status, gate["outcome"]) == (0, "pass")
    assert (gate["delta"], gate["baseline_run"] in first.out) == (0.0, True)
    assert worse.status == 1


def test_a_first_night_that_fails_for_another_reason_does_not_serve(evalkit, job):
    config, _ = job
    bound = '[[gates]]\nmetric = "recall@1"\nmodel = "bad"\nmin = 0.9\n'
    config(DROP.replace('"last"', '"last-passed"') + bound)

    evalkit("run", "job.toml")
    again = evalkit("run", "job.toml", "--json")

    assert "there is no run" in again.document["gates"][0]["message"]


def test_work_whose_gate_failed_is_still_failed_when_it_is_there(evalkit, job):
    config, _ = job
    config('[[gates]]\nmetric = "recall@1"\nmodel = "bad"\nmin = 0.9\n')
    evalkit("run", "job.toml")

    outcome = evalkit("run", "job.toml", "--if-new")

    assert outcome.status == 1
    assert "nothing-new" in outcome.err


def test_missing_tag_is_told_before_the_work(evalkit, job, logs):
    config, _ = job
    config(DROP.replace('"last"', '"prod"'))

    outcome = evalkit("run", "job.toml")

    assert (outcome.status, outcome.codes) == (2, ["unknown-run"])
    assert not (logs / "runs").exists()


def test_finished_runs_are_judged_again(evalkit, job):
    config, rank = job
    config('[[gates]]\nmetric = "recall@1"\nmin = 0.3\n')
    evalkit("run", "job.toml")
    evalkit("history", "tag", "last", "prod")
    rank("good", 5)
    evalkit("run", "job.toml")

    own = evalkit("gate", "last")
    config(DROP)
    other = evalkit("gate", "last", "--config", "job.toml", "--baseline", "prod", "--json")
    by_last = evalkit("gate", "last", "--config", "job.toml")

    assert own.status == 0
    assert [line.partition(":")[0] for line in own.out.splitlines()] == ["pass", "pass"]
    assert other.status == by_last.status == 1
    assert other.document[0]["delta"] == pytest.approx(-0.2)
    assert other.document[0]["judged_by"] == "independent"


def test_a_run_without_gates_has_none_to_judge(evalkit, logs):
    evalkit("run", "job.toml")

    outcome = evalkit("gate", "last")

    assert (outcome.status, outcome.codes) == (2, ["no-gates"])


def test_a_path_in_a_run_s_own_gate_is_named_by_a_person_first(evalkit, job, logs):
    evalkit("run", "job.toml")
    first = (logs / "runs" / "latest").readlink().name
    shutil.copytree(logs / "runs" / first, logs / "it's" / first)
    job[0](DROP.replace('"last"', f'"it\'s/{first}"'))
    evalkit("run", "job.toml")

    refused = evalkit("gate", "last", "--name", "job")

    assert (refused.status, refused.codes) == (2, ["bad-baseline"])
    hint = refused.err.rpartition("hint: ")[2]
    assert hint.startswith("evalkit gate last --name job --baseline ")
    assert evalkit(*shlex.split(hint)[1:]).codes == []


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    """Two runs of each of two jobs, made in turns, the last one of `weekly`, and their ids."""
    folder = write_logs(tmp_path_factory.mktemp("kept"))
    config, _ = write_job(folder)
    config(DROP)
    ids = {"nightly": [], "weekly": []}
    for name in ("nightly", "weekly") * 2:
        named = ["--set", f"name={name}", "--set", "output.per_user=true"]
        run_here(["run", "job.toml", *named], folder)
        ids[name].append((folder / "runs" / "latest").readlink().name)
    return folder, ids


@pytest.fixture
def two_jobs(kept, tmp_path):
    folder, ids = kept
    shutil.copytree(folder, tmp_path, symlinks=True, dirs_exist_ok=True)
    return ids


def test_last_but_one_is_the_same_run_everywhere(evalkit, two_jobs):
    before, last = two_jobs["weekly"]

    shown = evalkit("report", "last~1", "--format", "json").document
    gate = evalkit("gate", "last", "--baseline", "last~1", "--json")
    why = evalkit("why", "last~1", "last")
    compared = evalkit("compare", "last~1", "last")
    tagged = evalkit("history", "tag", "last~1", "prod")

    assert shown["run_id"] == before
    assert {each["baseline_run"] for each in gate.document} == {before}
    assert f"last: run {last} of weekly, begun 2" in gate.err
    assert f"last~1: run {before} of weekly, begun 2" in gate.err
    for outcome in (why, compared):
        assert outcome.status == 0, outcome.err
        lines = outcome.out.splitlines()[:2]
        assert [line.partition(", ")[0] for line in lines] == [
            f"last~1: run {before} of weekly",
            f"last: run {last} of weekly",
        ]
    assert tagged.out == f"prod: {before}\n"


def test_runs_by_time_are_of_the_job_of_the_others(evalkit, two_jobs):
    first, second = two_jobs["nightly"]
    evalkit("history", "tag", first, "prod")

    why = evalkit("why", "prod", "last")
    named = evalkit("why", "last~1", "last", "--name", "nightly", "--json")
    compared = evalkit("compare", "prod", "last", "--json")

    for text in (why.out, named.err, compared.err):
        assert f": run {first} of nightly" in text
        assert f"last: run {second} of nightly" in text


def test_a_change_between_two_jobs_is_refused(evalkit, two_jobs):
    pair = (two_jobs["nightly"][0], two_jobs["weekly"][0])

    why = evalkit("why", *pair)
    compared = evalkit("compare", *pair)
    mixed = evalkit("compare", *pair, "last")

    assert (why.status, why.codes) == (2, ["different-jobs"])
    assert compared.status == 0, compared.err
    assert (mixed.status, mixed.codes) == (2, ["ambiguous-job"])


def test_a_run_is_not_judged_against_itself(evalkit, two_jobs):
    evalkit("history", "tag", "last", "prod")

    for baseline in ("last", "latest", "prod"):
        outcome = evalkit("gate", "last", "--baseline", baseline)

        assert (outcome.status, outcome.codes) == (2, ["same-run"]), baseline


def test_a_gate_of_the_run_looks_back_from_it(evalkit, two_jobs):
    first, second = two_jobs["nightly"]

    outcome = evalkit("gate", second, "--name", "weekly", "--json")

    assert {each["baseline_run"] for each in outcome.document} == {first}


def test_values_are_not_judged_by_limits_of_another_level(evalkit, job):
    config, _ = job
    gate = '[[gates]]\nmetric = "recall@1"\nmodel = "good"\nmin = 0.1\n'
    config(gate)
    assert evalkit("run", "job.toml").status == 0
    config("[statistics]\nlevel = 0.99\n" + gate)

    other = evalkit("gate", "last", "--config", "job.toml")
    own = evalkit("gate", "last", "--config", "job.toml", "--set", "statistics.level=0.95")

    assert (other.status, other.codes) == (2, ["other-level"])
    assert "are at 0.95, not at 0.99" in other.err
    assert own.status == 0


@pytest.mark.parametrize("kind", ["max_drop", "max_drop_relative"])
def test_drops_within_a_run_are_judged_at_its_level_and_stay_with_their_model(evalkit, job, kind):
    config, _ = job
    gate = f'[[gates]]\nmetric = "recall@1"\nmodel = "good"\n{kind} = 0.9\nbaseline = "bad"\n'
    config(gate)
    lone = evalkit("run", "job.toml")
    assert ("they are not compared" in lone.err) == (kind == "max_drop_relative")
    config(f'[statistics]\nbaseline = "bad"\n{gate}')
    assert evalkit("run", "job.toml").status == 0
    assert evalkit("run", "job.toml").status == 0

    other = evalkit("gate", "last", "--config", "job.toml", "--set", "statistics.level=0.9")
    assert (other.status, other.codes) == (2, ["other-level"])

    held = evalkit("gate", "last", "--baseline", "last~1")
    assert held.status == 0
    assert ("to bad" if kind == "max_drop_relative" else "than last~1") in held.out


@pytest.mark.parametrize("option", [("--set", "statistics.level=0.99"), ("--var", "day=1")])
def test_gates_of_the_run_itself_are_not_changed(evalkit, job, option):
    config, _ = job
    config('[[gates]]\nmetric = "recall@1"\nmodel = "good"\nmin = 0.1\n')
    assert evalkit("run", "job.toml").status == 0

    outcome = evalkit("gate", "last", *option)

    assert (outcome.status, outcome.codes) == (2, ["bad-option"])
