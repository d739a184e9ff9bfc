"""What evalkit does not do with experiments, refused by name, and where to go."""

import re
from collections.abc import Mapping

from evalkit.errors import RequestError

NOT_BUILT: Mapping[str, tuple[str, str]] = {  # by the first letters of how they are called
    "switchback": (
        "switchback design",
        "make a period of a region the unit, and name the region as statistics.cluster",
    ),
    "interference": (
        "estimate of interference between units",
        "assign clusters, and name them as statistics.cluster",
    ),
    "network": (
        "estimate of interference between units",
        "assign clusters, and name them as statistics.cluster",
    ),
    "diff": (
        "difference in differences",
        "CUPED does it for units assigned by chance; else linearmodels or pyfixest",
    ),
    "did": (
        "difference in differences",
        "CUPED does it for units assigned by chance; else linearmodels or pyfixest",
    ),
    "bayes": (
        "Bayesian engine",
        'sequential = { method = "always-valid", tightest_at = N }; priors: gbstats or PyMC',
    ),
    "cupac": (
        "fitted covariates",
        "give a model's predictions as columns of [covariates], named by before",
    ),
    "lin": (
        "regression with interactions",
        "CUPED differs from it by O(1/n); statsmodels has it: OLS with HC2",
    ),
}


def not_built(name: str, at: str) -> None:
    """Refuse by its name what evalkit does not do, and say where to go [not-built].

    Example:
        >>> not_built("clicks", "metrics")
    """
    words = re.sub(r"[^a-z]", "", name.lower())
    for known, (what, hint) in NOT_BUILT.items():
        if words.startswith(known):
            message = f"evalkit has no {what} ({name!r})"
            raise RequestError(message, code="not-built", at=at, hint=hint)
