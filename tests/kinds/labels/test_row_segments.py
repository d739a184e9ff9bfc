"""Segments of users: every number is that of the rows of the segment's users, alone."""

import numpy as np
import polars as pl
import pytest

import evalkit
from evalkit.aggregate.segments import _users
from evalkit.errors import EvalkitError, RequestError

N_USERS = 90
NAMES = [
    "AUC", "AP", "log-loss", "F1(at='best')", "ECE", "MCC", "AUC(over='users')", "GAUC",
    "log-loss(over='users')",
]  # fmt: skip


def impressions(seed: int = 2, *, text: bool = False) -> pl.DataFrame:
    rng = np.random.default_rng(seed)
    users = np.repeat(np.arange(N_USERS), rng.integers(1, 20, N_USERS))
    logit = rng.normal(size=N_USERS)[users] + rng.normal(size=users.size)
    labels = (rng.random(users.size) < 1 / (1 + np.exp(-logit))).astype(np.int8)
    log = pl.DataFrame({"user": users, "score": 1 / (1 + np.exp(-0.8 * logit)), "label": labels})
    log = log.with_columns(age=(pl.col("user") * 7) % 50, land=pl.col("user") % 3)
    return log.with_columns(pl.format("u{}", "user").alias("user")) if text else log


def people() -> pl.DataFrame:
    users = np.arange(N_USERS - 10)  # ten are unknown
    return pl.DataFrame({"user": users, "land": users % 3})


def check(report, segmentation: str, logs: dict[str, pl.DataFrame]) -> None:
    """The segment's numbers are those of a run over its rows alone."""
    alone = {
        name: evalkit.evaluate_labels(log, metrics=NAMES).estimates for name, log in logs.items()
    }
    found = [each for each in report.estimates if each.segmentation == segmentation]
    assert {each.segment for each in found} == set(logs)
    for estimate in found:
        (same,) = [one for one in alone[estimate.segment] if one.metric == estimate.metric]
        for field in ("value", "std_error", "low", "high", "n_users", "n_undefined"):
            assert getattr(estimate, field) == getattr(same, field), (estimate.metric, field)


@pytest.mark.parametrize("text", [False, True], ids=["numbers", "text"])
def test_a_segment_is_measured_as_its_rows_alone(text):
    log = impressions(text=text)

    report = evalkit.evaluate_labels(log, metrics=NAMES, segments={"land": {"by": "land"}})

    check(report, "land", {str(n): log.filter(pl.col("land") == n) for n in range(3)})
    whole = evalkit.evaluate_labels(log, metrics=NAMES)
    assert [e for e in report.estimates if e.segment is None] == list(whole.estimates)


def test_a_table_of_users_makes_segments_and_crosses():
    log = impressions()
    rules = {
        "land": {"path": people(), "by": "land"},
        "age": {"by": "age", "edges": [25]},
        "cross": [["land", "age"]],
    }

    report = evalkit.evaluate_labels(log, metrics=NAMES, segments=rules)

    known = log.filter(pl.col("user") < N_USERS - 10)
    lands = {str(n): known.filter(pl.col("land") == n) for n in range(3)}
    lands["(unknown)"] = log.filter(pl.col("user") >= N_USERS - 10)
    check(report, "land", lands)
    check(
        report,
        "land & age",
        {
            f"{land} & {name}": part
            for land, rows in lands.items()
            for name, part in (
                ("< 25", rows.filter(pl.col("age") < 25)),
                (">= 25", rows.filter(pl.col("age") >= 25)),
            )
            if part.height
        },
    )


def test_quantiles_are_those_of_users():
    log = impressions()

    report = evalkit.evaluate_labels(
        log, metrics=["AUC"], segments={"age": {"by": "age", "quantiles": 3}}
    )

    sizes = [each.n_users for each in report.estimates if each.segmentation == "age"]
    assert sum(sizes) == N_USERS
    assert max(sizes) - min(sizes) <= 4  # equal ages stay together


def test_small_segments_stand_as_one():
    log = impressions().with_columns(
        land=pl.when(pl.col("user") < 80).then("land").otherwise("user")
    )

    report = evalkit.evaluate_labels(
        log, metrics=NAMES, segments={"land": {"by": "land"}, "min_users": 20}
    )

    small = log.filter(pl.col("user") >= 80)
    lands = {str(n): log.filter((pl.col("land") == n) & (pl.col("user") < 80)) for n in range(3)}
    check(report, "land", {**lands, "(small)": small})
    assert "small-segments" in [warning.code for warning in report.warnings]


def test_models_are_compared_within_segments():
    logs = {"old": impressions(2), "new": impressions(2)}
    noise = np.random.default_rng(0).random(logs["new"].height)
    logs["new"] = logs["new"].with_columns(score=0.5 * pl.col("score") + 0.5 * pl.Series(noise))
    asked = {"metrics": NAMES, "statistics": {"baseline": "old"}}

    report = evalkit.evaluate_labels(logs, segments={"land": {"by": "land"}}, **asked)

    for land in range(3):
        own = {name: log.filter(pl.col("land") == land) for name, log in logs.items()}
        alone = evalkit.evaluate_labels(own, **asked).comparisons
        found = [each for each in report.comparisons if each.segment == str(land)]
        for estimate, same in zip(found, alone, strict=True):
            for field in ("delta", "std_error", "low", "high", "p_value", "n_users", "wins"):
                a, b = getattr(estimate, field), getattr(same, field)
                assert a == b or (a != a and b != b), (estimate.metric, field)
    assert {each.segmentation for each in report.macros} == {"land"}


def test_no_order_of_rows_moves_a_segment():
    log = impressions()
    asked = {"metrics": NAMES, "segments": {"land": {"by": "land"}}}

    one = evalkit.evaluate_labels(log, **asked)
    other = evalkit.evaluate_labels(log.sample(fraction=1, shuffle=True, seed=3), **asked)

    assert other.estimates == one.estimates


@pytest.mark.parametrize(
    ("rules", "names", "code"),
    [
        ({"n": {"by": "n_relevant"}}, ["AUC"], "conflicting-keys"),
        ({"g": {"by": "land", "item": "item", "path": "x"}}, ["AUC"], "conflicting-keys"),
        ({"l": {"by": "land"}}, ["AUC(over='sessions')"], "sessions-in-segments"),
        ({"l": {"by": "lnd"}}, ["AUC"], "missing-column"),
        ({"s": {"by": "score"}}, ["AUC"], "segment-conflict"),
    ],
)
def test_what_no_segment_can_be_made_of_is_refused(rules, names, code):
    log = impressions().with_columns(session=pl.col("user"))

    with pytest.raises(EvalkitError) as caught:
        evalkit.evaluate_labels(log, metrics=names, segments=rules, columns={"session": "session"})

    assert caught.value.code == code


def test_too_many_segments_are_refused():
    users = np.arange(1500)
    log = pl.DataFrame({"user": users, "score": users / 1500, "label": users % 2, "name": users})

    with pytest.raises(RequestError, match="too many to be measured one by one"):
        evalkit.evaluate_labels(log, metrics=["AUC"], segments={"name": {"by": "name"}})


def test_values_of_rows_that_lie_apart_are_kept_once(monkeypatch):
    users = np.arange(4000) * 7919 % 97
    log = pl.DataFrame({"user": users, "score": (users * 31 % 89) / 90, "label": users % 3 == 0})
    log = log.with_columns(land=pl.col("user") % 4)
    asked = {
        "metrics": ["AUC", "Brier(over='users')"],
        "segments": {"land": {"by": "land"}},
        "statistics": {"cluster": "user % 11"},
    }
    whole = evalkit.evaluate_labels(log, **asked)
    monkeypatch.setattr(_users, "MOST_KEPT", 50)
    monkeypatch.setattr(_users, "BATCH_ROWS", 300)

    again = evalkit.evaluate_labels(log, **asked)

    assert again.estimates == whole.estimates
