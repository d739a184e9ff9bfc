"""Errors over users and items by every entry point: commands as processes, passes, shares,
configs.
"""

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from passes import in_passes

import evalkit as package

N_USERS, N_ITEMS = 240, 30
METRICS = ["recall@5", "nDCG@5", "hits@3"]
JOB = """
[truth]
path = "truth.parquet"
columns = {{ user = "user", item = "item" }}
[[rankings]]
model = "als"
path = "als.parquet"
columns = {{ user = "user", item = "item", rank = "rank" }}
[[rankings]]
model = "bpr"
path = "bpr.parquet"
columns = {{ user = "user", item = "item", rank = "rank" }}
[segments]
min_users = 5
cross = [["shop", "activity"]]
[segments.shop]
by = "shop"
[segments.activity]
by = "n_relevant"
edges = [2, 4]
[metrics]
names = ["recall@5", "nDCG@5", "hits@3"]
{more}
[statistics]
two_way = "item"
baseline = "als"
"""
SEGMENTS = {
    "min_users": 5,
    "shop": {"by": "shop"},
    "activity": {"by": "n_relevant", "edges": [2, 4]},
    "cross": [["shop", "activity"]],
}
STATISTICS = {"two_way": "item", "baseline": "als"}
PARTS = ("metrics", "comparisons", "warnings", "counts")


def tables(as_text: bool = False) -> dict[str, pl.DataFrame]:
    """A truth, and two models, of which one likes some items whoever asks."""
    rng = np.random.default_rng(11)
    liked = rng.normal(size=N_ITEMS)
    truth, lists = [], {"als": [], "bpr": []}
    for user in range(N_USERS):
        relevant = rng.choice(N_ITEMS, size=rng.integers(1, 7), replace=False)
        truth += [(user, int(item), f"shop {user % 7 * user % 5}") for item in relevant]
        for name, taste in (("als", 1.0), ("bpr", 0.2)):
            scores = rng.normal(size=N_ITEMS) + taste * liked
            scores[relevant] += 1.0
            lists[name] += [
                (user, int(item), rank) for rank, item in enumerate(np.argsort(-scores)[:6], 1)
            ]
    found = {"truth": pl.DataFrame(truth, ["user", "item", "shop"], orient="row")}
    for name, rows in lists.items():
        found[name] = pl.DataFrame(rows, ["user", "item", "rank"], orient="row")
    if as_text:
        ids = [pl.format("id {}", name).alias(name) for name in ("user", "item")]
        found = {name: each.with_columns(ids) for name, each in found.items()}
    return found


def write_job(folder: Path, more: str = "", statistics: str = "") -> None:
    (folder / "job.toml").write_text(JOB.format(more=more) + statistics)


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    for name, each in tables().items():
        each.write_parquet(tmp_path / f"{name}.parquet")
    write_job(tmp_path)
    return tmp_path


def said(document: dict) -> dict:
    return {name: document[name] for name in PARTS}


def in_python(folder: Path, **more: object) -> dict:
    """What Python says of the same."""
    report = package.evaluate(
        folder / "truth.parquet",
        {name: folder / f"{name}.parquet" for name in ("als", "bpr")},
        metrics=METRICS,
        segments=SEGMENTS,
        statistics=STATISTICS,
        **more,
    )
    return said(json.loads(report.to_json()))


def test_the_command_says_what_python_says(evalkit, logs):
    done = evalkit("run", "job.toml", "--json")

    assert done.status == 0, done.err
    assert said(done.document) == in_python(logs)
    whole = [each for each in done.document["comparisons"] if each["segment"] is None]
    assert [each["n_clusters"] for each in whole] == [N_ITEMS] * len(METRICS)
    assert all(each["std_error"] > 0 for each in whole)
    told = {each["code"]: each["message"] for each in done.document["warnings"]}
    assert "users or items have values" in told["few-clusters"]


@pytest.mark.some_cases(1)
@pytest.mark.parametrize("as_text", [True, False])
def test_threads_passes_and_shares_give_the_same(evalkit, logs, as_text):
    for name, each in tables(as_text=as_text).items():
        each.write_parquet(logs / f"{name}.parquet")
    whole = evalkit("run", "job.toml", "--json", "--threads", "1")
    two = evalkit("run", "job.toml", "--json", "--threads", "2")
    names = ["one", "two", "three"]
    for number, name in enumerate(names, 1):
        done = evalkit("partial", "job.toml", "--share", f"{number}/3", "--out", name)
        assert done.status == 0, done.err
    merged = evalkit("merge", *reversed(names), "--json")

    assert said(two.document) == said(whole.document)
    assert said(merged.document) == said(whole.document)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("evalkit.kinds.rankings.measure.count_shares", lambda *asked: 5)
        assert in_python(logs, threads=2) == said(whole.document)


def test_a_limit_is_held_in_passes_or_refused_with_what_it_needs(process, tmp_path, monkeypatch):
    n = 400_000
    rows = pl.select(user=pl.int_range(n) // 4, item=(pl.int_range(n) * 7919) % 20_011)
    rows.write_parquet(tmp_path / "truth.parquet")
    for name, step in (("als", 3), ("bpr", 2)):
        shown = rows.with_columns(
            item=pl.when(pl.int_range(n) % step == 0).then("item").otherwise(-1 - pl.int_range(n)),
            rank=pl.int_range(n) % 4 + 1,
        )
        shown.write_parquet(tmp_path / f"{name}.parquet")
    more = ["--set", "segments.shop.by=user % 3", "--json"]
    command = ["evaluate", "--truth", "truth.parquet", "--rankings", "als.parquet", "bpr.parquet"]
    command += ["-m", "recall@5", "--set", "statistics.two_way=item", *more]
    asked = {"metrics": ["recall@5"], "statistics": {"two_way": "item"}}
    asked |= {"segments": {"shop": {"by": "user % 3"}}}
    models = {"als": "als.parquet", "bpr": "bpr.parquet"}
    monkeypatch.chdir(tmp_path)
    whole = process(*command)
    kept = in_passes(2, lambda: package.evaluate("truth.parquet", models, **asked))
    for _ in range(2):  # the first keeps the kernels that count for a plan
        refused = process(*command, "--memory-limit", "200MiB")

    assert (whole.status, kept.status) == (0, 0), whole.err
    assert (refused.status, refused.codes) == (4, ["memory-limit"])
    needed = refused.err.split("--memory-limit ")[1].split()[0]
    below = process(*command, "--memory-limit", needed)
    assert below.status == 0, below.err
    assert below.document["meta"]["passes"] > 1
    assert below.document["meta"]["peak_bytes"] <= int(needed.removesuffix("MiB")) << 20
    assert below.document["metrics"] == whole.document["metrics"]


def test_check_and_run_agree(evalkit, logs):
    assert evalkit("check", "job.toml").status == 0
    for override in (
        'metrics.names=["recall@5","AP@5"]',
        "statistics.cluster=shop",
        'statistics.weight={by="item"}',
        "policies.duplicates=multiply",
    ):
        checked = evalkit("check", "job.toml", "--set", override)
        run = evalkit("run", "job.toml", "--set", override)
        assert checked.status == run.status == 2, override
        assert run.codes, run.err
        said_by_check = checked.out + checked.err
        assert all(f"error[{code}]" in said_by_check for code in run.codes), said_by_check
        assert "Traceback" not in run.err + checked.err
    assert "AP@5" in evalkit("run", "job.toml", "--set", 'metrics.names=["AP@5"]').err


def test_models_of_a_config_are_compared_as_they_run(evalkit, logs):
    run = evalkit("run", "job.toml", "--json").document
    done = evalkit("compare", "--config", "job.toml", "als", "bpr", "--json")

    assert done.status == 0, done.err
    assert done.document["comparisons"] == run["comparisons"]


def test_a_joined_log_has_them_too(evalkit, tmp_path):
    found = tables()
    joined = found["als"].join(
        found["truth"].with_columns(label=1), on=["user", "item"], how="left"
    )
    joined.with_columns(pl.col("label").fill_null(0)).write_parquet(tmp_path / "log.parquet")
    (tmp_path / "log.toml").write_text(
        '[log]\nmodel = "als"\npath = "log.parquet"\n'
        'columns = { user = "user", item = "item", rank = "rank", label = "label" }\n'
        '[metrics]\nnames = ["recall@5"]\n[statistics]\ntwo_way = "item"\n'
    )
    done = evalkit("run", "log.toml", "--json")

    assert done.status == 0, done.err
    (found,) = done.document["metrics"]
    assert found["n_clusters"] <= N_ITEMS
    assert found["std_error"] > 0


def test_a_selection_refuses_them(evalkit, logs):
    write_job(logs)
    text = (logs / "job.toml").read_text()
    rankings = text[text.index("[[rankings]]") : text.index("[segments]")]
    trials = '[selection]\ntrials = "trials.csv"\npath = "{number}.parquet"\nmetric = "recall@5"\n'
    rows = [(0, "COMPLETE", 0.1), (1, "COMPLETE", 0.2)]
    names = ["number", "state", "value"]
    pl.DataFrame(rows, names, orient="row").write_csv(logs / "trials.csv")
    (logs / "select.toml").write_text(text.replace(rankings, trials))
    done = evalkit("select", "select.toml")

    assert done.status == 2
    assert "two_way" in done.err
    assert "Traceback" not in done.err


@pytest.mark.parametrize(
    ("table", "metric"),
    [
        ('[labels]\ncolumns = { score = "score", label = "label" }', "AUC"),
        ('[ratings]\ncolumns = { prediction = "score", rating = "label" }', "RMSE"),
    ],
)
def test_tables_of_rows_refuse_them(evalkit, tmp_path, table, metric):
    rows = pl.DataFrame({"user": [1, 2], "item": [1, 2], "score": [0.2, 0.9], "label": [0, 1]})
    rows.write_parquet(tmp_path / "rows.parquet")
    text = f'{table}\nmodel = "a"\npath = "rows.parquet"\n[metrics]\nnames = ["{metric}"]\n'
    (tmp_path / "rows.toml").write_text(text + '[statistics]\ntwo_way = "item"\n')
    done = evalkit("run", "rows.toml")

    assert (done.status, done.codes) == (2, ["conflicting-keys"])
    assert "two_way" in done.err
    assert "Traceback" not in done.err
