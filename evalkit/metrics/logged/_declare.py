"""How estimators are declared: the function below is plain Python."""

from collections.abc import Callable
from typing import Any, NamedTuple

from evalkit.metrics import Metric, metric


class Term(NamedTuple):
    """What is added up over rounds.

    Args:
        name: ones, reward, weight, predicted, slates, or weighted: a weight times a reward.
        weight: item, group, slate or cascade: whose probabilities the weight is made of.
        residual: r - q in place of r.
        plus_predicted: v is added.
        cap, tau, shrink: what is done with the weight; 0: nothing.
    """

    name: str
    weight: str = "item"
    residual: bool = False
    plus_predicted: bool = False
    cap: float = 0.0
    tau: float = 0.0
    shrink: float = 0.0


class Recipe(NamedTuple):
    """Pairs of numerator and denominator whose ratios add up to the value.

    Args:
        by_position: the ratios are taken at each position of slates, and added up.
    """

    pairs: tuple[tuple[Term, Term], ...]
    by_position: bool = False

    @property
    def needs_model(self) -> bool:
        """Whether predictions of rewards are asked for."""
        return any(
            t.residual or t.plus_predicted or t.name == "predicted" for p in self.pairs for t in p
        )

    @property
    def weights(self) -> set[str]:
        """Whose probabilities are asked for."""
        return {t.weight for p in self.pairs for t in p if t.name in ("weight", "weighted")}

    @property
    def is_of_slates(self) -> bool:
        """Whether rows are positions of slates."""
        return self.by_position or any(t.name == "slates" for p in self.pairs for t in p)

    @property
    def needs_whole_slates(self) -> bool:
        """Whether a weight is of more than one position, so that all slates are of one length."""
        return self.is_of_slates and bool(self.weights & {"slate", "cascade"})


def estimator(*, undefined: str = "without overlap", **declared: Any) -> Callable[[Any], Metric]:
    """Makes a metric of logged feedback of the function below it; `declared` as `metric` takes."""
    return metric(
        kind="logged",
        cutoff="never",
        monotone=False,
        bounds=(float("-inf"), float("inf")),
        undefined=undefined,
        **declared,
    )
