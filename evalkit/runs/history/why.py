"""What moved the numbers between two finished runs, whose truths may differ."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import polars as pl

from evalkit.aggregate.accumulators.parts import PART_SCHEMA, read_sum
from evalkit.errors import DataError, RequestError, did_you_mean
from evalkit.metrics import load_metric_files, parse_metrics
from evalkit.report import Estimate, Report
from evalkit.runs.history._truths import differences_of_truth
from evalkit.statistics.change import Change, UserCell, explain_change
from evalkit.statistics.change_errors import ChangeErrors, Spread, change_errors
from evalkit.statistics.distributions import t_quantile
from evalkit.statistics.exact import ExactSum

_ALWAYS = ("model", "metric", "relevant", "is_ranked", "n_users", "sum")
_PAIRED = "both runs have the same users, whom evalkit compare pairs"
Named = tuple[str, Report]  # what a person calls the run, and its report


@dataclass(frozen=True, slots=True)
class Explained:
    """The change of one metric of one model; `segmentation` None: all users are one segment.

    Args:
        level: of the limits.
        reach: how many standard errors they lie away.
        errors: None where they cannot be known, for the reason that is `unknown`.
    """

    model: str
    metric: str
    segmentation: str | None
    change: Change
    level: float = 0.95
    reach: float = math.nan
    errors: ChangeErrors | None = None
    unknown: str = ""

    def limits(self, part: str, segment: str | None = None) -> tuple[float, float] | None:
        """Those of `delta`, or of mix, truth, coverage, within; of all users or of a segment."""
        if self.errors is None:
            return None
        if part == "delta":
            size, error = self.change.parts.total, self.errors.total
        else:
            own, errors = self.change.parts, self.errors.parts
            if segment is not None:
                own, errors = self.change.segments[segment], self.errors.segments[segment]
            size, error = getattr(own, part), getattr(errors, part)
        return size - self.reach * error, size + self.reach * error


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
    reports = before[1], after[1]
    level = reports[1].statistics.level if reports[1].statistics else 0.95
    is_paired = not differences_of_truth(*reports)
    bounds = {name: each.bounds for name, each in load_metric_files((), reports[0].kind).items()}
    found = []
    for model in _chosen(models, [each["model"] for each in parts], "model", "unknown-model"):
        listed = [each.filter(model=model)["metric"] for each in parts]
        for metric in _chosen(labels or (), listed, "metric", "metric-not-in-report"):
            try:
                old, new = (_cells(each, model, metric, segmentation) for each in parts)
                change = explain_change(old, new)
            except (ValueError, ArithmeticError) as error:
                raise _damaged(" or ".join((before[0], after[0])), str(error)) from error
            explained = Explained(model, metric, segmentation, change, level)
            if is_paired:
                explained = replace(explained, unknown=_PAIRED)
            else:
                explained = _with_errors(explained, reports, (old, new), bounds)
            found.append(explained)
    return found


def _with_errors(
    explained: Explained,
    reports: tuple[Report, Report],
    cells: tuple[Mapping[UserCell, ExactSum], Mapping[UserCell, ExactSum]],
    bounds: Mapping[str, tuple[float, float]],
) -> Explained:
    """The same with errors, or with why there are none."""
    try:
        old, new = (
            _spread(report, explained, each, bounds)
            for report, each in zip(reports, cells, strict=True)
        )
    except _UnknownError as error:
        return replace(explained, unknown=str(error))
    errors = change_errors(cells, (old, new))
    if errors is None:
        return replace(explained, unknown="a run has fewer than two users")
    df = min(sum(each.count for each in run.values()) for run in cells) - 1
    return replace(explained, errors=errors, reach=t_quantile(0.5 + explained.level / 2.0, df))


class _UnknownError(Exception):
    """Why a run does not say how far its users lie apart."""


def _spread(
    report: Report,
    explained: Explained,
    cells: Mapping[UserCell, ExactSum],
    bounds: Mapping[str, tuple[float, float]],
) -> Spread:
    """How far the users of a run lie apart: by its standard errors, of segments if it has them.

    Raises:
        _UnknownError: they are not those of the users in the cells.
    """
    users: dict[str | None, ExactSum] = {}
    for cell, sums_of_cell in cells.items():
        for segment in (None, cell.segment):
            users[segment] = users.get(segment, ExactSum()).merge(sums_of_cell)
    squares: dict[str | None, float | None] = {}
    name = ""
    for segment, total in users.items():
        of = None if segment is None or explained.segmentation is None else explained.segmentation
        found = report.estimate(explained.model, explained.metric, of, of and segment)
        squares[segment] = _squares(found, total)
        if found is not None:
            name = found.name
            if found.n_clusters is not None:
                raise _UnknownError("errors over clusters are not those of single users")
    whole = squares.pop(None, None)
    if whole is None:
        raise _UnknownError(f"{report.run_id} has no standard error of these users")
    known = {key: each for key, each in squares.items() if each is not None}
    low, high = bounds.get(name, (-math.inf, math.inf))
    return Spread(
        known if len(known) == len(squares) else {None: whole},
        (min(low, 0.0), max(high, 0.0)),  # whom a run counts with 0 may lie beyond them
    )


def _squares(found: Estimate | None, total: ExactSum) -> float | None:
    """The sum of squared distances from the mean; None where the number is of other users."""
    n = total.count
    if found is None or found.n_users != n or not math.isclose(found.value, total.mean):
        return None
    if n < 2:
        return 0.0
    return None if found.std_error is None else n * (n - 1) * found.std_error**2


def _parts_of(name: str, report: Report) -> pl.DataFrame:
    if report.parts is None:
        message = f"run {name} kept nothing that explains a change"
        hint = "runs of rankings keep it, but those with weights of users: run it again"
        raise DataError(message, code="parts-missing", hint=hint)
    parts = report.parts
    missing = [
        column for column in _ALWAYS if column in parts.columns and parts[column].has_nulls()
    ]
    if dict(parts.schema) != PART_SCHEMA or missing or (parts["n_users"] < 0).any():
        raise _damaged(name, "its table is of another form")
    return parts


def _damaged(name: str, reason: str) -> DataError:
    message = f"what run {name} kept to explain a change cannot be read: {reason}"
    return DataError(message, code="run-damaged", at=name, hint="run it again")


def _segmentation(parts: Sequence[pl.DataFrame], by: str | None) -> str | None:
    names = [each["segmentation"].drop_nulls().unique(maintain_order=True) for each in parts]
    common = [name for name in names[0] if name in set(names[1])]
    if by is None:
        return common[0] if common else None
    if by not in common:
        known = ", ".join(common) or "none"
        message = f"the runs have no segmentation {by!r} in common"
        hint = did_you_mean(by, common, f"they have {known}")
        raise RequestError(message, code="unknown-segmentation", at="--by", hint=hint)
    return by


def _chosen(wanted: Sequence[str], listed: Sequence[pl.Series], what: str, code: str) -> list[str]:
    names = [each.unique(maintain_order=True).to_list() for each in listed]
    common = [name for name in names[0] if name in set(names[1])]
    for name in wanted:
        if name not in common:
            hint = did_you_mean(name, common, f"they have {', '.join(common)}")
            raise RequestError(f"the runs have no {what} {name!r} in common", code=code, hint=hint)
    return list(dict.fromkeys(wanted)) or common


def _cells(
    parts: pl.DataFrame, model: str, metric: str, segmentation: str | None
) -> dict[UserCell, ExactSum]:
    rows = parts.filter(
        pl.col("model") == model,
        pl.col("metric") == metric,
        pl.col("segmentation").eq_missing(pl.lit(segmentation, dtype=pl.String)),
    )
    return {
        UserCell(segment or "", relevant, is_ranked): ExactSum(n_users, read_sum(text))
        for segment, relevant, is_ranked, n_users, text in rows.select(
            "segment", "relevant", "is_ranked", "n_users", "sum"
        ).rows()
    }
