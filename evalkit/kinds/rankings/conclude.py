"""From the sums of all shares to what a report says of rankings. No log is read any more."""

import math
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import replace
from typing import TYPE_CHECKING

import polars as pl

from evalkit.aggregate.accumulators.curves import precision_recall
from evalkit.aggregate.accumulators.parts import finish_parts
from evalkit.aggregate.accumulators.resampling import Resampling
from evalkit.aggregate.segments import ALL, make_cells
from evalkit.aggregate.sums import pairs_among, pool
from evalkit.aggregate.user_values.blocks import GivenValues
from evalkit.aggregate.user_values.checks import convention_warnings, judged_beside
from evalkit.aggregate.user_values.gather import number_of_means, parts_of
from evalkit.inference.caveats import of_judged_beside, of_tied_orders, segment_of
from evalkit.inference.conclude import Inference
from evalkit.kinds.rankings import _checks
from evalkit.kinds.rankings._job import RankingTask
from evalkit.kinds.rankings.merge import RankingSums
from evalkit.metrics import is_gmean
from evalkit.planning.counters import Clock, input_of, versions
from evalkit.planning.record import RunResults, as_followed, make_report
from evalkit.planning.tables import Tables
from evalkit.planning.work import MeasureOptions, ShareResult
from evalkit.report import Counts, Estimate, Graph, Input, PerUser, Report, UserWriter, Warning_

if TYPE_CHECKING:
    from evalkit.aggregate.accumulators.items import ItemTotals
    from evalkit.inference.shown import ShownNumbers


def conclude_rankings(
    share_result: ShareResult,
    measure_options: MeasureOptions,
    earlier_warnings: Sequence[Warning_],
    clock: Clock | None,
) -> Report:
    """The report of all shares."""
    clock = measure_options.started(clock)
    task = RankingTask(share_result.config, measure_options, clock)
    if not measure_options.keep_parts:
        share_result.sums.parts = None
    return conclude(task, share_result.sums, share_result.inputs, earlier_warnings=earlier_warnings)


def conclude(
    task: RankingTask,
    sums: RankingSums,
    inputs: Sequence[Input],
    writer: UserWriter | None = None,
    earlier_warnings: Sequence[Warning_] = (),
) -> Report:
    """The report of all shares together.

    Args:
        inputs: the tables, as `inputs_of` gives them.
        writer: of the values of users, where they are not kept in memory.
        earlier_warnings: warnings that come first.
    Raises:
        EvalkitError: what is wrong with the data of any share, or with the whole.
    """
    _checks.tell_faults(task, sums)
    _checks.check_shares(sums)
    keeps = task.options.per_user or writer is not None
    with ThreadPoolExecutor(1) as beside:  # files are written while numbers are made of sums
        kept = (
            beside.submit(copy_context().run, _kept_values, task, sums, writer) if keeps else None
        )
        report = _concluded(task, sums, inputs, earlier_warnings)
        checks = () if sums.weights is None else tuple(_checks.checks_of_weights(sums.weights))
        return replace(report, checks=checks, per_user_values=kept.result() if kept else None)


def _concluded(
    task: RankingTask,
    sums: RankingSums,
    inputs: Sequence[Input],
    earlier_warnings: Sequence[Warning_],
) -> Report:
    resampling = task.resampling(sums.draws)
    _conclude_kept(task, sums, resampling)
    inputs = _counted(inputs, sums)
    odd = _checks.check_whole(task, sums, inputs)
    config, statistics = task.config, task.config.statistics
    models, totals = sums.in_order, sums.totals
    parts = finish_parts(sums.parts, totals.n_segments)
    totals.complete()
    totals.pool_small(config.segments.min_users)
    pool(sums.tie_shifts, totals.pooled)
    sums.draws.pool(totals.pooled)
    sums.ratios.pool(totals.pooled, in_clusters=statistics.cluster is not None)
    items = _items_of(sums)
    ratios = sums.ratios if task.has_ratios else items
    shown = _numbers_of(task, sums)
    inference = Inference.of(
        as_followed(config), task.measured, models, totals, resampling, ratios, shown=shown
    )
    labels = [each.label for each in task.requests]
    tied = _tied_orders(task, sums, inference.estimates)
    crossed = () if items is None else tuple(items.warnings(labels))
    conventions = convention_warnings(config, task.requests)
    curves = tuple(sums.curves.curves(models, task.curve_requests, statistics.level))
    task.clock.stop("aggregate")
    found = RunResults(
        counts=Counts(
            sums.truth.truth_counts(),
            {name: sums.models[name].model_counts(config) for name in models},
        ),
        inference=inference,
        warnings=(
            *earlier_warnings,
            *conventions,
            *sums.warnings,
            *odd,
            *inference.warnings,
            *_uneven_judgements(task, sums),
            *tied,
            *crossed,
        ),
        curves=curves,
        graphs=(*precision_recall(curves), *_graphs_of(shown, models)),
        distributions=tuple(sums.histograms.distributions(models, task.requests)),
        parts=parts,
    )
    meta = replace(
        task.clock.meta(sum(each.rows for each in inputs), task.threads, versions()),
        resampling_bytes=None if resampling is None else sums.draws.n_bytes,
        passes=task.n_passes,
    )
    return make_report(config, found, inputs, meta, clock=task.clock, sample=task.options.sample)


def _uneven_judgements(task: RankingTask, sums: RankingSums) -> Iterable[Warning_]:
    """What is judged of models, where metrics keep judgements and nobody asked for the share."""
    for request in judged_beside(task.config):
        column, level = task.measured.index(request), task.config.statistics.level
        yield from of_judged_beside(sums.totals, request, column, level)


def _numbers_of(task: RankingTask, sums: RankingSums) -> "ShownNumbers | None":
    """Numbers of all lists together, where metrics of lists are asked for."""
    asked = [*task.of_lists, *task.ordered]
    if not asked and all(each.metric.combined is None for each in task.requests):
        return None
    from evalkit.inference.combined import CombinedNumbers

    for each in sums.shown.values():
        each.pool(sums.totals.pooled)
    given = task.config, sums.shown, task.measured, not task.compares, sums.totals
    if not task.ordered:
        return CombinedNumbers(*given)
    from evalkit.inference.ordered import OrderedNumbers, OrderedUsers, OrderedValues

    names = [name for name in sums.totals.names if name not in task.items]
    users = OrderedUsers.of(sums.ordered, sums.in_order, names, task.ordered, sums.totals.pooled)
    found = OrderedNumbers(*given)
    pairs = [pair for segment, pair in sums.totals.pairs if segment == ALL]
    found.ordered = OrderedValues(task.config, task.ordered, pairs, users.choose)
    return found


def _tied_orders(
    task: RankingTask, sums: RankingSums, estimates: Sequence[Estimate]
) -> list[Warning_]:
    """What the order of equal scores moves, of models of which hits have such."""
    if not sums.tie_shifts:
        return []
    from evalkit.aggregate.accumulators.tied import moved_by_ties

    requests = {each.label: (place, each) for place, each in enumerate(task.requests)}
    moved = moved_by_ties(task.measured, task.config.policies)
    column_of = {each: 2 * place for place, each in enumerate(moved)}  # of the best order
    weight = task.config.statistics.weight

    def shifts_of(estimate: Estimate) -> list[float] | None:
        place, request = requests[estimate.metric]
        segment = segment_of(estimate)
        shifts = sums.tie_shifts.get((segment, estimate.model))
        if shifts is None:
            return None
        if request in column_of:
            n: float = estimate.n_users
            if weight is not None:
                total = sums.ratios.total(segment, estimate.model, place)
                n = math.nan if total is None else total.terms[1].total
            means = [
                shifts.sum_of(column_of[request] + side).total / (n or math.nan) for side in (0, 1)
            ]
            if is_gmean(request):  # of logarithms
                return [estimate.value * math.expm1(each) for each in means]
            return means
        combination = request.metric.combined
        parts = parts_of(request) if combination is None else combination.parts
        if weight is not None or parts is None or not column_of.keys() >= {*parts}:
            return None
        of_model = sums.totals.models[segment, estimate.model]
        totals = [of_model.sum_of(task.measured.index(part)) for part in parts]
        ends = []
        for side in (0, 1):
            means = [
                total.mean + shifts.sum_of(column_of[part] + side).total / max(1, total.count)
                for part, total in zip(parts, totals, strict=True)
            ]
            if combination is None:
                end = number_of_means(request, means)
            else:
                end, _ = combination.at(means, [None] * len(means))
            ends.append((0.0 if math.isnan(end) else end) - estimate.value)
        return ends

    return [*of_tied_orders(estimates, sums.in_order, shifts_of)]


def _items_of(sums: RankingSums) -> "ItemTotals | None":
    """Errors over users and items, where they are asked for."""
    if sums.items is None:
        return None
    from evalkit.aggregate.accumulators.items import ItemTotals

    sums.items.pool(sums.totals.pooled)
    return ItemTotals(sums.items)


def _graphs_of(shown: "ShownNumbers | None", models: Sequence[str]) -> Iterable[Graph]:
    if shown is None:
        return ()
    from evalkit.inference.popularity import graphs_of_shown

    return graphs_of_shown(shown, models)


def _conclude_kept(task: RankingTask, sums: RankingSums, resampling: Resampling | None) -> None:
    """What the users of all shares say together, where the sums of shares say too little."""
    if not sums.kept.frames:
        return
    config, models, requests = task.config, sums.in_order, task.of_ratios
    pairs = pairs_among(models, config.statistics, at=config.at("statistics", "baseline"))
    names = [name for name in sums.totals.names if name not in task.items]
    rows, values = sums.kept.joined(models, names, len(requests))
    better = [bool(each.metric.higher_is_better) for each in requests]
    if config.statistics.cluster is not None:
        sums.ratios.add(rows, GivenValues(values, better), models, pairs, task.threads)
    if resampling is not None and not resampling.is_bounded:
        most = task.most_in_cells(sums.totals.n_segments)
        wanted = [requests.index(each) for each in resampling.requests]
        drawn = GivenValues(
            {name: each[:, wanted] for name, each in values.items()}, [better[n] for n in wanted]
        )
        cells = make_cells(rows.segments, rows.keys.size, most)
        resampling.add(drawn, rows.clusters, models, pairs, cells, task.threads)


def _kept_values(task: RankingTask, sums: RankingSums, writer: UserWriter | None) -> PerUser | None:
    if writer is not None and not sums.users:
        return writer.finish(in_order=task.n_passes == 1)
    if not task.options.per_user:
        return None
    names = sums.origin.user_columns
    frames = {
        name: pl.concat(sums.users[name]).sort(names, maintain_order=True) for name in sums.in_order
    }
    labels = tuple(task.requests[place].label for place in task.kept)
    folder = task.options.per_user_folder
    if folder is None:
        return PerUser(names, labels, frames)
    writer = UserWriter(folder, names, labels, is_whole=True)
    writer.add(frames)
    return writer.finish(in_order=True)


def inputs_of(tables: Tables) -> list[Input]:
    """A record of every table; the rows of logs are counted while they are measured.

    Of tables that Spark alone can read, rows are those that somebody knows beforehand, or 0.
    """
    is_here = tables.config.engine.kind == "local"
    inputs = [] if tables.config.is_truthless else [input_of(tables.truth, 0, "truth")]
    inputs += [input_of(table, 0, "rankings", model) for model, table in tables.rankings]
    if tables.train is not None:
        inputs.append(input_of(tables.train, 0, "train"))
    rest = [(each, each.role, each.model) for each in tables.context_tables]
    rest += [(each, "segments", None) for each in tables.segment_tables]
    for table_of, role, model in rest:
        rows = table_of.count_rows() if is_here or table_of.files else table_of.n_rows_hint() or 0
        inputs.append(input_of(table_of, rows, role, model))
    return inputs


def _counted(inputs: Sequence[Input], sums: RankingSums) -> list[Input]:
    """The same with the rows that were read."""
    logs = {
        "truth": [sums.truth.rows],
        "rankings": [
            sum(each.rows for name, each in sums.models.items() if sums.tables[name] == number)
            for number in range(len(sums.origin.rankings))
        ],
        "train": [sums.train_rows],
    }
    return [
        replace(each, rows=logs[each.role].pop(0)) if each.role in logs else each for each in inputs
    ]
