"""What is told of comparisons over many nights."""

from collections.abc import Sequence

from evalkit.report.entries import OverNights
from evalkit.report.text import count_noun, decimals_for, show_level

FEWEST_USERS = 50  # of a night (docs/statistics.md)


def tell_nights(compared: Sequence[OverNights]) -> list[str]:
    """A sentence for each, and one on how they are meant."""
    said = [_tell(each) for each in compared]
    for first in compared[:1]:
        shared = "may share users"
        if first.users == "disjoint":
            shared = "are said to share no users" if first.n_shared is None else "share no users"
        if first.n_shared:
            shared = f"share users ({count_noun(first.n_shared, 'user')} came again)"
        said.append(
            f"{show_level(first.level)} limits over nights hold together, however often they are "
            f"looked at; nights {shared}"
        )
        fewest = min(night.n_users for each in compared for night in each.nights)
        if first.users == "disjoint" and fewest < FEWEST_USERS:
            said.append(
                f"they may be too narrow: a night stands on {count_noun(fewest, 'user')}; below "
                f"{FEWEST_USERS}, 7 to 19 % of simulated histories of skewed differences gave a "
                "false alarm"
            )
    return said


def _tell(each: OverNights) -> str:
    last = each.nights[-1]
    limits = "no user has differed yet"
    digits = 4
    if last.low is not None and last.high is not None:
        digits = decimals_for([(last.high - last.low) / 2.0], [last.mean])
        limits = f"{last.low:+.{digits}f} … {last.high:+.{digits}f}"
    how = {"cannot tell": "cannot be told from", "different": "is different from"}
    verdict = how.get(each.verdict, f"is {each.verdict} than")
    found = f", as run {each.found} found" if each.found is not None else ""
    left = f"; {count_noun(each.n_left_out, 'run')} measured otherwise" * bool(each.n_left_out)
    left += f"; {count_noun(each.n_again, 'run')} over the same truth" * bool(each.n_again)
    return (
        f"over {count_noun(len(each.nights), 'night')}, by {each.metric}, {each.candidate} "
        f"{verdict} {each.baseline}: {last.mean:+.{digits}f} ({limits}){found}{left}"
    )
