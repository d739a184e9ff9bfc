"""Reading metric expressions, and how requests are printed."""

import math

import pytest

from evalkit.errors import Errors, RequestError
from evalkit.metrics import (
    KINDS,
    kernel,
    known_metrics,
    metric,
    parse_metrics,
    registry,
    registry_of,
)


def labels(*names: str) -> list[str]:
    return [request.label for request in parse_metrics(names)]


READ = [
    # written                         printed
    ("nDCG@10",                       ["nDCG@10"]),
    ("ndcg@{5,10,20}",                ["nDCG@5", "nDCG@10", "nDCG@20"]),
    (" recall @ { 5 , 20 } ",         ["recall@5", "recall@20"]),
    ("AP",                            ["AP"]),
    ("MAP@10",                        ["AP@10"]),
    ("mrr",                           ["RR"]),
    ("HR@10",                         ["hit@10"]),
    ("HitRate@10",                    ["hit@10"]),
    ("success@1",                     ["hit@1"]),
    ("P@5",                           ["precision@5"]),
    ("R@5",                           ["recall@5"]),
    ("rprec",                         ["R-precision"]),
    ("r_precision@5",                 ["R-precision@5"]),
    ("F@5",                           ["F1@5"]),
    ("f1@5",                          ["F1@5"]),
    ("F2@5",                          ["F2@5"]),
    ("F0.5@5",                        ["F0.5@5"]),
    ("F(beta=2)@5",                   ["F2@5"]),
    ("f1_score@5",                    ["F1@5"]),
    ("precision(over='length')@5",    ["precision(over='length')@5"]),
    ('precision(over="length")@5',    ["precision(over='length')@5"]),
    ("precision( over = LENGTH )@5",  ["precision(over='length')@5"]),
    ("precision(over='k')@5",         ["precision@5"]),
    ("set_P",                         ["precision(over='length')"]),
    ("map_cut@5",                     ["AP(over='relevant')@5"]),
    ("map_cut(over='hits')@5",        ["AP(over='hits')@5"]),
    ("ndcg_burges@5",                 ["nDCG(gain='exp2')@5"]),
    ("RBP(patience=0.90)",            ["RBP(patience=0.9)"]),
    ("RBP(patience=8e-1)",            ["RBP"]),
    ("DCG(log_base=10)",              ["DCG(log_base=10)"]),
    ("DCG(log_base=e)",               [f"DCG(log_base={math.e})"]),
    ("nDCG(idcg=shown,gain='exp2')",  ["nDCG(gain='exp2', idcg='shown')"]),
]  # fmt: skip


@pytest.mark.parametrize(("written", "printed"), READ)
def test_an_expression_is_read_and_printed_in_one_spelling(written, printed):
    assert labels(written) == printed


def test_a_metric_asked_twice_is_kept_once_where_it_stood_first():
    assert labels("RR", "nDCG@{10,5}", "MRR", "ndcg@10", "F1", "F") == [
        "RR",
        "nDCG@10",
        "nDCG@5",
        "F1",
    ]


def test_a_request_has_all_parameters_in_declared_order():
    (request,) = parse_metrics(["DCG(discount='jarvelin')@3"])

    assert request.parameters == (
        ("gain", "linear"),
        ("below_threshold", "count"),
        ("discount", "jarvelin"),
        ("log_base", 2.0),
        ("per", "user"),
    )
    assert request.encoded == (0, 0, 1, 2.0, 0)


@pytest.mark.parametrize(
    ("written", "view"),
    [
        ("recall", "relevant"),
        ("nDCG", "graded"),
        ("nDCG(gain='exp2')", "graded"),
        ("nDCG(gain='binary')", "relevant"),
        ("CG(below_threshold='ignore')", "relevant"),
        ("DCG", "graded"),
    ],
)
def test_parameters_choose_which_items_count(written, view):
    assert parse_metrics([written])[0].view == view


WRONG = [
    # written, code, part of the message, part of the hint
    ("ndgc@10",                "unknown-metric",      "'ndgc'",                "mean 'nDCG'?"),
    ("mean_recip_rnk",         "unknown-metric",      "'mean_recip_rnk'",      "mean 'RR'?"),
    ("zzzz",                   "unknown-metric",      "'zzzz'",                "metrics lists all"),
    ("recall(ovr=min_k)",      "unknown-parameter",   "recall has no",         "mean 'over'?"),
    ("RR(over=k)",             "unknown-parameter",   "RR has no",             "it takes none"),
    ("precision(over=lenght)", "bad-parameter-value", "not 'lenght'",          "mean 'length'?"),
    ("RBP(patience=1)",        "bad-parameter-value", "above 0 and below 1",   "patience=0.8"),
    ("RBP(patience=high)",     "bad-parameter-value", "not 'high'",            "patience=0.8"),
    ("RBP(patience='0.5')",    "bad-parameter-value", "not '0.5'",             "patience=0.8"),
    ("RBP(patience=nan)",      "bad-parameter-value", "not 'nan'",             "patience=0.8"),
    ("F(beta=1e999)",          "bad-parameter-value", "not '1e999'",           "beta=1"),
    ("F0@3",                   "unknown-metric",      "'F0'",                  "mean 'F'?"),
    ("nDCG@0",                 "bad-cutoff",          "'0'",                   "counts ranks"),
    ("nDCG@-5",                "bad-cutoff",          "'-5'",                  "counts ranks"),
    ("nDCG@2.5",               "bad-cutoff",          "'2.5'",                 "counts ranks"),
    ("nDCG@",                  "bad-cutoff",          "''",                    "counts ranks"),
    ("nDCG@{5,}",              "bad-cutoff",          "''",                    "counts ranks"),
    ("nDCG@{5,10",             "bad-cutoff",          "'{5,10'",               "counts ranks"),
    ("nDCG@99999999999",       "bad-cutoff",          "'99999999999'",         "counts ranks"),
    ("nDCG@2147483647",        "bad-cutoff",          "'2147483647'",          "counts ranks"),
    ("",                       "bad-metric-syntax",   "''",                    "write name("),
    ("nDCG(gain='exp2'",       "bad-metric-syntax",   "no metric expression",  "write name("),
    ("nDCG(exp2)",             "bad-metric-syntax",   "'exp2'",                "write name("),
    ("nDCG(gain=exp2,)",       "bad-metric-syntax",   "''",                    "write name("),
    ("AP(over=k,over=hits)",   "bad-metric-syntax",   "'over' is given twice", "write name("),
    ("nDCG at 10",             "bad-metric-syntax",   "'nDCG at 10'",          "write name("),
]  # fmt: skip


@pytest.mark.parametrize(("written", "code", "message", "hint"), WRONG)
def test_a_mistake_has_code_place_and_hint(written, code, message, hint):
    with pytest.raises(RequestError) as caught:
        parse_metrics(["RR", written], at=lambda place: f"job.toml:{place + 14}")

    assert caught.value.code == code
    assert message in caught.value.message
    assert hint in caught.value.hint
    assert caught.value.at == "job.toml:15"
    assert caught.value.exit_status == 2


def test_all_mistakes_are_told_at_once():
    with pytest.raises(Errors) as caught:
        parse_metrics(["ndgc", "AP@{0,1,x}", "precision(over='all', by=3)@0"])

    assert [error.code for error in caught.value.errors] == [
        "unknown-metric",
        "bad-cutoff",
        "bad-cutoff",
        "bad-parameter-value",
        "unknown-parameter",
        "bad-cutoff",
    ]


@metric(
    name="users",
    summary="1 for every user.",
    formula="1",
    latex="1",
    source="nobody 2000, nowhere, p. 1",
    bounds=(0.0, 2.0),
    undefined="never",
    cutoff="never",
)
@kernel
def users(hits, relevant, lengths, cutoffs, out):
    """1 for every user."""
    out[:, :] = 1.0


def test_a_metric_without_cutoff_refuses_one():
    metrics = {**registry(), "users": users}

    with pytest.raises(RequestError, match="users takes no cutoff") as caught:
        parse_metrics(["users@5"], metrics=metrics)

    assert caught.value.code == "bad-cutoff"
    assert parse_metrics(["users"], metrics=metrics)[0].label == "users"


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("ngcd", "nDCG"), ("ndgc", "nDCG"), ("dncg", "nDCG"), ("MPA", "AP"), ("hti", "hit"),
        ("recal", "recall"), ("precison", "precision"), ("percision", "precision"),
        ("R-precission", "R-precision"), ("ndcgg", "nDCG"), ("ndccg", "nDCG"),
        ("hitt", "hit"), ("ndg", "nDCG"), ("recal@5", "recall"), ("ndcgg@10", "nDCG"),
    ],
)  # fmt: skip
def test_a_misspelt_metric_is_suggested(written, meant):
    with pytest.raises(RequestError) as caught:
        parse_metrics([written])

    assert caught.value.hint == f"did you mean {meant!r}?"


@pytest.mark.parametrize(
    "written",
    ["alpha_nDCG", "coverage", "novelty", "ILS", "EPC", "Gini", "serendipity", "diversity", "x"],
)  # fmt: skip
@pytest.mark.parametrize("kind", KINDS)
def test_a_metric_that_is_not_here_is_no_misspelt_one(written, kind):
    with pytest.raises(RequestError) as caught:
        parse_metrics([written], metrics=registry_of(kind))

    assert caught.value.code == "unknown-metric"
    assert caught.value.hint in (
        "evalkit metrics lists all", f"it is a metric of lists; evalkit explain {written} has more",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("written", "kind", "others"),
    [("GAUC", "rankings", "labels"), ("RMSE", "labels", "ratings"), ("novelty", "labels", "lists"),
     ("AUC", "ratings", "rankings and labels"), ("nDCG@10", "labels", "rankings")],
)  # fmt: skip
def test_a_metric_of_another_kind_is_called_so(written, kind, others):
    with pytest.raises(RequestError) as caught:
        parse_metrics([written], metrics=known_metrics(kind))

    name = written.partition("@")[0]
    assert caught.value.hint == f"it is a metric of {others}; evalkit explain {name} has more"


@pytest.mark.parametrize("written", ["MASE", "RAE", "MRAE"])
def test_an_error_that_is_not_here_is_no_misspelt_one(written):
    with pytest.raises(RequestError) as caught:
        parse_metrics([written], metrics=registry_of("ratings"))

    assert "did you mean" not in caught.value.hint
