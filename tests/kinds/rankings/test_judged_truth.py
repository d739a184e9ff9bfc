"""The truth that keeps what was judged and is not relevant: only where it is asked for."""

import itertools

import numpy as np
import polars as pl
import pytest
from naive import NAIVE

import evalkit
from evalkit import EvalkitError
from evalkit.aggregate.user_values._extremes import why_not
from evalkit.metrics import registry

TRUTH = pl.DataFrame(
    {
        "user": [1, 1, 1, 1, 2, 2, 3],
        "item": [10, 11, 12, 13, 10, 14, 15],
        "relevance": [2.0, 1.0, 0.0, -1.0, 1.0, 0.0, 0.0],
    }
)
LISTS = {1: [20, 12, 10, 13, 11], 2: [14, 21, 10], 3: [15, 22]}


def rankings(lists=LISTS):
    rows = [(user, item, n) for user, items in lists.items() for n, item in enumerate(items, 1)]
    return pl.DataFrame(rows, schema=["user", "item", "rank"], orient="row")


def run(metrics, truth=TRUTH, lists=None, **more):
    return evalkit.evaluate(truth, lists or {"a": rankings()}, metrics=metrics, **more)


def values_of(report, metric):
    frame = report.per_user(metric)
    return dict(zip(frame["user"], frame[frame.columns[-1]], strict=True))


def test_lists_are_read_by_what_was_judged():
    names = ["judged", "judged(pooled='judged')", "unjudged@2", "bpref", "judged_misses"]

    report = run(names, per_user=True, policies={"no_relevant": "zero"})

    assert values_of(report, "judged") == {1: 3 / 5, 2: 2 / 3, 3: 1 / 2}
    assert values_of(report, "judged(pooled='judged')") == {1: 4 / 5, 2: 2 / 3, 3: 1 / 2}
    assert values_of(report, "unjudged@2") == {1: 1 / 2, 2: 1 / 2, 3: 1 / 2}
    assert values_of(report, "judged_misses") == {1: 1.0, 2: 1.0, 3: 1.0}
    assert {user: value for user, value in values_of(report, "bpref").items() if user < 3} == {
        1: 0.0,
        2: 0.0,
    }


def test_unjudged_items_leave_lists_and_ranks_close_up():
    report = run(["RR(unjudged='skip')", "RR(unjudged='skip', pooled='judged')", "RR"])

    assert report.value("RR") == pytest.approx((1 / 3 + 1 / 3) / 2)
    assert report.value("RR(unjudged='skip')") == pytest.approx((1 / 2 + 1 / 2) / 2)
    kept = run(["precision(unjudged='skip', pooled='judged')@3"], per_user=True)
    assert values_of(kept, "precision(unjudged='skip', pooled='judged')@3")[1] == 1 / 3
    left = run(["precision(unjudged='skip')@3"], per_user=True)
    assert values_of(left, "precision(unjudged='skip')@3")[1] == 2 / 3


def test_equal_scores_keep_their_ties_in_what_is_left():
    lists = pl.DataFrame({"user": [1] * 4, "item": [20, 12, 10, 21], "score": [2.0, 1.0, 1.0, 1.0]})

    report = run(
        ["precision(unjudged='skip', ties='expected')@1"],
        truth=TRUTH.filter(pl.col("user") == 1),
        lists={"a": lists},
    )

    assert report.value("precision(unjudged='skip', ties='expected')@1") == pytest.approx(1 / 2)


@pytest.mark.parametrize("threshold", [None, 2.0])
def test_other_metrics_are_what_they_are_alone(threshold):
    names = ["nDCG@3", "nDCG(gain='exp2')", "AP", "RR", "recall@2", "precision@4", "RBP"]

    alone = run(names, threshold=threshold)
    beside = run([*names, "bpref", "infAP"], threshold=threshold)

    for name in names:
        assert beside.value(name) == alone.value(name)
    assert beside.counts.truth == alone.counts.truth
    assert beside.counts.models == alone.counts.models


def test_gains_below_zero_stay_gains_beside_judgements():
    policies = {"negative_relevance": "subtract"}

    alone = run(["nDCG", "DCG@4"], policies=policies)
    beside = run(["nDCG", "DCG@4", "judged"], policies=policies)

    assert (beside.value("nDCG"), beside.value("DCG@4")) == (
        alone.value("nDCG"),
        alone.value("DCG@4"),
    )


def refused(metrics, truth=TRUTH, **more):
    with pytest.raises(EvalkitError) as caught:
        run(metrics, truth=truth, **more)
    return caught.value


@pytest.mark.parametrize("metric", ["judged@2", "bpref", "AP(unjudged='skip')"])
def test_a_truth_of_relevant_items_alone_is_refused(metric):
    relevant = TRUTH.filter(pl.col("relevance") > 0)

    assert refused([metric], relevant).code == "nothing-judged"
    assert refused([metric], relevant.drop("relevance")).code == "nothing-judged"
    assert run([metric], relevant, policies={"no_judged": "warn"}).value(metric) >= 0


def test_relevance_below_zero_is_not_both_pooled_and_subtracted():
    error = refused(["infAP"], policies={"negative_relevance": "subtract"})

    assert error.code == "pooled-gains"


def test_infap_without_pooled_items_is_said_to_be_biased():
    codes = {each.code for each in run(["infAP"], TRUTH.filter(pl.col("relevance") >= 0)).warnings}

    assert "nothing-pooled" in codes


COUNTED = {"unknown_users": "count", "no_relevant": "zero"}


def test_users_whom_the_truth_lacks_have_nothing_judged():
    lists = {"a": rankings({**LISTS, 9: [10, 11]})}

    report = run(["judged"], lists=lists, policies=COUNTED, per_user=True)

    assert values_of(report, "judged")[9] == 0.0


@pytest.mark.parametrize(
    "metrics", [["judged@1", "RR"], ["bpref", "RR"], ["RR(unjudged='skip')@1"]]
)
def test_models_that_are_judged_to_another_share_are_told(metrics):
    truth = pl.DataFrame(
        [(user, user, float(user % 2)) for user in range(40)],
        schema=["user", "item", "relevance"],
        orient="row",
    )
    lists = {
        "old": rankings({user: [user] for user in range(40)}),
        "new": rankings({user: [100 + user] for user in range(40)}),
    }

    report = run(metrics, truth=truth, lists=lists, statistics={"baseline": "old"})

    assert len(report.labels) == len(metrics)
    (warning,) = [each for each in report.warnings if each.code == "uneven-judgements"]
    assert "lists of 'new' than of those of 'old'" in warning.message


def test_judgements_do_not_hang_on_passes_or_forms(tmp_path):
    TRUTH.write_parquet(tmp_path / "truth.parquet")
    rankings().write_parquet(tmp_path / "a.parquet")
    names = ["judged@2", "bpref", "infAP", "AP(unjudged='skip')", "AP(unjudged='highest')",
             "recall(unjudged='lowest')@2", "f_of(RR(unjudged='highest'), recall)@3"]  # fmt: skip

    in_memory = run(names)
    on_disk = evalkit.evaluate(
        tmp_path / "truth.parquet", {"a": tmp_path / "a.parquet"}, metrics=names, threads=2
    )
    text = TRUTH.with_columns(pl.col("item").cast(pl.String), pl.col("user").cast(pl.String))
    as_text = run(
        names,
        truth=text,
        lists={"a": rankings().with_columns(pl.col("item", "user").cast(pl.String))},
    )

    for name in names:
        assert in_memory.value(name) == on_disk.value(name) == as_text.value(name)


def test_a_metric_of_rows_that_leave_is_refused():
    assert refused(["AP(terms='last_row', unjudged='skip')"]).code == "skipped-rows"


def test_lowest_and_highest_values_by_hand():
    """User 1 is shown unjudged, judged, relevant, pooled, relevant; user 2 judged, none, relevant.

    Lowest AP of user 1 is that of ranks 3 and 5 alone, highest with all of 1, 3, 4 and 5; of user 2
    that of rank 3 alone, and of ranks 2 and 3.
    """
    names = [f"{m}(unjudged='{way}')" for m in ("AP", "recall") for way in ("lowest", "highest")]

    report = run(names, per_user=True)

    lowest, highest = (values_of(report, f"AP(unjudged='{w}')") for w in ("lowest", "highest"))
    assert lowest[1] == pytest.approx((1 / 3 + 2 / 5) / 2)
    assert highest[1] == pytest.approx((1 + 2 / 3 + 3 / 4 + 4 / 5) / 4)
    assert (lowest[2], highest[2]) == pytest.approx((1 / 3, (1 / 2 + 2 / 3) / 2))
    at_two = run([f"recall(unjudged='{w}')@2" for w in ("lowest", "highest")], per_user=True)
    assert values_of(at_two, "recall(unjudged='lowest')@2") | {3: 0.0} == {1: 0.0, 2: 0.0, 3: 0.0}
    assert values_of(at_two, "recall(unjudged='highest')@2") | {3: 0.0} == {
        1: 1 / 3,
        2: 1 / 2,
        3: 0.0,
    }


def extremes_of():
    for name, metric in registry().items():
        for values in ({}, {"gain": "binary"}):
            names = {each.name for each in metric.parameters}
            is_default = bool(values) and values.items() <= metric.defaults.items()
            if (
                set(values) <= names
                and not is_default
                and "catalogue" not in names
                and not why_not(metric.request(3, **values))
            ):
                yield name, values


def test_no_judgement_is_below_the_lowest_or_above_the_highest():
    rng, top, cases = np.random.default_rng(5), 4.0, [*extremes_of()]
    rows, lists = [], {}
    for user in range(12):
        lists[user] = [100 * user + place for place in range(6)]
        states = rng.choice([None, 0.0, 1.0], 6, p=[0.5, 0.2, 0.3])
        rows += [(user, item, state) for item, state in zip(lists[user], states, strict=True)]
        rows.append((user, 100 * user + 50, 1.0))  # missed
    judged = [row for row in rows if row[2] is not None]
    truth = pl.DataFrame(judged, ["user", "item", "relevance"], orient="row")
    given = [{"max_relevance": top} if name in ("ERR", "SDCG", "INSQ") else {} for name, _ in cases]
    names = [
        f"{name}({''.join(f'{key}={value!r}, ' for key, value in (own | values).items())}"
        f"unjudged='{way}')@4"
        for (name, values), own in zip(cases, given, strict=True)
        for way in ("lowest", "highest")
    ]

    report = run(names, truth, {"a": rankings(lists)}, per_user=True)

    states = {(user, item): state for user, item, state in rows}
    ends = [values_of(report, label) for label in report.labels]
    for place, ((name, values), own) in enumerate(zip(cases, given, strict=True)):
        chosen = {**registry()[name].defaults, **own, **values}
        for user, items in lists.items():
            shown = [states[user, item] for item in items]
            found = [
                NAIVE[name](made, sorted([g for g in made if g > 0] + [1.0], reverse=True), 4,
                            **chosen)
                for made in judgements_of(shown, top if own else 1.0)
            ]  # fmt: skip
            low, high = (each[user] for each in ends[2 * place : 2 * place + 2])
            wanted = [np.nanmin(found), np.nanmax(found)]
            assert [low, high] == pytest.approx(wanted, abs=1e-12), (name, values)


def judgements_of(shown, top):
    """Every way in which the first four can be judged; what is below nobody judges."""
    free = [place for place, state in enumerate(shown[:4]) if state is None]
    for chosen in itertools.product([0.0, top], repeat=len(free)):
        made = [state or 0.0 for state in shown]
        for place, state in zip(free, chosen, strict=True):
            made[place] = state
        yield made


@pytest.mark.parametrize(
    "metric", ["nDCG(unjudged='highest')@3", "AUC(unjudged='lowest')", "bpref(unjudged='highest')",
               "nERR(unjudged='lowest')@3", "RR(unjudged='lowest', duplicates='count')"]
)  # fmt: skip
def test_what_has_no_exact_extremes_is_refused(metric):
    assert refused([metric]).code == "no-extremes"


@pytest.mark.parametrize("metric", ["ERR@3", "nERR@3", "BPM@3", "INST", "SDCG@3"])
def test_a_relevance_above_the_scale_is_refused(metric):
    truth = TRUTH.with_columns(pl.col("relevance") * 3)

    assert refused([metric], truth).code == "relevance-above-scale"
    name, at, cutoff = metric.partition("@")
    assert run([f"{name}(max_relevance=6){at}{cutoff}"], truth).labels
