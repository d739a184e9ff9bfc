"""How often verdicts and gates of rankings, ratings and labels are wrong where the truth is known.

    python bench/verdicts_simulated.py --draws 600

Two models are compared, a draw a segment of one run. `better`: verdicts of a side that is not
better; `within`: "equivalent" or "not inferior" where the loss is just the margin; `gates`: passes
of `max_drop` where it is just that. Each with what p or limits alone would say, in percent; of 600
draws 5 % is within 2 points, 95 times in 100. Written to --out as JSON, too.
"""

import argparse
import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import numpy as np
import numpy.typing as npt
import polars as pl

import evalkit
from evalkit.config import GateRule
from evalkit.runs.gates import Baselines, judge
from harness import BENCH

Floats = npt.NDArray[np.float64]
Drawn = tuple[Floats, Floats, Floats]  # of two models by user, and the truth
Rng = np.random.Generator
ROWS = 5  # ratings of a user
MANY = 200_000  # users by whom the truth is known


# ---------------------------------------------------------------- rankings: ranks and relevance


def sparse(rng: Rng, n: int) -> Drawn:
    """One user in fifty has a hit, of either model, anywhere in the first ten."""
    ranks = np.where(rng.random((2, n)) < 0.02, rng.integers(1, 11, (2, n)), 0)
    return ranks[0], ranks[1], np.ones(n)


def large_gains(rng: Rng, n: int) -> Drawn:
    """Small gains of a third of the users against large ones, lost by one user in a hundred."""
    is_large = rng.random(n) < 0.1
    old = np.where(is_large | (rng.random(n) < 0.2), 1, 0)
    new = np.where(is_large & (rng.random(n) < 0.1), 0, old)
    new = np.where(~is_large & (old == 0) & (rng.random(n) < 1 / 2.4), 1, new)
    return old, new, np.where(is_large, 30.0, 1.0)


def few_lose(rng: Rng, n: int) -> Drawn:
    """One user in fifty loses the first place; the others move between the ranks 9 and 10."""
    loses = rng.random(n) < 0.02
    ranks = rng.integers(9, 11, (2, n))
    return np.where(loses, 1, ranks[0]), np.where(loses, 0, ranks[1]), np.ones(n)


# ---------------------------------------------------------------- ratings: errors by user and row


def tails(rng: Rng, n: int) -> Drawn:
    """Errors as large as users are odd, alike for both models."""
    sizes = rng.lognormal(0.0, 0.7, n)[:, None]
    return rng.normal(0, 1, (n, ROWS)) * sizes, rng.normal(0, 1, (n, ROWS)) * sizes, np.zeros(n)


def odd_users(rng: Rng, n: int) -> Drawn:
    """Somewhat smaller errors of most users, three times as large ones of three in a hundred."""
    signs = np.sign(rng.normal(0, 1, (2, n, ROWS)))
    sizes = np.where(rng.random(n) < 0.03, 3.0, 1.0 - 0.03 * 2.0 / 0.97)[:, None]
    noise = rng.normal(0, 0.1, (2, n, ROWS))
    return signs[0] * (1.0 + noise[0]), signs[1] * (sizes + noise[1]), np.zeros(n)


# ---------------------------------------------------------------- labels: scores by user and row


def positives(share: float) -> Callable[[Rng, int], Drawn]:
    """Few rows are positive; both models find them alike."""

    def drawn(rng: Rng, n: int) -> Drawn:
        labels = rng.random((n, 2 * ROWS)) < share
        taste = 0.3 * rng.normal(0, 1, (n, 1))
        scores = 1 / (1 + np.exp(2 - labels - taste - rng.normal(0, 1, (2, n, 2 * ROWS))))
        return scores[0], scores[1], labels.astype(np.float64)

    return drawn


POPULATIONS: Mapping[str, Mapping[str, Callable[[Rng, int], Drawn]]] = {
    "rankings": {"sparse": sparse, "large gains": large_gains, "few lose": few_lose},
    "ratings": {"tails": tails, "odd users": odd_users},
    "labels": {"2 % positive": positives(0.02), "5 % positive": positives(0.05)},
}
METRICS = {
    "rankings": ["nDCG@10", "hit@10", "DCG@10"],
    "ratings": ["MAE", "RMSE", "MAE(over='users')"],
    "labels": ["AUC", "PR-AUC", "log-loss", "AUC(over='users')"],
}


def measure(kind: str, drawn: Drawn, n: int, **statistics: object) -> evalkit.Report:
    """The report of both models, `n` users a draw."""
    old, new, truth = drawn
    users = np.arange(len(old))
    chosen = {"correction": "none", "baseline": "a", **statistics}
    if kind == "rankings":
        frame = pl.DataFrame({"user": users, "item": 0, "relevance": truth.astype(np.int64)})
        draws = pl.DataFrame({"user": users, "draw": users // n})
        ranked = {
            name: pl.DataFrame(
                {"user": users, "item": (ranks == 0) * 1, "rank": np.maximum(ranks, 1)}
            )
            for name, ranks in (("a", old), ("b", new))
        }
        return evalkit.evaluate(
            frame, ranked, metrics=METRICS[kind], statistics=chosen,
            segments={"draw": {"path": draws, "by": "draw"}}, policies={"bad_ranks": "keep"},
        )  # fmt: skip
    rows = pl.DataFrame({"user": np.repeat(users, old.shape[1])})
    rows = rows.with_columns(draw=pl.col("user") // n)
    segments = {"draw": {"by": "draw"}}
    if kind == "ratings":
        logs = {
            name: rows.with_columns(rating=3.0, prediction=3.0 + pl.Series(errors.ravel()))
            for name, errors in (("a", old), ("b", new))
        }
        return evalkit.evaluate_ratings(
            logs, metrics=METRICS[kind], statistics=chosen, segments=segments
        )
    labels = pl.Series(truth.ravel().astype(np.int64))
    logs = {
        name: rows.with_columns(label=labels, score=pl.Series(scores.ravel()))
        for name, scores in (("a", old), ("b", new))
    }
    return evalkit.evaluate_labels(
        logs, metrics=METRICS[kind], statistics=chosen, segments=segments
    )


def gains(kind: str, population: Callable[[Rng, int], Drawn]) -> dict[str, float]:
    """By how much `b` truly is better by each metric, 0 where that is not told from none."""
    report = measure(kind, population(np.random.default_rng(7), MANY), MANY)
    better = {each.metric: each.higher_is_better is not False for each in report.estimates}
    return {
        each.metric: 0.0
        if abs(each.delta) < 4.0 * (each.std_error or 0.0)
        else each.delta * (1.0 if better[each.metric] else -1.0)
        for each in report.comparisons
        if each.segment is None
    }


def wrong(
    kind: str, name: str, n: int, draws: int, true: Mapping[str, float]
) -> dict[str, dict[str, float]]:
    """Of each metric whose gain is given, the percent of draws with each thing that is wrong."""
    drawn = POPULATIONS[kind][name](np.random.default_rng(1), n * draws)
    found = {metric: Counter[str]() for metric in true}
    report = measure(kind, drawn, n)
    better = {each.metric: each.higher_is_better is not False for each in report.estimates}
    for each in report.comparisons:
        if each.metric not in true or each.segment is None or each.low is None or each.high is None:
            continue
        gain, counts = true[each.metric], found[each.metric]
        sign = 1.0 if better[each.metric] else -1.0
        if not sign * each.delta * gain > 0.0:
            counts["better"] += each.verdict in ("better", "worse")
            counts["better by p"] += each.p_value is not None and each.p_value <= 0.05
        if gain <= 0.0:
            counts["gates by limits"] += min(sign * each.low, sign * each.high) >= gain
    losses = {metric: -gain for metric, gain in true.items() if gain <= 0.0}
    rules = [
        GateRule(metric=metric, model="b", baseline="a", max_drop=loss, segment=f"draw={draw}")
        for metric, loss in losses.items()
        for draw in range(draws)
    ]
    for gate in judge(rules, report, Baselines({}), level=0.95):
        found[gate.metric]["gates"] += gate.outcome == "pass"
    for metric, loss in losses.items():
        if loss > 0.0:
            for each in measure(kind, drawn, n, margin=loss, metrics=[metric]).comparisons:
                if each.segment is not None and each.metric == metric:
                    said = each.verdict in ("equivalent", "not inferior")
                    found[metric]["within"] += said
                    by_p = each.p_not_inferior is not None and each.p_not_inferior <= 0.05
                    found[metric]["within by p"] += by_p
    return {
        metric: {what: round(100 * count / draws, 1) for what, count in sorted(counts.items())}
        for metric, counts in found.items()
    }


def rows_of(draws: int, sizes: list[int]) -> Iterator[dict[str, object]]:
    """One row a population and number of users."""
    for kind, populations in POPULATIONS.items():
        for name, population in populations.items():
            true = gains(kind, population)
            for n in sizes:
                found = wrong(kind, name, n, draws, true)
                yield {"kind": kind, "population": name, "users": n, "draws": draws, **found}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--draws", type=int, default=600)
    parser.add_argument("--sizes", default="10,20,50,100,200,500", help="Users of a draw.")
    parser.add_argument("--out", type=Path, default=BENCH / "out", help="Folder of the JSON.")
    asked = parser.parse_args()
    rows = []
    for row in rows_of(asked.draws, [*map(int, asked.sizes.split(","))]):
        print(json.dumps(row), flush=True)
        rows.append(row)
    asked.out.mkdir(parents=True, exist_ok=True)
    (asked.out / "verdicts-simulated.json").write_text(json.dumps(rows, indent=2), encoding="utf-8")


if __name__ == "__main__":
    main()
