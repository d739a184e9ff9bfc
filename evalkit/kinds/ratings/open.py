"""Opens the tables of ratings and of predictions; refuses what cannot be asked of them."""

from dataclasses import replace
from functools import partial

from evalkit.config import Config
from evalkit.errors import RequestError
from evalkit.kinds.pointwise.job import RowJob
from evalkit.kinds.pointwise.open import check_sums, open_all
from evalkit.kinds.ratings._sums import has_part, has_sum
from evalkit.kinds.ratings.read import refuse_policies
from evalkit.planning.tables import Given, settle_columns
from evalkit.sources import Guessing, Table, open_predictions, open_ratings


def check_ratings(job: RowJob) -> None:
    """Refuse what cannot be asked of ratings."""
    refuse_policies(job.config.policies)
    check_sums(job.requests, has_sum, has_part)
    for request in job.requests:
        power = dict(request.parameters).get("power", 0.0)
        if request.metric.domain is not None and 0.0 < float(power) < 1.0:
            message = f"{request.label}: no family has a variance of such a power"
            hint = "0 is normal, 1 Poisson, 2 gamma, 3 inverse Gaussian"
            raise RequestError(message, code="bad-parameter-value", at="metrics", hint=hint)


def open_tables(config: Config, given: Given) -> tuple[Config, list[Table]]:
    """The table of ratings, then those of predictions, or all tables with both."""
    alone, n_ratings = not config.predictions, len(config.ratings)
    held = [*given.rankings, *([None] * (n_ratings + len(config.predictions)))]
    guessing = given.guessing(config)

    def of(section: str, place: int) -> Guessing:
        return replace(guessing, section=f"{section}[{place}]")

    actions = [
        partial(open_ratings, table, held[place], of("ratings", place), alone=alone)
        for place, table in enumerate(config.ratings)
    ]
    actions += [
        partial(open_predictions, table, held[n_ratings + place], of("predictions", place))
        for place, table in enumerate(config.predictions)
    ]
    opened = open_all(actions)
    sections = {"ratings": opened[:n_ratings], "predictions": opened[n_ratings:]}
    return settle_columns(config, sections), opened
