"""How far metrics on sampled candidates are off, as they are and corrected.

    python bench/sampled.py
    python bench/sampled.py --items 20000 --others 99 --users 10000 --draws 20

Ranks of users' one item in the whole catalogue are drawn from four distributions, so that the true
number is known; then others are drawn beside each item, again and again. Prints the root of the
mean squared error of each estimate, and the true number.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from evalkit.metrics.sampling import bias_variance, most_likely
from harness import Machine, count, describe_machine, make_parser, write

Ranks = npt.NDArray[np.int64]
Draw = Callable[[np.random.Generator, int, int], Ranks]

OF = ("recall", "nDCG")
CUTOFFS = (10, 50)
GAMMAS = (0.1, 0.01, 0.001)
STEPS = (10, 100, 1000)


def _geometric(rng: np.random.Generator, items: int, users: int) -> Ranks:
    return np.minimum(rng.geometric(20 / items, users), items)


def _pareto(rng: np.random.Generator, items: int, users: int) -> Ranks:
    ranks: Ranks = np.minimum(3 * rng.pareto(0.5, users) + 1, items).astype(np.int64)
    return ranks


def _beta(rng: np.random.Generator, items: int, users: int) -> Ranks:
    return np.maximum(np.ceil(rng.beta(0.3, 1.5, users) * items), 1).astype(np.int64)


def _uniform(rng: np.random.Generator, items: int, users: int) -> Ranks:
    return rng.integers(1, items + 1, users)


DRAWN: Mapping[str, Draw] = {
    "geometric": _geometric,
    "Pareto": _pareto,
    "beta": _beta,
    "uniform": _uniform,
}


@dataclass(frozen=True, slots=True)
class Row:
    """One metric of one distribution: the true number, and errors by estimate."""

    ranks: str
    metric: str
    true: float
    errors: dict[str, float]


@dataclass(frozen=True, slots=True)
class Record:
    """Every number, and where it was made."""

    machine: Machine
    rows: list[Row]


def measure(
    name: str, of: str, cutoff: int, items: int, others: int, users: int, draws: int, seed: int
) -> Row:
    """Errors of every estimate, over as many draws of others."""
    rng = np.random.default_rng(seed)
    ranks = DRAWN[name](rng, items, users)
    true = float(_values(ranks.astype(np.float64), of, cutoff).mean())
    place = OF.index(of)
    tables = {g: bias_variance(place, items, others, g, (cutoff,))[:, 0] for g in GAMMAS}
    found: dict[str, list[float]] = {}
    above = np.arange(others + 1)
    by_rank = {
        "plain": _values(above + np.float64(1), of, cutoff),
        "rank": _values(1 + above * np.float64((items - 1) / others), of, cutoff),
        **{f"gamma={gamma:g}": table for gamma, table in tables.items()},
    }
    for _ in range(draws):
        drawn = rng.binomial(others, (ranks - 1) / (items - 1))
        shares = np.bincount(drawn, minlength=others + 1) / users
        for each, values in by_rank.items():
            found.setdefault(each, []).append(float(np.dot(shares, values)) - true)
        for steps in STEPS:
            value = most_likely(shares.tolist(), place, items, steps, cutoff)
            found.setdefault(f"steps={steps}", []).append(value - true)
    errors = {each: math.hypot(*wrong) / math.sqrt(draws) for each, wrong in found.items()}
    return Row(name, f"{of}@{cutoff}", true, errors)


def _values(ranks: npt.NDArray[np.floating], of: str, cutoff: int) -> npt.NDArray[np.float64]:
    gains = np.ones(ranks.size) if of == "recall" else 1.0 / np.log2(1.0 + ranks)
    return np.where(ranks <= cutoff, gains, 0.0)


def show(rows: list[Row]) -> str:
    """A Markdown table."""
    names = list(rows[0].errors)
    lines = [
        "| ranks | metric | true | " + " | ".join(names) + " |",
        "| --- | --- |" + " ---: |" * (1 + len(names)),
    ]
    for row in rows:
        numbers = " | ".join(f"{row.errors[name]:.4f}" for name in names)
        lines.append(f"| {row.ranks} | {row.metric} | {row.true:.4f} | {numbers} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Run it."""
    parser = make_parser(__doc__)
    parser.add_argument("--items", type=count, default=5000, help="Of the catalogue.")
    parser.add_argument("--others", type=count, default=100, help="Drawn beside each item.")
    parser.add_argument("--users", type=count, default=4000, help="Each with one item.")
    parser.add_argument("--draws", type=count, default=40, help="Of others.")
    asked = parser.parse_args()
    sizes = (asked.items, asked.others, asked.users, asked.draws, asked.seed)
    rows = [measure(n, of, cutoff, *sizes) for n in DRAWN for of in OF for cutoff in CUTOFFS]
    record = Record(describe_machine(), rows)
    stamp = record.machine.when.replace(":", "").replace("-", "")
    write(asked.out, f"sampled-{stamp}", record, show(rows))


if __name__ == "__main__":
    main()
