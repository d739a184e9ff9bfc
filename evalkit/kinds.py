"""The kinds of evaluation, by the name that a config has for them; loaded when they are needed."""

from evalkit.planning.work import Kind


def kind_named(name: str) -> Kind:
    """What is done with rankings, ratings or labels."""
    if name == "ratings":
        from evalkit.ratings import RATINGS

        return RATINGS
    if name == "labels":
        from evalkit.labels import LABELS

        return LABELS
    from evalkit.rankings import RANKINGS

    return RANKINGS
