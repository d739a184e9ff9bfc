"""What a config may say of logged feedback, and what evalkit has to know of it beforehand."""

from collections.abc import Mapping
from typing import Any

from evalkit.config import KindTable, Record, Texts, key, unsaid
from evalkit.metrics import OF_EXPERIMENTS, Complaints, CountWords, Declaration, Section

NUMBERS = (
    *("reward", "propensity", "predicted", "position"),
    *("propensity_slate", "propensity_cascade", "propensity_group"),
)
OF_TARGETS = (
    *("probability", "predicted", "probability_slate", "probability_cascade", "probability_group"),
)
LOGGING = "(logging)"
MOST_OF_TEN = 0.5


class LoggedColumns(Record):
    """Columns of the log: names, or SQL expressions over its columns."""

    user: Texts | None = key(None, "Whose rounds vary together; without one rounds are units.")
    round: str | None = key(None, "The round, or the slate that rows are positions of.")
    item: str | None = key(None, "The item that was shown; for targets that are tables.")
    position: str | None = key(None, "The place in the slate, from 1.")
    reward: str = key("reward", "What was earned.")
    propensity: str = key("propensity", "The logging policy's probability of the item.")
    predicted: str | None = key(None, "A model's reward of the logged item; for DM and DR.")
    propensity_slate: str | None = key(None, "Of the whole slate.")
    propensity_cascade: str | None = key(None, "Of the slate down to the position.")
    propensity_group: str | None = key(None, "Of the item's group.")


class LoggedTable(KindTable):
    """A log of items that were shown, with what they earned."""

    max_weight_share: float = key(
        MOST_OF_TEN, "More of the value than this, carried by ten rounds, is warned of.",
        gt=0, le=1, exclude_if=lambda share: share == MOST_OF_TEN,
    )  # fmt: skip
    columns: LoggedColumns = key(LoggedColumns(), "Columns by our names.")


class Target(Record):
    """Another policy: columns of the log, or a table of its own."""

    model: str = key(..., "Its name.")
    probability: str | None = key(None, "Column of its probability of the logged item.")
    predicted: str | None = key(None, "Column of the mean predicted reward under it.")
    probability_slate: str | None = unsaid("Of the whole slate.")
    probability_cascade: str | None = unsaid("Of the slate down to it.")
    probability_group: str | None = unsaid("Of the item's group.")
    path: Texts = key((), "Table of contexts, item and probability.")
    rank: str | None = unsaid(
        "Of lists in place of probabilities: their rank, which is the log's position, or 1."
    )
    on: Texts = key((), "Columns of the log and of the table that say which context it is.")
    is_partial: bool = key(False, "The table does not hold every item of a context.")


def check_logged(tree: Mapping[str, object], problems: Complaints) -> None:
    """Targets are there, with names of their own, each a column or a table."""
    targets, rankings = tree.get("targets", []), tree.get("rankings", [])
    columns = _columns_of(tree)
    if rankings and not columns.get("user"):
        hint = 'user = "user_id"'
        message = "[[rankings]] are lists of users, and the log names none"
        problems.add(("logged", "columns", "user"), "missing-key", message, hint=hint)
    if not isinstance(targets, list) or not (targets or rankings):
        hint = '[[targets]] with model = "b" and probability = "p_b"'
        problems.add((), "missing-key", "[[targets]] is not given", hint=hint)
        return
    listed = rankings if isinstance(rankings, list) else [rankings]
    seen: set[object] = {LOGGING, *(str(r.get("model")) for r in listed if isinstance(r, dict))}
    for number, ranking in enumerate(listed):
        if isinstance(ranking, dict) and not ("model" in ranking and "path" in ranking):
            message = "beside a log each of [[rankings]] has model and path"
            problems.add(("rankings", number), "missing-key", message, hint='model = "b"')
    for number, target in enumerate(targets):
        if not isinstance(target, dict):
            continue
        model = target.get("model")
        if isinstance(model, str):
            if model in seen:
                message = f"two targets are called {model!r}"
                place = ("targets", number, "model")
                problems.add(place, "duplicate-model", message, hint="rename one")
            seen.add(model)
        named: Any = [name for name in OF_TARGETS if name in target]
        if ("path" in target) == bool(named):
            message = "a target has columns of probabilities, or a table (path), one of them"
            problems.add(("targets", number), "missing-key", message, hint='probability = "p_b"')
        elif named and "probability" not in named:
            message = "a target needs probability: every report says what its weights are"
            place = ("targets", number, "probability")
            problems.add(place, "missing-key", message, hint='probability = "p_b"')
        if "path" in target and not target.get("on"):
            message = "a target's table needs on: which columns say the context"
            problems.add(("targets", number, "on"), "missing-key", message, hint='on = ["user"]')


def _columns_of(tree: Mapping[str, object]) -> Mapping[str, object]:
    section = tree.get("logged")
    columns = section.get("columns") if isinstance(section, dict) else None
    return columns if isinstance(columns, dict) else {}


DECLARATION = Declaration(
    sections={
        "logged": Section(LoggedTable, "Items that were shown, with reward and propensity."),
        "targets": Section(Target, "Other policies.", is_listed=True),
    },
    metrics="evalkit.metrics.logged",
    declared_by="@metric(kind='logged', ...)",
    kernels_take="",
    words=CountWords(
        *("log", "round", "rounds"),
        *("without probability", "without rounds", "at most {:,} rounds a user"),
        {"depth": "most rounds of a user"},
    ),
    check=check_logged,
    numbers=NUMBERS,
    refuses=(
        *("weight", "two_way", "curves", "distributions", "method", "cluster"),
        *("search", "test"),
    ),
    follows=("units", "ratio_errors", "first_rank"),
    segments=("by",),
    idle=(*OF_EXPERIMENTS, "margin", "power", "skewness", "family", "limits"),
    beside=("rankings", "truth", "train", "items", "users"),
)
