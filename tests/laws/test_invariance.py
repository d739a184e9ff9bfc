"""A report says the same whatever form its log has, and what plain Python says."""

import math

import logs as made
import numpy as np
import oracle
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from logs import Log, body, examples, logs, run_log

from evalkit.errors import EvalkitError
from evalkit.ranks import _probe

laws = settings(
    deadline=None,
    max_examples=examples(60),
    phases=[Phase.explicit, Phase.reuse, Phase.generate, Phase.shrink],
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)

POLICIES = st.fixed_dictionaries(
    {},
    optional={
        "missing_ranking": st.sampled_from(["zero", "skip"]),
        "no_relevant": st.sampled_from(["skip", "zero"]),
        "unknown_users": st.sampled_from(["skip", "skip", "skip", "error"]),
        "truth_duplicates": st.sampled_from(["max", "sum", "last", "error"]),
        "negative_relevance": st.sampled_from(["ignore", "subtract", "error"]),
        "beyond_depth": st.sampled_from(["warn", "error"]),
        "no_common_user": st.sampled_from(["warn", "error"]),
        "empty_input": st.sampled_from(["warn", "error"]),
    },
)
LENIENT = {"no_common_user": "warn", "empty_input": "warn"}
TIES = st.sampled_from(["item", "item-desc", "item-text", "item-text-desc", "input"])
BATCH = st.sampled_from([1, 3, 1 << 20])


def agree(log, *, mode, policies, batch=1 << 20, as_lists=False, **options):
    """The report says what the oracle says, or refuses what it refuses."""
    lists = {"policies": policies, "threshold": options.get("threshold")}
    if options.get("with_train"):
        lists |= {"train": log.train, "drop_seen": options.get("drop_seen", False)}
    expected = refused = None
    try:
        expected = oracle.evaluate(log.truth, log.rankings, mode=mode, **lists)
    except oracle.Refused as refusal:
        refused = refusal.codes
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_probe, "BATCH_ROWS", batch)
        patch.setattr(_probe, "BATCH_LISTS", batch)
        try:
            report = run_log(log, mode=mode, policies=policies, as_lists=as_lists, **options)
        except EvalkitError as error:
            assert made.codes_of(error) == refused, str(error)
            return None
    assert refused is None
    check_report(report, expected)
    return report


def check_report(report, expected):
    document = made.json.loads(report.to_json())
    assert document["counts"]["truth"] == expected.truth
    assert document["counts"]["models"]["als"] == expected.model
    assert document["meta"]["ties"]["als"] == expected.ties
    for each in report.estimates:
        label = each.metric
        kept = report.per_user(label, model="als")
        values = kept["value"].to_list()
        assert kept["user"].to_list() == expected.users
        np.testing.assert_allclose(
            values, expected.values[label], rtol=1e-12, atol=1e-15, err_msg=label
        )
        assert each.n_undefined == expected.n_undefined(label), label
        assert each.n_users == len(values) - each.n_undefined, label
        mean = oracle.exact_mean(values)
        assert each.value == mean or (math.isnan(each.value) and math.isnan(mean)), label


# ---------------------------------------------------------------- (a) against plain Python


@laws
@given(log=logs(), policies=POLICIES, batch=BATCH, threads=st.sampled_from([1, 2]))
def test_ranks_agree_with_plain_python(log, policies, batch, threads):
    agree(log, mode="rank", policies=policies, batch=batch, threads=threads)


@laws
@given(log=logs(), policies=POLICIES, ties=TIES, batch=BATCH, as_lists=st.booleans())
def test_scores_agree_with_plain_python(log, policies, ties, batch, as_lists):
    agree(log, mode="score", policies={**policies, "ties": ties}, batch=batch, as_lists=as_lists)


@laws
@given(log=logs(), policies=POLICIES, batch=BATCH, as_lists=st.booleans())
def test_row_order_agrees_with_plain_python(log, policies, batch, as_lists):
    agree(log, mode="order", policies=policies, batch=batch, as_lists=as_lists)


@laws
@given(
    log=logs(copies=True),
    mode=st.sampled_from(["rank", "score", "order"]),
    duplicates=st.sampled_from(["error", "best", "first", "last", "count"]),
    ties=TIES,
    batch=BATCH,
)
def test_copies_agree_with_plain_python(log, mode, duplicates, ties, batch):
    policies = {**LENIENT, "duplicates": duplicates, "ties": ties}
    agree(log, mode=mode, policies=policies, batch=batch)


@laws
@given(
    log=logs(copies=True, ranks="bad"),
    bad_ranks=st.sampled_from(["error", "keep", "keep", "compress"]),
    duplicates=st.sampled_from(["error", "best", "first", "last", "count"]),
    first_rank=st.sampled_from([0, 1, -3]),
    ties=TIES,
    batch=BATCH,
)
def test_bad_ranks_agree_with_plain_python(log, bad_ranks, duplicates, first_rank, ties, batch):
    policies = {
        **LENIENT, "bad_ranks": bad_ranks, "duplicates": duplicates, "first_rank": first_rank,
        "ties": ties,
    }  # fmt: skip
    agree(log, mode="rank", policies=policies, batch=batch)


@laws
@given(
    log=logs(copies=True, scores=st.one_of(made.SCORES, st.sampled_from([None, math.nan]))),
    bad_scores=st.sampled_from(["error", "last", "drop"]),
    duplicates=st.sampled_from(["error", "best", "first", "last", "count"]),
    ties=TIES,
    batch=BATCH,
)
def test_bad_scores_agree_with_plain_python(log, bad_scores, duplicates, ties, batch):
    policies = {**LENIENT, "bad_scores": bad_scores, "duplicates": duplicates, "ties": ties}
    agree(log, mode="score", policies=policies, batch=batch)


@laws
@given(
    log=logs(copies=True, nulls=True),
    mode=st.sampled_from(["rank", "score", "order"]),
    null_ids=st.sampled_from(["error", "drop", "drop"]),
    duplicates=st.sampled_from(["best", "count"]),
    batch=BATCH,
)
def test_null_ids_agree_with_plain_python(log, mode, null_ids, duplicates, batch):
    policies = {**LENIENT, "null_ids": null_ids, "duplicates": duplicates, "bad_ranks": "keep"}
    agree(log, mode=mode, policies=policies, batch=batch)


@laws
@given(
    log=logs(relevance=st.sampled_from([-2.0, -0.5, 0.0, 0.5, 1.0, 2.0, 4.0])),
    mode=st.sampled_from(["rank", "score", "order"]),
    policies=POLICIES,
    threshold=st.sampled_from([None, 2.0, 0.5, 0.0]),
    batch=BATCH,
)
def test_thresholds_and_negative_relevance_agree_with_plain_python(
    log, mode, policies, threshold, batch
):
    agree(log, mode=mode, policies={**LENIENT, **policies}, threshold=threshold, batch=batch)


@laws
@given(
    log=logs(copies=True, ranks="bad"),
    mode=st.sampled_from(["rank", "score", "order"]),
    drop_seen=st.booleans(),
    duplicates=st.sampled_from(["error", "best", "first", "last", "count"]),
    bad_ranks=st.sampled_from(["error", "keep", "compress"]),
    batch=BATCH,
)
def test_training_logs_agree_with_plain_python(log, mode, drop_seen, duplicates, bad_ranks, batch):
    policies = {**LENIENT, "duplicates": duplicates, "bad_ranks": bad_ranks}
    agree(
        log, mode=mode, policies=policies, batch=batch, with_train=True, drop_seen=drop_seen
    )
