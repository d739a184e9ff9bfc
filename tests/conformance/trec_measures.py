"""trec_eval's measures in evalkit's words, and those that evalkit does not have."""

import re
from collections.abc import Iterable

SAME = {
    "map": "AP(over='relevant')",
    "ndcg": "nDCG",
    "num_rel_ret": "hits",
    "recip_rank": "RR",
    "Rprec": "R-precision",
    "Rprec_mult_1.00": "R-precision",
    "rbp": "RBP(patience=0.9, gain='linear')",
    "set_F": "F1",
    "set_P": "precision",
    "set_recall": "recall",
}
AT_CUTOFF = {
    "map_cut": "AP(over='relevant')",
    "ndcg_cut": "nDCG",
    "P": "precision",
    "recall": "recall",
    "relative_P": "recall(over='min_k')",
    "success": "hit",
}
# Read from the counts of the report, not from its metrics.
COUNTS = ("num_q", "num_ret", "num_rel", "runid")
# What evalkit has no metric for: patterns of whole names.
LACKED = (
    r"11pt_avg.*",  # precision interpolated at levels of recall
    r"iprec_at_recall_.*",
    r"Rprec_mult_.*",  # at multiples of R other than 1
    r"binG|G",
    r"bpref|gm_bpref",  # preferences among judged items
    r"gm_map",  # geometric mean over users
    r"infAP",  # sampled judgements
    r"ndcg_rel|Rndcg",
    r"ndcg_\d+=.*",  # nDCG under its own gains: an expression of the relevance column
    r"num_nonrel_judged_ret",
    r"rbp_resid",
    r"relstring(_\d+)?",
    r"set_map",  # precision times recall
    r"set_relative_P",  # over min(length of the list, relevant items)
    r"unj_.*",  # share of unjudged items
    r"utility.*",
)


def ours(measure: str) -> str | None:
    """The measure as evalkit writes it; None for one that evalkit lacks.

    Raises:
        KeyError: nobody has said what this measure is.
    """
    if measure in SAME:
        return SAME[measure]
    stem, _, cutoff = measure.rpartition("_")
    if stem in AT_CUTOFF and cutoff.isdigit():
        return f"{AT_CUTOFF[stem]}@{cutoff}"
    if any(re.fullmatch(pattern, measure) for pattern in LACKED):
        return None
    raise KeyError(measure)


def shared_measures(measures: Iterable[str]) -> dict[str, str]:
    """Those measures that evalkit has: trec_eval's name -> ours."""
    found = {each: ours(each) for each in measures if each not in COUNTS}
    return {theirs: each for theirs, each in found.items() if each is not None}


def lacked_measures(measures: Iterable[str]) -> list[str]:
    """Those measures that evalkit has not."""
    return sorted({each for each in measures if each not in COUNTS and ours(each) is None})
