"""How often what is said of many nights is right.

    python bench/simulate_nights.py
    python bench/simulate_nights.py --draws 200

`why`: limits of the parts of a change between two nights whose users, and kinds of users, differ;
`shared` is how many users of the one night are in the other, with the same segment and, of hits,
the same luck. A share of 2,000 draws that should be 95.0 is within 1.3 of it 99 times in 100.

`chart`: signals of a metric's history of 40 nights, where nothing happened or the level shifted at
the twenty-first; `spread` is how far nights lie apart, in standard errors.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from evalkit.statistics.change import UserCell, explain_change
from evalkit.statistics.change_errors import Spread, change_errors
from evalkit.statistics.control import OUTSIDE, SHIFT, TREND, TWO_OF_THREE, expect_nights
from evalkit.statistics.distributions import t_quantile
from evalkit.statistics.exact import SCALE_BITS, ExactSum
from harness import Machine, count, describe_machine, make_parser, write

Floats = npt.NDArray[np.float64]

LEVEL = 0.95
PARTS = ("mix", "truth", "coverage", "within")
SEGMENTS, RELEVANT = ("new", "old", "rare"), ("1", "2", "3-4")
CELLS = [UserCell(s, k, r) for s in SEGMENTS for k in RELEVANT for r in (False, True)]
SHARES = np.array([[0.3, 0.65, 0.05], [0.4, 0.55, 0.05]])  # of the segments, night by night
KINDS = np.array([[0.5, 0.3, 0.2], [0.4, 0.35, 0.25]])  # of numbers of relevant items
RANKED = np.array([0.9, 0.95])
HITS = np.array([0.1, 0.2, 0.3])[:, None] + np.array([0.0, 0.05, 0.1])  # by segment and kind
NIGHTS, SHIFTED = 40, 20
BETTER = np.array([1.0, 1.1])


@dataclass(frozen=True, slots=True)
class Coverage:
    """How often limits of each part of a change held the true one, in percent."""

    values: str
    n_users: int
    shared: float
    draws: int
    held: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Chart:
    """How often nights had each signal, in percent; and histories any, and a shift since it came.

    Args:
        shift: of the level, in deviations of nights.
    """

    spread: float
    shift: float
    draws: int
    signals: Mapping[str, float]
    any_signal: float
    shift_found: float


@dataclass(frozen=True, slots=True)
class Record:
    """All that was simulated."""

    machine: Machine
    coverage: list[Coverage] = field(default_factory=list)
    charts: list[Chart] = field(default_factory=list)


def measure_parts(values: str, n: int, shared: float, draws: int, seed: int) -> Coverage:
    """Limits of the parts of a change, by what runs keep of their users."""
    rng = np.random.default_rng([seed, n, round(100 * shared)])
    many = 10**12
    expected = [
        {
            cell: ExactSum(round(share * many), round(share * many * mean * 2**60) << 1014)
            for cell, share, mean in zip(CELLS, *population(night), strict=True)
        }
        for night in (0, 1)
    ]
    true = explain_change(*expected).parts
    held = dict.fromkeys((*PARTS, "delta"), 0)
    for _ in range(draws):
        nights = draw_nights(rng, values, n, shared)
        runs = [sums_of(*each) for each in nights]
        spreads = [spread_of(*each) for each in nights]
        parts = explain_change(*runs).parts
        errors = change_errors((runs[0], runs[1]), (spreads[0], spreads[1]))
        assert errors is not None
        reach = t_quantile(0.5 + LEVEL / 2.0, n - 1)
        for name in PARTS:
            away = abs(getattr(parts, name) - getattr(true, name))
            held[name] += away <= reach * getattr(errors.parts, name)
        held["delta"] += abs(parts.total - true.total) <= reach * errors.total
    return Coverage(values, n, shared, draws, {k: 100.0 * v / draws for k, v in held.items()})


def population(night: int) -> tuple[Floats, Floats]:
    """The share and the mean value of each cell."""
    ranked = np.array([1.0 - RANKED[night], RANKED[night]])
    shares = SHARES[night][:, None, None] * KINDS[night][:, None] * ranked
    means = (BETTER[night] * HITS)[:, :, None] * np.array([0.0, 1.0])
    return shares.ravel(), means.ravel()


def draw_nights(
    rng: np.random.Generator, values: str, n: int, shared: float
) -> list[tuple[npt.NDArray[np.int64], Floats]]:
    """The cells and values of the users of two nights."""
    found = []
    lucks = rng.random((2, 4, n))
    lucks[1, :, : round(shared * n)] = lucks[0, :, : round(shared * n)]
    for night, (of_segment, of_kind, of_rank, of_value) in enumerate(lucks):
        segment = np.searchsorted(np.cumsum(SHARES[night])[:-1], of_segment, side="right")
        kind = np.searchsorted(np.cumsum(KINDS[night])[:-1], of_kind, side="right")
        is_ranked = of_rank < RANKED[night]
        chance = BETTER[night] * HITS[segment, kind] * is_ranked
        hit = (of_value < chance).astype(np.float64)
        if values == "graded":  # twice the chance to get half of it, on average
            chance *= 2.0
            hit = (of_value < chance) * rng.integers(0, 1025, n) / 1024.0
        found.append((segment * 6 + kind * 2 + is_ranked, hit))
    return found


def sums_of(cells: npt.NDArray[np.int64], values: Floats) -> dict[UserCell, ExactSum]:
    """What `parts.parquet` keeps; values are multiples of 1/1024."""
    counts = np.bincount(cells, minlength=len(CELLS)).tolist()
    sums = np.bincount(cells, values * 1024.0, minlength=len(CELLS)).tolist()
    return {
        cell: ExactSum(count, int(total) << SCALE_BITS - 10)
        for cell, count, total in zip(CELLS, counts, sums, strict=True)
        if count
    }


def spread_of(cells: npt.NDArray[np.int64], values: Floats) -> Spread:
    """What standard errors of segments say."""
    squares: dict[str | None, float] = {}
    for place, name in enumerate(SEGMENTS):
        own = values[cells // 6 == place]
        if own.size:
            squares[name] = float(own.var() * own.size)
    return Spread(squares, (0.0, 1.0))


def measure_chart(spread: float, shift: float, draws: int, seed: int) -> Chart:
    """Signals of histories whose nights have unlike errors."""
    rng = np.random.default_rng([seed, round(10 * spread), round(10 * shift)])
    counts = dict.fromkeys((OUTSIDE, TWO_OF_THREE, SHIFT, TREND), 0)
    n_any = n_found = 0
    for _ in range(draws):
        errors = 0.01 * np.exp(rng.normal(0.0, 0.2, NIGHTS))
        moved = rng.normal(0.0, 1.0, NIGHTS) + shift * (np.arange(NIGHTS) >= SHIFTED)
        nights = expect_nights((0.3 + moved * spread * errors).tolist(), errors.tolist())
        for name in counts:
            counts[name] += sum(name in each.signals for each in nights)
        n_any += any(each.signals for each in nights)
        n_found += any(SHIFT in each.signals for each in nights[SHIFTED:])
    shares = {name: 100.0 * each / draws / NIGHTS for name, each in counts.items()}
    return Chart(spread, shift, draws, shares, 100.0 * n_any / draws, 100.0 * n_found / draws)


def show(record: Record) -> str:
    """The tables."""
    names = (*PARTS, "delta")
    lines = ["95 % limits of parts of a change that held the true part, of 100:", ""]
    lines += [
        "| values | users | shared | " + " | ".join(names) + " |",
        "| --- |" + " ---: |" * (len(names) + 2),
    ]
    for row in record.coverage:
        held = " | ".join(f"{row.held[name]:.1f}" for name in names)
        lines.append(f"| {row.values} | {row.n_users:,} | {row.shared:.0%} | {held} |")
    lines += ["", "Signals of 100 nights; histories with any, and with a shift found, of 100:", ""]
    signals = list(record.charts[0].signals)
    lines += [
        "| spread | shift | " + " | ".join(signals) + " | any | shift found |",
        "| ---: |" + " ---: |" * (len(signals) + 3),
    ]
    for chart in record.charts:
        shares = " | ".join(f"{chart.signals[name]:.2f}" for name in signals)
        ends = f"{chart.any_signal:.1f} | {chart.shift_found:.1f}"
        lines.append(f"| {chart.spread:g} | {chart.shift:g} | {shares} | {ends} |")
    return "\n".join(lines) + f"\n\nCommit {record.machine.commit}, {record.machine.when[:10]}.\n"


def main() -> None:
    """Run it."""
    parser = make_parser(__doc__)
    parser.add_argument("--draws", type=count, default=2000, help="Of every row.")
    parser.add_argument("--sizes", default="300,1000,5000", help="Users of a night.")
    asked = parser.parse_args()
    sizes = [count(each) for each in asked.sizes.split(",")]
    record = Record(describe_machine())
    for values in ("hits", "graded"):
        for n in sizes:
            for shared in (0.0, 0.5):
                record.coverage.append(measure_parts(values, n, shared, asked.draws, asked.seed))
    for spread in (1.0, 3.0):
        for shift in (0.0, 1.0, 2.0, 3.0):
            record.charts.append(measure_chart(spread, shift, asked.draws, asked.seed))
    stamp = record.machine.when.replace(":", "").replace("-", "")
    write(asked.out, f"simulate_nights-{stamp}", record, show(record))


if __name__ == "__main__":
    main()
