"""Who is averaged, and with what: the policies about users, decided in one place.

Whether a list was read hit by hit or whole, a user's case is a few bits. The policies make one
small table of all cases, and a kernel looks up each user's.
"""

import math
from functools import cache

import numpy as np
import numpy.typing as npt

from evalkit.config import Policies
from evalkit.kernels import kernel
from evalkit.kernels.arrays import Bytes, Flags, Floats

EXACT = 17  # decimals that round nothing
UNCOUNTED: float = np.int64(0x7FF8000000000BAD).view(np.float64)  # NaN that was a user's 0
OF_ZEROS = {"skip": np.nan, "nan": np.inf, "survivors": UNCOUNTED}

# bits of a case; an absent user is one whom only other models rank, and the truth lacks
WITHOUT_RELEVANT, WITHOUT_RANKING, WITHOUT_ROWS, ABSENT = 1, 2, 4, 8
N_CASES = 16

# what becomes of a user's values
KEEP, FILL, ZERO, ONE, SKIP, SPOIL = range(6)


def cases_of(
    present: Flags,
    lengths: npt.NDArray[np.integer],
    n_relevant: npt.NDArray[np.integer],
    is_extra: Flags | None,
    *,
    counts_extra: bool,
) -> Bytes:
    """uint8[n_users], the case of each user.

    Args:
        present: whether the user has a list, be it an empty one.
        lengths: rows of the list.
        n_relevant: relevant items of the user.
        is_extra: whether the truth lacks the user.
        counts_extra: such users count where they have a list.
    """
    cases: Bytes = (n_relevant == 0) * np.uint8(WITHOUT_RELEVANT)
    cases |= ~present * np.uint8(WITHOUT_RANKING)
    cases |= (present & (lengths == 0)) * np.uint8(WITHOUT_ROWS)
    if is_extra is not None:
        cases |= (is_extra & ~(present & counts_extra)) * np.uint8(ABSENT)
    return cases


def with_relevant(cases: Bytes, n_relevant: npt.NDArray[np.integer]) -> Bytes:
    """The cases of users of whose relevant items a view shows so many."""
    changed: Bytes = cases & np.uint8(N_CASES - 1 - WITHOUT_RELEVANT)
    changed |= (n_relevant == 0) * np.uint8(WITHOUT_RELEVANT)
    return changed


@cache
def outcomes_of(
    missing_ranking: str, empty_ranking: str, no_relevant: str, *, higher_is_better: bool
) -> Bytes:
    """uint8[N_CASES], what becomes of a user in each case.

    Who is left out by any policy is left out; then who spoils the mean by any, spoils it. A
    missing ranking counts 0 before a lack of relevant items counts anything. What else a metric
    says of a user stands: zero fills in for no value.
    """
    outcomes = np.full(N_CASES, KEEP, dtype=np.uint8)
    for case in range(N_CASES):
        asked = [
            policy
            for bit, policy in (
                (WITHOUT_RELEVANT, no_relevant),
                (WITHOUT_RANKING, missing_ranking),
                (WITHOUT_ROWS, empty_ranking),
            )
            if case & bit
        ]
        if case & ABSENT or "skip" in asked:
            outcomes[case] = SKIP
        elif "nan" in asked:
            outcomes[case] = SPOIL
        elif case & WITHOUT_RANKING:
            outcomes[case] = ZERO if higher_is_better else SKIP
        elif "one" in asked:
            outcomes[case] = ONE
        elif asked and higher_is_better:
            outcomes[case] = FILL
    return outcomes


@kernel(allocates=False)
def apply_outcomes(values, cases, outcomes):  # type: ignore[no-untyped-def]
    """Change float64[n_users, n_cutoffs] as each user's case asks.

    NaN leaves a user out; infinity makes the mean undefined.
    """
    for row in range(cases.size):
        outcome = outcomes[cases[row]]
        if outcome == KEEP:
            continue
        value = np.inf
        if outcome == SKIP:
            value = np.nan
        elif outcome == ONE:
            value = 1.0
        elif outcome != SPOIL:
            value = 0.0
        for column in range(values.shape[1]):
            if outcome != FILL or np.isnan(values[row, column]):
                values[row, column] = value


def apply_user_policies(
    values: Floats, cases: Bytes, policies: Policies, *, higher_is_better: bool
) -> None:
    """Apply the policies about users to float64[n_users, n_cutoffs], users in their cases."""
    if cases.any():
        outcomes = outcomes_of(
            policies.missing_ranking,
            policies.empty_ranking,
            policies.no_relevant,
            higher_is_better=higher_is_better,
        )
        apply_outcomes(values, cases, outcomes)
    round_users(values, policies)
    if policies.zeros != "count":
        values[values == 0.0] = OF_ZEROS[policies.zeros]


def round_users(values: Floats, policies: Policies) -> Floats:
    """The same values, rounded in place as a policy asks."""
    return values if policies.round_users == EXACT else values.round(policies.round_users, values)


def of_nobody(policies: Policies, *, higher_is_better: bool) -> float:
    """The mean of users who were all left out."""
    return 0.0 if policies.zeros in ("skip", "survivors") and higher_is_better else math.nan


def as_kept(values: Floats) -> Floats:
    """Values as users have them: of a survivors' mean the others' 0, NaN of what spoils a mean."""
    uncounted = values.view(np.int64) == np.float64(UNCOUNTED).view(np.int64)
    return np.where(uncounted, 0.0, np.where(np.isinf(values), np.nan, values))


def as_measured(values: Floats, zeros: str) -> Floats:
    """Values as they were before `as_kept`, by the policy `zeros` that they were settled by."""
    return np.where(values == 0.0, UNCOUNTED, values) if zeros == "survivors" else values


def may_be_undefined(policies: Policies) -> bool:
    """Whether a policy may make a mean undefined."""
    asked = (policies.no_relevant, policies.missing_ranking, policies.empty_ranking, policies.zeros)
    return "nan" in asked
