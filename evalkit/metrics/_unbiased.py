"""Metrics of hits that count by 1 / propensity: what a truth of clicks says of all that is liked.

An item that was seen with probability p counts 1 / p: sums over hits are then those over all
relevant items, seen or not, on average. Metrics that are no sum over hits have no such form.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ..kernels import Kernel
from ._parameters import Value, Values

WEIGHTED = ("snips", "ips")


@dataclass(frozen=True, slots=True)
class Unbiased:
    """The form of a metric in which hits count by 1 / propensity.

    Args:
        kernel: over hits whose gains are weights; None: the metric's own, with linear gains.
        per: parameters under which the sum is divided, by relevant items or by the sum of their
            weights; None: never.
        only: parameters that must have one of these values.
        is_share: values lie between 0 and 1 without a division.
    """

    kernel: Kernel[..., Any] | None = None
    per: Mapping[str, tuple[Value, ...]] | None = field(default=None, hash=False)
    only: Mapping[str, tuple[Value, ...]] = field(default_factory=dict, hash=False)
    is_share: bool = False

    def has_form(self, values: Values) -> bool:
        """Whether there is such a form under these parameters."""
        return all(values[name] in allowed for name, allowed in self.only.items())

    def divides(self, values: Values) -> bool:
        """Whether the sum is divided."""
        return self.per is not None and all(values[name] in each for name, each in self.per.items())
