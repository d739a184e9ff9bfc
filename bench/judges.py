"""How often what is said of judges holds: `python bench/judges.py [agreement rates ...]`.

`agreement`: limits of alpha, AC and percent agreement over units, against the coefficient of
200,000 units of the same judges. `rates`: limits of win rates, judges as clusters. `unequal`: equal
models that are told apart, by judges who said unequally much. `metrics`:
precision of a ranking against a consensus, limits over users and judges, against its mean over all
draws. `skills`: Dawid and Skene's estimate against judges whose errors are known. `plans`:
judgements until a verdict that full judging reverses is reversed for good, by `judge plan` and by
pooling rank by rank.
"""

import argparse
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import numpy.typing as npt
import polars as pl

import evalkit
from evalkit.kinds.judges.judged_truth import error_of
from evalkit.kinds.judges.plan import plan_judgements
from evalkit.statistics import agreement, preferences, votes
from evalkit.statistics.agreement import Coefficient
from evalkit.statistics.corrections import adjust
from evalkit.statistics.distributions import t_quantile, t_two_sided

Values = npt.NDArray[np.float64]
Codes = npt.NDArray[np.int64]
LEVELS = np.arange(3.0)


def draw_ratings(rng: np.random.Generator, n_units: int, errors: Values) -> tuple[Codes, Codes]:
    """Ratings int64[n_units, n_judges] and true levels; one in ten is not made."""
    n_levels = errors.shape[1]
    true = rng.choice(n_levels, n_units, p=np.array([0.5, 0.3, 0.2])[:n_levels])
    edges = errors.cumsum(axis=2)[:, true, :]  # judge, unit, level
    given = (rng.random((len(errors), n_units, 1)) > edges[:, :, :-1]).sum(axis=2).T
    made = rng.random(given.shape) < 0.9
    return np.where(made, given, agreement.MISSING).astype(np.int64), true


def errors_of(skills: list[float], n_levels: int = 3) -> Values:
    """Chances of each level given the true one, float64[n_judges, n_levels, n_levels]."""
    even = np.full((n_levels, n_levels), 1 / n_levels)
    return np.array([skill * np.eye(n_levels) + (1 - skill) * even for skill in skills])


def agreement_rows(draws: int) -> Iterator[str]:
    """Share of draws whose limits hold the coefficient of the population."""
    rng = np.random.default_rng(1)
    yield "| units | judges | alpha | AC | agreement |\n| --- | --- | --- | --- | --- |"
    for n_units, skills in ((30, [0.8] * 3), (100, [0.8, 0.6, 0.4, 0.8]), (300, [0.6] * 5)):
        errors = errors_of(skills)
        whole, _ = draw_ratings(rng, 200_000, errors)
        found = []
        for name, arguments in (
            ("alpha", {"kind": "ordinal"}), ("AC", {"weights": "ordinal"}), ("agreement", {}),
        ):  # fmt: skip

            def make(n: int, name: str = name, own: Mapping[str, str] = arguments) -> Coefficient:
                return agreement.coefficient_named(name, LEVELS, n, own)

            own = make(len(skills))
            target, held = float(own.read(own.features(whole).sum(axis=0))), 0
            for number in range(draws):
                codes, _ = draw_ratings(rng, n_units, errors)
                value = float(own.read(own.features(codes).sum(axis=0)))
                drawn = agreement.resample(make, codes, n_draws=1000, seed=number)
                held += agreement.bca_interval(value, drawn, level=0.95).holds(target)
            found.append(f"{100 * held / draws:.1f}")
        yield f"| {n_units} | {len(skills)} | {' | '.join(found)} |"


def rate_rows(draws: int) -> Iterator[str]:
    """Win rates of the first of three models; judges lean to it by a logit of spread 0.7."""
    rng = np.random.default_rng(2)
    strengths = np.array([0.4, 0.0, -0.4])
    yield "| judges | comparisons each | held, percent |\n| --- | --- | --- |"

    def draw(n_judges: int, n_each: int) -> tuple[Codes, Codes, Values, Codes]:
        judges = np.repeat(np.arange(n_judges), n_each)
        first = rng.integers(0, 3, len(judges))
        second = (first + rng.integers(1, 3, len(judges))) % 3
        own = strengths + rng.normal(0, 0.7, (n_judges, 3))
        apart = own[judges, first] - own[judges, second]
        won = (rng.random(len(judges)) < 1 / (1 + np.exp(-apart))).astype(np.float64)
        return first, second, np.where(rng.random(len(judges)) < 0.15, 0.5, won), judges

    target = preferences.win_rates(*draw(200_000, 10), n_models=3).values[0]
    for n_judges, n_each in ((10, 20), (20, 10), (50, 30)):
        half, held = t_quantile(0.975, n_judges - 1), 0
        for _ in range(draws):
            found = preferences.win_rates(*draw(n_judges, n_each), n_models=3)
            held += abs(found.values[0] - target) < half * math.sqrt(found.covariance[0, 0])
        yield f"| {n_judges} | {n_each} | {100 * held / draws:.1f} |"


def unequal_rows(draws: int) -> Iterator[str]:
    """Draws of three equal models with a verdict, and with one if all judges counted alike.

    Judges lean to each model by a logit of spread 0.7; one comparison in five is a tie.
    """
    told = "verdicts by {0}, percent | all judges alike"
    names = ("win-rate", "bradley-terry", "bradley-terry(ties='davidson')")
    yield f"| comparisons by judge | {' | '.join(told.format(name) for name in names)} |"
    yield f"| {' | '.join(['---'] * (1 + 2 * len(names)))} |"
    for shown, sizes in (
        ("6 x 30", [30] * 6),
        ("60, 30, 30, 20, 20, 10", [60, 30, 30, 20, 20, 10]),
        ("200, 20, 20, 10", [200, 20, 20, 10]),
        ("300, 9 x 10", [300] + [10] * 9),
    ):
        rng, found = np.random.default_rng(6), np.zeros((len(names), 2))
        judges = np.repeat(np.arange(len(sizes)), sizes)
        for _ in range(draws):
            first = rng.integers(0, 3, len(judges))
            second = (first + rng.integers(1, 3, len(judges))) % 3
            own = rng.normal(0, 0.7, (len(sizes), 3))
            apart = own[judges, first] - own[judges, second]
            won = (rng.random(len(judges)) < 1 / (1 + np.exp(-apart))).astype(np.float64)
            won[rng.random(len(judges)) < 0.2] = 0.5
            said = np.select([won == 1.0, won == 0.0], ["first", "second"], "tie")
            table = {"first": first, "second": second, "preferred": said, "judge": judges}
            report = evalkit.evaluate_preferences(pl.DataFrame(table), metrics=names)
            for place, name in enumerate(names):
                verdicts = {x.verdict for x in report.comparisons if x.metric == name}
                rows = first, second, won, judges
                found[place] += [bool(verdicts & {"better", "worse"}), _alike(rows, name)]
        shares = (f"{share:.1f}" for share in (100 * found / draws).ravel())
        yield f"| {shown} | {' | '.join(shares)} |"


def _alike(rows: tuple[Codes, Codes, Values, Codes], name: str) -> bool:
    """Whether any two of three models differ, with a degree of freedom less than judges."""
    found: preferences.Rates | preferences.Strengths
    if name == "win-rate":
        found = preferences.win_rates(*rows, n_models=3)
    else:
        ties = "davidson" if "davidson" in name else "half"
        found = preferences.bradley_terry(*rows, n_models=3, ties=ties)
    covariance, p_values = found.covariance, list[float]()
    for a, b in combinations(range(3), 2):
        square = covariance[a, a] + covariance[b, b] - 2 * covariance[a, b]
        t = float(found.values[a] - found.values[b]) / math.sqrt(square)
        p_values.append(t_two_sided(t, len(np.unique(rows[3])) - 1))
    return min(adjust(p_values, "holm").p_adjusted) <= 0.05


def metric_rows(draws: int) -> Iterator[str]:
    """Precision at 5 against majority and Dawid and Skene's estimate; judges differ in skill."""
    rng = np.random.default_rng(3)
    yield "| vote | users | judges | users and judges hold | users alone hold |"
    yield "| --- | --- | --- | --- | --- |"
    for vote, n_users, n_judges in (
        ("majority", 60, 5), ("majority", 60, 12), ("dawid-skene", 60, 5),
    ):  # fmt: skip
        values, errors, alone = [], [], []
        for _ in range(draws):
            strict = np.clip(rng.normal(0.25, 0.15, n_judges), 0, 0.9)  # chance to say no to a yes
            true = rng.random((n_users, 5)) < rng.beta(2, 2, (n_users, 1))
            said = rng.random((n_judges, n_users, 5)) < np.where(
                true, 1 - strict[:, None, None], 0.1
            )
            codes = said.reshape(n_judges, -1).T.astype(np.int64)

            def precision(kept: list[int], codes: Codes = codes, vote: str = vote) -> Values:
                if vote == "majority":
                    found = votes.majority(codes[:, kept], LEVELS[:2]).values
                else:
                    estimate = votes.dawid_skene(codes[:, kept], 2)
                    found = votes.likeliest(estimate, LEVELS[:2]).values
                return np.asarray(found.reshape(-1, 5).mean(axis=1))

            every = list(range(n_judges))
            own = precision(every)
            moved = [float(precision([j for j in every if j != out]).mean()) for out in every]
            users = float(own.std(ddof=1) / math.sqrt(n_users))
            values.append(float(own.mean()))
            error = error_of(users, n_users - 1.0, n_users, moved)
            assert error is not None
            errors.append(error)
            alone.append(t_quantile(0.975, n_users - 1) * users)
        target = float(np.mean(values))
        both = np.mean(
            [e.limits(v, 0.95).holds(target) for v, e in zip(values, errors, strict=True)]
        )
        users_held = np.mean(
            [abs(v - target) < half for v, half in zip(values, alone, strict=True)]
        )
        yield f"| {vote} | {n_users} | {n_judges} | {100 * both:.1f} | {100 * users_held:.1f} |"


def skill_rows(draws: int) -> Iterator[str]:
    """Mean distance of error rates from the true ones, and share of units that are right."""
    rng = np.random.default_rng(4)
    yield "| units | judges | error rates off by | right, Dawid-Skene | right, majority |"
    yield "| --- | --- | --- | --- | --- |"
    for n_units, skills in ((100, [0.9, 0.7, 0.3, 0.0, 0.9]), (1000, [0.9, 0.7, 0.3, 0.0, 0.9])):
        errors = errors_of(skills)
        off, right, plain = list[float](), list[float](), list[float]()
        for _ in range(draws):
            codes, true = draw_ratings(rng, n_units, errors)
            rated = (codes != agreement.MISSING).any(axis=1)
            estimate = votes.dawid_skene(codes, 3)
            off.append(float(np.abs(estimate.errors - errors).mean()))
            for found, into in (
                (votes.likeliest(estimate, LEVELS), right), (votes.majority(codes, LEVELS), plain),
            ):  # fmt: skip
                into.append(float((found.values == true)[rated].mean()))
        means = " | ".join(f"{np.mean(each):.3f}" for each in (off, right, plain))
        yield f"| {n_units} | {len(skills)} | {means} |"


@dataclass(frozen=True, slots=True)
class Race:
    """Judgements until the verdict is the right one for good."""

    planned: int
    pooled: int
    n_pairs: int


def measure_dcg(judged: pl.DataFrame, lists: Mapping[str, pl.DataFrame]) -> list[pl.DataFrame]:
    """DCG of every user: a sum over ranks, so that one number of a pair is its whole move."""
    worth = pl.col("relevance").fill_null(0.0) / (pl.col("rank") + 1.0).log(2)
    return [
        ranked.join(judged, on=["place", "item"], how="left")
        .group_by(user="place")
        .agg(value=worth.sum())
        for ranked in lists.values()
    ]


def race(seed: int, *, n_users: int = 15, n_items: int = 30, depth: int = 8) -> Race | None:
    """One pool: the first rank of two alike models is judged. None where no verdict is reversed."""
    rng = np.random.default_rng(seed)
    true = (rng.random((n_users, n_items)) < 0.3).astype(np.float64)
    lists, shown = {}, {}
    both = true + rng.normal(0, 0.6, true.shape)  # what two versions of a model have in common
    for name, noise in (("old", 0.4), ("new", 0.35)):
        order = np.argsort(-(both + rng.normal(0, noise, true.shape)), axis=1)[:, :depth]
        shown[name] = order
        lists[name] = pl.DataFrame(
            {
                "user": np.repeat(np.arange(n_users), depth),
                "item": order.ravel(),
                "rank": np.tile(np.arange(1, depth + 1), n_users),
            }
        )
    judged = {(u, int(shown[name][u, 0])) for u in range(n_users) for name in shown}

    def delta(known: set[tuple[int, int]]) -> float:
        return sum(
            sign * float(true[u, i]) / math.log2(place + 2)
            for sign, name in ((-1, "old"), (1, "new"))
            for u in range(n_users)
            for place, i in enumerate(shown[name][u].tolist())
            if (u, i) in known
        )

    pairs = [
        (u, int(shown[name][u, place]))
        for place in range(depth)
        for u in range(n_users)
        for name in shown
    ]
    pooled = [pair for pair in dict.fromkeys(pairs) if pair not in judged]
    final = delta({*judged, *pooled})
    if not final * delta(judged) < 0:
        return None
    truth = pl.DataFrame(
        [(u, i, true[u, i]) for u, i in sorted(judged)],
        schema=["user", "item", "relevance"],
        orient="row",
    )
    plan = plan_judgements(
        truth, lists, n=len(pooled), cutoff=depth, relevance=1.0, measure=measure_dcg
    )
    planned = [(u, i) for u, i in plan.frame.select("user", "item").iter_rows()]

    def needed(order: list[tuple[int, int]]) -> int:
        known, last = set(judged), 0
        for number, pair in enumerate(order, 1):
            known.add(pair)
            if delta(known) * final <= 0:
                last = number
        return last + 1

    return Race(needed(planned), needed(pooled), len(pooled))


def plan_rows(draws: int) -> Iterator[str]:
    """The median number of judgements, and how often the plan needs fewer."""
    seeds, races = iter(range(10**6)), list[Race]()
    while len(races) < draws:
        if (found := race(next(seeds))) is not None:
            races.append(found)
    planned, pooled, pairs = (
        np.array([getattr(each, name) for each in races]) for name in Race.__slots__
    )
    yield "| pools | pairs | by plan | by depth | plan needs fewer, percent | as many |"
    yield "| --- | --- | --- | --- | --- | --- |"
    medians = " | ".join(f"{np.median(each):g}" for each in (pairs, planned, pooled))
    fewer, alike = 100 * (planned < pooled).mean(), 100 * (planned == pooled).mean()
    yield f"| {draws} | {medians} | {fewer:.0f} | {alike:.0f} |"


ROWS = {
    "agreement": (agreement_rows, 1000),
    "rates": (rate_rows, 2000),
    "unequal": (unequal_rows, 400),
    "metrics": (metric_rows, 1000),
    "skills": (skill_rows, 50),
    "plans": (plan_rows, 200),
}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("which", nargs="*", choices=["all", *ROWS], default="all")
    parser.add_argument("--draws", type=int, help="in place of each part's own number")
    asked = parser.parse_args()
    for which in ROWS if asked.which == "all" else asked.which:
        rows, draws = ROWS[which]
        print(f"\n{which}, {asked.draws or draws:,} draws\n", flush=True)
        for line in rows(asked.draws or draws):
            print(line, flush=True)


if __name__ == "__main__":
    main()
