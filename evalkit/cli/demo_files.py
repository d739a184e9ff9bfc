"""Real ratings and four models' rankings of them, small enough to travel in the package.

The data is MovieLens latest-small by GroupLens (Harper and Konstan 2015), under its own terms:
see LICENSE-MovieLens.txt beside its files.
"""

from pathlib import Path

FOLDER = Path(__file__).parents[1] / "demo"


def demo_config() -> Path:
    """The path of the config that evaluates the demo's four models."""
    return FOLDER / "demo.toml"
