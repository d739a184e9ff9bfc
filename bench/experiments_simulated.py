"""How often what is said of experiments holds: `python bench/experiments_simulated.py [one ...]`.

`one`: false alarms at one look, of a skewed mean, a ratio of events with users as units, a rare
fraction and a mean adjusted by what was before, 500 units a variant. `looks`: false alarms of five
looks, by plan; the guardrail is worse by just its margin. `relative`: limits of a relative effect
of 20 %, 500 skewed units a variant. `large`: verdicts where 5 % of the units buy, of variants that
do not differ, and of one that has lost just the margin, all of its revenue or half. `gates`: what
passes that has lost just the bound, and what fails; `strata` and `clusters`: the same of these.
`interleaved`: limits where neither of two models wins, and users have unequally many impressions.
Written to --out as JSON, too.
"""

import argparse
import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl

import evalkit
from evalkit.config import GateRule
from evalkit.runs.gates import Baselines, judge
from harness import BENCH

VARIANTS = {"a": 1, "b": 1}
PLANS = {
    "O'Brien-Fleming": {"spending": "obrien-fleming", "final": 1500},
    "Pocock": {"spending": "pocock", "final": 1500},
    "always valid": {"method": "always-valid", "tightest_at": 1500},
}
Row = dict[str, str | float]


def _is_small(p_value: float | None) -> bool:
    return p_value is not None and p_value <= 0.05


def one_look(draws: int) -> Iterator[Row]:
    """Share of experiments without an effect that find one, by metric."""
    draw, n = np.random.default_rng(1), 1000
    metrics = ["mean(skewed)", "ratio(clicks, shown)", "fraction(rare)", "mean(y)"]
    found = Counter[str]()
    for _ in range(draws):
        taste, shown, before = draw.beta(2, 8, n), 1 + draw.poisson(5, n), draw.normal(size=n)
        units = pl.DataFrame(
            {
                "unit": range(n),
                "variant": ["a", "b"] * (n // 2),
                "skewed": draw.lognormal(size=n),
                "clicks": draw.binomial(shown, taste),
                "shown": shown,
                "rare": (draw.random(n) < 0.03).astype(int),
                "y": 0.8 * before + 0.6 * draw.normal(size=n),
                "x": before,
            }
        )
        report = evalkit.evaluate_experiment(
            units, variants=VARIANTS, metrics=metrics, before={"y": "x"}
        )
        for each in report.comparisons:
            found[each.metric] += _is_small(each.p_value)
    for name in sorted(found):
        yield {"metric": name, "false alarms, %": 100 * found[name] / draws}


def looks(draws: int) -> Iterator[Row]:
    """Share of experiments of five looks in which any look finds what is not there."""
    for name, plan in PLANS.items():
        draw, found = np.random.default_rng(2), Counter[str]()
        for _ in range(draws):
            found.update(_found_at_looks(draw, plan, n_looks=5, n=300))
        shares = {what: 100 * found[what] / draws for what in ("primary", "guardrail", "segments")}
        yield {"plan": name, **{f"{what}, %": share for what, share in shares.items()}}


def _found_at_looks(
    draw: np.random.Generator, plan: dict[str, object], n_looks: int, n: int
) -> set[str]:
    is_b = draw.random(n * n_looks) < 0.5
    columns = {name: draw.normal(5.0, 1.0, n * n_looks) for name in ("y", "z", "g")}
    columns["g"] -= 0.2 * is_b
    units = pl.DataFrame({"variant": np.where(is_b, "b", "a"), **columns})
    units = units.with_columns(s=pl.Series(draw.choice(["u", "v"], n * n_looks)))
    found = set()
    for look in range(1, n_looks + 1):
        before = (
            {"looks": [each / n_looks for each in range(1, look)]} if "spending" in plan else {}
        )
        report = evalkit.evaluate_experiment(
            units[: n * look],
            variants=VARIANTS,
            metrics=["mean(y)", "mean(z)", "mean(g)"],
            primary=["mean(y)", "mean(z)"],
            guardrails=["mean(g)"],
            segments=["s"],
            statistics={"sequential": plan | before, "margin": 0.2},
        )
        for each in report.comparisons:
            is_guard = each.metric == "mean(g)"
            if is_guard and each.segment is None and _is_small(each.p_not_inferior):
                found.add("guardrail")
            elif not is_guard and _is_small(each.p_adjusted):
                found.add("primary" if each.segment is None else "segments")
    return found


def relative(draws: int) -> Iterator[Row]:
    """Share of limits that hold the true relative effect."""
    draw, n, held = np.random.default_rng(3), 500, 0
    for _ in range(draws):
        values = draw.lognormal(size=2 * n) * np.repeat([1.0, 1.2], n)
        units = pl.DataFrame({"unit": range(2 * n), "variant": ["a"] * n + ["b"] * n, "y": values})
        report = evalkit.evaluate_experiment(units, variants=VARIANTS, metrics=["mean(y)"])
        (each,) = report.comparisons
        low, high = each.relative_low, each.relative_high
        held += low is not None and high is not None and low <= 0.2 <= high
    yield {"units a variant": n, "held, %": 100 * held / draws}


def large(draws: int) -> Iterator[Row]:
    """Share of wrong verdicts, and of wrong p-values, where few units have large values."""
    buyers, mean = 0.05, np.exp(0.5)
    for sizes in ((100, 900), (900, 100), (50, 50), (300, 300), (1000, 1000)):
        for name, kept in (("no effect", 1.0), ("all lost", 0.0), ("half lost", 0.5)):
            draw, found = np.random.default_rng(4), Counter[str]()
            is_b = np.arange(sum(sizes)) >= sizes[0]
            statistics = {} if kept == 1.0 else {"margin": (1.0 - kept) * buyers * mean}
            wrong = ("better", "worse") if kept == 1.0 else ("equivalent", "not inferior")
            for _ in range(draws):
                buys = draw.random(is_b.size) < buyers * np.where(is_b, kept, 1.0)
                variants = np.where(is_b, "b", "a")
                units = pl.DataFrame(
                    {"variant": variants, "y": buys * draw.lognormal(size=is_b.size)}
                )
                report = evalkit.evaluate_experiment(
                    units.with_row_index("unit"),
                    variants=dict(zip("ab", sizes, strict=True)),
                    metrics=["mean(y)"],
                    statistics=statistics,
                )
                (each,) = report.comparisons
                found["verdict"] += each.verdict in wrong
                found["p"] += _is_small(each.p_value if kept == 1.0 else each.p_not_inferior)
            shares = {f"by {what}, %": 100 * found[what] / draws for what in ("verdict", "p")}
            yield {"units": f"{sizes[0]} and {sizes[1]}", "truth": name, **shares}


def gates(draws: int) -> Iterator[Row]:
    """Share of wrong outcomes of gates where the truth is just their bound, by what is measured."""
    for sizes in ((100, 900), (900, 100), (50, 50), (300, 300), (1000, 1000)):
        for kept in (1.0, 0.5, 0.1):
            draw, found = np.random.default_rng(5), Counter[tuple[str, str, str]]()
            is_b = np.arange(sum(sizes)) >= sizes[0]
            times, n = np.where(is_b, kept, 1.0), is_b.size
            for _ in range(draws):
                large = draw.lognormal(size=n)
                shown = 1 + draw.poisson(2, n)
                units = pl.DataFrame(
                    {
                        "variant": np.where(is_b, "b", "a"),
                        "bought": (draw.random(n) < 0.05 * times).astype(int),
                        "spent": (draw.random(n) < 0.05) * large * times,
                        "large": draw.lognormal(size=n) * times,
                        "normal": times + draw.normal(size=n),
                        "clicks": draw.binomial(shown, draw.beta(0.1, 1.9, n) * times),
                        "shown": shown,
                    }
                ).with_row_index("unit")
                report = evalkit.evaluate_experiment(
                    units, variants=dict(zip("ab", sizes, strict=True)), metrics=list(TRUTH)
                )
                for metric, value in TRUTH.items():
                    rules = [
                        GateRule(metric=metric, model="b", min=kept * value),
                        GateRule(metric=metric, model="b", max=kept * value),
                        GateRule(
                            metric=metric, model="b", baseline="a", max_drop=(1 - kept) * value
                        ),
                        GateRule(
                            metric=metric, model="b", baseline="a", max_drop_relative=1 - kept
                        ),
                    ]
                    for by, seen in (("", report), (" by limits shown", _plain(report))):
                        for gate in judge(rules, seen, Baselines({}), level=0.95):
                            found[gate.metric, gate.kind, gate.outcome + by] += 1
            for metric in TRUTH:
                for kind in ("min", "max", "max_drop", "max_drop_relative"):
                    row: Row = {"units": f"{sizes[0]} and {sizes[1]}", "kept": kept}
                    row |= {"metric": metric, "gate": kind}
                    for what in ("pass", "fail", "pass by limits shown", "fail by limits shown"):
                        row[f"{what}, %"] = 100 * found[metric, kind, what] / draws
                    yield row


def _plain(report: evalkit.Report) -> evalkit.Report:
    """The report whose gates go by the limits that it shows."""
    estimates = [replace(each, low_gate=each.low, high_gate=each.high) for each in report.estimates]
    comparisons = [
        replace(
            each,
            low_gate=each.low,
            high_gate=each.high,
            relative_low_gate=each.relative_low,
            relative_high_gate=each.relative_high,
        )
        for each in report.comparisons
    ]
    return replace(report, estimates=tuple(estimates), comparisons=tuple(comparisons))


def strata(draws: int) -> Iterator[Row]:
    """Share of wrong gates of two strata of means 1 and 10, where the truth is just the bound."""
    for sizes in ((300, 300), (100, 900)):
        draw, found = np.random.default_rng(11), Counter[tuple[str, str]]()
        is_b = np.arange(sum(sizes)) >= sizes[0]
        for _ in range(draws):
            is_large = draw.random(is_b.size) < 0.5
            y = np.where(is_large, 10.0, 1.0) + draw.normal(size=is_b.size)
            units = pl.DataFrame({"y": y * np.where(is_b, 0.5, 1.0), "is_large": is_large})
            report = evalkit.evaluate_experiment(
                units.with_columns(variant=pl.Series(np.where(is_b, "b", "a"))).with_row_index(
                    "unit"
                ),
                variants=dict(zip("ab", sizes, strict=True)),
                metrics=["mean(y)"],
                statistics={"strata": ["is_large"]},
            )
            rules = [
                GateRule(metric="mean(y)", model="b", min=2.75),
                GateRule(metric="mean(y)", model="b", max=2.75),
                GateRule(metric="mean(y)", model="b", baseline="a", max_drop=2.75),
                GateRule(metric="mean(y)", model="b", baseline="a", max_drop_relative=0.5),
            ]
            for gate in judge(rules, report, Baselines({}), level=0.95):
                found[gate.kind, gate.outcome] += 1
        for kind in ("min", "max", "max_drop", "max_drop_relative"):
            row: Row = {"units": f"{sizes[0]} and {sizes[1]}", "gate": kind}
            yield row | {f"{what}, %": 100 * found[kind, what] / draws for what in ("pass", "fail")}


def clusters(draws: int) -> Iterator[Row]:
    """Share of wrong verdicts by a margin, and of wrong gates, of clusters: half is lost."""
    bound = 0.05 * np.exp(0.5)
    for sizes in ((30, 270), (270, 30), (50, 50), (150, 150)):
        draw, found = np.random.default_rng(7), Counter[str]()
        is_b = np.arange(sum(sizes)) >= sizes[0]
        for _ in range(draws):
            cluster = np.repeat(np.arange(is_b.size), 1 + draw.poisson(4, is_b.size))
            buys = draw.random(cluster.size) < 0.1
            spent = buys * draw.lognormal(size=cluster.size) * np.where(is_b[cluster], 0.5, 1.0)
            units = pl.DataFrame({"variant": np.where(is_b[cluster], "b", "a"), "y": spent})
            report = evalkit.evaluate_experiment(
                units.with_columns(cluster=cluster).with_row_index("unit"),
                variants=dict(zip("ab", sizes, strict=True)),
                metrics=["mean(y)"],
                statistics={"cluster": "cluster", "margin": bound},
            )
            (each,) = report.comparisons
            rule = GateRule(metric="mean(y)", model="b", baseline="a", max_drop=bound)
            (gate,) = judge([rule], report, Baselines({}), level=0.95)
            found["verdict"] += each.verdict in ("equivalent", "not inferior")
            found["p"] += _is_small(each.p_not_inferior)
            found["gate"] += gate.outcome == "pass"
        shares = {f"by {what}, %": 100 * found[what] / draws for what in ("verdict", "p", "gate")}
        yield {"clusters": f"{sizes[0]} and {sizes[1]}", **shares}


TRUTH = {
    "fraction(bought)": 0.05,
    "mean(spent)": 0.05 * np.exp(0.5),
    "mean(large)": np.exp(0.5),
    "mean(normal)": 1.0,
    "ratio(clicks, shown)": 0.05,
}


def interleaved(draws: int) -> Iterator[Row]:
    """Share of limits that hold no difference, of draws that have limits, and of verdicts."""
    draw = np.random.default_rng(5)
    for name, medians, spread in (
        ("50 with 6 each", [6] * 50, 0.0),
        ("50, lognormal", [3] * 50, 1.2),
        ("300, lognormal", [3] * 300, 1.5),
        ("2 with 200, 60 with 5", [200] * 2 + [5] * 60, 0.0),
        ("1 with 1,000, 20 with 1", [1000] + [1] * 20, 0.0),
    ):
        found = Counter[str]()
        for _ in range(draws):
            sizes = np.ceil(medians * draw.lognormal(0.0, spread, len(medians))).astype(int)
            users = np.repeat(np.arange(sizes.size), sizes)
            chances = 1 / (1 + np.exp(-draw.normal(0, 0.8, sizes.size)))
            won = (draw.random(users.size) < chances[users]).astype(int)
            seen = pl.DataFrame({"user": users, "credit_a": 1 - won, "credit_b": won})
            (each,) = evalkit.evaluate_interleaving(seen, models=["a", "b"]).comparisons
            if each.low is not None and each.high is not None:
                found["with limits"] += 1
                found["held"] += each.low <= 0.0 <= each.high
            found["verdicts"] += each.verdict != "cannot tell"
        held = 100 * found["held"] / found["with limits"] if found["with limits"] else np.nan
        shares = {f"{what}, %": 100 * found[what] / draws for what in ("with limits", "verdicts")}
        yield {"users": name, "held, %": held, **shares}


PARTS = {
    "one": (one_look, 2000),
    "looks": (looks, 500),
    "relative": (relative, 2000),
    "large": (large, 500),
    "gates": (gates, 400),
    "strata": (strata, 400),
    "clusters": (clusters, 400),
    "interleaved": (interleaved, 1000),
}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("which", nargs="*", choices=["all", *PARTS], default="all")
    parser.add_argument("--draws", type=int, help="In place of each part's own number.")
    parser.add_argument("--out", type=Path, default=BENCH / "out", help="Folder of the JSON.")
    asked = parser.parse_args()
    for which in PARTS if asked.which == "all" else asked.which:
        part, draws = PARTS[which]
        rows = list(part(asked.draws or draws))
        for row in rows:
            shown = (value if isinstance(value, str) else f"{key} {value:.4g}"
                     for key, value in row.items())  # fmt: skip
            print(f"{which}, {asked.draws or draws:,} draws: {'; '.join(shown)}", flush=True)
        asked.out.mkdir(parents=True, exist_ok=True)
        text = json.dumps({"draws": asked.draws or draws, "rows": rows}, indent=2)
        (asked.out / f"experiments-simulated-{which}.json").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
