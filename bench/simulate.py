"""How often intervals hold the true value, and how often tests find what is not there.

    python bench/simulate.py
    python bench/simulate.py --draws 500 --resampled-draws 100 --sizes 30,1000
    python bench/simulate.py --families --sizes 100,300,1000,3000
    python bench/simulate.py --skewness --sizes 30,50,100,300,1000 --shares 0.05,0.1,0.3

Users' values are drawn as metrics have them: 0 for most users, and for a share of them the value
of one hit at a random rank. The true mean is known; an interval either holds it or not. `report`
is what a report shows: Wilson's interval of hits and where nobody has any, of all else Student's
moved towards Hall's; `warned` how often it warns (`few-users`) that this may be too narrow.
`difference` is a candidate's nDCG less the baseline's, in three of five users better. A share
of 4,000 draws that should be 95.0 is within 1.0 of it 99.6 times in 100.

`difference, ...`: of 300 users few differ, and lean to one side; in draws where two or more do.

`less 20 others`: the mean of a night less that of one with other users, by the limits that both
have, or by their errors alone.

`clusters`: users of as many clusters as stand under `users`, equal ones of 20 users, or from 5 to
50; shares of users with a hit that differ by cluster, or skewed effects of clusters. `gamma 2`,
`lognormal 1`: users' weights, which have nothing to do with their values. `items`: 1,000
users of as many items as stand under `users`, which add to a difference as much as users do: all
items alike, or some more popular; Student's limits are those over users alone.

Below, tests of differences whose mean is 0: how often p is at most 0.05 and 0.01. `skewed`: one
differing user in five loses 0.8, four gain 0.2; only the t test and the bootstrap, which ask for
the mean, have anything to say there. `margin`: the same differences, the mean being the margin,
tested for not being worse by it. `any of 60`: the smallest p of 60 metrics, corrected by Holm.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np
import numpy.typing as npt
from simulate_families import FamilyError, family_lines, measure_family_errors
from simulate_skewness import Chosen, choice_lines, measure_choices

from evalkit.inference.caveats import MOST_SKEWED_DIFFERENCES, too_narrow, too_uneven
from evalkit.statistics.bootstrap import Resamples
from evalkit.statistics.corrections import adjust
from evalkit.statistics.exact import ExactSums
from evalkit.statistics.intervals import (
    Interval,
    difference_interval,
    mean_interval,
    normal_interval,
)
from evalkit.statistics.means import interval_of
from evalkit.statistics.paired import non_inferiority_test, p_of_t_tests
from evalkit.statistics.permutation import SignFlips
from evalkit.statistics.ratios import N_TERMS, RatioSum, terms_of
from evalkit.statistics.two_way import TwoWay
from evalkit.statistics.wilcoxon import wilcoxon_test
from harness import Machine, count, describe_machine, make_parser, write

Values = npt.NDArray[np.float64]
Draw = Callable[[np.random.Generator, int, float], Values]

LEVEL = 0.95
DEPTH = 20
LIMITS = (0.05, 0.01)
KINDS = ("percentile", "bca", "studentised")
WARNED = "warned"
DISCOUNTS = 1.0 / np.log2(np.arange(2.0, DEPTH + 2.0))
SHARE_DIFFERING = 0.3


@dataclass(frozen=True, slots=True)
class Coverage:
    """How often one kind of interval held the mean of one kind of value, in percent."""

    values: str
    n_users: int
    share: float
    interval: str
    draws: int
    held: float


@dataclass(frozen=True, slots=True)
class Level:
    """How often one test of a mean of 0 had a p of at most 0.05 and 0.01, in percent."""

    differences: str
    n_users: int
    test: str
    draws: int
    found: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Record:
    """All that was simulated."""

    machine: Machine
    coverage: list[Coverage] = field(default_factory=list)
    levels: list[Level] = field(default_factory=list)
    families: list[FamilyError] = field(default_factory=list)
    choices: list[Chosen] = field(default_factory=list)


def draw_hit(rng: np.random.Generator, n: int, share: float) -> Values:
    """1 for a share of the users."""
    return (rng.random(n) < share).astype(np.float64)


def draw_ndcg(rng: np.random.Generator, n: int, share: float) -> Values:
    """The discount of a random rank."""
    found: Values = draw_hit(rng, n, share) * DISCOUNTS[rng.integers(0, DEPTH, n)]
    return found


def draw_rr(rng: np.random.Generator, n: int, share: float) -> Values:
    """One over a random rank."""
    found: Values = draw_hit(rng, n, share) / rng.integers(1, DEPTH + 1, n)
    return found


def draw_precision(rng: np.random.Generator, n: int, share: float) -> Values:
    """One to three hits of ten."""
    found: Values = draw_hit(rng, n, share) * rng.choice([0.1, 0.2, 0.3], n, p=[0.7, 0.2, 0.1])
    return found


def draw_difference(rng: np.random.Generator, n: int, share: float) -> Values:
    """The nDCG that a user wins or loses."""
    found: Values = draw_ndcg(rng, n, share) * rng.choice([1.0, -1.0], n, p=[0.6, 0.4])
    return found


VALUES: Mapping[str, tuple[Draw, float]] = {  # with the mean of a user who is not 0
    "hit": (draw_hit, 1.0),
    "nDCG": (draw_ndcg, float(DISCOUNTS.mean())),
    "RR": (draw_rr, float(np.mean(1.0 / np.arange(1, DEPTH + 1)))),
    "precision": (draw_precision, 0.14),
    "difference": (draw_difference, 0.2 * float(DISCOUNTS.mean())),
}


def draw_symmetric(rng: np.random.Generator, n: int) -> Values:
    """Differences of either sign alike."""
    found: Values = draw_ndcg(rng, n, SHARE_DIFFERING) * rng.choice([1.0, -1.0], n)
    return found


def draw_skewed(rng: np.random.Generator, n: int) -> Values:
    """Rare large losses and frequent small gains that cancel."""
    found: Values = draw_hit(rng, n, SHARE_DIFFERING) * rng.choice([-0.8, 0.2], n, p=[0.2, 0.8])
    return found


def sums_of(values: Values) -> ExactSums:
    """What a report knows of users' values."""
    sums = ExactSums(1)
    sums.add(values.reshape(-1, 1))
    return sums


def intervals_of(name: str, sums: ExactSums) -> dict[str, Interval]:
    """What is computed from sums alone."""
    total = sums.sum_of(0)
    mean, error, n = total.mean, total.std_error, total.count
    student = mean_interval(mean, error, n, level=LEVEL)
    if name == "difference":
        skewness = sums.skewness_of(0)
        mended = mean_interval(mean, error, n, level=LEVEL, skewness=skewness, only_wider=True)
        return {"Student": student, "report": mended}
    report = interval_of(total, sums.skewness_of(0), (0.0, 1.0), level=LEVEL)
    return {"Student": student, "report": report}


def resampled_intervals(
    values: Values, keys: npt.NDArray[np.uint64], replicates: int, seed: int
) -> dict[str, Interval]:
    """The bootstrap's."""
    drawn = Resamples.empty([1.0], replicates=replicates, seed=seed, squares=True)
    drawn.add(keys, values.reshape(-1, 1))
    return {kind: drawn.interval(0, level=LEVEL, kind=kind) for kind in KINDS}


def measure_coverage(
    name: str, n: int, share: float, draws: int, resampled_draws: int, replicates: int, seed: int
) -> list[Coverage]:
    """All intervals of one kind of value, user count and share."""
    draw, size = VALUES[name]
    rng = np.random.default_rng([seed, n, round(1000 * share)])
    keys = rng.integers(0, 2**64, n, dtype=np.uint64)
    held: dict[str, list[bool]] = {}
    for number in range(max(draws, resampled_draws)):
        values = draw(rng, n, share)
        found: dict[str, Interval] = {}
        if number < draws:
            sums = sums_of(values)
            found = intervals_of(name, sums)
            if name != "difference":
                held.setdefault(WARNED, []).append(bool(too_narrow(sums, 0, (0.0, 1.0))))
        if number < resampled_draws:
            found |= resampled_intervals(values, keys, replicates, seed + number)
        for kind, interval in found.items():
            held.setdefault(kind, []).append(interval.holds(size * share))
    return [
        Coverage(name, n, share, kind, len(each), 100.0 * sum(each) / len(each))
        for kind, each in held.items()
    ]


def measure_leaning(n_differ: int, draws: int, seed: int, n: int = 300) -> list[Coverage]:
    """Limits of differences of few users, which lean, and how often they are warned of."""
    rng = np.random.default_rng([seed, n_differ])
    leaning: Mapping[str, tuple[Callable[[], Values], float]] = {
        "symmetric": (
            lambda: DISCOUNTS[rng.integers(0, DEPTH, n)] * rng.choice([1.0, -1.0], n),
            0.0,
        ),
        "a fifth lose": (lambda: rng.choice([-0.8, 0.2], n, p=[0.2, 0.8]), 0.0),
        "a sixth lose": (lambda: rng.choice([-0.5, 0.1], n, p=[1 / 6, 5 / 6]), 0.0),
        "one way": (lambda: 1.0 / rng.integers(1, DEPTH + 1, n), VALUES["RR"][1]),
    }
    found = []
    for name, (draw, size) in leaning.items():
        held: dict[str, list[bool]] = {"Student": [], WARNED: []}
        for _ in range(draws):
            sums = sums_of(draw_hit(rng, n, n_differ / n) * draw())
            total, k = sums.sum_of(0), sums.skewness_of(0) / math.sqrt(n)
            limits = mean_interval(total.mean, total.std_error, n, level=LEVEL)
            if sums.n_zero(0) <= n - 2:
                held["Student"].append(limits.holds(size * n_differ / n))
                held[WARNED].append(abs(k) > MOST_SKEWED_DIFFERENCES)
        found += [
            Coverage(
                f"difference, {name}",
                n,
                n_differ / n,
                kind,
                len(each),
                100.0 * sum(each) / len(each),
            )
            for kind, each in held.items()
        ]
    return found


def measure_two_nights(n_old: int, n: int, draws: int, seed: int) -> list[Coverage]:
    """Limits of the change between nights of different users, by those of each, or by errors."""
    rng = np.random.default_rng([seed, n_old, n])
    found = []
    for name in ("hit", "RR"):
        draw, _ = VALUES[name]
        for share in (0.05, 0.3):
            held: dict[str, list[bool]] = {"report": [], "by errors": []}
            for _ in range(draws):
                nights = [sums_of(draw(rng, each, share)) for each in (n, n_old)]
                (new, its), (old, others) = (
                    (sums.sum_of(0), intervals_of(name, sums)["report"]) for sums in nights
                )
                limits = difference_interval(new.mean, its, old.mean, others)
                error = math.hypot(new.std_error or 0.0, old.std_error or 0.0)
                plain = normal_interval(new.mean - old.mean, error, level=LEVEL)
                held["report"].append(limits.holds(0.0))
                held["by errors"].append(plain.holds(0.0))
            values = f"{name}, less {n_old} others"
            found += [
                Coverage(values, n, share, kind, draws, 100.0 * sum(each) / draws)
                for kind, each in held.items()
            ]
    return found


def measure_clusters(n_clusters: int, draws: int, seed: int) -> list[Coverage]:
    """Intervals over clusters, by what a report knows of them."""
    rng = np.random.default_rng([seed, n_clusters])
    found = []
    for sizes_name, sizes in (
        ("equal", np.full(n_clusters, 20)),
        ("5 to 50", np.round(5 * 10 ** np.linspace(0, 1, n_clusters)).astype(int)),
    ):
        for effects in ("hits", "skewed"):
            held: dict[str, list[bool]] = {"Student": [], "report": []}
            for _ in range(draws):
                if effects == "hits":
                    totals, truth = (
                        rng.binomial(sizes, rng.beta(1, 4, n_clusters)).astype(float),
                        0.2,
                    )
                else:
                    size = 0.1 * np.exp(rng.normal(0, 0.8, n_clusters))
                    totals, truth = size * rng.binomial(sizes, 0.3), 0.03 * np.exp(0.32)
                sums = ExactSums(N_TERMS)
                sums.add(terms_of(totals.reshape(-1, 1), sizes.astype(float).reshape(-1, 1)))
                ratio = RatioSum.of(sums, 0)
                for kind, skewness, df in (
                    ("Student", math.nan, None),
                    ("report", ratio.skewness, ratio.df),
                ):
                    limits = mean_interval(
                        ratio.mean,
                        ratio.std_error,
                        ratio.count,
                        level=LEVEL,
                        skewness=skewness,
                        df=df,
                        only_wider=True,
                    )
                    held[kind].append(limits.holds(truth))
            name = f"{sizes_name} clusters, {effects}"
            found += [
                Coverage(name, n_clusters, 1.0, kind, draws, 100.0 * sum(each) / draws)
                for kind, each in held.items()
            ]
    return found


def measure_weights(name: str, n: int, share: float, draws: int, seed: int) -> list[Coverage]:
    """Intervals of weighted means, whose weights are even, uneven or heavy."""
    draw, size = VALUES[name]
    rng = np.random.default_rng([seed, n, round(1000 * share), 3])
    weights: Mapping[str, Callable[[], Values]] = {
        "gamma 2": lambda: rng.gamma(2.0, 1.0, n),
        "lognormal 1": lambda: rng.lognormal(0.0, 1.0, n),
        "lognormal 1.5": lambda: rng.lognormal(0.0, 1.5, n),
    }
    found = []
    for weighing, draw_weights in weights.items():
        held: dict[str, list[bool]] = {"Student": [], "report": [], WARNED: []}
        for _ in range(draws):
            values, drawn = draw(rng, n, share), draw_weights()
            sums = ExactSums(N_TERMS)
            sums.add(terms_of((drawn * values).reshape(-1, 1), drawn.reshape(-1, 1)))
            ratio = RatioSum.of(sums, 0)
            for kind, skewness in (("Student", math.nan), ("report", ratio.skewness)):
                limits = mean_interval(
                    ratio.mean, ratio.std_error, n, level=LEVEL, skewness=skewness, df=ratio.df
                ).within((0.0, 1.0))
                held[kind].append(limits.holds(size * share))
            held[WARNED].append(bool(too_uneven(ratio)))
        found += [
            Coverage(f"{name}, {weighing}", n, share, kind, draws, 100.0 * sum(each) / draws)
            for kind, each in held.items()
        ]
    return found


def add_by(codes: npt.NDArray[np.int64], values: Values, n: int) -> Values:
    """float64[n], the sums of values by code."""
    found: Values = np.zeros(n)
    np.add.at(found, codes, values)
    return found


def measure_two_way(n_items: int, draws: int, seed: int, n_users: int = 1000) -> list[Coverage]:
    """Intervals of differences that come of items as much as of users, which both are drawn."""
    rng = np.random.default_rng([seed, n_items, 2])
    found = []
    for name, power in (("alike", 0.0), ("popular", 1.0)):
        chances = 1.0 / np.arange(1.0, n_items + 1.0) ** power
        held: dict[str, list[bool]] = {"Student": [], "report": []}
        for _ in range(draws):
            counts = rng.integers(1, 6, n_users)
            users = np.repeat(np.arange(n_users), counts)
            items = rng.choice(n_items, users.size, p=chances / chances.sum())
            drawn = rng.normal(0, 0.5, n_items)[items] + rng.normal(0, 0.5, n_users)[users]
            drawn += rng.normal(0, 1.0, users.size)
            shares = 1.0 / counts[users]
            parts = drawn * shares
            of_users, of_pairs = ExactSums(1), ExactSums(3)
            of_users.add(add_by(users, parts, n_users).reshape(-1, 1))
            of_pairs.add(np.stack([parts, shares, parts + shares], axis=1))
            seen = np.bincount(items, minlength=n_items) > 0
            total = TwoWay.of(
                of_users.sum_of(0),
                (of_pairs.sum_of(0), of_pairs.sum_of(1), of_pairs.sum_of(2)),
                add_by(items, parts, n_items)[seen],
                add_by(items, shares, n_items)[seen],
            )
            plain = of_users.sum_of(0)
            for kind, error, df in (
                ("Student", plain.std_error, n_users - 1.0),
                ("report", total.std_error, total.df),
            ):
                limits = mean_interval(total.mean, error, total.count, level=LEVEL, df=df)
                held[kind].append(limits.holds(0.0))
        found += [
            Coverage(f"items, {name}", n_items, 1.0, kind, draws, 100.0 * sum(each) / draws)
            for kind, each in held.items()
        ]
    return found


def measure_margins(n: int, draws: int, seed: int) -> list[Level]:
    """How often a candidate that is worse by just the margin is called not inferior."""
    rng = np.random.default_rng([seed, n])
    found: dict[str, list[float]] = {}
    for _ in range(draws):
        for name, draw in (("symmetric", draw_symmetric), ("skewed", draw_skewed)):
            sums = sums_of(draw(rng, n))
            total, skewness = sums.sum_of(0), sums.skewness_of(0)
            for kind, known in (("Student", np.nan), ("report", skewness)):
                p_value = non_inferiority_test(
                    total.mean - 0.1, total.std_error, n, margin=0.1, skewness=known
                ).p_value
                found.setdefault(f"{name}, {kind}", []).append(p_value)
    return _levels("margin", n, found)


def p_values_of(
    name: str, values: Values, keys: npt.NDArray[np.uint64], replicates: int, seed: int
) -> dict[str, float]:
    """Every test that may be asked about such differences."""
    sums = ExactSums(1)
    column = values.reshape(-1, 1)
    sums.add(column)
    total = sums.sum_of(0)
    plain, studentised = (
        Resamples.empty([1.0], replicates=replicates, seed=seed, squares=squares)
        for squares in (False, True)
    )
    for drawn in (plain, studentised):
        drawn.add(keys, column)
    n, skewness = total.count, sums.skewness_of(0)
    found = {
        "t": p_of_t_tests([total.mean], [total.std_error], [n], [skewness], [n - 1])[0],
        "bootstrap": plain.test(0).p_value,
        "bootstrap, studentised": studentised.test(0).p_value,
    }
    if name == "symmetric":
        flips = SignFlips.empty([1.0], replicates=replicates, seed=seed)
        flips.add(keys, column)
        found["Wilcoxon"] = wilcoxon_test(values).p_value
        found["permutation"] = flips.test(0).p_value
    return found


def measure_levels(name: str, n: int, draws: int, replicates: int, seed: int) -> list[Level]:
    """All tests of one kind of differences."""
    draw = draw_symmetric if name == "symmetric" else draw_skewed
    rng = np.random.default_rng([seed, n])
    keys = rng.integers(0, 2**64, n, dtype=np.uint64)
    found: dict[str, list[float]] = {}
    for number in range(draws):
        for test, p in p_values_of(name, draw(rng, n), keys, replicates, seed + number).items():
            found.setdefault(test, []).append(p)
    return _levels(name, n, found)


def measure_families(n: int, draws: int, replicates: int, seed: int, size: int = 60) -> list[Level]:
    """How often Holm's correction found something among `size` metrics without difference."""
    rng = np.random.default_rng([seed, n])
    keys = rng.integers(0, 2**64, n, dtype=np.uint64)
    found: dict[str, list[float]] = {}
    for number in range(draws):
        values = np.stack([draw_symmetric(rng, n) for _ in range(size)], axis=1)
        replicated = partial(
            Resamples.empty, [1.0] * size, replicates=replicates, seed=seed + number
        )
        tests: dict[str, SignFlips | Resamples] = {
            "permutation": SignFlips.empty([1.0] * size, replicates=replicates, seed=seed + number),
            "bootstrap": replicated(),
            "bootstrap, studentised": replicated(squares=True),
        }
        for name, test in tests.items():
            test.add(keys, values)
            p_values = [test.test(column).p_value for column in range(size)]
            found.setdefault(name, []).append(min(adjust(p_values, "holm").p_adjusted))
    return _levels(f"any of {size}", n, found)


def _levels(name: str, n: int, found: Mapping[str, Sequence[float]]) -> list[Level]:
    return [
        Level(
            name,
            n,
            test,
            len(each),
            {str(limit): 100.0 * sum(p <= limit for p in each) / len(each) for limit in LIMITS},
        )
        for test, each in found.items()
    ]


def show(record: Record) -> str:
    """The tables of what was simulated."""
    commit = f"\n\nCommit {record.machine.commit}, {record.machine.when[:10]}.\n"
    if record.families:
        title = "Families of tests without a difference that something was found in, of 100:"
        return "\n".join([title, "", *family_lines(record.families)]) + commit
    if record.choices:
        title = "By users: distance from 95, the worst row below it, width over Student's:"
        return "\n".join([title, "", *choice_lines(record.choices)]) + commit
    kinds = list(dict.fromkeys(each.interval for each in record.coverage))
    lines = ["95 % intervals that held the true mean, of 100:", ""]
    lines += _head(["values", "users", "not 0", *kinds])
    cells: dict[tuple[str, int, float], dict[str, float]] = {}
    for each in record.coverage:
        cells.setdefault((each.values, each.n_users, each.share), {})[each.interval] = each.held
    for (values, n, share), row in cells.items():
        shown = [f"{row[kind]:.1f}" if kind in row else "" for kind in kinds]
        lines.append(_row([values, f"{n:,}", f"{share:.0%}", *shown]))
    lines += ["", "Tests of no difference that had a p of at most 0.05 and 0.01, of 100:", ""]
    lines += _head(["differences", "users", "test", "at 0.05", "at 0.01"])
    for level in record.levels:
        shares = [f"{level.found[str(limit)]:.1f}" for limit in LIMITS]
        lines.append(_row([level.differences, f"{level.n_users:,}", level.test, *shares]))
    return "\n".join(lines) + commit


def _head(names: Sequence[str]) -> list[str]:
    return [_row(names), _row(["---"] + ["---:"] * (len(names) - 1))]


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def main() -> None:
    """Run it."""
    parser = make_parser(__doc__)
    parser.add_argument("--draws", type=count, default=4000, help="Of intervals from sums.")
    parser.add_argument("--resampled-draws", type=count, default=1000, help="Where resampled.")
    parser.add_argument("--replicates", type=count, default=1000, help="Of each of those.")
    parser.add_argument("--sizes", default="30,100,300,1000,10000", help="Users.")
    parser.add_argument("--shares", default="0.01,0.05,0.1,0.3", help="Of users who are not 0.")
    parser.add_argument("--families", action="store_true", help="Errors of families alone.")
    parser.add_argument("--skewness", action="store_true", help="Choices of correction alone.")
    asked = parser.parse_args()
    sizes = [count(each) for each in asked.sizes.split(",")]
    shares = [float(each) for each in asked.shares.split(",")]
    record = Record(describe_machine())
    stamp = record.machine.when.replace(":", "").replace("-", "")
    if asked.families:
        record.families.extend(measure_family_errors(sizes, asked.draws, asked.seed))
        write(asked.out, f"simulate-families-{stamp}", record, show(record))
        return
    if asked.skewness:
        kinds = {name: VALUES[name] for name in ("nDCG", "RR", "precision")}
        record.choices.extend(measure_choices(kinds, sizes, shares, asked.draws, asked.seed))
        write(asked.out, f"simulate-skewness-{stamp}", record, show(record))
        return
    for name in VALUES:
        for n in sizes:
            for share in shares:
                # resampling ten thousand users a thousand times says what a thousand users said
                resampled = asked.resampled_draws if n <= 1000 else 0
                record.coverage.extend(
                    measure_coverage(
                        name, n, share, asked.draws, resampled, asked.replicates, asked.seed
                    )
                )
    for name in ("symmetric", "skewed"):
        for n in (each for each in sizes if each <= 1000):
            record.levels.extend(
                measure_levels(name, n, asked.resampled_draws, asked.replicates, asked.seed)
            )
    for n in (each for each in sizes if each <= 1000):
        record.levels.extend(
            measure_families(n, asked.resampled_draws, asked.replicates, asked.seed)
        )
        record.levels.extend(measure_margins(n, asked.draws, asked.seed))
    for n_differ in (2, 5, 10, 15, 20, 30, 60, 100):
        record.coverage.extend(measure_leaning(n_differ, asked.draws, asked.seed))
    for n_old, n in ((20, 20), (20, 200), (200, 20), (300, 300)):
        record.coverage.extend(measure_two_nights(n_old, n, asked.draws, asked.seed))
    for n_clusters in (20, 50, 100):
        record.coverage.extend(measure_clusters(n_clusters, asked.draws, asked.seed))
    for name in ("hit", "nDCG", "RR"):
        for n in (300, 1000, 5000):
            for share in (0.1, 0.3):
                record.coverage.extend(measure_weights(name, n, share, asked.draws, asked.seed))
    for n_items in (20, 50, 100, 500):
        record.coverage.extend(measure_two_way(n_items, asked.draws, asked.seed))
    write(asked.out, f"simulate-{stamp}", record, show(record))


if __name__ == "__main__":
    main()
