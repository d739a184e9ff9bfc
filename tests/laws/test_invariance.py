"""A report says the same whatever form its log has, and what plain Python says."""

import datetime
import json
import math
import os
import subprocess
import sys
import tempfile
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import logs as made
import numpy as np
import oracle
import polars as pl
import pytest
from campaigns import examples
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from logs import body, logs, run_log

import evalkit
from evalkit import pipeline, truth
from evalkit.aggregate.user_values import blocks as aggregate
from evalkit.config import build_config
from evalkit.errors import EvalkitError
from evalkit.planning import tables as plan
from evalkit.ranks import _records, _scan
from evalkit.truth import _build

laws = settings(
    deadline=None,
    max_examples=examples(25),
    phases=[Phase.explicit, Phase.reuse, Phase.generate, Phase.shrink],
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)

forms = settings(laws, max_examples=examples(10))  # several runs an example

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
    expected, refused = None, set()
    try:
        expected = oracle.evaluate(log.truth, log.rankings, mode=mode, **lists)
    except oracle.Refused as refusal:
        refused = refusal.codes
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_scan, "BATCH_ROWS", batch)
        patch.setattr(_scan, "BATCH_LISTS", batch)
        patch.setattr(_records, "KEPT_UNKNOWN", 2)
        found, report = set(), None
        try:
            report = run_log(log, mode=mode, policies=policies, as_lists=as_lists, **options)
        except EvalkitError as error:
            found = made.codes_of(error)
    assert found == refused
    if report is not None:
        check_report(report, expected)


def check_report(report, expected):
    document = made.json.loads(report.to_json())
    assert document["counts"]["truth"] == expected.truth
    assert document["counts"]["models"]["als"] == expected.model
    assert document["meta"]["ties"]["als"] == expected.ties
    for estimate in report.estimates:
        label = estimate.metric
        kept = report.per_user(label, model="als")
        values = kept["value"].to_list()
        assert kept["user"].to_list() == expected.users
        np.testing.assert_allclose(
            values, expected.values[label], rtol=1e-12, atol=1e-15, err_msg=label
        )
        assert estimate.n_undefined == expected.n_undefined(label), label
        assert estimate.n_users == len(values) - estimate.n_undefined, label
        mean = oracle.exact_mean(values)
        assert estimate.value == mean or (math.isnan(estimate.value) and math.isnan(mean)), label


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
    first_rank=st.sampled_from([1, 1, 0, -2]),
    batch=BATCH,
    threads=st.sampled_from([1, 2]),
)
def test_training_logs_agree_with_plain_python(
    log, mode, drop_seen, duplicates, bad_ranks, first_rank, batch, threads
):
    policies = {
        **LENIENT, "duplicates": duplicates, "bad_ranks": bad_ranks, "first_rank": first_rank
    }  # fmt: skip
    policies["truth_in_train"] = "count"
    options = {"with_train": True, "drop_seen": drop_seen, "threads": threads}
    agree(log, mode=mode, policies=policies, batch=batch, **options)


@laws
@given(
    log=logs(),
    truth_in_train=st.sampled_from(["warn", "error", "count"]),
    truth_duplicates=st.sampled_from(["max", "sum", "last"]),
    threshold=st.sampled_from([None, 0.5, 1.0, 2.0]),
    drop_seen=st.booleans(),
    batch=BATCH,
)
def test_pairs_in_train_agree_with_plain_python(
    log, truth_in_train, truth_duplicates, threshold, drop_seen, batch
):
    policies = {
        **LENIENT,
        "truth_in_train": truth_in_train,
        "truth_duplicates": truth_duplicates,
    }
    options = {"with_train": True, "drop_seen": drop_seen, "threshold": threshold}
    agree(log, mode="rank", policies=policies, batch=batch, **options)


@laws
@given(
    log=logs(),
    policy=st.sampled_from(["max", "sum", "last", "error"]),
    threshold=st.sampled_from([None, 0.5, 2.0]),
)
def test_truth_without_relevance_agrees_with_plain_python(log, policy, threshold):
    bare = [{"user": row["user"], "item": row["item"]} for row in log.truth]
    policies = {**LENIENT, "truth_duplicates": policy}
    agree(replace(log, truth=bare), mode="rank", policies=policies, threshold=threshold)


# ---------------------------------------------------------------- (b) the same bytes

FIRST_DAY = datetime.date(2020, 1, 1)
# order-preserving codes of small integers: what the id becomes, its type, its type in rankings
CODES = {
    "int64": (lambda n: n, pl.Int64, pl.Int64),
    "narrow": (lambda n: n, pl.UInt8, pl.Int16),
    "wide": (lambda n: n, pl.Int32, pl.Int128),
    "uint64": (lambda n: n + 2**63 - 3, pl.UInt64, pl.UInt64),
    "uint64 and int64": (lambda n: n, pl.UInt64, pl.Int64),
    "negative": (lambda n: n - 2**63, pl.Int64, pl.Int64),
    "text": (lambda n: f"{n:03d}", pl.String, pl.String),
    "long text": (lambda n: f"https://example.org/{n:06d}/é", pl.String, pl.String),
    "categorical": (lambda n: f"{n:03d}", pl.Categorical, pl.String),
    "enum": (lambda n: f"{n:03d}", pl.Enum([f"{n:03d}" for n in range(20)]), pl.Categorical),
    "binary": (lambda n: bytes([255, n]), pl.Binary, pl.Binary),
    "date": (lambda n: FIRST_DAY + datetime.timedelta(n), pl.Date, pl.Date),
    "time": (
        lambda n: datetime.datetime(1969, 12, 31) + datetime.timedelta(hours=n),
        pl.Datetime("us"),
        pl.Datetime("ns"),
    ),
}
SOME_CODE = st.sampled_from(sorted(CODES))


def coded(rows, columns, user_code, item_code, *, in_rankings):
    """A table of rows with other ids."""
    place = 2 if in_rankings else 1
    user, item = CODES[user_code], CODES[item_code]
    renamed = [{**row, "user": user[0](row["user"]), "item": item[0](row["item"])} for row in rows]
    return made.table(renamed, columns, {"user": user[place], "item": item[place]})


def in_list_order(rows):
    """Rows such that each user's stand in the order of their ranks, users as mixed as before."""
    waiting = {}
    for row in sorted(rows, key=lambda row: row["rank"]):
        waiting.setdefault(row["user"], []).append(row)
    return [waiting[row["user"]].pop(0) for row in rows]


def values_of(report):
    """Values of all users, in order of user."""
    return [report.per_user(label, model="als")["value"].to_list() for label in made.METRICS]


def same(one, other):
    assert body(one) == body(other)
    np.testing.assert_array_equal(values_of(one), values_of(other))


@forms
@given(log=logs(distinct_scores=True), data=st.data())
def test_rank_score_order_and_lists_give_the_same_bytes(log, data):
    options = {"policies": LENIENT}
    reference = run_log(log, **options)
    ordered = replace(log, rankings=in_list_order(log.rankings))
    shuffled = replace(
        log,
        truth=data.draw(st.permutations(log.truth)),
        rankings=data.draw(st.permutations(log.rankings)),
    )
    with pytest.MonkeyPatch.context() as patch:
        for name in ("BATCH_ROWS", "BATCH_LISTS"):
            patch.setattr(_scan, name, data.draw(BATCH))
        patch.setattr(_build, "ROWS_A_PARTITION", data.draw(st.sampled_from([1, 2, 1 << 16])))
        patch.setattr(aggregate, "USERS_A_BLOCK", data.draw(st.sampled_from([1, 2, 8192])))

        same(reference, run_log(shuffled, mode="rank", threads=8, **options))
        same(reference, run_log(shuffled, mode="score", threads=2, **options))
        same(reference, run_log(ordered, mode="order", threads=2, **options))
        same(reference, run_log(ordered, mode="order", as_lists=True, threads=1, **options))
        same(reference, run_log(shuffled, mode="score", as_lists=True, threads=2, **options))


@forms
@given(
    log=logs(truth_copies=True),
    mode=st.sampled_from(["rank", "score", "order"]),
    ties=st.sampled_from(["item", "item-desc", "input"]),
    user_code=SOME_CODE,
    item_code=SOME_CODE,
    batch=BATCH,
)
def test_other_ids_give_the_same_bytes(log, mode, ties, user_code, item_code, batch):
    options = {"mode": mode, "policies": {**LENIENT, "ties": ties}}
    columns = ["user", "item", *made.columns_of(mode)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_scan, "BATCH_ROWS", batch)
        truth_table = coded(
            log.truth, ["user", "item", "relevance"], user_code, item_code, in_rankings=False
        )
        rankings = coded(log.rankings, columns, user_code, item_code, in_rankings=True)

        same(run_log(log, **options), made.run(truth_table, rankings, **options))


@forms
@given(
    log=logs(),
    mode=st.sampled_from(["rank", "score", "order"]),
    kinds=st.sampled_from([(pl.Int64, pl.Int64), (pl.String, pl.Int8), (pl.Date, pl.String)]),
    batch=BATCH,
)
def test_two_user_columns_give_the_same_bytes(log, mode, kinds, batch):
    # as a user and a day: (0, 0), (0, 1), (1, 0), (1, 1), ...; 0, 1 and 1, 0 are two users
    options = {"mode": mode, "policies": LENIENT}
    columns = made.columns_of(mode)

    def split(rows, names):
        return made.table(rows, ["user", *names]).select(
            (pl.col("user") // 2).cast(kinds[0]).alias("person"),
            (pl.col("user") % 2).cast(kinds[1]).alias("day"),
            pl.col(names),
        )

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_scan, "BATCH_ROWS", batch)
        ids = {"user": ["person", "day"], "item": "item"}
        report = made.run(
            split(log.truth, ["item", "relevance"]),
            split(log.rankings, ["item", *columns]),
            columns={**ids, **{name: name for name in columns}},
            truth_columns={**ids, "relevance": "relevance"},
            **options,
        )

        same(run_log(log, **options), report)


@forms
@given(
    log=logs(),
    mode=st.sampled_from(["rank", "score", "order"]),
    n_files=st.integers(1, 37),
    group=st.sampled_from([1, 2, 5, 100]),
    batch=BATCH,
    threads=st.sampled_from([1, 2]),
    as_text=st.booleans(),
)
def test_files_and_row_groups_give_the_same_bytes(
    log, mode, n_files, group, batch, threads, as_text
):
    options = {"mode": mode, "policies": LENIENT}
    code = "text" if as_text else "int64"

    def write(rows, columns, folder, *, in_rankings):
        folder.mkdir()
        frame = coded(rows, columns, code, code, in_rankings=in_rankings)
        bounds = [len(rows) * n // n_files for n in range(n_files + 1)]
        for n, (begin, end) in enumerate(pairwise(bounds)):
            part = frame[begin:end]
            part.write_parquet(folder / f"part-{n:03d}.parquet", row_group_size=group)
        return folder

    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(_scan, "BATCH_ROWS", batch)
        names = ["user", "item", *made.columns_of(mode)]
        truth_folder = write(
            log.truth, ["user", "item", "relevance"], Path(folder, "truth"), in_rankings=False
        )
        rankings = write(log.rankings, names, Path(folder, "rankings"), in_rankings=True)
        report = made.run(truth_folder, rankings, threads=threads, **options)

    same(run_log(log, **options), report)


@forms
@given(
    log=logs(copies=True),
    mode=st.sampled_from(["rank", "score"]),
    duplicates=st.sampled_from(["best", "count"]),
    data=st.data(),
)
def test_copies_in_any_order_give_the_same_bytes(log, mode, duplicates, data):
    options = {"mode": mode, "policies": {**LENIENT, "duplicates": duplicates}}
    shuffled = replace(log, rankings=data.draw(st.permutations(log.rankings)))
    reference = run_log(log, threads=1, **options)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_scan, "BATCH_ROWS", data.draw(st.sampled_from([1, 3, 7])))
        patch.setattr(truth, "BATCH_ROWS", data.draw(st.sampled_from([1, 3, 7])))

        same(reference, run_log(shuffled, threads=1, **options))
        same(reference, run_log(shuffled, threads=8, **options))


@forms
@given(
    log=logs(copies=True, nulls=True, ranks="bad"),
    mode=st.sampled_from(["rank", "score", "order"]),
    duplicates=st.sampled_from(["error", "best", "first", "count"]),
    n_shares=st.sampled_from([2, 3, 7]),
    drop_seen=st.booleans(),
    batch=BATCH,
)
def test_several_passes_give_the_same_bytes(log, mode, duplicates, n_shares, drop_seen, batch):
    policies = {**LENIENT, "duplicates": duplicates, "null_ids": "drop", "bad_ranks": "keep"}
    policies["truth_in_train"] = "count"
    options = {"mode": mode, "policies": policies, "with_train": True, "drop_seen": drop_seen}
    try:
        reference = run_log(log, **options)
    except EvalkitError:
        return
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_scan, "BATCH_ROWS", batch)
        patch.setattr(truth, "BATCH_ROWS", batch)
        patch.setattr("evalkit.kinds.rankings.measure.count_shares", lambda *given: n_shares)

        same(reference, run_log(log, **options))


@forms
@given(
    one=logs(),
    other=logs(),
    mode=st.sampled_from(["rank", "score", "order"]),
    data=st.data(),
)
def test_a_model_column_gives_the_bytes_of_separate_tables(one, other, mode, data):
    options = {"mode": mode, "policies": LENIENT}
    names = ["user", "item", *made.columns_of(mode)]
    truth_table = made.table(one.truth, ["user", "item", "relevance"])
    rows = [
        [{**row, "model": name} for row in log.rankings] for name, log in (("a", one), ("b", other))
    ]
    if not all(rows):
        return
    mixed = [each.pop(0) for each in data.draw(st.permutations([r for r in rows for _ in r]))]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_scan, "BATCH_ROWS", data.draw(BATCH))
        separate = made.run(
            truth_table,
            {"a": made.table(one.rankings, names), "b": made.table(other.rankings, names)},
            **options,
        )
        together = made.run(
            truth_table,
            {"": made.table(mixed, [*names, "model"])},
            columns={name: name for name in [*names, "model"]},
            **options,
        )

        assert body(separate) == body(together)


@forms
@given(log=logs(truth_copies=False), mode=st.sampled_from(["rank", "score", "order"]), batch=BATCH)
def test_a_joined_log_gives_the_numbers_of_separate_tables(log, mode, batch):
    labels = {(row["user"], row["item"]): row["relevance"] for row in log.truth}
    joined = [
        {**row, "relevance": labels.get((row["user"], row["item"]), 0.0)} for row in log.rankings
    ]
    if not joined:
        return
    names = ["user", "item", *made.columns_of(mode)]
    rows = made.table(joined, [*names, "relevance"])
    tree = {
        "log": {
            "path": ["memory"],
            "model": "als",
            "columns": {**{name: name for name in names}, "label": "relevance"},
        },
        "metrics": {"names": list(made.METRICS)},
        "policies": {"beyond_depth": "warn"},
    }
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_scan, "BATCH_ROWS", batch)
        report = pipeline.run_config(
            build_config(tree, name="law"), given=plan.Given(rows), per_user=True
        )
        separate = made.run(rows, rows, mode=mode)

    (noted,) = [each for each in report.warnings if each.code == "joined-log"]
    others = tuple(each for each in report.warnings if each != noted)
    # labels beside rankings that are a table of their own look like scores
    own = tuple(each for each in separate.warnings if each.code != "row-order")
    same(replace(separate, warnings=own), replace(report, warnings=others))


# ---------------------------------------------------------------- races and hash seeds

N_ROWS = 2_000 if made.JIT_OFF else 100_000


@pytest.fixture(scope="module")
def scattered():
    """Rows of 300 users in random order, one in twenty a copy: neighbours meet in every batch."""
    rng = np.random.default_rng(7)
    n_users, n_items = 300, 2 * N_ROWS // 300
    pairs = rng.choice(n_users * n_items, size=N_ROWS, replace=False)
    users, items = pairs // n_items, pairs % n_items
    rankings = pl.DataFrame({"user": users, "item": items}).with_columns(
        rank=pl.int_range(1, pl.len() + 1).over("user").cast(pl.Int32),
        score=-pl.int_range(1, pl.len() + 1).over("user").cast(pl.Float64) // 3,
    )
    relevant = rng.choice(N_ROWS, size=N_ROWS // 4, replace=False)
    held_out = rankings[relevant].select("user", "item", relevance=pl.col("item") % 3 + 0.5)
    copies = rankings[rng.choice(N_ROWS, size=N_ROWS // 20)].with_columns(
        rank=pl.Series(rng.integers(1, 500, N_ROWS // 20), dtype=pl.Int32)
    )
    both = pl.concat([rankings, copies])
    return (
        held_out,
        rankings[rng.permutation(rankings.height)],
        both[rng.permutation(both.height)],
    )


@pytest.mark.some_cases(9)
@pytest.mark.parametrize("attempt", range(1 if made.JIT_OFF else 5))
@pytest.mark.parametrize(
    ("mode", "duplicates", "as_text"),
    [
        ("rank", "best", False),
        ("rank", "best", True),
        ("rank", "count", False),
        ("rank", "last", False),
        ("score", "error", False),
        ("score", "error", True),
        ("score", "best", False),
        ("score", "count", False),
        ("order", "first", False),
    ],
)
def test_threads_never_lose_an_update(scattered, monkeypatch, mode, duplicates, as_text, attempt):
    held_out, rankings, with_copies = scattered
    rows = rankings if duplicates == "error" else with_copies
    if as_text:
        text = pl.col("user", "item").cast(pl.String).str.zfill(9)
        held_out, rows = held_out.with_columns(text), rows.with_columns(text)
    names = ["user", "item", *made.columns_of(mode)]
    options = {
        "mode": mode,
        "policies": {"duplicates": duplicates, "bad_ranks": "keep"},
        "metrics": ["nDCG@{5,100}", "AP", "RR", "hits@50", "precision(over='length')"],
    }
    monkeypatch.setattr(_scan, "BATCH_ROWS", 1 << 12)
    reference = made.run(held_out, rows.select(names), threads=1, **options)

    report = made.run(held_out, rows.select(names), threads=[2, 8][attempt % 2], **options)
    assert body(report) == body(reference)
    assert report.per_user("AP").equals(reference.per_user("AP"), null_equal=True)


HASHING = """
import sys
sys.path[:0] = {paths!r}
from logs import body, run
report = run(*{files!r}, mode="score", policies={{"duplicates": "best"}})
print(body(report), report.run_key)
"""


def test_the_hash_seed_of_python_changes_no_byte(tmp_path):
    ids = pl.int_range(0, 600, eager=True)
    tables = [
        pl.DataFrame({"user": ids % 50, "item": ids * 7 % 91, "relevance": ids % 4}),
        pl.DataFrame({"user": ids % 60, "item": ids * 13 % 97, "score": ids * 11 % 23}),
    ]
    files = [str(tmp_path / f"{number}.parquet") for number in range(2)]
    for frame, file in zip(tables, files, strict=True):
        frame.with_columns(pl.col("user", "item").cast(pl.String)).write_parquet(file)
    paths = [str(Path(made.__file__).parents[1]), str(Path(made.__file__).parent)]
    other = "1" if os.environ.get("PYTHONHASHSEED") == "0" else "0"  # it is random here, or named

    printed = subprocess.run(
        [sys.executable, "-c", HASHING.format(paths=paths, files=files)],
        env={**os.environ, "PYTHONHASHSEED": other},
        check=True,
        capture_output=True,
        text=True,
    ).stdout

    report = made.run(*files, mode="score", policies={"duplicates": "best"})
    assert printed == f"{body(report)} {report.run_key}\n"


@pytest.mark.parametrize("seed", [1, 2])
def test_ids_of_another_type_change_no_byte(seed):
    """Users come in another order where ids are texts, in clusters and where rows are ranked."""
    draw, n = np.random.default_rng(seed), 60
    users, items = np.repeat(np.arange(n), 10), np.tile(np.arange(10), n)
    truth = pl.DataFrame({"user": users, "item": items, "group": users % 7})
    truth = truth.filter(pl.Series(draw.random(users.size) < 0.3))
    ranks = [
        pl.DataFrame({"user": users, "item": np.roll(items, k), "rank": items + 1}) for k in (3, 7)
    ]
    rated = pl.DataFrame({"user": users % 12, "item": np.arange(users.size)})
    ratings = rated.with_columns(rating=draw.normal(3.0, 1.0, users.size))
    labels = rated.with_columns(label=draw.integers(0, 2, users.size))

    def named(frame, form):
        return frame.with_columns(pl.format(form, "user").alias("user")) if form else frame

    def numbers(form):
        told = {"statistics": {"baseline": "a"}}
        noise = np.random.default_rng(seed + 10).normal(size=(2, users.size))
        predictions = {
            name: named(rated.with_columns(prediction=ratings["rating"] + own), form)
            for name, own in zip("ab", noise, strict=True)
        }
        scored = [
            labels.with_columns(score=pl.Series(own).rank() / users.size, model=pl.lit(name))
            for name, own in zip("ab", noise, strict=True)
        ]
        clustered = evalkit.evaluate(
            named(truth, form),
            {name: named(each, form) for name, each in zip("ab", ranks, strict=True)},
            metrics=["nDCG@5", "AP@10", "RR"],
            statistics={"baseline": "a", "cluster": "group"},
        )
        by_rating = evalkit.evaluate_ratings(
            named(ratings, form), predictions, metrics=["RMSE", "R2"], **told
        )
        by_label = evalkit.evaluate_labels(
            named(pl.concat(scored), form), metrics=["AUC", "log-loss"], **told
        )
        reports = [json.loads(each.to_json()) for each in (clustered, by_rating, by_label)]
        return [(each["metrics"], each["comparisons"]) for each in reports]

    assert numbers("user {}") == numbers(None)
    assert numbers("a long name of the user {} in a log") == numbers(None)
