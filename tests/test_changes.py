"""Changes are told where the changelog looks for them."""

import re
import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
CHANGELOG = runpy.run_path(str(ROOT / "docs" / "make_changelog.py"))
NAMES = re.compile(rf"[\d.]+\.md|[\w-]+\.({'|'.join(CHANGELOG['KINDS'])})\.md")


def test_every_fragment_has_a_kind_that_the_changelog_knows():
    names = [file.name for file in (ROOT / "docs" / "changes").iterdir()]

    assert [name for name in names if not NAMES.fullmatch(name)] == []


def test_a_release_stands_below_what_no_release_holds_yet(tmp_path):
    for name, text in {
        "0.9.0.md": "Nine.\n",
        "0.10.0.md": "Ten.\n",
        "b.fixed.md": "Mends\nb.\n",
        "a.fixed.md": "Mends a.\n",
        "c.changed-values.md": "Moves a digit.\n",
    }.items():
        (tmp_path / name).write_text(text)

    page = CHANGELOG["render"](tmp_path).partition("## Unreleased")[2]

    assert page.split("\n") == [
        *("", "", "### Changed values", "", "- Moves a digit.", ""),
        *("### Fixed", "", "- Mends a.", "- Mends b.", ""),
        *("## 0.10.0", "", "Ten.", "", "## 0.9.0", "", "Nine.", ""),
    ]


def test_without_fragments_there_is_no_section_for_them(tmp_path):
    (tmp_path / "0.1.0.md").write_text("First.\n")

    assert "Unreleased" not in CHANGELOG["render"](tmp_path)


@pytest.mark.parametrize("version", [file.stem for file in (ROOT / "docs/changes").glob("[0-9]*")])
def test_the_page_holds_every_release(version):
    page = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")

    assert f"\n## {version}\n\n{(ROOT / f'docs/changes/{version}.md').read_text()}" in page
