"""Profiles: every convention of one library, as a readable TOML file.

A file of this folder, or one of a user's own, whole:

    name = "house"
    about = "As we have always counted."
    version = "any"                     # of the library that it speaks for
    like = "ranx"                       # optional: what that profile says, and the following
    path = "whole lists"                # or "hits": whether hits alone say what it needs

    [policies]                          # of a run
    ties = "input"

    [metrics]                           # parameters, and policies of one metric alone
    nDCG = { gain = "exp2" }
    "RR@k" = { ties = "item-text" }     # with a cutoff
    gini = { metric = "evenness", over = "m-1" }    # what the library calls so is another metric

    [names]                             # what the library calls them, by what they are here
    "AP(over='relevant')" = ["map", "MeanAveragePrecision"]
    "gmean(AP, floor=1e-5)" = ["gm_map"]

    [refused]                           # names of the library that are no metric here, by why
    "a picture and no number" = ["ScoreDistribution", "*Plot"]

    [options.tail_share]                # of the library, as it writes them
    "tail_ratio=3" = { head = "count", ratio = 3 }

    [[differs]]                         # what no parameter reproduces
    what = "which of two equal items comes first"
    why = "the library's sort has no rule for it"

    [[errors]]                          # mistakes of the library, with what was seen
    version = "0.3"
    what = "..."

All of that is about rankings. Ratings and labels have the same tables in tables of their own:

    [ratings.policies]
    unpredicted = "error"

    [labels.metrics]
    AUC = { ties = "lost" }
    GAUC = { weighting = "positives" }  # wins over what this alias of AUC fixes

    [[labels.differs]]
    what = "..."
    why = "..."
"""

from evalkit.metrics.profiles._load import find_profile, is_path, profile_names, speaking_of
from evalkit.metrics.profiles._record import (
    DEFAULT,
    Fault,
    Profile,
    ProfileDifference,
    RowConventions,
)
