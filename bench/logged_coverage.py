"""Coverage of every estimator of logged feedback where the value is known.

    python bench/logged_coverage.py --draws 1000

Prints one line of JSON a population: how often limits hold the true value, bias in standard errors,
and the effective rounds; populations with rare support, heavy weights and clustered users.
"""

import argparse
import json
from dataclasses import dataclass

import numpy as np
import polars as pl

import evalkit

METRICS = (
    "SNIPS", "IPS", "DM", "DR", "SNDR", "SWITCH-DR(tau=1000000)", "DR(shrink=1000000000)",
    "MIPS", "IIPS", "IIPS(normalise='weights')",
)  # fmt: skip


@dataclass(frozen=True)
class Population:
    """How rounds are drawn.

    Args:
        spread: of the logging policy's scores; large: heavy weights.
        apart: how far the target's scores are from them; large: rare support.
        rounds: of a user, who has a taste of his own.
    """

    users: int
    rounds: int
    items: int
    spread: float
    apart: float
    taste: float


POPULATIONS = {
    "plain": Population(400, 1, 5, 0.5, 0.5, 0.0),
    "clustered": Population(200, 10, 5, 0.5, 0.5, 0.6),
    "heavy": Population(1000, 2, 10, 1.5, 0.5, 0.3),
    "rare": Population(2000, 1, 20, 0.8, 1.2, 0.0),
}


def draw(population: Population, seed: int) -> tuple[pl.DataFrame, float]:
    """A log, and what the target earns on average over all users that there could be."""
    rng = np.random.default_rng(seed)
    world = np.random.default_rng(7)
    n_items = population.items
    scores = population.spread * world.standard_normal(n_items)
    moved = scores + population.apart * world.standard_normal(n_items)
    logging, target = (np.exp(each) / np.exp(each).sum() for each in (scores, moved))
    groups = np.arange(n_items) % 3
    base = world.random(3)[groups]  # so that MIPS has no bias
    users = np.repeat(np.arange(population.users), population.rounds)
    tastes = population.taste * rng.uniform(-0.5, 0.5, population.users)
    chance = np.clip(0.2 + 0.6 * base[None, :] * (1.0 + tastes[:, None]), 0.0, 1.0)
    items = rng.choice(n_items, users.size, p=logging)
    rewards = (rng.random(users.size) < chance[users, items]).astype(float)
    model = np.full(n_items, 0.5) + 0.3 * (base - 0.5)
    of_groups = [np.bincount(groups, weights=each)[groups[items]] for each in (logging, target)]
    log = pl.DataFrame(
        {
            "user": users, "reward": rewards, "p0": logging[items], "p": target[items],
            "q": model[items], "v": np.full(users.size, float(target @ model)),
            "g0": of_groups[0], "g": of_groups[1], "position": 1,
        }
    )  # fmt: skip
    return log, float(target @ (0.2 + 0.6 * base))


def measure(population: Population, draws: int, first: int = 0) -> dict[str, dict[str, float]]:
    """Of each estimator: the share of draws whose limits hold the value, and its bias."""
    columns = {"user": "user", "propensity": "p0", "predicted": "q", "position": "position"}
    columns |= {"propensity_group": "g0"}
    target = {"probability": "p", "predicted": "v", "probability_group": "g"}
    held: dict[str, list[tuple[bool, float, float]]] = {}
    effective = []
    for seed in range(first, first + draws):
        log, value = draw(population, seed)
        report = evalkit.evaluate_logged(log, {"b": target}, metrics=METRICS, columns=columns)
        effective += [c.value or 0.0 for c in report.checks if c.check == "effective-sample-size"]
        for found in report.estimates:
            if found.model == "b" and found.low is not None and found.high is not None:
                within = found.low <= value <= found.high
                error = (found.value - value) / (found.std_error or 1.0)
                held.setdefault(found.metric, []).append((within, error, found.value - value))
    return {
        "effective": {"least": min(effective), "mean": float(np.mean(effective))},
        **{
            metric: {
                "covered": round(float(np.mean([each[0] for each in of])), 4),
                "bias_in_errors": round(float(np.mean([each[1] for each in of])), 3),
                "bias": round(float(np.mean([each[2] for each in of])), 5),
            }
            for metric, of in held.items()
        },
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=1000)
    parser.add_argument("--only", choices=list(POPULATIONS))
    asked = parser.parse_args()
    for name, population in POPULATIONS.items():
        if asked.only in (None, name):
            print(json.dumps({"population": name, **measure(population, asked.draws)}), flush=True)


if __name__ == "__main__":
    main()
