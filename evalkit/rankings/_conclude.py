"""From the sums of all shares to what a report says of rankings."""

from dataclasses import replace

import polars as pl

from evalkit.conclusions.inference import Inference
from evalkit.looks.curves import precision_recall
from evalkit.looks.parts import finish_parts
from evalkit.planning.ledger import input_of, versions
from evalkit.planning.record import Found, make_report
from evalkit.rankings._checks import check_whole, tell_faults
from evalkit.rankings._job import RankingJob
from evalkit.rankings._sums import RankingSums
from evalkit.report import Counts, Input, PerUser, Report
from evalkit.values.checks import convention_warnings


def conclude(job: RankingJob, sums: RankingSums) -> Report:
    """The report of all shares together.

    Raises:
        EvalkitError: what is wrong with the data of any share, or with the whole.
    """
    tell_faults(job, sums)
    odd = check_whole(job, sums)
    config, statistics, models, totals = (
        job.config,
        job.config.statistics,
        sums.in_order,
        sums.totals,
    )
    parts = finish_parts(sums.parts, totals.n_segments)
    totals.complete()
    totals.pool_small(config.segments.min_users)
    sums.draws.pool(totals.pooled)
    sums.ratios.pool(totals.pooled, in_clusters=statistics.cluster is not None)
    resampling = job.resampling(sums.draws)
    ratios = sums.ratios if job.has_ratios else None
    inference = Inference.of(config, job.measured, models, totals, resampling, ratios)
    conventions = convention_warnings(config, config.requests)
    curves = tuple(sums.curves.curves(models, job.curve_requests, statistics.level))
    job.clock.stop("aggregate")
    found = Found(
        counts=Counts(
            sums.truth.truth_counts(),
            {name: sums.models[name].model_counts(config) for name in models},
        ),
        inference=inference,
        warnings=(*conventions, *sums.warnings, *odd, *inference.warnings),
        curves=curves,
        graphs=tuple(precision_recall(curves)),
        distributions=tuple(sums.histograms.distributions(models, config.requests)),
        parts=parts,
        per_user_values=_kept_values(job, sums),
    )
    inputs = _inputs(job, sums)
    meta = replace(
        job.clock.meta(sum(each.rows for each in inputs), job.threads, versions()),
        resampling_bytes=None if resampling is None else sums.draws.n_bytes,
        passes=job.n_shares,
    )
    return make_report(config, found, inputs, meta, clock=job.clock, sample=job.sample)


def _kept_values(job: RankingJob, sums: RankingSums) -> PerUser | None:
    if job.writer is not None:
        return job.writer.finish(in_order=job.n_shares == 1)
    if not job.per_user:
        return None
    names = job.tables.truth.user_names
    frames = {
        name: pl.concat(sums.users[name]).sort(names, maintain_order=True) for name in sums.in_order
    }
    return PerUser(names, tuple(request.label for request in job.config.requests), frames)


def _inputs(job: RankingJob, sums: RankingSums) -> list[Input]:
    """A record of every table that was read."""
    tables = job.tables
    inputs = [input_of(tables.truth, sums.truth.rows, "truth")]
    for model, table in tables.rankings:
        read = list(sums.models) if model is None else [model]
        rows = sum(sums.models[name].rows for name in read if name in sums.models)
        inputs.append(input_of(table, rows, "rankings", model))
    if tables.train is not None:
        inputs.append(input_of(tables.train, sums.train_rows, "train"))
    return inputs + [
        input_of(each, each.n_rows_hint() or 0, "segments") for each in tables.segment_tables
    ]
