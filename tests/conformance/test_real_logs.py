"""Real logs give the values that plain numpy, and the literature, have for the same files."""

from pathlib import Path

import pytest
from split_logs import evaluate_split, models_of, recorded, spelled

from evalkit.report import Report

CUTOFFS = "{1,5,10,20,50}"
BINARY = ["precision", "recall", "hit", "RR", "AP", "nDCG"]
WITHOUT = ("items",)  # counts of distinct items are no ranking metric

# EASE with l2 = 80 on this split, as BARS publishes it (reczoo/BARS, EASE_R/EASE_gowalla_m1)
PUBLISHED = {
    "recall@20": "0.176493",
    "nDCG@20": "0.146657",
    "hit@20": "0.572677",
    "recall@50": "0.270126",
    "nDCG@50": "0.175974",
    "hit@50": "0.708051",
}


@pytest.fixture(scope="module", params=["rank", "score", "rows"])
def gowalla_report(gowalla: Path, request: pytest.FixtureRequest) -> Report:
    """Six models; ties stay in the order of the file, which is that of the ranks."""
    metrics = [f"{name}@{CUTOFFS}" for name in BINARY]
    policies = {"ties": "input"} if request.param == "score" else None
    return evaluate_split(gowalla, metrics, order=request.param, policies=policies)


def differences(report: Report, folder: Path, names: dict[str, str], tolerance: float) -> list[str]:
    """Lines for values that differ from `expected.json`; `names` are measures -> our spelling."""
    expected = recorded(folder / "expected.json")
    found = []
    for model in models_of(folder):
        for measure, ours in names.items():
            value, theirs = report.value(ours, model=model), expected[model][measure]
            if not abs(value - theirs) <= tolerance:
                found.append(f"{model} {measure}: {value!r} instead of {theirs!r}")
    return found


def measures_of(folder: Path, *, graded: bool) -> dict[str, str]:
    """The measures of `expected.json` with a cutoff: as they stand there -> as we write them."""
    (values, *_) = recorded(folder / "expected.json").values()
    named = [each for each in values if "@" in each and not each.startswith(WITHOUT)]
    wanted = [each for each in named if each.startswith(("ndcg_linear", "ndcg_exp")) == graded]
    return {each: spelled(each) for each in wanted}


def test_gowalla_gives_every_recorded_value(gowalla, gowalla_report):
    measures = measures_of(gowalla, graded=False)

    assert len(models_of(gowalla)) * len(measures) == 6 * 30
    assert differences(gowalla_report, gowalla, measures, 1e-12) == []


def test_gowalla_gives_the_published_values_of_ease(gowalla_report):
    found = {each: f"{gowalla_report.value(each, model='ease'):.6f}" for each in PUBLISHED}

    assert found == PUBLISHED


def test_gowalla_loses_no_row_and_no_user(gowalla, gowalla_report):
    expected = recorded(gowalla / "expected.json")
    counts = gowalla_report.counts

    assert counts.truth.users == 29858
    assert counts.truth.pairs == 217242
    for model, found in counts.models.items():
        assert (found.rows, found.rows_used) == (expected[model]["rows"],) * 2
        assert found.users_without_ranking == 0
        assert found.users_without_truth == 0


@pytest.mark.some_cases(2)
@pytest.mark.parametrize("data", ["ml-100k", "ml-latest-small"])
@pytest.mark.parametrize("order", ["rank", "score", "rows"])
def test_movielens_gives_every_recorded_value(data_set, data, order):
    folder = data_set(data)
    policies = {"ties": "input"} if order == "score" else None
    binary, graded = measures_of(folder, graded=False), measures_of(folder, graded=True)

    plain = evaluate_split(folder, list(binary.values()), order=order, policies=policies)
    rated = evaluate_split(
        folder, list(graded.values()), order=order, policies=policies, relevance="rating"
    )

    assert len(binary) >= 30
    assert len(graded) >= 10
    assert differences(plain, folder, binary, 1e-12) == []
    assert differences(rated, folder, graded, 1e-12) == []


def test_users_without_ranking_count_as_zero(ml_latest_small):
    expected = recorded(ml_latest_small / "expected.json")

    report = evaluate_split(ml_latest_small, ["recall@10"])

    for model, found in report.counts.models.items():
        n_ranked = expected[model]["users_ranked"]
        assert found.users_without_ranking == expected[model]["users"] - n_ranked
    assert report.counts.models["als32"].users_without_ranking == 147 - 23
