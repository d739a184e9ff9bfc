"""What no partition knows by itself: popular items, quantiles, lists of others, names of models."""

import polars as pl
import pytest

pytest.importorskip("pyspark", reason="Spark is not installed: pip install evalkit-recsys[spark]")

from on_spark import TYPES, check
from spark_logs import BESIDE, ON_TRAIN, QUANTILES, TABLES, make_lists, spell

pytestmark = [pytest.mark.spark, pytest.mark.filterwarnings("ignore")]

NAMES = """age alpha_ndcg avg_popularity calibration category_count EFD effective_items eild
entropy err_ia evenness expected_popularity_complement fresh_share genre_entropy gini
gini_exposure hhi ild ils item_coverage jaccard least_item_promoted kendall_tau list_fill
list_length list_surprisal nerr_ia novelty AP_IA P_IA NRBP popularity_serendipity
novelty_of_rows overlap personalization pop_reo pop_rsp popularity_lift popularity_quantile
prediction_coverage rbo serendipity subtopic_recall tail_count tail_share temporal_diversity
temporal_novelty unexpectedness unrepeated unseen_share user_count user_coverage"""
GROUPED = "awrf bias_disparity exposure_equity exposure_parity item_mad reo rsp"
LABELS = [
    *(name + "@5" * (name != "prediction_coverage") for name in NAMES.split()),
    *(f"{name}(by='genres')@5" for name in GROUPED.split()),
    "mad(by='age')@5",
    "nDCG@5",
]
WITHOUT_TRUTH = ["item_coverage@5", "gini@5", "novelty@5", "ild@5", "list_length@5"]
KINDS = [
    *(("int32", "uint64"), ("text", "text"), ("int32", "category"), ("text", "date")),
    *(("int32", "ms"), ("text", "zone"), ("text", "int32")),
]


@pytest.mark.parametrize(("user", "item"), KINDS)
def test_popular_items_and_quantiles_of_ids_of_every_type(session, tmp_path, user, item):
    make_lists(tmp_path, TYPES[user], TYPES[item])

    check(TABLES + BESIDE + spell(ON_TRAIN) + QUANTILES, tmp_path)


@pytest.mark.parametrize("partitions", [1, 6])
def test_every_metric_of_lists(session, tmp_path, partitions):
    make_lists(tmp_path)
    tables = TABLES
    for model in "ab":
        own = f'path = "{model}.parquet"\n'
        tables = tables.replace(own, own + 'earlier = ["before.parquet", "other.parquet"]\n')
    names = spell(LABELS).replace("names", 'reference = "other.parquet"\nnames')
    users = '[users]\npath = "wanted.parquet"\n'

    check(tables + BESIDE + users + names + QUANTILES, tmp_path, partitions=partitions)


def test_models_are_compared_by_lists(session, tmp_path):
    make_lists(tmp_path)
    drawn = '\n[statistics]\nbaseline = "a"\nmethod = "bootstrap"\nreplicates = 100\n'
    names = ["nDCG@5", "gini@5", "item_coverage@5", "novelty@5"]

    check(TABLES + BESIDE + spell(names) + QUANTILES + drawn, tmp_path, partitions=5)


def test_lists_without_right_answers(session, tmp_path):
    make_lists(tmp_path)
    tables = TABLES.replace('[truth]\npath = "truth.parquet"\n', "")

    check(tables + BESIDE + spell(WITHOUT_TRUTH), tmp_path)


@pytest.mark.parametrize(
    ("list_users", "who"),
    [("list", "skip"), ("relevant", "count"), ("train", "skip"), ("all", "count")],
)
def test_users_whom_the_truth_lacks(session, tmp_path, who, list_users):
    make_lists(tmp_path)
    policies = f'[policies]\nunknown_users = "{who}"\nlist_users = "{list_users}"\n'

    check(TABLES + BESIDE + spell(ON_TRAIN) + policies + QUANTILES, tmp_path)


def test_samples_and_copies_in_train(session, tmp_path):
    make_lists(tmp_path)

    check(
        TABLES + BESIDE + spell([*ON_TRAIN, "novelty_of_rows@5"]) + QUANTILES, tmp_path, sample=0.5
    )


@pytest.mark.parametrize("beside", ["", QUANTILES])
def test_a_column_names_the_models(session, tmp_path, beside):
    make_lists(tmp_path)
    both = [pl.read_parquet(tmp_path / f"{m}.parquet").with_columns(who=pl.lit(m)) for m in "ab"]
    rare = both[1].filter(pl.col("rank") == 1).head(3).with_columns(who=pl.lit("rare"))
    pl.concat([*both, rare]).write_parquet(tmp_path / "both.parquet")
    tables = '[truth]\npath = "truth.parquet"\n[[rankings]]\npath = "both.parquet"\n'
    tables += 'columns = { model = "upper(who)", rank = "rank" }\n'
    compared = '\n[statistics]\nbaseline = "A"\n'

    check(tables + spell(["nDCG@5", "RR"]) + beside + compared, tmp_path, partitions=6)


FAULTS = {
    "item-twice": ("items", (pl.col("item") // 2).alias("item")),
    "null-train": ("train", pl.when(pl.col("item") > 3).then("item").alias("item")),
    "null-truth": ("truth", pl.when(pl.col("item") > 3).then("item").alias("item")),
    "text-age": ("users", pl.col("age").cast(pl.String) + "x"),
    "two-ages": ("users", (pl.col("who") // 2).alias("who")),
    "unlisted": ("items", (pl.col("item") + 20).alias("item")),
    "bad-date": ("items", pl.lit("never").alias("published")),
}


@pytest.mark.parametrize("name", FAULTS)
def test_faults_are_those_of_one_process(session, tmp_path, name):
    make_lists(tmp_path)
    table, column = FAULTS[name]
    path = tmp_path / f"{table}.parquet"
    pl.read_parquet(path).with_columns(column).write_parquet(path)

    check(TABLES + BESIDE + spell([*ON_TRAIN, "age@5"]) + QUANTILES, tmp_path, status=None)
