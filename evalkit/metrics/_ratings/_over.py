"""Over what errors of predicted ratings are averaged."""

from evalkit.metrics import Parameter, choice


def over_rows_or_users() -> Parameter:
    """The parameter `over`."""
    return choice(
        "over",
        {
            "rows": "all rated pairs together, so that people with many count more",
            "users": "the value of each user's rated pairs, averaged over users",
        },
        doc="What is averaged.",
    )
