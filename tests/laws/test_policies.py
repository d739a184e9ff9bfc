"""Random logs under random policies: plain Python says the same, and so do both ways of reading."""

import math
import random
from dataclasses import asdict, replace

import by_policy
import polars as pl
import pytest
from by_policy import Asked, Log
from campaigns import ASKED

import evalkit
from evalkit.config import build_config
from evalkit.metrics import registry

SHORT, LONG = 4 if ASKED == "few" else 40, 3000  # logs

POLICIES = {
    "missing_ranking": ["zero", "skip", "nan"],
    "empty_ranking": ["zero", "skip", "nan"],
    "no_relevant": ["skip", "zero", "one", "nan"],
    "zeros": ["count", "skip", "survivors", "nan"],
    "seen": ["all", "shown"],
    "unjudged": ["count", "count", "skip"],
    "pooled": ["unjudged", "judged"],
    "rel_size": ["items", "rows"],
    "round_users": [17, 3, 1],
}
OF_SCORES = {
    "ties": [
        "item", "item-desc", "item-text", "item-text-desc", "input", "expected", "best", "worst",
        "mean-rank", "last-rank",
    ],
    "score_type": ["float64", "float32"],
    "nonpositive_scores": ["hit", "miss"],
}  # fmt: skip
OF_RUN = {
    "unknown_users": ["skip", "count"],
    "fractional_relevance": ["keep", "binary"],
    "threshold_rule": ["as-given", "floor"],
    "negative_relevance": ["ignore", "subtract"],
    "round_mean": [17, 2],
}
COPIES = ["best", "first", "last", "once", "count", "multiply"]
NUMBERS = {"beta": 2.0, "patience": 0.5, "log_base": math.e, "candidates": 40.0}
SMALL = {
    "truth": {"path": "truth.parquet"},
    "rankings": [{"model": "als", "path": "als.parquet"}],
    "metrics": {"names": ["RR"]},
}
NAMES = [name for name in registry() if name in by_policy.NAMES]


def make_log(rng: random.Random) -> Log:
    """Six users and nine items; copies, equal scores, empty and missing lists, nothing relevant."""
    copies, mode = rng.random() < 0.4, rng.choice(["rank", "score", "order"])
    grades = rng.choice([[1.0], [0.0, 1.0, 2.0, 3.0], [0.5, 1.0, 2.5], [-1.0, 0.0, 1.0, 3.0]])
    scores = rng.choice(
        [[0.5, 1.0, 2.0, -1.0, 0.0], [0.1, 0.1 + 1e-10, 3.0], [k / 7 for k in range(1, 60)]]
    )
    truth = {
        user: {item: rng.choice(grades) for item in rng.sample(range(9), rng.randint(1, 5))}
        for user in range(6)
        if rng.random() < 0.9
    } or {0: {0: 1.0}}
    lists = {}
    for user in range(8):
        if rng.random() < 0.8:
            size = rng.choice([0, 1, 2, 3, 5, 6]) if mode != "rank" else rng.randint(1, 6)
            items = (
                [rng.randrange(9) for _ in range(size)] if copies else rng.sample(range(9), size)
            )
            score = (lambda: rng.choice(scores)) if mode == "score" else (lambda: None)
            lists[user] = [(item, score()) for item in items]
    if not set(truth) & set(lists):
        lists[next(iter(truth))] = [(0, 1.0 if mode == "score" else None)]
    seen = {(user, rng.randrange(9)) for user in range(6) for _ in range(3)}
    drops = rng.random() < 0.3 and not (mode == "rank" and copies)
    threshold = rng.choice([None, None, 1.0, 1.7, 2.0, 3.0]) if grades != [1.0] else None
    return Log(mode, truth, lists, threshold, frozenset(seen) if drops else frozenset())


def has_copies(log: Log) -> bool:
    return any(len({item for item, _ in rows}) < len(rows) for rows in log.lists.values())


def draw_policies(rng: random.Random, log: Log) -> dict[str, str | int]:
    """Some policies of a run; what nothing in the log can follow is left out."""
    known = {**POLICIES, **OF_RUN, **(OF_SCORES if log.mode == "score" else {})}
    chosen = {name: rng.choice(values) for name, values in known.items() if rng.random() < 0.35}
    if has_copies(log) or rng.random() < 0.3:
        by_order = chosen.get("ties") not in by_policy.BY_ALL_ORDERS
        chosen["duplicates"] = rng.choice(COPIES if by_order else COPIES[:-1])  # that is refused
    return chosen


def draw_metric(rng: random.Random, log: Log, run: dict[str, str | int]) -> Asked | None:
    """A metric that follows the policies of a run or some of its own; None where it cannot."""
    name = rng.choice(NAMES)
    metric = registry()[name]
    parameters = {}
    for parameter in metric.parameters:
        if rng.random() < 0.4 and parameter.name not in ("mean", "others", "idcg_negative"):
            parameters[parameter.name] = (
                rng.choice(parameter.choices) if parameter.choices else NUMBERS[parameter.name]
            )
    own = {}
    if rng.random() < 0.3:
        known = {**POLICIES, **(OF_SCORES if log.mode == "score" else {})}
        policy = rng.choice(list(known))
        own[policy] = rng.choice(known[policy])
    cutoff = None if metric.cutoff == "never" else rng.choice([None, 1, 2, 3, 5, 12])
    asked = Asked(name, cutoff, parameters, own)
    followed = {**by_policy.POLICIES, **run, **own}
    if followed["ties"] in by_policy.BY_ALL_ORDERS:
        if not metric.request(cutoff, **parameters).has_closed_form:
            return None
        if followed["duplicates"] == "multiply":
            return None  # refused
    if parameters.get("terms") == "last_row" and followed["unjudged"] == "skip":
        return None  # refused
    if "AUC" in name and (has_copies(log) or str(followed["ties"]).endswith("-rank")):
        return None  # a row has no place of its own
    return asked


def tables(log: Log, *, as_rows: bool):
    """Truth, rankings and training log of a log, ids as integers."""
    truth = [(u, i, r) for u, items in log.truth.items() for i, r in items.items()]
    truth = pl.DataFrame(truth, schema=["user", "item", "relevance"], orient="row")
    train = pl.DataFrame(sorted(log.seen), schema=["user", "item"], orient="row")
    names = {"rank": ["rank"], "score": ["score"], "order": []}[log.mode]
    if as_rows:
        rows = [
            (user, item, rank if names == ["rank"] else score)
            for user, listed in log.lists.items()
            for rank, (item, score) in enumerate(listed, 1)
        ]
        types = {"user": pl.Int64, "item": pl.Int64, "rank": pl.Int64, "score": pl.Float64}
        schema = {name: types[name] for name in ("user", "item", *names)}
        return (
            truth,
            pl.DataFrame([row[: len(schema)] for row in rows], schema, orient="row"),
            train,
        )
    schema = {"user": pl.Int64, "item": pl.List(pl.Int64), "score": pl.List(pl.Float64)}
    lists = [(u, [i for i, _ in rows], [s for _, s in rows]) for u, rows in log.lists.items()]
    frame = pl.DataFrame(lists, schema, orient="row")
    return truth, frame if names else frame.drop("score"), train


def evaluate(log: Log, metrics: list[Asked], policies: dict[str, str | int]):
    as_rows = log.mode == "rank"
    truth, rankings, train = tables(log, as_rows=as_rows)
    lenient = {"no_common_user": "warn", "empty_input": "warn", "truth_in_train": "count"}
    return evalkit.evaluate(
        truth,
        {"als": rankings},
        metrics=list(dict.fromkeys(each.label for each in metrics)),
        policies={**lenient, "no_judged": "warn", **policies},
        threshold=log.threshold,
        train=train if log.seen else None,
        drop_seen=bool(log.seen),
        per_user=True,
        threads=1,
    )


def draw(seed: int):
    """A log, policies of the run, and metrics."""
    rng = random.Random(seed)
    log = make_log(rng)
    policies = draw_policies(rng, log)
    drawn = (draw_metric(rng, log, policies) for _ in range(14))
    metrics = [each for each in drawn if each is not None]
    return log, policies, metrics or [Asked("recall", 3)]


NUDGE = 1e-12  # by which two ways of adding up may differ, so that halves are rounded differently


def close(one: float, low: float, high: float) -> bool:
    """Equal but for the last digits; between two where a half may be rounded either way."""
    if math.isnan(low) or math.isnan(high):
        return math.isnan(one)
    tolerance = NUDGE + 1e-11 * abs(one)
    return low - tolerance <= one <= high + tolerance


def differences(seed: int) -> list[str]:
    """Where a report and plain Python disagree."""
    log, policies, metrics = draw(seed)
    report = evaluate(log, metrics, policies)
    config = build_config({**SMALL, "policies": policies}, name="law")
    wrong = []
    for asked in metrics:
        low, low_values = by_policy.number_of(log, asked, policies, nudge=-NUDGE)
        high, values = by_policy.number_of(log, asked, policies, nudge=NUDGE)
        (label,) = (each.label for each in config.read_metrics([asked.label]))
        frame = report.per_user(label)
        ours = dict(frame.select("user", frame.columns[-1]).iter_rows())
        found = report.value(label)
        where = f"seed {seed}, {asked.label} under {policies}"
        if not close(found, low, high):
            wrong.append(f"{where}: {found!r}, by hand {low!r} to {high!r}")
        for user, value in values.items():
            if not close(ours[user], low_values[user], value):
                wrong.append(f"{where}: user {user} {ours[user]!r}, by hand {value!r}")
        if set(ours) != set(values):
            wrong.append(f"{where}: users {sorted(ours)}, by hand {sorted(values)}")
    return wrong


@pytest.mark.some_cases(13)
@pytest.mark.parametrize("seed", range(SHORT))
def test_random_policies_agree_with_plain_python(seed):
    assert differences(seed) == []


@pytest.fixture
def campaign(request):
    """Minutes of random logs, which nobody waits for who did not ask for them."""
    if "slow" not in request.config.option.markexpr:
        pytest.skip("a long campaign: -m slow")


@pytest.mark.slow
@pytest.mark.usefixtures("campaign")
@pytest.mark.parametrize("first", range(0, LONG, LONG // 10))
def test_many_random_policies_agree_with_plain_python(first):
    seeds = range(SHORT + first, SHORT + first + LONG // 10)
    assert [each for seed in seeds for each in differences(seed)] == []


# ---------------------------------------------------------------- both ways of reading

# what cannot matter where no item stands twice, no scores are equal, and all are above 0
NEUTRAL = [
    {"duplicates": "best"},
    {"duplicates": "last"},
    {"duplicates": "once"},
    {"duplicates": "count"},
    {"duplicates": "multiply"},
    {"rel_size": "rows"},
    {"round_users": 16},
]
NEUTRAL_OF_SCORES = [
    {"nonpositive_scores": "miss"},
    {"score_type": "float32"},
    *({"ties": ties} for ties in ("input", "item-text-desc", "numba", "mean-rank", "last-rank")),
]


def plain_log(rng: random.Random) -> Log:
    """A log without copies, whose scores are above 0, no two of a list alike."""
    while has_copies(log := make_log(rng)):
        pass
    if log.mode != "score":
        return log
    lists = {
        user: [(item, float(score)) for (item, _), score in zip(rows, scores, strict=True)]
        for user, rows in log.lists.items()
        for scores in [rng.sample(range(1, 50), len(rows))]
    }
    return replace(log, lists=lists)


def body(report) -> list:
    """What of a report depends on the numbers and counts alone."""
    estimates = [{**asdict(each), "policies": None} for each in report.estimates]
    counts = asdict(report.counts)
    for each in counts["models"].values():
        del each["duplicates_searched"]
    codes = [each.code for each in report.warnings if each.code != "policy-without-scores"]
    return [estimates, counts, codes]


def ways_that_part(seed: int) -> list[str]:
    """Policies that cannot matter on a log, and change its report nevertheless."""
    rng = random.Random(seed)
    log = plain_log(rng)
    may_differ = {name for each in NEUTRAL + NEUTRAL_OF_SCORES for name in each}
    policies = {
        name: value for name, value in draw_policies(rng, log).items() if name not in may_differ
    }
    drawn = (draw_metric(rng, log, policies) for _ in range(14))
    metrics = [each for each in drawn if each is not None and not set(each.policies) & may_differ]
    metrics += [Asked("AUC"), Asked("partial-AUC", 2)]
    expected = evaluate(log, metrics, policies)
    neutral = NEUTRAL + (NEUTRAL_OF_SCORES if log.mode == "score" else [])
    wrong = []
    for policy_change in neutral:
        found = evaluate(log, metrics, {**policies, **policy_change})
        where = f"seed {seed}: {policy_change} under {policies}"
        if not alike(body(found), body(expected)):
            wrong.append(f"{where}: {body(found)} for {body(expected)}")
        for label in expected.labels:
            values = [report.per_user(label)["value"].to_list() for report in (found, expected)]
            if not alike(*values):
                wrong.append(f"{where}, {label}: {values[0]} for {values[1]}")
    return wrong


def alike(one, other) -> bool:
    """Whether two documents are the same but for the last digit of numbers."""
    if isinstance(one, dict):
        return set(one) == set(other) and all(alike(one[key], other[key]) for key in one)
    if isinstance(one, list):
        return len(one) == len(other) and all(map(alike, one, other))
    if isinstance(one, float) and isinstance(other, float):
        return close(one, other, other)
    return one == other


@pytest.mark.some_cases(2)
@pytest.mark.parametrize("seed", range(SHORT // 4))
def test_policies_that_cannot_matter_change_no_report(seed):
    assert ways_that_part(seed) == []


@pytest.mark.slow
@pytest.mark.usefixtures("campaign")
@pytest.mark.parametrize("first", range(0, LONG // 10, LONG // 50))
def test_policies_that_cannot_matter_change_none_of_many_reports(first):
    seeds = range(SHORT + first, SHORT + first + LONG // 50)
    assert [each for seed in seeds for each in ways_that_part(seed)] == []
