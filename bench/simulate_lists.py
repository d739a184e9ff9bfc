"""How often intervals of numbers of all lists, and of their differences, hold what is expected.

    python bench/simulate_lists.py --draws 1000 --users 300 1000 5000

Each draw has new users: each with a taste, a history, right answers, and lists of ten of 1,500
items by two models that share part of their chance; items follow a power law. What is expected is
the mean over all draws: the number at this many users. Groups are alike; with `--unlike` users
follow their taste more or less by group, and models favour some providers. Printed for
docs/statistics.md: how often 95 % intervals hold it, and the mean error over the deviation of the
draws.
"""

import argparse
from collections import defaultdict
from collections.abc import Iterator, Mapping

import numpy as np
import polars as pl

from evalkit import Report, evaluate

ITEMS, DEPTH, GENRES, BACKGROUND = 1500, 10, 8, 4000
METRICS = [
    "nDCG@10",
    "novelty@10",
    "item_coverage@10",
    "item_coverage(at_users=200)@10",
    "gini@10",
    "gini_exposure@10",
    "entropy@10",
    "hhi@10",
    "effective_items@10",
    "personalization@10",
    "exposure_parity(by='provider')@10",
    "exposure_equity(by='provider')@10",
    "rsp(by='provider')@10",
    "reo(by='provider')@10",
    "popularity_lift@10",
    "pop_rsp@10",
    "pop_reo@10",
    "bias_disparity(by='provider', group='p3')@10",
    "item_mad(by='provider')@10",
    "list_surprisal@10",
    "novelty_of_rows@10",
    "prediction_coverage",
    "mad(by='group', of='nDCG')@10",
]
COMBINED = {
    "hmean(nDCG, novelty)": "hmean(nDCG@10, novelty@10)",
    "0.7 nDCG - 0.3 gini": "0.7 * nDCG@10 - 0.3 * gini@10",
    "min(nDCG, item_coverage)": "min(nDCG@10, item_coverage@10)",
}
OTHERS = {"evenness": "1 less gini", "user_count": "how many users there are"}  # not drawn
NAMES = {f"c{place}": name for place, name in enumerate(COMBINED)}


class World:
    """What all draws share: items, their popularity, and the history of other users."""

    def __init__(self, *, unlike: bool) -> None:
        self.unlike = unlike
        rng = np.random.default_rng(7)
        self.weights = np.log(1.0 / np.arange(1, ITEMS + 1) ** 0.8).astype(np.float32)
        self.items = pl.DataFrame(
            {
                "item": range(ITEMS),
                "provider": [f"p{each}" for each in rng.integers(0, 5, ITEMS)],
            }
        )
        favour = [0.5 * unlike * int(each[1]) for each in self.items["provider"]]
        self.favour = np.array(favour, dtype=np.float32)
        self.of_genre = rng.normal(0.0, 1.0, (GENRES, ITEMS)).astype(np.float32)
        self.background = self._rows(self._picks(rng, BACKGROUND, np.zeros(ITEMS), 12), 10**6)

    def _picks(self, rng: np.random.Generator, n: int, more: np.ndarray, k: int) -> np.ndarray:
        """int64[n, k]: the items of the highest scores, the first one first."""
        return self._best(self.weights + more + self._gumbel(rng, n), k)

    @staticmethod
    def _gumbel(rng: np.random.Generator, n: int) -> np.ndarray:
        """float32[n, ITEMS]: added to logarithms of odds, whose highest are draws by these."""
        drawn = rng.standard_exponential((n, ITEMS), dtype=np.float32)
        return -np.log(np.maximum(drawn, np.finfo(np.float32).tiny))

    @staticmethod
    def _best(scores: np.ndarray, k: int) -> np.ndarray:
        best = np.argpartition(-scores, k, axis=1)[:, :k]
        order = np.argsort(-np.take_along_axis(scores, best, axis=1), axis=1)
        return np.take_along_axis(best, order, axis=1)

    @staticmethod
    def _rows(picks: np.ndarray, first: int) -> pl.DataFrame:
        n, k = picks.shape
        users = np.repeat(np.arange(first, first + n), k)
        return pl.DataFrame({"user": users, "item": picks.ravel()})

    def draw(self, n: int, seed: int) -> Report:
        """What is reported of new users."""
        rng = np.random.default_rng([seed, n])
        genres = rng.integers(0, GENRES, n)
        taste = self.of_genre[genres]
        if self.unlike:
            taste *= (genres[:, None] % 3).astype(np.float32)
        shared = self._gumbel(rng, n)
        models = {}
        for name, flat in (("a", 0.0), ("b", 0.25)):
            known = (1.0 - flat) * self.weights + self.favour + 0.8 * taste + 0.7 * shared
            ranked = self._rows(self._best(known + self._gumbel(rng, n), DEPTH), 0)
            ranks = np.tile(np.arange(1, DEPTH + 1), n)
            models[name] = ranked.with_columns(rank=pl.Series(ranks))
        history = self._rows(self._picks(rng, n, taste, 12), 0)
        truth = self._rows(self._picks(rng, n, taste, 5), 0)
        groups = np.array(list("xyz"))[genres % 3] if self.unlike else rng.choice(list("xyz"), n)
        return evaluate(
            truth,
            models,
            metrics=METRICS,
            combined=dict(zip(NAMES, COMBINED.values(), strict=True)),
            train=pl.concat([history, self.background]),
            items=self.items,
            segments={
                "group": {"path": pl.DataFrame({"user": range(n), "group": groups}), "by": "group"}
            },
            statistics={"baseline": "a", "correction": "none"},
            policies={"truth_in_train": "warn"},
            threads=1,
        )


def numbers(report: Report) -> Iterator[tuple[tuple[str, str], tuple[float | None, ...]]]:
    """Each number and difference of all users, with its limits and its error."""
    for estimate in report.estimates:
        if estimate.segment is None and estimate.model == "a" and estimate.std_error is not None:
            yield (
                (estimate.metric, "value"),
                (estimate.value, estimate.low, estimate.high, estimate.std_error),
            )
    for pair in report.comparisons:
        if pair.segment is None and pair.std_error is not None:
            yield (pair.metric, "difference"), (pair.delta, pair.low, pair.high, pair.std_error)


def print_table(found: Mapping[tuple[str, str], list[tuple[float | None, ...]]], n: int) -> None:
    """How often limits of each number hold its mean."""
    for metric in dict.fromkeys(metric for metric, _ in found):
        cells = [f"`{NAMES.get(metric, metric)}`", f"{n:,}"]
        for what in ("value", "difference"):
            value, low, high, error = np.array(found[metric, what], dtype=np.float64).T
            expected = value.mean()
            held = ((low <= expected) & (expected <= high)).mean()
            cells += [f"{100 * held:.1f}", f"{error.mean() / value.std(ddof=1):.2f}"]
        print(f"| {' | '.join(cells)} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=1000)
    parser.add_argument("--users", type=int, nargs="+", default=[300, 1000, 5000])
    parser.add_argument("--unlike", action="store_true")
    chosen = parser.parse_args()
    world = World(unlike=chosen.unlike)
    print("| number | users | held | error / spread | difference held | error / spread |")
    print("| --- | ---: | ---: | ---: | ---: | ---: |")
    for n in chosen.users:
        found = defaultdict(list)
        for seed in range(chosen.draws):
            for key, own in numbers(world.draw(n, seed)):
                found[key].append(own)
        print_table(found, n)


if __name__ == "__main__":
    main()
