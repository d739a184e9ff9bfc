"""Every worked example of five introductions: what they print, by the convention that they follow.

`vectors/seeds.json` has a row an example: the input, the number as printed, the right one, the
convention it follows and what other conventions give. A printed number is reproduced by naming
its convention, or is shown to be an error: right to the digits printed, a ratio of numbers that
were rounded before, or wrong.
"""

import json
import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import evalkit

ROWS = json.loads((Path(__file__).parent / "vectors" / "seeds.json").read_text(encoding="utf-8"))
BY_ID = {row["id"]: row for row in ROWS}
IDS = list(BY_ID)

NAMES = {
    "precision": "precision",
    "recall": "recall",
    "hit_rate": "hit",
    "rr": "RR",
    "ap": "AP",
    "cg": "CG",
    "dcg": "DCG",
    "idcg": "DCG",
    "ndcg": "nDCG",
    "f1": "F1",
    "pr_auc": "AP",  # the step sum over the curve is AP over all relevant items
    "mae": "MAE",
    "mse": "MSE",
    "rmse": "RMSE",
}
# an axis value, and how evalkit writes it
PARAMETERS = {
    "recall_den=rel": "over='relevant'",
    "recall_den=min_k": "over='min_k'",
    "ap_den=rel": "over='relevant'",
    "ap_den=rel with 4 relevant": "over='relevant'",
    "ap_den=min_k": "over='min_k'",
    "ap_den=hits": "over='hits'",
    "ap_den=k": "over='k'",
    "ap_terms=every_rank": "terms='every_rank'",
    "gain=linear": "gain='linear'",
    "gain=exp2": "gain='exp2'",
    "gain=binary": "gain='binary'",
    "discount=log2(i+1)": "discount='log'",
    "discount=max(log2 i,1)": "discount='jarvelin'",
    "log_base=e": "log_base=e",
    "idcg=shown": "idcg='shown'",
    "idcg=all": "idcg='all'",
    "idcg=full_k": "idcg='full_k'",
    "integration=step": "over='relevant'",
}
RATINGS = ("mae", "mse", "rmse")
NOT_A_NUMBER = ("000-accuracy-formula", "003-pr-curve")  # a formula; a list of points
MEANT = {"f1": {"recall_den=min_k": "recall_over='min_k'"}}


def lists_of(given: Mapping[str, Any]) -> list[tuple[list[str], dict[str, float]]]:
    """Each user's list and the relevance of items, whatever form the example has."""
    if "gains" in given:
        items = [f"i{place}" for place in range(len(given["gains"]))]
        return [(items, dict(zip(items, given["gains"], strict=True)))]
    if "hits" in given:
        rows = given["hits"] if isinstance(given["hits"][0], list) else [given["hits"]]
        lists = [[f"i{place}" for place in range(len(row))] for row in rows]
        return [
            (items, {item: 1.0 for item, hit in zip(items, row, strict=True) if hit})
            for items, row in zip(lists, rows, strict=True)
        ]
    rankings = given["rankings"] if "rankings" in given else {"": given["ranking"]}
    found = []
    for user, ranking in rankings.items():
        wanted = given.get("relevant")
        wanted = wanted[user] if isinstance(wanted, dict) else wanted
        grades = given["relevance"] if "relevance" in given else dict.fromkeys(wanted, 1.0)
        found.append(
            ([str(item) for item in ranking], {str(item): float(g) for item, g in grades.items()})
        )
    return found


def ideal_of(items: Sequence[str], grades: Mapping[str, float], *, shown: bool) -> list[str]:
    pool = [item for item in items if item in grades] if shown else list(grades)
    return sorted(pool, key=lambda item: -grades[item])


def measure(row: Mapping[str, Any], axes: Mapping[str, str], *, extra: int = 0) -> float:
    """What evalkit gives to an example under axis values."""
    given, metric = row["input"], row["metric"]
    if metric in RATINGS:
        return ratings(given, NAMES[metric])
    lists = lists_of(given)
    chosen = {axis: value for axis, value in axes.items() if axis != "idcg" or metric != "idcg"}
    if metric == "idcg":
        shown = axes.get("idcg") == "shown" or "gains" in given
        lists = [(ideal_of(items, grades, shown=shown), grades) for items, grades in lists]
    own = MEANT.get(metric, {})
    written = [
        own.get(f"{axis}={value}", PARAMETERS[f"{axis}={value}"]) for axis, value in chosen.items()
    ]
    arguments = f"({', '.join(written)})" if written else ""
    cutoff = "" if row["k"] is None else f"@{row['k']}"
    truth = [
        (user, item, grade)
        for user, (_, grades) in enumerate(lists)
        for item, grade in [*grades.items(), *((f"more{n}", 1.0) for n in range(extra))]
    ]
    rankings = [
        (u, item, n) for u, (items, _) in enumerate(lists) for n, item in enumerate(items, 1)
    ]
    report = evalkit.evaluate(
        pl.DataFrame(truth, schema=["user", "item", "relevance"], orient="row"),
        pl.DataFrame(rankings, schema=["user", "item", "rank"], orient="row"),
        metrics=[f"{NAMES[metric]}{arguments}{cutoff}"],
        policies={"no_relevant": "zero"},
    )
    return report.estimates[0].value


def ratings(given: Mapping[str, Any], metric: str) -> float:
    n = len(given["true"])
    ids = {"user": [1] * n, "item": list(range(n))}
    truth = pl.DataFrame({**ids, "rating": [float(value) for value in given["true"]]})
    predicted = pl.DataFrame({**ids, "prediction": [float(value) for value in given["predicted"]]})
    return evalkit.evaluate_ratings(truth, predicted, metrics=[metric]).estimates[0].value


def own_axes(row: Mapping[str, Any]) -> dict[str, str]:
    """The convention that an example follows; where it does not say, all of them agree."""
    axes = dict(row["convention"])
    if row["metric"] == "idcg":
        axes.setdefault("idcg", "shown" if "gains" in row["input"] else "all")
    return axes


def others(row: Mapping[str, Any]) -> list[tuple[dict[str, str], float, int]]:
    found = []
    for spelled, value in row["other_conventions"].items():
        if row["metric"] in RATINGS or row["metric"] == "pr_auc":
            continue  # another metric: MSE has its own row, the trapezoid below
        extra = 2 if spelled.endswith("with 4 relevant") else 0
        listed = re.split(r",(?![^()]*\))", spelled.split(" with ")[0])
        changed = dict(each.split("=", 1) for each in listed)
        found.append(({**own_axes(row), **changed}, value, extra))
    return found


NUMBERS = [name for name in IDS if name not in NOT_A_NUMBER]


@pytest.mark.parametrize("name", NUMBERS)
def test_the_right_number_is_what_its_convention_gives(name):
    row = BY_ID[name]

    assert measure(row, own_axes(row)) == pytest.approx(row["right"], abs=1e-12)


@pytest.mark.parametrize("name", NUMBERS)
def test_other_conventions_give_their_numbers(name):
    row = BY_ID[name]

    for axes, value, extra in others(row):
        assert measure(row, axes, extra=extra) == pytest.approx(value, abs=1e-12), axes


def half_a_digit(printed: str) -> float:
    """How far a number may be from what is printed of it; fractions are exact."""
    decimals = re.fullmatch(r"\d+\.(\d+)", printed)
    return 0.5 * 10.0 ** -len(decimals[1]) + 1e-12 if decimals else 1e-12


@pytest.mark.parametrize("name", [name for name in NUMBERS if BY_ID[name]["printed"] is not None])
def test_a_printed_number_is_reproduced_or_shown_to_be_an_error(name):
    row = BY_ID[name]
    ours, printed = measure(row, own_axes(row)), row["printed_value"]
    error = abs(ours - printed)
    near = half_a_digit(row["printed"])

    if row["status"] in ("right", "convention"):
        assert error <= near
    elif row["status"] == "rounded":  # a ratio of rounded numbers: off by more than half a digit
        assert near < error < 1e-3
        assert printed == pytest.approx(ratio_of_rounded(name), abs=near)
    else:
        assert error > near
        assert ERRORS[name](row) == pytest.approx(printed, abs=near)


def ratio_of_rounded(name: str) -> float:
    """The number as its text computed it, from two numbers of two decimals."""
    above, below = {
        "000-ndcg-A": ("000-dcg-A", "000-idcg-A"),
        "001-ndcg-B": ("001-dcg-B", "001-idcg-B"),
        "001-ndcg-C": ("001-dcg-C", "001-idcg-C"),
    }[name]
    return float(BY_ID[above]["printed_value"] / BY_ID[below]["printed_value"])


def by_natural_logarithm(row: Mapping[str, Any]) -> float:
    """Its formula says log2."""
    return measure(row, {**own_axes(row), "log_base": "e"})


def squared(row: Mapping[str, Any]) -> float:
    """The formula under MAE is that of MSE."""
    return ratings(row["input"], "MSE")


def one_rank_too_far(row: Mapping[str, Any]) -> float:
    """A discount of log2(r + 2) where r counts from 1 already."""
    return 1.0 / math.log2(row["input"]["position"] + 2)


ERRORS = {
    "001-dcg-A": by_natural_logarithm,
    "001-dcg-B": by_natural_logarithm,
    "001-dcg-C": by_natural_logarithm,
    "001-idcg-B": by_natural_logarithm,
    "001-idcg-C": by_natural_logarithm,
    "003-mae-formula": squared,
    "004-loo-ndcg": one_rank_too_far,
}


def test_every_example_is_looked_at():
    wrong = [row["id"] for row in ROWS if row["status"] == "wrong"]

    assert len(ROWS) == 58
    assert set(wrong) - set(ERRORS) == {"000-accuracy-formula"}  # TF should be TN
    assert set(NUMBERS) | set(NOT_A_NUMBER) == set(IDS)


def test_the_accuracy_formula_counts_what_is_no_outcome():
    formula = BY_ID["000-accuracy-formula"]["printed"]

    assert set(re.findall(r"[TF][A-Z]", formula)) - {"TP", "TN", "FP", "FN"} == {"TF"}


def test_points_of_a_precision_recall_curve_are_those_of_each_cutoff():
    row = BY_ID["003-pr-curve"]
    points = row["right"]

    for place, cutoff in enumerate(points["k"]):
        at = {**row, "k": cutoff}
        assert measure({**at, "metric": "precision"}, {}) == pytest.approx(
            points["precision"][place]
        )
        assert measure({**at, "metric": "recall"}, {}) == pytest.approx(points["recall"][place])


def test_joining_the_points_of_a_curve_by_lines_is_another_number():
    row, points = BY_ID["003-pr-auc"], BY_ID["003-pr-curve"]["right"]
    recall, precision = points["recall"], points["precision"]

    trapezoid = sum(
        (recall[n] - recall[n - 1]) * (precision[n] + precision[n - 1]) / 2
        for n in range(1, len(recall))
    )

    assert row["other_conventions"]["integration=trapezoid"] == pytest.approx(trapezoid)
    assert trapezoid != pytest.approx(row["right"])
