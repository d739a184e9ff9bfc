"""Real ratings and four models' rankings of them, small enough to travel in the package.

The data is MovieLens latest-small by GroupLens (Harper and Konstan 2015), under its own terms:
see LICENSE-MovieLens.txt beside this file.
"""

from pathlib import Path


def demo_config() -> Path:
    """The path of the config that evaluates the demo's four models."""
    return Path(__file__).parent / "demo.toml"
