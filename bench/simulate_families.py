"""How often a family of tests finds something where nothing differs: `simulate.py --families`.

Each test has users of its own, whose differences have the mean 0: values and their shares are
given, so that a draw is one of how many users have each. A family of 60 tests is also 12 families
of 5, and 60 tests alone. Holm and Bonferroni find something where the smallest p is at most 0.05
over the number of tests, so in the same families; Benjamini and Hochberg where any p is at most its
rank times that. Tukey's families are all pairs of 4 and 12 models (6 and 66) over the same users:
a baseline, and candidates that differ from it by draws of their own.

`chosen`: the constants of `evalkit/statistics/unseen.py` were chosen on these populations; the two
others were written down afterwards.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import numpy.typing as npt

from evalkit.inference.spread import DifferenceSpread
from evalkit.statistics.paired import p_of_t_tests
from evalkit.statistics.studentised_range import range_quantile
from evalkit.statistics.tukey import error_of_one_pair

Values = npt.NDArray[np.float64]

ERROR = 0.05
LARGEST = 60
FAMILY_SIZES = (1, 5, LARGEST)
MODELS = (4, 12)  # of Tukey's families
DISCOUNTS = 1.0 / np.log2(np.arange(2.0, 22.0))
RECIPROCALS = 1.0 / np.arange(1.0, 21.0)


@dataclass(frozen=True, slots=True)
class Population:
    """Differences whose mean is 0: values other than 0, and how many users have each."""

    values: Values
    shares: Values
    is_chosen: bool

    @classmethod
    def of(
        cls,
        gains: Mapping[float, float],
        losses: Mapping[float, float],
        differing: float,
        *,
        is_chosen: bool = True,
    ) -> "Population":
        """Of a share of the users who differ; as many lose as make up for what the others gain."""
        sides = [np.array([*each.items()]) for each in (gains, losses)]
        means = [float(each[:, 0] @ each[:, 1]) / float(each[:, 1].sum()) for each in sides]
        lost = means[0] / (means[0] + means[1])
        parts = [each[:, 1] / each[:, 1].sum() for each in sides]
        shares = differing * np.concatenate([(1.0 - lost) * parts[0], lost * parts[1]])
        values = np.concatenate([sides[0][:, 0], -sides[1][:, 0]])
        return cls(values, shares, is_chosen)


def _even(values: Values) -> dict[float, float]:
    return dict.fromkeys(values.tolist(), 1.0)


POPULATIONS: Mapping[str, Population] = {
    "nDCG, symmetric": Population.of(_even(DISCOUNTS), _even(DISCOUNTS), 0.1),
    "nDCG, many deep hits against few at the top": Population.of(
        _even(DISCOUNTS[9:]), _even(DISCOUNTS[:1]), 0.1
    ),
    "a fifth lose 0.8, the rest gain 0.2": Population.of({0.2: 1.0}, {0.8: 1.0}, 0.3),
    "RR, deep hits against first places": Population.of(
        _even(RECIPROCALS[4:]), _even(RECIPROCALS[:1]), 0.3
    ),
    "many lose little, few 0.9": Population.of({0.1: 0.6, 0.05: 0.4}, {0.05: 0.9, 0.9: 0.1}, 0.3),
    "recall, tenths against halves and wholes": Population.of(
        {0.1: 0.7, 0.2: 0.3}, {0.5: 0.8, 1.0: 0.2}, 0.2, is_chosen=False
    ),
    "nDCG, one rank up against many ranks down": Population.of(
        _even(DISCOUNTS[:9] - DISCOUNTS[1:10]), _even(DISCOUNTS[:5]), 0.4
    ),
    "nDCG, three ranks up against losses at the top": Population.of(
        _even(DISCOUNTS[:15] - DISCOUNTS[3:18]), _even(DISCOUNTS[:3]), 0.15
    ),
    "AP, hundredths against fifths and halves": Population.of(
        {0.01: 0.5, 0.04: 0.5}, {0.2: 0.7, 0.5: 0.3}, 0.35, is_chosen=False
    ),
}


@dataclass(frozen=True, slots=True)
class FamilyError:
    """How often one of a family of tests was found, in percent of the draws."""

    population: str
    is_chosen: bool
    n_users: int
    n_tests: int
    draws: int
    found: Mapping[str, float]


def p_values_of(
    population: Population, n: int, draws: int, rng: np.random.Generator
) -> dict[str, Values]:
    """float64[draws] of each test: p-values as a report has them, and Student's."""
    rest = max(0.0, 1.0 - float(population.shares.sum()))
    counts = rng.multinomial(n, [rest, *population.shares], size=draws)[:, 1:].astype(np.float64)
    values = population.values
    moments = [counts @ values**power / n for power in (1, 2, 3)]
    return _p_values(n, moments, counts @ (values < 0.0), counts @ (values > 0.0))


def _p_values(n: int, moments: Sequence[Values], below: Values, above: Values) -> dict[str, Values]:
    """float64[n_tests] of each test, by the first three moments of differences and their signs."""
    means, second, third = moments
    variances = np.maximum(second - means**2, 0.0)
    cubes = third - 3.0 * means * second + 2.0 * means**3
    with np.errstate(all="ignore"):
        skewnesses = np.where(variances > 1e-15, cubes / variances**1.5, np.nan)
    errors = np.where(variances > 1e-15, np.sqrt(variances / (n - 1)), 0.0)
    numbers = means.tolist(), errors.tolist(), [n] * means.size
    dfs = [n - 1.0] * means.size
    student = np.array(p_of_t_tests(*numbers, [math.nan] * means.size, dfs))
    mended = np.array(p_of_t_tests(*numbers, skewnesses.tolist(), dfs))
    least = [
        DifferenceSpread(n, n - 1.0, math.nan, 1.0, n_below=int(lost), n_above=int(won)).p_unseen(
            abs(mean), mean, error, is_above=mean > 0.0
        )
        for mean, error, lost, won in zip(*numbers[:2], below.tolist(), above.tolist(), strict=True)
    ]
    return {"auto": np.maximum(mended, np.minimum(1.0, 2.0 * np.array(least))), "t": student}


def find_any(p_values: Values, size: int) -> dict[str, float]:
    """Percent of the families in which each correction found something."""
    tests = np.sort(p_values.reshape(-1, size), axis=1)
    first, limits = tests[:, 0] <= ERROR / size, ERROR / size * np.arange(1, size + 1)
    if size == 1:
        return {"alone": 100.0 * float(first.mean())}
    finds = {"holm": first, "bonferroni": first, "bh": (tests <= limits).any(axis=1)}
    return {name: 100.0 * float(each.mean()) for name, each in finds.items()}


def measure_tukey(
    population: Population, n: int, m: int, draws: int, rng: np.random.Generator
) -> dict[str, float]:
    """Percent of the families of all pairs of `m` models in which Tukey's test found something."""
    values, bounds = np.append(population.values, 0.0), np.cumsum(population.shares)
    df = (n - 1) * (m - 1)
    reach, at = range_quantile(1.0 - ERROR, m, df), error_of_one_pair(ERROR, m)
    n_found = {"auto, tukey": 0, "t, tukey": 0}
    for _ in range(draws):
        users = np.zeros((n, m))
        users[:, 1:] = values[np.searchsorted(bounds, rng.random((n, m - 1)), side="right")]
        means = users.mean(axis=0)
        left = users - users.mean(axis=1, keepdims=True) - (means - means.mean())
        far = reach * math.sqrt((left**2).sum() / df / n)
        pairs = [(i, j) for i, j in combinations(range(m), 2) if abs(means[j] - means[i]) > far]
        if pairs:
            deltas = np.stack([users[:, j] - users[:, i] for i, j in pairs])
            moments = [(deltas**power).mean(axis=1) for power in (1, 2, 3)]
            signs = ((deltas < 0.0).sum(axis=1), (deltas > 0.0).sum(axis=1))
            own = _p_values(n, moments, *signs)["auto"]
            n_found["t, tukey"] += 1
            n_found["auto, tukey"] += bool(own.min() <= at)
    return {name: 100.0 * count / draws for name, count in n_found.items()}


def measure_family_errors(sizes: Sequence[int], draws: int, seed: int) -> list[FamilyError]:
    """Every population and number of users."""
    found = []
    for place, (name, population) in enumerate(POPULATIONS.items()):
        for n in sizes:
            rng = np.random.default_rng([seed, place, n])
            tests = p_values_of(population, n, LARGEST * draws, rng)
            cells = [
                (
                    size,
                    draws * LARGEST // size,
                    {
                        f"{test}, {name}": share
                        for test, each in tests.items()
                        for name, share in find_any(each, size).items()
                        if test == "auto" or name in ("alone", "holm")
                    },
                )
                for size in FAMILY_SIZES
            ]
            cells += [
                (m * (m - 1) // 2, draws, measure_tukey(population, n, m, draws, rng))
                for m in MODELS
            ]  # fmt: skip
            found += [FamilyError(name, population.is_chosen, n, *each) for each in cells]
    return found


def family_lines(errors: Sequence[FamilyError]) -> list[str]:
    """A row for each population and number of users: what was found, for each size of family."""
    rows: dict[tuple[str, bool, int], dict[str, float]] = {}
    for one in errors:
        row = rows.setdefault((one.population, one.is_chosen, one.n_users), {})
        row |= {f"{test}, {one.n_tests}": share for test, share in one.found.items()}
    heads = sorted(next(iter(rows.values())), key=lambda head: head.split(", ")[0] == "t")
    lines = [_row(["differences", "chosen", "users", *heads])]
    lines += [_row(["---"] * 2 + ["---:"] * (1 + len(heads)))]
    for (population, is_chosen, n), row in rows.items():
        shares = [f"{row[head]:.1f}" for head in heads]
        lines.append(_row([population, "yes" if is_chosen else "no", f"{n:,}", *shares]))
    return lines


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"
