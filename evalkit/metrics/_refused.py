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
    "NDPM": "it takes two whole orders of the same items, which top-k lists are not",
}
