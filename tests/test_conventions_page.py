"""docs/conventions.md is what its script makes of the declarations and the profiles."""

import subprocess
import sys
from pathlib import Path

import pytest

from evalkit.profiles import find_profile, speaking_of

DOCS = Path(__file__).parent.parent / "docs"


def test_the_page_is_up_to_date():
    script = [sys.executable, str(DOCS / "make_conventions.py"), "--check"]

    done = subprocess.run(script, capture_output=True, text=True, cwd=DOCS.parent)

    assert done.returncode == 0, done.stderr or "python docs/make_conventions.py writes it anew"


@pytest.mark.parametrize("name", speaking_of("rankings"))
def test_the_page_has_every_library_and_its_errors(name):
    page = (DOCS / "conventions.md").read_text(encoding="utf-8")
    profile = find_profile(name)

    if name != "evalkit":
        assert f"### {name}\n" in page
    for kind in ("rankings", *profile.rows):
        for each in profile.of(kind).errors:
            assert each.what in page
        for each in profile.of(kind).differs:
            assert each.why in page
