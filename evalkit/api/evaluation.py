"""Rankings that come batch by batch, as from a training loop: `evalkit.Evaluation`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from inspect import signature
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import polars as pl

from evalkit.api import in_memory
from evalkit.api.calls import evaluate
from evalkit.config import TrainTable, build_config, check_argument, hinted
from evalkit.errors import DataError, EvalkitError, RequestError
from evalkit.metrics import OwnMetric, name_metrics
from evalkit.planning.partials import pieces_of_file, read_body, read_header
from evalkit.report import Report, Warning_
from evalkit.report.version import VERSION
from evalkit.sources import Guessing, Ids, Named, frame_of, open_train
from evalkit.sources.arrays import array_of, ids_of

BY_INPUT = ("input", "numba", "numba-reversed")  # ties that the order of rows decides
ROUNDING = 1e-5  # of the largest score: how far two scores of one item lie apart as if rounded


@dataclass(frozen=True, slots=True)
class BatchFacts:
    """What an evaluation is of, in texts that are equal where its batches can be merged."""

    facts: dict[str, str]


@dataclass(slots=True)
class Batches:
    """Rows that came: `user`, `item`, then `score`, or `rank` and `n`, the length of its list.

    Args:
        rows: and of each the number of its `batch`.
    """

    rows: list[pl.DataFrame] = field(default_factory=list)
    n_batches: int = 0

    def merge(self, other: "Batches") -> None:
        """Take over what came elsewhere, as later batches.

        Raises:
            DataError: ids of another type, or scores where there were none [bad-type].
        """
        later = [each.with_columns(pl.col("batch") + self.n_batches) for each in other.rows]
        for batch in later:
            if self.rows and batch.schema != self.rows[0].schema:
                told = [str(dict(rows.drop("batch").schema)) for rows in (self.rows[0], batch)]
                message = f"a batch has {told[1]}, those before have {told[0]}"
                hint = "give ids of one type, and scores to all batches or to none"
                raise DataError(message, code="bad-type", at="update", hint=hint)
            self.rows.append(batch)
        self.n_batches += other.n_batches


class Evaluation:
    """Metrics of rankings that come in batches, in any order; `compute` is `evaluate` of them all.

    Batches hold NumPy arrays, lists, SciPy's sparse matrices, or tensors of torch, JAX or CuPy on
    any device, which are taken by `__dlpack__`.

    Args:
        truth, metrics: as `evaluate` takes them.
        train: what models had seen; they are never ranked.
        model: how the report calls what is evaluated.
        item_ids: of the columns of matrices of scores; their numbers by default.
        user_ids: of the rows of a truth or train that is a matrix.
        asked: whatever else `evaluate` takes.
    Example:
        >>> import numpy as np
        >>> evaluation = Evaluation({0: [2], 1: [0, 1], 2: [1]}, metrics=["recall@2"])
        >>> evaluation.update([2, 0], scores=np.array([[0.1, 0.9, 0.3], [0.5, 0.4, 0.3]]))
        >>> evaluation.update([1], items=[[2, 1]], scores=[[0.8, 0.7]])
        >>> evaluation.compute().value("recall@2")
        0.5
    """

    @hinted
    def __init__(
        self,
        truth: object,
        *,
        metrics: Sequence[str | OwnMetric],
        train: object | None = None,
        model: str = "model",
        user_ids: Ids = None,
        item_ids: Ids = None,
        **asked: Any,
    ) -> None:
        for name, value in asked.items():
            check_argument(evaluate, name, value)
        self._columns = asked.pop("columns", None)
        keeps_users = in_memory.counts_users_of_nothing(
            metrics, asked.get("profile", "evalkit"), asked.get("policies"), asked.get("threshold")
        )
        frames = in_memory.GivenFrames(user_ids, item_ids, None, keeps_users)
        signature(evaluate).bind(
            truth, {}, metrics=metrics, train=train, drop_seen=True, columns=self._columns, **asked
        )
        self._asked, self._model, self._metrics = asked, model, list(metrics)
        self._truth = frames.table(truth, "truth")
        if self._truth is not None and not in_memory.is_path(self._truth):
            self._truth = in_memory.taken_over(self._truth, "truth")
        self._train = None if train is None else self._seen(frames.table(train, "train"))
        self._items = None if item_ids is None else ids_of(item_ids)
        policies = asked.get("policies")
        self._depth = in_memory.depth_of(metrics, asked.get("profile", "evalkit"), policies)
        self._batches = Batches()
        if not asked.keys() & {"reference", "combined"}:
            self._check_request(metrics, {"truth": truth, "train": train})

    def _check_request(
        self, metrics: Sequence[str | OwnMetric], tables: Mapping[str, object]
    ) -> None:
        """Refuse now what no epoch could be measured by; arguments as `evaluate` takes them."""
        given = {name: self._asked.get(name) for name in ("items", "users")} | dict(tables)
        table = {"path": [in_memory.MEMORY]}
        section = in_memory.metrics_section(
            metrics,
            self._asked.get("primary", ()),
            self._asked.get("profile", "evalkit"),
            files=self._asked.get("metric_files", ()),
        )
        tree: dict[str, object] = {
            "metrics": section,
            "policies": dict(self._asked.get("policies") or {}),
            "rankings": [{"model": self._model, **table}],
            **{name: table for name, found in given.items() if found is not None},
        }
        build_config(tree, name="evaluation", entry_point="python")

    def update(self, users: object, items: object = None, scores: object = None) -> None:
        """Takes over a batch.

        Args:
            users: ids, one a row.
            items: one a row, or a row of them for each user, best first where there are no scores;
                without it `scores` is a matrix of all items.
            scores: as items; or a matrix of users by items, dense or sparse. What is -inf, or not
                stored, is not ranked.
        Raises:
            DataError: the shapes do not fit [bad-matrix], the types are others than before
                [bad-type].
        """
        named = ids_of(users)
        if items is None and scores is None:
            raise RequestError("items or scores", code="missing-key", hint="update(users, items)")
        if items is None:
            rows = self._of_matrix(named, scores)
        else:
            rows = self._of_lists(named, items, None if scores is None else _numbers(scores))
        batch = rows.with_columns(pl.lit(0, pl.Int64).alias("batch"))
        self._batches.merge(Batches([batch] if batch.height else [], 1))

    def compute(self) -> Report:
        """The report of all batches so far, as `evaluate` makes it of their rows together.

        Raises:
            RequestError, DataError: as `evaluate`; a user without scores came in pieces, or ties
                are put in the order of rows of several batches [user-split]; an item came with
                several scores [scores-disagree].
        """
        if not self._batches.rows:
            hint = "call update(users, items, scores) first"
            raise RequestError("no batch has come", code="no-rankings", hint=hint)
        rows = pl.concat(self._batches.rows)
        order = "score" if "score" in rows.columns else "rank"
        ranked = _once(rows) if order == "score" else _whole(rows)
        tables = ("truth", "items", "users")
        named: dict[str, Mapping[str, Any]] = {
            t: in_memory.columns_of(self._columns, t) for t in tables
        }
        named["rankings"] = {name: name for name in ("user", "item", order)}
        report = evaluate(
            self._truth,
            {self._model: ranked.select("user", "item", order)},
            metrics=self._metrics,
            train=self._train,
            drop_seen=self._train is not None,
            columns={**named, "train": {"user": "user", "item": "item"}},
            **self._asked,
        )
        self._check_ties(ranked, report)
        return replace(report, warnings=(*report.warnings, *_repeats(rows, ranked)))

    def reset(self) -> None:
        """Forgets all batches, as before an epoch."""
        self._batches = Batches()

    def merge(self, other: "Evaluation | bytes") -> None:
        """Takes over the batches of another evaluation of the same, or what `to_bytes` made of it.

        Raises:
            DataError: it is of something else [foreign-partial]; bytes are none [not-a-partial], or
                damaged [damaged-partial].
        """
        if isinstance(other, Evaluation):
            asked, batches = other._facts, other._batches
        else:
            header, digest = read_header(other, BatchFacts)
            asked, batches = header.facts, read_body(other, Batches, digest)
        own = self._facts
        for name in {**own, **asked}:
            if asked.get(name) != own.get(name):
                message = f"{name} is {asked.get(name)!s:.80} there, and {own.get(name)!s:.80} here"
                hint = "make Evaluation(...) of the same arguments in every process"
                raise DataError(message, code="foreign-partial", hint=hint)
        self._batches.merge(batches)

    def to_bytes(self) -> bytes:
        """All batches, for `merge` in another process."""
        return b"".join(pieces_of_file(BatchFacts(self._facts), self._batches))

    @property
    def _facts(self) -> dict[str, str]:
        names, files = name_metrics(self._metrics)
        facts = {"the version": VERSION, "the model": self._model}
        facts["the metrics"] = ", ".join([*names, *(file.rpartition("#")[2] for file in files)])
        facts |= {"the truth": _mark(self._truth), "train": _mark(self._train)}
        return facts | {key: _mark(value) for key, value in sorted(self._asked.items())}

    def _seen(self, train: object) -> pl.DataFrame:
        """`user` and `item` of what models had seen."""
        columns = dict(in_memory.columns_of(self._columns, "train"))
        said = {key: dict(self._asked.pop(key, None) or {}) for key in ("where", "format", "files")}
        own = {key: of.pop("train") for key, of in said.items() if "train" in of}
        self._asked |= {key: of for key, of in said.items() if of}
        section = TrainTable.model_validate(
            {"path": in_memory.paths_of(train), "columns": columns, **own}
        )
        given = in_memory.taken_over(train, "train")
        found = open_train(section, given, Guessing("python"), keys=("user", "item")).frame
        return found.select(pl.col("user_0").alias("user"), "item").unique().collect()

    def _of_matrix(self, users: pl.Series, scores: Any) -> pl.DataFrame:
        matrix = scores if hasattr(scores, "tocoo") else _numbers(scores)
        if not hasattr(matrix, "tocoo") and matrix.ndim == 2:
            matrix = matrix.astype(np.float64)
            if self._train is not None:
                self._mask(matrix, users)
        found = frame_of(matrix, "rankings", users=users, items=self._items, depth=self._depth)
        assert found is not None
        return found.with_columns(pl.col("score").cast(pl.Float64))

    def _mask(self, matrix: npt.NDArray[np.float64], users: pl.Series) -> None:
        """Items that a user had seen are -inf, so that others come within the depth."""
        if len(users) != len(matrix):
            return  # told by whoever makes rows of it
        items = ids_of(np.arange(matrix.shape[1])) if self._items is None else self._items
        rows = pl.DataFrame({"user": users}).with_row_index("row")
        columns = pl.DataFrame({"item": items}).with_row_index("column")
        seen = cast("pl.DataFrame", self._train).select(
            pl.col("user").cast(users.dtype, strict=False),
            pl.col("item").cast(items.dtype, strict=False),
        )
        met = rows.join(seen, on="user").join(columns, on="item")
        matrix[met["row"].to_numpy(), met["column"].to_numpy()] = -np.inf

    def _of_lists(
        self, users: pl.Series, items: object, scores: npt.NDArray[Any] | None
    ) -> pl.DataFrame:
        ranked = _array(items)
        if ranked.dtype.kind == "f" and ranked.size:
            message = "items are numbers with a fraction, as scores are"
            hint = "a matrix of all items' scores is update(users, scores=matrix)"
            raise DataError(message, code="two-readings", at="update", hint=hint)
        shape, n = ranked.shape, len(users)
        if ranked.ndim > 2 or shape[:1] != (n,) or (scores is not None and scores.shape != shape):
            told = "" if scores is None else f", scores of {scores.shape}"
            message = f"there are {n:,} users, items of {shape}{told}"
            hint = "give users (n,) and items (n,) or (n, k), and scores of the shape of items"
            raise DataError(message, code="bad-matrix", at="update", hint=hint)
        width = shape[1] if ranked.ndim == 2 else 1
        owners = users.gather(np.repeat(np.arange(n), width)).alias("user")
        rows = pl.DataFrame([owners, ids_of(ranked).alias("item")])
        if scores is not None:
            rows = rows.with_columns(score=scores.astype(np.float64).reshape(-1))
        one = pl.int_range(pl.len()) // width if ranked.ndim == 2 else pl.col("user")
        rows = rows.with_columns(one.alias("list"))
        ranks = pl.int_range(1, pl.len() + 1, dtype=pl.Int64).over("list")
        rows = rows.with_columns(rank=ranks, n=pl.len().over("list").cast(pl.Int64))
        if scores is not None:
            rows = rows.filter(pl.col("score") != -np.inf).drop("rank", "n")
        if ranked.ndim == 2:
            _check_lists(rows)
        return rows.drop("list")

    def _check_ties(self, ranked: pl.DataFrame, report: Report) -> None:
        policies = cast("Mapping[str, object]", (report.config or {}).get("policies", {}))
        if policies.get("ties") not in BY_INPUT or "score" not in ranked.columns:
            return
        pieces = ranked.group_by("user").agg(pl.col("batch").n_unique())
        split = pieces.filter(pl.col("batch") > 1)
        if split.height:
            raise _split(split["user"].min(), "its ties are in the order of rows")


def _array(given: object) -> npt.NDArray[Any]:
    try:
        return array_of(given)
    except ValueError as error:  # of several lengths
        message = f"what was given is no array: {error}"
        hint = "give each user as many items; pad with the score -inf"
        raise DataError(message, code="bad-matrix", at="update", hint=hint) from error


def _numbers(scores: object) -> npt.NDArray[Any]:
    found = _array(scores)
    if found.dtype.kind not in "biuf":
        hint = "give numbers"
        message = f"scores are {found.dtype}, no numbers"
        raise DataError(message, code="bad-type", at="update", hint=hint)
    return found


def _check_lists(rows: pl.DataFrame) -> None:
    """Refuse lists that hold an item twice."""
    twice = rows.filter(pl.struct("list", "item").is_duplicated())
    if twice.height:
        message = f"a list holds an item twice: user {twice['user'][0]}, item {twice['item'][0]}"
        hint = "rank each item once; give what pads a list the score -inf"
        raise DataError(message, code="duplicate-item", at="update", hint=hint)


def _once(rows: pl.DataFrame) -> pl.DataFrame:
    """Each item of a user once, in the order of rows; of scores that rounding moved the largest."""
    key = ["user", "item"]
    if not rows.select(pl.struct(key).is_duplicated().any()).item():
        return rows
    found = rows.group_by(key, maintain_order=True).agg(
        pl.col("score").max(), pl.col("score").min().alias("low"), pl.col("batch").min()
    )
    finite = rows.select(pl.col("score").abs().filter(pl.col("score").is_finite()).max()).item()
    apart = found.filter(pl.col("score") - pl.col("low") > ROUNDING * (finite or 0.0))
    if apart.height:
        user, item, high, low, _ = apart.row(0)
        raise DataError(
            f"an item came with several scores: user {user}, item {item}, {low:.6g} and {high:.6g}",
            code="scores-disagree",
            at="update",
            hint="reset() before an epoch, and give each user's items once",
        )
    return found.drop("low")


def _whole(rows: pl.DataFrame) -> pl.DataFrame:
    """Each list once, where no user has several.

    Raises:
        RequestError: one has [user-split].
    """
    found = rows.unique(["user", "item", "rank", "n"], keep="first", maintain_order=True)
    lists = found.group_by("user").agg(pl.len(), pl.col("n").min(), pl.col("n").max().alias("most"))
    split = lists.filter((pl.col("len") != pl.col("n")) | (pl.col("n") != pl.col("most")))
    if split.height:
        raise _split(split["user"].min(), "lists without scores have no common order")
    return found


def _split(user: object, because: str) -> EvalkitError:
    message = f"user {user} came in several batches: {because}"
    hint = "give scores, and one batch all items of a user"
    return RequestError(message, code="user-split", at="update", hint=hint)


def _repeats(rows: pl.DataFrame, ranked: pl.DataFrame) -> list[Warning_]:
    n = rows.height - ranked.height
    if not n:
        return []
    message = f"{n:,} of {rows.height:,} rows came again, as padding repeats them, and count once"
    return [Warning_("repeated-rows", message)]


def _mark(value: object) -> str:
    """A text that is another one for another table or argument."""
    frame = value.frame if isinstance(value, Named) else value
    if isinstance(frame, pl.DataFrame):
        return f"{frame.height:,} rows, {frame.hash_rows(seed=40).sum():x}"
    return str(in_memory.paths_of(frame)) if in_memory.is_path(frame) else repr(value)
