"""What a profile says."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from evalkit.metrics import Value, Values, fold

DEFAULT = "evalkit"
OF_RANKINGS = ("rankings", "lists")

ReadingPath = Literal["hits", "whole lists"]


@dataclass(frozen=True, slots=True)
class ProfileDifference:
    """What no parameter reproduces, and why; runs of its metrics say so."""

    what: str
    why: str
    metrics: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Fault:
    """A mistake of a library, as it was seen in a version."""

    version: str
    what: str


@dataclass(frozen=True, slots=True)
class RowConventions:
    """What a profile says of ratings or of labels; each part as in `Profile`."""

    policies: Values = field(default_factory=dict)
    metrics: Mapping[str, Values] = field(default_factory=dict)
    differs: tuple[ProfileDifference, ...] = ()
    errors: tuple[Fault, ...] = ()
    named: Mapping[str, str] = field(default_factory=dict)
    options: Mapping[str, Mapping[str, Values]] = field(default_factory=dict)

    @property
    def parts(self) -> dict[str, Any]:
        """Each part by its name."""
        return {name: getattr(self, name) for name in self.__slots__}


@dataclass(frozen=True, slots=True)
class Profile:
    """The conventions of one library, as far as they differ from evalkit's own.

    Args:
        name: as it is asked for.
        about: one sentence.
        version: of the library, that it was held against.
        path: "hits" when one pass over the hits does; "whole lists" when every list must be held.
        looks_at: "scores" where the library orders lists by their scores and knows no ranks.
        score_column: what the library's tables call the score, where no other library's do.
        policies: of a run.
        metrics: the metrics that the library has, with parameters and policies of theirs; a key
            that ends in `@k` holds where a cutoff is given, and wins over the one without.
        named: names of the library, each a key of `metrics` that means a metric here, and which;
            of what is made of users' values, the whole expression.
        refused: names of the library that are no metric here, as patterns, and why.
        options: of a key of `metrics`, what an option of the library's sets beside.
        file: where it was read.
        rows: what it says of ratings and of labels, where it says something; the rest is about
            rankings. There an alias that fixes parameters has conventions of its own.
    """

    name: str
    about: str
    version: str
    path: ReadingPath
    looks_at: str = ""
    score_column: str = ""
    policies: Values = field(default_factory=dict)
    metrics: Mapping[str, Values] = field(default_factory=dict)
    differs: tuple[ProfileDifference, ...] = ()
    errors: tuple[Fault, ...] = ()
    named: Mapping[str, str] = field(default_factory=dict)
    options: Mapping[str, Mapping[str, Values]] = field(default_factory=dict)
    refused: Mapping[str, str] = field(default_factory=dict)
    file: str = ""
    rows: Mapping[str, RowConventions] = field(default_factory=dict)

    def speaks_of(self, kind: str) -> bool:
        """Whether it says anything of rankings, ratings or labels."""
        if kind in OF_RANKINGS:  # a file that says nothing at all speaks of them
            return bool(self.metrics or self.policies) or not self.rows
        return self.name == DEFAULT or kind in self.rows

    def of(self, kind: str) -> "Profile":
        """The same profile with what it says of rankings, ratings or labels."""
        if kind in OF_RANKINGS:
            return self
        return replace(self, **self.rows.get(kind, RowConventions()).parts)

    def has_metric(self, metric: str, cutoff: int | None) -> bool:
        """Whether the library has the metric, by whatever name."""
        at_cutoffs = {fold(each) for each in self.refused if each.endswith("@k")}
        if cutoff is not None and fold(f"{metric}@k") in at_cutoffs:
            return False  # the library takes no notice of it
        return self.name == DEFAULT or bool(self.keys_of(metric, cutoff))

    def keys_of(self, metric: str, cutoff: int | None) -> list[str]:
        """The names under which the library has a metric."""
        spelled = (metric, f"{metric}@k") if cutoff is not None else (metric,)
        return [each for each in self.metrics if self.named.get(each, each) in spelled]

    def conventions(self, metric: str, cutoff: int | None) -> dict[str, Value]:
        """Parameters and policies of one metric alone."""
        at_any = self.metrics.get(metric, {})
        at_cutoff = self.metrics.get(f"{metric}@k", {}) if cutoff is not None else {}
        return {**at_any, **at_cutoff}
