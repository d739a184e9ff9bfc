"""Spark gives the bytes of one process, says what is wrong in its words, and refuses the rest."""

import json
import re

import numpy as np
import polars as pl
import pytest

pytest.importorskip("pyspark", reason="Spark is not installed: pip install evalkit-recsys[spark]")

from on_spark import TYPES, check

from evalkit.config import parse_config
from evalkit.errors import EvalkitError
from evalkit.street import run_config

pytestmark = [pytest.mark.spark, pytest.mark.filterwarnings("ignore")]

LISTED = "".join(f'[[rankings]]\nmodel = "{m}"\npath = "{m}.parquet"\n' for m in "ab")
PLAIN = f"""
truth.path = "truth.parquet"
{LISTED}
[metrics]
names = ["nDCG@5", "recall@{{1,5}}", "AP", "RR"]
"""
ALL = f"""
[truth]
path = "truth.parquet"
{LISTED}
[train]
path = "train.parquet"
drop_seen = true
[metrics]
names = ["nDCG@{{2,5}}", "recall@5", "AP", "RR"]
[segments]
country = {{ by = "country" }}
kind = {{ path = "users.parquet", by = "upper(kind)", user = "who" }}
age = {{ path = "users.parquet", by = "age", user = "who", edges = [30, 50] }}
n = {{ by = "n_relevant", edges = [2, 4] }}
genre = {{ path = "items.parquet", item = "item", by = "genre" }}
cross = [["country", "kind"]]
[statistics]
baseline = "a"
curves = true
distributions = true
"""


def make_logs(folder, *, user=None, item=None, as_lists=False, n_users=120):
    """A truth, two models with scores and ranks, train, users and items; shuffled, some skewed."""
    rng = np.random.default_rng(3)
    user, item = user or (lambda ids: ids), item or (lambda ids: ids)
    users = np.concatenate([np.repeat(np.arange(n_users), 4), np.full(25, n_users)])
    truth = pl.DataFrame({"user": users, "item": rng.integers(0, 40, users.size)}).unique()
    truth = truth.sample(fraction=1.0, shuffle=True, seed=1)
    country = pl.Series(["de", "fr", "jp", None]).gather(truth["user"] % 4)
    truth = truth.with_columns(country=country, relevance=truth["item"] % 3 * 1.0)
    frames = {"truth": truth}
    for model in "ab":
        lists = [rng.permutation(40)[:8] for _ in range(n_users)]
        frame = pl.DataFrame(
            {
                "user": np.repeat(np.arange(10, n_users + 10), 8),
                "item": np.concatenate(lists),
                "rank": np.tile(np.arange(1, 9), n_users),
            }
        ).with_columns(score=(9 - pl.col("rank")) // 2 * 0.5)
        frames[model] = frame.sample(fraction=1.0, shuffle=True, seed=2)
    frames["train"] = truth.sample(40, seed=4).select("user", "item")
    for name, frame in frames.items():
        ids = [frame["user"].to_numpy(), frame["item"].to_numpy()]
        frame = frame.with_columns(user=user(ids[0]), item=item(ids[1]))
        if as_lists and name in "ab":
            frame = frame.sort("rank").group_by("user").agg("item")
        frame.write_parquet(folder / f"{name}.parquet")
    people = pl.DataFrame({"who": user(np.arange(n_users - 5)), "age": rng.integers(18, 80, 115)})
    people = people.with_columns(kind=pl.Series(rng.choice(["new", "old"], 115)))
    people.write_parquet(folder / "users.parquet")
    shelf = pl.DataFrame({"item": item(np.arange(40)), "genre": [f"g{n % 3}" for n in range(40)]})
    shelf.write_parquet(folder / "items.parquet")


OF_ITS_OWN = ("meta", "run_id", "run_key", "inputs")


@pytest.mark.parametrize("partitions", [1, 30])
def test_segments_crosses_curves_and_comparisons(session, tmp_path, partitions):
    make_logs(tmp_path)

    found = check(ALL, tmp_path, partitions=partitions)

    assert json.loads(found.said)["comparisons"]


@pytest.mark.parametrize(("kind", "of_items"), [*zip(TYPES, 5 * ("int32", "text"), strict=False)])
def test_ids_of_every_type(session, tmp_path, kind, of_items):
    make_logs(tmp_path, user=TYPES[kind], item=TYPES[of_items])

    check(ALL, tmp_path)


def test_a_users_rows_come_together_whatever_type_a_table_gives_the_ids(session, tmp_path):
    make_logs(tmp_path)
    for name, dtype in {
        "truth": pl.Int16,
        "a": pl.UInt64,
        "b": pl.UInt8,
        "train": pl.Int32,
    }.items():
        frame = pl.read_parquet(tmp_path / f"{name}.parquet")
        frame.cast({"user": dtype}).write_parquet(tmp_path / f"{name}.parquet")

    check(ALL, tmp_path)


def test_two_columns_make_a_user(session, tmp_path):
    make_logs(tmp_path)
    for name in ("truth", "a", "b"):
        frame = pl.read_parquet(tmp_path / f"{name}.parquet")
        both_columns = [(pl.col("user") // 7).alias("u"), (pl.col("user") % 7).cast(pl.String)]
        frame.with_columns(both_columns).write_parquet(tmp_path / f"{name}.parquet")
    columns = 'columns = { user = ["u", "user"], item = "item"'
    truth = f'[truth]\npath = "truth.parquet"\n{columns} }}\n'
    named = PLAIN.replace('truth.path = "truth.parquet"', truth)
    named = named.replace("[[rankings]]\n", f'[[rankings]]\n{columns}, rank = "rank" }}\n')

    check(named, tmp_path)


def test_lists_of_items(session, tmp_path):
    make_logs(tmp_path, as_lists=True)

    check(PLAIN, tmp_path)


STATISTICS = {
    "bootstrap": 'method = "bootstrap"\nreplicates = 100\nbaseline = "a"',
    "unbounded": 'method = "bootstrap"\nreplicates = 100\nbaseline = "a"',
    "wilcoxon": 'test = "wilcoxon"\nbaseline = "a"',
    "permutation": 'test = "permutation"\nreplicates = 100\npairs = "all"',
    "cluster": 'cluster = "coalesce(country, \'none\')"\nbaseline = "a"',
    "weight": 'weight = { path = "users.parquet", by = "age + 1", user = "who" }',
    "two_way": 'two_way = "item"\nbaseline = "a"',
    "search": 'search = true\nbaseline = "a"',
}


@pytest.mark.parametrize("name", STATISTICS)
def test_statistics(session, tmp_path, name):
    make_logs(tmp_path)
    text = PLAIN + f"\n[statistics]\n{STATISTICS[name]}\n"
    if name == "weight":
        frame = pl.read_parquet(tmp_path / "users.parquet")
        more = pl.DataFrame({"who": range(115, 140), "age": [40] * 25, "kind": ["new"] * 25})
        pl.concat([frame, more]).write_parquet(tmp_path / "users.parquet")
    if name == "unbounded":
        text = text.replace('"AP"', '"DCG@5", "hits@5"')
    if name == "two_way":
        text = text.replace(', "AP", "RR"', "")
    if name == "search":
        text += '[segments]\nkind = { path = "users.parquet", by = "kind", user = "who" }\n'

    check(text, tmp_path)


POLICIES = {
    "score": 'ties = "item-desc"\n',
    "expected": 'ties = "expected"\n',
    "mean-rank": 'ties = "mean-rank"\n',
    "float32": 'score_type = "float32"\n',
    "count": 'unknown_users = "count"\nno_relevant = "zero"\n',
}


@pytest.mark.parametrize("name", POLICIES)
def test_policies(session, tmp_path, name):
    make_logs(tmp_path)
    for model in "ab":
        frame = pl.read_parquet(tmp_path / f"{model}.parquet")
        frame.drop("rank").write_parquet(tmp_path / f"{model}.parquet")

    check(PLAIN + f"\n[policies]\n{POLICIES[name]}", tmp_path)


def test_a_sample_is_the_same_sample(session, tmp_path):
    make_logs(tmp_path)

    check(PLAIN, tmp_path, sample=0.3)


@pytest.mark.parametrize("kind", ["int32", "text"])
def test_values_of_users(session, tmp_path, kind):
    make_logs(tmp_path, user=TYPES[kind])

    assert check(ALL, tmp_path, per_user=True).beside
    assert check(ALL, tmp_path, per_user=["RR"], keep_parts=True).beside


def test_where_and_columns_of_sql(session, tmp_path):
    make_logs(tmp_path)
    text = PLAIN.replace(
        'truth.path = "truth.parquet"',
        '[truth]\npath = "truth.parquet"\nwhere = "country <> \'de\' AND item > 3"\n'
        'columns = { user = "user", item = "item", relevance = "relevance / 2" }',
    )

    check(text, tmp_path)


def spoil(folder, name, *columns):
    path = folder / f"{name}.parquet"
    pl.read_parquet(path).with_columns(columns).write_parquet(path)


FAULTS = {
    "null-id": ("truth", pl.when(pl.col("item") > 7).then("item").alias("item")),
    "bad-rank": ("a", pl.when(pl.col("rank") != 2).then("rank").otherwise(-3).alias("rank")),
    "duplicate-rank": ("b", pl.when(pl.col("rank") < 5).then("rank").otherwise(5).alias("rank")),
    "duplicate-item": ("b", (pl.col("item") // 3).alias("item")),
    "no-common-user": ("a", (pl.col("user") + 1000).alias("user")),
    "bad-relevance": ("truth", (pl.col("relevance") / 0.0).alias("relevance")),
    "gain": ("truth", (pl.col("relevance") * 1e200).alias("relevance")),
    "conflict": ("truth", pl.col("item").cast(pl.String).alias("country")),
    "float-id": ("a", pl.col("user").cast(pl.Float64)),
    "id-kind": ("a", pl.col("user").cast(pl.String)),
    "missing-column": ("a", pl.col("item").alias("article")),
    "nothing": ("a", pl.col("item")),
}


@pytest.mark.parametrize("name", FAULTS)
def test_errors_of_the_data_are_those_of_one_process(session, tmp_path, name):
    make_logs(tmp_path)
    table, column = FAULTS[name]
    spoil(tmp_path, table, column)
    if name == "nothing":
        pl.read_parquet(tmp_path / "a.parquet").clear().write_parquet(tmp_path / "a.parquet")
    if name == "missing-column":
        frame = pl.read_parquet(tmp_path / "a.parquet")
        frame.drop("item", "article").write_parquet(tmp_path / "a.parquet")

    check(ALL.replace("cross", "#"), tmp_path, status=3)


REFUSED = {
    'ties = "input"': "[policies]",
    'duplicates = "first"': "[policies]",
    'truth_duplicates = "last"': "[policies]",
    "names = [\"tail_share(head='first')@5\"]": "[metrics]",
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_does_not_work_is_refused_by_name(tmp_path, what):
    make_logs(tmp_path)
    text = PLAIN
    if what.startswith("names"):
        text = re.sub("names = .*", what, text) + '\n[train]\npath = "train.parquet"\n'
    else:
        text += f"{REFUSED[what]}\n{what}\n"
    if "ties" in what:
        for model in "ab":
            frame = pl.read_parquet(tmp_path / f"{model}.parquet")
            frame.drop("rank").write_parquet(tmp_path / f"{model}.parquet")
    config = parse_config(text + '[engine]\nkind = "spark"\n', source="x.toml", base=tmp_path)

    with pytest.raises(EvalkitError) as caught:
        run_config(config)

    assert caught.value.code == "not-on-spark"


def test_the_engine_belongs_to_no_key_and_to_no_report(session, tmp_path):
    make_logs(tmp_path)
    one, spark = (
        run_config(parse_config(PLAIN + each, source="x.toml", base=tmp_path))
        for each in ("", '[engine]\nkind = "spark"\npartitions = 2\n')
    )

    assert spark.run_key == one.run_key
    assert spark.config == one.config


def test_data_frames(session, tmp_path):
    import evalkit
    import evalkit.spark

    make_logs(tmp_path)
    tables = {
        name: pl.read_parquet(tmp_path / f"{name}.parquet") for name in ("truth", "a", "users")
    }
    frames = {name: session.read.parquet(str(tmp_path / f"{name}.parquet")) for name in tables}
    asked = {"metrics": ["nDCG@5", "RR"], "statistics": {"level": 0.9}}
    found = []
    for evaluate, given in ((evalkit.evaluate, tables), (evalkit.spark.evaluate, frames)):
        segments = {"kind": {"path": given["users"], "by": "kind", "user": "who"}}
        report = evaluate(given["truth"], {"a": given["a"]}, segments=segments, **asked)
        document = json.loads(report.to_json())
        found.append({key: document[key] for key in document if key not in OF_ITS_OWN})

    assert found[0] == found[1]


def test_the_command_judges_gates_and_publishes(session, tmp_path, capsys):
    from evalkit.cli.app import run_command

    make_logs(tmp_path)
    gates = '[[gates]]\nmetric = "RR"\nmodel = "b"\nmax_drop = 0.5\nbaseline = "a"\n'
    (tmp_path / "nightly.toml").write_text(f'statistics.baseline = "a"\n{PLAIN}{gates}')
    said = []
    for engine in ("local", "spark"):
        asked = [str(tmp_path / "nightly.toml"), "--out", str(tmp_path / engine), "--quiet"]
        assert run_command(["run", *asked, "--engine", engine, "--json"]) == 0
        said.append(json.loads(capsys.readouterr().out))

    own = ("meta", "run_id")
    one, spark = ({key: each[key] for key in each if key not in own} for each in said)
    assert one == spark
    assert one["gates"]


def test_rows_that_spark_does_not_read_are_missed(session, tmp_path):
    make_logs(tmp_path)
    truth = pl.read_parquet(tmp_path / "truth.parquet")
    (tmp_path / "more").mkdir()
    truth.head(100).write_parquet(tmp_path / "more" / "part.parquet")
    truth.slice(100).write_parquet(tmp_path / "more" / "_part.parquet")
    text = PLAIN.replace('"truth.parquet"', '["more/part.parquet", "more/_part.parquet"]')
    text += '[engine]\nkind = "spark"\npartitions = 2\n'
    config = parse_config(text, source="x.toml", base=tmp_path)

    with pytest.raises(EvalkitError) as caught:
        run_config(config)

    assert caught.value.code == "spark-failed"
    assert "Spark read 100 rows of truth" in caught.value.message


def test_frames_of_this_process_are_refused(session):
    import evalkit.spark

    frame = pl.DataFrame({"user": [1], "item": [1], "rank": [1]})
    with pytest.raises(EvalkitError) as caught:
        evalkit.spark.evaluate(frame, {"a": frame}, metrics=["RR"])

    assert caught.value.code == "not-on-spark"
