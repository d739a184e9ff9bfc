"""What moved the numbers between two finished runs, whose truths may differ."""

from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl

from evalkit.errors import DataError, RequestError, nearest
from evalkit.exact import ExactSum
from evalkit.looks.parts import PART_SCHEMA, read_sum
from evalkit.metrics import parse_metrics
from evalkit.report import Report
from evalkit.statistics.change import Cell, Change, explain_change

_ALWAYS = ("model", "metric", "relevant", "is_ranked", "n_users", "sum")
Named = tuple[str, Report]  # what a person calls the run, and its report


@dataclass(frozen=True, slots=True)
class Explained:
    """The change of one metric of one model; `segmentation` None: all users are one segment."""

    model: str
    metric: str
    segmentation: str | None
    change: Change


def explain_runs(
    before: Named,
    after: Named,
    *,
    metrics: Sequence[str] = (),
    models: Sequence[str] = (),
    by: str | None = None,
) -> list[Explained]:
    """Every number that both runs have, and why it moved.

    Args:
        metrics, models: which of them; all by default.
        by: the segmentation whose segments are the mix; by default the first that both have.
    Raises:
        DataError: a run kept no parts [parts-missing].
        RequestError: no such segmentation, metric or model [unknown-segmentation,
            metric-not-in-report, unknown-model].
    """
    parts = [_parts_of(*each) for each in (before, after)]
    segmentation = _segmentation(parts, by)
    given = [each for each in metrics if each in before[1].labels]
    asked = [each for each in metrics if each not in given]
    parsed = [request.label for request in parse_metrics(asked)] if asked else []
    labels = [*given, *parsed] if metrics else None
    found = []
    for model in _chosen(models, [each["model"] for each in parts], "model", "unknown-model"):
        listed = [each.filter(model=model)["metric"] for each in parts]
        for metric in _chosen(labels or (), listed, "metric", "metric-not-in-report"):
            try:
                cells = [_cells(each, model, metric, segmentation) for each in parts]
                change = explain_change(*cells)
            except (ValueError, ArithmeticError) as error:
                raise _damaged(" or ".join((before[0], after[0])), str(error)) from error
            found.append(Explained(model, metric, segmentation, change))
    return found


def _parts_of(name: str, report: Report) -> pl.DataFrame:
    if report.parts is None:
        raise DataError(
            f"run {name} kept nothing that explains a change",
            code="parts-missing",
            hint="runs of rankings keep it, but those with weights of users: run it again",
        )
    parts = report.parts
    missing = [
        column for column in _ALWAYS if column in parts.columns and parts[column].has_nulls()
    ]
    if dict(parts.schema) != PART_SCHEMA or missing or (parts["n_users"] < 0).any():
        raise _damaged(name, "its table is of another form")
    return parts


def _damaged(name: str, reason: str) -> DataError:
    return DataError(
        f"what run {name} kept to explain a change cannot be read: {reason}",
        code="run-damaged",
        at=name,
        hint="run it again",
    )


def _segmentation(parts: Sequence[pl.DataFrame], by: str | None) -> str | None:
    names = [each["segmentation"].drop_nulls().unique(maintain_order=True) for each in parts]
    common = [name for name in names[0] if name in set(names[1])]
    if by is None:
        return common[0] if common else None
    if by not in common:
        close = nearest(by, common)
        known = ", ".join(common) or "none"
        raise RequestError(
            f"the runs have no segmentation {by!r} in common",
            code="unknown-segmentation",
            at="--by",
            hint=f"did you mean {close!r}?" if close else f"they have {known}",
        )
    return by


def _chosen(wanted: Sequence[str], listed: Sequence[pl.Series], what: str, code: str) -> list[str]:
    names = [each.unique(maintain_order=True).to_list() for each in listed]
    common = [name for name in names[0] if name in set(names[1])]
    for name in wanted:
        if name not in common:
            close = nearest(name, common)
            raise RequestError(
                f"the runs have no {what} {name!r} in common",
                code=code,
                hint=f"did you mean {close!r}?" if close else f"they have {', '.join(common)}",
            )
    return list(wanted) or common


def _cells(
    parts: pl.DataFrame, model: str, metric: str, segmentation: str | None
) -> dict[Cell, ExactSum]:
    rows = parts.filter(
        pl.col("model") == model,
        pl.col("metric") == metric,
        pl.col("segmentation").eq_missing(pl.lit(segmentation, dtype=pl.String)),
    )
    return {
        Cell(segment or "", relevant, is_ranked): ExactSum(n_users, read_sum(text))
        for segment, relevant, is_ranked, n_users, text in rows.select(
            "segment", "relevant", "is_ranked", "n_users", "sum"
        ).rows()
    }
