# mypy: disable-error-code="no-untyped-call, no-untyped-def"
"""User coverage: who of those who should have got a list has got one."""

from evalkit.metrics import NO_CUTOFF, choice, kernel, list_metric

ANY = 0
FULL = choice(
    "full",
    {"any": "at least one item", "k": "as many items as the cutoff"},
    doc="What a user must be shown to be covered.",
)


@kernel(allocates=False)
def is_covered(within, cutoff, full):
    """Whether a list of so many items covers its user."""
    return within > 0 and (full == ANY or cutoff == NO_CUTOFF or within >= cutoff)


@list_metric(
    name="user_coverage",
    aliases=("covered_users",),
    summary="Share of the users who should have got a list that are shown anything.",
    formula="users with a shown item / users of the users' table, else of the truth",
    latex=r"\frac{|\{u : n_u > 0\}|}{|U|}",
    source="Ge et al. 2010, Beyond accuracy: evaluating recommender systems by coverage and "
    "serendipity, p. 258",
    bounds=(0.0, 1.0),
    undefined="for a user who should not have got a list",
    parameters=(FULL,),
    needs=("users",),
)
@kernel(allocates=False)
def user_coverage(lists, within, cutoffs, full, out):
    """1 for a user who is shown enough, 0 for one who is not."""
    for user in range(out.shape[0]):
        for column in range(out.shape[1]):
            out[user, column] = is_covered(within[user, column], cutoffs[column], full)
