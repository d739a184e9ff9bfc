"""Hints speak the language of the door: a config, options, or Python."""

import polars as pl
import pytest

import evalkit
from evalkit.config._doors import in_words_of
from evalkit.errors import EvalkitError

HINTS = [
    # as a config has it; as options; as Python
    (
        'write duplicates = "best" under [policies] to keep the best rank',
        "write --set policies.duplicates=best to keep the best rank",
        'pass policies={"duplicates": "best"} to keep the best rank',
    ),
    (
        'write bad_scores = "last" or "drop" under [policies]',
        'write --set policies.bad_scores=last or "drop"',
        'pass policies={"bad_scores": "last"} or "drop"',
    ),
    (
        "write first_rank = 0 under [policies] if ranks start there",
        "write --set policies.first_rank=0 if ranks start there",
        'pass policies={"first_rank": 0} if ranks start there',
    ),
    (
        'scale it down: relevance = "rating / 100" under [truth.columns]',
        "scale it down: --set 'truth.columns.relevance=rating / 100'",
        'scale it down: columns={"relevance": "rating / 100"}',
    ),
    (
        'score = "score" under [rankings.columns]',
        "--set 'rankings[0].columns.score=score'",
        'columns={"score": "score"}',
    ),
    (
        "write per_user = true under [output]",
        "write --set output.per_user=true",
        "pass per_user=True",
    ),
    (
        "write threshold = 4 under [labels]",
        "write --set 'labels[0].threshold=4'",
        "pass threshold=4",
    ),
    (
        "raise --memory-limit, or --sample 0.1",
        "raise --memory-limit, or --sample 0.1",
        "raise memory_limit, or sample=0.1",
    ),
    ("did you mean 'nDCG'?", "did you mean 'nDCG'?", "did you mean 'nDCG'?"),
]


@pytest.mark.parametrize(("file", "options", "python"), HINTS)
def test_hints_speak_the_words_of_a_door(file, options, python):
    assert in_words_of("file", file) == file
    assert in_words_of("options", file) == options
    assert in_words_of("python", file) == python
    assert in_words_of("python", python) == python


def test_what_python_is_told_can_be_passed():
    truth = pl.DataFrame({"user": [1], "item": [1]})
    rankings = pl.DataFrame({"user": [1, 1], "item": [1, 1], "rank": [1, 2]})
    with pytest.raises(EvalkitError) as caught:
        evalkit.evaluate(truth, rankings, metrics=["RR"])

    assert caught.value.hint == 'pass policies={"duplicates": "best"} to keep the best rank'
    assert evalkit.evaluate(truth, rankings, metrics=["RR"], policies={"duplicates": "best"}).value(
        "RR"
    )


def test_several_problems_are_all_told_so():
    truth = pl.DataFrame({"user": [1], "item": [1]})
    rankings = pl.DataFrame({"user": [1, 1], "item": [1, 1], "rank": [1, 3]})
    with pytest.raises(EvalkitError) as caught:
        evalkit.evaluate(truth, rankings, metrics=["RR"])

    assert "under [" not in str(caught.value)
