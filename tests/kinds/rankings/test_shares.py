"""Shares of rankings: logs laid out by user, several tables, and what only the whole can tell."""

import json

import numpy as np
import polars as pl
import pytest

from evalkit.config import build_config
from evalkit.errors import DataError, RequestError
from evalkit.pipeline import conclude_partials, measure_partial, run_config
from evalkit.planning.partials import open_partials
from evalkit.planning.tables import Given

IDS = {"user": "user", "item": "item"}
RANKED = {**IDS, "rank": "rank"}
N_SHARES = 4
OWN = ("meta", "run_id", "run_key", "inputs")


@pytest.fixture(scope="module")
def laid_out(tmp_path_factory):
    """A log in buckets of users, the last of which has nobody, and whole in one file."""
    folder, rng = tmp_path_factory.mktemp("buckets"), np.random.default_rng(3)
    pairs = pl.DataFrame({"user": range(90)}).join(pl.DataFrame({"item": range(20)}), how="cross")
    tables = {"truth": pairs.filter(pl.Series(rng.random(pairs.height) < 0.2))}
    for model in ("als", "bpr"):
        kept = pairs.filter(pl.Series(rng.random(pairs.height) < 0.4))
        tables[model] = kept.with_columns(rank=pl.int_range(1, pl.len() + 1).over("user"))
    tables["both"] = pl.concat(
        [tables[name].with_columns(model=pl.lit(name)) for name in ("bpr", "als")]
    )
    shops = [f"shop {n % 4}" for n in range(90)]
    tables["shops"] = pl.DataFrame({"user": range(90), "shop": shops})
    for name, table in tables.items():
        for share in range(N_SHARES):
            bucket = table.filter(pl.col("user") % (N_SHARES - 1) == share)
            (folder / name / f"bucket={share}").mkdir(parents=True)
            bucket.write_parquet(folder / name / f"bucket={share}" / "part.parquet")
    users = pl.DataFrame({"user": range(90), "age": [20 + n % 7 for n in range(90)]})
    users.write_parquet(folder / "users.parquet")
    return folder


def config_of(folder, place, *, together=False, **sections):
    """`place` stands for the bucket in paths."""

    def table(name, **more):
        return {"path": str(folder / name / f"bucket={place}" / "*.parquet"), **more}

    rankings = [table(name, columns=RANKED, model=name) for name in ("bpr", "als")]
    if together:
        rankings = [table("both", columns={**RANKED, "model": "model"})]
    tree = {
        "truth": table("truth", columns=IDS),
        "rankings": rankings,
        "metrics": {"names": ["nDCG@5", "hits@3"]},
        "statistics": {"baseline": "als", "method": "bootstrap", "replicates": 100},
        **sections,
    }
    return build_config(tree, name="buckets")


def told(report):
    document = json.loads(report.to_json())
    return {key: value for key, value in document.items() if key not in OWN}


def merged(config, folder, order=(3, 1, 4, 2)):
    """The report of all shares, each of which wrote a file."""
    paths = []
    for share in order:
        paths.append(folder / f"share-{share}")
        measure_partial(config, (share, N_SHARES)).write(paths[-1])
    return conclude_partials(open_partials(paths))


@pytest.mark.parametrize("together", [False, True])
def test_a_log_laid_out_by_user_gives_what_the_whole_log_gives(laid_out, tmp_path, together):
    age = {"path": str(laid_out / "users.parquet"), "user": "user", "by": "age"}

    def config_at(place):
        shops = str(laid_out / "shops" / f"bucket={place}" / "*.parquet")
        shop = {"path": shops, "user": "user", "by": "shop"}
        segments = {"age": age, "shop": shop, "min_users": 3}
        return config_of(laid_out, place, together=together, segments=segments)

    whole, config = run_config(config_at("*")), config_at("{share0}")

    report = merged(config, tmp_path)

    assert told(report) == told(whole)
    rows = [[each.rows for each in one.inputs] for one in (report, whole)]
    assert rows[0] == rows[1]


@pytest.mark.parametrize("test", ["t", "permutation"])
def test_shares_whose_values_lie_below_minus_one_are_drawn_as_one_log(tmp_path, test):
    users = [user for user in range(8) for _ in range(2)]
    truth = {"user": users, "item": [0, 1] * 8, "relevance": [1.0, -5.0, 1.0, 0.0] * 4}
    ranked = {"user": range(8), "rank": [1] * 8}
    tables = {
        "truth": truth,
        "als": {**ranked, "item": [0] * 8},
        "bpr": {**ranked, "item": [1] * 8},
    }
    for name, table in tables.items():
        pl.DataFrame(table).write_parquet(tmp_path / f"{name}.parquet")
    columns = {**IDS, "relevance": "relevance"}
    tree = {
        "truth": {"path": str(tmp_path / "truth.parquet"), "columns": columns},
        "rankings": [
            {"path": str(tmp_path / f"{name}.parquet"), "columns": RANKED, "model": name}
            for name in ("als", "bpr")
        ],
        "metrics": {"names": ["nDCG@5"]},
        "policies": {"negative_relevance": "subtract"},
        "statistics": {"baseline": "als", "method": "bootstrap", "replicates": 100, "test": test},
    }
    config = build_config(tree, name="below")

    whole = run_config(config)

    assert whole.value("nDCG@5", model="bpr") == -2.5  # -5 and 0 by turns
    assert told(merged(config, tmp_path)) == told(whole)


def test_a_share_without_users_has_no_crossed_segments_of_lists(tmp_path):
    items = pl.DataFrame({"item": range(5)})
    truth = pl.DataFrame({"user": [1, 1, 2], "item": [0, 1, 2], "kind": ["a", "a", "b"]})
    for name, table in (("items", items), ("truth", truth), ("als", truth.with_columns(rank=1))):
        table.write_parquet(tmp_path / f"{name}.parquet")
    tree = {
        "truth": {"path": str(tmp_path / "truth.parquet"), "columns": IDS},
        "rankings": [{"path": str(tmp_path / "als.parquet"), "columns": RANKED, "model": "als"}],
        "items": {"path": str(tmp_path / "items.parquet"), "columns": {"item": "item"}},
        "metrics": {"names": ["item_coverage@2"]},
        "policies": {"bad_ranks": "keep"},
        "segments": {
            "kind": {"by": "kind"},
            "many": {"by": "n_relevant", "edges": [2]},
            "cross": [["kind", "many"]],
        },
    }
    config = build_config(tree, name="few")

    whole = run_config(config)

    assert whole.value("item_coverage@2") == 0.6
    assert told(merged(config, tmp_path)) == told(whole)


def test_quantiles_of_a_log_laid_out_by_user_are_refused(laid_out):
    activity = {"activity": {"by": "n_relevant", "quantiles": 3}}
    config = config_of(laid_out, "{share0}", segments=activity)

    with pytest.raises(RequestError, match="quantiles are those of all users") as caught:
        measure_partial(config, (1, N_SHARES))

    assert caught.value.code == "quantiles-laid-out"


def test_a_model_that_some_shares_cannot_know_of_is_refused(laid_out, tmp_path):
    folder = tmp_path / "cut"
    for name in ("truth", "both"):
        for share in range(2):
            (folder / name / f"bucket={share}").mkdir(parents=True)
            rows = pl.read_parquet(laid_out / name / f"bucket={share}" / "part.parquet")
            if name == "both" and share == 1:
                rows = rows.filter(pl.col("model") != "bpr")
            rows.write_parquet(folder / name / f"bucket={share}" / "part.parquet")
    config = config_of(folder, "{share0}", together=True)
    one, other = (measure_partial(config, (share, 2)) for share in (1, 2))
    one.merge(other)

    with pytest.raises(DataError, match="no rows of 'bpr'") as caught:
        conclude_partials(one)

    assert caught.value.code == "model-not-in-share"


def two_tables(**statistics):
    truth = pl.DataFrame({"user": [1, 2], "item": [1, 2]})
    tree = {
        "truth": {"path": ["memory"], "columns": IDS},
        "rankings": [{"path": ["memory"], "columns": {**RANKED, "model": "model"}}] * 2,
        "metrics": {"names": ["recall@1"]},
        "statistics": statistics,
    }
    return truth, build_config(tree, name="two")


@pytest.mark.parametrize("statistics", [{}, {"pairs": "all"}])
def test_a_model_in_two_tables_is_refused(statistics):
    truth, config = two_tables(**statistics)
    ranked = truth.with_columns(rank=pl.lit(1), model=pl.lit("als"))
    given = Given(truth, [ranked, ranked])

    with pytest.raises(DataError, match="two tables have rows of 'als'") as caught:
        run_config(config, given=given)
    partial = measure_partial(config, (2, 2), given=given)
    partial.merge(measure_partial(config, (1, 2), given=given))
    with pytest.raises(DataError, match="two tables have rows of 'als'"):
        conclude_partials(partial)

    assert (caught.value.code, caught.value.hint) == ("duplicate-model", "leave out or rename one")


def test_each_table_counts_its_own_rows():
    truth, config = two_tables()
    als = truth.with_columns(rank=pl.lit(1), model=pl.lit("als"))
    bpr = als[:1].with_columns(model=pl.lit("bpr"))

    report = run_config(config, given=Given(truth, [als, bpr]))

    assert [each.rows for each in report.inputs] == [2, 2, 1]


def test_missing_shares_are_told(laid_out, tmp_path):
    config = config_of(laid_out, "{share0}")
    measure_partial(config, (2, N_SHARES)).write(tmp_path / "two")

    report = conclude_partials(open_partials([tmp_path / "two"], allow_missing=True))

    (warning,) = (each for each in report.warnings if each.code == "missing-shares")
    assert "shares 1, 3-4 of 4 are missing" in warning.message


def without_a_table(sums):
    del sums.tables["als"]


def with_totals_of_another(sums):
    sums.totals = type(sums.totals)()


def with_a_fault_in_no_table(sums):
    sums.tables["als"] = 7


@pytest.mark.parametrize(
    "craft", [without_a_table, with_totals_of_another, with_a_fault_in_no_table]
)
def test_sums_of_files_that_nothing_measured_are_refused(laid_out, tmp_path, craft):
    config, paths = config_of(laid_out, "{share0}"), [tmp_path / "one", tmp_path / "two"]
    for number, path in enumerate(paths, 1):
        partial = measure_partial(config, (number, 2))
        craft(partial.body)
        partial.write(path)  # with a right checksum

    with pytest.raises(DataError) as caught:
        conclude_partials(open_partials(paths))

    assert caught.value.code == "damaged-partial"
    assert str(paths[0]) in caught.value.at


def test_values_that_were_not_kept_are_refused(laid_out):
    partial = measure_partial(config_of(laid_out, "{share0}"), (1, 1))

    with pytest.raises(RequestError) as caught:
        conclude_partials(partial, per_user=True)

    assert caught.value.code == "values-not-kept"
    assert "--per-user" in caught.value.hint
