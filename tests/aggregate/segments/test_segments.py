"""Segments, intervals and comparisons of a run, against what a frame of per-user values says."""

import copy
import math

import numpy as np
import polars as pl
import pytest
from segmented_logs import ITEMS, N_USERS, make_logs

import evalkit
from evalkit import pipeline
from evalkit.aggregate.segments import quantile_edges
from evalkit.config import build_config
from evalkit.errors import DataError, EvalkitError, RequestError
from evalkit.statistics.intervals import mean_interval

stats = pytest.importorskip("scipy.stats")


@pytest.fixture(scope="module")
def logs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("segments")
    return folder, *make_logs(folder)


def config_of(folder, *, models=("a", "b"), **sections):
    columns = {"rank": "rank"}
    tree = {
        "truth": {"path": str(folder / "truth.parquet")},
        "rankings": [
            {"model": model, "path": str(folder / f"{model}.parquet"), "columns": dict(columns)}
            for model in models
        ],
        "metrics": {"names": ["nDCG@8", "recall@{4,8}", "hit@4", "RR"]},
        **copy.deepcopy(sections),
    }
    return build_config(tree, name="segments", entry_point="python")


def run(folder, *, threads=2, per_user=False, **sections):
    return pipeline.run_config(config_of(folder, **sections), threads=threads, per_user=per_user)


def table(folder, by, **more):
    return {"path": str(folder / "users.parquet"), "user": "who", "by": by, **more}


def body(report):
    return report.to_json().split('"counts"')[1].split('"meta"')[0]


def by_hand(report, metric, model, groups):
    """Mean, standard error and number of users of each group of a frame of users."""
    values = report.per_user(metric, model=model).join(groups, on="user", how="left")
    mean, error = pl.col("value").mean(), pl.col("value").std() / pl.len().sqrt()
    found = values.group_by("group").agg(mean.alias("mean"), error.alias("error"), pl.len())
    return {row[0] or "(unknown)": row[1:] for row in found.rows()}


def of_segments(report, metric, model, segmentation):
    return {
        each.segment: each
        for each in report.estimates
        if (each.metric, each.model, each.segmentation) == (metric, model, segmentation)
    }


GROUPS = {
    "kind": lambda truth, people: people.select(user="who", group="kind"),
    "country": lambda truth, people: truth.group_by("user").agg(group=pl.col("country").first()),
    "n": lambda truth, people: truth.group_by("user").agg(
        group=pl.when(pl.len() < 4).then(pl.lit("< 4")).otherwise(pl.lit(">= 4"))
    ),
}


@pytest.mark.parametrize("name", GROUPS)
@pytest.mark.parametrize("metric", ["nDCG@8", "recall@4", "hit@4"])
def test_a_segment_has_the_mean_of_its_users(logs, name, metric):
    folder, truth, people = logs
    rules = {
        "kind": table(folder, "kind"),
        "country": {"by": "country"},
        "n": {"by": "n_relevant", "edges": [4]},
    }

    report = run(folder, per_user=True, segments={name: rules[name]})

    expected = by_hand(report, metric, "b", GROUPS[name](truth, people))
    found = of_segments(report, metric, "b", name)
    assert set(found) == set(expected)
    for segment, (mean, error, n_users) in expected.items():
        assert found[segment].value == pytest.approx(mean, rel=1e-12)
        assert found[segment].std_error == pytest.approx(error, rel=1e-12)
        assert found[segment].n_users == n_users


def test_quantiles_hold_as_many_users_and_their_upper_edge(logs):
    folder, _, people = logs
    report = run(folder, segments={"age": table(folder, "age", quantiles=4)})

    found = of_segments(report, "RR", "a", "age")
    ages = np.sort(people["age"].to_numpy())
    edges = [int(ages[math.ceil(ages.size * q / 4) - 1]) for q in (1, 2, 3)]
    low, middle, high = edges
    assert list(found) == [
        *(f"<= {low}", f"({low}, {middle}]", f"({middle}, {high}]", f"> {high}", "(unknown)"),
    ]
    assert found[f"<= {low}"].n_users == int((ages <= low).sum())
    assert found["(unknown)"].n_users == 20


@pytest.mark.parametrize(
    ("numbers", "n", "edges"),
    [
        ([1, 2, 3, 4], 2, [2]),
        ([1, 1, 1, 1], 4, []),
        ([1, 1, 1, 9], 2, [1]),
        ([5, math.nan, 1], 2, [1]),
        ([], 3, []),
        ([1, 2, 3], 3, [1, 2]),
    ],
)
def test_equal_numbers_stay_in_one_bucket(numbers, n, edges):
    assert quantile_edges(np.array(numbers, dtype=np.float64), n) == edges


def test_crosses_and_small_segments_add_up_to_all_users(logs):
    folder, _, _ = logs
    segments = {
        "kind": table(folder, "kind"),
        "age": table(folder, "age", quantiles=8),
        "cross": [["kind", "age"]],
        "min_users": 14,
    }

    report = run(folder, segments=segments)

    for name in ("kind", "age", "kind & age"):
        found = of_segments(report, "nDCG@8", "a", name)
        assert sum(each.n_users for each in found.values()) == N_USERS
        assert all(each.n_users >= 14 or each.segment == "(small)" for each in found.values())
    assert "(small)" in of_segments(report, "nDCG@8", "a", "kind & age")
    assert "small-segments" in [each.code for each in report.warnings]


@pytest.mark.some_cases(2)
@pytest.mark.parametrize(
    "statistics",
    [
        {"baseline": "a"},
        {"pairs": "all", "correction": "bh", "margin": 0.05},
        {"baseline": "b", "method": "bootstrap", "limits": "bca", "replicates": 200},
        {"baseline": "b", "method": "bootstrap", "limits": "studentised", "test": "bootstrap"},
        {"baseline": "c", "test": "wilcoxon", "curves": True, "distributions": True},
        {"baseline": "c", "test": "permutation", "replicates": 200},
    ],
)
def test_threads_passes_and_order_change_no_byte(logs, monkeypatch, tmp_path, statistics):
    folder, _, _ = logs
    segments = {
        "kind": table(folder, "kind"),
        "age": table(folder, "age", quantiles=3),
        "n": {"by": "n_relevant", "quantiles": 2},
        "cross": [["kind", "n"]],
        "min_users": 15,
    }
    sections = {"segments": segments, "statistics": statistics, "models": ("a", "b", "c")}
    reference = body(run(folder, **sections))
    for file in folder.glob("*.parquet"):
        frame = pl.read_parquet(file)
        frame.sample(fraction=1, shuffle=True, seed=3).write_parquet(tmp_path / file.name)
    shuffled = copy.deepcopy(sections)
    for name in ("kind", "age"):
        shuffled["segments"][name]["path"] = str(tmp_path / "users.parquet")

    assert body(run(tmp_path, threads=1, **shuffled)) == reference
    monkeypatch.setattr("evalkit.kinds.rankings.measure.count_shares", lambda *given: 3)
    monkeypatch.setattr(
        "evalkit.aggregate.segments._cells.USUAL_BYTES", 0
    )  # as many sets as possible
    monkeypatch.setattr("evalkit.aggregate.segments._cells.FEWEST_CELLS", 1)
    assert body(run(folder, **sections)) == reference


def paired(report, metric):
    one, other = (report.per_user(metric, model=model)["value"].to_numpy() for model in "ab")
    return one, other


@pytest.mark.parametrize("metric", ["nDCG@8", "recall@4", "RR"])
def test_a_comparison_is_the_paired_t_test_of_scipy(logs, metric):
    folder, _, _ = logs
    plain = {"baseline": "a", "skewness": False}
    report = run(folder, per_user=True, statistics=plain)

    (found,) = [each for each in report.comparisons if each.metric == metric]
    one, other = paired(report, metric)
    expected = stats.ttest_rel(other, one)
    interval = expected.confidence_interval(0.95)
    assert found.delta == pytest.approx((other - one).mean(), abs=1e-15)
    assert found.p_value == pytest.approx(expected.pvalue, rel=1e-10)
    assert (found.low, found.high) == pytest.approx((interval.low, interval.high), rel=1e-10)
    assert found.wins == (other > one).sum()
    assert found.ties == (other == one).sum()
    assert found.losses == (other < one).sum()


def test_wilcoxon_is_that_of_scipy(logs):
    folder, _, _ = logs
    report = run(folder, per_user=True, statistics={"baseline": "a", "test": "wilcoxon"})

    for metric in ("nDCG@8", "RR"):
        (found,) = [each for each in report.comparisons if each.metric == metric]
        one, other = paired(report, metric)
        assert found.p_value == pytest.approx(stats.wilcoxon(other, one).pvalue, rel=1e-10)
        assert found.test == "wilcoxon"


def test_small_segments_of_items_have_no_ranks_to_test(logs):
    folder, _, _ = logs
    items = pl.read_parquet(folder / "truth.parquet").select("item").unique()
    items = items.with_columns(genre=pl.col("item").cast(pl.String))
    items.write_parquet(folder / "genres.parquet")
    genre = {"path": str(folder / "genres.parquet"), "item": "item", "by": "genre"}

    report = run(
        folder,
        segments={"genre": genre, "min_users": 100_000},
        statistics={"baseline": "a", "test": "wilcoxon"},
    )

    small = [each for each in report.comparisons if each.segment == "(small)"]
    assert {each.test for each in small} <= {"t", "mcnemar"}


def test_intervals_are_those_for_skewed_means_and_for_shares(logs):
    folder, _, _ = logs
    report = run(folder, per_user=True)

    by_metric = {each.metric: each for each in report.estimates if each.model == "a"}
    values = report.per_user("nDCG@8", model="a")["value"].to_numpy()
    mean, error, n = float(values.mean()), float(stats.sem(values)), values.size
    expected = mean_interval(mean, error, n, level=0.95, skewness=float(stats.skew(values)))
    found = by_metric["nDCG@8"]
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high), abs=1e-7 * error)
    plain = stats.t.interval(0.95, n - 1, mean, error)
    assert plain != pytest.approx((found.low, found.high), abs=1e-4 * error)
    hits = int(report.per_user("hit@4", model="a")["value"].sum())
    wilson = stats.binomtest(hits, values.size).proportion_ci(method="wilson")
    found = by_metric["hit@4"]
    assert (found.low, found.high) == pytest.approx((wilson.low, wilson.high), rel=1e-10)


def test_a_segments_comparison_is_that_of_its_users(logs):
    folder, _, people = logs
    segments = {"kind": table(folder, "kind")}
    chosen = {"baseline": "a", "skewness": False}
    report = run(folder, per_user=True, segments=segments, statistics=chosen)

    (found,) = [each for each in report.comparisons if (each.metric, each.segment) == ("RR", "old")]
    old = people.filter(pl.col("kind") == "old")["who"].to_list()
    one, other = (
        report.per_user("RR", model=model).filter(pl.col("user").is_in(old))["value"].to_numpy()
        for model in "ab"
    )
    assert found.p_value == pytest.approx(stats.ttest_rel(other, one).pvalue, rel=1e-10)
    assert found.n_users == len(old)


def test_users_with_one_value_alone_are_left_out_of_the_pair(tmp_path):
    pl.DataFrame({"user": [1, 2, 3, 4], "item": [1, 1, 1, 1]}).write_parquet(
        tmp_path / "truth.parquet"
    )
    ranked = {"a": [1, 2, 3], "b": [2, 3, 4]}
    for model, users in ranked.items():
        ranks = [1, 2, 1] if model == "a" else [1, 1, 1]
        items = [1 if rank == 1 else 9 for rank in ranks]
        pl.DataFrame({"user": users, "item": items, "rank": [1, 1, 1]}).write_parquet(
            tmp_path / f"{model}.parquet"
        )

    report = run(
        tmp_path,
        statistics={"baseline": "a"},
        policies={"missing_ranking": "skip"},
    )

    (found,) = [each for each in report.comparisons if each.metric == "RR"]
    assert (found.n_users, found.wins, found.ties, found.losses) == (2, 1, 1, 0)
    assert found.delta == 0.5
    assert found.relative == 1.0  # baseline: users 2 and 3 have 0 and 1


@pytest.mark.parametrize(
    ("sections", "code"),
    [
        ({"segments": {"kind": {"path": "none.parquet", "by": "kind"}}}, "path-not-found"),
        ({"segments": {"kind": {"by": "knid"}}}, "missing-column"),
        ({"segments": {"item": {"by": "item"}}}, "segment-conflict"),
        ({"segments": {"country": {"by": "country", "quantiles": 2}}}, "not-a-number"),
    ],
)
def test_what_makes_no_segments_is_refused(logs, sections, code):
    folder, _, _ = logs
    with pytest.raises(DataError) as caught:
        run(folder, **sections)

    assert caught.value.code == code


@pytest.mark.parametrize(
    ("sections", "code"),
    [
        ({"statistics": {"baseline": "z"}}, "unknown-model"),
        ({"statistics": {"margin": -0.1}}, "out-of-range"),
        ({"statistics": {"metrics": ["AP@3"]}}, "metric-not-measured"),
        ({"statistics": {"correction": "tukey", "baseline": "a"}}, "conflicting-keys"),
        ({"segments": {"cross": [["x", "y"]]}}, "unknown-segmentation"),
        ({"segments": {"a": {"by": "x", "quantiles": 2, "edges": [1.0]}}}, "conflicting-keys"),
        ({"segments": {"a": {"by": "x", "edges": [2.0, 1.0]}}}, "out-of-range"),
        ({"segments": {"a": {"by": "x", "item": "i"}}}, "missing-key"),
        ({"segments": {"a=b": {"by": "x"}}}, "out-of-range"),
        ({"segments": {"min_user": 3}}, "unknown-key"),
        ({"segments": {"a": {"bi": "x"}}}, "unknown-key"),
    ],
)
def test_a_wrong_request_is_refused_before_data_is_read(logs, sections, code):
    folder, _, _ = logs
    with pytest.raises(EvalkitError) as caught:
        config_of(folder, **sections)

    errors = getattr(caught.value, "errors", [caught.value])
    assert code in [each.code for each in errors]
    assert all(isinstance(each, RequestError) for each in errors)


def test_unbounded_metrics_are_not_resampled_in_passes(logs, monkeypatch):
    folder, _, _ = logs
    monkeypatch.setattr("evalkit.kinds.rankings.measure.count_shares", lambda *given: 2)
    with pytest.raises(RequestError) as caught:
        run(folder, metrics={"names": ["hits@8", "RR"]}, statistics={"method": "bootstrap"})

    assert caught.value.code == "bootstrap-passes"
    assert "hits@8" in str(caught.value)
    assert "RR" not in str(caught.value)


def test_too_many_segments_and_users_without_a_cluster_are_refused(logs, monkeypatch):
    folder, _, _ = logs
    monkeypatch.setattr("evalkit.aggregate.segments._buckets.MOST_GROUPS", 1)

    with pytest.raises(RequestError, match="hint: make buckets of a number") as many:
        run(folder, segments={"kind": table(folder, "kind")})
    with pytest.raises(DataError, match="hint: give every user one") as without:
        run(folder, statistics={"cluster": "nullif(user, 3)"})

    assert [many.value.code, without.value.code] == ["too-many-segments", "no-cluster"]


def test_clusters_are_not_cut_by_passes(logs, monkeypatch):
    folder, _, _ = logs
    monkeypatch.setattr("evalkit.kinds.rankings.measure.count_shares", lambda *given: 2)
    with pytest.raises(RequestError, match="hint: raise memory_limit") as caught:
        run(folder, statistics={"cluster": "user"})

    assert caught.value.code == "cluster-passes"


def test_bootstrap_limits_lie_near_students(logs):
    folder, _, _ = logs
    plain = run(folder)
    drawn = run(folder, statistics={"method": "bootstrap", "replicates": 2000})

    for one, other in zip(plain.estimates, drawn.estimates, strict=True):
        width = one.high - one.low
        assert other.value == one.value
        assert abs(other.low - one.low) < 0.15 * width
        assert abs(other.high - one.high) < 0.15 * width


def test_all_pairs_have_tukeys_p_values_and_letters(logs):
    folder, _, _ = logs
    models = ("a", "b", "c")
    report = run(
        folder,
        models=models,
        per_user=True,
        statistics={"pairs": "all", "correction": "tukey", "test": "t"},
    )

    values = np.column_stack(
        [report.per_user("RR", model=model)["value"].to_numpy() for model in models]
    )
    found = {
        (each.baseline, each.candidate): each for each in report.comparisons if each.metric == "RR"
    }
    n, m = values.shape
    rest = values - values.mean(1, keepdims=True) - values.mean(0) + values.mean()
    df = (n - 1) * (m - 1)
    error = math.sqrt((rest**2).sum() / df / n)
    for (one, other), comparison in found.items():
        delta = abs(values[:, models.index(one)].mean() - values[:, models.index(other)].mean())
        expected = stats.studentized_range.sf(delta / error, m, df)
        assert comparison.p_adjusted == pytest.approx(expected, abs=1e-8)
    (standing,) = [each for each in report.standings if each.metric == "RR"]
    assert [name for name, _, _ in standing.models] == sorted(
        models, key=lambda model: -values[:, models.index(model)].mean()
    )
    assert all(letters for _, _, letters in standing.models)


def test_the_smallest_difference_would_be_seen_with_the_power_asked_for(logs):
    power = pytest.importorskip("statsmodels.stats.power")
    folder, _, _ = logs
    report = run(folder, statistics={"baseline": "a", "power": 0.9, "test": "t"})
    alpha = 0.05 / report.statistics.n_tests  # of Bonferroni's correction, for Holm's

    for comparison in report.comparisons:
        deviation = comparison.std_error * math.sqrt(comparison.n_users)
        found = power.TTestPower().power(
            comparison.smallest_difference / deviation,
            comparison.n_users,
            alpha,
            alternative="two-sided",
        )
        assert found == pytest.approx(0.9, abs=1e-6)


def test_a_users_table_may_be_in_memory(logs):
    import evalkit

    folder, truth, people = logs
    rule = {"path": people, "user": "who", "by": "kind"}
    models = {"a": pl.read_parquet(folder / "a.parquet")}

    report = evalkit.evaluate(truth, models, metrics=["RR"], segments={"kind": rule})

    (expected,) = [
        each.value
        for each in run(folder, segments={"kind": table(folder, "kind")}).estimates
        if (each.model, each.metric, each.segment) == ("a", "RR", "old")
    ]
    assert report.value("RR", segment="kind=old") == expected


def test_curves_hold_every_cutoff_and_its_interval(logs):
    folder, _, _ = logs
    report = run(folder, statistics={"curves": True})

    by_name = {(each.model, each.metric): each for each in report.curves}
    assert set(by_name) == {(m, name) for m in "ab" for name in ("nDCG", "recall", "hit")}
    curve = by_name["a", "recall"]
    assert curve.cutoffs == tuple(range(1, 9))
    for estimate in report.estimates:
        if (estimate.model, estimate.name) == ("a", "recall"):
            place = curve.cutoffs.index(estimate.cutoff)
            assert (curve.values[place], curve.low[place]) == (estimate.value, estimate.low)


def test_distributions_count_every_user(logs):
    folder, _, _ = logs
    report = run(folder, per_user=True, statistics={"distributions": True})

    for distribution in report.distributions:
        values = report.per_user(distribution.metric, model=distribution.model)["value"].to_numpy()
        expected, _ = np.histogram(values, bins=np.array(distribution.edges))
        assert list(distribution.counts) == expected.tolist()
    assert len(report.distributions) == 10


def test_parts_hold_the_sums_of_the_report_for_any_share(logs, monkeypatch):
    from evalkit.aggregate.accumulators.parts import read_sum
    from evalkit.statistics.exact import ExactSum

    folder, _, _ = logs
    config = config_of(folder, segments={"kind": table(folder, "kind")})
    report = pipeline.run_config(config, keep_parts=True)
    monkeypatch.setattr("evalkit.kinds.rankings.measure.count_shares", lambda *given: 3)
    in_shares = pipeline.run_config(config, keep_parts=True)

    assert report.parts.equals(in_shares.parts)
    for estimate in report.estimates:
        rows = report.parts.filter(
            pl.col("model") == estimate.model,
            pl.col("metric") == estimate.metric,
            pl.col("segmentation").eq_missing(pl.lit(estimate.segmentation, dtype=pl.String)),
            pl.col("segment").eq_missing(pl.lit(estimate.segment, dtype=pl.String)),
        )
        total = sum(map(read_sum, rows["sum"]))
        assert ExactSum(int(rows["n_users"].sum()), total).mean == estimate.value


def genres(folder, *, text=False):
    """A table of items that lacks five of them."""
    items = np.arange(ITEMS - 5)
    frame = pl.DataFrame({"it": items, "genre": np.array(["war", "love", "noir"])[items % 3]})
    if text:
        frame = frame.with_columns(pl.format("i{}", "it").alias("it"))
    frame.write_parquet(folder / "items.parquet")
    return {"path": str(folder / "items.parquet"), "item": "it", "by": "genre"}


@pytest.mark.parametrize("text", [False, True])
def test_a_segment_of_items_has_the_relevant_items_of_its_group_alone(logs, tmp_path, text):
    folder, truth, _ = logs
    folder_of_ids = folder
    if text:
        folder_of_ids = tmp_path
        for name in ("truth", "a", "b"):
            frame = pl.read_parquet(folder / f"{name}.parquet")
            frame = frame.with_columns(pl.format("i{}", "item").alias("item"))
            frame.write_parquet(tmp_path / f"{name}.parquet")
    rule = genres(tmp_path, text=text)

    report = run(folder_of_ids, segments={"genre": rule}, statistics={"baseline": "a"})

    found = of_segments(report, "recall@8", "a", "genre")
    assert list(found) == ["love", "noir", "war", "(unknown)"]
    names = ["war", "love", "noir"]
    for segment, estimate in found.items():
        chosen = (
            truth["item"] >= ITEMS - 5
            if segment == "(unknown)"
            else (truth["item"] < ITEMS - 5) & (truth["item"] % 3 == names.index(segment))
        )
        truth.filter(chosen).write_parquet(tmp_path / "part.parquet")
        alone = config_of(folder, metrics={"names": ["nDCG@8", "recall@8", "RR"]})
        alone = alone.model_copy(
            update={
                "truth": alone.truth.model_copy(update={"path": (str(tmp_path / "part.parquet"),)})
            }
        )
        expected = pipeline.run_config(alone)
        assert estimate.value == expected.value("recall@8", model="a")
        assert estimate.n_users == expected.estimates[0].n_users
        for metric in ("nDCG@8", "RR"):
            own = of_segments(report, metric, "b", "genre")[segment]
            assert own.value == expected.value(metric, model="b")
    pairs = [each for each in report.comparisons if each.segmentation == "genre"]
    assert len(pairs) == 4 * 5


def test_segments_of_items_are_the_same_in_passes(logs, monkeypatch, tmp_path):
    folder, _, _ = logs
    rule = {**genres(tmp_path), "by": "it", "quantiles": 3}
    sections = {"segments": {"number": rule}, "statistics": {"baseline": "a"}}
    reference = body(run(folder, **sections))
    monkeypatch.setattr("evalkit.kinds.rankings.measure.count_shares", lambda *given: 3)

    assert body(run(folder, threads=1, **sections)) == reference


def test_conventions_beyond_hits_have_no_segments_of_items(logs, tmp_path):
    folder, _, _ = logs
    with pytest.raises(RequestError) as caught:
        run(folder, segments={"genre": genres(tmp_path)}, policies={"seen": "shown"})

    assert caught.value.code == "item-segments"


def clustered(folder, tmp_path):
    """The same logs with an account of one to four users, and a weight of each user."""
    truth = pl.read_parquet(folder / "truth.parquet")
    account = (truth["user"] * 7919 % 90).alias("account")
    weight = (1.0 + truth["user"] % 5 / 4).alias("weight")
    truth.with_columns(account, weight).write_parquet(tmp_path / "truth.parquet")
    for model in "ab":
        pl.read_parquet(folder / f"{model}.parquet").write_parquet(tmp_path / f"{model}.parquet")
    users = truth["user"].unique().sort().to_numpy()
    return users * 7919 % 90, 1.0 + users % 5 / 4


def by_regression(values, weights, groups):
    """Mean and error of a regression on a constant by statsmodels, over 1 - mean leverage."""
    models = pytest.importorskip("statsmodels.api")
    fit = models.WLS(values, np.ones(values.size), weights=weights).fit(
        cov_type="cluster",
        cov_kwds={"groups": groups, "use_correction": False, "df_correction": False},
    )
    codes = np.unique(groups, return_inverse=True)[1]
    residuals = np.bincount(codes, weights * (values - fit.params[0]))
    shares = np.bincount(codes, weights) / weights.sum()
    leverage = (residuals**2 * shares).sum() / (residuals**2).sum()
    return fit.params[0], fit.bse[0] / math.sqrt(1 - leverage)


@pytest.mark.parametrize(("weighted", "in_clusters"), [(True, False), (False, True), (True, True)])
def test_weights_and_clusters_give_the_robust_errors_of_statsmodels(
    logs, tmp_path, weighted, in_clusters
):
    folder, _, _ = logs
    accounts, weights = clustered(folder, tmp_path)
    chosen = {"baseline": "a", "skewness": False}
    if weighted:
        chosen["weight"] = {"by": "weight"}
    if in_clusters:
        chosen["cluster"] = "account"
    report = run(tmp_path, per_user=True, statistics=chosen)

    groups = accounts if in_clusters else np.arange(accounts.size)
    own = weights if weighted else np.ones(weights.size)
    one, other = paired(report, "nDCG@8")
    (found,) = [each for each in report.estimates if (each.model, each.metric) == ("b", "nDCG@8")]
    assert (found.value, found.std_error) == pytest.approx(
        by_regression(other, own, groups), rel=1e-9
    )
    (delta,) = [each for each in report.comparisons if each.metric == "nDCG@8"]
    expected, error = by_regression(other - one, own, groups)
    assert (delta.delta, delta.std_error) == pytest.approx((expected, error), rel=1e-9)
    assert delta.n_clusters == (np.unique(groups).size if in_clusters else None)
    df = delta.df or groups.size - 1
    p_value = 2 * stats.t.sf(abs(expected) / error, df)
    assert delta.p_value == pytest.approx(p_value, rel=1e-8 if in_clusters else 0.01)
    assert delta.effect_size == pytest.approx(expected / np.std(other - one, ddof=1), rel=1e-9)


def test_a_margin_is_tested_with_the_degrees_of_freedom_of_clusters(logs):
    folder, _, _ = logs
    chosen = {"baseline": "a", "cluster": "user % 3", "correction": "none"}
    first = run(folder, statistics=chosen).comparisons[0]
    margin = abs(first.delta) + 2.2 * first.std_error  # of 5 %: at 2.9 from three clusters on

    (found, *_) = run(folder, statistics={**chosen, "margin": margin}).comparisons

    assert stats.t.sf(2.2, 2) > 0.05 > stats.t.sf(2.2, found.n_users - 1)
    assert found.verdict not in ("equivalent", "not inferior")


def test_clusters_and_weights_change_no_byte_with_threads(logs, tmp_path):
    folder, _, _ = logs
    clustered(folder, tmp_path)
    sections = {
        "segments": {"country": {"by": "country"}},
        "statistics": {"baseline": "a", "cluster": "account", "weight": {"by": "weight"}},
    }

    assert body(run(tmp_path, threads=1, **sections)) == body(run(tmp_path, threads=2, **sections))


def test_clusters_are_resampled_whole(logs, tmp_path):
    folder, _, _ = logs
    clustered(folder, tmp_path)
    chosen = {"cluster": "account", "method": "bootstrap", "replicates": 2000}
    drawn = run(tmp_path, statistics=chosen)
    robust = run(tmp_path, statistics={"cluster": "account"})

    for one, other in zip(drawn.estimates, robust.estimates, strict=True):
        assert one.high - one.low == pytest.approx(other.high - other.low, rel=0.15)


@pytest.mark.parametrize(
    ("statistics", "code"),
    [
        ({"weight": {"by": "country"}}, "not-a-number"),
        ({"weight": {"by": "-item"}}, "segment-conflict"),
        ({"weight": {"by": "-user"}}, "bad-weight"),
        ({"cluster": "nothing"}, "missing-column"),
        ({"cluster": "item"}, "segment-conflict"),
    ],
)
def test_what_is_no_weight_or_cluster_is_refused(logs, statistics, code):
    folder, _, _ = logs
    with pytest.raises(DataError) as caught:
        run(folder, statistics=statistics)

    assert caught.value.code == code


@pytest.mark.parametrize(
    "statistics",
    [
        {"weight": {"by": "user"}, "method": "bootstrap"},
        {"cluster": "user", "test": "wilcoxon", "baseline": "a"},
        {"cluster": "user", "correction": "tukey", "pairs": "all"},
        {"cluster": "user", "curves": True},
        {"weight": {"by": "user"}, "search": True, "baseline": "a"},
    ],
)
def test_what_does_not_go_together_is_refused(logs, statistics):
    folder, _, _ = logs
    with pytest.raises(RequestError) as caught:
        config_of(folder, statistics=statistics)

    assert caught.value.code == "conflicting-keys"


def test_a_macro_average_counts_every_segment_alike(logs):
    folder, _, _ = logs
    report = run(folder, segments={"kind": table(folder, "kind")})

    (found,) = [each for each in report.macros if (each.model, each.metric) == ("a", "RR")]
    known = [
        each
        for each in of_segments(report, "RR", "a", "kind").values()
        if each.segment != "(unknown)"
    ]
    assert found.n_segments == len(known) == 2
    assert found.value == pytest.approx(sum(each.value for each in known) / 2, rel=1e-15)
    error = math.sqrt(sum(each.std_error**2 for each in known)) / 2
    assert found.std_error == pytest.approx(error, rel=1e-12)
    assert found.low == pytest.approx(found.value - stats.norm.ppf(0.975) * error, rel=1e-10)


def test_an_item_may_be_in_several_segments(tmp_path):
    truth = pl.DataFrame({"user": [1, 1, 2], "item": [1, 2, 3]})
    truth.write_parquet(tmp_path / "truth.parquet")
    shown = pl.DataFrame({"user": [1, 1, 2], "item": [1, 9, 3], "rank": [1, 2, 1]})
    shown.write_parquet(tmp_path / "a.parquet")
    genres = {"it": [1, 2, 3, 4], "genre": [["war", "love"], ["war"], [], ["noir"]]}
    pl.DataFrame(genres).write_parquet(tmp_path / "items.parquet")
    rule = {"path": str(tmp_path / "items.parquet"), "item": "it", "by": "genre"}

    report = run(tmp_path, models=("a",), segments={"genre": rule})

    found = of_segments(report, "recall@4", "a", "genre")
    values = {segment: (each.value, each.n_users) for segment, each in found.items()}
    assert values == {"love": (1.0, 1), "war": (0.5, 1), "(unknown)": (1.0, 1)}


def test_the_users_needed_would_show_the_margin(logs):
    power = pytest.importorskip("statsmodels.stats.power")
    folder, _, _ = logs
    chosen = {"baseline": "a", "margin": 0.01, "correction": "none", "test": "t"}
    report = run(folder, statistics=chosen)

    for comparison in report.comparisons:
        effect = 0.01 / (comparison.std_error * math.sqrt(comparison.n_users))
        enough, fewer = (
            power.TTestPower().power(effect, n, 0.05)
            for n in (comparison.users_needed, comparison.users_needed - 1)
        )
        assert enough >= 0.8 - 1e-9 > fewer - 2e-9


def test_what_resampling_takes_is_said_and_bounded(logs, monkeypatch):
    folder, _, _ = logs
    statistics = {"method": "bootstrap", "replicates": 500}
    report = run(folder, statistics=statistics)
    assert 10 * 512 * 8 < report.meta.resampling_bytes < 1 << 20
    monkeypatch.setattr("evalkit.aggregate.accumulators.resampling.MOST_BYTES", 1000)

    with pytest.raises(RequestError) as caught:
        run(folder, statistics=statistics)

    assert caught.value.code == "resampling-memory"


@pytest.mark.parametrize("more", [{}, {"cluster": "account"}])
def test_small_segments_are_weighted_too(logs, tmp_path, more):
    folder, _, _ = logs
    _, weights = clustered(folder, tmp_path)
    segments = {"ten": {"by": "user % 10"}, "min_users": 100}
    chosen = {"weight": {"by": "weight"}, "baseline": "a", **more}

    report = run(tmp_path, per_user=True, segments=segments, statistics=chosen)

    found = of_segments(report, "nDCG@8", "b", "ten")
    values = report.per_user("nDCG@8", model="b")["value"].to_numpy()
    assert list(found) == ["(small)"]
    assert found["(small)"].value == pytest.approx(np.average(values, weights=weights), rel=1e-12)
    assert (found["(small)"].std_error is None) == bool(more)
    (delta,) = [
        each for each in report.comparisons if (each.metric, each.segmentation) == ("nDCG@8", "ten")
    ]
    assert (delta.std_error is None) == bool(more)


def test_weights_may_be_in_memory():
    import evalkit

    truth = pl.DataFrame({"user": [1, 2], "item": [1, 1]})
    ranked = pl.DataFrame({"user": [1, 2], "item": [1, 2], "rank": [1, 1]})
    people = pl.DataFrame({"user": [1, 2], "w": [3.0, 1.0]})

    report = evalkit.evaluate(
        truth, ranked, metrics=["RR"], statistics={"weight": {"path": people, "by": "w"}}
    )

    assert report.value("RR") == 0.75


@pytest.mark.parametrize("weight", [-1.0, math.nan, None, math.inf, 1e308])
def test_weights_that_cannot_be_added_up_are_refused(weight):
    import evalkit

    truth = pl.DataFrame({"user": [1, 2], "item": [1, 1]})
    people = pl.DataFrame({"user": [1, 2], "w": [1.0, weight]})

    with pytest.raises(DataError) as caught:
        evalkit.evaluate(
            truth,
            truth.with_columns(rank=pl.lit(1)),
            metrics=["RR"],
            statistics={"weight": {"path": people, "by": "w"}},
        )

    assert caught.value.code == "bad-weight"


def test_ids_of_segments_that_cannot_match_are_told_where_segments_are_written(logs):
    folder, _, people = logs
    people.with_columns(who=pl.col("who").cast(pl.String)).write_parquet(folder / "texts.parquet")

    with pytest.raises(DataError) as caught:
        run(
            folder,
            segments={"kind": {"path": str(folder / "texts.parquet"), "user": "who", "by": "kind"}},
        )

    assert caught.value.code == "id-kind"
    assert 'segments={"kind": {"user": ' in caught.value.hint


@pytest.mark.parametrize("correction", ["none", "bonferroni"])
def test_verdicts_by_a_margin_are_corrected_like_differences(logs, correction):
    folder, _, _ = logs
    models = ("a", "b", "c")
    margin = 0.06
    asked = {"pairs": "all", "correction": correction, "margin": margin}
    report = run(folder, models=models, per_user=True, statistics=asked)

    n_tests = 1 if correction == "none" else len(report.comparisons)
    for comparison in report.comparisons:
        one, other = (
            report.per_user(comparison.metric, model=model)["value"].to_numpy()
            for model in (comparison.baseline, comparison.candidate)
        )
        worse = stats.ttest_1samp(other - one, -margin, alternative="greater").pvalue
        better = stats.ttest_1samp(other - one, margin, alternative="less").pvalue
        if max(worse, better) * n_tests <= 0.05:
            expected = "equivalent"
        elif comparison.p_value * n_tests <= 0.05:
            expected = "better" if comparison.delta > 0 else "worse"
        else:
            expected = "not inferior" if worse * n_tests <= 0.05 else "cannot tell"
        assert comparison.verdict == expected


def test_segments_whose_names_could_be_one_are_apart():
    import evalkit

    users = list(range(6))
    truth = pl.DataFrame({"user": users, "item": [1] * 6})
    ranked = pl.DataFrame({"user": users, "item": [1, 2, 1, 2, 1, 1], "rank": [1] * 6})
    one = ["x", "x & y", "(unknown)", "(unknown)", None, "(small)"]
    other = ["y & z", "z", "z", "z", "z", "z"]
    people = pl.DataFrame({"user": users, "one": one, "other": other})
    rules = {name: {"path": people, "by": name} for name in ("one", "other")}

    report = evalkit.evaluate(
        truth, ranked, metrics=["RR"], segments={**rules, "cross": [["one", "other"]]}
    )

    found = {
        (each.segmentation, each.segment): (each.n_users, each.value)
        for each in report.estimates
        if each.segmentation is not None
    }
    assert found["one & other", "x & y && z"] == (1, 1.0)
    assert found["one & other", "x && y & z"] == (1, 0.0)
    assert sum(n for (rule, _), (n, _) in found.items() if rule == "one & other") == 6
    assert found["one", "(unknown)_"] == (2, 0.5)
    assert found["one", "(unknown)"] == (1, 1.0)
    (macro,) = [each for each in report.macros if each.segmentation == "one"]
    assert (macro.n_segments, macro.value) == (4, (1.0 + 0.0 + 0.5 + 1.0) / 4)


def test_a_truth_without_rows_is_told_also_with_segments_of_items():
    rows = pl.DataFrame({"user": ["a"], "item": ["x"]})
    items = {"path": pl.DataFrame({"item": ["x"], "genre": ["new"]}), "item": "item", "by": "genre"}

    with pytest.raises(DataError) as caught:
        evalkit.evaluate(rows.clear(), rows, metrics=["RR"], segments={"genre": items})

    assert caught.value.code == "empty-input"


@pytest.mark.parametrize(
    ("correction", "test"),
    [("holm", "auto"), ("bh", "t"), ("bonferroni", "permutation"), ("holm", "wilcoxon")],
)
def test_adjusted_limits_say_what_the_corrected_tests_say(logs, correction, test):
    folder, _, _ = logs
    segments = {"kind": table(folder, "kind"), "country": {"by": "country"}}
    chosen = {"baseline": "a", "correction": correction, "test": test, "replicates": 200}
    report = run(folder, segments=segments, statistics={**chosen, "level": 0.8, "margin": 0.05})

    for comparison in report.comparisons:
        differs = comparison.p_adjusted <= 1 - report.statistics.level
        assert (comparison.low_adjusted <= 0 <= comparison.high_adjusted) != differs
        if comparison.test in ("t", "hall"):
            assert (
                comparison.low_adjusted
                <= comparison.low
                <= comparison.high
                <= comparison.high_adjusted
            )
            assert comparison.test == "t" or comparison.low_margin > comparison.low
            is_inside = -0.05 < comparison.low_margin and comparison.high_margin < 0.05
            assert is_inside or comparison.p_equivalent > 0.2 - 1e-9
            assert comparison.p_not_inferior <= comparison.p_equivalent


def test_primary_metrics_are_a_family_of_their_own(logs):
    folder, _, _ = logs
    metrics = {"names": ["RR", "nDCG@8", "recall@4"], "primary": ["nDCG@8"]}
    report = run(folder, metrics=metrics, segments={"country": {"by": "country"}},
                 statistics={"baseline": "a", "correction": "bonferroni"})  # fmt: skip

    first = [each for each in report.comparisons if each.family == "primary"]
    others = [each for each in report.comparisons if each.family == "exploratory"]
    segments = [each for each in report.comparisons if each.family == "by country"]
    (found,) = first
    assert (found.metric, found.segmentation) == ("nDCG@8", None)
    assert found.p_adjusted == found.p_value
    assert (found.low_adjusted, found.high_adjusted) == (found.low, found.high)
    assert report.statistics.n_tests == 1
    assert {each.family_size for each in others} == {len(others)} == {2}
    assert len(first) + len(others) + len(segments) == len(report.comparisons)
    for each in (*others, *segments):
        assert each.p_adjusted == pytest.approx(min(1, each.p_value * each.family_size))


def test_a_table_of_other_users_is_told_of(logs):
    folder, *_ = logs
    users = pl.DataFrame({"who": [10**9], "plan": ["free"]})
    users.write_parquet(folder / "others.parquet")
    rule = {"path": str(folder / "others.parquet"), "user": "who", "by": "plan"}

    told = run(folder, segments={"plan": rule}).warnings
    half = run(folder, segments={"n": {"by": "n_relevant", "edges": [2]}}).warnings

    assert [each.code for each in told if each.code == "segments-unknown"] == ["segments-unknown"]
    assert "segments-unknown" not in {each.code for each in half}
