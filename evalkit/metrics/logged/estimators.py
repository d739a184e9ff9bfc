"""IPS, SNIPS, DM, DR and their kin."""

from evalkit.errors import RequestError
from evalkit.metrics import choice, number
from evalkit.metrics.logged._declare import Recipe, Term, estimator

ONES, SLATES, PREDICTED = Term("ones"), Term("slates"), Term("predicted")
CAP = number(
    "cap", 0.0, above=-5e-324, doc="Larger weights count as this; 0: none does.", tried=5.0
)
NORMALISE = choice(
    "normalise",
    {"slates": "the number of slates", "weights": "at each position its weights"},
    doc="What weighted rewards are divided by.",
)


@estimator(
    name="IPS",
    aliases=("IPW",),
    summary="Mean reward with each round weighted by target over logging probability.",
    formula="mean of w r; with a cap, of min(w, cap) r",
    latex=r"\frac{1}{n} \sum w r",
    source="Horvitz and Thompson 1952, JASA 47, 663-685; Ionides 2008, JCGS 17, 295-311 (caps)",
    parameters=(CAP,),
)
def ips(cap: float) -> Recipe:
    """Weighted rewards over rounds."""
    return Recipe(((Term("weighted", cap=cap), ONES),))


@estimator(
    name="SNIPS",
    aliases=("SNIPW",),
    summary="IPS over the mean weight: what is missing of the weights is divided out.",
    formula="sum of w r / sum of w",
    latex=r"\frac{\sum w r}{\sum w}",
    source="Swaminathan and Joachims 2015, The Self-Normalized Estimator, NeurIPS",
)
def snips() -> Recipe:
    """Weighted rewards over weights."""
    return Recipe(((Term("weighted"), Term("weight")),))


@estimator(
    name="DM",
    summary="Mean predicted reward under the target: as good as the model, whatever was logged.",
    formula="mean of v",
    latex=r"\frac{1}{n} \sum v",
    source="Beygelzimer and Langford 2009, The Offset Tree, KDD",
    undefined="without rounds",
)
def dm() -> Recipe:
    """Predictions over rounds."""
    return Recipe(((PREDICTED, ONES),))


@estimator(
    name="DR",
    summary="Doubly robust: the prediction, and the weighted residual of the logged item.",
    formula="mean of v + w (r - q); min(w, cap), or w shrink / (w^2 + shrink), in place of w",
    latex=r"\frac{1}{n} \sum v + w (r - q)",
    source="Dudik, Langford and Li 2011, ICML; Su et al. 2020, ICML (shrinkage)",
    parameters=(
        CAP,
        number("shrink", 0.0, above=-5e-324, doc="Weights are shrunk by it; 0: not.", tried=1.0),
    ),
)
def dr(cap: float, shrink: float) -> Recipe:
    """Predictions and weighted residuals over rounds.

    Raises:
        RequestError: weights are capped and shrunk [conflicting-keys].
    """
    if cap and shrink:
        message, hint = "DR takes a cap or shrinks weights, not both", f"DR(cap={cap:g})"
        raise RequestError(message, code="conflicting-keys", at="metrics.names", hint=hint)
    term = Term("weighted", residual=True, plus_predicted=True, cap=cap, shrink=shrink)
    return Recipe(((term, ONES),))


@estimator(
    name="SNDR",
    summary="Doubly robust with weights that are divided by their mean.",
    formula="mean of v + sum of w (r - q) / sum of w",
    latex=r"\frac{1}{n} \sum v + \frac{\sum w (r - q)}{\sum w}",
    source="Thomas and Brunskill 2016, ICML",
)
def sndr() -> Recipe:
    """Predictions over rounds, and residuals over weights."""
    return Recipe(((PREDICTED, ONES), (Term("weighted", residual=True), Term("weight"))))


@estimator(
    name="SWITCH-DR",
    aliases=("switch_dr",),
    summary="Doubly robust where weights are at most tau, the prediction alone elsewhere.",
    formula="mean of v + 1[w <= tau] w (r - q)",
    latex=r"\frac{1}{n} \sum v + 1[w \le \tau] w (r - q)",
    source="Wang, Agarwal and Dudik 2017, ICML",
    parameters=(number("tau", 10.0, above=0.0, doc="The largest weight that counts.", tried=2.0),),
)
def switch_dr(tau: float) -> Recipe:
    """Predictions and residuals of small weights over rounds."""
    return Recipe(((Term("weighted", residual=True, plus_predicted=True, tau=tau), ONES),))


@estimator(
    name="MIPS",
    summary="IPS with weights of the item's group: less variance where rewards hang on the group.",
    formula="mean of w r, w of the group's probabilities",
    latex=r"\frac{1}{n} \sum w_g r",
    source="Saito and Joachims 2022, Off-Policy Evaluation for Large Action Spaces, ICML",
)
def mips() -> Recipe:
    """Rewards weighted by groups, over rounds."""
    return Recipe(((Term("weighted", weight="group"), ONES),))


def _of_slates(weight: str, normalise: str) -> Recipe:
    top = Term("weighted", weight=weight)
    if normalise == "weights":
        return Recipe(((top, Term("weight", weight=weight)),), by_position=True)
    return Recipe(((top, SLATES),))


@estimator(
    name="IIPS",
    summary="Reward of a slate, each position weighted by its own item's probabilities.",
    formula="sum over positions of w r / slates",
    latex=r"\frac{1}{n} \sum_{slates} \sum_k w_k r_k",
    source="Li, Abbasi-Yadkori, Kveton, Muthukrishnan, Vinay and Wen 2018, KDD",
    parameters=(NORMALISE,),
)
def iips(normalise: str) -> Recipe:
    """Rewards weighted by item, over slates."""
    return _of_slates("item", normalise)


@estimator(
    name="RIPS",
    summary="Reward of a slate, each position weighted by the slate's probability down to it.",
    formula="sum over positions of w r / slates, w of the slate down to the position",
    latex=r"\frac{1}{n} \sum_{slates} \sum_k w_{1:k} r_k",
    source="McInerney, Brost, Chandar, Mehrotra and Carterette 2020, KDD",
    parameters=(NORMALISE,),
)
def rips(normalise: str) -> Recipe:
    """Rewards weighted by the slate down to the position, over slates."""
    return _of_slates("cascade", normalise)


@estimator(
    name="slate-IPS",
    aliases=("slate_ips",),
    summary="Reward of a slate, weighted by the probability of the whole slate.",
    formula="sum over positions of w r / slates, w of the whole slate",
    latex=r"\frac{1}{n} \sum_{slates} w \sum_k r_k",
    source="Swaminathan et al. 2017, Off-policy Evaluation for Slate Recommendation, NeurIPS",
    parameters=(NORMALISE,),
)
def slate_ips(normalise: str) -> Recipe:
    """Rewards weighted by the slate, over slates."""
    return _of_slates("slate", normalise)
