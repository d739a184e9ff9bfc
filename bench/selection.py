"""What a selection promises, by simulation.

    python bench/selection.py
    python bench/selection.py --draws 300 --users 1000

Trials' true means are drawn around one mean with a given spread; users' values are correlated
0.86 between trials. Of each draw of users the best is chosen. `plain` is the winner's own mean,
`corrected` the bootstrap bias-corrected estimate, `test` the winner's mean on users that nothing
was chosen by: how far each is off on average, in standard errors of a mean, and how often its
95 % interval holds the winner's true mean. `kept`: a race over 2 %, 10 % and all users kept the
best trial, or one that is not worse by the paired interval.
"""

import sys
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from evalkit.statistics.intervals import mean_interval
from evalkit.statistics.selection import corrected_estimate, hopeless, paired_errors
from harness import Machine, count, describe_machine, make_parser, write

Values = npt.NDArray[np.float64]

CORRELATION, SPREAD_OF_USERS, MEAN = 0.86, 0.14, 0.1
POPULATIONS = ((0.0, 5), (0.0, 100), (0.002, 20), (0.005, 20), (0.005, 100), (0.02, 20))
RUNGS, LEVEL = (0.02, 0.1), 0.95


@dataclass(frozen=True, slots=True)
class Promise:
    """One population: biases in standard errors, and shares of draws in percent."""

    spread: float
    n_trials: int
    draws: int
    plain_bias: float
    plain_held: float
    corrected_bias: float
    corrected_held: float
    test_bias: float
    test_held: float
    kept: float


@dataclass(frozen=True, slots=True)
class Record:
    """What was found, and the table of it."""

    machine: Machine
    promises: tuple[Promise, ...]
    lines: tuple[str, ...]


def draw_users(random: np.random.Generator, truths: Values, n_users: int) -> Values:
    """float64[n_users, n_trials], values that trials share a part of."""
    shared = random.normal(size=(n_users, 1)) * np.sqrt(CORRELATION)
    own = random.normal(size=(n_users, truths.size)) * np.sqrt(1 - CORRELATION)
    values: Values = truths + SPREAD_OF_USERS * (shared + own)
    return values


def race(values: Values) -> list[int]:
    """The trials that stay to the end."""
    left = list(range(values.shape[1]))
    n_tests = len(RUNGS) * (len(left) - 1)
    for share in RUNGS:
        some = values[: max(2, int(share * len(values)))][:, left]
        out, _, _ = hopeless(some, level=LEVEL, n_tests=n_tests, keep=0.1)
        left = [trial for place, trial in enumerate(left) if place not in out]
    return left


def simulate(spread: float, n_trials: int, draws: int, n_users: int, replicates: int) -> Promise:
    """One population."""
    random = np.random.default_rng([n_trials, int(spread * 1e4)])
    keys = random.integers(0, 2**63, n_users).astype(np.uint64)
    biases, held, kept = np.zeros((draws, 3)), np.zeros((draws, 3)), np.zeros(draws)
    for number in range(draws):
        truths = MEAN + spread * random.normal(size=n_trials)
        values, test = (draw_users(random, truths, n_users) for _ in range(2))
        best = int(values.mean(axis=0).argmax())
        found = corrected_estimate(
            values, keys, replicates=replicates, seed=number, level=LEVEL, threads=2
        )
        means = [values[:, best].mean(), found.value, test[:, best].mean()]
        errors = [each[:, best].std(ddof=1) / np.sqrt(n_users) for each in (values, values, test)]
        limits = [
            mean_interval(float(mean), float(error), n_users, level=LEVEL)
            for mean, error in zip(means, errors, strict=True)
        ]
        limits[1] = found.interval
        biases[number] = [(mean - truths[best]) / errors[0] for mean in means]
        held[number] = [each.low <= truths[best] <= each.high for each in limits]
        left = race(values)
        whole = values.mean(axis=0)
        stays = max(left, key=lambda trial: whole[trial])
        reach = 1.96 * paired_errors(values, best)[stays]
        kept[number] = best in left or whole[best] - whole[stays] <= reach
    bias, share = biases.mean(axis=0), 100 * held.mean(axis=0)
    each = [float(x) for pair in zip(bias, share, strict=True) for x in pair]
    rest = float(100 * kept.mean())
    return Promise(
        spread, n_trials, draws, each[0], each[1], each[2], each[3], each[4], each[5], rest
    )


def main() -> None:
    """Simulate, and print the table."""
    parser = make_parser(__doc__)
    parser.add_argument("--draws", type=count, default=300)
    parser.add_argument("--users", type=count, default=1000)
    parser.add_argument("--replicates", type=count, default=200)
    given = parser.parse_args()
    lines = [
        "| spread | trials | plain: off, holds | corrected: off, holds | test: off, holds | kept |",
        "| ---: | ---: | --- | --- | --- | ---: |",
    ]
    found = []
    for spread, n_trials in POPULATIONS:
        each = simulate(spread, n_trials, given.draws, given.users, given.replicates)
        found.append(each)
        shown = (
            f"{bias:+.2f}, {held:.1f}"
            for bias, held in (
                (each.plain_bias, each.plain_held),
                (each.corrected_bias, each.corrected_held),
                (each.test_bias, each.test_held),
            )
        )
        lines.append(f"| {spread:g} | {n_trials} | {' | '.join(shown)} | {each.kept:.1f} |")
        print(lines[-1], file=sys.stderr, flush=True)
    record = Record(describe_machine(), tuple(found), tuple(lines))
    stamp = record.machine.when.replace(":", "").replace("-", "")
    write(given.out, f"select-{stamp}", record, "\n".join(lines))


if __name__ == "__main__":
    main()
