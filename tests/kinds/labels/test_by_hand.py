"""Metrics of labels on a log that can be worked out by hand, and every edge with its count."""

import math
import re

import polars as pl
import pytest

import evalkit
from evalkit.errors import DataError, RequestError

# user 1: 1 at .8, 0 at .6, 1 at .4; user 2: 0 at .9, 1 at .6; user 3: 0 at .1 alone
LOG = pl.DataFrame(
    {
        "user": [1, 1, 1, 2, 2, 3],
        "session": ["a", "a", "b", "c", "c", "d"],
        "score": [0.8, 0.6, 0.4, 0.9, 0.6, 0.1],
        "label": [1, 0, 1, 0, 1, 0],
    }
)
# pooled, from the top: 0@.9, 1@.8, {0, 1}@.6, 1@.4, 0@.1
GOLDENS = [
    # pairs won by 1@.8: 2 of 3; 1@.6: 1.5; 1@.4: 1; of 9
    ("AUC", 4.5 / 9),
    ("AUC(ties='lost')", 4.0 / 9),
    # user 1: 1 of 2; user 2: 0 of 1; user 3 has none
    ("AUC(over='users')", 0.25),
    ("GAUC", (3 * 0.5 + 2 * 0.0) / 5),
    ("AUC(over='users', weighting='positives')", (2 * 0.5 + 1 * 0.0) / 3),
    # session a: 1 of 1; c: 0 of 1
    ("AUC(over='sessions')", 0.5),
    # precision 1/2 at .8, 2/4 at .6, 3/5 at .4
    ("AP", (1 / 2 + 2 / 4 + 3 / 5) / 3),
    ("PR-AUC(integration='trapezoid')", ((0 + 1 / 2) / 2 + (1 / 2 + 2 / 4) / 2 + 1.1 / 2) / 3),
    ("Brier", (0.04 + 0.36 + 0.36 + 0.81 + 0.16 + 0.01) / 6),
    (
        "log-loss",
        -(math.log(0.8) + math.log(0.4) * 2 + math.log(0.1) + math.log(0.6) + math.log(0.9)) / 6,
    ),
    ("base-rate", 0.5),
    ("calibration", 3.4 / 3),
    # called at .5: .9 .8 .6 .6: two right, two wrong
    ("accuracy", 3 / 6),
    ("precision", 2 / 4),
    ("recall", 2 / 3),
    ("specificity", 1 / 3),
    ("balanced-accuracy", 0.5),
    ("F1", 4 / 7),
    ("MCC", 0.0),
    ("accuracy(threshold=0.05)", 3 / 6),
    ("precision(threshold=0.95)", math.nan),
    ("recall(threshold=0.95)", 0.0),
    ("TP", 2),
    ("FP", 2),
    ("TN", 1),
    ("FN", 1),
    ("positive-rate", 4 / 6),
    ("error-rate", 3 / 6),
    ("NPV", 1 / 2),
    ("fallout", 2 / 3),
    ("miss-rate", 1 / 3),
    ("FDR", 2 / 4),
    ("FOR", 1 / 2),
    ("LR_plus", 1.0),
    ("LR_minus", 1.0),
    ("diagnostic-odds", (2 / 1) / (2 / 1)),
    ("Fowlkes-Mallows", 2 / math.sqrt(4 * 3)),
    ("threat-score", 2 / 5),
    ("prevalence-threshold", math.nan),
    # called at .3 too: three right, two wrong, one with label 0 is not
    ("LR_plus(threshold=0.3)", 1 / (2 / 3)),
    ("LR_minus(threshold=0.3)", 0.0),
    ("diagnostic-odds(threshold=0.3)", math.nan),
    ("informedness(threshold=0.3)", 1 / 3),
    ("markedness(threshold=0.3)", 3 / 5 + 1 - 1),
    # accuracy 4/6; chance 5/6 3/6 + 1/6 3/6
    ("kappa(threshold=0.3)", (4 / 6 - 3 / 6) / (1 - 3 / 6)),
    ("prevalence-threshold(threshold=0.3)", math.sqrt(2 / 3) / (1 + math.sqrt(2 / 3))),
    # users 1 to 3: one of two, one of one, none
    ("recall(over='users')", (1 / 2 + 1) / 2),
    ("accuracy(over='users')", (1 / 3 + 1 / 2 + 1) / 3),
    ("error-rate(over='users', weighting='impressions')", 3 / 6),
    ("TP(over='users')", 2 / 3),
    # the fewest wrong calls, 2 of 6, are from .4 on
    ("error-rate(at='best')", 2 / 6),
    # from the top (TP, FP) are (0, 1), (1, 1), (2, 2), (3, 2), (3, 3)
    ("recall(at_precision=0.5)", 1.0),
    ("recall(at_precision=0.7)", math.nan),
    ("recall(at_precision=0.7, undefined='zero')", 0.0),
    ("precision(at_recall=0.6)", 3 / 5),
    ("sensitivity(at_specificity=0.6)", 1 / 3),
    ("sensitivity(at_specificity=0.9)", 0.0),
    ("specificity(at_recall=0.3)", 2 / 3),
    ("threshold(least=0.5)", 0.4),
    ("threshold(least=0.7)", math.nan),
    ("threshold_at_recall(least=0.6)", 0.4),
    ("threshold(reaches='specificity', least=0.6)", 0.8),
    ("threshold(reaches='specificity')", math.inf),
    ("EER", (2 / 3 + 1 / 3) / 2),
    ("log-AUC", 0.0),
    ("log-AUC(low=0.05, high=0.5)", (1 / 3 + 1 / 2) / 2 * math.log(1.5) / math.log(10)),
    ("hinge", (0.2 + 0.4 + 0.6 + 1.6 + 1.9 + 1.1) / 6),
    ("Brier-skill", 1 - (1.74 / 6) / 0.25),
    ("Tjur-R2", 1.8 / 3 - 1.6 / 3),
    ("relative-discrimination", 1.8 / 1.6),
    ("mean-score", 3.4 / 6),
    # from the top F1 is 0, 2/5, 4/7, 6/8, 6/9
    ("F1(at='best')", 6 / 8),
    # bins of a fifth: [.8, 1]: 1.7 against 1; [.6, .8): 1.2 against 1; [.4, .6): .4 against 1
    ("ECE(bins=5)", (0.7 + 0.2 + 0.6 + 0.1) / 6),
    # three bins of two rows: 1.7 against 1, 1.2 against 1, .5 against 1
    ("ECE(bins=3, binning='mass')", (0.7 + 0.2 + 0.5) / 6),
    # up to half a false positive the area is 0: 0@.9 comes first
    ("partial-AUC(max_fpr=0.3, scale='area')", 0.0),
    # from 1/3 to 1/2 it has 1 of 3 and rises by half of 1/3
    ("partial-AUC(max_fpr=0.5, scale='area')", (1 / 6) * (1 / 3 + 1 / 12)),
]


@pytest.mark.parametrize(("name", "expected"), GOLDENS, ids=[name for name, _ in GOLDENS])
def test_labels_by_hand(name, expected):
    report = evalkit.evaluate_labels(LOG, metrics=[name], columns={"session": "session"})

    assert report.estimates[0].value == pytest.approx(expected, abs=1e-14, nan_ok=True)


def test_normalised_entropy_compares_with_the_base_rate():
    report = evalkit.evaluate_labels(LOG, metrics=["NE", "log-loss"])

    loss = report.value("log-loss")
    assert report.value("normalised-entropy") == pytest.approx(loss / math.log(2), abs=1e-15)


def test_a_weight_counts_as_so_many_rows():
    weighted = LOG.with_columns(weight=pl.Series([2, 1, 3, 1, 0, 2]))
    repeated = LOG.filter(pl.Series([True, True, True, True, False, True]))
    repeated = repeated.select(pl.all().repeat_by(pl.Series([2, 1, 3, 1, 2])).explode())
    names = [name for name, _ in GOLDENS if "mass" not in name]
    columns = {"session": "session"}

    ours = evalkit.evaluate_labels(weighted, metrics=names, columns={**columns, "weight": "weight"})
    plain = evalkit.evaluate_labels(repeated, metrics=names, columns=columns)

    for one, other in zip(ours.estimates, plain.estimates, strict=True):
        assert one.value == pytest.approx(other.value, abs=1e-14, nan_ok=True), one.metric


def test_an_infinite_loss_is_infinite_and_counted():
    log = pl.DataFrame({"user": [1, 1, 2], "score": [0.0, 1.0, 0.5], "label": [1, 1, 0]})

    report = evalkit.evaluate_labels(log, metrics=["log-loss", "log-loss(clip=0.01)"])

    assert report.estimates[0].value == math.inf
    assert report.estimates[1].value == pytest.approx(
        -(math.log(0.01) + math.log(0.99) + math.log(0.5)) / 3
    )
    warning = report.warnings[0]
    assert (warning.code, warning.message[:6]) == ("infinite-loss", "1 rows")


def test_the_gain_curve_shares_rows_of_one_score():
    log = pl.DataFrame({"user": [1] * 10, "score": [0.5] * 10, "label": [1, 0] * 5})

    report = evalkit.evaluate_labels(log, metrics=["AUC"])

    gain = next(graph for graph in report.graphs if graph.kind == "gain")
    lift = next(graph for graph in report.graphs if graph.kind == "lift")
    assert gain.x == pytest.approx([each / 10 for each in range(11)])
    assert gain.y == pytest.approx([each / 10 for each in range(11)])
    assert lift.y == pytest.approx([1.0] * 10)


@pytest.mark.parametrize(("kind", "label"), [("roc", 0), ("precision-recall", 1)])
@pytest.mark.parametrize("n_rows", [100, 112, 136, 300])
def test_curves_have_the_first_score_that_reaches_each_hundredth(kind, label, n_rows):
    labels = [1 - label] + [label] * n_rows
    log = pl.DataFrame({"user": 1, "score": range(n_rows, -1, -1), "label": labels})

    report = evalkit.evaluate_labels(log, metrics=["AUC"])

    (curve,) = (graph for graph in report.graphs if graph.kind == kind)
    wanted = {-(-n_rows * each // 100) / n_rows for each in range(1, 101)}
    assert set(curve.x) - {0.0} == wanted


FAULTS = [
    ({"score": [0.5, None]}, {}, "bad-score", 3),
    ({"score": [0.5, math.nan]}, {}, "bad-score", 3),
    ({"score": [0.5, 1.5]}, {}, "not-a-probability", 3),
    ({"label": [1, 2]}, {}, "bad-label", 3),
    ({"label": [1, None]}, {}, "bad-label", 3),
    ({"label": [1, -1]}, {}, "bad-label", 3),
    ({"user": [1, None]}, {}, "null-id", 3),
    ({"user": [1.0, 2.0]}, {}, "float-id", 3),
    ({"score": ["a", "b"]}, {}, "not-a-number", 3),
    ({"weight": [1.0, -1.0]}, {"weight": "weight"}, "bad-weight", 3),
    ({"weight": [1.0, math.inf]}, {"weight": "weight"}, "bad-weight", 3),
    ({}, {"weight": "wait"}, "missing-column", 3),
    ({"score": [2**60, 0]}, {}, "score-too-large", 3),
]


@pytest.mark.parametrize("metric", ["Brier", "Brier(over='users')"])
@pytest.mark.parametrize(("change", "columns", "code", "status"), FAULTS)
def test_faulty_data_is_refused_with_one_clear_error(change, columns, code, status, metric):
    log = pl.DataFrame({"user": [1, 2], "score": [0.5, 0.6], "label": [1, 0], **change})

    with pytest.raises(DataError) as caught:
        evalkit.evaluate_labels(log, metrics=[metric], columns=columns)

    assert (caught.value.code, caught.value.exit_status) == (code, status)
    assert caught.value.hint


@pytest.mark.parametrize(("labels", "place"), [([-1, 1], 0), ([1, 5], 1)])
def test_labels_of_other_numbers_are_read_as_the_hint_says(labels, place):
    log = pl.DataFrame({"user": [1, 2], "score": [0.5, 0.6], "label": labels})

    with pytest.raises(DataError) as caught:
        evalkit.evaluate_labels(log, metrics=["AUC"])
    threshold = float(re.findall(r"threshold=(\d+)", caught.value.hint)[place])

    assert evalkit.evaluate_labels(log, metrics=["AUC"], threshold=threshold).value("AUC") == 1


def test_weights_that_are_left_out_as_the_hint_says_are_no_more_refused():
    weights = [1.0, math.nan, -1.0, math.inf, None, 2.0]
    log = pl.DataFrame({"user": range(6), "score": 0.5, "label": 1, "my weight": weights})
    columns = {"weight": "my weight"}

    with pytest.raises(DataError) as caught:
        evalkit.evaluate_labels(log, metrics=["Brier"], columns=columns)
    kept = log.filter(pl.sql_expr(caught.value.hint.split("'")[1]))

    assert kept["my weight"].to_list() == [1.0, 2.0]


def test_labels_that_are_none_are_told_where_a_threshold_is_given():
    log = pl.DataFrame({"user": [1, 2], "score": [0.5, 0.6], "label": [5.0, math.nan]})

    with pytest.raises(DataError, match="1 labels are null or NaN") as caught:
        evalkit.evaluate_labels(log, metrics=["Brier"], threshold=4)

    assert "threshold" not in caught.value.hint


def test_rows_that_are_dropped_are_counted():
    log = pl.DataFrame(
        {
            "user": [1, None, 2, 2, 3, 3],
            "score": [0.5, 0.5, None, math.nan, 0.5, 0.5],
            "label": [1, 1, 1, 1, None, 0],
        }
    )
    policies = {"null_ids": "drop", "bad_scores": "drop", "bad_labels": "drop"}

    report = evalkit.evaluate_labels(log, metrics=["accuracy"], policies=policies)

    counts = report.counts.models["model"]
    assert (counts.rows, counts.rows_used, counts.users) == (6, 2, 2)
    assert counts.rows_dropped == {
        "null_id": 1, "not_sampled": 0, "bad_score": 2, "bad_label": 1,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("metrics", "policies", "code"),
    [
        (["nDCG@10"], {}, "unknown-metric"),
        (["AUC@10"], {}, "bad-cutoff"),
        (["AUC(over='sessions')"], {}, "missing-key"),
        (["AUC"], {"bad_scores": "last"}, "bad-policy"),
    ],
)
def test_a_wrong_request_is_refused_before_data_is_read(metrics, policies, code):
    with pytest.raises(RequestError) as caught:
        evalkit.evaluate_labels(LOG, metrics=metrics, policies=policies)

    assert (caught.value.code, caught.value.exit_status) == (code, 2)


def test_a_threshold_makes_labels_of_grades():
    log = pl.DataFrame({"user": [1, 1, 1], "score": [3.0, 2.0, 1.0], "label": [5.0, 3.5, 1.0]})

    report = evalkit.evaluate_labels(log, metrics=["base-rate", "AUC"], threshold=4)

    assert report.value("base-rate") == pytest.approx(1 / 3)
    assert report.value("AUC") == 1.0


def test_text_users_and_several_columns_group_as_numbers_do():
    text = LOG.with_columns(user=pl.col("user").cast(pl.String))
    several = LOG.with_columns(other=pl.lit("x"))

    reports = [
        evalkit.evaluate_labels(LOG, metrics=["GAUC"]),
        evalkit.evaluate_labels(text, metrics=["GAUC"]),
        evalkit.evaluate_labels(several, metrics=["GAUC"], columns={"user": ["user", "other"]}),
    ]

    assert len({report.value("GAUC") for report in reports}) == 1


def test_the_logarithm_is_within_one_unit_of_the_last_place():
    import random

    from evalkit.kernels.logarithm import log2, log2_of, minus_ln, minus_ln_of_rest

    random.seed(4)
    values = [random.random() for _ in range(2000)]
    values += [math.ldexp(random.random(), random.randint(-1074, 0)) for _ in range(2000)]
    values += [5e-324, 2.0**-1022, math.nextafter(1.0, 0.0), math.sqrt(0.5)]
    for value in values:
        if 0.0 < value < 1.0:
            assert abs(minus_ln(value) + math.log(value)) <= math.ulp(math.log(value)), value
            bits = math.log2(value)
            assert abs(log2(value) - bits) <= math.ulp(bits), value
            rest = -math.log1p(-value)
            assert abs(minus_ln_of_rest(value) - rest) <= math.ulp(rest), value
    assert log2_of([2.0**n for n in range(-1074, 1024)]).tolist() == [*range(-1074, 1024)]
    assert log2_of([1, 3])[1] == pytest.approx(math.log2(3.0), rel=3e-16)
    assert (minus_ln(0.0), minus_ln(1.0)) == (math.inf, 0.0)
    assert (minus_ln_of_rest(1.0), minus_ln_of_rest(0.0)) == (math.inf, 0.0)


def test_body_and_tail_of_a_loop_give_the_same_logarithm():
    from evalkit.kernels import kernel
    from evalkit.kernels.logarithm import minus_ln

    @kernel(allocates=False)
    def all_logarithms(values, out):
        for place in range(values.size):
            out[place] = minus_ln(values[place])

    import numpy as np

    values = np.random.default_rng(7).random(1003)
    whole, single = np.empty(1003), np.empty(1003)
    all_logarithms(values, whole)
    for place in range(1003):
        all_logarithms(values[place : place + 1], single[place : place + 1])

    assert whole.tobytes() == single.tobytes()
    assert whole.tolist() == [minus_ln.plain(np.float64(value)) for value in values]


def test_the_standard_error_of_the_auc_is_clustered_by_user():
    import numpy as np

    rng = np.random.default_rng(11)
    users = rng.integers(0, 60, 3000)
    scores = rng.normal(size=3000) + rng.normal(size=60)[users]
    labels = (rng.random(3000) < 1 / (1 + np.exp(-scores))).astype(np.int8)
    log = pl.DataFrame({"user": users, "score": scores, "label": labels})

    (found,) = evalkit.evaluate_labels(log, metrics=["AUC"]).estimates

    good, bad = scores[labels == 1], scores[labels == 0]
    wins = np.where(
        labels == 1,
        (scores[:, None] > bad).mean(axis=1) / good.size,
        (scores[:, None] < good).mean(axis=1) / bad.size,
    )
    wins -= np.where(labels == 1, found.value / good.size, found.value / bad.size)
    by_user = np.bincount(users, wins)
    expected = math.sqrt((by_user**2).sum() * 60 / 59)
    assert found.std_error == pytest.approx(expected, rel=2e-3)
    assert found.low < found.value < found.high


def test_the_auc_of_rows_with_weights_has_no_standard_error():
    log = LOG.with_columns(weight=1.0)

    (found,) = evalkit.evaluate_labels(log, metrics=["AUC"], columns={"weight": "weight"}).estimates

    assert found.std_error is None


EDGES = [0.0, 0.1, 0.1 - 2**-55, 0.5, 0.7, 1.0 - 2**-53, 1.0, 1.0]  # labels 1 for 1.0 and 0.5 alone


@pytest.mark.parametrize(
    ("metric", "bins"),
    [
        # the rows of each bin of ten, by place: an edge belongs to the upper bin, 1 to the last
        ("ECE", [[0, 2], [1], [3], [4], [5, 6, 7]]),
        ("ECE(binning='width_and_one')", [[0, 2], [1], [3], [4], [5], [6, 7]]),
        ("ECE(bins=1)", [[0, 1, 2, 3, 4, 5, 6, 7]]),
        ("ECE(bins=1, binning='width_and_one')", [[0, 1, 2, 3, 4, 5], [6, 7]]),
        ("ECE(bins=2)", [[0, 1, 2], [3, 4, 5, 6, 7]]),
    ],
)
def test_scores_on_the_edges_of_bins(metric, bins):
    labels = [0, 0, 1, 1, 0, 0, 1, 0]
    frame = pl.DataFrame({"user": [1] * 8, "score": EDGES, "label": labels})
    report = evalkit.evaluate_labels(frame, metrics=[metric])

    expected = sum(abs(sum(EDGES[row] - labels[row] for row in each)) for each in bins) / 8
    assert report.value(metric) == pytest.approx(expected, abs=1e-15)


def test_scores_in_float32_are_compared_as_the_numbers_that_they_are():
    frame = pl.DataFrame({"user": [1, 1], "score": [0.7, 0.65], "label": [1, 0]})
    narrow = frame.with_columns(pl.col("score").cast(pl.Float32))

    assert evalkit.evaluate_labels(frame, metrics=["ECE"]).value("ECE") == pytest.approx(0.475)
    assert evalkit.evaluate_labels(narrow, metrics=["ECE"]).value("ECE") == pytest.approx(0.175)


def test_torchmetrics_has_a_bin_of_its_own_for_scores_of_one():
    frame = pl.DataFrame({"user": [1] * 3, "score": [1.0, 0.98, 0.5], "label": [0, 1, 1]})
    report = evalkit.evaluate_labels(frame, metrics=["ECE"], profile="torchmetrics")

    assert report.estimates[0].value == pytest.approx((1.0 + 0.02 + 0.5) / 3)


ONE_KIND = {
    1: ["recall(at_specificity=0.9)", "threshold(reaches='specificity')"],
    0: ["threshold(reaches='specificity')", "precision(at_recall=0.9)"],
}


@pytest.mark.parametrize("label", [0, 1])
def test_a_target_without_a_rate_is_reached_by_nothing(label):
    rows = pl.DataFrame({"user": [1, 1, 2], "score": [0.2, 0.5, 0.7], "label": [label] * 3})

    report = evalkit.evaluate_labels(rows, metrics=ONE_KIND[label])

    assert all(math.isnan(each.value) for each in report.estimates)
