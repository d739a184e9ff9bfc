"""Small nasty logs: what hypothesis draws, tables made of them, and runs over the tables."""

import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import oracle
import polars as pl
from hypothesis import strategies as st

from evalkit.config import build_config
from evalkit.errors import DataError, Errors
from evalkit.pipeline import run_config
from evalkit.planning.tables import Given
from evalkit.report import Report

JIT_OFF = os.environ.get("NUMBA_DISABLE_JIT", "0") not in ("", "0")

Rows = Sequence[oracle.Row]
Place = Mapping[str, object]

N_TRUTH_USERS, N_USERS, N_ITEMS = 5, 7, 9
RELEVANCES = st.sampled_from([0.0, 0.5, 1.0, 2.0, 3.0])
SCORES = st.sampled_from([-1.5, -0.0, 0.0, 0.25, 1.0, 2.0, float("inf"), float("-inf")])
METRICS = tuple(measure.label for measure in oracle.MEASURES)


@dataclass(frozen=True)
class Log:
    """Rows of truth, rankings and training log; ids are small integers."""

    truth: list[dict[str, object]]
    rankings: list[dict[str, object]]
    train: list[dict[str, object]] = field(default_factory=list)

    def recode(self, name: Callable[[object], object]) -> "Log":
        """The same log with other ids."""
        return Log(*(
            [{**row, "user": name(row["user"]), "item": name(row["item"])} for row in rows]
            for rows in (self.truth, self.rankings, self.train)
        ))  # fmt: skip


@st.composite
def logs(
    draw: st.DrawFn,
    *,
    copies: bool = False,
    truth_copies: bool = True,
    relevance: st.SearchStrategy[float] = RELEVANCES,
    scores: st.SearchStrategy[float | None] = SCORES,
    ranks: str = "good",
    nulls: bool = False,
    distinct_scores: bool = False,
    n_items: int = N_ITEMS,
    longest: int = 8,
) -> Log:
    """A log of users 0 to 6, of whom the truth knows 0 to 4, and rows in any order.

    Args:
        copies: an item may stand several times in a list.
        truth_copies: an item may stand several times in a user's truth.
        scores: what scores are; they need not agree with the ranks.
        ranks: "good": 1..n; "bad": with gaps, repeats, nulls and ranks below the first.
        nulls: ids may be null.
        distinct_scores: scores order exactly as ranks do.
    """
    users = st.integers(0, N_TRUTH_USERS - 1)
    items = st.integers(0, n_items - 1)
    if nulls:
        users, items = st.one_of(users, users, st.none()), st.one_of(items, items, st.none())
    truth = draw(
        st.lists(
            st.builds(dict, user=users, item=items, relevance=relevance),
            min_size=1,
            max_size=14,
            unique_by=None if truth_copies else lambda row: (row["user"], row["item"]),
        )
    )
    rankings: list[dict[str, object]] = []
    for user in draw(st.lists(st.integers(0, N_USERS - 1), unique=True, max_size=N_USERS)):
        shown = draw(st.lists(items, max_size=longest, unique=not copies))
        for place, item in enumerate(shown, 1):
            rank: object = place
            if ranks == "bad":
                rank = draw(st.one_of(st.just(place), st.sampled_from([None, 0, -2, 1, 2, 4, 11])))
            score = -float(place) if distinct_scores else draw(scores)
            rankings.append({"user": user, "item": item, "rank": rank, "score": score})
    if nulls and rankings and draw(st.booleans()):
        rankings[draw(st.integers(0, len(rankings) - 1))]["user"] = None
    if draw(st.booleans()):
        rankings = draw(st.permutations(rankings))
    pairs = st.builds(dict, user=st.integers(0, N_USERS - 1), item=st.integers(0, n_items - 1))
    return Log(truth, rankings, draw(st.lists(pairs, max_size=8)))


# ---------------------------------------------------------------- tables and runs


def columns_of(mode: str) -> tuple[str, ...]:
    """The columns of a rankings table that is ordered by rank, score or row."""
    return {"rank": ("rank",), "score": ("score",), "order": ()}[mode]


def table(
    rows: Rows, columns: Sequence[str], dtypes: Mapping[str, object] | None = None
) -> pl.DataFrame:
    """A frame of some columns of rows; integer ids unless `dtypes` says otherwise."""
    usual = {
        "user": pl.Int64, "item": pl.Int64, "relevance": pl.Float64, "rank": pl.Int32,
        "score": pl.Float64, "model": pl.String,
    }  # fmt: skip
    types = {**usual, **(dtypes or {})}
    return pl.DataFrame(
        {name: [row[name] for row in rows] for name in columns},
        schema={name: types[name] for name in columns},  # type: ignore[misc]
    )


def list_table(rows: Rows, mode: str) -> pl.DataFrame:
    """One row a user, in order of first appearance: its items in row order, and their scores."""
    names = ["item", "score"] if mode == "score" else ["item"]
    return table(rows, ["user", *names]).group_by("user", maintain_order=True).agg(names)


def run(
    truth: object,
    rankings: object,
    *,
    mode: str = "rank",
    metrics: Sequence[str] = METRICS,
    policies: Mapping[str, str | int] | None = None,
    threshold: float | None = None,
    train: object | None = None,
    drop_seen: bool = False,
    columns: Mapping[str, object] | None = None,
    truth_columns: Mapping[str, object] | None = None,
    threads: int = 2,
    per_user: bool = True,
    **options: object,
) -> Report:
    """The report of one model, "als", of tables in memory or paths.

    Args:
        rankings: a table, or a dictionary from model to table.
        columns: those of the rankings where they are not called as ours.
        options: of `run_config`.
    """
    models = rankings if isinstance(rankings, dict) else {"als": rankings}
    ours = columns or {"user": "user", "item": "item", **{name: name for name in columns_of(mode)}}
    theirs = truth_columns or {"user": "user", "item": "item", "relevance": "relevance"}
    tree: dict[str, object] = {
        "truth": {"path": path_of(truth), "columns": dict(theirs)},
        "rankings": [
            {"path": path_of(each), "columns": dict(ours), **({"model": name} if name else {})}
            for name, each in models.items()
        ],
        "metrics": {"names": list(metrics)},
        "policies": dict(policies or {}),
    }
    if threshold is not None:
        tree["truth"]["threshold"] = threshold  # type: ignore[index]
    if train is not None:
        ids = {"user": theirs["user"], "item": theirs["item"]}
        tree["train"] = {"path": path_of(train), "drop_seen": drop_seen, "columns": ids}
    given = Given(held(truth), [held(each) for each in models.values()], held(train))
    return run_config(
        build_config(tree, name="law"),
        given=given,
        threads=threads,
        per_user=per_user,
        **options,  # type: ignore[arg-type]
    )


def held(each: object) -> object | None:
    return None if isinstance(each, (str, os.PathLike, list)) else each


def path_of(each: object) -> list[str]:
    if isinstance(each, list):
        return [os.fspath(path) for path in each]
    return [os.fspath(each)] if isinstance(each, (str, os.PathLike)) else ["memory"]


def run_log(log: Log, *, mode: str = "rank", as_lists: bool = False, **options: object) -> Report:
    """The report of a log of integer ids."""
    rankings = list_table(log.rankings, mode) if as_lists else (
        table(log.rankings, ["user", "item", *columns_of(mode)])
    )  # fmt: skip
    if options.pop("with_train", False):
        options["train"] = table(log.train, ["user", "item"])
    names = [name for name in ("user", "item", "relevance") if name in log.truth[0]]
    options.setdefault("truth_columns", {name: name for name in names})
    truth = table(log.truth, names)
    return run(truth, rankings, mode=mode, **options)  # type: ignore[arg-type]


def body(report: Report) -> str:
    """What of report.json depends on the numbers and counts alone."""
    document = json.loads(report.to_json())
    for key in ("meta", "run_id", "run_key", "inputs"):
        del document[key]
    return json.dumps(document)


def codes_of(error: DataError | Errors) -> set[str]:
    """Codes of all problems of an error."""
    problems = error.errors if isinstance(error, Errors) else (error,)
    return {each.code for each in problems}
