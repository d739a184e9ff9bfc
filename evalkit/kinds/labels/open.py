"""Opens the tables of labels; refuses what cannot be asked of them."""

from dataclasses import replace
from functools import partial

from evalkit.config import Config
from evalkit.errors import RequestError
from evalkit.kinds.labels._groups import has_part
from evalkit.kinds.labels._walk import has_sum
from evalkit.kinds.labels.read import refuse_policies
from evalkit.kinds.pointwise.job import RowJob
from evalkit.kinds.pointwise.open import check_sums, open_all
from evalkit.metrics import TARGETS, over
from evalkit.planning.tables import Given, settle_columns
from evalkit.sources import Table, open_labels


def check_labels(job: RowJob) -> None:
    """Refuse what cannot be asked of labels."""
    refuse_policies(job.config.policies)
    check_sums(job.requests, has_sum, has_part)
    _check_sessions(job)
    _check_thresholds(job)


def open_tables(config: Config, given: Given) -> tuple[Config, list[Table]]:
    """Every table of labels, opened, and the config with the columns that they are read by."""
    held = [*given.rankings, *([None] * len(config.labels))]
    guessing = given.guessing(config)
    actions = [
        partial(open_labels, table, one, replace(guessing, section=f"labels[{place}]"))
        for place, (table, one) in enumerate(zip(config.labels, held, strict=False))
    ]
    tables = open_all(actions)
    return settle_columns(config, {"labels": tables}), tables


def _check_sessions(job: RowJob) -> None:
    config = job.config
    asked = [request.label for request in job.over("sessions")]
    of_users = {
        "segments": bool(config.segments.named),
        "clusters": config.statistics.cluster is not None,
    }
    for what in [what for what, is_there in of_users.items() if asked and is_there]:
        raise RequestError(
            f"{', '.join(asked)} is over sessions, and {what} are of users",
            code="sessions-in-segments" if what == "segments" else "sessions-in-clusters",
            at=config.at("segments") if what == "segments" else config.at("statistics", "cluster"),
            hint="leave one of both out",
        )
    if asked and not all(each.columns.session or each.session_every for each in config.labels):
        raise RequestError(
            f"{', '.join(asked)} needs a session column",
            code="missing-key",
            at=config.at("labels", 0, "columns"),
            hint='session = "session_id" under [labels.columns], or session_every = "1d"',
        )


def _check_thresholds(job: RowJob) -> None:
    """A threshold is given or chosen, and chosen on all rows.

    Raises:
        RequestError: it is not so [conflicting-keys].
    """
    for request in job.requests:
        values = dict(request.parameters)
        targets = [name for name in TARGETS if values.get(name)]
        others = [name for name in ("threshold", "rule") if targets and name in request.given]
        is_best = values.get("at") == "best"
        if len(targets) + is_best + len(others) > 1:
            named = [*others, *(["at"] if is_best else []), *targets]
            message = f"{request.label} has {' and '.join(named)}, which exclude each other"
            hint = "a threshold is given, the best, or the one that reaches a target"
            raise RequestError(message, code="conflicting-keys", at="metrics", hint=hint)
        if (is_best or targets) and over(request) != "rows":
            raise RequestError(
                f"{request.label} would choose a threshold for every one of the {over(request)}",
                code="conflicting-keys",
                at="metrics",
                hint="leave at or over out: on a user's few rows the best threshold only flatters",
            )
