"""How often limits of means hold by how much of Hall's correction: `simulate.py --skewness`.

Values of one hit (nDCG, RR, precision), as `simulate.py` draws them. By number of users: how far
from 95 the rows were on average, and how far the worst row was below 95. `of it` takes the same
share of the correction everywhere; the others take half of it, and more from a skewness / sqrt(n)
on, `by` so much for each beyond, up to a `most`. Where nobody has a hit limits are Wilson's.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from evalkit.statistics.distributions import t_quantile
from evalkit.statistics.intervals import wilson_interval
from evalkit.statistics.skewness import LEAST, MORE_BY, MORE_FROM, MOST

Values = npt.NDArray[np.float64]
Draw = Callable[[np.random.Generator, int, float], Values]


@dataclass(frozen=True, slots=True)
class Choice:
    """How much of the correction a limit has that it moves away from the mean."""

    share: float = 0.5
    more_from: float = math.inf
    more_by: float = MORE_BY
    most: float = MOST

    def reaches(self, t: float, k: Values) -> Values:
        """What `reach` of evalkit/statistics/skewness.py would be, of each skewness / sqrt(n)."""
        with np.errstate(all="ignore"):
            hall = 3.0 / k * (np.cbrt(1.0 + k * (t - k / 6.0)) - 1.0)
        beyond = np.maximum(-k - self.more_from, 0.0)
        share = np.where(beyond > 0.0, np.minimum(0.5 + self.more_by * beyond, self.most), 0.0)
        found: Values = t + np.maximum(share, self.share) * (hall - t)
        return np.where(np.abs(k) >= LEAST, found, t)


CHOICES: Mapping[str, Choice] = {
    "none of it": Choice(0.0),
    "a quarter": Choice(0.25),
    "half": Choice(),
    "all": Choice(1.0),
    "as chosen": Choice(more_from=MORE_FROM),
    "from 0.2": Choice(more_from=0.2),
    "from 0.4": Choice(more_from=0.4),
    "by 3": Choice(more_from=MORE_FROM, more_by=3.0),
    "by 12": Choice(more_from=MORE_FROM, more_by=12.0),
    "up to 1": Choice(more_from=MORE_FROM, most=1.0),
    "up to 2": Choice(more_from=MORE_FROM, most=2.0),
}


@dataclass(frozen=True, slots=True)
class Chosen:
    """What one choice did over all rows of a number of users, in percent of the draws."""

    n_users: int
    choice: str
    draws: int
    distance: float
    worst: float
    width: float  # against Student's


def measure_choices(
    kinds: Mapping[str, tuple[Draw, float]],
    sizes: Sequence[int],
    shares: Sequence[float],
    draws: int,
    seed: int,
) -> list[Chosen]:
    """Every choice on the same draws."""
    found = []
    for n in sizes:
        t, most = -t_quantile(0.025, n - 1), wilson_interval(0, n, level=0.95).high
        rows: dict[str, list[tuple[float, float]]] = {name: [] for name in CHOICES}
        for place, (draw, size) in enumerate(kinds.values()):
            for share in shares:
                rng = np.random.default_rng([seed, place, n, round(1000 * share)])
                values = draw(rng, n * draws, share).reshape(draws, n)
                means, truth = values.mean(axis=1), size * share
                left = values - means[:, None]
                squares, cubes = (left**2).mean(axis=1), (left**3).mean(axis=1)
                some = squares > 0.0
                errors = np.sqrt(squares[some] / (n - 1))
                k, off = cubes[some] / squares[some] ** 1.5 / math.sqrt(n), truth - means[some]
                for name, choice in CHOICES.items():
                    down, up = choice.reaches(t, k), choice.reaches(t, -k)
                    held = (off >= -down * errors) & (off <= up * errors)
                    n_held = int(held.sum()) + int((~some).sum()) * (truth <= most)
                    width = float(((down + up) / (2.0 * t)).mean())
                    rows[name].append((100.0 * n_held / draws, width))
        for name, row in rows.items():
            helds, widths = zip(*row, strict=True)
            distance = float(np.mean([abs(held - 95.0) for held in helds]))
            worst, width = 95.0 - min(helds), float(np.mean(widths))
            found.append(Chosen(n, name, draws, distance, worst, width))
    return found


def choice_lines(found: Sequence[Chosen]) -> list[str]:
    """A row for each choice: for each number of users the distance, worst row and width."""
    sizes = list(dict.fromkeys(each.n_users for each in found))
    lines = ["| correction | " + " | ".join(f"{n:,}" for n in sizes) + " |"]
    lines.append("| --- |" + " ---: |" * len(sizes))
    for name in CHOICES:
        cells = [
            f"{each.distance:.1f}, {each.worst:.1f}, {each.width:.2f}"
            for each in found
            if each.choice == name
        ]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return lines
