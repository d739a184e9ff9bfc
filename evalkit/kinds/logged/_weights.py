"""How far weights carry: checks, what is drawn of them, and what is refused."""

import math
from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np

from evalkit.errors import DataError
from evalkit.kernels.arrays import Floats
from evalkit.kinds.logged._numbers import FEW_REWARDS, SegmentSums, effective_rewards, number_of
from evalkit.kinds.logged._units import OF_SQUARES
from evalkit.kinds.logged.measure import SQUARES, ZEROS, TermColumns
from evalkit.kinds.logged.merge import EDGES, LoggedSums
from evalkit.metrics import Request
from evalkit.metrics.logged import Recipe, Term
from evalkit.report import Graph, Warning_
from evalkit.report.entries import Check
from evalkit.report.weights import OF_METRICS
from evalkit.statistics.distributions import t_quantile, t_two_sided
from evalkit.statistics.ratios import users_carrying

FEW_EFFECTIVE = 100
UNEVEN = 1.05  # times Student's quantile of as many users, were they alike
CARRIED = {
    "effective-sample-size": "rounds", "effective-groups": "rounds, by weights of groups,",
    "effective-cascades": "slates, by weights down to a position,",
    "effective-slates": "slates, by weights of whole slates,",
}  # fmt: skip
FAR = 3.0  # standard errors of the mean weight from 1


def graphs_of(sums: LoggedSums, names: Sequence[str]) -> Iterator[Graph]:
    """How weights are spread, and IPS with every cap from 1 on, of each target."""
    for place, name in enumerate(names):
        rows, weighted, rewards = sums.seen.of_bins(place)
        first, last = (int(np.flatnonzero(rows)[end]) for end in (0, -1))
        last = min(last, EDGES.size - 1)
        points = EDGES[first : last + 1]
        shares = rows[first : last + 1] / rows.sum()
        yield Graph(
            name, "weights", "weight up to", "share of rounds",
            tuple(np.log2(points).tolist()), tuple(shares.tolist()),
            rows=tuple(map(float, rows[first : last + 1].tolist())),
            thresholds=tuple(points.tolist()),
        )  # fmt: skip
        caps = range(int(np.searchsorted(EDGES, 1.0)), max(last + 1, 6))
        path = [
            (math.fsum(weighted[: at + 1]) + EDGES[at] * math.fsum(rewards[at + 1 :])) / rows.sum()
            for at in caps
        ]
        clipped = [float(rows[at + 1 :].sum()) for at in caps]
        yield Graph(
            name, "path-of-caps", "cap", "IPS", tuple(float(np.log2(EDGES[at])) for at in caps),
            tuple(path), rows=tuple(clipped), thresholds=tuple(float(EDGES[at]) for at in caps),
        )  # fmt: skip


def checks_of(
    cell: SegmentSums, wanted: TermColumns, names: Sequence[str], sums: LoggedSums, most: float
) -> Iterator[Check]:
    """How far the weights of each target carry."""
    n_rounds = cell.total(wanted.column(0, Term("ones")))
    for place, name in enumerate(names):
        total = cell.total(wanted.column(place, Term("weight")))
        squares = cell.sum_of_weights(f"{place}:{SQUARES}") / OF_SQUARES
        zeros = cell.sum_of_weights(f"{place}:{ZEROS}")
        effective = total**2 / squares if squares > 0 else 0.0
        verdict = "ok" if effective >= FEW_EFFECTIVE else "warn" if effective > 0 else "fail"
        yield Check("effective-sample-size", name, cell.segment, effective, n_rounds, None, verdict)
        mean = number_of(cell, wanted, place, Recipe(((Term("weight"), Term("ones")),)))
        error, df = mean.std_error, cell.users.height - 1
        p = t_two_sided((mean.value - 1) / error, df) if error > 0 else None
        is_far = error > 0 and abs(mean.value - 1) > FAR * error
        exact = error == 0 and abs(mean.value - 1) > 1e-9
        verdict = "warn" if is_far or exact else "ok"
        yield from effective_by_weight(cell, wanted, place, name)
        yield Check("weight-mean", name, cell.segment, mean.value, 1.0, p, verdict)
        yield Check(
            "weight-max", name, cell.segment, float(sums.seen.largest[place]), None, None, "ok"
        )
        share = zeros / n_rounds
        yield Check("weight-zero-share", name, cell.segment, share, None, None, "ok")
        tops = math.fsum(sums.seen.tops[place])
        earned = abs(cell.total(wanted.column(place, Term("weighted"))))
        top = min(tops / earned, 1.0) if earned > 0 else None
        is_heavy = top is not None and top > most and n_rounds > 20
        yield Check(
            "top10-share", name, cell.segment, top, None, None, "warn" if is_heavy else "ok"
        )
        mass = sums.unsupported.get(place)
        if mass is not None:
            verdict = "warn" if mass > 0.01 else "ok"
            yield Check("unsupported-mass", name, cell.segment, mass, 0.0, None, verdict)


def effective_by_weight(
    cell: SegmentSums, wanted: TermColumns, place: int, name: str
) -> Iterator[Check]:
    """Effective rounds by weights of groups; effective slates by those of more than one position,
    on average over positions (their harmonic mean).
    """
    n_rounds = cell.total(wanted.column(0, Term("ones")))
    for weight in wanted.weights[1:]:
        of = "ones" if weight == "group" else "slates"
        n = cell.total(wanted.column(0, Term(of)))
        total = cell.total(wanted.column(place, Term("weight", weight=weight)))
        squares = cell.sum_of_weights(f"{place}:{SQUARES}:{weight}") / OF_SQUARES
        effective = total**2 / squares * n / n_rounds if squares > 0 else 0.0
        verdict = "ok" if effective >= FEW_EFFECTIVE else "warn" if effective > 0 else "fail"
        yield Check(f"effective-{weight}s", name, cell.segment, effective, n, None, verdict)


def uneven_users(
    added: Sequence[Floats], shares: Floats, model: str, segment: str | None
) -> Iterator[Check]:
    """That few users carry the numbers of a target, where limits over all users are too near.

    Args:
        added: what users add to each number.
        shares: of the rounds, by user.
    """
    n = shares.size
    fewest = min((users_carrying(each, shares) for each in added), default=float(n))
    reach = t_quantile(0.025, max(fewest - 1.0, 1.0))
    if n > 1 and reach < UNEVEN * t_quantile(0.025, n - 1.0):
        yield Check("effective-users", model, segment, fewest, float(n), None, "warn")


def refuse_no_overlap(checks: Sequence[Check], sums: LoggedSums) -> None:
    empty = [each for each in checks if each.check.startswith("effective") and each.value == 0]
    nothing = dict.fromkeys(str(each.model) for each in empty)
    if nothing:
        asked = {OF_METRICS[each.check] for each in empty if each.check in OF_METRICS}
        without = " or ".join(["the target", *sorted(asked)])
        raise DataError(
            f"every weight of {', '.join(nothing)} is 0: the target never does what was logged",
            code="no-overlap",
            at=sums.at,
            hint=f"such a log says nothing about it; leave {without} out",
        )


def refuse_slates(requests: Sequence[Request], recipes: Sequence[Recipe], sums: LoggedSums) -> None:
    """Every slate begins at position 1 and has no gap; where weights are of slates, one length."""
    positions = sums.counts.positions
    sizes = [positions.get(at, 0) for at in range(1, max(positions, default=0) + 1)]
    whole = [r.label for r, each in zip(requests, recipes, strict=True) if each.needs_whole_slates]
    falls = all(one >= other for one, other in pairwise(sizes))
    if falls and (len(set(sizes)) <= 1 or not whole):
        return
    counted = ", ".join(f"{n:,} at {at}" for at, n in enumerate(sizes[:5], start=1))
    raise DataError(
        f"slates are of unequal length, which {whole[0]} does not take: {counted}"
        if falls
        else f"slates lack positions: {counted}",
        code="bad-slates",
        at=sums.at,
        hint="IIPS takes slates of any length; positions count from 1, without gaps",
    )


def few_rewards(
    cell: SegmentSums, wanted: TermColumns, names: Sequence[str], sums: LoggedSums
) -> Iterator[Warning_]:
    """Targets whose effective rounds hold few that earn another reward than most."""
    for place, name in enumerate(names):
        n, _ = effective_rewards(cell, wanted, place, sums.counts.rewards)
        if n < FEW_REWARDS:
            yield Warning_(
                "few-rewards",
                f"effective rounds of {name} hold {n:.1f} with another reward than most: "
                f"below {FEW_REWARDS} limits are rough",
                name,
            )


def warnings_of_units(sums: LoggedSums, wanted: TermColumns) -> Iterator[Warning_]:
    """Rows that are units, though they may vary together."""
    if sums.unnamed:
        message = f"rounds are units, though the log has {sums.unnamed!r}: name it by columns, as "
        message += f'user = "{sums.unnamed}", or write units = "rounds" under [policies]'
        yield Warning_("unread-column", message)
    if wanted.of_slates and not sums.user_names:
        message = "each position of a slate is a unit, as columns name no round: limits are wrong "
        message += 'where positions vary together; round = "slate_id" under [logged.columns]'
        yield Warning_("no-round", message)


def warnings_of(checks: Sequence[Check]) -> Iterator[Warning_]:
    for check in checks:
        if check.segment is not None or check.verdict == "ok" or check.value is None:
            continue
        if check.check == "effective-users":
            yield Warning_(
                "few-clusters",
                f"{check.value:,.1f} of {check.expected or 0:,.0f} users carry {check.model}, who "
                "have most of the rounds: they tell nothing apart",
                check.model,
            )
        elif check.check in CARRIED:
            yield Warning_(
                "few-effective",
                f"{check.value:,.0f} of {check.expected or 0:,.0f} {CARRIED[check.check]} carry "
                f"{check.model}: fewer than {FEW_EFFECTIVE} tell nothing apart",
                check.model,
            )
        elif check.check == "weight-mean":
            yield Warning_(
                "weights-off",
                f"weights of {check.model} are {check.value:.3f} on average, not 1: propensities "
                "are wrong, or the log lacks what the target shows",
                check.model,
            )
        elif check.check == "top10-share":
            message = f"ten rounds carry {100 * check.value:.0f} % of the value of {check.model}"
            yield Warning_("heavy-weights", message, check.model)
        elif check.check == "unsupported-mass":
            message = f"{100 * check.value:.1f} % of what {check.model} shows was never logged"
            yield Warning_("unsupported-mass", message, check.model)
