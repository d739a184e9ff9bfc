"""Names of other libraries' metrics that are no metric here, and why."""

REFUSED = {
    "G": "experimental in trec_eval and unpublished; nDCG has graded gains",
    "binG": "experimental in trec_eval and unpublished; nDCG(gain='binary') discounts by rank",
    "Rndcg": "experimental in trec_eval: of a user without relevant items no value is set",
    "ndcg_rel": "experimental in trec_eval and unpublished; read nDCG",
    "relstring": "a text of relevances and no number; per-user values have what lists hold",
    "Rprec_mult": "points of a curve; read R-precision, or precision at cutoffs",
    "user_item_serendipity": "a table by user and item; its mean is serendipity(of='content')",
    "historical_item_novelty": "a table by item; its mean over lists is novelty_of_rows",
    "nAUC": "it looks at how sure a model is, which rankings do not say",
    "replay": "rounds that a target would not show are left out unweighted; read SNIPS",
    "SG-IPS": "sub-gaussian weights need a tuned number; IPS(cap=10), and its path of caps",
    "SG-DR": "sub-gaussian weights need a tuned number; DR(cap=10) or DR(shrink=1)",
    "IPS-tuned": "caps are not tuned here; the report draws IPS along a path of caps",
    "SWITCH-DR-tuned": "switches are not tuned here; SWITCH-DR(tau=10) and others beside it",
    "cascade-DR": "it needs the probabilities of every next item of a slate; read RIPS",
    "MLE": "empirical likelihood has no sums over users; read SNIPS, which is close",
    "Cressie-Read": "it has no sums over users; read SNIPS, which is close",
    "pseudo-inverse": "it needs product policies of a slate; read IIPS",
    "NDPM": "it takes two whole orders of the same items, which top-k lists are not",
}
