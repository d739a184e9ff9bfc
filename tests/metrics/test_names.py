"""Names as other libraries write them."""

import json
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path

import pytest

from evalkit import EvalkitError
from evalkit.config import build_config
from evalkit.metrics import _expression, fold, known_metrics, parse_metrics, policies_of_kind
from evalkit.metrics.profiles import find_profile


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


NAMES = json.loads((Path(__file__).parents[2] / "docs/names.json").read_text(encoding="utf-8"))


profile_of = cache(find_profile)


def outcomes_of(library, name):
    """What becomes of a library's name, in each kind that its profile speaks of."""
    profile = profile_of(library)
    for kind in ("rankings", *profile.rows):
        said = profile.of(kind)
        try:
            (request,) = parse_metrics(
                [name], metrics=known_metrics(kind), conventions=said.conventions,
                policies=policies_of_kind(kind), named=said.named, refused=said.refused,
            )  # fmt: skip
            is_theirs = fold(name) in map(fold, said.named)
            if is_theirs and request.metric.over_users is None and not request.metric.pair:
                cutoffs = (None, 1)
                has = [said.has_metric(request.metric.name, each) for each in cutoffs]
                assert any(has), (name, kind)
            yield "read" if is_theirs else "guessed"
        except EvalkitError as error:
            needs = error.code == "bad-parameter-value" and "no default there" in str(error)
            yield "read" if needs else error.code


@pytest.mark.parametrize("library", NAMES)
def test_every_name_of_a_library_is_read_or_refused(library, monkeypatch):
    monkeypatch.setattr(_expression, "_meant", lambda name, known: None)  # no hints
    left = [
        name
        for name in NAMES[library]["names"]
        if {"read", "refused-metric"}.isdisjoint(outcomes_of(library, name))
    ]

    assert left == []


@pytest.mark.parametrize("library", NAMES)
def test_what_a_profile_refuses_it_does_not_have(library):
    profile = find_profile(library)
    both = [
        name
        for kind in ("rankings", *profile.rows)
        for name in profile.of(kind).named
        if any(fnmatchcase(fold(name), fold(each)) for each in profile.refused)
    ]

    assert both == []


@pytest.mark.parametrize(
    ("written", "code", "words"),
    [
        ("MAR@10", "ambiguous-metric", ["mean_recall (elliot)", "AP(over='relevant') (rexmex)"]),
        ("MARK@10", "unknown-metric", ["recmetrics"]),
        ("Accuracy@10", "ambiguous-metric", ["(ir_measures)", "(rectools)", "hit (beir)"]),
        ("Novelty@10", "ambiguous-metric", ["unseen_share", "novelty_of_rows"]),
        ("Gini@10", "ambiguous-metric", ["gini (evalkit)", "evenness"]),
        ("hole@10", "refused-metric", ["unjudged(over='k')"]),
        ("MeanInvUserFreq@10", "unknown-metric", ["to rectools it is novelty"]),
    ],
)
def test_names_of_several_things_are_not_guessed(written, code, words):
    with pytest.raises(EvalkitError) as caught:
        labels([written])

    assert caught.value.code == code
    assert [word for word in words if word not in str(caught.value)] == []


def test_own_names_are_evalkits_without_a_profile():
    own = ["AP@10", "MAP@10", "accuracy@10", "novelty@10", "gini@10", "serendipity@10", "RBP@10"]

    found = ["AP", "accuracy", "novelty", "gini", "serendipity", "RBP"]
    assert labels(own) == [(each, 10) for each in found]


def test_what_a_library_gives_no_default_has_to_be_written():
    with pytest.raises(EvalkitError, match="takes candidates, which has no default there"):
        labels(["Accuracy@10"], "rectools")
    assert labels(["Accuracy(candidates=50)@10"], "rectools") == [("accuracy", 10)]


def test_patience_behind_a_point_is_no_cutoff():
    assert [each.label for each in parse_metrics(["rbp.95"])] == ["RBP(patience=0.95)"]


def test_a_name_may_be_made_of_values_of_users():
    (request,) = parse_metrics(["gm_map"], named=find_profile("trec_eval").named)

    assert request.label == "gmean(AP, floor=1e-05)"


@pytest.mark.parametrize("meant", ["AP(over=", "AP('hits')"])
def test_a_name_that_means_nothing_is_refused(meant, tmp_path):
    (tmp_path / "own.toml").write_text(f'[names]\n"{meant}" = ["map"]\n')

    with pytest.raises(EvalkitError):
        find_profile(str(tmp_path / "own.toml"))


def test_names_of_the_base_follow_a_file_of_ones_own(tmp_path):
    (tmp_path / "own.toml").write_text('like = "ranx"\n[metrics]\nAP = { over = "hits" }\n')

    assert find_profile(str(tmp_path / "own.toml")).conventions("map", 5)["over"] == "hits"


@pytest.mark.parametrize("name", ["r-precision", "bpref"])
def test_a_cutoff_that_a_library_takes_no_notice_of_is_refused(name):
    with pytest.raises(EvalkitError, match="write it without"):
        labels([f"{name}@5"], "ranx")

    assert len(labels([name], "ranx")) == 1


@pytest.mark.parametrize("profile", ["trec_eval", "trec_eval_10"])
def test_totals_over_users_are_refused(profile):
    with pytest.raises(EvalkitError, match="a total over users"):
        labels(["num_rel_ret"], profile)
