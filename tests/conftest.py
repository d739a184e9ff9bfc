"""What every test may ask for."""

import gc
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from campaigns import examples, mark_campaigns
from hypothesis import HealthCheck, settings

DATA_VARIABLE = "EVALKIT_TEST_DATA"

# or every command that tests start compiles evalkit's files anew
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

gc.disable()  # until all is collected: two million objects, of which none is garbage

# a loaded machine is no fault of what is tested
settings.register_profile(
    "patient",
    deadline=None,
    max_examples=examples(100),
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("patient")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config, items):
    """Leaves campaigns out, unless `-m` or the name of a test asks for them."""
    mark_campaigns(items)
    if "campaign" in config.option.markexpr or any("::" in name for name in config.args):
        return
    config.hook.pytest_deselected(items=[it for it in items if it.get_closest_marker("campaign")])
    items[:] = [item for item in items if not item.get_closest_marker("campaign")]


def pytest_collection_finish():
    """Looks for garbage again, among what tests make."""
    gc.freeze()
    gc.set_threshold(100_000)  # or a twentieth of compiling goes into it
    gc.enable()


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of test data that this repository may not carry; skips where there is none."""
    named = os.environ.get(DATA_VARIABLE)
    if not named:
        pytest.skip(f"{DATA_VARIABLE} names no folder of test data")
    folder = Path(named)
    if not folder.is_dir():
        pytest.fail(f"{DATA_VARIABLE}={named!r} is no folder")
    return folder


@pytest.fixture(autouse=True, scope="session")
def many_cores(request) -> Iterator[None]:
    """Threads that a test asks for do run, on however few cores, and get in each other's way.

    Where a test asks for none there are two, and as many as can be in campaigns.
    """
    from evalkit.planning.work import MeasureOptions

    useful = MeasureOptions.useful_threads.fget
    unasked = 8 if "campaign" in request.config.option.markexpr else 2

    def threads_of(options: MeasureOptions) -> int:
        return unasked if options.threads is None else useful(options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("evalkit.planning.work.usable_cores", lambda: 8)
        patch.setattr(MeasureOptions, "useful_threads", property(threads_of))
        yield


def pytest_terminal_summary(terminalreporter):
    """What tests want to be read whether they pass or not: `record_property("summary", line)`."""
    reports = [*terminalreporter.getreports("passed"), *terminalreporter.getreports("failed")]
    lines = sorted(
        str(line)
        for report in reports
        for name, line in getattr(report, "user_properties", ())
        if name == "summary" and getattr(report, "when", "") == "call"
    )
    if lines:
        terminalreporter.section("summaries")
    for line in lines:
        terminalreporter.write_line(line)
