"""Writes CHANGELOG.md from `evalkit/changes/`, a file a change: SLUG.KIND.md.

python docs/make_changelog.py            # write the page
python docs/make_changelog.py --check    # exit status 1 where the page is out of date
"""

import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "CHANGELOG.md"
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

## 0.1.0
"""


def render() -> str:
    """The page: kinds in order of what they cost a reader, changes in order of their names."""
    lines = [HEAD]
    for kind, title in KINDS.items():
        files = sorted((ROOT / "evalkit" / "changes").glob(f"*.{kind}.md"))
        texts = [" ".join(file.read_text(encoding="utf-8").split()) for file in files]
        lines += [f"### {title}\n", *(f"- {text}" for text in texts), ""]
    return "\n".join(lines)


def main() -> int:
    """Write the page, or say whether it is what would be written."""
    if "--check" in sys.argv[1:]:
        return int(not PAGE.exists() or PAGE.read_text(encoding="utf-8") != render())
    PAGE.write_text(render(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
