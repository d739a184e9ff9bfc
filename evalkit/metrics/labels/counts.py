# mypy: disable-error-code="no-untyped-def"
"""Counts of rows called positive or negative at a threshold, and their rates: one table."""

import math

from evalkit.metrics import at_threshold, label_metric, of_counts, of_kernels
from evalkit.metrics.labels._over import or_zero, where_undefined

POWERS = "Powers 2011, Evaluation: from precision, recall and F-measure to ROC, informedness"
LIKELIHOODS = "Altman and Bland 1994, Diagnostic tests 2 and 4, BMJ 309, pp. 102 and 168"

count = of_kernels(
    label_metric,
    source="Sokolova and Lapalme 2009, A systematic analysis of performance measures, 2",
    bounds=(0.0, math.inf),
    undefined="without rows",
    parameters=at_threshold(best=False),
    higher_is_better=None,
    over_rows=of_counts,
)
rate = of_kernels(
    label_metric,
    source="Sokolova and Lapalme 2009, A systematic analysis of performance measures, table 2",
    bounds=(0.0, 1.0),
    parameters=(where_undefined(), *at_threshold()),
    over_rows=of_counts,
)


@count(
    name="TP",
    aliases=("true_positives",),
    summary="Rows with label 1 that are called positive.",
    formula="TP",
    latex="TP",
)
def true_positives(tp, fp, tn, fn):
    """Of float64 arrays of (weighted) counts, or of numbers; so are all of this file."""
    return tp


@count(
    name="FP",
    aliases=("false_positives",),
    summary="Rows with label 0 that are called positive.",
    formula="FP",
    latex="FP",
)
def false_positives(tp, fp, tn, fn):
    """The count itself."""
    return fp


@count(
    name="TN",
    aliases=("true_negatives",),
    summary="Rows with label 0 that are called negative.",
    formula="TN",
    latex="TN",
)
def true_negatives(tp, fp, tn, fn):
    """The count itself."""
    return tn


@count(
    name="FN",
    aliases=("false_negatives",),
    summary="Rows with label 1 that are called negative.",
    formula="FN",
    latex="FN",
)
def false_negatives(tp, fp, tn, fn):
    """The count itself."""
    return fn


@rate(
    name="positive-rate",
    aliases=("predicted_positive_rate", "PPR", "selection_rate"),
    summary="Share of rows that are called positive; that groups differ in it breaks demographic "
    "parity.",
    formula="(TP + FP) / (TP + FP + TN + FN)",
    latex=r"\frac{TP + FP}{TP + FP + TN + FN}",
    source="Hardt, Price and Srebro 2016, Equality of opportunity in supervised learning, 1",
    undefined="without rows",
    parameters=at_threshold(best=False),
    higher_is_better=None,
)
def positive_rate(tp, fp, tn, fn):
    """Rows called positive over all."""
    return (tp + fp) / (tp + fp + tn + fn)


@rate(
    name="error-rate",
    aliases=("zero_one_loss", "hamming_loss", "hamming_distance", "flip_rate"),
    summary="Share of rows whose label is called wrong: 1 - accuracy.",
    formula="(FP + FN) / (TP + FP + TN + FN)",
    latex=r"\frac{FP + FN}{TP + FP + TN + FN}",
    undefined="without rows",
    parameters=at_threshold(),
    higher_is_better=False,
)
def error_rate(tp, fp, tn, fn):
    """Rows called wrong over all."""
    return (fp + fn) / (tp + fp + tn + fn)


flips = of_kernels(
    label_metric,
    source="Fard, Cormier, Canini and Gupta 2016, Launch and iterate: reducing prediction churn, 2",
    bounds=(0.0, 1.0),
    undefined="without rows",
    parameters=at_threshold(best=False),
    higher_is_better=None,
    over_rows=of_counts,
)


@flips(
    name="neg-to-pos",
    aliases=("neg_to_pos_flip_rate",),
    summary="Share of all rows that are called positive and have label 0: where the label is what "
    "another model calls, those that turn positive.",
    formula="FP / (TP + FP + TN + FN)",
    latex=r"\frac{FP}{n}",
)
def neg_to_pos(tp, fp, tn, fn):
    """Rows that turn positive, over all."""
    return fp / (tp + fp + tn + fn)


@flips(
    name="pos-to-neg",
    aliases=("pos_to_neg_flip_rate",),
    summary="Share of all rows that are called negative and have label 1: where the label is what "
    "another model calls, those that turn negative.",
    formula="FN / (TP + FP + TN + FN)",
    latex=r"\frac{FN}{n}",
)
def pos_to_neg(tp, fp, tn, fn):
    """Rows that turn negative, over all."""
    return fn / (tp + fp + tn + fn)


@flips(
    name="neg-to-neg",
    aliases=("neg_to_neg_flip_rate",),
    summary="Share of all rows that are called negative and have label 0: by both models, where "
    "the label is what another one calls.",
    formula="TN / (TP + FP + TN + FN)",
    latex=r"\frac{TN}{n}",
)
def neg_to_neg(tp, fp, tn, fn):
    """Rows that both call negative, over all."""
    return tn / (tp + fp + tn + fn)


@flips(
    name="pos-to-pos",
    aliases=("pos_to_pos_flip_rate",),
    summary="Share of all rows that are called positive and have label 1: by both models, where "
    "the label is what another one calls.",
    formula="TP / (TP + FP + TN + FN)",
    latex=r"\frac{TP}{n}",
)
def pos_to_pos(tp, fp, tn, fn):
    """Rows that both call positive, over all."""
    return tp / (tp + fp + tn + fn)


@rate(
    name="NPV",
    aliases=("negative_predictive_value",),
    summary="Share of rows called negative that have label 0.",
    formula="TN / (TN + FN)",
    latex=r"\frac{TN}{TN + FN}",
    undefined="where no row is called negative",
)
def npv(tp, fp, tn, fn, undefined):
    """Precision of the other label."""
    return or_zero(tn / (tn + fn), undefined)


@rate(
    name="fallout",
    aliases=("FPR", "false_positive_rate", "fall_out"),
    summary="Share of rows with label 0 that are called positive.",
    formula="FP / (FP + TN)",
    latex=r"\frac{FP}{FP + TN}",
    undefined="without a row with label 0",
    higher_is_better=False,
)
def fallout(tp, fp, tn, fn, undefined):
    """1 - specificity."""
    return or_zero(fp / (fp + tn), undefined)


@rate(
    name="miss-rate",
    aliases=("FNR", "false_negative_rate"),
    summary="Share of rows with label 1 that are called negative.",
    formula="FN / (FN + TP)",
    latex=r"\frac{FN}{FN + TP}",
    undefined="without a row with label 1",
    higher_is_better=False,
)
def miss_rate(tp, fp, tn, fn, undefined):
    """1 - recall."""
    return or_zero(fn / (fn + tp), undefined)


@rate(
    name="FDR",
    aliases=("false_discovery_rate", "false_discovery"),
    summary="Share of rows called positive that have label 0.",
    formula="FP / (FP + TP)",
    latex=r"\frac{FP}{FP + TP}",
    source="Benjamini and Hochberg 1995, Controlling the false discovery rate, 2.1",
    undefined="where no row is called positive",
    higher_is_better=False,
)
def false_discovery_rate(tp, fp, tn, fn, undefined):
    """1 - precision."""
    return or_zero(fp / (fp + tp), undefined)


@rate(
    name="FOR",
    aliases=("false_omission_rate", "false_omission"),
    summary="Share of rows called negative that have label 1.",
    formula="FN / (FN + TN)",
    latex=r"\frac{FN}{FN + TN}",
    source=POWERS,
    undefined="where no row is called negative",
    higher_is_better=False,
)
def false_omission_rate(tp, fp, tn, fn, undefined):
    """1 - NPV."""
    return or_zero(fn / (fn + tn), undefined)


@rate(
    name="positive-likelihood-ratio",
    aliases=("LR_plus", "lr_positive"),
    summary="How many times as often rows with label 1 are called positive as rows with label 0.",
    formula="(TP / (TP + FN)) / (FP / (FP + TN))",
    latex=r"\frac{TP}{TP + FN} \Big/ \frac{FP}{FP + TN}",
    source=LIKELIHOODS,
    bounds=(0.0, math.inf),
    undefined="with labels of one kind only, and where no row with label 0 is called positive",
)
def positive_likelihood_ratio(tp, fp, tn, fn, undefined):
    """Recall over fall-out; fp / fp is 1, or undefined."""
    return or_zero(tp / (tp + fn) / (fp / (fp + tn)) * (fp / fp), undefined)


@rate(
    name="negative-likelihood-ratio",
    aliases=("LR_minus", "lr_negative"),
    summary="How many times as often rows with label 1 are called negative as rows with label 0.",
    formula="(FN / (FN + TP)) / (TN / (TN + FP))",
    latex=r"\frac{FN}{FN + TP} \Big/ \frac{TN}{TN + FP}",
    source=LIKELIHOODS,
    bounds=(0.0, math.inf),
    undefined="with labels of one kind only, and where no row with label 0 is called negative",
    higher_is_better=False,
)
def negative_likelihood_ratio(tp, fp, tn, fn, undefined):
    """Miss rate over specificity; tn / tn is 1, or undefined."""
    return or_zero(fn / (fn + tp) / (tn / (tn + fp)) * (tn / tn), undefined)


@rate(
    name="diagnostic-odds",
    aliases=("diagnostic_odds_ratio", "DOR"),
    summary="Odds of a positive call with label 1 over those with label 0.",
    formula="(TP / FN) / (FP / TN)",
    latex=r"\frac{TP}{FN} \Big/ \frac{FP}{TN}",
    source="Glas et al. 2003, The diagnostic odds ratio, J. Clin. Epidemiology 56, p. 1130",
    bounds=(0.0, math.inf),
    undefined="where FN, FP or TN is 0",
)
def diagnostic_odds(tp, fp, tn, fn, undefined):
    """The ratio of both odds, where both exist; x / x is 1, or undefined."""
    return or_zero(tp / fn / (fp / tn) * (fn / fn) * (fp / fp) * (tn / tn), undefined)


@rate(
    name="informedness",
    aliases=("Youden", "bookmaker_informedness"),
    summary="Recall + specificity - 1: how far calls follow labels; 0 is chance.",
    formula="TP / (TP + FN) + TN / (TN + FP) - 1",
    latex=r"\frac{TP}{TP + FN} + \frac{TN}{TN + FP} - 1",
    source="Youden 1950, Index for rating diagnostic tests; " + POWERS,
    bounds=(-1.0, 1.0),
    undefined="with labels of one kind only",
)
def informedness(tp, fp, tn, fn, undefined):
    """Recall less fall-out."""
    return or_zero(tp / (tp + fn) - fp / (tn + fp), undefined)


@rate(
    name="markedness",
    aliases=("delta_p",),
    summary="Precision + NPV - 1: how far labels follow calls; 0 is chance.",
    formula="TP / (TP + FP) + TN / (TN + FN) - 1",
    latex=r"\frac{TP}{TP + FP} + \frac{TN}{TN + FN} - 1",
    source=POWERS,
    bounds=(-1.0, 1.0),
    undefined="where all rows are called alike",
)
def markedness(tp, fp, tn, fn, undefined):
    """Precision less the false omission rate."""
    return or_zero(tp / (tp + fp) - fn / (tn + fn), undefined)


@rate(
    name="Fowlkes-Mallows",
    aliases=("FM", "fowlkes_mallows_index"),
    summary="Geometric mean of precision and recall.",
    formula="TP / sqrt((TP + FP) (TP + FN))",
    latex=r"\frac{TP}{\sqrt{(TP + FP)(TP + FN)}}",
    source="Fowlkes and Mallows 1983, A method for comparing two hierarchical clusterings, 2",
    undefined="without a row with label 1, and where no row is called positive",
)
def fowlkes_mallows(tp, fp, tn, fn, undefined):
    """The root of precision times recall."""
    return or_zero((tp / (tp + fp) * (tp / (tp + fn))) ** 0.5, undefined)


@rate(
    name="threat-score",
    aliases=("Jaccard", "jaccard_score", "jaccard_index", "critical_success_index", "CSI", "IoU"),
    summary="Share of right ones among rows that are called positive or have label 1.",
    formula="TP / (TP + FP + FN)",
    latex=r"\frac{TP}{TP + FP + FN}",
    source="Gilbert 1884, Finley's tornado predictions; Jaccard 1901",
    undefined="where no row is called positive or has label 1",
)
def threat_score(tp, fp, tn, fn, undefined):
    """Both over either."""
    return or_zero(tp / (tp + fp + fn), undefined)


@rate(
    name="kappa",
    aliases=("cohen_kappa", "cohen_kappa_score"),
    summary="Agreement of call and label beyond what their shares give by chance.",
    formula="(po - pe) / (1 - pe), with po the accuracy, pe that of independent calls",
    latex=r"\frac{p_o - p_e}{1 - p_e}",
    source="Cohen 1960, A coefficient of agreement for nominal scales, p. 40",
    bounds=(-1.0, 1.0),
    undefined="where all labels and all calls are of one kind",
)
def kappa(tp, fp, tn, fn, undefined):
    """Twice the determinant over what chance leaves."""
    n = tp + fp + tn + fn
    apart = (tp + fp) / n * ((fp + tn) / n) + (tp + fn) / n * ((fn + tn) / n)
    return or_zero(2.0 * (tp / n * (tn / n) - fn / n * (fp / n)) / apart, undefined)


@rate(
    name="prevalence-threshold",
    aliases=("PT",),
    summary="Share of labels 1 below which a positive call is mostly wrong sooner than it gains.",
    formula="sqrt(FPR) / (sqrt(TPR) + sqrt(FPR))",
    latex=r"\frac{\sqrt{TPR \cdot FPR} - FPR}{TPR - FPR}",
    source="Balayla 2020, Prevalence threshold and the geometry of screening curves, 3",
    undefined="with labels of one kind only, and where TPR and FPR are equal",
    higher_is_better=False,
)
def prevalence_threshold(tp, fp, tn, fn, undefined):
    """Without the difference that cancels; its quotient by itself is 1, or undefined."""
    hits, alarms = tp / (tp + fn), fp / (fp + tn)
    apart = (hits - alarms) / (hits - alarms)
    return or_zero(alarms**0.5 / (hits**0.5 + alarms**0.5) * apart, undefined)
