"""Dataclasses whose methods are made late do what others do."""

import subprocess
import sys

SCRIPT = """
import dataclasses
from evalkit.cli.records import make_methods_late
if {late}:
    make_methods_late()
from evalkit.report.entries import Counts, Gap, TruthCounts
from evalkit.metrics import CountWords

one, other = Counts(1, {{}}), Counts(truth=1, models={{}})
print(one == other, one == 1, repr(one), dataclasses.replace(one, truth=2), dataclasses.asdict(one))
for act in (lambda: hash(one), lambda: setattr(one, "truth", 3), lambda: delattr(one, "truth"),
            lambda: Counts(1), lambda: Counts(1, 2, 3), lambda: Counts(1, rest=2)):
    try:
        print(act())
    except Exception as raised:
        print(type(raised).__name__, raised)
print(Counts.__init__.__qualname__, CountWords.__hash__.__name__, Counts.__init__.__name__)
"""


def test_methods_that_are_made_late_do_the_same():
    said = [
        subprocess.run(
            [sys.executable, "-c", SCRIPT.format(late=late)], capture_output=True, text=True
        )
        for late in (False, True)
    ]

    assert said[0].stdout == said[1].stdout != ""
    assert said[1].stderr == ""
