"""Small invented logs that go all ways that a log can take, so that every kernel is compiled."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import numpy as np
import polars as pl

from evalkit import pipeline
from evalkit.api import evaluate, evaluate_labels, evaluate_ratings
from evalkit.cli.synth_logs import Form, Ids, Order, generate
from evalkit.config import load_config
from evalkit.metrics import registry, registry_of, warm_metrics
from evalkit.planning.survey import CELLS, count_cells
from evalkit.sources.content import content_of
from evalkit.sources.footers import footer_fault
from evalkit.sources.ids import ITEM_KEY, USER_KEY, DrawnShare, PassShare, drawn_shares, plan_ids
from evalkit.sources.parquet import page_fault
from evalkit.statistics.distributions import MANY, beta_halves, find_t_quantiles, t_sf_of
from evalkit.truth import SeenRows

COMPARED = [
    "statistics.distributions=true",
    "segments.n.by=n_relevant",
    "segments.n.quantiles=2",
    "statistics.baseline=model-1",
    "statistics.method=bootstrap",
    "statistics.test=permutation",
    "statistics.replicates=100",
]
CURVES = ['metrics.names=["recall@5", "nDCG@5"]', "statistics.curves=true"]
NO_JUDGED = "policies.no_judged=warn"  # where nothing is judged, some metrics are refused
WITH_TRAIN = ["train.path={truth}", "train.drop_seen=true", "policies.truth_in_train=count"]


def run_all(folder: Path) -> None:
    """Evaluate logs of every form, so that each kernel is called with the types of real runs."""
    ways = (
        _Way("rank", "int", ["policies.bad_ranks=compress"]),
        _Way("rank", "int", COMPARED, models=2),
        _Way("rank", "int", ['metrics.names=["recall"]', "statistics.two_way=item"]),
        _Way("rank", "int", [*CURVES, "statistics.baseline=model-1"], models=2),
        _Way("rank", "string", ["policies.duplicates=count"], sample=0.5),
        _Way("both", "int", WITH_TRAIN, sample=0.5),
        _Way("both", "string", ["policies.ties=item-text-desc"]),
        _Way("score", "int"),
        _Way("score", "int", ["policies.duplicates=first"], order="scattered"),
        _Way("score", "int", order="scattered"),
        _Way("score", "string", order="scattered"),
        _Way("score", "int", ["metrics.profile=ranx"]),
        # some items go again, of enough users to be worth a kernel
        _Way("list", "int", ["truth.columns.relevance=relevance - 1"], users=3000),
        # enough to be counted and looked up by their hits; for a truth in partitions too
        _Way("rank", "int", [*CURVES, "segments.n.by=n_relevant"], users=12_000),
        _Way("rank", "int", ["segments.n.by=n_relevant"], order="scattered", users=12_000),
    )
    for number, way in enumerate(ways):
        paths = generate(
            folder / str(number),
            users=way.users,
            models=way.models,
            depth=5,
            items=100,
            ids=way.ids,
            form=way.form,
            order=way.order,
        )
        way.run(paths["config"], paths["truth"])
    _split_users()
    _break_ties()
    _learn_ids()
    _weigh_hits()
    _judge_all()
    _rank_deep_lists()
    _find_tails()
    _check_pages(folder)
    warm_metrics()
    _run_lists(folder)
    _run_rows()


@dataclass(frozen=True, slots=True)
class _Way:
    form: Form
    ids: Ids
    overrides: Sequence[str] = ()
    order: Order = "grouped"
    sample: float | None = None
    users: int = 40
    models: int = 1

    def run(self, path: Path, truth: Path) -> None:
        names = ", ".join(
            f'"{name}(max_relevance=5)"' if "max_relevance" in each.defaults else f'"{name}"'
            for name, each in registry().items()
        )
        overrides = [each.format(truth=truth) for each in (*self.overrides, NO_JUDGED)]
        config = load_config(path, overrides=[f"metrics.names=[{names}]", *overrides])
        pipeline.run_config(config, sample=self.sample, keep_parts=True)


def _split_users() -> None:
    users = pl.DataFrame({USER_KEY: [0, 1]})
    SeenRows(2).add(users.with_columns(pl.col(USER_KEY).alias(ITEM_KEY)))
    plan = plan_ids("user", [("truth", "", {"user_0": pl.Int64()})], seed=1)
    PassShare(0, 2).holds(users)
    DrawnShare(0, 2, plan).holds(users)
    drawn_shares(users.rename({USER_KEY: "user_0"}), plan, 2)
    rows, runs = np.zeros((2, CELLS))
    count_cells(np.arange(2, dtype=np.uint64), rows, runs, np.empty(2, dtype=np.uint64))


def _break_ties() -> None:
    """Equal scores of users whose rows lie apart, where a catalogue of texts says the order."""
    users = [*range(20)] * 2
    shown = pl.DataFrame({"user": users, "item": ["a"] * 20 + ["b"] * 20, "score": [0.0] * 40})
    evaluate(shown[:20, :2], shown, metrics=["RR"])


def _learn_ids() -> None:
    """Users whose ids are two columns of text, and so many that their table grows."""
    users = [str(user) for user in range(1000)]
    shown = pl.DataFrame({"user": users, "shop": users[::-1], "item": 1, "rank": 1})
    evaluate(shown[:, :3], shown[:2], metrics=["RR"], columns={"user": ["user", "shop"]})


def _weigh_hits() -> None:
    """Hits that count by 1 / propensity, by every metric that has such a form."""
    rows = pl.DataFrame({"user": [1, 1, 2], "item": [1, 2, 2], "p": [0.5, 1.0, 0.2]})
    names = [name for name, each in registry().items() if each.unbiased is not None]
    evaluate(rows, rows[:, :2], metrics=names, columns={"truth": {"propensity": "p"}})
    many = pl.DataFrame({"user": 1, "item": range(300), "relevance": range(1, 301), "p": 0.5})
    evaluate(many, many[:, :2], metrics=["DCG"], columns={"truth": {"propensity": "p"}})


def _judge_all() -> None:
    """The lowest and highest values over judgements of what nobody judged; clusters of users."""
    rows = pl.DataFrame({"user": [1, 1], "item": [1, 2], "relevance": [1.0, 0.0], "group": 1})
    shown = pl.DataFrame({"user": [1, 1], "item": [1, 3], "rank": [1, 2]})
    names = ["RR(unjudged='lowest')", "ERR(unjudged='highest')"]
    evaluate(rows, shown, metrics=names)
    evaluate(rows, shown, metrics=["RR"], statistics={"cluster": "group"})


def _rank_deep_lists() -> None:
    """Lists of more ranks than two bytes hold, in every form in which their hits are ranked."""
    n = 40_000
    rows = pl.DataFrame({"user": [0] * n, "item": range(n), "score": range(n, 0, -1)})
    apart = pl.DataFrame({"user": range(100), "item": [n - 1] * 100, "rank": [n] * 100})
    truth, ranked = rows[-1:, :2], rows.with_columns(rank=pl.int_range(1, n + 1))
    both = {"rankings": {"rank": "rank", "score": "score"}}
    for shown, columns in ((rows, None), (ranked, both), (apart, None)):
        policies = {"bad_ranks": "keep"}
        evaluate(truth, shown, metrics=["RR"], policies=policies, columns=columns)


def _find_tails() -> None:
    numbers = [float(each) for each in range(1, MANY + 1)]
    t_sf_of(numbers, numbers)
    beta_halves([(each, 1.0) for each in numbers])
    find_t_quantiles((1.0 - 0.2 / each, each + 0.5) for each in numbers)


def _check_pages(folder: Path) -> None:
    wide = {f"column_{number}": [0] for number in range(200)}  # a footer whose texts are looked at
    pl.DataFrame(wide).write_parquet(folder / "wide.parquet")
    for path in folder.rglob("*.parquet"):
        footer_fault(str(path), is_many=True)
        page_fault(str(path), (), is_many=True)


LISTS = """
truth.path = "truth.parquet"
train.path = "{train}.parquet"
users.path = "users.parquet"
items.path = "items.parquet"
items.now = "2026-01-02"
items.columns = {{ item = "item", genres = "genres", vector = "vector", published = "day" }}
rankings = [
    {{ model = "a", path = "{form}.parquet", earlier = ["{form}.parquet"] }},
    {{ model = "b", path = "{form}.parquet" }},
    {{ model = "c", builtin = "popular", k = 1 }},
    {{ model = "d", builtin = "random", k = 1 }},
    {{ model = "e", builtin = "recent", half_life = "1d", k = 1 }},
]
metrics = {{ names = {names}, reference = "b" }}
policies.truth_in_train = "count"
segments.group = {{ path = "users.parquet", by = "group" }}
"""


def _run_lists(folder: Path) -> None:
    """Lists in their forms, with all that can stand beside them."""
    names = [*registry_of("lists"), "ild(distance='jaccard')", "ild(distance='hamming')"]
    names += ["serendipity(of='content')"]
    users, items = [1, 1, 1, 2, 2, 2], [1, 2, 3, 3, 2, 1]
    rows = pl.DataFrame({"user": users, "item": items})
    seen = rows.vstack(rows).sort("user")  # known users, of whom rows repeat, and others
    seen = seen.vstack(pl.DataFrame({"user": [3] * 4000 + [4], "item": [*range(4000), 1]}))
    seen = seen.with_columns(time=pl.lit(datetime(2026, 1, 1)))
    columns = {"genres": [["x"], ["x", "y"], ["y"]], "provider": ["p", "q", "q"]}
    columns |= {"vector": [[1.0, 0.0], [0.5, 0.5], [0.0, 1.0]], "day": ["2026-01-01"] * 3}
    tables = {
        "truth": rows[::2],
        "train": seen,
        "scattered": seen.sort("item"),
        "rank": rows.with_columns(rank=pl.int_range(1, 4).append(pl.int_range(1, 4))),
        "score": rows.with_columns(score=1.0 / pl.col("item")),
        "items": pl.DataFrame({"item": [1, 2, 3], **columns}),
        "users": pl.DataFrame({"user": [1, 2], "group": ["g", "h"]}),
    }
    for name, table in tables.items():
        table.write_parquet(folder / f"{name}.parquet")
    few = ["novelty@2"]
    ways = (("rank", "train", few), ("score", "train", few), ("score", "scattered", names))
    for number, (form, train, asked) in enumerate(ways):
        path = folder / f"lists-{number}.toml"
        path.write_text(LISTS.format(form=form, train=train, names=json.dumps(asked)))
        pipeline.run_config(load_config(path))
    content_of(rows, rows.columns)


def _run_rows() -> None:
    """Ratings and labels, with columns of every type that rows can have."""
    rows = pl.DataFrame(
        {
            "user": [1, 1, 2, 2],
            "session": [1, 2, 3, 3],
            "text": ["a", "a", "b", "b"],
            "score": [0.2, 0.7, 0.6, 0.4],
            "label": [0, 1, 0, 1],
            "weight": [1.0, 2.0, 0.5, 1.0],
        }
    )
    small = rows.with_columns(pl.col("score").cast(pl.Float32))
    names = list(registry_of("labels"))
    names += ["AUC(over='users')", "AUC(over='sessions')", "PR-AUC(over='users')", "F1(at='best')"]
    names += ["log-loss(over='users')", "Brier(over='users')", "ECE(binning='mass')"]
    names += ["EER(over='users')"]
    for table in (rows, small):
        for user in ("user", "text"):
            for columns in ({}, {"weight": "weight"}):
                asked = {"user": user, "session": "session", **columns}
                evaluate_labels(table, metrics=names, columns=asked)
        turned = table.with_columns(label=1 - pl.col("label"))
        many = pl.concat([table, turned] * (1 << 16)).lazy()  # of each score more than a part has
        evaluate_labels(many, metrics=["AUC"], memory_limit=1 << 30)
    names = list(registry_of("ratings"))
    names += [f"{name}(over='users')" for name in names]
    columns = {"rating": "weight", "prediction": "score"}
    evaluate_ratings(rows, metrics=names, columns=columns)
    pairs = rows.with_columns(item=pl.int_range(pl.len()), rating="weight", prediction="score")
    evaluate_ratings(pairs, pairs, metrics=["MAE"], policies={"truth_duplicates": "max"})
