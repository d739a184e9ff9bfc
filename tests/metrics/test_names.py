"""Names as other libraries write them."""

import pytest

from evalkit import EvalkitError
from evalkit.config import build_config
from evalkit.metrics import parse_metrics


def labels(names, profile="evalkit"):
    tree = {
        "truth": {"path": "truth.parquet"},
        "rankings": [{"model": "als", "path": "als.parquet"}],
        "metrics": {"names": names, "profile": profile},
    }
    return [(each.metric.name, each.cutoff) for each in build_config(tree, name="n").requests]


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("P_10", [("precision", 10)]),
        ("P.5,10", [("precision", 5), ("precision", 10)]),
        ("success_5", [("hit", 5)]),
        ("recall_20", [("recall", 20)]),
        ("map_cut_100", [("AP", 100)]),
        ("map_cut.5,10", [("AP", 5), ("AP", 10)]),
        ("ndcg_cut_10", [("nDCG", 10)]),
        ("recip_rank", [("RR", None)]),
        ("map", [("AP", None)]),
        ("Rprec", [("R-precision", None)]),
        ("set_map", [("SetAP", None)]),
        ("relative_P_5", [("relative_P", 5)]),
        ("unj_10", [("unjudged", 10)]),
        ("11pt_avg", [("11pt_avg", None)]),
        ("num_rel_ret", [("hits", None)]),
    ],
)
@pytest.mark.parametrize("profile", ["trec_eval", "trec_eval_10"])
def test_names_of_trec_eval_are_read(written, expected, profile):
    assert labels([written], profile) == expected


def test_numbers_behind_interpolated_precision_are_recalls():
    requests = parse_metrics(["iprec_at_recall_0.10", "iprec_at_recall.0.5,0.8"])

    assert [each.label for each in requests] == ["iprec", "iprec(recall=0.5)", "iprec(recall=0.8)"]


def test_at_k_is_a_cutoff_that_follows():
    assert [each.label for each in parse_metrics(["precision_at_k@10"])] == ["precision@10"]


@pytest.mark.parametrize("written", ["G", "binG", "Rndcg", "ndcg_rel", "Rprec_mult_0.20", "NDPM"])
def test_what_is_no_metric_here_says_why(written):
    with pytest.raises(EvalkitError) as caught:
        parse_metrics([written])

    assert caught.value.code == "refused-metric"
    assert "is no metric here: " in str(caught.value)


@pytest.mark.parametrize("written", ["P_10@5", "P_0", "x_10", "nDCG_10_"])
def test_numbers_that_are_no_cutoffs_are_refused(written):
    with pytest.raises(EvalkitError):
        parse_metrics([written])


def test_names_mean_what_their_library_means():
    of_replay = labels(["Novelty@5", "Surprisal@5"], "replay")

    assert of_replay == [("unseen_share", 5), ("novelty", 5)]
    assert labels(["prediction_coverage@5"], "recmetrics") == [("item_coverage", 5)]


def test_map_and_map_at_k_of_recommenders_are_two():
    tree = {
        "truth": {"path": "truth.parquet"},
        "rankings": [{"model": "als", "path": "als.parquet"}],
        "metrics": {"names": ["map@5", "map_at_k@5"], "profile": "recommenders"},
    }

    found = build_config(tree, name="n").requests

    assert [dict(each.parameters)["over"] for each in found] == ["relevant", "min_k"]
