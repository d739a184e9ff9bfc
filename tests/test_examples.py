"""Public functions have an example each, and it prints what it says."""

import doctest
import importlib
import inspect
import pkgutil

import pytest

import evalkit
from evalkit import statistics

NEED_NONE = ("check_", "estimate_bytes", "prepare_", "refuse_", "is_", "signed_", "count_", "accel")
NAMES = [
    *sorted({getattr(evalkit, name).__module__ for name in evalkit.__all__ if name[0] != "_"}),
    "evalkit.kernels.decorator",
    *(
        f"evalkit.statistics.{each.name}"
        for each in pkgutil.iter_modules(statistics.__path__)
        if not each.name.startswith("_")
    ),
]


@pytest.mark.parametrize("name", NAMES)
def test_examples_print_what_they_say(name):
    module = importlib.import_module(name)

    assert doctest.testmod(module).failed == 0


@pytest.mark.parametrize("name", [each for each in NAMES if "statistics" in each or "api" in each])
def test_public_functions_have_an_example(name):
    module = importlib.import_module(name)
    functions = [
        (each, function)
        for each, function in inspect.getmembers(module, inspect.isfunction)
        if function.__module__ == name and not each.startswith(("_", *NEED_NONE))
    ]

    assert [each for each, made in functions if ">>>" not in (made.__doc__ or "")] == []
