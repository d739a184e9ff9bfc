"""What judges answer, not how they agree: the System Usability Scale, and who is preferred."""

import math
from typing import TYPE_CHECKING

from evalkit.metrics import choice
from evalkit.metrics.judges._declare import judge_metric

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Values = npt.NDArray[np.float64]


@judge_metric(
    name="SUS",
    aliases=("system_usability_scale",),
    bounds=(0.0, 100.0),
    summary="System Usability Scale: mean over people of ten answers from 1 to 5, as 0 to 100.",
    formula="2.5 x sum of (answer - 1) of odd questions and (5 - answer) of even ones",
    latex=r"2.5 \left(\sum_{odd} (a - 1) + \sum_{even} (5 - a)\right)",
    source="Brooke 1996, SUS: a quick and dirty usability scale",
    undefined="for people who left an answer out",
)
def sus(answers: "Values") -> "Values":
    """Of whole rows of ten answers, float64[n_people, 10]: float64[n_people]."""
    import numpy as np

    signs = np.array([1.0, -1.0] * 5)
    return np.asarray(2.5 * ((answers * signs).sum(axis=1) + 20.0))


@judge_metric(
    name="likert",
    bounds=(-math.inf, math.inf),
    summary="Mean rating: that of each judge, averaged over judges.",
    formula="mean over judges of the mean of the judge's ratings",
    latex=r"\bar y",
    source="Likert 1932, A Technique for the Measurement of Attitudes, Archives of Psychology 140",
    undefined="for judges without a rating",
)
def likert(ratings: "Values") -> "Values":
    """Of ratings, float64[n_judges, n_units], NaN where none was made: float64[n_judges]."""
    import numpy as np

    counts = (~np.isnan(ratings)).sum(axis=1)
    sums = np.nansum(ratings, axis=1)
    means = np.divide(sums, counts, out=np.full(len(counts), np.nan), where=counts > 0)
    return np.asarray(means)


@judge_metric(
    name="win-rate",
    aliases=("win_rate",),
    bounds=(0.0, 1.0),
    summary="Share of its comparisons that a model won, a tie as half; judges are clusters.",
    formula="(wins + ties / 2) / comparisons",
    latex=r"\frac{w + t / 2}{n}",
    source="Cameron, Gelbach and Miller 2008, Review of Economics and Statistics 90, 414-427",
    undefined="for a model that nobody compared",
)
def win_rate() -> str:
    """What is read of preferences."""
    return "win-rate"


@judge_metric(
    name="bradley-terry",
    aliases=("bradley_terry",),
    bounds=(-math.inf, math.inf),
    summary="Bradley-Terry strength: logits, centred at 0; errors are clustered by judge.",
    formula="P(i beats j) = 1 / (1 + exp(s_j - s_i)), of largest likelihood",
    latex=r"\frac{1}{1 + e^{s_j - s_i}}",
    source="Bradley and Terry 1952, Biometrika 39, 324-345; Davidson 1970, JASA 65, 317-328",
    undefined="where a model never lost or never won, or two groups never met",
    parameters=(
        choice(
            "ties",
            {
                "half": "a tie is half a win for each",
                "drop": "ties are left out",
                "davidson": "an outcome of its own, likelier the more alike the two are",
            },
            doc="What a tie is.",
        ),
    ),
)
def bradley_terry(ties: str) -> str:
    """What is read of preferences."""
    return ties
