"""From the rows of all shares to a report: agreement, truth, and judges who stand out."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl

from evalkit.errors import DataError, RequestError
from evalkit.inference.conclude import Inference
from evalkit.kinds.judges import people
from evalkit.kinds.judges.consensus import Consensus, consensus_of, write_truth
from evalkit.kinds.judges.declaration import JudgesTable
from evalkit.kinds.judges.estimates import estimate, maker_of, used_statistics
from evalkit.kinds.judges.open import section_of
from evalkit.kinds.judges.preferences import conclude_preferences
from evalkit.kinds.judges.ratings import Ratings, read_ratings
from evalkit.metrics import Request, known_metrics
from evalkit.planning.counters import Clock, versions
from evalkit.planning.record import RunResults, make_report
from evalkit.planning.work import MeasureOptions, ShareResult
from evalkit.report import (
    Counts,
    Distribution,
    Estimate,
    ModelCounts,
    PerUser,
    Report,
    TruthCounts,
    Warning_,
)
from evalkit.statistics import agreement
from evalkit.statistics.agreement import MISSING
from evalkit.statistics.intervals import NO_INTERVAL, Interval, mean_interval

ALL = "judges"  # what the column of models says where there are no judges that are models
PEOPLE = "people"
COMPANIONS = ("alpha", "AC", "agreement")  # one number of agreement alone misleads
OF_PREFERENCES, OF_ANSWERS = ("win-rate", "bradley-terry"), ("SUS", "likert")
FEW_JUDGES, FEW_DISAGREEMENTS = 10, 10


def conclude_judges(
    left: ShareResult, work: MeasureOptions, told: Sequence[Warning_], clock: Clock | None
) -> Report:
    """The report of all shares.

    Raises:
        RequestError: metrics of ratings are asked of preferences, or the other way round
            [metric-of-other-kind].
        DataError: as `read_ratings` and `read_preferences` raise it.
    """
    if clock is None:
        clock = work.clock()
        clock.start()
    config, body = left.config, left.sums
    section, frame = section_of(config), body.frame
    names = {request.metric.name for request in config.requests}
    is_preferred = section.columns.preferred is not None
    strange = sorted(names - set(OF_PREFERENCES)) if is_preferred else names & {*OF_PREFERENCES}
    if strange:
        other = "ratings" if is_preferred else "preferences"
        raise RequestError(
            f"{', '.join(sorted(strange))} is made of {other}, and the table holds "
            f"{'preferences' if is_preferred else 'ratings'}",
            code="metric-of-other-kind",
            at=config.at("metrics", "names"),
            hint="preferences give win-rate and bradley-terry; ratings give alpha, AC, agreement",
        )
    if is_preferred:
        found = conclude_preferences(config, frame, at=body.at)
        truth = None
    else:
        ratings = read_ratings(frame, section, list(config.segments.named), at=body.at)
        found, truth = _conclude_ratings(config, section, ratings, body.unit_names, work)
    clock.stop("aggregate")
    found = replace(found, warnings=(*told, *found.warnings))
    meta = clock.meta(frame.height, work.useful_threads, versions())
    report = make_report(config, found, left.inputs, meta, clock=clock, sample=work.sample)
    if truth is None:
        return report
    if section.truth.path is not None:
        write_truth(truth.table, section.truth.path)
    return replace(report, truth=truth.table, judge_errors=truth.errors)


def _conclude_ratings(
    config: Any,
    section: JudgesTable,
    ratings: Ratings,
    unit_names: Sequence[str],
    work: MeasureOptions,
) -> tuple[RunResults, Consensus]:
    chosen = config.statistics
    models = [judge for judge in section.models if judge in ratings.judges]
    if len(models) < len(section.models):
        absent = ", ".join(sorted(set(section.models) - set(models)))
        raise DataError(
            f"no rating is by {absent}, which models under [judges] names",
            code="unknown-judge",
            at=config.at("judges", "models"),
            hint=f"the judges are {', '.join(ratings.judges[:8])}",
        )
    persons = [judge for judge in ratings.judges if judge not in models]
    requests = list(config.requests)
    asked = {request.metric.name for request in requests}
    known = known_metrics("judges")
    if asked - set(OF_ANSWERS):
        requests += [known[name].request() for name in COMPANIONS if name not in asked]
    measure = _Measure(section, chosen)
    everybody = PEOPLE if models else ALL
    codes = ratings.of(persons)
    estimates = [*measure.all(requests, everybody, ratings, codes)]
    for name, segments in ratings.segments.items():
        for segment in sorted({str(each) for each in segments if each is not None}):
            held = segments == segment
            where = {"segmentation": name, "segment": segment}
            estimates += measure.all(requests, everybody, ratings, codes[held], **where)
    warnings = [*_warnings(section, ratings, persons, codes)]
    found = people.look_at(ratings, section, config, models)
    warnings += found.warnings
    truth = consensus_of(ratings, section.truth, unit_names, persons)
    warnings += truth.warnings
    shares = truth.unit_agreement
    counts = ratings.codes != MISSING
    n_rated = int(counts.sum())
    # what the judges of each group did
    groups = {everybody: counts[:, [ratings.judges.index(judge) for judge in persons]]}
    groups |= {model: counts[:, [ratings.judges.index(model)]] for model in models}
    report_counts = Counts(
        TruthCounts(
            ratings.n_rows, n_rated, {"no_rating": ratings.n_null}, ratings.units.height,
            int((~counts.any(axis=1)).sum()), n_rated, None,
        ),
        {name: _counts_of(group) for name, group in groups.items()},
    )  # fmt: skip
    edges = tuple(np.linspace(0, 1, 11).tolist())
    known_shares = shares[~np.isnan(shares)]
    histogram = tuple(np.histogram(known_shares, bins=np.array(edges))[0].tolist())
    inference = Inference(
        estimates=(*estimates, *found.estimates),
        comparisons=found.comparisons,
        standings=(),
        findings=(),
        macros=(),
        used=used_statistics(config, len(found.comparisons)),
        warnings=(),
    )
    per_user = None
    if work.keep_users:
        labels = ("agreement",)
        values = ratings.units.rename(
            {f"user_{place}": name for place, name in enumerate(unit_names)}
        ).with_columns(pl.Series("agreement", shares))
        per_user = PerUser(tuple(unit_names), labels, {everybody: values})
    return (
        RunResults(
            report_counts,
            inference,
            warnings,
            distributions=[Distribution(everybody, "agreement", edges, histogram)],
            per_user_values=per_user,
            graphs=people.confusions(ratings, ratings.judges),
        ),
        truth,
    )


def _counts_of(made: np.ndarray[Any, np.dtype[np.bool_]]) -> ModelCounts:
    n = int(made.sum())
    return ModelCounts(
        rows=n, rows_used=n, rows_dropped={}, users=int(made.any(axis=1).sum()),
        users_without_ranking=int((~made.any(axis=1)).sum()), users_without_truth=0, duplicates=0,
        duplicates_searched="all", seen_in_train=None, bad_ranks=0, ties=0,
        depth=int(made.sum(axis=1).max(initial=0)),
    )  # fmt: skip


class _Measure:
    """Coefficients with their limits."""

    def __init__(self, section: JudgesTable, chosen: Any) -> None:
        self.section, self.chosen = section, chosen

    def all(
        self, requests: Sequence[Request], model: str, ratings: Ratings, codes: Any, **where: Any
    ) -> Iterator[Estimate]:
        """Every metric over some units."""
        for request in requests:
            if request.metric.name in OF_ANSWERS:
                yield self._answers(request, model, ratings, codes, where)
                continue
            n_ratings = (codes != MISSING).sum(axis=1)
            is_whole = request.metric.name in ("ICC", "cohen")
            n_units = int((n_ratings >= (codes.shape[1] if is_whole else 2)).sum())
            value, interval = self._coefficient(request, ratings, codes)
            n_judges = int((codes != MISSING).any(axis=0).sum())
            yield estimate(
                request, model, value, interval, n_units, n_undefined=len(codes) - n_units,
                n_clusters=n_judges, **where,
            )  # fmt: skip

    def _coefficient(
        self, request: Request, ratings: Ratings, codes: Any
    ) -> tuple[float, Interval]:
        """The value, and its limits over units (and over judges, where they are drawn)."""
        make = maker_of(request, ratings.levels, self.section.kind)
        coefficient, chosen = make(codes.shape[1]), self.chosen
        sums = coefficient.features(codes).sum(axis=0)
        value = float(coefficient.read(sums))
        if request.metric.name == "ICC" and self.section.judges == "these":
            form = str(dict(request.parameters)["form"])
            return value, agreement.intraclass_interval(
                sums, codes.shape[1], form=form, level=chosen.level
            )
        if math.isnan(value):
            return value, NO_INTERVAL
        draws = agreement.resample(
            make,
            codes,
            n_draws=chosen.replicates,
            seed=chosen.seed,
            judges=self.section.judges == "others",
        )
        return value, agreement.bca_interval(value, draws, level=chosen.level)

    def _answers(
        self, request: Request, model: str, ratings: Ratings, codes: Any, where: Mapping[str, Any]
    ) -> Estimate:
        values = people.answers_of(request, ratings, codes)
        good = values[~np.isnan(values)]
        interval, error = NO_INTERVAL, None
        if len(good) > 1:
            error = float(good.std(ddof=1) / math.sqrt(len(good)))
            interval = mean_interval(
                float(good.mean()), error, len(good), level=self.chosen.level
            ).within(request.metric.bounds)
        mean = float(good.mean()) if len(good) else math.nan
        return estimate(
            request, model, mean, interval, len(good), n_undefined=len(values) - len(good),
            std_error=error, **where,
        )  # fmt: skip


def _warnings(
    section: JudgesTable, ratings: Ratings, persons: Sequence[str], codes: Any
) -> Iterator[Warning_]:
    if not section.levels:
        shown = ", ".join(ratings.names[:8])
        yield Warning_(
            "guessed-levels", f"levels are those that were given: {shown}; levels = [...] names all"
        )
    made = codes != MISSING
    if len(persons) < 2:
        yield Warning_("few-judges", "one judge alone: agreement is undefined")
    elif section.judges == "others" and len(persons) < FEW_JUDGES:
        yield Warning_(
            "few-judges",
            f"{len(persons)} judges: limits for other judges like them are too narrow below "
            f"{FEW_JUDGES}",
        )
    single = int((made.sum(axis=1) == 1).sum())
    if single:
        yield Warning_(
            "thin-units", f"{single:,} units have one rating: they say nothing of agreement"
        )
    lowest = np.where(made, codes, len(ratings.levels)).min(axis=1)
    several = made.sum(axis=1) > 1
    n_split = int((several & (np.where(made, codes, -1).max(axis=1) > lowest)).sum())
    if n_split < min(FEW_DISAGREEMENTS, several.sum() / 2):
        yield Warning_(
            "few-disagreements",
            f"judges disagree on {n_split:,} of {int(several.sum()):,} units: limits of "
            "coefficients beyond chance hold less often than they say",
        )
