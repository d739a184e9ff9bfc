"""`evalkit doctor`: what it tells of an installation."""

import tomllib
from pathlib import Path

from evalkit.cli.doctored import EXTRAS
from evalkit.errors import DISTRIBUTION

ROOT = Path(__file__).parents[2]


def test_a_whole_installation_is_right(process):
    outcome = process("doctor", "--json")

    found = {each["name"]: each for each in outcome.document}
    assert outcome.status == 0, outcome.err
    assert found["self-test"]["found"].startswith("3 metrics are right")
    assert all(each["hint"] for each in outcome.document if "not installed" in each["found"])


def test_a_stranger_s_package_under_our_name_is_told(process, tmp_path):
    stranger = tmp_path / "beside" / "evalkit-0.2.1.dist-info"
    stranger.mkdir(parents=True)
    (stranger / "METADATA").write_text("Metadata-Version: 2.1\nName: evalkit\nVersion: 0.2.1\n")
    (stranger / "RECORD").write_text("evalkit/__init__.py,,\n")

    outcome = process("doctor", PYTHONPATH=f"{stranger.parent}:{ROOT}")

    assert outcome.status == 4
    assert "the package evalkit is of evalkit" in outcome.out
    assert f"pip install --force-reinstall {DISTRIBUTION}" in outcome.out


def test_every_extra_of_users_is_looked_for():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]

    assert EXTRAS.keys() == project["optional-dependencies"].keys() - {"test", "docs", "dev"}
