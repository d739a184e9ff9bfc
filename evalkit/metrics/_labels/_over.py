"""Over what a metric of labels is taken, and at which threshold."""

from evalkit.metrics import Parameter, choice, number


def over_rows_or_groups() -> tuple[Parameter, Parameter]:
    """`over` and `weighting`, for metrics of labels that exist within one user too."""
    return (
        choice(
            "over",
            {
                "rows": "all rows together",
                "users": "the value of each user's rows, averaged over users",
                "sessions": "the value of each session's rows, averaged over sessions",
            },
            doc="What is averaged.",
        ),
        choice(
            "weighting",
            {
                "equal": "every user counts once",
                "impressions": "a user counts by the weight of its rows",
                "positives": "a user counts by the weight of its rows with label 1",
            },
            doc="How users or sessions are weighted in the average; without effect over rows.",
        ),
    )


def at_threshold() -> tuple[Parameter, Parameter]:
    """`threshold` and `at`, for metrics of rows that are called positive or negative."""
    return (
        number("threshold", 0.5, doc="A row is called positive from this score on."),
        choice(
            "at",
            {
                "threshold": "the given threshold",
                "best": "the score at which this very metric is best, the highest of several; "
                "it flatters, for it is chosen on the rows that it is measured on",
            },
            doc="Which threshold is taken.",
        ),
    )
