"""Spark gives the bytes of one process, says what is wrong in its words, and refuses the rest."""

import json

import polars as pl
import pytest

pytest.importorskip("pyspark", reason="Spark is not installed: pip install evalkit-recsys[spark]")

from on_spark import TYPES, both, check
from spark_logs import ALL, PLAIN, make_logs

from evalkit.config import parse_config
from evalkit.errors import EvalkitError
from evalkit.pipeline import run_config

pytestmark = [pytest.mark.spark, pytest.mark.filterwarnings("ignore")]

OF_ITS_OWN = ("meta", "run_id", "run_key", "inputs")


@pytest.mark.parametrize("partitions", [1, 65])  # of more than 64 executors merge groups
def test_segments_crosses_curves_and_comparisons(session, tmp_path, partitions):
    make_logs(tmp_path)

    found = check(ALL, tmp_path, partitions=partitions)

    assert json.loads(found.said)["comparisons"]


@pytest.mark.parametrize(("kind", "of_items"), [*zip(TYPES, 4 * ("int32", "text"), strict=True)])
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


def test_the_engine_belongs_to_no_key_and_to_no_report(session, tmp_path):
    make_logs(tmp_path)
    one, spark = (
        run_config(parse_config(PLAIN + each, source="x.toml", base=tmp_path))
        for each in ("", '[engine]\nkind = "spark"\npartitions = 2\n')
    )

    assert spark.run_key == one.run_key
    assert spark.config == one.config


def test_workers_look_for_no_garbage_among_modules(session, tmp_path):
    """Spark lets them look after every task: a tenth of a second."""

    def count(batches):
        import gc

        import pyarrow as pa

        for _ in batches:
            yield pa.record_batch({"n": [gc.get_freeze_count()]})

    make_logs(tmp_path)
    both(PLAIN, tmp_path)

    rows = session.range(0, 4, 1, 4).mapInArrow(count, "n bigint").collect()

    assert max(row.n for row in rows) > 100_000


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


def test_frames_of_this_process_are_refused(session):
    import evalkit.spark

    frame = pl.DataFrame({"user": [1], "item": [1], "rank": [1]})
    with pytest.raises(EvalkitError) as caught:
        evalkit.spark.evaluate(frame, {"a": frame}, metrics=["RR"])

    assert caught.value.code == "not-on-spark"


SCORED = PLAIN.replace('path = "a.parquet"', 'path = "a.parquet"\ncolumns = { score = "score" }')
STRICTER = {
    "bad-score": (SCORED, pl.when(pl.col("rank") < 3).then(float("nan")).otherwise("score")),
    "infinite-score": (SCORED, pl.when(pl.col("rank") < 3).then(float("inf")).otherwise("score")),
    "unknown-user": (PLAIN + '[policies]\nunknown_users = "error"\n', pl.col("score")),
    "depth": (
        PLAIN.replace("nDCG@5", "nDCG@50") + '[policies]\nbeyond_depth = "error"\n',
        pl.col("score"),
    ),
    "in-train": (
        PLAIN + '[train]\npath = "train.parquet"\n[policies]\ntruth_in_train = "error"\n',
        pl.col("score"),
    ),
    "bad-cast": (SCORED.replace('"score"', '"cast(score as bigint)"'), pl.lit("x")),
    "bad-sql": (SCORED.replace('"score"', '"sum(score)"'), pl.col("score")),
    "bad-where": (
        PLAIN.replace('path = "a.parquet"', 'path = "a.parquet"\nwhere = "scores > 2"'),
        pl.col("score"),
    ),
    "null-model": (
        '[truth]\npath = "truth.parquet"\n[[rankings]]\npath = "a.parquet"\n'
        'columns = { model = "score", rank = "rank" }\n[metrics]\nnames = ["RR"]\n',
        pl.when(pl.col("rank") > 2).then(pl.lit("m")),
    ),
}


@pytest.mark.parametrize("name", STRICTER)
def test_policies_and_columns_that_refuse(session, tmp_path, name):
    make_logs(tmp_path)
    text, score = STRICTER[name]
    spoil(tmp_path, "a", score.alias("score"))

    found = check(text, tmp_path, status=None)

    assert found.status or name == "infinite-score"


@pytest.mark.parametrize("how", ["cut short", "overwritten"])
def test_a_damaged_file_is_told_as_here(session, tmp_path, how):
    make_logs(tmp_path)
    path = tmp_path / "a.parquet"
    content, middle = path.read_bytes(), path.stat().st_size // 2
    rest = content[middle:] if how == "overwritten" else b""
    path.write_bytes(content[:4] + bytes(middle - 4) + rest)

    check(PLAIN, tmp_path, status=3)


def test_copies_in_the_truth(session, tmp_path):
    make_logs(tmp_path)
    truth = pl.read_parquet(tmp_path / "truth.parquet")
    pl.concat([truth, truth.head(9)]).write_parquet(tmp_path / "truth.parquet")

    check(PLAIN + '[policies]\ntruth_duplicates = "error"\n', tmp_path, status=3)
    check(PLAIN + '[policies]\ntruth_duplicates = "sum"\n', tmp_path)


def test_hits_count_by_their_propensities(session, tmp_path):
    make_logs(tmp_path)
    frame = pl.read_parquet(tmp_path / "truth.parquet")
    chance = 0.05 + 0.9 * (pl.col("item").cast(pl.Int64) % 10) / 10
    frame.with_columns(p=chance).write_parquet(tmp_path / "truth.parquet")
    truth = '[truth]\npath = "truth.parquet"\nmin_propensity = 0.1\n'
    truth += 'columns = { user = "user", item = "item", propensity = "p" }\n'

    found = check(PLAIN.replace('truth.path = "truth.parquet"', truth), tmp_path)

    assert "propensity-raised" in found.said


@pytest.mark.parametrize(
    "statistics",
    ["", 'cluster = "user % 5"\nweight = { by = "n_relevant" }'],
    ids=["plain", "clusters"],
)
def test_numbers_over_users_and_of_two_metrics(session, tmp_path, statistics):
    make_logs(tmp_path)
    names = ["median(nDCG@5)", "tail_mean(AP, share=0.3)", "quantile(RR, q=0.7)",
             "f_of(precision, recall)@5", "median(f_of(RR, recall)@5)"]  # fmt: skip
    asked = PLAIN.partition("[metrics]")[0] + f"[metrics]\nnames = {json.dumps(names)}\n"

    found = check(f'{asked}[statistics]\nbaseline = "a"\n{statistics}', tmp_path)

    assert json.loads(found.said)["comparisons"]
