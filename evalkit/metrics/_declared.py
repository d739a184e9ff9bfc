"""The list of the kinds of evaluation, and what each declares before anything of it is loaded.

A kind is a folder, and its name in `KINDS`. What config, metrics, sources, report and history have
to know of it stands in the folder's `declaration.py`; what is done with it in its `kind.py`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, Protocol

KINDS: dict[str, str] = {  # a kind's name, which its first section has too, and its folder
    "rankings": "evalkit.kinds.rankings",
    "ratings": "evalkit.kinds.ratings",
    "labels": "evalkit.kinds.labels",
    "judges": "evalkit.kinds.judges",
    "logged": "evalkit.kinds.logged",
    "experiment": "evalkit.kinds.experiments",
}


class Complaints(Protocol):
    """Takes what is wrong with a config."""

    def add(self, key: tuple[str | int, ...], code: str, message: str, *, hint: str = "") -> None:
        """Note a problem of the key."""


@dataclass(frozen=True, slots=True)
class Section:
    """A section of a config that holds tables of a kind.

    Args:
        table: the record of one table, a `Record` of `evalkit.config`.
        description: for the schema.
        is_listed: there may be several tables, `[[section]]`.
        has_model: each table is of one model, `model = "..."`, or names a column of models.
    """

    table: type
    description: str
    is_listed: bool = False
    has_model: bool = False


@dataclass(frozen=True, slots=True)
class RowFault:
    """Why rows were dropped, the code that tells of it, and the policy that may refuse it."""

    reason: str
    code: str
    policy: str


@dataclass(frozen=True, slots=True)
class CountWords:
    """What the counts of a report are called; rankings, ratings and labels count other things.

    Args:
        truth: the log of right answers.
        pair: one of `pairs`, in a line of counts; `pairs_are` in a sentence.
        depth: what the line of a model says of `depth`.
        odd: fields of `ModelCounts` that a table shows, and their heads.
        unit: whose values they are.
    """

    truth: str
    pair: str
    pairs_are: str
    without_ranking: str
    without_truth: str
    depth: str
    odd: Mapping[str, str]
    unit: str = "user"


RANKED_COUNTS = CountWords(
    *("truth", "pair", "relevant pairs of a user and an item"),
    *("without ranking", "without truth", "depth {:,}"),
    {
        "users_without_ranking": "users without ranking",
        "users_without_truth": "users without truth",
        "duplicates": "duplicates",
        "bad_ranks": "users with bad ranks",
        "seen_in_train": "rows seen in train",
        "ties": "ties",
        "depth": "longest list",
    },
)


OF_EXPERIMENTS = (  # keys of `[statistics]` that say nothing about other kinds
    *("margin_relative", "distribution", "variance", "relative", "alternative", "sample_ratio"),
    *("clusters", "strata", "sequential"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Declaration:
    """What the rest of evalkit has to know of a kind before anything of it is measured.

    Args:
        sections: of a config, by name; the first has the name of the kind.
        metrics: the package whose files declare its metrics.
        declared_by: the decorator of such a metric.
        kernels_take: what its kernel takes before parameters and `out`.
        words: what a report calls its counts.
        check: refuses what the sections of a config cannot say together.
        numbers: columns that hold numbers, beside those that every kind knows.
        refuses: keys of `[statistics]` that say nothing about it.
        lenient: policies under which `evalkit check` measures, so that no fault hides another.
        faults: of rows, for `evalkit check`.
        follows: policies that say something about it; a report tells of others that were set.
        idle: keys of `[statistics]` that change nothing of it, and are not refused.
        segments: keys of `[segments]` that it looks at; None: all.
        beside: sections of rankings that may stand beside its own: their metrics are measured too.
    """

    sections: Mapping[str, Section]
    metrics: str
    declared_by: str
    kernels_take: str
    words: CountWords
    check: Callable[[Mapping[str, object], Complaints], None] = lambda tree, problems: None
    numbers: tuple[str, ...] = ()
    refuses: tuple[str, ...] = ("weight", "two_way", "curves", "distributions")
    lenient: Mapping[str, str] = field(default_factory=dict)
    faults: tuple[RowFault, ...] = ()
    follows: tuple[str, ...] = ()
    idle: tuple[str, ...] = OF_EXPERIMENTS
    segments: tuple[str, ...] | None = None
    beside: tuple[str, ...] = ()


def of_folder(kind: str, module: str, name: str) -> Any:
    """What a module of a kind's folder calls by a name."""
    return getattr(import_module(f"{KINDS[kind]}.{module}"), name)


def declared(kind: str) -> Declaration:
    """What the folder of a kind declares."""
    found: Declaration = of_folder(kind, "declaration", "DECLARATION")
    return found


def other_kinds() -> tuple[str, ...]:
    """The kinds beside rankings, by the first section of which a config is known."""
    return tuple(kind for kind in KINDS if kind != "rankings")


def folders() -> tuple[str, ...]:
    """What metrics are declared of: each kind, and lists, which configs of rankings may name."""
    return ("rankings", "lists", *other_kinds())
