"""The table of metrics in docs/lists.md is what its script makes of the declarations."""

import runpy
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"


def test_the_table_is_up_to_date():
    page = (DOCS / "lists.md").read_text(encoding="utf-8")
    made = runpy.run_path(str(DOCS / "make_lists.py"))["written"](page)

    assert made == page, "python docs/make_lists.py writes it anew"
