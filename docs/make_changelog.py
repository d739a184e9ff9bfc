"""Writes CHANGELOG.md from `docs/changes/`: a page a release, and until then a file a change.

python docs/make_changelog.py            # write the page
python docs/make_changelog.py --check    # exit status 1 where the page is out of date

`VERSION.md` is the page of a release; `SLUG.KIND.md` is one change that no release holds yet. At a
release the fragments become its page.
"""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "CHANGELOG.md"
CHANGES = ROOT / "docs" / "changes"
KINDS = {
    "changed-values": "Changed values",
    "removed": "Removed",
    "added": "Added",
    "fixed": "Fixed",
    "faster": "Faster",
}
HEAD = """# Changes

Any digit that moves in a report stands under *Changed values*, first of all. Made by
`python docs/make_changelog.py`.
"""


def render(folder: Path = CHANGES) -> str:
    """The page: what no release holds yet by kind, then the releases, the latest first."""
    fragments = list(_fragments(folder))
    unreleased = ["## Unreleased\n", *fragments] if fragments else []
    versions = [file for file in folder.glob("*.md") if re.fullmatch(r"[\d.]+", file.stem)]
    releases = [
        f"## {file.stem}\n\n{file.read_text(encoding='utf-8')}"
        for file in sorted(versions, key=_numbers, reverse=True)
    ]
    return "\n".join([HEAD, *unreleased, *releases])


def _fragments(folder: Path) -> Iterator[str]:
    """A title, its changes in order of their files' names, and an empty line, for each kind."""
    for kind, title in KINDS.items():
        files = sorted(folder.glob(f"*.{kind}.md"))
        texts = [" ".join(file.read_text(encoding="utf-8").split()) for file in files]
        if texts:
            yield from (f"### {title}\n", *(f"- {text}" for text in texts), "")


def _numbers(file: Path) -> list[int]:
    return [int(part) for part in file.stem.split(".")]


def main() -> int:
    """Write the page, or say whether it is what would be written."""
    if "--check" in sys.argv[1:]:
        return int(not PAGE.exists() or PAGE.read_text(encoding="utf-8") != render())
    PAGE.write_text(render(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
