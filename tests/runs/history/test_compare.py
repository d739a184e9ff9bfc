"""Models of one truth and finished runs, compared user by user."""

import json
import os
import shlex

import numpy as np
import polars as pl
import pytest
from segmented_logs import make_logs

import evalkit
from evalkit.cli.app import run_command
from evalkit.config import StatisticsSection
from evalkit.errors import EvalkitError, RequestError
from evalkit.runs.history.compare import compare_runs

CONFIG = """
name = "nightly"
[truth]
path = "truth.parquet"
[[rankings]]
model = "a"
path = "a.parquet"
columns = { rank = "rank" }
[[rankings]]
model = "b"
path = "b.parquet"
columns = { rank = "rank" }
[metrics]
names = ["nDCG@8", "RR"]
[output]
per_user = true
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    make_logs(tmp_path)
    (tmp_path / "job.toml").write_text(CONFIG)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def tables(folder, *models):
    return {model: folder / f"{model}.parquet" for model in models}


def test_two_models_are_compared_over_one_truth(folder):
    report = evalkit.compare(
        folder / "truth.parquet", tables(folder, "a", "b"), metrics=["RR"], per_user=True
    )

    (found,) = report.comparisons
    one, other = (report.per_user("RR", model=model)["value"].to_numpy() for model in "ab")
    assert (found.baseline, found.candidate) == ("a", "b")
    assert found.delta == pytest.approx((other - one).mean(), abs=1e-15)


def test_the_baseline_can_be_named(folder):
    report = evalkit.compare(
        folder / "truth.parquet", tables(folder, "a", "b", "c"), metrics=["RR"], baseline="b"
    )

    assert [(each.baseline, each.candidate) for each in report.comparisons] == [
        ("b", "a"),
        ("b", "c"),
    ]


def test_one_model_is_nothing_to_compare(folder):
    with pytest.raises(RequestError) as caught:
        evalkit.compare(folder / "truth.parquet", tables(folder, "a"), metrics=["RR"])

    assert caught.value.code == "nothing-to-compare"


def said(capsys, *arguments):
    status = run_command([str(each) for each in arguments])
    out = capsys.readouterr().out
    assert status == 0
    return out


def test_ranking_paths_are_compared_over_a_truth(folder, capsys):
    out = said(
        capsys, "compare", "--truth", "truth.parquet", "a.parquet", "b.parquet", "-m", "RR",
        "--json", "--quiet",
    )  # fmt: skip

    (found,) = json.loads(out)["comparisons"]
    assert (found["baseline"], found["candidate"], found["metric"]) == ("a", "b", "RR")


def test_a_config_is_asked_for_two_of_its_models(folder, capsys):
    out = said(capsys, "compare", "--config", "job.toml", "b", "a", "--power")

    assert out.startswith(
        "compared with b: Hall's paired t test, Holm over 2 tests, 95% intervals\n"
    )
    assert "would see" in out
    assert all(len(line) <= 80 for line in out.splitlines())


def test_runs_that_kept_values_for_a_gate_alone_are_compared_by_those(folder, capsys):
    text = CONFIG.replace("per_user = true", "")
    gate = '[[gates]]\nmetric = "RR"\nmax_drop = 0.5\nbaseline = "last"\nunclear = "pass"\n'
    (folder / "job.toml").write_text(text + gate)
    for _ in range(2):
        said(capsys, "run", "job.toml", "--quiet")

    found = json.loads(said(capsys, "compare", "last~1", "last", "--json", "--quiet"))

    assert {each["metric"] for each in found["comparisons"]} == {"RR"}


def test_the_same_run_twice_differs_in_nothing(folder, capsys):
    for _ in range(2):
        said(capsys, "run", "job.toml", "--quiet")

    out = said(capsys, "compare", "last~1", "last", "--json", "--quiet")

    found = json.loads(out)["comparisons"]
    assert {(each["baseline"], each["candidate"]) for each in found} == {
        ("a (last~1)", "a (last)"),
        ("b (last~1)", "b (last)"),
    }
    assert all(each["delta"] == 0 and each["ties"] == each["n_users"] for each in found)
    assert all(each["p_value"] == 1 for each in found)


def test_runs_give_what_their_models_give_in_one_run(folder, capsys):
    said(capsys, "run", "job.toml", "--quiet")
    said(capsys, "run", "job.toml", "--quiet", "--set", "rankings[0].path=c.parquet")
    for test in ("t", "permutation", "bootstrap", "wilcoxon"):
        together = evalkit.compare(
            folder / "truth.parquet",
            tables(folder, "a", "c"),
            metrics=["nDCG@8", "RR"],
            statistics={"test": test},
        )

        out = said(capsys, "compare", "last~1", "last", "--json", "--quiet", "--test", test)

        found = [each for each in json.loads(out)["comparisons"] if each["candidate"] == "a (last)"]
        for comparison, expected in zip(found, together.comparisons, strict=True):
            assert comparison["metric"] == expected.metric, test
            assert comparison["delta"] == expected.delta, test
            assert comparison["p_value"] == expected.p_value, test
            assert (comparison["wins"], comparison["losses"]) == (expected.wins, expected.losses)


PRIMARY = [*("--set", 'metrics.primary=["RR"]')]


@pytest.mark.parametrize(
    ("written", "asked"), [(PRIMARY, []), ([], ["--primary", "RR"])], ids=["written", "asked"]
)
def test_primary_metrics_of_finished_runs_are_a_family_as_those_of_a_config(
    folder, capsys, written, asked
):
    for name in "ab":
        table = f"rankings=[{{model='{name}', path='{name}.parquet', columns={{rank='rank'}}}}]"
        said(capsys, "run", "job.toml", "--quiet", "--set", table, *written)

    of_runs, of_config = (
        json.loads(said(capsys, "compare", *each, *asked, "--json", "--quiet"))
        for each in (
            ["last~1", "last"],
            ["--config", "job.toml", "a", "b", *(PRIMARY if written else [])],
        )
    )

    assert [each["family"] for each in of_runs["comparisons"]] == ["exploratory", "primary"]
    assert of_runs["comparisons"] == of_config["comparisons"]
    assert of_runs["primary"] == of_config["primary"] == ["RR"]


def test_a_primary_metric_that_is_not_compared_is_refused(folder, capsys):
    for _ in range(2):
        said(capsys, "run", "job.toml", "--quiet")

    with pytest.raises(RequestError) as caught:
        run_command(["compare", "last~1", "last", "-m", "RR", "--primary", "nDCG@8"])

    assert caught.value.code == "metric-not-measured"


@pytest.mark.parametrize("ties", ["best", "expected"])
def test_runs_over_all_orders_of_equal_scores_are_compared(folder, capsys, ties):
    by_score = "{item='item', user='user', score='0 - rank // 2'}"
    for name in "ab":
        table = f"rankings=[{{model='{name}', path='{name}.parquet', columns={by_score}}}]"
        settings = ["--set", table, "--set", f"policies.ties={ties}"]
        said(capsys, "run", "job.toml", "--quiet", *settings)

    found = json.loads(said(capsys, "compare", "last~1", "last", "--json", "--quiet"))

    assert [each["metric"] for each in found["comparisons"]] == ["nDCG@8", "RR"]


@pytest.mark.parametrize(
    ("change", "said_of_it"),
    [
        (["--set", "policies.zeros=skip"], "zeros is 'count' and 'skip'"),
        (["--set", "policies.seen=shown"], "seen is 'all' and 'shown'"),
        (
            ["--set", "policies.null_ids=drop"],
            "",
        ),  # there were none: the first run would have ended
        (["--set", "policies.empty_input=warn"], ""),
    ],
)
def test_runs_that_were_measured_otherwise_are_told(folder, capsys, change, said_of_it):
    said(capsys, "run", "job.toml", "--quiet")
    said(capsys, "run", "job.toml", "--quiet", *change)

    found = json.loads(said(capsys, "compare", "last~1", "last", "--json", "--quiet"))

    told = [each["message"] for each in found["warnings"] if each["code"] == "measured-otherwise"]
    assert told == ([f"last~1 and last measure otherwise: {said_of_it}"] if said_of_it else [])


@pytest.mark.parametrize(
    ("second", "code"),
    [
        (["--set", "truth.where=item > 5"], "different-truth"),
        (["--set", "output.per_user=false"], "per-user-off"),
        (["--set", 'metrics.names=["AP@3"]'], "nothing-in-common"),
    ],
)
def test_runs_that_cannot_be_compared_are_refused(folder, capsys, second, code):
    said(capsys, "run", "job.toml", "--quiet")
    said(capsys, "run", "job.toml", "--quiet", *second)

    with pytest.raises(EvalkitError) as caught:
        run_command(["compare", "last~1", "last"])

    assert caught.value.code == code


@pytest.mark.parametrize("job", ["nightly", "other"])
def test_what_is_hinted_finds_the_runs(folder, capsys, job):
    there, on = ["--out", "my runs"], ["--set", "truth.where=item > 5"]
    said(capsys, "run", "job.toml", "--quiet", *there, "--set", f"name={job}")
    first = os.readlink(folder / "my runs" / "latest")
    said(capsys, "run", "job.toml", "--quiet", *there, *on)

    with pytest.raises(EvalkitError) as caught:
        run_command(["compare", first, "last", "--name", "nightly", *there])

    hint = caught.value.hint.split(" splits")[0]
    if job == "nightly":
        assert hint == f"evalkit why {first} last --out 'my runs' --name nightly"
        run_command(shlex.split(hint)[1:])
    else:
        assert hint.startswith("evalkit compare --across")


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["a"], "nothing-to-compare"),
        (["--config", "job.toml", "a", "z"], "unknown-model"),
        (["--truth", "truth.parquet", "a.parquet", "b.parquet"], "missing-metric"),
        (["--truth", "t", "--config", "c", "a", "b"], "bad-option"),
        (["last", "nothing"], "unknown-run"),
        (["last~1", "last", "--set", "statistics.level=0.9"], "bad-option"),
    ],
)
def test_a_wrong_comparison_is_refused(folder, arguments, code):
    (folder / "runs").mkdir()
    with pytest.raises(EvalkitError) as caught:
        run_command(["compare", *arguments])

    assert caught.value.code in (code, "no-such-run")


def test_a_search_finds_the_segment_that_was_made_worse(folder, capsys):
    users = np.arange(720)
    pl.DataFrame({"user": users, "item": users % 7}).write_parquet("truth.parquet")
    for model in "ab":
        is_last = (users % 3 == 0) if model == "b" else np.zeros(720, dtype=bool)
        shown = np.stack([users % 7, users % 7 + 50], 1)
        shown[is_last] = shown[is_last][:, ::-1]
        pl.DataFrame(
            {"user": users.repeat(2), "item": shown.ravel(), "rank": np.tile([1, 2], 720)}
        ).write_parquet(f"{model}.parquet")
    third = np.array(["bad", "good", "fine"])[users % 3]
    kind = np.where(users % 2, "odd", "even")
    pl.DataFrame({"user": users, "third": third, "kind": kind}).write_parquet("users.parquet")
    rules = [f'segments.{by}={{path = "users.parquet", by = "{by}"}}' for by in ("third", "kind")]
    sets = [text for rule in rules for text in ("--set", rule)]
    noise = "rankings[0].where=rank > 1 or user % 11 < 10"  # or no difference would vary

    out = said(
        capsys, "compare", "--config", "job.toml", "a", "b", "--search", "-m", "RR", *sets,
        "--set", noise, "--set", "policies.bad_ranks=keep", "--json", "--quiet",
    )  # fmt: skip

    found = json.loads(out)["findings"]
    losses = {(each["segmentation"], each["segment"]) for each in found if each["kind"] == "loss"}
    assert ("third", "bad") in losses
    assert not any("good" in segment or "fine" in segment for _, segment in losses)
    assert all(each["n_searched"] <= 11 for each in found)


def test_a_search_without_segments_is_refused(folder):
    with pytest.raises(RequestError) as caught:
        run_command(["compare", "--config", "job.toml", "a", "b", "--search"])

    assert caught.value.code == "no-segments"


def test_the_parts_of_a_change_add_up(folder, capsys):
    segments = 'segments.country={by = "country"}'
    said(capsys, "run", "job.toml", "--quiet", "--set", segments)
    said(capsys, "run", "job.toml", "--quiet", "--set", segments, "--set", "truth.where=item > 9")

    out = said(capsys, "why", "last~1", "last", "--json", "--quiet", "-m", "RR")

    for load in json.loads(out):
        assert load["segmentation"] == "country"
        parts = [load[name] for name in ("mix", "truth", "coverage", "within")]
        assert sum(parts) == pytest.approx(load["after"] - load["before"], abs=1e-15)
        assert parts[1] != 0  # relevant items were taken away
        assert parts[2] == 0  # everybody is ranked in both
        limits = load["limits"]
        assert load["model"] == "b" or limits["truth"][1] < 0  # down, whoever the users were
        assert limits["coverage"] == [0, 0]
        assert sum(limits["delta"]) / 2 == pytest.approx(load["delta"], abs=1e-15)
        assert set(load["segments"][0]["limits"]) == {"mix", "truth", "coverage", "within"}
    values = {
        (each["model"], each["metric"]): each["value"]
        for each in json.loads(said(capsys, "report", "last", "--format", "json"))["metrics"]
        if each["segment"] is None
    }
    assert json.loads(out)[0]["after"] == values["a", "RR"]


def test_the_same_run_twice_has_nothing_to_explain(folder, capsys):
    for _ in range(2):
        said(capsys, "run", "job.toml", "--quiet")

    out = said(capsys, "why", "last~1", "last", "--quiet")

    rows = [line.split() for line in out.splitlines()[1:-2]]
    assert len(rows) == 4
    assert out.splitlines()[-1].startswith("no limits: both runs have the same users")
    assert all(row[4:] == ["+0.0000"] * 5 for row in rows)
    assert all(len(line) <= 80 for line in out.splitlines())


def test_text_and_json_have_the_same_limits(folder, capsys):
    said(capsys, "run", "job.toml", "--quiet")
    said(capsys, "run", "job.toml", "--quiet", "--set", "truth.where=item > 9")

    (found, _) = json.loads(said(capsys, "why", "last~1", "last", "--json", "--model", "a"))
    out = said(capsys, "why", "last~1", "last", "--quiet", "--model", "a").splitlines()

    halves = [found["limits"][name] for name in ("delta", "mix", "truth", "coverage", "within")]
    shown = [f"±{(high - low) / 2:.4f}" for low, high in halves]
    assert out[2].split() == ["95%", *shown]
    assert all(len(line) <= 80 for line in out)


def test_runs_over_clusters_have_no_limits(folder, capsys):
    for where in ("item > 0", "item > 9"):
        settings = ("--set", 'statistics={cluster = "country"}', "--set", f"truth.where={where}")
        said(capsys, "run", "job.toml", "--quiet", *settings)

    found = json.loads(said(capsys, "why", "last~1", "last", "--json"))

    assert all(each["limits"]["delta"] is None for each in found)
    assert {each["no_limits_because"] for each in found} == {
        "errors over clusters are not those of single users"
    }


@pytest.mark.parametrize(
    ("options", "code"),
    [
        (["--by", "age"], "unknown-segmentation"),
        (["-m", "AP@3"], "metric-not-in-report"),
        (["--model", "z"], "unknown-model"),
    ],
)
def test_what_cannot_be_explained_is_refused(folder, capsys, options, code):
    for _ in range(2):
        said(capsys, "run", "job.toml", "--quiet")

    with pytest.raises(EvalkitError) as caught:
        run_command(["why", "last~1", "last", *options])

    assert caught.value.code == code


def test_one_user_gives_no_interval_and_no_verdict(tmp_path):
    truth = pl.DataFrame({"user": [1], "item": [1]})
    ranked = {
        name: pl.DataFrame({"user": [1, 1], "item": items, "rank": [1, 2]})
        for name, items in (("a", [2, 1]), ("b", [1, 2]))
    }

    report = evalkit.compare(truth, ranked, metrics=["RR"])

    (found,) = report.comparisons
    assert (found.delta, found.n_users, found.verdict) == (0.5, 1, "not tested")
    assert np.isnan(found.low)
    assert json.loads(report.to_json())["comparisons"][0]["p_value"] is None


def test_nothing_is_drawn_where_no_metric_is_a_mean_of_users(folder):
    report = evalkit.compare(
        folder / "truth.parquet",
        tables(folder, "a", "b"),
        metrics=["RR"],
        policies={"empty_ranking": "nan"},
        statistics={"method": "bootstrap", "test": "permutation"},
    )

    assert report.comparisons == ()
    assert report.statistics.replicates is None


@pytest.mark.parametrize("zeros", ["skip", "survivors", "count"])
def test_finished_runs_leave_out_whom_the_runs_left_out(zeros):
    truth = pl.DataFrame({"user": [1, 2, 3], "item": [10, 10, 10]})
    runs = []
    for name, items in {"before": [10, 99, 10], "after": [99, 10, 10]}.items():
        table = pl.DataFrame({"user": [1, 2, 3], "item": [[98, item] for item in items]})
        report = evalkit.evaluate(
            truth, {"als": table}, metrics=["RR"], policies={"zeros": zeros}, per_user=True
        )
        runs.append((name, report))

    found = compare_runs(runs, StatisticsSection(), threads=1)

    assert [each.value for each in found.estimates] == [1 / 3 if zeros == "count" else 0.5] * 2
    assert found.comparisons[0].n_users == (3 if zeros == "count" else 1)


OF_LISTS = CONFIG.replace(
    'names = ["nDCG@8", "RR"]',
    'names = ["nDCG@8", "RR", "list_length@5", "personalization@5"]\n'
    'combined = { both = "hmean(nDCG@8, RR)", rest = "RR - 0.1 * personalization@5" }',
)


def test_numbers_of_all_lists_are_left_out_between_runs_and_told(folder, capsys):
    (folder / "job.toml").write_text(OF_LISTS)
    for _ in range(2):
        assert run_command(["run", "job.toml", "-q"]) == 0
    capsys.readouterr()

    assert run_command(["compare", "last~1", "last", "--format", "json"]) == 0
    out, err = capsys.readouterr()
    found = json.loads(out)
    assert {each["metric"] for each in found["metrics"]} == {"nDCG@8", "RR", "list_length@5"}
    told = " ".join(err.split())
    assert "warning[not-of-users]: personalization@5, both, rest: no values" in told
    for command, name, code in (
        ("compare", "both", "not-of-users"),
        ("compare", "personalization@5", "not-of-users"),
        ("why", "both", "metric-not-in-report"),
    ):
        with pytest.raises(EvalkitError) as raised:
            run_command([command, "last~1", "last", "-m", name])
        assert raised.value.code == code
    capsys.readouterr()
    assert run_command(["compare", "last~1", "last", "-m", "RR"]) == 0
    assert "not-of-users" not in capsys.readouterr().err


LABELS = """
name = "labels"
output = { per_user = true }
labels = [{ model = "a", path = "a.parquet" }, { model = "b", path = "b.parquet" }]
[metrics]
names = ["log-loss(over='users')", "AUC", "GAUC"]
"""


def test_numbers_over_rows_are_left_out_between_runs_and_measured_anew_as_told(folder, capsys):
    rows = pl.DataFrame(
        {"user": [1, 1, 2, 2], "score": [0.9, 0.2, 0.6, 0.4], "label": [1, 0, 0, 1]}
    )
    rows.write_parquet(folder / "a.parquet")
    rows.with_columns(score=1.0 - pl.col("score")).write_parquet(folder / "b.parquet")
    (folder / "labels.toml").write_text(LABELS)
    for _ in range(2):
        assert run_command(["run", "labels.toml", "-q"]) == 0
    capsys.readouterr()

    assert run_command(["compare", "last~1", "last", "--format", "json"]) == 0
    assert "warning[not-of-users]: AUC, AUC(over=" in " ".join(capsys.readouterr().err.split())
    with pytest.raises(EvalkitError) as raised:
        run_command(["compare", "last~1", "last", "-m", "AUC"])
    assert raised.value.code == "not-of-users"
    assert "evalkit compare --config CONFIG BASELINE CANDIDATE" in raised.value.hint
    assert run_command(["compare", "--config", "labels.toml", "a", "b", "-m", "AUC"]) == 0
    assert "by AUC" in capsys.readouterr().out
    with pytest.raises(EvalkitError) as raised:
        run_command(["compare", "--config", "labels.toml", "a", "c"])
    assert raised.value.hint == "it has a, b"


def test_metrics_of_a_config_are_compared_with_what_they_are_combined_of(folder, capsys):
    (folder / "job.toml").write_text(OF_LISTS)
    for asked, expected in (
        (["both"], {"nDCG@8", "RR", "both"}),
        (["RR"], {"RR"}),
        (["rest", "list_length@5"], {"list_length@5", "RR", "personalization@5", "rest"}),
    ):
        options = [each for name in asked for each in ("-m", name)]
        asked = ["compare", "a", "b", "--config", "job.toml", *options, "--format", "json"]
        assert run_command(asked) == 0
        found = json.loads(capsys.readouterr().out)
        assert {each["metric"] for each in found["comparisons"]} == expected


def test_no_empty_table_is_shown_of_a_primary_metric_that_is_left_out(folder, capsys):
    primary = 'primary = ["personalization@5"]\nnames ='
    (folder / "job.toml").write_text(OF_LISTS.replace("names =", primary, 1))
    for _ in range(2):
        assert run_command(["run", "job.toml", "-q"]) == 0
    capsys.readouterr()

    assert run_command(["compare", "last~1", "last", "-q"]) == 0
    shown = capsys.readouterr().out.splitlines()
    assert not [line for line in shown if line.startswith("personalization")]
