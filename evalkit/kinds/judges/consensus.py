"""One rating of several: the truth that judges together give, as a table."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl

from evalkit.kernels.arrays import Floats, Ints
from evalkit.kinds.judges.declaration import ConsensusSection
from evalkit.kinds.judges.ratings import Ratings
from evalkit.report import Warning_
from evalkit.runs import machine_errors, replacing
from evalkit.statistics import votes
from evalkit.statistics.agreement import MISSING, chance_corrected

THIN = 3.0  # ratings a unit, below which Dawid and Skene's estimate finds judges' errors badly


@dataclass(frozen=True, slots=True)
class Consensus:
    """What the judges say together.

    Args:
        table: unit columns, `relevance`, `votes`, `agreement`; units without a value are left out.
        unit_agreement: float64[n_units], the share of agreeing pairs, NaN below two ratings.
        errors: `judge`, `true`, `given`, `share`, and the `rounds` that it took: of Dawid and
            Skene's estimate, else None.
    """

    table: pl.DataFrame
    unit_agreement: Floats
    warnings: tuple[Warning_, ...]
    errors: pl.DataFrame | None = None


def vote(codes: Ints, levels: Floats, rule: ConsensusSection) -> tuple[votes.Votes, object]:
    """One value a unit by the rule, and Dawid and Skene's estimate where that was asked for."""
    if rule.method == "mean":
        return votes.mean_rating(codes, levels), None
    if rule.method == "median":
        return votes.median_rating(codes, levels, ties=rule.ties), None
    if rule.method == "dawid-skene":
        estimate = votes.dawid_skene(codes, len(levels))
        return votes.likeliest(estimate, levels, ties=rule.ties), estimate
    return votes.majority(codes, levels, ties=rule.ties), None


def consensus_of(
    ratings: Ratings, rule: ConsensusSection, unit_names: Sequence[str], judges: Sequence[str]
) -> Consensus:
    """The truth of some judges."""
    codes = ratings.of(judges)
    found, estimate = vote(codes, ratings.levels, rule)
    n_votes = (codes != MISSING).sum(axis=1)
    kept = ~np.isnan(found.values) & (n_votes >= rule.min_votes)
    names = {f"user_{place}": name for place, name in enumerate(unit_names)}
    table = ratings.units.rename(names).with_columns(
        pl.Series("relevance", found.values),
        pl.Series("votes", n_votes),
        pl.Series("agreement", found.agreement),
    )
    warnings = []
    thin = int(((n_votes < rule.min_votes) & (n_votes > 0)).sum())
    if thin:
        message = f"{thin:,} units have fewer than {rule.min_votes} ratings and are left out"
        warnings.append(Warning_("thin-units", message))
    tied = int((found.tied & kept).sum()) if rule.ties != "undefined" else int(found.tied.sum())
    if tied:
        become = "are left out" if rule.ties == "undefined" else f"take the {rule.ties} level"
        warnings.append(Warning_("tied-votes", f"{tied:,} units have a tied vote and {become}"))
    errors = None
    if isinstance(estimate, votes.DawidSkene):
        errors = _error_table(estimate, ratings, judges)
        warnings += _warn_of_estimate(estimate, n_votes)
    own = chance_corrected("agreement", ratings.levels).features(codes)
    shares = np.divide(own[:, 1], own[:, 0], out=np.full(len(own), np.nan), where=own[:, 0] > 0)
    return Consensus(table.filter(kept), shares, tuple(warnings), errors)


def _warn_of_estimate(estimate: votes.DawidSkene, n_votes: Ints) -> list[Warning_]:
    told = []
    if not estimate.settled:
        message = f"Dawid and Skene's estimate still moved after {estimate.n_rounds:,} rounds"
        told.append(Warning_("unsettled", message))
    rated = n_votes[n_votes > 0]
    if rated.mean() < THIN:
        told.append(
            Warning_(
                "thin-units",
                f"{rated.mean():.1f} ratings a unit on average: Dawid and Skene's estimate wants "
                f"{THIN:g} or more",
            )
        )
    return told


def _error_table(
    estimate: votes.DawidSkene, ratings: Ratings, judges: Sequence[str]
) -> pl.DataFrame:
    n_judges, n_levels, _ = estimate.errors.shape
    return pl.DataFrame(
        {
            "judge": np.repeat(list(judges), n_levels * n_levels),
            "true": list(np.repeat(ratings.names, n_levels)) * n_judges,
            "given": list(ratings.names) * (n_judges * n_levels),
            "share": estimate.errors.ravel(),
            "rounds": estimate.n_rounds,
        }
    )


def write_truth(table: pl.DataFrame, path: str) -> None:
    """Write the truth, whole or not at all: CSV where the path says so, else Parquet.

    Raises:
        MachineError: it cannot be written.
    """
    target = Path(path)
    with machine_errors(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        with replacing(target) as file:
            if target.suffix.lower() == ".csv":
                table.write_csv(file)
            else:
                table.write_parquet(file)
