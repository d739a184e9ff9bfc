"""Agreement of judges: Krippendorff's alpha, Gwet's AC, the kappas, intraclass correlations."""

import math
from functools import partial

from evalkit.metrics import Metric, choice
from evalkit.metrics.judges._declare import JudgeRecipe, judge_metric

agreement = partial(
    judge_metric,
    bounds=(-math.inf, 1.0),
    undefined="where all ratings are at one level, or no unit has two",
)
BY_KIND = {"nominal": "identity", "ordinal": "ordinal", "interval": "quadratic", "ratio": "ratio"}
_WEIGHTS = {
    "identity": "levels agree or they do not",
    "linear": "one less the distance of their values",
    "quadratic": "one less its square",
    "ordinal": "Gwet's ordinal weights, by the number of levels between",
    "ratio": "one less the square of their difference over their sum",
}


@agreement(
    name="alpha",
    aliases=("krippendorff",),
    summary="Krippendorff's alpha: one less observed over expected disagreement.",
    formula="1 - (n - 1) sum of observed pairs x distance / sum of expected pairs x distance",
    latex=r"1 - \frac{D_o}{D_e}",
    source="Krippendorff 2011, Computing Krippendorff's Alpha-Reliability",
    parameters=(
        choice(
            "weights",
            {"kind": "his distance for the kind of the levels", **_WEIGHTS},
            doc="How far two levels are apart; ordinal weights are not his ordinal distance.",
        ),
    ),
)
def alpha(kind: str, weights: str) -> JudgeRecipe:
    """Krippendorff's alpha of sums over units."""
    own = None if weights == "kind" else weights
    return JudgeRecipe("alpha", {"kind": kind, "weights": own})


@agreement(
    name="AC",
    aliases=("gwet", "AC1", "AC2"),
    summary="Gwet's AC1, with weights AC2: agreement beyond a chance that no rare level inflates.",
    formula="(agreement - chance) / (1 - chance), chance = weights x p (1 - p) / (q (q - 1))",
    latex=r"\frac{p_a - p_e}{1 - p_e}",
    source="Gwet 2014, Handbook of Inter-Rater Reliability, chapter 5",
    parameters=(
        choice(
            "weights",
            {
                "kind": "identity, ordinal, quadratic or ratio, by the kind of the levels",
                **_WEIGHTS,
            },
            doc="How much two levels agree.",
        ),
    ),
)
def ac(kind: str, weights: str) -> JudgeRecipe:
    """Gwet's coefficient of sums over units."""
    own = BY_KIND[kind] if weights == "kind" else weights
    return JudgeRecipe("AC", {"weights": own})


def _kappa(name: str, aliases: tuple[str, ...], summary: str, chance: str, source: str) -> Metric:
    """A kappa by its idea of chance."""

    def kappa(kind: str, weights: str) -> JudgeRecipe:
        """The kappa of sums over units."""
        return JudgeRecipe(name, {"weights": weights})

    return agreement(
        name=name,
        aliases=aliases,
        summary=summary,
        formula=f"(agreement - chance) / (1 - chance), chance {chance}",
        latex=r"\frac{p_a - p_e}{1 - p_e}",
        source=source,
        parameters=(choice("weights", _WEIGHTS, doc="How much two levels agree."),),
    )(kappa)


fleiss = _kappa(
    "fleiss",
    ("fleiss_kappa",),
    "Fleiss' kappa: chance is that two ratings drawn from all are at one level.",
    "= sum of weights x p x p",
    "Fleiss 1971, Psychological Bulletin 76, 378-382",
)
brennan_prediger = _kappa(
    "brennan-prediger",
    ("randolph", "brennan_prediger"),
    "Brennan and Prediger's kappa: chance takes every level as likely as the others.",
    "= sum of weights / q^2",
    "Brennan and Prediger 1981, Educational and Psychological Measurement 41, 687-699",
)
conger = _kappa(
    "conger",
    ("conger_kappa",),
    "Conger's kappa: chance is that of two different judges, each with own shares.",
    "over pairs of judges",
    "Conger 1980, Psychological Bulletin 88, 322-328",
)


@agreement(
    name="cohen",
    aliases=("cohen_kappa",),
    summary="Cohen's kappa of two judges, weighted by the distance of levels.",
    formula="(agreement - chance) / (1 - chance), chance of the two judges' own shares",
    latex=r"\frac{p_o - p_e}{1 - p_e}",
    source="Cohen 1960, Educational and Psychological Measurement 20, 37-46; 1968",
    undefined="where all ratings are at one level, or there are not two judges",
    parameters=(
        choice(
            "weights",
            {key: _WEIGHTS[key] for key in ("identity", "linear", "quadratic")},
            doc="How much two levels agree.",
        ),
        choice(
            "distance",
            {"level": "of the levels' values", "index": "of their places in the list of levels"},
            doc="What is far apart.",
        ),
    ),
)
def cohen(kind: str, weights: str, distance: str) -> JudgeRecipe:
    """Cohen's kappa of sums over units that both judges rated."""
    return JudgeRecipe("cohen", {"weights": weights, "distance": distance})


@agreement(
    name="ICC",
    aliases=("intraclass",),
    summary="Intraclass correlation over units that every judge rated, with limits by F.",
    formula="share of variance between units, of one judge or of the mean of all",
    latex=r"\frac{MS_R - MS_E}{MS_R + (k - 1) MS_E + \ldots}",
    source="McGraw and Wong 1996, Psychological Methods 1, 30-46",
    undefined="without two judges, two whole units and any difference",
    parameters=(
        choice(
            "form",
            {
                "A,1": "two-way, agreement, of one judge",
                "C,1": "two-way, consistency, of one judge",
                "1,1": "one-way, of one judge",
                "A,k": "two-way, agreement, of the mean of all judges",
                "C,k": "two-way, consistency, of the mean of all judges",
                "1,k": "one-way, of the mean of all judges",
            },
            doc="Which one.",
        ),
    ),
)
def icc(kind: str, form: str) -> JudgeRecipe:
    """An intraclass correlation of sums over units."""
    return JudgeRecipe("intraclass", {"form": form})


@agreement(
    name="agreement",
    aliases=("percent_agreement",),
    summary="Share of pairs of ratings of a unit that are at one level, averaged over units.",
    formula="mean over units of agreeing pairs / pairs",
    latex=r"p_a",
    source="Gwet 2014, Handbook of Inter-Rater Reliability, chapter 2",
    bounds=(0.0, 1.0),
    undefined="where no unit has two ratings",
)
def percent(kind: str) -> JudgeRecipe:
    """Percent agreement of sums over units."""
    return JudgeRecipe("agreement", {})
