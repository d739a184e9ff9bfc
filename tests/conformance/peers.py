"""What libraries print, and with which names, parameters and inputs evalkit gives the same.

The vectors in `vectors/` are numbers that the libraries really gave, each in the version that its
file names, on small inputs made for the purpose; `vectors/README.md` says more.
"""

import gzip
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import polars as pl

import evalkit
from evalkit.report import Report

VECTORS = Path(__file__).parent / "vectors"

# the neutral name of a metric, and how evalkit writes it
NAMES = {
    "hit_rate": "hit",
    "hits": "hits",
    "precision": "precision",
    "recall": "recall",
    "f1": "F1",
    "r_precision": "R-precision",
    "rr": "RR",
    "ap": "AP",
    "ap_all_relevant": "AP(over='relevant')",
    "dcg": "DCG",
    "dcg_exp": "DCG(gain='exp2')",
    "ndcg": "nDCG",
    "ndcg_exp": "nDCG(gain='exp2')",
    "ndcg_binary": "nDCG(gain='binary')",
    "rbp": "RBP",
    "auc_within_list": "AUC",
    "partial_auc": "partial-AUC",
    "pap": "PAP",
    "gauc": "AUC",
    "lauc": "AUC",
}

TOLERANCES = {"torchmetrics": 2e-6}
EXACT = 1e-12


@dataclass(frozen=True)
class Way:
    """How a variant is reproduced.

    Args:
        metrics: neutral name -> how it is written instead.
        policies: set by hand on top of the profile.
        form: what happens to the input before it is given: a name in `FORMS`.
        threshold: in place of the fixture's.
    """

    metrics: Mapping[str, str] = field(default_factory=dict)
    policies: Mapping[str, str | int] = field(default_factory=dict)
    form: str = "rows"
    threshold: float | None = None


@dataclass(frozen=True)
class Reason:
    """Why a record, or a whole variant, is not compared."""

    why: str


SAME = Way()
TORCH_TIES = Reason("torch's topk and argsort have no rule for equal scores")
NUMPY_TIES = Reason("NumPy's argsort has no rule for equal scores and differs between processors")
GRADED = "nDCG(gain='linear', below_threshold='count')"

WAYS: dict[tuple[str, str], Way | Reason] = {
    ("cornac", "default"): SAME,
    ("cornac", "per_user_with_hit"): Way({"rr": "RR(zeros='skip')"}),
    ("cornac", "beside_precision@3"): SAME,  # the fixture is too small for its fault to show
    ("elliot", "default"): Way({"gauc": "GAUC", "lauc": "LAUC"}),
    ("evidently", "default"): SAME,
    ("evidently", "no_feedback"): Way(policies={"no_relevant": "zero"}),
    ("evidently", "rows_reversed"): Way(form="reversed"),
    ("ir_measures", "default"): Way({"ndcg_exp": "nDCG(gain='exp2', round_users=5)"}),
    ("lenskit", "default"): SAME,
    ("lenskit", "default:offset=1"): Way({"ndcg": "nDCG(discount='log')"}),
    ("lenskit", "default:discount=log2"): SAME,
    ("lenskit", "default:gain=rating"): Way({"ndcg": "nDCG(gain='linear')"}),
    ("lenskit", "missing_as_empty"): Way(form="empty lists"),
    ("lenskit", "missing_as_empty:offset=1"): Way(
        {"ndcg": "nDCG(discount='log')"}, form="empty lists"
    ),
    ("lenskit", "missing_as_empty:discount=log2"): Way(form="empty lists"),
    ("lenskit", "missing_as_empty:gain=rating"): Way(
        {"ndcg": "nDCG(gain='linear')"}, form="empty lists"
    ),
    ("pytrec_eval", "default"): SAME,
    ("pytrec_eval", "relevance_level=2"): Way(threshold=2.0),
    ("pytrec_eval", "all_qrels_users"): Way(policies={"missing_ranking": "zero"}),
    ("ranx", "default"): SAME,
    ("ranx", "plain_dicts"): Way(policies={"ties": "numba-reversed"}),
    ("ranx", "rel_lvl=2"): Way(threshold=2.0),
    ("recbole", "default"): SAME,
    ("recbole", "keep_empty"): Way(
        {"recall": "recall(no_relevant='nan')"}, policies={"no_relevant": "zero"}
    ),
    ("recmetrics", "default"): SAME,
    ("recmetrics", "keep_empty"): Way(policies={"no_relevant": "zero"}),
    ("recommenders", "default"): SAME,
    ("recommenders", "default:raw"): Way({"ndcg": "nDCG(gain='linear')"}),
    ("recommenders", "default:exp"): Way({"ndcg": "nDCG(gain='exp2')"}),
    ("recommenders", "all_rows"): Way(
        {"ndcg": "nDCG(gain='binary')"}, {"negative_relevance": "subtract"}, threshold=-1e9
    ),
    ("recommenders", "all_rows:raw"): Way(
        {"ndcg": "nDCG(gain='linear')"}, {"negative_relevance": "subtract"}, threshold=-1e9
    ),
    ("recommenders", "all_rows:exp"): Way(
        {"ndcg": "nDCG(gain='exp2')"}, {"negative_relevance": "subtract"}, threshold=-1e9
    ),
    ("rectools", "default"): SAME,
    ("rectools", "r_precision=True"): SAME,
    ("rectools", "divide_by_k=True"): Way({"ap": "AP(over='k')"}),
    ("rectools", "divide_by_achievable=True"): Way({"ndcg": "nDCG(idcg='all')"}),
    ("rectools", "log_base=3"): Way({"ndcg": "nDCG(log_base=3)"}),
    ("replay", "default"): SAME,
    ("replay", "pandas"): SAME,
    ("replay", "dict"): Way(policies={"ties": "input"}),
    ("replay", "dict_keep_empty"): Way(policies={"ties": "input", "no_relevant": "zero"}),
    ("rs_metrics", "default"): SAME,
    ("rs_metrics", "keep_empty"): Way(
        {"recall": "recall(no_relevant='nan')", "ndcg": "nDCG(no_relevant='nan')"},
        policies={"no_relevant": "zero"},
    ),
    ("sklearn", "list"): SAME,
    ("sklearn", "list:log_base=e"): Way({"dcg": "DCG(log_base=e)"}),
    ("sklearn", "list:ignore_ties"): Way(policies={"ties": "input"}),
    ("sklearn", "catalog"): Way(form="catalogue"),
    ("sklearn", "catalog:log_base=e"): Way({"dcg": "DCG(log_base=e)"}, form="catalogue"),
    ("sklearn", "catalog:ignore_ties"): NUMPY_TIES,  # what no list shows ties at the end
    ("spark", "default"): SAME,
    ("spark", "keep_empty"): Way(policies={"no_relevant": "zero"}),
    ("spark", "pyspark_relevance"): SAME,
    ("spark", "graded"): Reason("the ideal list depends on the order of the truth's rows: a bug"),
    ("spark", "graded_sorted"): Way({"ndcg": "nDCG(gain='exp2', below_threshold='ignore')"}),
    ("torchmetrics", "default"): SAME,
    ("torchmetrics", "float64"): SAME,
    ("torchmetrics", "graded"): Way({"ndcg": GRADED}),
}

TIED = ("ties", "ties_text", "full_ties", "float32_ties")


def reason_for(library: str, record: Mapping[str, Any]) -> Reason | None:
    """Why a single record of a variant that is compared otherwise is not."""
    if "error" in record:
        return Reason("the library raised")
    if library in ("recbole", "torchmetrics") and record["fixture"] in TIED:
        if library == "recbole" or record["metric"] != "ndcg":
            return TORCH_TIES
    if library == "cornac" and record["fixture"] in TIED:
        return NUMPY_TIES
    if record["variant"] == "list:ignore_ties" and record["fixture"] in TIED:
        return NUMPY_TIES
    return None


def tolerance_of(library: str, record: Mapping[str, Any]) -> float:
    """How far values may lie apart: float32, or a difference of float32 values that cancel."""
    if library == "torchmetrics" and record["fixture"] == "negative":
        return 4e-6  # one value of -1.6 is a quotient of such differences
    return TOLERANCES.get(library, EXACT)


@cache
def fixture(name: str) -> dict[str, Any]:
    text = (VECTORS / "fixtures" / f"{name}.json").read_text(encoding="utf-8")
    return dict(json.loads(text))


@cache
def records(library: str) -> list[dict[str, Any]]:
    """Every record of a library, as it was written down."""
    text = gzip.decompress((VECTORS / f"{library}.jsonl.gz").read_bytes()).decode("utf-8")
    return [json.loads(line) for line in text.splitlines()[1:]]


def libraries() -> list[str]:
    return sorted(file.name.partition(".")[0] for file in VECTORS.glob("*.jsonl.gz"))


def truth_of(data: Mapping[str, Any]) -> pl.DataFrame:
    rows = [
        (row["user"], item, float(relevance))
        for row in data["qrels"]
        for item, relevance in zip(row["items"], row["rels"], strict=True)
    ]
    return pl.DataFrame(rows, schema=["user", "item", "relevance"], orient="row")


def rankings_of(data: Mapping[str, Any], form: str) -> pl.DataFrame:
    """The run as a table: a row an item, or a row a user."""
    run = [(row["user"], row["items"], row["scores"]) for row in data["run"]]
    if form == "empty lists":
        ranked = {user for user, _, _ in run}
        run += [(row["user"], [], []) for row in data["qrels"] if row["user"] not in ranked]
        item = pl.String if isinstance(data["catalog"][0], str) else pl.Int64
        user = pl.String if isinstance(run[0][0], str) else pl.Int64
        schema = {"user": user, "item": pl.List(item), "score": pl.List(pl.Float64)}
        return pl.DataFrame(run, schema=schema, orient="row")
    if form == "catalogue":
        run = [_whole(data["catalog"], *row) for row in run]
    rows = [
        (user, item, float(score))
        for user, items, scores in run
        for item, score in zip(items, scores, strict=True)
    ]
    frame = pl.DataFrame(rows, schema=["user", "item", "score"], orient="row")
    return frame.reverse() if form == "reversed" else frame


def _whole(
    catalogue: Sequence[object], user: object, items: list[object], scores: list[float]
) -> tuple[object, list[object], list[float]]:
    """A list over the whole catalogue: what it lacks ties below its last item."""
    others = [item for item in catalogue if item not in set(items)]
    lowest = min(scores) - 1 if scores else 0.0
    return user, [*items, *others], [*scores, *[lowest] * len(others)]


def profile_of(library: str) -> str:
    return "trec_eval" if library == "pytrec_eval" else library


def written(metric: str, cutoff: int | None, way: Way) -> str:
    name = way.metrics.get(metric, NAMES[metric])
    return name if cutoff is None else f"{name}@{cutoff}"


def evaluate(
    library: str, data: Mapping[str, Any], asked: Sequence[tuple[str, int | None]], way: Way
) -> Report:
    """evalkit's report of a fixture under the library's profile."""
    threshold = data["threshold"] if way.threshold is None else way.threshold
    names = list(dict.fromkeys(written(metric, cutoff, way) for metric, cutoff in asked))
    return evalkit.evaluate(
        truth_of(data),
        {"run": rankings_of(data, way.form)},
        metrics=names,
        profile=profile_of(library),
        policies=dict(way.policies),
        threshold=float(threshold),
        columns={"user": "user", "item": "item", "score": "score", "relevance": "relevance"},
        per_user=True,
        threads=1,
    )


def number(value: float | str) -> float:
    return float(value)


def differences(
    library: str, record: Mapping[str, Any], report: Report, way: Way
) -> Iterator[tuple[str, float, float]]:
    """Where a record and a report differ: whom, the library's value, evalkit's."""
    name = written(record["metric"], record["k"], way)
    tolerance = tolerance_of(library, record)
    theirs, ours = number(record["mean"]), report.value(name)
    if not _same(theirs, ours, tolerance):
        yield "mean", theirs, ours
    if record.get("per_user") is None:
        return
    frame = report.per_user(name)
    column = next(each for each in frame.columns if each != "user")
    values = dict(zip(map(str, frame["user"]), frame[column], strict=True))
    for user, value in record["per_user"].items():
        theirs, ours = number(value), values.get(user, math.nan)
        if not _same(theirs, ours, tolerance) and not _is_exempt(library, record, theirs, ours):
            yield f"user {user}", theirs, ours


def _same(theirs: float, ours: float, tolerance: float) -> bool:
    if math.isnan(theirs) or math.isnan(ours):
        return math.isnan(theirs) and math.isnan(ours)
    return abs(theirs - ours) <= tolerance


def _is_exempt(library: str, record: Mapping[str, Any], theirs: float, ours: float) -> bool:
    """A user's value that was read by a call on that user alone, which answers something else.

    evidently: F of the mean of one user is undefined where it is 0. recommenders, cornac: so is
    the mean over the users with a value above 0.
    """
    if math.isnan(theirs) and ours == 0 and record["metric"] in ("r_precision", "rr"):
        return library in ("recommenders", "cornac")
    return library == "evidently" and record["metric"] == "f1" and math.isnan(theirs) and ours == 0
