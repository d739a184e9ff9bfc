"""From the rows of all shares to a report: agreement, truth, and judges who stand out."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl

from evalkit import report
from evalkit.errors import DataError, RequestError
from evalkit.kernels.arrays import Ints
from evalkit.kinds.judges import people
from evalkit.kinds.judges.consensus import Consensus, consensus_of, write_truth
from evalkit.kinds.judges.declaration import JudgesTable
from evalkit.kinds.judges.estimates import FEW_JUDGES, counts_of, estimate, inference_of, maker_of
from evalkit.kinds.judges.open import section_of
from evalkit.kinds.judges.people import ALL, PEOPLE
from evalkit.kinds.judges.preferences import conclude_preferences
from evalkit.kinds.judges.ratings import Ratings, read_ratings
from evalkit.metrics import Request, known_metrics
from evalkit.planning.counters import Clock, versions
from evalkit.planning.meeting import null_words, texts_among
from evalkit.planning.record import RunResults, make_report
from evalkit.planning.work import MeasureOptions, ShareResult
from evalkit.statistics import agreement
from evalkit.statistics.agreement import MISSING, Weights
from evalkit.statistics.intervals import NO_INTERVAL, Interval, mean_interval

COMPANIONS = ("alpha", "AC", "agreement")  # one number of agreement alone misleads
OF_PREFERENCES, OF_ANSWERS = {"win-rate", "bradley-terry"}, {"SUS", "likert"}
OF_WHOLE_UNITS = ("ICC", "cohen")
FEW_DISAGREEMENTS = 10


def conclude_judges(
    left: ShareResult, work: MeasureOptions, told: Sequence[report.Warning_], clock: Clock | None
) -> report.Report:
    """The report of all shares.

    Raises:
        RequestError: metrics of ratings are asked of preferences, or the other way round
            [metric-of-other-kind].
        DataError: as `read_ratings` and `read_preferences` raise it.
    """
    clock = work.started(clock)
    config, body = left.config, left.sums
    section, frame = section_of(config), body.frame
    names = {request.metric.name for request in config.requests}
    is_preferred = section.columns.preferred is not None
    strange = names - OF_PREFERENCES if is_preferred else names & OF_PREFERENCES
    if strange:
        other, held = ("ratings", "preferences")[:: 1 if is_preferred else -1]
        raise RequestError(
            f"{', '.join(sorted(strange))} is made of {other}, and the table holds {held}",
            code="metric-of-other-kind",
            at=config.at("metrics", "names"),
            hint="preferences give win-rate and bradley-terry; ratings give alpha, AC, agreement",
        )
    truth = None
    if is_preferred:
        found = conclude_preferences(config, frame, at=body.at)
        told = (*told, *_of_ratings(config))
    else:
        ratings = read_ratings(frame, section, list(config.segments.named), at=body.at)
        found, truth = _conclude_ratings(config, section, ratings, body.unit_names, work)
    clock.stop("aggregate")
    found = replace(found, warnings=(*told, *found.warnings))
    meta = clock.meta(frame.height, work.useful_threads, versions())
    whole = make_report(config, found, left.inputs, meta, clock=clock, sample=work.sample)
    if truth is None:
        return whole
    if section.truth.path is not None:
        write_truth(truth.table, section.truth.path)
    return replace(whole, truth=truth.table, judge_errors=truth.errors)


def _of_ratings(config: Any) -> Iterator[report.Warning_]:
    """Keys of ratings, which change nothing of preferences."""
    section, names = section_of(config), ("levels", "kind", "judges", "models", "truth")
    fields = JudgesTable.model_fields
    idle = [f"judges.{name}" for name in names if getattr(section, name) != fields[name].default]
    idle += [f"segments.{name}" for name in config.segments.named]
    idle += ["output.per_user"] if config.output.per_user else []
    for what in idle:
        message = f"{what} is of ratings, and changes nothing of preferences"
        yield report.Warning_("not-followed", message)


def _conclude_ratings(
    config: Any,
    section: JudgesTable,
    ratings: Ratings,
    unit_names: Sequence[str],
    work: MeasureOptions,
) -> tuple[RunResults, Consensus]:
    models = [judge for judge in section.models if judge in ratings.judges]
    persons = [judge for judge in ratings.judges if judge not in models]
    if len(models) < len(section.models):
        absent = ", ".join(sorted(set(section.models) - set(models)))
        message = f"no rating is by {absent}, which models under [judges] names"
        hint = f"the judges are {', '.join(ratings.judges[:8])}"
        raise DataError(message, code="unknown-judge", at=config.at("judges", "models"), hint=hint)
    if not persons:
        message = "all judges are models: there is nobody to hold them against"
        hint = "leave models out: judges are then held against one another"
        raise DataError(message, code="few-judges", at=config.at("judges", "models"), hint=hint)
    everybody, codes = PEOPLE if models else ALL, ratings.of(persons)
    asked = {request.metric.name for request in config.requests}
    requests, is_agreement = list(config.requests), bool(asked - OF_ANSWERS)
    if is_agreement:
        known = known_metrics("judges")
        requests += [known[name].request() for name in COMPANIONS if name not in asked]
    weights = _drawn(len(codes), config)
    estimates = [*_measured(requests, everybody, ratings, codes, config, weights)]
    for name, segments in ratings.segments.items():
        for segment in sorted({str(each) for each in segments if each is not None}):
            own = codes[segments == segment]
            where = {"segmentation": name, "segment": segment}
            drawn = _drawn(len(own), config)
            estimates += _measured(requests, everybody, ratings, own, config, drawn, **where)
    warnings = [*_warnings(section, ratings, codes)]
    comparisons: list[report.Comparison] = []
    draws = people.PairDraws(ratings, config, weights)
    if len(persons) > 2 and is_agreement:
        estimates += people.judges_of(draws, persons, warnings)
    warnings += people.odd_judges(ratings, persons)
    estimates += people.known_items(ratings, config, warnings)
    if models and len(persons) > 1:
        of_models, comparisons = people.models_of(draws, section, models, persons)
        estimates += of_models
    truth = consensus_of(ratings, section.truth, unit_names, persons)
    shares = truth.unit_agreement
    units = ratings.units.rename({f"user_{n}": name for n, name in enumerate(unit_names)})
    values = units.with_columns(pl.Series("agreement", shares))
    per_user = report.PerUser(tuple(unit_names), ("agreement",), {everybody: values})
    counts, edges = np.histogram(shares[~np.isnan(shares)], bins=np.linspace(0, 1, 11))
    spread = report.Distribution(
        everybody, "agreement", tuple(edges.tolist()), tuple(counts.tolist())
    )
    return (
        RunResults(
            _counts(ratings, {everybody: persons, **{model: [model] for model in models}}),
            inference_of(config, estimates, comparisons),
            (*warnings, *truth.warnings),
            distributions=[spread],
            per_user_values=per_user if work.per_user else None,
            graphs=[*people.graphs_of(ratings, everybody, shares)],
        ),
        truth,
    )


def _counts(ratings: Ratings, groups: Mapping[str, Sequence[str]]) -> report.Counts:
    """What the judges of each group did."""
    n_units, counts = ratings.units.height, {}
    for name, judges in groups.items():
        n_ratings = (ratings.of(judges) != MISSING).sum(axis=1)
        n_rated, depth = int((n_ratings > 0).sum()), int(n_ratings.max(initial=0))
        counts[name] = counts_of(
            int(n_ratings.sum()), n_rated, without=n_units - n_rated, depth=depth
        )
    made = ratings.codes != MISSING
    n, n_unrated = int(made.sum()), int((~made.any(axis=1)).sum())
    dropped = {"no_rating": ratings.n_null}
    return report.Counts(
        report.TruthCounts(ratings.n_rows, n, dropped, n_units, n_unrated, n, None), counts
    )


def _drawn(n_units: int, config: Any) -> Weights:
    chosen = config.statistics
    return agreement.draw_units(n_units, n_draws=chosen.replicates, seed=chosen.seed)


def _measured(
    requests: Sequence[Request], model: str, ratings: Ratings, codes: Ints, config: Any,
    weights: Weights, **where: Any,
) -> Iterator[report.Estimate]:  # fmt: skip
    """Every metric over some units."""
    made, level = codes != MISSING, config.statistics.level
    for request in requests:
        if request.metric.name in OF_ANSWERS:
            values = people.answers_of(request, ratings, codes)
            good = values[~np.isnan(values)]
            value, interval = float(good.mean()) if len(good) else math.nan, NO_INTERVAL
            n, n_all, more = len(good), len(values), dict[str, Any]()
            if n > 1:
                more["std_error"] = error = float(good.std(ddof=1) / math.sqrt(n))
                interval = mean_interval(value, error, n, level=level)
                interval = interval.within(request.metric.bounds)
        else:
            is_whole = request.metric.name in OF_WHOLE_UNITS
            fewest = max(2, codes.shape[1]) if is_whole else 2
            n, n_all = int((made.sum(axis=1) >= fewest).sum()), len(codes)
            value, interval = _coefficient(request, ratings, codes, config, weights)
            more = {"n_clusters": int(made.any(axis=0).sum())}
        yield estimate(
            request, model, value, interval, n, n_undefined=n_all - n, **more, **where
        )  # fmt: skip


def _coefficient(
    request: Request, ratings: Ratings, codes: Ints, config: Any, weights: Weights
) -> tuple[float, Interval]:
    """The value, and its limits over units (and over judges, where they are drawn)."""
    section, chosen, n_judges = config.judges, config.statistics, codes.shape[1]
    make = maker_of(request, ratings.levels, section.kind)
    coefficient = make(n_judges)
    sums = agreement.sum_of(coefficient.features(codes))
    value = float(coefficient.read(sums))
    is_one_level = len(np.unique(codes[codes != MISSING])) < 2
    if math.isnan(value) or (is_one_level and request.metric.name != "agreement"):
        return math.nan, NO_INTERVAL
    if request.metric.name == "ICC" and section.judges == "these":
        form = str(dict(request.parameters)["form"])
        found = agreement.intraclass_interval(sums, n_judges, form=form, level=chosen.level)
        return value, found
    draws = agreement.resample(
        make, codes, n_draws=chosen.replicates, seed=chosen.seed,
        judges=section.judges == "others", weights=weights,
    )  # fmt: skip
    return value, agreement.bca_interval(value, draws, level=chosen.level)


def _warnings(section: JudgesTable, ratings: Ratings, codes: Ints) -> Iterator[report.Warning_]:
    if not ratings.knows_levels:
        shown = ", ".join(ratings.names[:8])
        by = ", in the order of the alphabet" if ratings.are_texts else ""
        message = f"levels are those that were given{by}: {shown}; levels = [...] names all"
        yield report.Warning_("guessed-levels", message)
    yield from null_words("the table", "unit", texts_among(ratings.units.to_series()))
    yield from null_words("the table", "judge", texts_among(pl.Series(ratings.judges)))
    made, n_judges = codes != MISSING, codes.shape[1]
    if n_judges < 2:
        yield report.Warning_("few-judges", "one judge alone: agreement is undefined")
    elif section.judges == "others" and n_judges < FEW_JUDGES:
        message = f"{n_judges} judges: limits for other judges like them are too narrow below "
        yield report.Warning_("few-judges", f"{message}{FEW_JUDGES}")
    single = int((made.sum(axis=1) == 1).sum())
    if single:
        yield report.Warning_(
            "thin-units", f"{single:,} units have one rating: they say nothing of agreement"
        )
    lowest = np.where(made, codes, len(ratings.levels)).min(axis=1)
    several = made.sum(axis=1) > 1
    n_split, n = int((several & (codes.max(axis=1) > lowest)).sum()), int(several.sum())
    if n_split < min(FEW_DISAGREEMENTS, n / 2):
        yield report.Warning_(
            "few-disagreements",
            f"judges disagree on {n_split:,} of {n:,} units: limits of coefficients beyond chance "
            "hold less often than they say",
        )
