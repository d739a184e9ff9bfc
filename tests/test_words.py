"""Texts for users: short sentences, and none of the dialect that newcomers stumbled over."""

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
LONGEST = 30  # words of a sentence
FORMULAS = ("(A_s - mean of A over users) / n + ",)  # how sentences begin that are formulas
DIALECT = (
    *("four doors", "comes back every night", "is asked$", "worse is allowed", "undecided against"),
    *("can be told from", "nobody can know", "first days stumble"),
    *("a person can mend", "as float32 has them", "found something"),
)


def sentences(text: str) -> Iterator[str]:
    """Of Markdown, without code, tables and headings; code in a line counts as one word."""
    text = re.sub(r"```.*?```", "", text, flags=re.DOTALL)
    for paragraph in re.split(r"\n\s*\n|\n(?=[-|#*\d<])", text):
        if paragraph.lstrip().startswith(("|", "#", "<", "!")):
            continue
        plain = re.sub(r"`[^`]*`", "X", paragraph)
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", plain)
        yield from re.split(r"(?<=[.!?:;])\s+", " ".join(plain.split()))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_sentences_of_pages_are_short(page: Path) -> None:
    text = page.read_text(encoding="utf-8")

    long = [each for each in sentences(text) if len(each.split()) > LONGEST]

    assert [each for each in long if not each.startswith(FORMULAS)] == []


def test_sentences_of_codes_are_short() -> None:
    codes = tomllib.loads((ROOT / "evalkit" / "cli" / "codes.toml").read_text(encoding="utf-8"))
    told = [text for code in codes.values() for text in code.values() if isinstance(text, str)]

    assert [each for text in told for each in sentences(text) if len(each.split()) > LONGEST] == []


@pytest.mark.parametrize("phrase", DIALECT)
def test_no_text_speaks_the_dialect(phrase: str) -> None:
    texts = [*PAGES, *(ROOT / "evalkit").rglob("*.py"), ROOT / "evalkit" / "cli" / "codes.toml"]
    pattern = re.compile(phrase.replace("$", r"[\"']"), re.IGNORECASE)

    found = [str(each) for each in texts if pattern.search(each.read_text(encoding="utf-8"))]

    assert found == []
