"""How often verdicts and gates err on populations that no rule was chosen on.

    python bench/held_out_simulated.py [rows experiments clusters ...] --draws 300

Two models of ratings, labels or rankings (`rows`), variants of an experiment (`experiments`) and
clusters of one (`clusters`), a policy of logged feedback (`logged`), judges of two models
(`preferences`). `better`: verdicts where nothing differs; `within`: "equivalent" or "not inferior"
where the loss is just the margin; `min`, `max`, `drop`, `relative`: passes of gates where the truth
is just the bound; `fail`: what fails of the latter two; `told`: "better" where a difference of 3.5
standard errors is true, `min 3.5` and `max 3.5` what then passes of values. In percent; 5, 5 and
2.5 are promised of `better`, `within` and gates. Populations are of two halves: rules were mended
on `chosen`, and held against `held`.
"""

import argparse
import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from math import erf
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

import evalkit
from evalkit.config import GateRule
from evalkit.runs.gates import Baselines, judge
from harness import BENCH

Floats = npt.NDArray[np.float64]
Rng = np.random.Generator
ROWS = 5  # of a user
SEEDS = [21, 22]  # of rows, and of experiments
COLUMNS = ("better", "within", "min", "max", "drop", "drop fail", "told", "min 3.5", "max 3.5")
ABSOLUTE = float(np.sqrt(2.0 / np.pi))  # mean of the absolute value of a normal one


# ---------------------------------------------------------------- ratings, labels, rankings


@dataclass(frozen=True)
class Rows:
    """Rows of two models, by user.

    Args:
        truth: value of `b` by each metric that is judged, and how much better it is.
    """

    users: npt.NDArray[np.int64]
    one: Floats  # errors of `a`, its scores, or its ranks
    other: Floats
    truth: Mapping[str, tuple[float, float]]
    right: Floats | None = None  # labels, relevance
    clusters: int = 1  # users of a cluster


def _errors(name: str, rng: Rng, n: int, worse: float) -> Rows:
    """Errors alike for both models, those of `b` larger by a share `worse`."""
    users, m = np.repeat(np.arange(n), ROWS), ROWS * n
    sizes: Floats = np.ones(n)
    first: Floats = rng.normal(size=m)
    second: Floats = rng.normal(size=m)
    mean, square, clusters = ABSOLUTE, 1.0, 1
    if name == "Pareto 3 users":
        sizes, mean, square = 1.0 + rng.pareto(3.0, n), 1.5 * ABSOLUTE, 3.0
    elif name == "Pareto 2.2 users":
        sizes, mean, square = 1.0 + rng.pareto(2.2, n), 2.2 / 1.2 * ABSOLUTE, 11.0
    elif name == "lognormal 1.2 users":
        sizes = rng.lognormal(0.0, 1.2, n)
        mean, square = np.exp(0.72) * ABSOLUTE, np.exp(2.88)
    elif name == "gross rows":
        first, second = (each * np.where(rng.random(m) < 0.003, 30, 1) for each in (first, second))
        mean, square = ABSOLUTE * 1.087, 1.0 + 0.003 * 899
    elif name == "heavy users of rows":
        is_heavy = rng.random(n) < 0.02
        users = np.repeat(np.arange(n), np.where(is_heavy, 100, 2))
        first, second = rng.normal(size=(2, users.size))
        sizes = np.where(is_heavy, 3.0, 1.0)
        mean, square = 7.96 / 3.96 * ABSOLUTE, 19.96 / 3.96
    elif name == "Poisson-gamma counts":
        counts = 1.0 + rng.poisson(rng.gamma(0.5, 4.0, n))  # variance of counts: 2 + 8
        sizes, mean, square = counts.astype(np.float64), 3.0 * ABSOLUTE, 19.0
    elif name == "series":  # clusters of ten users, whose log-sizes are an AR(1) of variance 0.5
        shocks = rng.normal(size=(n // 10 + 1, 10))
        logs: Floats = np.empty((n // 10 + 1, 10))
        logs[:, 0] = shocks[:, 0]
        for step in range(1, 10):
            logs[:, step] = 0.9 * logs[:, step - 1] + np.sqrt(0.19) * shocks[:, step]
        sizes, clusters = np.exp(np.sqrt(0.5) * logs.ravel()[:n]), 10
        mean, square = np.exp(0.25) * ABSOLUTE, np.exp(1.0)
    else:  # "stars and bias": errors of whole stars
        bias = rng.normal(0, 0.7, (2, n)).repeat(ROWS, axis=1)
        both = np.rint(1.1 * np.stack([first, second]) + bias).astype(np.float64)
        first, second = np.asarray(both[0], float), np.asarray(both[1], float)
        grid = np.arange(-40, 41)
        density = _normal_mass(grid, np.hypot(1.1, 0.7))
        mean, square = float(np.abs(grid) @ density), float(grid**2 @ density)
    sizes = sizes[users]
    grown = 1.0 + worse
    truth = {
        "MAE": (mean * grown, -mean * worse),
        "RMSE": (float(np.sqrt(square)) * grown, -float(np.sqrt(square)) * worse),
    }
    return Rows(users, first * sizes, second * sizes * grown, truth, clusters=clusters)


def _normal_mass(grid: npt.NDArray[np.int64], deviation: float) -> Floats:
    edges = [erf((each - 0.5) / deviation / np.sqrt(2)) for each in (*grid, grid[-1] + 1)]
    return 0.5 * np.diff(edges)


def _odd(share: float, times: float) -> Callable[[Rng, int, float], Rows]:
    """Users of whom few have far larger errors by `b`, for which the others' smaller ones make up
    by MAE; or nothing does where `worse` is not 0, and the loss is all theirs.
    """

    def drawn(rng: Rng, n: int, worse: float) -> Rows:
        users, sign = np.repeat(np.arange(n), ROWS), np.sign(rng.normal(size=(2, ROWS * n)))
        noise = 1.0 + 0.1 * rng.normal(size=(2, ROWS * n))
        most = 1.0 if worse > 0.0 else (1.0 - share * times) / (1.0 - share)
        sizes = np.where(rng.random(n) < share, times, most)[users] * (1.0 + min(worse, 0.0))
        mean = share * times + (1.0 - share) * most
        mean *= 1.0 + min(worse, 0.0)
        errors = sign * noise
        return Rows(users, errors[0], errors[1] * sizes, {"MAE": (mean, 1.0 - mean)})

    return drawn


def _labels(share: float, heavy: float) -> Callable[[Rng, int, float], Rows]:
    """Scores alike for both models; `heavy` of the users have fifty times the rows, and a taste."""

    def drawn(rng: Rng, n: int, worse: float) -> Rows:
        is_heavy = rng.random(n) < heavy
        users = np.repeat(np.arange(n), np.where(is_heavy, 200, 2 * ROWS if not heavy else 4))
        labels = rng.random(users.size) < share
        taste = (0.3 * rng.normal(size=n) + 1.5 * is_heavy)[users]
        noise = rng.normal(size=(2, users.size))
        scores = 1.0 / (1.0 + np.exp(2.0 - labels - taste - noise))
        area = np.nan if heavy else 0.5 * (1.0 + erf(1.0 / np.sqrt(4.0 * 1.09)))
        nothing = {"AUC": (area, 0.0), "log-loss": (np.nan, 0.0), "PR-AUC": (np.nan, 0.0)}
        return Rows(users, scores[0], scores[1], nothing, labels.astype(np.float64))

    return drawn


def _overconfident(rng: Rng, n: int, worse: float) -> Rows:
    """`b` is somewhat surer, and in 0.4 % of the rows surely wrong: log-loss is as large."""
    users = np.repeat(np.arange(n), ROWS)
    labels = rng.random(users.size) < 0.3
    one = 0.65 + 0.02 * rng.random(users.size)  # probability that each gives what is right
    is_lost = rng.random(users.size) < 0.004
    loss = float(np.mean(-np.log(0.65 + 0.02 * np.linspace(0, 1, 10001))))
    sure = np.exp(-(loss - 0.004 * 12.0) / 0.996)
    other = np.where(is_lost, np.exp(-12.0), sure)
    scores = [np.where(labels, each, np.subtract(1.0, each)) for each in (one, other)]
    return Rows(users, scores[0], scores[1], {"log-loss": (loss, 0.0)}, labels.astype(np.float64))


def _lists(name: str) -> Callable[[Rng, int, float], Rows]:
    """A relevant item a row, at ranks that are alike for both models."""

    def drawn(rng: Rng, n: int, worse: float) -> Rows:
        many = name == "long lists"
        lengths = 1 + np.minimum(rng.poisson(rng.gamma(0.4, 8.0, n)), 40) if many else np.ones(n)
        users = np.repeat(np.arange(n), lengths.astype(np.int64))
        relevance = np.ones(users.size)
        chance = rng.beta(0.5, 2.0, n)[users] if many else np.full(users.size, 0.3)
        if name == "Pareto gains":
            relevance = np.ceil(1.0 + rng.pareto(1.5, users.size))
        if name == "rare hits":
            chance = np.full(users.size, 0.003)
        place = _within_users(users)  # no rank twice of a user
        found = [rng.random(users.size) < chance for _ in range(2)]
        if not many:
            place = rng.integers(0, 10, users.size) + 0 * place
        if name == "rare hits" and worse > 0.0:  # both alike, but some of b's are lost
            found[1] = found[0] & (rng.random(users.size) > 0.5)
        ranks = [np.where(each, 1.0 + place, 0.0) for each in found]
        if name == "rare hits":
            loss = 0.0015 if worse > 0.0 else 0.0
            return Rows(users, ranks[0], ranks[1], {"hit@50": (0.003 - loss, -loss)}, relevance)
        return Rows(users, ranks[0], ranks[1], {"DCG@50": (np.nan, 0.0)}, relevance)

    return drawn


def _within_users(users: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    begins = np.flatnonzero(np.diff(users, prepend=-1))
    return np.arange(users.size) - begins.repeat(np.diff([*begins, users.size]))


def _named(name: str) -> Callable[[Rng, int, float], Rows]:
    return lambda rng, n, worse: _errors(name, rng, n, worse)


LOSS = 0.2
ROWS_OF: Mapping[str, Mapping[str, tuple[str, Callable[[Rng, int, float], Rows]]]] = {
    "chosen": {
        "Pareto 3 users": ("ratings", _named("Pareto 3 users")),
        "gross rows": ("ratings", _named("gross rows")),
        "stars and bias": ("ratings", _named("stars and bias")),
        "Poisson-gamma counts": ("ratings", _named("Poisson-gamma counts")),
        "odd 2 %, 5 times": ("ratings", _odd(0.02, 5.0)),
        "0.5 % positive": ("labels", _labels(0.005, 0.0)),
        "long lists": ("rankings", _lists("long lists")),
        "normal": ("ratings", _named("normal")),
    },
    "held": {
        "Pareto 2.2 users": ("ratings", _named("Pareto 2.2 users")),
        "lognormal 1.2 users": ("ratings", _named("lognormal 1.2 users")),
        "heavy users of rows": ("ratings", _named("heavy users of rows")),
        "series": ("ratings", _named("series")),
        "odd 1 %, 8 times": ("ratings", _odd(0.01, 8.0)),
        "heavy users of labels": ("labels", _labels(0.05, 0.02)),
        "overconfident": ("labels", _overconfident),
        "Pareto gains": ("rankings", _lists("Pareto gains")),
        "rare hits": ("rankings", _lists("rare hits")),
    },
}


def report_of(kind: str, rows: Rows, n: int, **statistics: object) -> evalkit.Report:
    """The report of both models, `n` users a draw."""
    chosen = {"correction": "none", "baseline": "a", **statistics}
    if rows.clusters > 1:
        chosen["cluster"] = "cluster"
    frame = pl.DataFrame({"user": rows.users})
    frame = frame.with_columns(draw=pl.col("user") // n, cluster=pl.col("user") // rows.clusters)
    metrics, right = list(rows.truth), pl.Series(rows.right)
    if kind == "rankings":
        items = pl.Series(_within_users(rows.users))
        truth = frame.select("user", item=items, relevance=right)
        ranked = {
            name: frame.select(
                "user",
                item=pl.when(pl.Series(ranks) > 0).then(items).otherwise(items + 100),
                rank=pl.when(pl.Series(ranks) > 0).then(pl.Series(ranks)).otherwise(items + 61),
            ).with_columns(pl.col("rank").cast(pl.Int64))
            for name, ranks in (("a", rows.one), ("b", rows.other))
        }
        draws = frame.select("user", "draw").unique()
        return evalkit.evaluate(
            truth, ranked, metrics=metrics, statistics=chosen,
            segments={"draw": {"path": draws, "by": "draw"}}, policies={"bad_ranks": "keep"},
        )  # fmt: skip
    by, logs = {"draw": {"by": "draw"}}, {}
    for name, of_model in (("a", rows.one), ("b", rows.other)):
        if kind == "ratings":
            logs[name] = frame.with_columns(rating=3.0, prediction=3.0 + pl.Series(of_model))
        else:
            label = right.cast(pl.Int64)
            logs[name] = frame.with_columns(label=label, score=pl.Series(of_model))
    evaluate = evalkit.evaluate_ratings if kind == "ratings" else evalkit.evaluate_labels
    return evaluate(logs, metrics=metrics, statistics=chosen, segments=by)


def _count(
    report: evalkit.Report, truth: Mapping[str, tuple[float, float]], found: dict[str, Counter[str]]
) -> None:
    """Count what is said that is wrong."""
    rules: list[GateRule] = []
    errors = defaultdict[str, list[float]](list)
    for one in report.estimates:
        if one.model == "b" and one.segment is not None:
            errors[one.metric].append(one.std_error or 0.0)
    for each in report.comparisons:
        if each.segment is not None:
            gain, counts = truth[each.metric][1], found[each.metric]
            if gain == 0.0 and each.margin is None:
                counts["better"] += each.verdict in ("better", "worse")
            elif gain < 0.0 and each.margin is not None:
                counts["within"] += each.verdict in ("equivalent", "not inferior")
    for metric, (value, gain) in truth.items():
        for draw in {each.segment for each in report.comparisons if each.segment is not None}:
            about = partial(GateRule, metric=metric, model="b", segment=f"draw={draw}")
            if value == value:
                rules += [about(min=value), about(max=value)]
                away = 3.5 * float(np.median(errors[metric]))
                rules += [about(min=value - away), about(max=value + away)]
            rules.append(about(baseline="a", max_drop=-gain))
    for gate in judge(rules, report, Baselines({}), level=0.95):
        kind = {"max_drop": "drop"}.get(gate.kind, gate.kind)
        if kind in ("min", "max") and gate.bound != truth[gate.metric][0]:
            kind = f"{kind} 3.5"
        found[gate.metric][kind if gate.outcome == "pass" else f"{kind} {gate.outcome}"] += 1


def rows(draws: int, half: str, sizes: list[int]) -> Iterator[dict[str, Any]]:
    for name, (kind, population) in ROWS_OF[half].items():
        for n in sizes:
            rng, found = np.random.default_rng(SEEDS[0]), defaultdict[str, Counter[str]](Counter)
            drawn = population(rng, n * draws, 0.0)
            report = report_of(kind, drawn, n)
            _count(report, drawn.truth, found)
            if kind == "ratings" or name == "rare hits":
                worse = population(rng, n * draws, LOSS)
                for metric, one in worse.truth.items():
                    if one[1] < 0.0:
                        margin = replace(worse, truth={metric: one})
                        report_margin = report_of(kind, margin, n, margin=-one[1])
                        _count(report_margin, margin.truth, found)
            if kind == "ratings":
                for metric, (value, _) in drawn.truth.items():
                    errors = [
                        each.std_error or 0.0
                        for each in report.comparisons
                        if each.metric == metric and each.segment is not None
                    ]
                    lift = 3.5 * float(np.median(errors)) / value
                    better = population(rng, n * draws, -min(lift, 0.9))
                    told = report_of(kind, replace(better, truth={metric: (value, 1.0)}), n)
                    for each in told.comparisons:
                        if each.segment is not None:
                            found[metric]["told"] += each.verdict == "better"
            for metric, counts in found.items():
                row = {"half": half, "population": name, "users": n, "metric": metric}
                twice = {"min", "max", "drop", "drop fail", "min 3.5", "max 3.5"}
                twice &= {*counts} if "within" in counts else set()
                yield row | {
                    what: round(100 * counts[what] / draws / (2 if what in twice else 1), 1)
                    for what in COLUMNS
                    if what in counts or f"{what} cannot tell" in counts or what == "drop fail"
                }


# ---------------------------------------------------------------- experiments


def units_of(is_b: npt.NDArray[np.bool_], rng: Rng, times: Mapping[str, float]) -> pl.DataFrame:
    """A column a population, all of mean 1; those of `b` times what is given."""
    n = is_b.size
    t = {name: np.where(is_b, times.get(name, 1.0), 1.0) for name in EXPERIMENT}
    buys = rng.random(n) < 0.03
    heavy, heavier = rng.random(n) < 0.01, rng.random(n) < 0.005
    taste, visits = rng.gamma(0.5, 2.0, n), 1.0 + rng.poisson(rng.gamma(0.5, 8.0, n))
    shown = np.ceil(1.0 + rng.pareto(2.0, n))
    deviation = np.where(is_b, np.sqrt(10.0), 1.0)
    return pl.DataFrame(
        {
            "variant": np.where(is_b, "b", "a"),
            "buyers": buys * (1.0 + rng.pareto(2.5, n)) / (0.03 * 2.5 / 1.5) * t["mean(buyers)"],
            "pareto15": (1.0 + rng.pareto(1.5, n)) / 3.0 * t["mean(pareto15)"],
            "pareto21": (1.0 + rng.pareto(2.1, n)) / (2.1 / 1.1) * t["mean(pareto21)"],
            "heavy": np.where(heavy, 30.0, 1.0) * rng.exponential(size=n) / 1.29 * t["mean(heavy)"],
            "heavier": np.where(heavier, 100.0, 1.0)
            * rng.exponential(size=n)
            / 1.495
            * t["mean(heavier)"],
            "spent": rng.poisson(visits * taste) * t["ratio(spent, visits)"],
            "visits": visits,
            "clicks": rng.binomial(shown.astype(np.int64), rng.beta(0.2, 1.8, n))
            * 10.0
            * t["ratio(clicks, shown)"],
            "shown": shown,
            "spread": t["mean(spread)"] + deviation * rng.normal(size=n),
            "rare": (rng.random(n) < 0.005 * t["fraction(rare)"]).astype(int),
            "rarer": (rng.random(n) < 0.001 * t["fraction(rarer)"]).astype(int),
            "counts": rng.poisson(rng.gamma(0.1, 10.0, n) * t["mean(counts)"]).astype(float),
            "points": np.where(rng.random(n) < 0.02, 50.0, 0.0) * t["mean(points)"],
            "lognormal": rng.lognormal(-0.5, 1.0, n) * t["mean(lognormal)"],
        }
    ).with_row_index("unit")


EXPERIMENT: Mapping[str, tuple[str, float]] = {
    "mean(buyers)": ("chosen", 1.0),
    "mean(pareto21)": ("chosen", 1.0),
    "mean(heavier)": ("chosen", 1.0),
    "ratio(clicks, shown)": ("chosen", 1.0),
    "fraction(rarer)": ("chosen", 0.001),
    "mean(points)": ("chosen", 1.0),
    "mean(lognormal)": ("chosen", 1.0),
    "mean(pareto15)": ("held", 1.0),
    "mean(heavy)": ("held", 1.0),
    "ratio(spent, visits)": ("held", 1.0),
    "mean(spread)": ("held", 1.0),
    "fraction(rare)": ("held", 0.005),
    "mean(counts)": ("held", 1.0),
}
PAIRS = [(50, 50), (100, 900), (900, 100), (1000, 1000)]


def experiments(draws: int, half: str, sizes: list[int]) -> Iterator[dict[str, Any]]:
    metrics = {name: mean for name, (of, mean) in EXPERIMENT.items() if of == half}
    for pair in PAIRS:
        is_b = np.arange(sum(pair)) >= pair[0]
        yield from _of_units(draws, half, pair, metrics, partial(units_of, is_b), {})


def clustered(is_b: npt.NDArray[np.bool_], rng: Rng, times: Mapping[str, float]) -> pl.DataFrame:
    """Units of clusters of very unequal size: normal, lognormal, and a series of each cluster."""
    sizes = np.ceil(rng.lognormal(1.0, 1.5, is_b.size)).clip(1, 500).astype(np.int64)
    cluster = np.repeat(np.arange(is_b.size), sizes)
    n = cluster.size
    t = {name: np.where(is_b[cluster], times.get(name, 1.0), 1.0) for name in CLUSTERED}
    own = rng.normal(size=is_b.size)[cluster]
    walk = np.cumsum(rng.normal(size=n))
    begins = np.flatnonzero(np.diff(cluster, prepend=-1))
    walk -= walk[begins][cluster]
    return pl.DataFrame(
        {
            "variant": np.where(is_b[cluster], "b", "a"),
            "cluster": cluster,
            "normal": t["mean(normal)"] + 0.5 * own + rng.normal(size=n),
            "series": t["mean(series)"] + 0.5 * own + 0.1 * walk,
            "lognormal": np.exp(own - 0.5) * t["mean(lognormal)"],
            "bought": (rng.random(n) < 0.02) * 50.0 * t["mean(bought)"],
        }
    ).with_row_index("unit")


CLUSTERED: Mapping[str, tuple[str, float]] = {
    "mean(normal)": ("chosen", 1.0),
    "mean(lognormal)": ("chosen", 1.0),
    "mean(series)": ("held", 1.0),
    "mean(bought)": ("held", 1.0),
}


def clusters(draws: int, half: str, sizes: list[int]) -> Iterator[dict[str, Any]]:
    metrics = {name: mean for name, (of, mean) in CLUSTERED.items() if of == half}
    for pair in ((6, 6), (15, 15), (10, 90), (50, 50)):
        is_b = np.arange(sum(pair)) >= pair[0]
        drawn = partial(clustered, is_b)
        yield from _of_units(draws, half, pair, metrics, drawn, {"cluster": "cluster"})


def _of_units(
    draws: int,
    half: str,
    pair: tuple[int, int],
    metrics: Mapping[str, float],
    drawn: Callable[[Rng, Mapping[str, float]], pl.DataFrame],
    statistics: Mapping[str, object],
) -> Iterator[dict[str, Any]]:
    found, errors = defaultdict[str, Counter[str]](Counter), defaultdict[str, list[float]](list)
    rng, chosen = np.random.default_rng(SEEDS[1]), {"correction": "none", **statistics}
    lifted: dict[str, float] = {}
    for what in ("nothing", "half", "gain"):
        kept = {"nothing": 1.0, "half": 0.5}.get(what)
        times = lifted if kept is None else dict.fromkeys(metrics, kept)
        for _ in range(draws):
            options = {"margin_relative": 0.5} if what == "half" else {}
            report = evalkit.evaluate_experiment(
                drawn(rng, times),
                variants=dict(zip("ab", pair, strict=True)),
                metrics=list(metrics),
                statistics={**chosen, **options},
            )
            for each in report.comparisons:
                counts = found[each.metric]
                if what == "nothing":
                    counts["better"] += each.verdict in ("better", "worse")
                    errors[each.metric].append(each.std_error or 0.0)
                elif what == "half":
                    counts["within"] += each.verdict in ("equivalent", "not inferior")
                else:
                    counts["told"] += each.verdict == "better"
            if kept is None:
                continue
            rules = []
            for metric, value in metrics.items():
                about = partial(GateRule, metric=metric, model="b")
                rules += [
                    about(min=kept * value),
                    about(max=kept * value),
                    about(baseline="a", max_drop=(1.0 - kept) * value),
                    about(baseline="a", max_drop_relative=1.0 - kept),
                ]
            for gate in judge(rules, report, Baselines({}), level=0.95):
                kind = {"max_drop": "drop", "max_drop_relative": "relative"}.get(
                    gate.kind, gate.kind
                )
                found[gate.metric][f"{kind} {gate.outcome}"] += 1
        if what == "nothing":
            lifted = {
                metric: 1.0 + 3.5 * float(np.median(errors[metric])) / value
                for metric, value in metrics.items()
            }
    names = {
        **{kind: f"{kind} pass" for kind in ("min", "max", "drop", "relative")},
        "drop fail": "drop fail",
        "relative fail": "relative fail",
    }
    for metric, counts in found.items():
        row: dict[str, Any] = {"half": half, "units": f"{pair[0]} and {pair[1]}", "metric": metric}
        row |= {w: round(100 * counts[w] / draws, 1) for w in ("better", "within", "told")}
        yield row | {w: round(50 * counts[of] / draws, 1) for w, of in names.items()}


# ---------------------------------------------------------------- logged feedback


def logged(draws: int, half: str, sizes: list[int]) -> Iterator[dict[str, Any]]:
    """A policy whose reward is that of the logging one: exponential, as large as users are odd."""
    spread, odd = {"chosen": (2.0, 1.0), "held": (1.0, 0.8)}[half]
    scores = np.exp(np.linspace(0.0, spread, 10))
    old, new = scores / scores.sum(), (scores[::-1] / scores.sum()) ** 0.5
    new /= new.sum()
    truth, about = float(np.exp(0.5 * odd**2)), partial(GateRule, metric="SNIPS", model="b")
    for n in sizes:
        rng, found = np.random.default_rng(SEEDS[1]), Counter[str]()
        for _ in range(draws):
            users = np.repeat(np.arange(n), 3)
            items = rng.choice(10, users.size, p=old)
            rewards = rng.lognormal(0.0, odd, n)[users] * rng.exponential(size=users.size)
            log = {"user": users, "reward": rewards, "propensity": old[items], "p": new[items]}
            targets, named = {"b": {"probability": "p"}}, {"user": "user"}
            report = evalkit.evaluate_logged(pl.DataFrame(log), targets, columns=named)
            found["better"] += any(e.verdict in ("better", "worse") for e in report.comparisons)
            rules = [about(min=truth), about(max=truth), about(baseline="(logging)", max_drop=1e-9)]
            for gate in judge(rules, report, Baselines({}), level=0.95):
                found[f"{gate.kind} {gate.outcome}"] += 1
        told = {"min": "min pass", "max": "max pass", "drop": "max_drop pass", "better": "better"}
        shares = {name: round(100 * found[of] / draws, 1) for name, of in told.items()}
        yield {"half": half, "users": n, "metric": "SNIPS"} | shares


def preferences(draws: int, half: str, sizes: list[int]) -> Iterator[dict[str, Any]]:
    """Judges with tastes that oppose each other; all together prefer neither of two models."""
    about = partial(GateRule, metric="win-rate", model="b")
    rules = [about(min=0.5), about(max=0.5), about(baseline="a", max_drop=1e-9)]
    for n_judges in {"chosen": (4, 8, 15), "held": (5, 12, 30)}[half]:
        rng, found = np.random.default_rng(SEEDS[0]), Counter[str]()
        for _ in range(draws):
            judges = np.repeat(np.arange(n_judges), 20)
            likes = 0.2 + 0.6 * rng.beta(0.7, 0.7, n_judges)[judges]
            preferred = np.where(rng.random(judges.size) < likes, "a", "b")
            table = pl.DataFrame({"judge": judges, "preferred": preferred})
            table = table.with_columns(first=pl.lit("a"), second=pl.lit("b"))
            report = evalkit.evaluate_preferences(table, metrics=["win-rate"])
            found["better"] += report.comparisons[0].verdict in ("better", "worse")
            for gate in judge(rules, report, Baselines({}), level=0.95):
                found[f"{gate.kind} {gate.outcome}"] += 1
        told = {"min": "min pass", "max": "max pass", "drop": "max_drop pass", "better": "better"}
        shares = {name: round(100 * found[of] / draws, 1) for name, of in told.items()}
        yield {"half": half, "judges": n_judges, "metric": "win-rate"} | shares


PARTS = {
    **{"rows": rows, "experiments": experiments, "clusters": clusters},
    **{"logged": logged, "preferences": preferences},
}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("parts", nargs="*", help=f"Of {', '.join(PARTS)}; default: all.")
    parser.add_argument("--draws", type=int, default=300)
    parser.add_argument("--half", default="chosen,held")
    parser.add_argument("--sizes", default="20,50,200,1000", help="Users of a draw of rows.")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=BENCH / "out", help="Folder of the JSON.")
    asked = parser.parse_args()
    made, SEEDS[:] = [], [21 + asked.seed, 22 + asked.seed]
    for part in asked.parts or PARTS:
        for half in asked.half.split(","):
            for row in PARTS[part](asked.draws, half, [*map(int, asked.sizes.split(","))]):
                print(json.dumps(row), flush=True)
                made.append(row)
    asked.out.mkdir(parents=True, exist_ok=True)
    (asked.out / "held-out-simulated.json").write_text(json.dumps(made, indent=2), encoding="utf-8")


if __name__ == "__main__":
    main()
