"""Options of stores as Polars' readers take them."""

import pytest

from evalkit.errors import RequestError
from evalkit.storage import current_options, reader_options, storing


def test_readers_take_numbers_of_retries_as_numbers(monkeypatch):
    monkeypatch.setenv("TIMES", "2")
    given = {"max_retries": "${TIMES}", "retry_base_multiplier": "1.5", "aws_region": "1"}

    with storing(given):
        read, as_given = reader_options(), current_options()

    assert read == {"max_retries": 2, "retry_base_multiplier": 1.5, "aws_region": "1"}
    assert as_given == {**given, "max_retries": "2"}


def test_retries_that_are_no_number_are_told():
    with storing({"max_retries": "few"}), pytest.raises(RequestError) as caught:
        reader_options()

    assert (caught.value.code, caught.value.at) == ("bad-value", "[storage]")
