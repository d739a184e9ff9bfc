"""What tools export is read as it is written: several values in one are told, none is lost."""

import json
from pathlib import Path

import polars as pl
import pytest

import evalkit
from evalkit.errors import DataError


def exported(
    path: Path, values: list[object], *, short: bool = False, kind: str = "choices"
) -> Path:
    """Label Studio's export of what two judges gave to six tasks: of each a list of results."""

    def result(value: object) -> dict[str, object]:
        return {"from_name": "grade", "type": kind, "value": {kind: value}}

    tasks: list[dict[str, object]] = []
    for number in range(6):
        own = values[2 * number : 2 * number + 2]
        if short:
            row = {"id": number, "annotation_id": 1}
            tasks += [{**row, "annotator": who, "grade": each} for who, each in enumerate(own)]
            continue
        made = [
            {"completed_by": who, "result": [result(each) for each in results]}  # type: ignore[union-attr]
            for who, results in enumerate(own)
        ]
        tasks.append({"id": number, "data": {}, "annotations": made})
    path.write_text(json.dumps(tasks))
    return path


OF_EXPORTS = {"unit": "task", "judge": "judge", "rating": "grade"}
ONE = [["good"]], [["bad"]]


@pytest.mark.parametrize(
    ("values", "short", "told"),
    [
        (
            [*ONE * 5, [["good", "bad"]], [["good"]]],
            False,
            "1 ratings are several in one: '\\[\"good",
        ),
        ([*ONE * 5, [["good"], ["bad"]], [["good"]]], False, "1 ratings are several in one"),
        (["good", "bad"] * 5 + [{"choices": ["good", "bad"]}] * 2, True, "2 ratings are several"),
        ([[{"rating": 2}], [{"rating": 1}, {"rating": 3}]] * 6, True, "6 ratings are several"),
    ],
)
def test_several_choices_of_one_judge_are_no_missing_rating(
    values: list[object], short: bool, told: str, tmp_path: Path
) -> None:
    path = exported(tmp_path / "export.json", values, short=short)

    with pytest.raises(DataError, match=told) as raised:
        evalkit.evaluate_judges(path, columns=OF_EXPORTS)
    assert raised.value.code == "unknown-level"
    with pytest.raises(DataError, match="none of the levels bad, good, 1, 2, 3") as raised:
        evalkit.evaluate_judges(path, columns=OF_EXPORTS, levels=["bad", "good", "1", "2", "3"])


@pytest.mark.parametrize(
    ("kind", "written"), [("number", 3), ("rating", 3), ("selected", "left"), ("choices", ["3"])]
)
@pytest.mark.parametrize("short", [False, True])
def test_every_control_of_one_value_is_read(
    kind: str, written: object, short: bool, tmp_path: Path
) -> None:
    """As Label Studio's converter shortens them: choices and texts alone to a plain value."""
    values = [[{kind: written}] if short else [written]] * 12
    path = exported(tmp_path / "export.json", values, short=short, kind=kind)

    found = evalkit.evaluate_judges(path, columns=OF_EXPORTS)
    assert found.value("agreement") == 1.0
    assert found.counts.truth.rows_used == 12


def test_relations_are_of_no_control_and_tasks_without_annotations_are_told(tmp_path: Path) -> None:
    path = exported(tmp_path / "export.json", [*ONE * 6])
    tasks = json.loads(path.read_text())
    tasks[0]["annotations"][0]["result"].append({"type": "relation", "from_id": "a", "to_id": "b"})
    path.write_text(json.dumps(tasks))
    rating = {**OF_EXPORTS, "rating": "rating"}

    assert evalkit.evaluate_judges(path, columns=rating).value("agreement") == 0.0
    path.write_text(json.dumps([{**task, "annotations": []} for task in tasks]))
    with pytest.raises(DataError, match="no task has an annotation"):
        evalkit.evaluate_judges(path, columns=rating)


def test_an_empty_text_is_no_level() -> None:
    """An empty cell of a CSV file is null; of a table in memory it was the lowest level."""
    rows = {"unit": [1, 1, 2, 2, 3, 3], "judge": ["a", "b"] * 3}
    table = pl.DataFrame({**rows, "rating": ["2", "1", "", "2", "2", "2"]})

    found = evalkit.evaluate_judges(table)
    assert found.counts.truth.rows_dropped == {"no_rating": 1}
    assert found.value("agreement") == 0.5
    known = table.with_columns(gold=pl.Series(["2", "2", "", "", "", ""]))
    assert evalkit.evaluate_judges(known, columns={"gold": "gold"}).value("agreement") == 0.5
    assert evalkit.evaluate_judges(table, levels=["", "1", "2"]).counts.truth.rows_used == 6


def test_the_alphabet_as_an_order_of_levels_is_told() -> None:
    rows = {"unit": [1, 1, 2, 2], "judge": ["a", "b"] * 2}
    told = [
        next(e.message for e in evalkit.evaluate_judges(table).warnings if e.code[:7] == "guessed")
        for table in (
            pl.DataFrame({**rows, "rating": ["low", "high", "medium", "low"]}),
            pl.DataFrame({**rows, "rating": ["10", "9", "2", "2"]}),
        )
    ]

    assert "were given, in the order of the alphabet: high, low, medium" in told[0]
    assert "were given: 2, 9, 10" in told[1]
