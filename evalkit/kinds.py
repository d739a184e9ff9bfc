"""The kinds of evaluation, by the name that a config has for them; loaded when they are needed."""

from evalkit.metrics import of_folder
from evalkit.planning.work import Kind


def kind_named(name: str) -> Kind:
    """What is done with rankings, ratings, labels, or another kind of `metrics.KINDS`."""
    found: Kind = of_folder(name, "kind", "KIND")
    return found
