"""One share of the users, from tables to sums."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from evalkit.config import Config, is_laid_out, of_share, with_paths
from evalkit.errors import EvalkitError, Faults, FaultyShareError, RequestError, Step
from evalkit.kernels.memory import give_back_freed, keep_arrays
from evalkit.kinds.rankings._checks import check_columns, check_gains
from evalkit.kinds.rankings._job import RankingJob
from evalkit.kinds.rankings._meeting import Meetings
from evalkit.kinds.rankings._reader import Probed, ShareReader
from evalkit.kinds.rankings._splits import Edges, find_edges, names_in_order, split_share
from evalkit.kinds.rankings._steps import GAINS, RANKINGS, TRUTH, VALUES
from evalkit.kinds.rankings._values import ShareValues
from evalkit.kinds.rankings.conclude import inputs_of
from evalkit.kinds.rankings.merge import Origin, RankingSums, WeightSums
from evalkit.kinds.rankings.open import open_logs
from evalkit.metrics import needs_of
from evalkit.planning.passes import count_shares, look_at_texts, memory_of_rows
from evalkit.planning.work import MeasureOptions, ShareResult
from evalkit.sources import newest_second
from evalkit.sources.ids import Share, try_seeds
from evalkit.truth import TRUTH_CODES, Train, Truth, count_in_train

if TYPE_CHECKING:
    from evalkit.kinds.rankings._lists import ShareLists


def measure_rankings(config: Config, measure_options: MeasureOptions) -> ShareResult:
    """One share of the users."""
    laid_out = is_laid_out(config)
    if laid_out:
        _refuse_train_in_parts(config)
    own = of_share(config, measure_options.share[0]) if laid_out else config
    tables, remarks = open_logs(own, measure_options)
    clock = measure_options.clock(tables.logs)
    job = RankingJob(tables.config, measure_options, clock, tables=tables, remarks=remarks)
    job.is_laid_out = laid_out or measure_options.given.is_share
    sums = measure_users(job, measure_options.memory_limit)
    read = with_paths(job.config, config)
    return ShareResult(read, job.id_types, inputs_of(tables), sums, job.keeps_parts)


def _refuse_train_in_parts(config: Config) -> None:
    """Raise where something needs the train of all users, and a share has that of its own alone.

    Raises:
        RequestError: it does [share-places].
    """
    labels = [each.label for each in config.requests if "train" in needs_of(each)]
    if labels:
        message = f"{labels[0]} is made of all of train, and its path has {{share}}"
        hint = "write paths without {share}: every share then reads the logs whole"
        raise RequestError(message, code="share-places", at=config.at("train"), hint=hint)


def measure_users(job: RankingJob, memory_limit: int | None) -> RankingSums:
    """The sums of the users, one pass over the logs after the other."""
    texts = look_at_texts(job.tables, memory_limit)
    job.n_passes = count_shares(job.tables, memory_limit, job.asked, texts)
    job.check_passes()
    if job.n_passes == 1:
        job.memory_of_rows = memory_of_rows(job.tables, memory_limit, job.asked, texts)
    job.memory_of_rows -= keep_arrays(job.memory_of_rows, job.threads)
    if job.is_cut and job.has_quantiles:
        job.n_passes_over_all = count_shares(job.tables, memory_limit, job.asked_of_all, texts)

    def measure(seed: int) -> RankingSums:
        job.begin(seed)
        edges = find_edges(job)
        sums = RankingSums(Origin.of(job.tables))
        try:
            for share in job.passes:
                sums.merge(measure_share(job, share, edges, stop_step=sums.faults.first))
                if job.n_passes > 1:  # sums stay between what was freed, in each thread's memory
                    give_back_freed()
        finally:
            if job.reader.seen_rows is not None:
                job.reader.seen_rows.close()
        sums.note_warnings(job.remarks)
        return sums

    return try_seeds(measure)


def measure_share(
    job: RankingJob, share: Share | None, edges: Edges, stop_step: Step | None = None
) -> RankingSums:
    """What one share of the users leaves behind.

    Args:
        edges: of quantiles over all users.
        stop_step: the earliest step at which a share before has failed; no need to go beyond.
    Raises:
        RequestError: the request is wrong.
        KeyCollisionError: two ids share a key.
    """
    sums = RankingSums(Origin.of(job.tables), faults=Faults(stop_step))
    reader = replace(job.reader, share=share)
    with suppress(FaultyShareError):
        _measure_share(job, reader, edges, sums)
    return sums


def _measure_share(job: RankingJob, reader: ShareReader, edges: Edges, sums: RankingSums) -> None:
    tables, clock, faults = reader.tables, reader.clock, sums.faults
    config, is_laid_out = tables.config, job.is_laid_out
    is_first = is_laid_out or reader.share is None or reader.share.is_first
    with faults.step(TRUTH, codes=TRUTH_CODES):
        truth = reader.truth()
    sums.truth.add_truth(truth)
    sums.weights = WeightSums.of(truth)
    if is_laid_out:
        sums.note_users(truth.stable_hashes())
    with faults.step(GAINS):
        sums.largest = truth.pairs.grades.largest
        check_gains(config, sums.largest, tables.truth.at)
        if config.judges_age and is_first:
            times = tables.truth.columns["time"]
            sums.truth.newest = newest_second(tables.truth.frame, times, tables.truth.at)
    clock.stop("build")
    train = reader.train(truth, faults)
    if train is not None:
        sums.train_rows = train.rows
        sums.truth.add_in_train(count_in_train(truth, train, threads=reader.threads))
        clock.stop("train")
    sums.totals.names = names_in_order(tables)
    split = split_share(reader, truth, edges, sums, job.most_in_cells, is_cut=job.is_cut)
    if tables.segments:
        clock.stop("segments")
    meetings = Meetings(tables, reader.plans, job.looked, job.is_shared)
    values = ShareValues(job, truth, split, sums)
    held: dict[str, Probed] = {}
    with faults.step(RANKINGS):
        pass
    for number, (_, table) in enumerate(tables.rankings):
        sums.note_warnings(check_columns(config, table, looks=is_first))
        try:
            probed = reader.probe(number, truth, train)
        except EvalkitError as error:
            faults.note(error, (RANKINGS,), number)
            continue
        clock.stop("probe")
        sums.note_table(number, probed)
        if faults.first is not None:
            continue
        meetings.note(number, probed, truth, sums)
        values.add_tie_shifts(probed)
        if job.compares:
            held |= probed
            continue
        for name, probed_one in probed.items():
            alone = {name: probed_one}
            values.add(alone, _lists_of(reader, truth, train, alone))
        clock.stop("measure")
    if truth.n_users:
        sums.together.add(frozenset(sums.tables))
    if held:
        with faults.step(VALUES):
            values.add(held, _lists_of(reader, truth, train, held))
        clock.stop("measure")
    if faults.first is None:
        meetings.note_beside(truth, train, sums)


def _lists_of(
    reader: ShareReader, truth: Truth, train: Train | None, held: Mapping[str, Probed]
) -> "ShareLists | None":
    """What metrics of lists look at, where there are any."""
    if reader.lists is None:
        return None
    from evalkit.kinds.rankings._lists import ShareLists

    ranks = {name: each.ranks for name, each in held.items()}
    return ShareLists.of(reader, truth, train, ranks)
