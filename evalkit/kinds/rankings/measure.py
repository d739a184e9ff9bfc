"""One share of the users, from tables to sums."""

from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING

from evalkit.aggregate.user_values.gather import RankSets
from evalkit.config import Config, is_laid_out, of_share, with_paths
from evalkit.errors import EvalkitError, Faults, FaultyShareError, RequestError, Step
from evalkit.kinds.rankings._checks import check_columns, check_gains
from evalkit.kinds.rankings._job import RankingJob
from evalkit.kinds.rankings._meeting import note_meetings, note_meetings_beside
from evalkit.kinds.rankings._splits import Edges, find_edges, names_in_order, split_share
from evalkit.kinds.rankings._steps import GAINS, RANKINGS, TRAIN, TRUTH, VALUES
from evalkit.kinds.rankings._values import Probed, add_tie_shifts_of, add_values
from evalkit.kinds.rankings.conclude import inputs_of
from evalkit.kinds.rankings.merge import Origin, RankingSums, WeightSums
from evalkit.kinds.rankings.open import open_job
from evalkit.metrics import needs_of
from evalkit.planning.passes import count_shares, look_at_texts, memory_of_rows
from evalkit.planning.work import MeasureOptions, ShareResult, try_seeds
from evalkit.ranks import RankScan, scan_alike
from evalkit.sources import newest_second
from evalkit.sources.ids import Share
from evalkit.truth import TRUTH_CODES, Train, Truth, build_train, count_in_train

if TYPE_CHECKING:
    from evalkit.kinds.rankings._lists import ShareLists


def measure_rankings(config: Config, measure_options: MeasureOptions) -> ShareResult:
    """One share of the users."""
    (number, n_shares), laid_out = measure_options.share, is_laid_out(config)
    if laid_out:
        _refuse_train_in_parts(config)
    job = open_job(of_share(config, number) if laid_out else config, measure_options)
    job.share, job.is_laid_out = (number - 1, n_shares), laid_out or measure_options.given.is_share
    sums = measure_users(job, measure_options.memory_limit)
    read = with_paths(job.config, config)
    return ShareResult(read, job.id_types, inputs_of(job.tables), sums, job.keep_parts)


def _refuse_train_in_parts(config: Config) -> None:
    """Raise where something needs the train of all users, and a share has that of its own alone.

    Raises:
        RequestError: it does [share-places].
    """
    earlier_warnings = [each.label for each in config.requests if "train" in needs_of(each)]
    if earlier_warnings:
        message = f"{earlier_warnings[0]} is made of all of train, and its path has {{share}}"
        hint = "write paths without {share}: every share then reads the logs whole"
        raise RequestError(message, code="share-places", at=config.at("train"), hint=hint)


def measure_users(job: RankingJob, memory_limit: int | None) -> RankingSums:
    """The sums of the users, one pass over the logs after the other."""
    texts = look_at_texts(job.tables, memory_limit)
    job.n_passes = count_shares(job.tables, memory_limit, job.asked, texts)
    job.check_passes()
    if job.n_passes == 1:
        job.memory_of_rows = memory_of_rows(job.tables, memory_limit, job.asked, texts)
    if job.is_cut and job.has_quantiles:
        job.n_passes_over_all = count_shares(job.tables, memory_limit, job.asked_of_all, texts)

    def measure(seed: int) -> RankingSums:
        job.begin(seed)
        edges = find_edges(job)
        sums = RankingSums(Origin.of(job.tables))
        for share in job.passes:
            sums.merge(measure_share(job, share, edges, stop_step=sums.faults.first))
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
    with suppress(FaultyShareError):
        _measure_share(job, share, edges, sums)
    return sums


def _measure_share(job: RankingJob, share: Share | None, edges: Edges, sums: RankingSums) -> None:
    faults, clock = sums.faults, job.clock
    with faults.step(TRUTH, codes=TRUTH_CODES):
        truth = job.truth_of(share)
    sums.truth.add_truth(truth)
    sums.weights = WeightSums.of(truth)
    if job.is_laid_out:
        sums.note_users(truth.stable_hashes())
    with faults.step(GAINS):
        sums.largest = truth.pairs.grades.largest
        check_gains(job, sums.largest, job.tables.truth.at)
        if job.config.judges_age and (job.is_laid_out or share is None or share.is_first):
            table = job.tables.truth
            sums.truth.newest = newest_second(table.frame, table.columns["time"], table.at)
    clock.stop("build")
    train = _train_of(job, truth, share, sums)
    sums.totals.names = names_in_order(job)
    split = split_share(job, truth, edges, sums)
    if job.tables.segments:
        clock.stop("segments")
    held: dict[str, Probed] = {}
    with faults.step(RANKINGS):
        pass
    for number, (_, table) in enumerate(job.tables.rankings):
        sums.note_warnings(check_columns(job, table))
        try:
            probed = _probe(job, number, truth, train, share)
        except EvalkitError as error:
            faults.note(error, (RANKINGS,), number)
            continue
        clock.stop("probe")
        sums.note_table(number, probed)
        if faults.first is not None:
            continue
        note_meetings(job, number, probed, truth, sums)
        add_tie_shifts_of(job, truth, split, probed, sums)
        if job.compares:
            held |= probed
            continue
        for name, probed_one in probed.items():
            lists = _lists_of(job, truth, train, share, {name: probed_one})
            add_values(job, truth, split, {name: probed_one}, sums, lists)
        clock.stop("measure")
    if truth.n_users:
        sums.together.add(frozenset(sums.tables))
    if held:
        with faults.step(VALUES):
            lists = _lists_of(job, truth, train, share, held)
            add_values(job, truth, split, held, sums, lists)
        clock.stop("measure")
    if faults.first is None:
        note_meetings_beside(job, truth, train, sums)


def _train_of(
    job: RankingJob, truth: Truth, share: Share | None, sums: RankingSums
) -> Train | None:
    """What the models had seen, and how much of the truth stands in it."""
    table, policies = job.tables.train, job.config.policies
    if table is None:
        return None
    counter = None if job.lists is None else job.lists.popularity_counter()
    with sums.faults.step(TRAIN):
        train = build_train(
            table,
            truth,
            null_ids=policies.null_ids,
            threads=job.threads,
            share=share,
            watch=counter,
        )
    if counter is not None and job.lists is not None:
        job.lists.popularity = counter.finish(table, job.plans[0], job.n_passes, train)
    sums.train_rows = train.rows
    sums.truth.add_in_train(count_in_train(truth, train, threads=job.threads))
    job.clock.stop("train")
    return train


def _probe(
    job: RankingJob, number: int, truth: Truth, train: Train | None, share: Share | None
) -> dict[str, Probed]:
    """The ranks of every model of one table of the rankings, by name."""
    model, table = job.tables.rankings[number]
    policies, rules = job.config.policies, job.rules_of(table)
    scans = [
        RankScan(
            table,
            model,
            truth,
            rule.applied_to(policies),
            job.threads,
            train=train,
            drop_seen=job.config.train is not None and job.config.train.drop_seen,
            sample=job.sample_of_users(),
            share=share,
            progress=job.clock.line.advance,
            detailed=rule.detailed,
            collector=job.collector(table, rule, truth),
            known_models=() if job.known is None else job.known.models.get(number, ()),
            room=job.memory_of_rows,
        )
        for rule in rules
    ]
    by_rule = scan_alike(scans)
    schema = table.frame.collect_schema()
    has_score, has_rank = "score" in schema, "rank" in schema
    return {
        name: Probed(
            main,
            RankSets(
                {rule: each[name].ranks for rule, each in zip(rules, by_rule, strict=True)},
                has_score,
                has_rank,
            ),
        )
        for name, main in by_rule[0].items()
    }


def _lists_of(
    job: RankingJob,
    truth: Truth,
    train: Train | None,
    share: Share | None,
    held: Mapping[str, Probed],
) -> "ShareLists | None":
    """What metrics of lists look at, where there are any."""
    if job.lists is None:
        return None
    from evalkit.kinds.rankings._lists import ShareLists

    ranks = {name: each.ranks for name, each in held.items()}
    return ShareLists.of(job, truth, train, share, ranks)
