"""Real logs give trec_eval's value of every user, for every measure that evalkit has.

Its map divides by all relevant items at any cutoff, its nDCG keeps the gains of items below
the threshold, and users without relevant items count as 0.
"""

from pathlib import Path

import numpy as np
import polars as pl
import pytest
from split_logs import evaluate_split, models_of, recorded
from trec_measures import lacked_measures, shared_measures

from evalkit.report import Report

TOLERANCE = 1e-12
JUDGEMENTS = {
    # judgement        relevance  threshold
    "binary":         (None,      None),
    "rating":         ("rating",  None),
    "rating_from_4":  ("rating",  4.0),
}  # fmt: skip
LACKED = ["bpref"]


def evaluate_judgement(folder: Path, judgement: str, *, per_user: bool = False) -> Report:
    relevance, threshold = JUDGEMENTS[judgement]
    return evaluate_split(
        folder,
        list(shared_measures(measures_of(folder)).values()),
        relevance=relevance,
        threshold=threshold,
        policies={"no_relevant": "zero"},
        per_user=per_user,
    )


def measures_of(folder: Path) -> list[str]:
    """The measures that trec_eval's means of this data set are given for."""
    expected = recorded(folder / "trec_eval_expected.json")
    (judgements, *_) = expected.values()
    return [each for each in judgements["binary"] if each != "users"]


@pytest.mark.parametrize("judgement", JUDGEMENTS)
def test_every_user_of_ml_100k_has_trec_evals_value(ml_100k, judgement):
    expected = pl.read_parquet(ml_100k / "trec_eval_expected.parquet").filter(
        pl.col("judgement") == judgement
    )
    measures = shared_measures(expected["measure"].unique(maintain_order=True))
    report = evaluate_judgement(ml_100k, judgement, per_user=True)

    n_compared = 0
    differing = []
    for model in models_of(ml_100k):
        theirs = (
            expected.filter(pl.col("model") == model)
            .pivot("measure", index="user_id", values="value")
            .sort("user_id")
        )
        for measure, name in measures.items():
            found = report.per_user(name, model=model)
            assert found["user_id"].equals(theirs["user_id"].cast(found["user_id"].dtype))
            gap = np.abs(found["value"].to_numpy() - theirs[measure].to_numpy())
            n_compared += gap.size
            if not (gap <= TOLERANCE).all():
                differing.append(f"{model} {measure}: {np.sum(~(gap <= TOLERANCE))} users")
    print(f"{judgement}: {n_compared:,} values of users compared; not ours: {', '.join(LACKED)}")

    assert differing == []
    assert n_compared == 5 * 943 * 46
    assert lacked_measures(expected["measure"].unique()) == LACKED


@pytest.mark.parametrize(
    ("data", "judgement", "n_values"),
    [
        ("gowalla", "binary", 6 * 46),
        ("ml-100k", "binary", 5 * 46),
        ("ml-100k", "rating", 5 * 46),
        ("ml-100k", "rating_from_4", 5 * 46),
        ("ml-latest-small", "binary", 3 * 46),
    ],
)
def test_means_are_trec_evals(data_set, data, judgement, n_values):
    folder = data_set(data)
    expected = recorded(folder / "trec_eval_expected.json")
    measures = shared_measures(measures_of(folder))

    report = evaluate_judgement(folder, judgement)

    gaps = {
        f"{model} {measure}": abs(report.value(name, model=model) - values[judgement][measure])
        for model, values in expected.items()
        for measure, name in measures.items()
    }
    print(f"{data}, {judgement}: {len(gaps)} means compared; not ours: {', '.join(LACKED)}")
    assert {each: gap for each, gap in gaps.items() if not gap <= TOLERANCE} == {}
    assert len(gaps) == n_values
    assert lacked_measures(measures_of(folder)) == LACKED
