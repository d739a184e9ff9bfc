"""Every code of an error or a warning has a meaning, a cause and a cure."""

import re

import pytest

from evalkit.cli.codes import all_codes
from evalkit.cli.metrics import explain
from evalkit.errors import RequestError
from evalkit.metrics import KINDS, registry_of


def test_codes_are_kebab_case_and_have_whole_sentences():
    wrong = [
        f"{code.name}: {text}"
        for code in all_codes().values()
        for text in (code.means, code.cause, code.cure)
        if not text.endswith((".", "?"))
        or "\n" in text
        or not re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", code.name)
    ]

    assert not wrong


def test_no_code_is_the_name_of_a_metric():
    metrics = [metric for kind in KINDS for metric in registry_of(kind).values()]
    aliases = [alias.partition("(")[0] for metric in metrics for alias in metric.aliases]
    names = {each.lower() for each in [*aliases, *(metric.name for metric in metrics)]}

    assert not names & set(all_codes())


def test_a_misspelt_code_is_suggested(capsys):
    with pytest.raises(RequestError) as caught:
        explain("few-user")

    assert caught.value.hint == "did you mean 'few-users'?"
