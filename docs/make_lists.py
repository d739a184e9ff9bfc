"""Writes the table of metrics in docs/lists.md from their declarations.

python docs/make_lists.py            # write the table
python docs/make_lists.py --check    # exit status 1 where it is out of date
"""

import sys
from pathlib import Path

from evalkit.metrics import Metric, registry_of

PAGE = Path(__file__).parent / "lists.md"
HEAD, END = "## All metrics\n", "## The page\n"
WAYS = {True: "higher", False: "lower", None: "–"}
FAMILIES = {"users": "mean of users", "means": "of groups' means"}


def row(metric: Metric) -> str:
    """What one metric is, what it needs, and which way is better."""
    assert metric.lists is not None
    needs = ", ".join(metric.lists.needs(metric.defaults)) or "–"
    made = FAMILIES.get(metric.lists.family, "of all lists")
    way = WAYS[metric.higher_is_better]
    return f"| `{metric.name}` | {metric.summary} | {made} | {needs} | {way} |"


def written(page: str) -> str:
    """The page with the table as the declarations have it."""
    before, _, behind = page.partition(HEAD)
    if not behind:
        before, _, rest = page.partition(END)
        behind = END + rest
    lines = [
        HEAD,
        "Made by `docs/make_lists.py`; `evalkit explain NAME` has formula and source.\n",
        "| metric | what it is | number | needs | better |",
        "| --- | --- | --- | --- | --- |",
        *map(row, registry_of("lists").values()),
    ]
    return before + "\n".join(lines) + "\n\n" + behind[behind.index(END) :]


def main() -> int:
    """Exit status: 0, or 1 where the page is out of date."""
    page = PAGE.read_text(encoding="utf-8")
    if "--check" in sys.argv[1:]:
        return int(written(page) != page)
    PAGE.write_text(written(page), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
