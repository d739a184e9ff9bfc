"""Splits that other libraries made, row by row: the words of their rules give back every letter."""

import json
import os
from collections import Counter
from functools import cache
from itertools import islice
from pathlib import Path

import polars as pl
import pytest

from evalkit.config import SplitSection
from evalkit.sources import Guessing, open_split
from evalkit.splits._cut import cut_rows
from evalkit.splits._log import LogFeed
from evalkit.splits._rule import settle_rule
from evalkit.splits._source import Log

FOLDER = Path(os.environ.get("EVALKIT_TEST_DATA", "absent")) / "conformance" / "splits"
LETTERS = "-tvx"
PARTS = 4  # of the records: one in every run, all in campaigns
pytestmark = pytest.mark.skipif(not FOLDER.is_dir(), reason="EVALKIT_TEST_DATA is not set")


@cache
def fixture(name):
    rows = json.loads((FOLDER / "fixtures" / f"{name}.json").read_text())["rows"]
    return [row for row in rows if row[1] is not None and row[4] is not None]


def feed_of(table, rule):
    columns = {"user": 1, "item": 2, "rating": 3, "time": 4}
    frame = pl.DataFrame({name: [row[at] for row in table] for name, at in columns.items()})
    opened, whole = open_split(rule, frame, Guessing("python", section="split"))
    return LogFeed.of(Log(opened, whole), rule, 1)


def letters_of(record, library):
    table = fixture(record["fixture"])
    section = SplitSection.model_validate({"like": library, **record["rule"]})
    rule = settle_rule(section)
    cut = cut_rows(feed_of(table, rule), rule, "record")
    n_rows = max(row[0] for row in table) + 1
    folds = []
    for fold in cut.folds:
        letters = ["-"] * n_rows
        for row, letter in zip(table, fold.letters, strict=True):
            letters[row[0]] = LETTERS[letter]
        folds.append("".join(letters))
    return folds


def counted(letters, table, by):
    """How many rows of each user and time are in each part; of all users where they share times."""
    return Counter((by == "user" and row[1], row[4], letters[row[0]]) for row in table)


def records():
    for path in sorted(FOLDER.glob("*.jsonl")):
        for line in path.read_text().splitlines()[1:]:
            record = json.loads(line)
            rule = record.get("rule")
            if rule and "folds" in record and rule["by"] != "best-time":
                if "unexplained" not in record:
                    yield path.stem, record


@pytest.mark.some_cases(1)
@pytest.mark.parametrize("part", range(PARTS))
def test_every_record_is_given_back_letter_by_letter(part):
    wrong = []
    n = 0
    for library, record in islice(records(), part, None, PARTS):
        n += 1
        found = letters_of(record, library)
        wanted = record["folds"]
        if record["rule"].get("ties") == "unstable":
            table = fixture(record["fixture"])
            found = [counted(each, table, record["rule"]["by"]) for each in found]
            wanted = [counted(each, table, record["rule"]["by"]) for each in wanted]
        if found != wanted:
            wrong.append((library, record["fixture"], record["call"], record["rule"]))

    assert n > 700 // PARTS
    assert not wrong, f"{len(wrong)} of {n}: {wrong[:5]}"
