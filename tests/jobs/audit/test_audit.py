"""One metric under every profile, and the conventions that move it."""

import json
import math
from dataclasses import replace
from itertools import combinations

import numpy as np
import polars as pl
import pytest
from campaigns import examples

import evalkit
from evalkit.config import build_config, parse_config
from evalkit.errors import DataError, RequestError
from evalkit.jobs.audit import audit_config, render_audit
from evalkit.jobs.audit._points import OF_TRUTH
from evalkit.pipeline import run_config
from evalkit.planning.tables import Given

SOME = ("evalkit", "lenskit", "recbole", "recommenders", "rs_metrics", "sklearn", "trec_eval")

CONFIG = """
[truth]
path = "{folder}/truth.parquet"
threshold = 2.0
columns = {{ user = "user", item = "item", relevance = "relevance" }}
[[rankings]]
model = "als"
path = "{folder}/run.parquet"
columns = {{ user = "user", item = "item", score = "score" }}
[metrics]
names = ["nDCG@5"]
"""


@pytest.fixture(scope="module")
def logs(tmp_path_factory):
    """Logs with equal scores, copies, negative relevance, and users that one of them lacks."""
    folder = tmp_path_factory.mktemp("audit")
    rng = np.random.default_rng(4)
    truth = [
        (user, int(item), float(rng.choice([-1.0, 1.0, 2.0, 3.0])))
        for user in range(40)
        for item in rng.choice(30, size=6, replace=False)
    ]
    run = [
        (user, int(item), float(np.round(rng.normal(), 1)))
        for user in range(3, 44)
        for item in rng.choice(30, size=12)
    ]
    frames = {
        "truth": pl.DataFrame(truth, schema=["user", "item", "relevance"], orient="row"),
        "run": pl.DataFrame(run, schema=["user", "item", "score"], orient="row"),
    }
    for name, frame in frames.items():
        frame.write_parquet(folder / f"{name}.parquet")
    return folder, frames


@pytest.fixture(scope="module")
def found(logs):
    config = parse_config(CONFIG.format(folder=logs[0]), source="job.toml")
    (audit,) = audit_config(config, "nDCG@5")
    return audit


def test_values_are_those_of_a_run_under_each_profile(logs, found):
    _, frames = logs

    for standing in found.standings:
        for profile in standing.profiles[: examples(16)]:
            given = {"metrics": ["nDCG@5"], "profile": profile, "threshold": 2.0}
            try:
                report = evalkit.evaluate(frames["truth"], {"als": frames["run"]}, **given)
            except DataError:  # copies, which an audit does not refuse
                given["policies"] = {"duplicates": "best"}
                report = evalkit.evaluate(frames["truth"], {"als": frames["run"]}, **given)
            if profile != "evalkit":
                assert report.value("nDCG@5") == pytest.approx(standing.value, rel=1e-12), profile


def test_contributions_add_up_to_the_difference(found):
    values = {name: each.value for each in found.standings for name in each.profiles}

    assert found.pairs
    for pair in found.pairs:
        assert pair.delta == pytest.approx(values[pair.other] - values[pair.one], abs=1e-12)
        assert math.fsum(each.delta for each in pair.axes) == pytest.approx(pair.delta, abs=1e-12)
        if pair.is_smallest and abs(pair.delta) > 1e-9:
            assert pair.axes


def test_bounds_of_ties_are_told(found):
    worst, best = found.tie_bounds
    (own,) = [each.value for each in found.standings if "evalkit" in each.profiles]

    assert worst <= own <= best
    assert f"from {worst:.6f} to {best:.6f}" in render_audit([found], "table")


def test_standings_fall_and_name_every_library_that_has_the_metric(found):
    values = [each.value for each in found.standings if not math.isnan(each.value)]
    named = {name for each in found.standings for name in each.profiles}

    assert values == sorted(values, reverse=True)
    assert named | set(found.left_out) == set(evalkit_profiles())
    assert "recmetrics" in found.left_out


def evalkit_profiles():
    from evalkit.metrics.profiles import speaking_of

    return speaking_of("rankings")


def test_two_profiles_that_differ_in_one_choice_are_explained_by_it(logs):
    config = parse_config(CONFIG.format(folder=logs[0]), source="job.toml")

    (audit,) = audit_config(config, "precision@5", profiles=["rs_metrics", "recbole"])

    (pair,) = audit.pairs
    assert [each.axis for each in pair.axes] in (
        ["missing_ranking"],
        ["over", "missing_ranking"],
        ["missing_ranking", "over"],
    )


def test_the_smallest_set_is_the_smallest(logs):
    folder, frames = logs
    config = parse_config(CONFIG.format(folder=folder), source="job.toml")
    (audit,) = audit_config(config, "recall@5", profiles=["spark", "lenskit"])

    (pair,) = audit.pairs
    changes = {each.axis: (each.before, each.after) for each in pair.axes}

    def value(axes):
        chosen = {axis: changes[axis][axis in axes] for axis in changes}
        own = ", ".join(f"{axis}={setting!r}" for axis, setting in chosen.items())
        return (
            evalkit.evaluate(
                frames["truth"],
                {"als": frames["run"]},
                metrics=[f"recall({own})@5"],
                profile=pair.one,
                threshold=2.0,
            )
            .estimates[0]
            .value
        )

    end = value(set(changes))
    for size in range(len(changes)):
        for part in combinations(changes, size):
            assert value(set(part)) != pytest.approx(end, rel=1e-12), part


def recomputed(pair, frames, metric, **options):
    """The number of a run under the first profile with the pair's axes set by hand."""
    after = {each.axis: each.after for each in pair.axes}
    policies = {axis: value for axis, value in after.items() if axis in OF_TRUTH}
    own = ", ".join(f"{axis}={value!r}" for axis, value in after.items() if axis not in OF_TRUTH)
    name, at, cutoff = metric.partition("@")
    if pair.one == "evalkit":
        policies["duplicates"] = "best"
    return (
        evalkit.evaluate(
            frames["truth"],
            {"als": frames["run"]},
            metrics=[f"{name}({own}){at}{cutoff}" if own else metric],
            profile=pair.one,
            policies=policies,
            **options,
        )
        .estimates[0]
        .value
    )


@pytest.mark.parametrize(
    ("grades", "metric", "emptied"),
    [([-1.0, 2.0, 3.0], "DCG@5", False), ([-1.0, 0.5, 1.0, 2.5], "AP@3", True)],
)
def test_what_a_pair_names_gives_the_other_number_in_a_run(tmp_path, grades, metric, emptied):
    rng = np.random.default_rng(1)
    rows = [(user, int(item)) for user in range(12) for item in rng.permutation(20)[:8]]
    run = [(*row, float(rng.random() + 0.1)) for row in rows]
    judged = [(user, int(item)) for user in range(12) for item in rng.permutation(20)[:6]]
    truth = [(*row, float(rng.choice(grades))) for row in judged]
    train = [row for row in rows if row[0] == 3]  # who has nothing left
    frames = {
        "truth": pl.DataFrame(truth, schema=["user", "item", "relevance"], orient="row"),
        "run": pl.DataFrame(run, schema=["user", "item", "score"], orient="row"),
        "train": pl.DataFrame(train, schema=["user", "item"], orient="row"),
    }
    for name, frame in frames.items():
        frame.write_parquet(tmp_path / f"{name}.parquet")
    text, options = CONFIG.format(folder=tmp_path), {"threshold": 2.0}
    if emptied:
        text += f'[train]\npath = "{tmp_path}/train.parquet"\ndrop_seen = true\n'
        options |= {"train": frames["train"], "drop_seen": True}
    (audit,) = audit_config(parse_config(text, source="job.toml"), metric, profiles=SOME)

    values = {name: each.value for each in audit.standings for name in each.profiles}
    assert "missing_ranking" not in audit.inert or not emptied
    for pair in audit.pairs[: examples(30)]:
        assert pair.comes_out
        assert pair.recomputed == pytest.approx(values[pair.other], rel=1e-11, nan_ok=True)
        assert recomputed(pair, frames, metric, **options) == pytest.approx(
            pair.recomputed, rel=1e-11, nan_ok=True
        ), pair


def test_what_is_below_the_threshold_can_matter_where_it_is_below_zero(logs):
    folder, frames = logs
    truth = frames["truth"].with_columns(
        relevance=pl.col("relevance").replace(1.0, 2.0)  # none between 0 and the threshold
    )
    config = parse_config(CONFIG.format(folder=folder), source="job.toml")
    given = Given(truth, [frames["run"]], None)
    (audit,) = audit_config(config, "DCG@5", given=given, profiles=SOME)

    assert "below_threshold" not in audit.inert


@pytest.mark.some_cases(2)
@pytest.mark.parametrize(
    ("columns", "ties_matter"),
    [({"rank": "rank"}, False), ({}, False), ({"rank": "rank", "score": "score"}, True)],
    ids=["ranks", "rows", "ranks and equal scores"],
)
def test_logs_with_ranks_can_be_audited(tmp_path, logs, columns, ties_matter):
    folder, frames = logs
    run = frames["run"].unique(["user", "item"], maintain_order=True).sort("user")
    run = run.with_columns(rank=pl.int_range(1, pl.len() + 1).over("user"))
    run.write_parquet(tmp_path / "run.parquet")
    named = ", ".join(f'{ours} = "{theirs}"' for ours, theirs in columns.items())
    text = CONFIG.format(folder=folder).replace(f"{folder}/run.parquet", f"{tmp_path}/run.parquet")
    text = text.replace('score = "score"', named).replace('"item",  }', '"item" }')
    (audit,) = audit_config(parse_config(text, source="job.toml"), "nDCG@5", profiles=SOME)

    assert ("ties" not in audit.inert) == ties_matter  # all orders of equal scores
    assert "duplicates" in audit.inert
    assert all(pair.comes_out for pair in audit.pairs)


@pytest.mark.some_cases(1)
@pytest.mark.parametrize("with_rank", [True, False])
def test_conventions_that_do_not_go_together_are_switched_one_after_the_other(with_rank):
    rng = np.random.default_rng(0)  # copies and equal scores: no run multiplies and averages
    users = np.repeat(np.arange(12), 6)
    run = pl.DataFrame(
        {"user": users, "item": rng.integers(0, 8, 72), "score": rng.integers(1, 4, 72) / 4}
    )
    truth = pl.DataFrame({"user": users, "item": [*range(6)] * 12, "relevance": [1, 0, 2] * 24})
    columns = {name: name for name in ("user", "item", "score")}
    if with_rank:
        run = run.with_columns(rank=pl.int_range(1, pl.len() + 1).over("user"))
        columns["rank"] = "rank"
    tree = {
        "truth": {"path": "truth"},
        "rankings": [{"model": "m", "path": "run", "columns": columns}],
        "metrics": {"names": ["nDCG@5"]},
    }
    config = build_config(tree, name="job")
    given = Given(truth, [run], None)
    (audit,) = audit_config(config, "nDCG@5", given=given, profiles=SOME)

    assert {"recommenders", "sklearn"} <= {
        name for each in audit.standings for name in each.profiles
    }
    assert all(pair.comes_out for pair in audit.pairs)
    for pair in audit.pairs:
        assert sum(each.delta for each in pair.axes) == pytest.approx(pair.delta, abs=1e-12)
    both = [{each.axis for each in pair.axes} for pair in audit.pairs]
    assert any({"ties", "duplicates"} <= axes for axes in both)


def test_a_set_that_does_not_come_out_is_no_explanation(found):
    pair = replace(found.pairs[0], recomputed=0.125, comes_out=False)
    table = render_audit([replace(found, pairs=(pair,))], "table")

    assert "not explained: recomputed with these alone it is 0.125000" in table
    assert "not explained" not in render_audit([found], "table")


def test_a_profile_that_counts_strangers_is_left_out_where_all_items_are_relevant(logs):
    text = CONFIG.format(folder=logs[0]).replace("threshold = 2.0", "threshold = 0.0")
    (audit,) = audit_config(parse_config(text, source="job.toml"), "recall@5", profiles=SOME)

    assert "threshold of 0" in audit.left_out["lenskit"]


def test_an_audit_is_told_as_table_json_and_markdown(found):
    table, markdown = (render_audit([found], form) for form in ("table", "markdown"))
    (document,) = json.loads(render_audit([found], "json"))

    assert table.startswith("nDCG@5 of als under every profile")
    assert "Shapley" in table
    assert "| value | profiles |" in markdown
    assert [each["profiles"] for each in document["standings"]] == [
        list(each.profiles) for each in found.standings
    ]
    assert set(document["pairs"][0]) >= {"one", "other", "delta", "axes", "method"}


def test_conventions_that_cannot_matter_are_told(tmp_path):
    pl.DataFrame({"user": [1, 2], "item": [1, 1]}).write_parquet(tmp_path / "truth.parquet")
    pl.DataFrame({"user": [1, 2], "item": [1, 2], "score": [0.5, 0.4]}).write_parquet(
        tmp_path / "run.parquet"
    )
    text = CONFIG.format(folder=tmp_path).replace(', relevance = "relevance"', "")
    config = parse_config(text.replace("threshold = 2.0", ""), source="job.toml")

    (audit,) = audit_config(config, "RR@5")

    assert {"duplicates", "ties", "missing_ranking"} <= set(audit.inert)
    (standing,) = audit.standings[:1]
    assert "trec_eval" in {name for each in audit.standings for name in each.profiles}
    assert standing.n_users <= 2


@pytest.mark.parametrize(
    ("metric", "profiles", "code"),
    [
        ("nDCG@{5,10}", (), "ambiguous-metric"),
        ("nDGC@5", (), "unknown-metric"),
        ("first_hit_rank", (), "nothing-to-audit"),
        ("RR@5", ("ranx", "rankx"), "unknown-profile"),
    ],
)
def test_what_cannot_be_audited_is_refused(logs, metric, profiles, code):
    config = parse_config(CONFIG.format(folder=logs[0]), source="job.toml")

    with pytest.raises(RequestError) as caught:
        audit_config(config, metric, profiles=profiles)

    assert caught.value.code == code


@pytest.mark.parametrize("kind", ["labels", "ratings"])
def test_rows_are_no_rankings_to_audit(kind):
    metric = "AUC" if kind == "labels" else "MAE"
    text = f'[{kind}]\nmodel = "m"\npath = "rows.parquet"\n[metrics]\nnames = ["{metric}"]\n'

    with pytest.raises(RequestError) as caught:
        audit_config(parse_config(text, source="rows.toml"), metric)

    assert caught.value.code == "audit-of-rows"


def tables_of_lists(folder, *, train):
    """Lists of some users whom train lacks, with items that the table lacks, and a config."""
    rng = np.random.default_rng(6)
    rows = [(u, int(i), r) for u in range(20) for r, i in enumerate(rng.permutation(15)[:4], 1)]
    seen = [(u, int(i)) for u in range(3, 30) for i in rng.permutation(13)[:3]]
    right = [(u, int(i)) for u in range(2, 20) for i in rng.permutation(14)[:2]]
    frames = {
        "run": pl.DataFrame(rows, schema=["user", "item", "rank"], orient="row"),
        "train": pl.DataFrame(seen, schema=["user", "item"], orient="row"),
        "truth": pl.DataFrame(right, schema=["user", "item"], orient="row"),
        "items": pl.DataFrame({"item": range(14)}),
    }
    for name, frame in frames.items():
        frame.write_parquet(folder / f"{name}.parquet")
    tree = {name: {"path": str(folder / f"{name}.parquet")} for name in ("truth", "items")}
    if train:
        tree["train"] = {"path": str(folder / "train.parquet")}
        tree["policies"] = {"truth_in_train": "count"}
    tree["rankings"] = [{"path": str(folder / "run.parquet"), "model": "run"}]
    return {**tree, "metrics": {"names": ["item_coverage@2"]}}


OF_LISTS = ("evalkit", "elliot", "evidently", "recbole", "recommenders", "replay")


@pytest.mark.parametrize("metric", ["gini@3", "novelty@3", "item_coverage@3"])
def test_metrics_of_lists_are_explained_where_libraries_mean_others_by_one_name(tmp_path, metric):
    tree = tables_of_lists(tmp_path, train=True)
    (audit,) = audit_config(build_config(dict(tree), name="lists"), metric, profiles=OF_LISTS)
    values = {name: each.value for each in audit.standings for name in each.profiles}

    for name, value in values.items():
        asked = {**tree, "metrics": {"names": [metric], "profile": name}}
        report = run_config(build_config(asked, name="lists"))
        assert report.estimates[0].value == value
    assert len(values) == {"novelty@3": 4}.get(metric, {"gini@3": 4}.get(metric, 6))
    for pair in audit.pairs:
        assert pair.comes_out
        assert sum(each.delta for each in pair.axes) == pytest.approx(pair.delta, abs=1e-9)
    axes = {each.axis for pair in audit.pairs for each in pair.axes if each.delta}
    assert (
        axes
        >= {
            "gini@3": {"metric", "items", "over"},
            "novelty@3": {"metric", "pop_of", "cold"},
            "item_coverage@3": {"catalogue", "scale", "list_users"},
        }[metric]
    )


def test_libraries_whose_conventions_need_a_table_that_is_not_given_are_left_out(tmp_path):
    tree = tables_of_lists(tmp_path, train=False)
    (audit,) = audit_config(build_config(tree, name="lists"), "gini@3", profiles=OF_LISTS)

    assert "needs [train]" in audit.left_out["elliot"]
    assert {name for each in audit.standings for name in each.profiles} == {
        "evalkit", "evidently", "recbole",
    }  # fmt: skip
