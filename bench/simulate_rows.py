"""How often intervals of ratings and labels hold the true value, and how often comparisons err.

    python bench/simulate_rows.py
    python bench/simulate_rows.py --draws 2000 --sizes 30,1000

Users differ in how many rows they have, in how often they click and in how well they are known, so
their rows are not independent. The true value of every metric is that of many more users. A share
of 1,000 draws that should be 95.0 is within 1.8 of it 99 times in 100. `found` is how often two
models that err equally, but on other rows, are told apart with p of at most 0.05.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import polars as pl

import evalkit
from evalkit.report import Report
from harness import Machine, count, describe_machine, make_parser, tell, write

LABELS = [
    "AUC", "AP", "partial-AUC(max_fpr=0.2)", "log-loss", "NE", "Brier", "calibration", "accuracy",
    "precision(threshold=0.4)", "F1(threshold=0.4)", "MCC(threshold=0.4)", "GAUC",
    "log-loss(over='users')", "median(log-loss)", "quantile(log-loss, q=0.9)",
    "tail_mean(log-loss)", "fraction(accuracy, at_least=0.8)", "gmean(log-loss)",
]  # fmt: skip
RATINGS = [
    "MAE", "RMSE", "bias", "R2", "explained-variance", "WAPE", "RMSE(over='users')", "median(MAE)",
    "quantile(MAE, q=0.9)", "tail_mean(MAE)", "fraction(MAE, at_least=1)", "gmean(MAE)",
]  # fmt: skip
LEVEL = 0.95
TRUE_USERS = 200_000
MOST_ROWS = 15

Evaluate = Callable[[dict[str, pl.DataFrame]], Report]
Draw = Callable[[np.random.Generator, int], dict[str, pl.DataFrame]]


@dataclass(frozen=True, slots=True)
class Coverage:
    """How often intervals held the value, and models that are equal were told apart, in percent."""

    metric: str
    n_users: int
    draws: int
    held: float
    found: float


@dataclass(frozen=True, slots=True)
class Record:
    """All that was simulated."""

    machine: Machine
    coverage: list[Coverage] = field(default_factory=list)


def draw_users(rng: np.random.Generator, n_users: int) -> np.ndarray:
    """The user of each row."""
    return np.repeat(np.arange(n_users), rng.geometric(0.2, n_users).clip(1, MOST_ROWS))


def draw_labels(rng: np.random.Generator, n_users: int) -> dict[str, pl.DataFrame]:
    """Impressions scored by two models that know as much, but not the same."""
    users = draw_users(rng, n_users)
    known = 0.5 + rng.random(n_users)
    logit = (rng.normal(size=n_users) - 0.5)[users] + rng.normal(size=users.size)
    labels = rng.random(users.size) < 1 / (1 + np.exp(-logit))
    found = {}
    for model in ("one", "other"):
        guess = 0.7 * logit + 0.6 * known[users] * rng.normal(size=users.size)
        score = 1 / (1 + np.exp(-guess))
        found[model] = pl.DataFrame({"user": users, "score": score, "label": labels})
    return found


def draw_ratings(rng: np.random.Generator, n_users: int) -> dict[str, pl.DataFrame]:
    """Ratings, and two models that err as much, but not alike."""
    users = draw_users(rng, n_users)
    taste, known = rng.normal(size=n_users), 0.5 + rng.random(n_users)
    ratings = np.clip(np.round(3.3 + taste[users] + rng.normal(size=users.size)), 1, 5)
    found = {}
    for model in ("one", "other"):
        errors = known[users] * (
            rng.normal(size=n_users)[users] * 0.3 + rng.normal(size=users.size)
        )
        rows = {"user": users, "rating": ratings, "prediction": ratings + errors}
        found[model] = pl.DataFrame(rows)
    return found


def of_labels(logs: dict[str, pl.DataFrame]) -> Report:
    """Both models compared."""
    statistics = {"baseline": "one", "level": LEVEL, "correction": "none"}
    return evalkit.evaluate_labels(logs, metrics=LABELS, statistics=statistics)


def of_ratings(logs: dict[str, pl.DataFrame]) -> Report:
    """Both models compared."""
    statistics = {"baseline": "one", "level": LEVEL, "correction": "none"}
    return evalkit.evaluate_ratings(logs, metrics=RATINGS, statistics=statistics)


def simulate(
    evaluate: Evaluate, draw: Draw, *, n_users: int, true_users: int, draws: int, seed: int
) -> list[Coverage]:
    """Coverage of every metric of one kind."""
    true = evaluate(draw(np.random.default_rng(seed + 1), true_users))
    values = {each.metric: each.value for each in true.estimates if each.model == "one"}
    held, found = dict.fromkeys(values, 0), dict.fromkeys(values, 0)
    rng = np.random.default_rng(seed)
    for _ in range(draws):
        report = evaluate(draw(rng, n_users))
        for estimate in report.estimates:
            if estimate.model == "one" and estimate.low is not None and estimate.high is not None:
                held[estimate.metric] += estimate.low <= values[estimate.metric] <= estimate.high
        for pair in report.comparisons:
            found[pair.metric] += pair.p_value is not None and pair.p_value <= 1 - LEVEL
    share = 100.0 / draws
    return [
        Coverage(name, n_users, draws, round(share * held[name], 2), round(share * found[name], 2))
        for name in values
    ]


def show(record: Record) -> str:
    """The record as Markdown."""
    lines = ["| metric | users | draws | held, % | found, % |", "| :-- | --: | --: | --: | --: |"]
    for row in record.coverage:
        name = f"`{row.metric}`"
        lines.append(f"| {name} | {row.n_users} | {row.draws} | {row.held} | {row.found} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Run it."""
    parser = make_parser(__doc__)
    parser.add_argument("--draws", type=count, default=1000, help="Of each size.")
    parser.add_argument("--sizes", default="30,100,500", help="Users, by comma.")
    parser.add_argument("--true-users", type=count, default=TRUE_USERS, help="Behind the truth.")
    asked = parser.parse_args()
    record = Record(describe_machine())
    for size in map(count, asked.sizes.split(",")):
        for evaluate, draw in ((of_labels, draw_labels), (of_ratings, draw_ratings)):
            tell(f"{evaluate.__name__} of {size:,} users")
            record.coverage.extend(
                simulate(
                    evaluate,
                    draw,
                    n_users=size,
                    true_users=asked.true_users,
                    draws=asked.draws,
                    seed=asked.seed,
                )
            )
    stamp = record.machine.when.replace(":", "").replace("-", "")
    write(asked.out, f"simulate_rows-{stamp}", record, show(record))


if __name__ == "__main__":
    main()
