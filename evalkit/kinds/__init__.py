"""The kinds of evaluation, a folder each; loaded when they are needed.

In: a config, and how it is to be measured.
Out: what a share leaves behind, and the report of all shares.
Open first: `rankings/kind.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from evalkit.metrics import of_folder

if TYPE_CHECKING:
    from evalkit.config import Config
    from evalkit.planning.work import Kind


def kind_of(config: Config) -> Kind:
    """What is done with a config, be it of two kinds."""
    if any(each.metric.kind != config.kind for each in config.requests if config.has_parts):
        from evalkit.kinds.beside import KIND  # no other run needs both

        return KIND
    return kind_named(config.kind)


def kind_named(name: str) -> Kind:
    """What is done with rankings, ratings, labels, or another kind of `metrics.KINDS`."""
    found: Kind = of_folder(name, "kind", "KIND")
    return found
