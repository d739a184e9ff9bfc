"""One of many trials: what is chosen, what it will be worth, and what is refused."""

import contextlib
import json
import re
import shlex
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from example_runs import TEXT
from program import run_here

import evalkit
from evalkit import figures, runs
from evalkit.config import load_config
from evalkit.errors import DataError, EvalkitError, MachineError, RequestError
from evalkit.jobs.selection import How, choose_trial, find_test, finish, run_selection
from evalkit.jobs.selection._measure import beside_values
from evalkit.jobs.selection._trials import read_trials
from evalkit.report import Report
from evalkit.report.html import render_selection_page
from evalkit.report.selection import parse_selection, tell_alike, tell_selection
from evalkit.runs.history.holdout_uses import (
    Ahead,
    HoldoutPart,
    find_looks,
    known_parts,
    note_look,
)
from evalkit.statistics._draws import CHUNK, draw_poisson, start_streams
from evalkit.statistics.selection import (
    choose_best,
    corrected_estimate,
    exact_means,
    halved_estimate,
    hopeless,
)

N_USERS, N_TRIALS = 60, 5


def weights_of(keys, seed, replicates):
    """The weights that replicates draw, one user at a time."""
    starts = np.empty(keys.size, dtype=np.uint64)
    start_streams(keys, np.uint64(seed), starts)
    rows = np.empty((keys.size, -(-replicates // CHUNK) * CHUNK))
    for user in range(keys.size):
        for first in range(0, replicates, CHUNK):
            drawn = np.empty(CHUNK)
            draw_poisson(starts[user], first, np.empty(CHUNK, dtype=np.int32), drawn)
            rows[user, first : first + CHUNK] = drawn
    return rows[:, :replicates]


def test_the_corrected_estimate_is_chosen_in_the_bag_and_measured_out_of_it():
    random = np.random.default_rng(1)
    values, keys = (
        random.random((N_USERS, N_TRIALS)),
        random.integers(0, 2**63, N_USERS).astype("u8"),
    )
    given = {"replicates": 120, "seed": 3, "level": 0.9}

    found = corrected_estimate(values, keys, threads=1, **given)
    order = random.permutation(N_USERS)
    again = corrected_estimate(values[order], keys[order], threads=2, **given)

    weights = weights_of(keys, 3, 120)
    chosen = (weights.T @ values).argmax(axis=1)
    out = weights.T == 0
    wanted = [values[out[b], chosen[b]].mean() for b in range(120)]
    assert found.value == pytest.approx(np.mean(wanted), abs=1e-9)
    assert found.chosen.tolist() == np.bincount(chosen, minlength=N_TRIALS).tolist()
    assert found.interval.low < found.value < found.interval.high
    assert (again.value, again.interval) == (found.value, found.interval)


def test_halves_choose_by_one_and_measure_by_the_other():
    values = np.array([[1.0, 0.0], [0.0, 1.0], [0.0, 0.5], [1.0, 0.0]])
    halves = np.array([True, False, False, True])

    assert halved_estimate(values, halves, choose_best) == (0.0 + 0.0) / 2


def test_a_race_drops_what_is_worse_and_keeps_a_share():
    random = np.random.default_rng(2)
    values = random.normal(0, 0.1, (400, 6)) + np.array([0.5, 0.5, 0.1, 0.2, 0.3, 0.499])

    every, _, _ = hopeless(values, level=0.95, n_tests=5, keep=0.1)
    half, _, _ = hopeless(values, level=0.95, n_tests=5, keep=0.5)

    assert every == [2, 3, 4]
    assert half == [2, 3, 4]
    assert hopeless(values, level=0.95, n_tests=5, keep=0.8)[0] == [2]


@pytest.fixture
def folder(tmp_path):
    """Trials of growing worth, their table as Optuna writes it, and a config."""
    random = np.random.default_rng(4)
    truth = pl.DataFrame({"user": range(80), "item": random.integers(0, 9, 80)})
    truth.write_parquet(tmp_path / "validation.parquet")
    test = truth.with_columns(item=pl.Series(random.integers(0, 9, 80)))
    test.write_parquet(tmp_path / "test.parquet")
    for number, share in enumerate((0.0, 0.5, 0.55, 0.9)):
        hits = pl.Series(random.random(80) < share)
        lists = truth.with_columns(item=pl.when(hits).then("item").otherwise(99), rank=1)
        lists.write_parquet(tmp_path / f"list-{number}.parquet")
    rows = [(n, "COMPLETE", 2.0**-n, 0.1) for n in range(4)]
    rows += [(4, "FAIL", None, None), (5, "PRUNED", 1.0, 0.2)]
    names = ["number", "state", "params_rate", "value"]
    pl.DataFrame(rows, schema=names, orient="row").write_csv(tmp_path / "trials.csv")
    return tmp_path


CONFIG = """
[truth]
path = "validation.parquet"
[selection]
trials = "trials.csv"
path = "list-{{number}}.parquet"
metric = "recall@1"
replicates = 100
{more}
"""


def written(folder, more="", text=CONFIG):
    (folder / "select.toml").write_text(text.format(more=more))
    return load_config(folder / "select.toml")


def select(folder, config, *, again=False):
    test = find_test(config, folder / "runs", again=again)
    choice = choose_trial(config, How(1), lambda line: None)
    return finish(choice, test, folder / "runs", folder / "selections", How(1))


def chosen(folder, more="", text=CONFIG):
    return choose_trial(written(folder, more, text), How(1), lambda line: None).selection


def test_the_best_is_chosen_and_every_trial_is_counted(folder):
    found = chosen(folder)

    assert (found.winner, found.best, found.n_tried, found.n_measured) == ("trial-3",) * 2 + (6, 4)
    assert [each.model for each in found.trials[:4]] == [f"trial-{n}" for n in (3, 2, 1, 0)]
    assert [each.state for each in found.trials[4:]] == ["fail", "pruned"]
    assert found.alike == ["trial-3"]
    assert found.trials[0].parameters == {"rate": 0.125}
    assert found.corrected == pytest.approx(found.naive, abs=0.02)


def test_constraints_rules_and_races(folder):
    capped = chosen(folder, 'constraints = [{ metric = "hit@1", max = 0.8 }]\nestimate = "halves"')
    simple = chosen(
        folder,
        'rule = "simplest-within"\ncost = "rate"\nconstraints = [{ metric = "hit@1", max = 0.8 }]',
    )
    raced = chosen(folder, "screen = { users = [0.5, 1.0], keep = 0.5 }")

    assert capped.winner == capped.best in ("trial-1", "trial-2")
    assert capped.trials[0].unmet == ("hit@1 <= 0.8",)
    assert simple.winner == "trial-2"  # cheaper than trial-1, which cannot be told from it
    assert raced.winner == "trial-3"
    assert [each.model for each in raced.trials if each.state == "dropped"] == [
        "trial-0",
        "trial-1",
    ]
    assert raced.rungs[1].measured == ("trial-2", "trial-3")


def test_a_race_is_run_against_trials_that_may_be_chosen(folder):
    race = "screen = { users = [0.9, 1.0], keep = 0.25 }\n"
    free = chosen(folder, race)
    capped = chosen(folder, race + 'constraints = [{ metric = "hit@1", max = 0.8 }]')
    none = race + 'constraints = [{ metric = "hit@1", max = -1.0 }]'
    with pytest.raises(EvalkitError, match="none of 4 trials reaches"):  # so none was dropped
        chosen(folder, none)

    dropped = [each.model for each in free.trials if each.state == "dropped"]
    assert {"trial-1", "trial-2"} <= set(dropped)
    assert capped.winner in ("trial-1", "trial-2")


def test_a_list_for_test_that_is_missing_is_told_before_the_trials(folder):
    for number in range(3):
        shutil.copy(folder / f"list-{number}.parquet", folder / f"{number}-test.parquet")
    more = 'confirm = { path = "test.parquet", rankings = "{number}-test.parquet" }'
    config = written(folder, more)

    with pytest.raises(DataError) as refused:
        find_test(config, folder / "runs", again=False)

    assert (refused.value.code, "3-test.parquet" in refused.value.at) == ("path-not-found", True)


def test_the_winner_is_confirmed_on_test_and_named_for_gates(folder):
    config = written(folder, 'confirm = { path = "test.parquet" }')

    found, path = select(folder, config)

    kept = json.loads((path / "selection.json").read_text())
    assert kept["winner"] == "trial-3"
    assert kept["confirmed"]["value"] == found.confirmed.value < found.corrected
    assert (folder / "runs" / "tags" / "selected").resolve().name == kept["run_id"]
    page = (path / "selection.html").read_text()
    assert "trial-3 is chosen, with " in page
    assert "Expected on other users: " in page
    assert ("by chance" in page) is (found.optimism < 0)
    again = parse_selection((path / "selection.json").read_bytes())
    assert again == found
    assert [*figures(path)] == [*found.figures] != []
    lucky = replace(found, optimism=-0.001)
    assert "above that mean by chance" in render_selection_page(lucky)
    assert "above that mean by chance" in tell_selection(lucky)
    assert render_selection_page(found) == (path / "selection.html").read_text()


@pytest.mark.parametrize("fails", [False, True])
def test_no_run_is_seen_without_its_selection(folder, monkeypatch, fails):
    config = written(folder, 'confirm = { path = "test.parquet" }')
    publish, seen = runs.publish, []

    def told() -> dict[str, Path]:
        found = (folder / "selections").glob("*/selection.json")
        return {json.loads(path.read_text())["run_id"]: path for path in found}

    def watched(report, *given, **options):
        seen.append((report.run_id, *told()))
        if fails:
            raise MachineError("full", code="disk-full")
        return publish(report, *given, **options)

    monkeypatch.setattr(runs, "publish", watched)
    with pytest.raises(MachineError) if fails else contextlib.nullcontext():
        select(folder, config)

    assert [each[0] == each[1] for each in seen] == [True]
    assert len(told()) == (not fails)
    assert {path.name for path, _ in runs.finished(folder / "runs")} == {*told()}


@pytest.mark.parametrize(
    ("more", "code"),
    [
        ('confirm = { path = "copy.parquet" }', "selection-on-test"),
        ('constraints = [{ metric = "hit@1", min = 2.0 }]', "no-trial-left"),
        ('constraints = [{ metric = "hit@1" }]', "missing-key"),
        ('rule = "simplest-within"', "missing-key"),
        ('rule = "simplest-within"\ncost = "rats"', "missing-column"),
        ("screen = { users = [0.5, 0.2] }", "out-of-range"),
        ('confirm = { path = "test.parquet", rankings = "one.parquet" }', "conflicting-keys"),
        ('columns = { user = "user", item = "nothing" }', "missing-column"),
        ('cost = ""', "missing-key"),
        ("looks = 2", "missing-key"),
        ('confirm = { path = "" }', "missing-key"),
        ('confirm = { path = "test.parquet", part = "validation" }', "conflicting-keys"),
        ('confirm = { path = "test.parquet", fold = 2 }', "conflicting-keys"),
    ],
)
def test_bad_selections_are_refused(folder, more, code):
    rows = pl.read_parquet(folder / "validation.parquet")
    rows[::-1].write_parquet(folder / "copy.parquet")

    with pytest.raises(EvalkitError) as error:
        select(folder, written(folder, more))

    assert code in str(error.value)
    assert not (folder / "selections").exists()


@pytest.mark.parametrize(
    ("setting", "code", "told"),
    [
        ("statistics.baseline=zz", "unknown-model", "name one of them, or leave baseline out"),
        ("selection.metric=recall@{1,2}", "metric-not-measured", "one of them: recall@1, recall@2"),
        ("selection.path={nope}.csv", "missing-column", "they have number"),
    ],
)
def test_selections_of_nothing_say_what_there_is(folder, setting, code, told):
    written(folder)

    with pytest.raises(EvalkitError) as error:
        evalkit.select(folder / "select.toml", runs=folder / "runs", overrides=[setting])

    assert (error.value.code, told in error.value.hint) == (code, True), str(error.value)


def test_a_selection_is_not_run_and_a_job_is_not_selected(folder):
    written(folder)
    job = {
        "truth": {"path": str(folder / "validation.parquet")},
        "rankings": [{"model": "m", "path": str(folder / "list-1.parquet")}],
        "metrics": {"names": ["RR"]},
    }

    with pytest.raises(RequestError, match="hint: evalkit select CONFIG measures them"):
        evalkit.partial(folder / "select.toml", share=(1, 2), out=folder / "part")
    with pytest.raises(RequestError) as none:
        evalkit.select(job, runs=folder / "runs")

    assert none.value.code == "missing-key"


@pytest.mark.parametrize("metric", ["F1(mean='means')@1", "gini@1", "list_length@1"])
def test_a_selection_is_made_by_means_of_users_that_have_a_better_side(folder, metric):
    with pytest.raises(RequestError) as error:
        chosen(folder, text=CONFIG.replace("recall@1", metric))

    assert (error.value.code, error.value.at[-16:]) == ("conflicting-keys", "selection.metric")


def test_rankings_beside_a_table_are_trials_as_a_baseline_has_to_be(folder):
    before = pl.DataFrame({"user": range(0, 80, 2), "item": [n % 7 + 20 for n in range(40)]})
    before.write_parquet(folder / "train.parquet")
    beside = """confirm = { path = "test.parquet" }
[[rankings]]
model = "popular"
builtin = "popular"
k = 5
[train]
path = "train.parquet"
[statistics]
baseline = "popular"
"""

    found, _ = select(folder, written(folder, beside))

    assert (found.winner, found.n_tried, found.n_measured) == ("trial-3", 7, 5)
    assert found.confirmed.baseline == "popular"


def test_a_changed_test_part_and_train_as_test_are_refused_before_anything_is_measured(folder):
    log = pl.DataFrame({"user": [1, 1, 2, 2] * 9, "item": range(36), "time": range(36)})
    evalkit.split(log, by="user", test=1, time_unit="s", out=folder / "s")
    confirm = 'confirm = { split = "s", part = "%s" }\n[train]\nsplit = "s"'

    with pytest.raises(EvalkitError) as as_train:
        written(folder, confirm % "train")
    part = folder / "s" / "test" / "part-0.parquet"
    pl.read_parquet(part)[1:].write_parquet(part)
    with pytest.raises(EvalkitError) as changed:
        find_test(written(folder, confirm % "test"), folder / "runs", again=False)

    assert (as_train.value.code, changed.value.code) == ("conflicting-keys", "split-changed")


@pytest.mark.parametrize(
    ("asked", "code"), [({"threads": 0}, "bad-threads"), ({"memory_limit": "1GB"}, "wrong-type")]
)
def test_python_refuses_what_an_evaluation_refuses(folder, asked, code):
    written(folder)

    with pytest.raises(RequestError) as error:
        evalkit.select(folder / "select.toml", runs=folder / "runs", **asked)

    assert error.value.code == code


@pytest.mark.parametrize(
    ("metric", "told"),
    [
        ('"nDGC"', ["unknown-metric: selection.metric"]),
        ("5", ["wrong-type: selection.metric"]),
        ('"RR"\nconstraints = [{{ metric = "nDGC", min = 0 }}]',
         ["unknown-metric: selection.constraints[0].metric"]),
    ],
)  # fmt: skip
def test_a_wrong_metric_is_told_where_it_is_written(folder, metric, told):
    with pytest.raises(RequestError) as error:
        written(folder, text=CONFIG.replace('"recall@1"', metric))

    errors = getattr(error.value, "errors", [error.value])
    assert [f"{each.code}: {each.at.rpartition(': ')[2]}" for each in errors] == told


@pytest.mark.parametrize("place", ["runs", "out"])
def test_a_folder_that_is_a_file_is_told_before_anything_is_measured(folder, place):
    written(folder)
    said: list[str] = []
    folders = {"runs": folder / "runs", "out": folder / "selections"}
    folders[place] = folder / "trials.csv"

    with pytest.raises(RequestError, match="a file is there"):
        run_selection(
            load_config(folder / "select.toml"), folders["runs"], folders["out"], How(1),
            tell=said.append,
        )  # fmt: skip

    assert said == []


def test_rankings_fill_the_name_of_their_model_alone(folder):
    asked = {
        "truth": {"path": str(folder / "validation.parquet")},
        "rankings": [{"model": each, "path": str(folder / "list-0.parquet")} for each in "ab"],
        "selection": {"metric": "RR", "confirm": {"path": "test.parquet", "rankings": "{n}.csv"}},
    }

    with pytest.raises(RequestError, match="and there is no table of trials"):
        evalkit.select(asked, runs=folder / "runs")


def test_a_rung_of_nobody_is_too_small(folder):
    with pytest.raises(EvalkitError) as error:
        chosen(folder, "screen = { users = [0.0001, 1.0] }")

    assert error.value.code == "no-common-user"
    assert "0.0001 of the users" in error.value.message


def test_a_column_done_may_be_of_numbers(folder):
    table = pl.read_csv(folder / "trials.csv").drop("state")
    table.with_columns(done=pl.Series([1, 0, 1, 1, 0, 0])).write_csv(folder / "trials.csv")

    found = chosen(folder)

    assert (found.n_tried, found.n_measured) == (6, 3)
    assert {each.state for each in found.trials} == {"measured", "not done"}


def test_one_user_tells_no_trials_apart(folder):
    for name in ("validation", *(f"list-{n}" for n in range(4))):
        table = pl.read_parquet(folder / f"{name}.parquet")
        table.head(1).write_parquet(folder / f"{name}.parquet")

    found = chosen(folder)
    simple = chosen(folder, 'rule = "simplest-within"\ncost = "rate"')

    assert found.n_users == 1
    assert all(each.is_alike for each in found.trials if each.state == "measured")
    assert simple.winner == "trial-3"  # the cheapest


def test_trials_of_one_sum_tie_in_whatever_order_it_is_made():
    values = np.array([[0.1, 0.3], [0.2, 0.2], [0.3, 0.1]])

    means = exact_means(values)

    assert values.mean(axis=0)[0] != values.mean(axis=0)[1]
    assert means[0] == means[1]


def test_a_trial_that_may_not_be_chosen_takes_no_user_away(folder):
    few = pl.read_parquet(folder / "list-0.parquet")[:9]
    few.write_parquet(folder / "list-0.parquet")
    skipping = (
        'constraints = [{ metric = "hit@1", min = 0.1 }]\n[policies]\nmissing_ranking = "skip"'
    )

    found = chosen(folder, skipping)

    assert (found.winner, found.n_users) == ("trial-3", 80)
    assert (found.trials[3].model, found.trials[3].n_users) == ("trial-0", 9)


def test_a_best_that_alone_may_be_chosen_beats_nobody(folder):
    alone = chosen(folder, 'constraints = [{ metric = "hit@1", min = 0.8 }]')
    two = chosen(folder, 'constraints = [{ metric = "hit@1", min = 0.1 }]')

    assert tell_alike(alone) == "trial-3 alone reaches the constraints"
    assert tell_alike(two) == "trial-3 beats all others that reach the constraints"


def test_where_less_is_better_a_mean_that_is_too_low_is_optimistic(folder):
    found = chosen(folder, text=CONFIG.replace("recall@1", "fallout@1"))
    worse = replace(found, optimism=0.2)

    assert found.optimism == found.corrected - found.naive
    assert "by chance" not in tell_selection(worse)


def test_what_the_trials_are_chosen_by_is_measured_of_the_winner(folder):
    confirmed = 'confirm = { path = "test.parquet" }\n[metrics]\nnames = ["hit@1"]'

    found, _ = select(folder, written(folder, confirmed))

    assert found.confirmed.value == evalkit.load(folder / "runs/latest").value("recall@1")


@pytest.mark.parametrize("n_hits", [1, 79])
def test_what_the_winner_is_worth_lies_within_what_it_can_be(folder, n_hits):
    truth = pl.read_parquet(folder / "validation.parquet")
    hits = pl.Series(np.arange(80) < n_hits)
    lists = truth.with_columns(item=pl.when(hits).then("item").otherwise(99), rank=1)
    for number in range(4):
        lists.write_parquet(folder / f"list-{number}.parquet")

    found = chosen(folder)

    assert 0.0 <= found.corrected_low <= found.corrected <= found.corrected_high <= 1.0


def test_a_store_takes_no_selection(folder):
    config = written(folder, '[output]\npath = "s3://bucket/runs"')

    with pytest.raises(EvalkitError) as error:
        run_selection(config, Path(config.output.path), None, How(1))

    assert error.value.code == "conflicting-keys"
    assert not Path("s3:").exists()


def test_bad_tables_of_trials_are_refused(folder):
    table = pl.read_csv(folder / "trials.csv")
    with pytest.raises(EvalkitError, match="no such file or directory"):
        chosen(folder, "", CONFIG.replace("trials.csv", "trails.csv"))
    cases = {
        "duplicate-model": table.with_columns(name=pl.lit("same")),
        "path-not-found": table.with_columns(number=pl.col("number") + 1),
        "nothing-to-compare": table.with_columns(state=pl.lit("FAIL")),
    }
    with pytest.raises(DataError, match="no column of the trials says where their rankings are"):
        chosen(folder, "", CONFIG.replace('path = "list-{{number}}.parquet"', ""))
    (folder / "many").mkdir()
    with pytest.raises(RequestError, match="is a folder"):
        chosen(folder, "", CONFIG.replace("trials.csv", "many"))
    for code, rows in cases.items():
        rows.write_csv(folder / "trials.csv")
        with pytest.raises(EvalkitError) as error:
            chosen(folder)
        assert code in str(error.value)


EXPORTS = {  # columns as the three libraries document them, written by pandas
    "optuna": (
        "number,value,datetime_start,datetime_complete,duration,params_rate,user_attrs_seconds,"
        "system_attrs_nsga2:generation,state",
        "{n},0.{n},2026-11-01 10:00:00,2026-11-01 10:01:00,0 days 00:01:00,0.5,3.0,0,{state}",
        ("COMPLETE", "PRUNED"),
        "list-{number}.parquet",
        "trial-{n}",
    ),
    "mlflow": (
        "run_id,experiment_id,status,artifact_uri,start_time,end_time,metrics.loss,params.rate,"
        "tags.mlflow.user,tags.place",
        "r{n},1,{state},file:///a,2026-11-01,2026-11-02,0.1,0.5,me,{n}",
        ("FINISHED", "FAILED"),
        "list-{tags.place}.parquet",
        "r{n}",
    ),
    "ray": (
        ",accuracy,timestamp,checkpoint_dir_name,done,training_iteration,trial_id,date,"
        "time_this_iter_s,time_total_s,pid,hostname,node_ip,time_since_restore,"
        "iterations_since_restore,config/rate,config/place,logdir",
        "{n},0.1,1,,{state},3,a_{n},2026-11-01_10-00-00,1.0,2.0,7,here,127.0.0.1,2.0,3,0.5,{n},l{n}",
        ("True", "False"),
        "list-{config/place}.parquet",
        "a_{n}",
    ),
}


@pytest.mark.parametrize("library", EXPORTS)
def test_exports_are_read_as_they_are(folder, library):
    head, row, (done, other), path, name = EXPORTS[library]
    rows = [row.format(n=n, state=other if n == 1 else done) for n in range(4)]
    (folder / "trials.csv").write_text("\n".join([head, *rows]) + "\n")

    doubled = path.replace("{", "{{").replace("}", "}}")
    found = read_trials(written(folder, text=CONFIG.replace("list-{{number}}.parquet", doubled)))

    assert [each.model for each in found] == [name.format(n=n) for n in range(4)]
    assert [each.table is not None for each in found] == [True, False, True, True]
    assert [each.table.path[0][-14:] for each in found if each.table] == [
        f"list-{n}.parquet"[-14:] for n in (0, 2, 3)
    ]
    assert {key for each in found for key in each.parameters} - {"place"} == {"rate"}


def test_a_config_of_a_split_or_a_selection_alone_is_checked(folder):
    written(folder)
    split = '[split]\npath = "test.parquet"\nby = "{by}"\ntest = 1\n'
    (folder / "time.toml").write_text(split.format(by="user"))
    (folder / "folds.toml").write_text(split.format(by="rows") + "validation = 79\n")
    (folder / "split.toml").write_text(split.format(by="rows"))
    (folder / "wrong.toml").write_text(split.format(by="rows") + "fold_in = 0.5\n")

    found = {
        name: run_here(["check", f"{name}.toml", "--json"], folder)
        for name in ("select", "time", "folds", "split")
    }

    wrong = run_here(["check", "wrong.toml", "--json"], folder)

    assert [each["at"] for each in wrong.document] == ["wrong.toml:1: split"]
    codes = {name: {each["code"] for each in found[name].document} for name in found}
    assert {name: each.status for name, each in found.items()} == {
        "select": 0, "time": 3, "folds": 3, "split": 0,
    }  # fmt: skip
    assert codes["time"] == {"missing-time"}
    assert codes["folds"] == {"empty-part"}  # no row is left for train
    assert "path-not-found" not in codes["select"]


def test_trials_of_unequal_users_are_told_and_those_without_lists_refused(folder):
    pl.read_parquet(folder / "list-1.parquet")[:70].write_parquet(folder / "list-1.parquet")
    told = chosen(folder)
    table = pl.read_csv(folder / "trials.csv")
    table.with_columns(path=pl.lit(None, pl.String)).write_csv(folder / "trials.csv")
    config = CONFIG.replace('path = "list-{{number}}.parquet"\n', "")

    with pytest.raises(EvalkitError) as error:
        chosen(folder, text=config)

    assert [each.code for each in told.warnings] == ["unequal-users"]
    assert told.n_users == 80
    assert "missing-trial" in str(error.value)


def test_a_limit_counts_the_values_beside_a_run():
    hint, text = "give --memory-limit 400MiB", "a limit of 257 MiB is too small"

    with pytest.raises(EvalkitError) as error, beside_values(100 << 20):
        raise MachineError(text, code="memory-limit", hint=hint)

    assert error.value.hint == "give --memory-limit 500MiB"
    assert "beside the values of all users and trials, 100 MiB, a limit of" in str(error.value)


def test_looks_are_counted_by_content_and_limited(folder):
    config = written(folder, 'confirm = { path = "test.parquet" }')
    first, _ = select(folder, config)
    rows = pl.read_parquet(folder / "test.parquet")
    (folder / "elsewhere").mkdir()
    rows[::-1].write_csv(folder / "elsewhere" / "rows.csv")
    moved = written(folder, 'confirm = { path = "elsewhere/rows.csv" }')

    with pytest.raises(EvalkitError) as error:
        select(folder, moved)
    again, _ = select(folder, moved, again=True)

    assert (error.value.code, error.value.exit_status) == ("looks-used-up", 1)
    command = re.match("evalkit (.*) lists them", error.value.hint)[1]
    assert "2 looks here" in run_here(shlex.split(command), folder).out
    assert (first.looks, again.looks) == (1, 2)
    assert again.confirmed.level == pytest.approx(0.975)
    assert [each.code for each in again.warnings] == ["looked-before"]
    parts = {part.content for part in known_parts(folder / "runs")}
    assert parts == {first.confirmed.content}
    for part in known_parts(folder / "runs"):
        assert len(find_looks(folder / "runs", part)) == 2


RUN = """
[truth]
path = "{truth}"
[[rankings]]
model = "trial-3"
path = "list-3.parquet"
[[rankings]]
model = "{other}"
path = "list-1.parquet"
[metrics]
names = ["recall@1"]
[statistics]
baseline = "{baseline}"
"""


def test_runs_and_comparisons_of_a_test_part_are_looks(folder):
    select(folder, written(folder, 'confirm = { path = "test.parquet" }\nlooks = 3'))
    pl.read_parquet(folder / "test.parquet")[::-1].write_csv(folder / "copy.csv")
    models = {"other": "trial-1", "baseline": "trial-1"}
    (folder / "run.toml").write_text(RUN.format(truth="copy.csv", **models))
    (folder / "aside.toml").write_text(RUN.format(truth="validation.parquet", **models))
    tables = ["a=list-0.parquet", "b=list-1.parquet"]
    compare = ["compare", "--truth", "test.parquet", *tables, "-m", "RR", "--json"]

    second = run_here(["run", "run.toml", "--json"], folder)
    third = run_here(compare, folder)
    evaluate = ["evaluate", "--truth", "copy.csv", "--rankings", tables[0], "-m", "RR"]
    refused = [run_here(each, folder) for each in (["run", "run.toml"], compare, evaluate)]
    aside = run_here(["run", "aside.toml"], folder)
    again = run_here(["run", "run.toml", "--again"], folder)
    listed = run_here(["history", "looks", "--json"], folder)

    assert second.status == 0, second.err
    assert "use 2 of this test set: intervals are of 97.50%" in second.err
    assert "use 3 of this test set" in third.err
    assert [(each.status, each.codes) for each in refused] == [(1, ["looks-used-up"])] * 3
    assert (aside.status, "look" in aside.out) == (0, False)
    assert (again.status, "use 4 of this test set recorded here" in again.out) == (0, True)
    assert [len(each["looks"]) for each in listed.document] == [4]


def test_a_merge_of_partials_is_a_look_as_a_run_is(folder):
    select(folder, written(folder, 'confirm = { path = "test.parquet" }\nlooks = 2'))
    models = {"other": "trial-1", "baseline": "trial-1"}
    (folder / "run.toml").write_text(RUN.format(truth="test.parquet", **models))
    files = ["part-1", "part-2"]
    for share, name in enumerate(files, 1):
        done = run_here(["partial", "run.toml", "--share", f"{share}/2", "--out", name], folder)
        assert done.status == 0, done.err

    second = run_here(["merge", *files, "--json"], folder)
    refused = run_here(["merge", *files], folder)
    again = run_here(["merge", *files, "--again", "--json"], folder)
    (folder / "runs" / second.document["run_id"]).rename(folder / "aside")
    notes = (folder / "runs" / "looks.jsonl").read_text().splitlines(keepends=True)
    (folder / "runs" / "looks.jsonl").write_text("".join(notes[::2]))  # as if it had not been
    run = run_here(["run", "run.toml", "--again", "--json"], folder)
    pruned = run_here(["history", "looks", "--json"], folder)
    (folder / "runs" / run.document["run_id"]).rename(folder / "aside-too")
    after = run_here(["history", "looks", "--json"], folder)

    assert second.status == 0, second.err
    assert "use 2 of this test set: intervals are of 97.50%" in second.err
    assert (refused.status, refused.codes) == (1, ["looks-used-up"])
    assert "use 3 of this test set" in again.err
    told = [{**each.document, "meta": 0, "run_id": 0} for each in (again, run)]
    assert told[0] == told[1]
    assert [len(each.document[0]["looks"]) for each in (pruned, after)] == [3, 3]
    with pytest.raises(EvalkitError, match="looks = 2"), contextlib.chdir(folder):
        evalkit.merge([folder / name for name in files])


ROWS = """
[[{kind}]]
model = "{model}"
path = "{path}"
[metrics]
names = ["{metric}"]
"""


def test_runs_of_ratings_and_labels_are_looks(folder):
    select(folder, written(folder, 'confirm = { path = "test.parquet" }\nlooks = 3'))
    rows = pl.read_parquet(folder / "test.parquet")
    for model, value in (("one", 0.2), ("two", 0.7)):
        scored = rows.with_columns(
            rating=4.0, prediction=value + 3, score=pl.lit(value), label=pl.col("user") % 2
        )
        scored[::-1].write_parquet(folder / f"{model}.parquet")
    ratings = {"kind": "ratings", "model": "one", "path": "one.parquet", "metric": "RMSE"}
    (folder / "ratings.toml").write_text(ROWS.format(**ratings))
    labels = {"kind": "labels", "model": "two", "path": "two.parquet", "metric": "AUC"}
    (folder / "labels.toml").write_text(ROWS.format(**labels))

    second, third, refused = (
        run_here(["run", name], folder) for name in ("ratings.toml", "labels.toml", "labels.toml")
    )
    listed = run_here(["history", "looks", "--json"], folder)

    assert second.status == third.status == 0, second.err + third.err
    assert "use 2 of this test set" in second.out
    assert "use 3 of this test set" in third.out
    assert (refused.status, refused.codes) == (1, ["looks-used-up"])
    assert [len(each["looks"]) for each in listed.document] == [3]


def test_frames_and_joined_logs_are_looks_wherever_a_folder_of_runs_is_known(folder):
    select(folder, written(folder, 'confirm = { path = "test.parquet" }\nlooks = 7'))
    rows = pl.read_parquet(folder / "test.parquet")
    lists = pl.read_parquet(folder / "list-1.parquet")
    scored = rows.with_columns(rating=4.0, prediction=pl.col("user") * 0.1)
    pairs = rows.select("user", "item").with_columns(label=1)
    joined = pl.concat([pairs, pairs.with_columns(pl.col("item") + 999, label=pl.lit(0))])
    both = [joined.with_columns(score=pl.col("label") * 0.5, model=pl.lit(name)) for name in "ab"]
    pl.concat(both).write_parquet(folder / "joined.parquet")
    log = '[log]\npath = "joined.parquet"\ncolumns.model = "model"\n[metrics]\nnames = ["RR"]\n'
    (folder / "log.toml").write_text(log)

    with contextlib.chdir(folder):
        reports = [
            evalkit.evaluate(rows, {"a": lists}, metrics=["RR"]),
            evalkit.evaluate("test.parquet", {"a": lists}, metrics=["RR"]),
            evalkit.compare(rows[::-1], {"a": lists, "b": lists}, metrics=["RR"]),
            evalkit.evaluate_ratings({"a": scored}, metrics=["RMSE"]),
        ]
        reports[0].write("runs")  # which is the same look
        log = run_here(["run", "log.toml"], folder)
        evalkit.evaluate(rows[1:], {"a": lists}, metrics=["RR"])  # other rows
        evalkit.evaluate(rows, {"a": lists}, metrics=["RR"])
        with pytest.raises(EvalkitError) as error:
            evalkit.evaluate(rows, {"a": lists}, metrics=["RR"])
        evalkit.evaluate(rows, {"a": lists}, metrics=["RR"], again=True)

    looked = [[each.code for each in report.warnings].count("looked-before") for report in reports]
    assert looked == [1, 1, 1, 1]
    assert "use 6 of this test set" in log.out, log.err
    assert (error.value.code, error.value.exit_status) == ("looks-used-up", 1)
    assert "again=True" in error.value.hint


def test_a_part_is_known_by_its_looks_wherever_its_selection_is_written(folder):
    written(folder, 'confirm = { path = "test.parquet" }')
    (folder / "run.toml").write_text(RUN.format(truth="test.parquet", other="b", baseline="b"))

    done = run_here(["select", "select.toml", "--out", "aside/selections"], folder)
    notes = folder / "runs" / "looks.jsonl"
    notes.write_text(notes.read_text() + '{"content": "torn\n[1]\n{}\n')
    refused = run_here(["run", "run.toml"], folder)

    assert done.status == 0, done.err
    assert (refused.status, refused.codes) == (1, ["looks-used-up"])


def test_a_look_is_noted_behind_a_torn_one_and_none_is_noted_by_half(folder, monkeypatch):
    ahead = Ahead("0" * 32 + "-80", 1, None)
    report = replace(Report.from_json(TEXT), run_id="")
    notes = folder / "looks.jsonl"
    notes.write_text('{"content": "torn')
    note_look(folder, ahead, report)
    known = find_looks(folder, HoldoutPart(ahead.content, "test"))
    monkeypatch.setattr("os.write", lambda *_: 7)

    with pytest.raises(MachineError) as full:
        note_look(folder, ahead, report)

    assert (len(known), full.value.code) == (1, "disk-full")


def test_a_look_that_nothing_keeps_is_not_said_to_be_recorded(folder):
    table = pl.read_parquet(folder / "test.parquet").with_columns(time=pl.int_range(pl.len()))
    table.write_parquet(folder / "log.parquet")
    done = run_here(
        ["split", "log.parquet", "--by", "rows", "--test", "0.5", "--out", "splits/s"], folder
    )
    asked = ["evaluate", "--truth", "splits/s/test", "--rankings", "a=list-3.parquet", "-m", "RR"]

    nowhere = run_here(asked, folder)
    (folder / "runs").mkdir()
    first, second = run_here(asked, folder), run_here(asked, folder)

    assert done.status == 0, done.err
    assert "recorded nowhere" in nowhere.out
    assert "first use of this test set recorded here" in first.out
    assert "use 2 of this test set" in second.out


def test_a_part_that_where_takes_out_of_a_larger_file_is_known(folder):
    select(folder, written(folder, 'confirm = { path = "test.parquet" }'))
    parts = [("validation", "va"), ("test", "te")]
    both = [pl.read_parquet(folder / f"{p}.parquet").with_columns(of=pl.lit(n)) for p, n in parts]
    pl.concat(both).write_parquet(folder / "whole.parquet")
    run = RUN.format(truth="whole.parquet", other="b", baseline="b")
    taken = []
    for part in ("te", "va"):
        text = run.replace('whole.parquet"', f'whole.parquet"\nwhere = "of = \'{part}\'"')
        (folder / "run.toml").write_text(text)
        taken.append(run_here(["run", "run.toml"], folder))

    assert (taken[0].status, taken[0].codes) == (1, ["looks-used-up"])
    assert taken[1].status == 0, taken[1].err


def test_the_winner_is_a_baseline(folder):
    named = {"truth": "validation.parquet", "baseline": "selected"}
    (folder / "run.toml").write_text(RUN.format(other="new", **named))

    none = run_here(["run", "run.toml"], folder)
    select(folder, written(folder))
    found = run_here(["run", "run.toml", "--json"], folder)
    compare = ["compare", "--config", "run.toml", "selected", "new", "--json"]
    compared = run_here(compare, folder)
    (folder / "run.toml").write_text(RUN.replace("trial-3", "old").format(other="new", **named))
    lacking = run_here(["run", "run.toml"], folder)

    assert (none.status, none.codes) == (2, ["unknown-run"])
    for each in (found, compared):
        assert [pair["baseline"] for pair in each.document["comparisons"]] == ["trial-3"]
    assert (lacking.status, "the selected trial is 'trial-3'" in lacking.err) == (2, True)
