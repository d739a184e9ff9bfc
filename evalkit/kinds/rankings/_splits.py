"""How the users of a share are split: segments, cells, parts of the items, weights, clusters."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

import numpy as np

from evalkit.aggregate.segments import (
    CellSet,
    ItemPart,
    Segment,
    SegmentTable,
    UserSegments,
    cross_segments,
    make_cells,
    numbers_of,
    quantile_edges,
    read_clusters,
    read_item_segments,
    read_user_values,
    read_weights,
    split_users,
)
from evalkit.aggregate.sums import Lacking
from evalkit.config import Config
from evalkit.errors import EvalkitError, Faults, FaultyShareError, RequestError
from evalkit.kernels.arrays import Flags, Floats, Keys
from evalkit.kinds.rankings._job import RankingJob
from evalkit.kinds.rankings._reader import ShareReader
from evalkit.kinds.rankings._steps import SEGMENTS, TRUTH
from evalkit.kinds.rankings.merge import RankingSums
from evalkit.planning.tables import Tables
from evalkit.sources.ids import Share
from evalkit.truth import TRUTH_CODES, Truth

Edges = Mapping[str, Sequence[float]]


@dataclass(frozen=True, slots=True)
class ShareSplit:
    """How one share of the users is split.

    Args:
        users: segmentations of the users, crosses last.
        cells: what their segments are made of.
        items: the truth with the items of one group alone, by segment.
        weights: float64[n_users], where users count differently.
        clusters: uint64[n_users], a key of each user's cluster, where users vary together.
    """

    users: Sequence[UserSegments]
    cells: Sequence[CellSet]
    items: Sequence[tuple[Segment, ItemPart]]
    weights: Floats | None
    clusters: Keys | None


def split_share(
    reader: ShareReader,
    truth: Truth,
    edges: Edges,
    sums: RankingSums,
    most_in_cells: Callable[[Mapping[str, int]], int],
    *,
    is_cut: bool,
) -> ShareSplit:
    """Split the users of a share, and count those of each segment.

    Args:
        is_cut: sums of several shares come together.
    """
    tables, faults, totals = reader.tables, sums.faults, sums.totals
    config, n_sources = tables.config, len(tables.segments)
    counted = counted_users(truth, config)
    listed = _segments_of(reader, truth, edges, sums)
    totals.note_users(listed, counted)
    if truth.is_extra is not None and config.policies.unknown_users != "count":
        totals.note_extra(listed, truth.is_extra)
    with faults.step(SEGMENTS, n_sources):
        cells = make_cells(listed, truth.n_users, most_in_cells(totals.n_segments))
    items: list[tuple[Segment, ItemPart]] = []
    with faults.step(SEGMENTS, n_sources + 1, adds_up=False):  # every share reads all items
        for source in tables.segments:
            for item_segment in read_item_segments(source, truth) if source.of_items else ():
                for one in item_segment.segments:
                    segment, part = (item_segment.name, one.label), ItemPart.of(truth, one.places)
                    items.append((segment, part))
                    n_users = int(counted_users(part.truth, config).sum())
                    totals.note_segment(segment, one.key, n_users)
    if is_cut and any(source.of_items for source in tables.segments):
        n_users = truth.n_users if config.policies.no_relevant != "skip" else 0
        totals.lacking[frozenset(segment for segment, _ in items)] = Lacking(n_users)
    with faults.step(SEGMENTS, n_sources + 2):
        weights = read_weights(tables.weight, truth)
    with faults.step(SEGMENTS, n_sources + 3):
        clusters = read_clusters(tables.cluster, truth)
    return ShareSplit(listed, cells, items, weights, clusters)


def names_in_order(tables: Tables) -> dict[str, None]:
    """The segmentations in the order of the report: of users, crosses, of items."""
    segments = tables.config.segments
    of_items = [name for source in tables.segments if source.of_items for name in source.names]
    of_users = [name for name in segments.named if name not in of_items]
    crosses = [f"{one} & {other}" for one, other in segments.cross]
    return dict.fromkeys([*of_users, *crosses, *of_items])


def counted_users(truth: Truth, config: Config) -> Flags:
    """bool[n_users], the users that numbers stand on."""
    of_lists = any(each.metric.lists is not None for each in config.requests)
    if config.policies.no_relevant == "skip" and not of_lists:
        counted: Flags = truth.pairs.n_relevant > 0
        return counted
    return np.ones(truth.n_users, dtype=np.bool_)


def _segments_of(
    reader: ShareReader, truth: Truth, edges: Edges, sums: RankingSums
) -> list[UserSegments]:
    """The segments of the users, in the order of the config, crosses last."""
    tables, found = reader.tables, dict[str, UserSegments]()
    counted = counted_users(truth, tables.config)
    for number, source in enumerate(tables.segments):
        if source.of_items:
            continue
        with sums.faults.step(SEGMENTS, number, 0):
            values = read_user_values(source, truth)
        with sums.faults.step(SEGMENTS, number, 1):
            made = split_users(source, values, counted, edges, sums.seen_values, reader.threads)
        found |= {each.name: each for each in made}
    segments = tables.config.segments
    listed = [found[name] for name in segments.named if name in found]
    return listed + [cross_segments(found[one], found[two]) for one, two in segments.cross]


def find_edges(job: RankingJob) -> Edges:
    """Edges of the quantiles over all users, where no share of them knows: 8 bytes a user.

    Raises:
        RequestError: the users of other shares are not there to be read [quantiles-laid-out].
        EvalkitError: what is wrong with the truth of any share.
    """
    known = job.options.known
    if known is not None:
        return known.edges
    sources = _sources_of_quantiles(job.tables)
    if not sources or not job.is_cut:
        return {}
    if job.is_laid_out:
        raise RequestError(
            "quantiles are those of all users, and a log laid out by shares shows each its own",
            code="quantiles-laid-out",
            at=job.config.at("segments", sources[0].names[0]),
            hint="write edges = [...] instead of quantiles",
        )
    faults = Faults()
    numbers = numbers_of_users(job.reader, job.passes_over_all, faults)
    if not job.is_shared:  # otherwise told when all shares are there
        faults.tell()
    rules = job.config.segments.named
    return {name: quantile_edges(own, rules[name].quantiles or 1) for name, own in numbers.items()}


def _sources_of_quantiles(tables: Tables) -> list[SegmentTable]:
    return [
        each
        for each in tables.segments
        if not each.of_items and any(rule.quantiles is not None for rule in each.rules)
    ]


def numbers_of_users(
    reader: ShareReader, shares: Iterable[Share | None], faults: Faults
) -> dict[str, Floats]:
    """The numbers of the users of shares that quantiles are made of, by segmentation.

    Args:
        faults: is told what is wrong with the truth; what is with segments a share finds again.
    """
    numbers: dict[str, list[Floats]] = {}
    sources = _sources_of_quantiles(reader.tables)
    for share in shares:
        with suppress(FaultyShareError), faults.step(TRUTH, codes=TRUTH_CODES):
            truth = replace(reader, share=share).truth()
        for source in () if faults else sources:
            with suppress(EvalkitError):  # a share finds it again when it is measured
                counted = counted_users(truth, reader.tables.config)
                for name, known in numbers_of(source, truth, counted).items():
                    numbers.setdefault(name, []).append(known)
    return {name: np.concatenate(parts) for name, parts in numbers.items()}
