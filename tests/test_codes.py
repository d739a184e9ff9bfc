"""Every code of an error or a warning has a meaning, a cause and a cure."""

import re
from itertools import pairwise
from pathlib import Path

import pytest
from raised import raised_in

import evalkit
from evalkit.codes import all_codes
from evalkit.metrics import KINDS, registry_of

PACKAGE = Path(evalkit.__file__).parent
RAISED = raised_in(PACKAGE)


def test_every_code_of_the_source_is_explained():
    missing = {
        each.code: each.place for each in RAISED if each.code and each.code not in all_codes()
    }
    wanted = "\n".join(
        f'\n# {place}\n[{code}]\nmeans = "What is the case."\n'
        f'cause = "What usually leads to it."\ncure = "What to write, run or mend."'
        for code, place in sorted(missing.items())
    )

    assert not missing, f"evalkit/codes.toml lacks, each in its place of the alphabet:\n{wanted}"


def test_no_code_is_explained_that_nothing_raises():
    extra = set(all_codes()) - {each.code for each in RAISED}

    assert not extra, f"take these tables out of evalkit/codes.toml: {sorted(extra)}"


def test_every_code_can_be_seen_in_the_source():
    hidden = [each.place for each in RAISED if each.code is None]

    assert not hidden, f"write the code as a literal, or a choice of literals: {hidden}"


def test_codes_stand_in_the_order_of_the_alphabet():
    names = list(all_codes())
    before = [two for one, two in pairwise(names) if one > two]

    assert not before, f"further up in evalkit/codes.toml: {before}"


@pytest.mark.parametrize("code", all_codes().values(), ids=all_codes())
def test_a_code_is_kebab_case_and_has_whole_sentences(code):
    assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", code.name)
    for text in (code.means, code.cause, code.cure):
        assert text.endswith((".", "?"))
        assert "\n" not in text


def test_no_code_is_the_name_of_a_metric():
    metrics = [metric for kind in KINDS for metric in registry_of(kind).values()]
    aliases = [alias.partition("(")[0] for metric in metrics for alias in metric.aliases]
    names = {each.lower() for each in [*aliases, *(metric.name for metric in metrics)]}

    assert not names & set(all_codes())
