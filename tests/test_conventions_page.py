"""docs/conventions.md is what its script makes of the declarations and the profiles."""

import subprocess
import sys
from pathlib import Path

import pytest

from evalkit.metrics.profiles import find_profile, speaking_of

DOCS = Path(__file__).parent.parent / "docs"


@pytest.mark.campaign  # some hundred small runs
def test_the_page_is_up_to_date():
    script = [sys.executable, str(DOCS / "make_conventions.py"), "--check"]

    done = subprocess.run(script, capture_output=True, text=True, cwd=DOCS.parent)

    assert done.returncode == 0, done.stderr or "python docs/make_conventions.py writes it anew"


def test_the_page_has_every_library_and_its_errors():
    page = (DOCS / "conventions.md").read_text(encoding="utf-8")
    names = speaking_of("rankings")
    wanted = {f"### {name}\n" for name in names if name != "evalkit"}
    for profile in map(find_profile, names):
        for kind in ("rankings", *profile.rows):
            wanted |= {error.what for error in profile.of(kind).errors}
            wanted |= {difference.why for difference in profile.of(kind).differs}

    assert [text for text in sorted(wanted) if text not in page] == []
