"""Coverage of every estimator of logged feedback where the value is known.

    python bench/logged_coverage.py --draws 1000

Prints one line of JSON a population: how often limits hold the true value, bias in standard errors,
how often a verdict against the logging policy is false, and the effective rounds; populations with
rare support, heavy weights, clustered users, few rewards, and without any difference.

    python bench/logged_coverage.py --users --draws 400

Prints how often a policy without effect is "better" or "worse" where few users have most of the
rounds, how often by p-values alone, and how often gates pass: of the value, and of a drop by 0.
"""

import argparse
import json
from dataclasses import dataclass

import numpy as np
import polars as pl

import evalkit
from evalkit.config import GateRule
from evalkit.runs.gates import Baselines, judge

NO_RUNS = Baselines({})
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
        rate: of rewards, times those of the others.
        is_alike: every item earns the same, so that no policy is better.
    """

    users: int
    rounds: int
    items: int
    spread: float
    apart: float
    taste: float
    rate: float = 1.0
    is_alike: bool = False


ROUNDS_BY_USER = {
    "8 users with 400 rounds each": [400] * 8,
    "100 users with 20 rounds each": [20] * 100,
    "one of 201 users has 5,000 of 6,000 rounds": [5000] + [5] * 200,
    "two of 102 users have a third of the rounds each": [2000] * 2 + [20] * 100,
    "ten of 410 users have half of the rounds": [200] * 10 + [5] * 400,
    "300 users, the n-th of whom has 2,000 / n rounds": [2000 // n for n in range(1, 301)],
}

POPULATIONS = {
    "plain": Population(400, 1, 5, 0.5, 0.5, 0.0),
    "clustered": Population(200, 10, 5, 0.5, 0.5, 0.6),
    "heavy": Population(1000, 2, 10, 1.5, 0.5, 0.3),
    "rare": Population(2000, 1, 20, 0.8, 1.2, 0.0),
    "few": Population(600, 1, 10, 1.2, 1.2, 0.0, 0.04),
    "few-heavy": Population(3000, 1, 20, 1.5, 1.5, 0.0, 0.04),
    "few-clustered": Population(400, 5, 10, 1.0, 1.0, 0.6, 0.02),
    "few-alike": Population(3000, 1, 20, 1.2, 1.0, 0.0, 0.04, is_alike=True),
    "alike": Population(20000, 1, 5, 0.5, 0.5, 0.0, is_alike=True),
}


def draw(population: Population, seed: int) -> tuple[pl.DataFrame, float, float]:
    """A log, and what the target and the logging policy earn over all users that there could be."""
    rng = np.random.default_rng(seed)
    world = np.random.default_rng(7)
    n_items = population.items
    scores = population.spread * world.standard_normal(n_items)
    moved = scores + population.apart * world.standard_normal(n_items)
    logging, target = (np.exp(each) / np.exp(each).sum() for each in (scores, moved))
    groups = np.arange(n_items) % 3
    base = world.random(3)[groups]  # so that MIPS has no bias
    base = np.full(n_items, 0.5) if population.is_alike else base
    users = np.repeat(np.arange(population.users), population.rounds)
    tastes = population.taste * rng.uniform(-0.5, 0.5, population.users)
    chance = population.rate * (0.2 + 0.6 * base[None, :] * (1.0 + tastes[:, None]))
    items = rng.choice(n_items, users.size, p=logging)
    rewards = (rng.random(users.size) < chance[users, items]).astype(float)
    model = population.rate * (0.5 + 0.3 * (base - 0.5))
    of_groups = [np.bincount(groups, weights=each)[groups[items]] for each in (logging, target)]
    log = pl.DataFrame(
        {
            "user": users, "reward": rewards, "p0": logging[items], "p": target[items],
            "q": model[items], "v": np.full(users.size, float(target @ model)),
            "g0": of_groups[0], "g": of_groups[1], "position": 1,
        }
    )  # fmt: skip
    own = population.rate * (0.2 + 0.6 * base)
    return log, float(target @ own), float(logging @ own)


def measure(population: Population, draws: int, first: int = 0) -> dict[str, dict[str, float]]:
    """Of each estimator: the share of draws whose limits hold the value, and its bias."""
    columns = {"user": "user", "propensity": "p0", "predicted": "q", "position": "position"}
    columns |= {"propensity_group": "g0"}
    target = {"probability": "p", "predicted": "v", "probability_group": "g"}
    held: dict[str, list[tuple[bool, float, float]]] = {}
    verdicts: dict[str, list[bool]] = {}
    effective = []
    for seed in range(first, first + draws):
        log, value, logged = draw(population, seed)
        report = evalkit.evaluate_logged(log, {"b": target}, metrics=METRICS, columns=columns)
        effective += [c.value or 0.0 for c in report.checks if c.check == "effective-sample-size"]
        for found in report.estimates:
            if found.model == "b" and found.low is not None and found.high is not None:
                within = found.low <= value <= found.high
                error = (found.value - value) / (found.std_error or 1.0)
                held.setdefault(found.metric, []).append((within, error, found.value - value))
        true = "" if population.is_alike else "better" if value > logged else "worse"
        for pair in report.comparisons:
            is_false = pair.verdict in ("better", "worse") and pair.verdict != true
            verdicts.setdefault(pair.metric, []).append(is_false)
    return {
        "effective": {"least": min(effective), "mean": float(np.mean(effective))},
        **{
            metric: {
                "covered": round(float(np.mean([each[0] for each in of])), 4),
                "bias_in_errors": round(float(np.mean([each[1] for each in of])), 3),
                "bias": round(float(np.mean([each[2] for each in of])), 5),
                "false_verdicts": round(float(np.mean(verdicts[metric])), 4),
            }
            for metric, of in held.items()
        },
    }


def measure_users(rounds: list[int], draws: int) -> dict[str, dict[str, float]]:
    """Of each estimator: the shares of draws with a verdict, a p-value of 5 % or below, and gates.

    Two items are shown alike, and users like one of them better, each in their own way.
    """
    rng, users = np.random.default_rng(3), np.repeat(np.arange(len(rounds)), rounds)
    found = {metric: np.zeros(4) for metric in ("SNIPS", "IPS")}
    for _ in range(draws):
        liked, item = rng.normal(0, 1, len(rounds))[users], rng.random(users.size) < 0.5
        rewards = rng.random(users.size) < 1 / (1 + np.exp(np.where(item, -liked, liked)))
        log = pl.DataFrame(
            {"user": users, "reward": rewards * 1.0, "p0": 0.5, "p": np.where(item, 0.8, 0.2)}
        )
        columns = {"user": "user", "propensity": "p0"}
        report = evalkit.evaluate_logged(
            log, {"b": {"probability": "p"}}, metrics=[*found], columns=columns
        )
        for pair in report.comparisons:
            is_small = pair.p_adjusted is not None and pair.p_adjusted <= 0.05
            rules = [
                GateRule(metric=pair.metric, model="b", min=0.5),
                GateRule(metric=pair.metric, model="b", baseline=pair.baseline, max_drop=0.0),
            ]
            passed = [each.outcome == "pass" for each in judge(rules, report, NO_RUNS, level=0.95)]
            found[pair.metric] += [pair.verdict in ("better", "worse"), is_small, *passed]
    names = "verdicts", "by_p_alone", "gates_of_min", "gates_of_max_drop"
    return {
        metric: dict(zip(names, (counts / draws).tolist(), strict=True))
        for metric, counts in found.items()
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=1000)
    parser.add_argument("--only", choices=list(POPULATIONS))
    parser.add_argument("--users", action="store_true", help="few users with most of the rounds")
    asked = parser.parse_args()
    if asked.users:
        for name, rounds in ROUNDS_BY_USER.items():
            found = measure_users(rounds, asked.draws)
            print(json.dumps({"users": name, **found}), flush=True)
        return
    for name, population in POPULATIONS.items():
        if asked.only in (None, name):
            print(json.dumps({"population": name, **measure(population, asked.draws)}), flush=True)


if __name__ == "__main__":
    main()
