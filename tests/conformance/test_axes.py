"""Profiles on logs that nobody has seen before, against the axes in plain Python."""

import math

import numpy as np
import polars as pl
import pytest
from axes import AXES, Logs, axes_of, measure

import evalkit
from evalkit.metrics.profiles import find_profile, profile_names
from peers import NAMES

LIBRARIES = [
    name
    for name in profile_names()
    if name.startswith("trec_eval") or name in AXES["profiles"]  # records hold the others
]
CUTOFFS = (1, 3, 10, 30, None)
N_USERS = 100
# what each library has; under equal scores a profile may say that there is no rule
METRICS = {
    "hit": ["hit_rate"],
    "hits": ["hits"],
    "precision": ["precision"],
    "recall": ["recall"],
    "F": ["f1"],
    "R-precision": ["r_precision"],
    "RR": ["rr"],
    "AP": ["ap"],
    "DCG": ["dcg", "dcg_exp"],
    "nDCG": ["ndcg", "ndcg_exp", "ndcg_binary"],
    "RBP": ["rbp"],
}
EXPONENTIAL = ("ranx", "ir_measures")
# of which the file of axes says nothing: measures of trec_eval 10 and of cwl-eval, whose records
# `test_measures.py` has
NO_AXES = {(library, name) for library in ("trec_eval", "trec_eval_10", "ir_measures")
           for name in ("dcg", "dcg_exp", "rbp")}  # fmt: skip


def make_logs(seed: int, *, grades: str, text: bool, repeats: bool) -> Logs:
    """Users with lists of 1 to 60 rows, full of equal scores; some lack one or the other."""
    rng = np.random.default_rng(seed)
    items = [f"i{number}" if text else number for number in range(1, 161)]
    truth: dict[object, dict[object, float]] = {}
    run: dict[object, tuple[tuple[object, ...], tuple[float, ...]]] = {}
    for number in range(N_USERS):
        user = f"u{number}" if text else number
        if rng.random() < 0.9:
            chosen = rng.choice(len(items), size=int(rng.integers(1, 25)), replace=False)
            values = {
                "binary": [1.0],
                "graded": [0.0, 1.0, 2.0, 3.0],
                "negative": [-2.0, -1.0, 0.0, 1.0, 3.0],
                "float": [0.5, 2.5, 3.0, 3.5, 4.5, 5.0],
            }[grades]
            if rng.random() < 0.1 and grades != "binary":
                values = values[:1]  # nothing is relevant to this user
            truth[user] = {items[at]: float(rng.choice(values)) for at in chosen}
        if rng.random() < 0.9:
            size = int(rng.integers(1, 60))
            shown = rng.choice(len(items), size=size, replace=repeats)
            scores = np.round(rng.normal(size=size), int(rng.choice([0, 1, 8])))
            if rng.random() < 0.2:  # the same as float32
                scores = scores + rng.integers(0, 3, size=size) * 1e-10
            run[user] = tuple(items[at] for at in shown), tuple(float(score) for score in scores)
    return Logs(truth, run, 3.5 if grades == "float" else 1.0)


def tables(logs: Logs) -> tuple[pl.DataFrame, pl.DataFrame]:
    truth = [(u, i, r) for u, judged in logs.truth.items() for i, r in judged.items()]
    run = [(u, i, s) for u, listed in logs.run.items() for i, s in zip(*listed, strict=True)]
    return (
        pl.DataFrame(truth, schema=["user", "item", "relevance"], orient="row"),
        pl.DataFrame(run, schema=["user", "item", "score"], orient="row"),
    )


def asked(library: str) -> list[tuple[str, int | None, str]]:
    """Neutral name, cutoff, and how evalkit writes them."""
    found = []
    profile = find_profile(library)
    for metric, neutral in METRICS.items():
        for name in neutral:
            if name.endswith("_exp") and library not in EXPONENTIAL:
                continue
            if (name == "ndcg_binary" and library != "elliot") or (library, name) in NO_AXES:
                continue
            for cutoff in CUTOFFS:
                if (library, name, cutoff) == ("rectools", "r_precision", None):
                    continue  # it needs a cutoff
                if profile.has_metric(metric, cutoff):
                    label = NAMES[name] + ("" if cutoff is None else f"@{cutoff}")
                    found.append((name, cutoff, label))
    return found


FORMS = [
    pytest.param("binary", True, False, id="binary, text ids"),
    pytest.param("graded", False, False, id="graded, integer ids"),
    pytest.param("negative", True, False, id="negative, text ids"),
    pytest.param("float", False, False, id="fractions, integer ids"),
    pytest.param("binary", False, True, id="binary, items twice"),
    pytest.param("graded", True, True, id="graded, items twice, text ids"),
]


@pytest.mark.some_cases(9)
@pytest.mark.parametrize(("grades", "text", "repeats"), FORMS)
@pytest.mark.parametrize("library", [each for each in LIBRARIES if asked(each)])
def test_a_profile_is_what_the_axes_say(library, grades, text, repeats):
    logs = make_logs(len(library) + 7 * len(grades), grades=grades, text=text, repeats=repeats)
    truth, run = tables(logs)
    names = asked(library)
    if library == "sklearn" and grades == "negative":
        names = [each for each in names if each[0] != "ndcg"]  # it raises

    report = evalkit.evaluate(
        truth,
        {"run": run},
        metrics=[label for _, _, label in names],
        profile=library,
        threshold=logs.threshold,
        per_user=True,
        threads=1,
    )

    wrong = []
    for metric, cutoff, label in names:
        mean, values = measure(library, metric, cutoff, logs)
        if not same(report.value(label), mean):
            wrong.append(f"{label}: {report.value(label)!r}, by the axes {mean!r}")
        frame = report.per_user(label)
        ours = dict(frame.select("user", frame.columns[-1]).iter_rows())
        axes = axes_of(library, metric, cutoff)
        for user, value in values.items():
            if not same(ours.get(user, math.nan), value):
                wrong.append(f"{label} of {user}: {ours.get(user)!r}, by the axes {value!r}")
        left = [user for user, value in ours.items() if user not in values and value == value]
        wrong += [f"{label} has {user}, whom {axes['users']} leaves out" for user in left]
    assert wrong == []


def same(ours: float, theirs: float) -> bool:
    if math.isnan(ours) or math.isnan(theirs):
        return math.isnan(ours) and math.isnan(theirs)
    return math.isclose(ours, theirs, rel_tol=1e-12, abs_tol=1e-12)
