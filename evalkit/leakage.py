"""Truth that the models were trained on: told, or refused, by its share of the truth's pairs."""

from dataclasses import dataclass

from evalkit.config import Config
from evalkit.report import TruthCounts

TOLD_FROM = 0.01  # of the truth's pairs; people who come back for the same item are no fault
IS_TRAIN_FROM = 0.95  # people do not come back as often as that


@dataclass(frozen=True, slots=True)
class Leak:
    """What is to be said of truth pairs that stand in train; `refused`: the run ends with it."""

    code: str
    message: str
    hint: str
    refused: bool


def find_leak(counts: TruthCounts, config: Config) -> Leak | None:
    """What is to be said of the pairs that truth and train share; None: nothing."""
    if not counts.in_train:
        return None
    share = counts.in_train / counts.pairs
    policy = config.policies.truth_in_train
    drops = config.train is not None and config.train.drop_seen
    message = (
        f"{counts.in_train:,} of {counts.pairs:,} pairs of the truth ({share:.2%}) stand in train"
    )
    if policy != "count" and share >= IS_TRAIN_FROM:
        message += ": the models have seen the right answers"
        hint = "give the truth held-out rows, and train the rows before them"
        return Leak("truth-is-train", message, _or_count(hint, config), refused=True)
    is_told = drops or (policy != "count" and share >= TOLD_FROM)
    if not is_told:
        return None
    if drops:
        message += ", and drop_seen takes them out of the rankings: right answers that cannot hit"
    hint = "leave these rows out of the truth, or out of train"
    refused = policy == "error" and share >= TOLD_FROM
    return Leak("truth-in-train", message, _or_count(hint, config), refused)


def _or_count(hint: str, config: Config) -> str:
    counted = config.spell_policy("truth_in_train", "count")
    return f"{hint}; where users take an item again: {counted}"
