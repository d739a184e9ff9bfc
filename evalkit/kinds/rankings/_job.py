"""What is asked of rankings, and what every share of their users is measured with."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import comb

from evalkit.aggregate.accumulators.curves import curve_requests
from evalkit.aggregate.accumulators.resampling import Draws, Resampling, resamples
from evalkit.aggregate.segments import most_cells
from evalkit.aggregate.user_values import checks
from evalkit.config import Config, policies_of
from evalkit.errors import RequestError
from evalkit.kinds.rankings._reader import ShareReader, has_order, orders_of
from evalkit.metrics import TIED, Request, family_of, is_ordered, needs_of, who_of
from evalkit.planning.counters import Clock
from evalkit.planning.item_memory import AskedOfItems
from evalkit.planning.list_memory import AskedOfLists
from evalkit.planning.meeting import Meeting
from evalkit.planning.passes import Asked
from evalkit.planning.tables import Tables, plan_ids_of
from evalkit.planning.work import MeasureOptions, places_kept
from evalkit.ranks import are_held_whole
from evalkit.report import UserWriter, Warning_
from evalkit.sources.ids import DrawnShare, PartOfShare, PassShare, Sample, Share
from evalkit.truth import SeenRows


@dataclass(slots=True)
class RankingTask:
    """What is asked of rankings, whatever their tables hold.

    Args:
        config: with the columns that are read.
        n_passes: over the logs, each for some of the users.
        requests: what is reported.
        measured: the requests, then what helps them.
    """

    config: Config
    options: MeasureOptions
    clock: Clock
    threads: int = field(init=False)
    n_passes: int = 1
    requests: tuple[Request, ...] = field(init=False)
    measured: list[Request] = field(init=False)

    def __post_init__(self) -> None:
        config = self.config
        self.threads = self.options.useful_threads
        self.requests = tuple(config.requests)
        self.measured = [*self.requests, *checks.helping_requests(self.requests, config.policies)]
        if means := [each for each in self.requests if family_of(each) == "means"]:
            from evalkit.inference.shown import of_groups

            of_means = dict.fromkeys(of_groups(config, each) for each in means)
            self.measured += [each for each in of_means if each not in self.measured]
        self.measured += checks.judged_beside(config)

    @property
    def keeps_parts(self) -> bool:
        """Whether sums that explain a change are kept, which are of plain means."""
        return self.options.keep_parts and self.config.statistics.weight is None

    @property
    def kept(self) -> list[int]:
        """Which of the requests keep the values of users."""
        places = places_kept(self.requests, self.options.per_user)
        return [each for each in places if self.requests[each].metric.over_users is None]

    @property
    def ordered(self) -> list[Request]:
        """What stands on the order of the users' values, so that all are kept."""
        return [each for each in self.requests if is_ordered(each)]

    @property
    def has_ratios(self) -> bool:
        """Whether users count differently, or vary together."""
        statistics = self.config.statistics
        return statistics.weight is not None or statistics.cluster is not None

    @property
    def of_ratios(self) -> Sequence[Request]:
        """What is summed over clusters or with weights: the requests, and bounds of ties."""
        follows = {policies_of(each, self.config.policies).ties for each in self.requests}
        has_bounds = self.config.statistics.weight is not None and follows & set(TIED)
        return self.measured if has_bounds else self.requests

    def numbers_of_user(self, n_models: int) -> dict[str, int]:
        """Numbers that shares keep of each user, as no sum says enough: by what asks for them."""
        statistics, segments = self.config.statistics, self.config.segments
        n_sets = 1 + len(segments.named) - len(self.items) + len(segments.cross)
        resampling = self.resampling(Draws())
        found: dict[str, int] = {}
        if self.options.per_user and self.options.per_user_folder is None:
            found["per_user"] = n_models * len(self.kept)
        if resampling is not None and statistics.test == "wilcoxon":
            n_pairs = comb(n_models, 2) if statistics.pairs == "all" else n_models - 1
            found['test = "wilcoxon"'] = n_pairs * len(resampling.requests) * n_sets
        rows = 2 + n_sets + n_models * len(self.requests)
        if ordered := self.ordered:
            found[ordered[0].label] = 2 + n_sets + n_models * len(ordered)
        if statistics.cluster is not None:
            found["cluster"] = rows
        elif resampling is not None and not resampling.is_bounded:
            found["draws of metrics without bounds"] = rows
        return found

    @property
    def of_lists(self) -> list[Request]:
        """What is measured of the lists themselves."""
        return [each for each in self.measured if each.metric.lists is not None]

    @property
    def compares(self) -> bool:
        """Whether models share users' draws or pairs, so that they are measured at one time."""
        statistics = self.config.statistics
        compares = statistics.baseline is not None or statistics.pairs == "all"
        compares |= (
            bool(self.ordered) or self.config.reference_is_model or statistics.two_way is not None
        )
        return compares or self.has_ratios or resamples(statistics)

    @property
    def items(self) -> list[str]:
        """The segmentations of items."""
        named = self.config.segments.named
        return [name for name, rule in named.items() if rule.item is not None]

    @property
    def has_quantiles(self) -> bool:
        """Whether segments of users are quantiles, whose edges are those of all users."""
        rules = self.config.segments.named.values()
        return any(rule.quantiles is not None and rule.item is None for rule in rules)

    @property
    def curve_requests(self) -> list[Request]:
        """What is measured for curves, where the config asks for them."""
        if not self.config.statistics.curves:
            return []
        return curve_requests(self.requests, self.config.policies)

    def resampling(self, draws: Draws, *, in_passes: bool = False) -> Resampling | None:
        """What draws over users, where the config asks for it."""
        return Resampling.of(self.config, self.requests, in_passes=in_passes, draws=draws)

    def most_in_cells(self, n_segments: Mapping[str, int]) -> int:
        """How many cells users may be put into, by how many segments each segmentation has.

        Raises:
            RequestError: sums of so many segments take too much memory [too-many-segments].
        """
        n_tables = max(1, len(self.config.rankings))  # one where the config has a log
        n_targets = n_tables * (2 if self.compares else 1)
        of_users = {name: n for name, n in n_segments.items() if name not in self.items}
        return most_cells(of_users, len(self.measured) * n_targets)


@dataclass(slots=True)
class RankingJob(RankingTask):
    """What is asked of rankings, and their tables.

    Args:
        is_laid_out: the tables hold the users of this share alone.
        n_passes_over_all: over the users of all shares, where what they have must be known.
        memory_of_rows: bytes of rows that may be held, so that they are read once.
        reader: of all users, under the seed that ids are hashed by.
        writer: of the values of users.
        remarks: warnings of what the tables are.
        looked: whether ids of whole tables meet, where it was looked for.
    """

    tables: Tables = field(kw_only=True)
    is_laid_out: bool = False
    n_passes_over_all: int = 1
    memory_of_rows: int = 0
    reader: ShareReader = field(init=False)
    writer: UserWriter | None = None
    remarks: tuple[Warning_, ...] = ()
    looked: dict[tuple[object, ...], Meeting] = field(default_factory=dict)

    def __post_init__(self) -> None:
        super(RankingJob, self).__post_init__()
        checks.check_item_segments(self.measured, self.config)
        checks.check_two_way(self.requests, self.config)
        checks.check_threshold(self.config)
        checks.check_judged(self.tables.truth, self.measured, self.config)
        checks.check_propensity(self.requests, self.config)

    def begin(self, seed: int) -> None:
        """Start from the first row, with ids hashed by this seed."""
        tables, known, sample, lists = self.tables, self.options.known, self.options.sample, None
        plans = plan_ids_of(tables, seed)
        if self.of_lists:
            from evalkit.item_lists import ListWork

            section, items = self.config.items, None
            if tables.items is not None and section is not None:
                items = tables.items, section, tables.groups
            of_rows = self.config.policies.train_rows == "rows"
            lists = ListWork.of(
                self.of_lists, plans, train=tables.train, items=items, of_rows=of_rows
            )
            if known is not None:
                lists.take_counts(known.train, known.n_train_users)
        self.reader = ShareReader(
            tables,
            plans,
            self.measured,
            self.threads,
            self.clock,
            None if sample is None else Sample(sample, plans[0]),
            lists,
            {} if known is None else known.models,
            self.memory_of_rows,
            self.n_passes,
            None if self.is_shared else SeenRows.of(tables.train, plans, self.n_passes),
        )
        if self.options.per_user_folder is not None:
            labels = [self.requests[place].label for place in self.kept]
            folder = self.options.per_user_folder
            is_whole = self.compares and self.n_passes == 1
            names = tables.truth.user_names
            self.writer = UserWriter(folder, names, labels, is_whole=is_whole)
        self.clock.start()

    @property
    def passes(self) -> Sequence[Share | None]:
        """The users who are measured here, one pass over the logs after the other."""
        number, n_shares = self.options.share
        passes = _passes(self.n_passes)
        if not self.is_shared or self.is_laid_out:
            return passes
        drawn = DrawnShare(number - 1, n_shares, self.reader.plans[0])
        return [drawn if each is None else PartOfShare(drawn, each) for each in passes]

    @property
    def passes_over_all(self) -> list[PassShare | None]:
        """The users of all shares, in as many passes as hold them."""
        return _passes(self.n_passes_over_all)

    @property
    def is_shared(self) -> bool:
        """Whether other shares are measured elsewhere."""
        return self.options.share[1] > 1

    @property
    def is_cut(self) -> bool:
        """Whether sums of several shares come together, here or elsewhere."""
        return self.is_shared or self.n_passes > 1

    @property
    def keeps_clusters(self) -> bool:
        """Whether shares cut clusters, which are put together in the end."""
        return self.is_shared and self.config.statistics.cluster is not None

    @property
    def keeps_draws(self) -> bool:
        """Whether draws wait for the largest value of all shares."""
        resampling = self.resampling(Draws())
        return self.is_shared and resampling is not None and not resampling.is_bounded

    @property
    def asked(self) -> Asked:
        """What of the config takes memory."""
        n_drawn = 1 if self.is_laid_out else self.options.share[1]
        policies, statistics, listed = self.config.policies, self.config.statistics, set()
        sample = 1.0 if self.options.sample is None else self.options.sample
        writes = self.options.per_user and self.options.per_user_folder is not None
        for number, (_, table) in enumerate(self.tables.rankings):
            has = has_order(table)
            for rules in orders_of(table, self.measured, policies):
                own = rules.applied_to(policies)
                if rules.detailed or are_held_whole(own, **has, depth=self._depth_of_lists):
                    listed.add(number)
        return Asked(
            len(self.measured),
            self.compares,
            statistics.baseline is not None,
            statistics.pairs == "all",
            frozenset(listed),
            sample / n_drawn,
            self._asked_of_lists,
            self.threads,
            self._asked_of_items,
            len(self.kept) if writes else 0,
            len(self.ordered),
            self.config.train is not None and self.config.train.drop_seen,
        )

    @property
    def _depth_of_lists(self) -> int | None:
        """How many ranks of lists metrics look at: none without such metrics; None for all."""
        if not self.of_lists:
            return 0
        from evalkit.item_lists import depth_of

        return depth_of(self.of_lists)

    @property
    def _asked_of_lists(self) -> AskedOfLists | None:
        """What metrics of lists take."""
        if not self.of_lists:
            return None
        from evalkit.aggregate.accumulators.counting import Columns

        families = [family_of(each) for each in self.of_lists]
        counts: dict[object, list[Request]] = {}
        for of_list in self.of_lists:
            if family_of(of_list) == "counts":
                counts.setdefault(who_of(of_list), []).append(of_list)
        columns = [Columns.of(each) for each in counts.values()]
        needs = {need for each in self.of_lists for need in needs_of(each)}
        return AskedOfLists(
            self._depth_of_lists or 0,
            sum(each.width for each in columns),
            sum(len(each.gains) for each in columns),
            sum(each in ("counts", "sums", "means", "combined") for each in families),
            families.count("sums"),
            bool(needs & {"train", "history"}),
            "history" in needs,
            "relevant" in needs,
            self.config.policies.train_rows == "pairs",
            any(dict(each.parameters).get("history") == "weighted" for each in self.of_lists),
        )

    @property
    def _asked_of_items(self) -> AskedOfItems | None:
        """What errors over users and items take."""
        if self.config.statistics.two_way is None:
            return None
        segments = self.config.segments
        plain = [(name,) for name in segments.named]
        return AskedOfItems(len(self.requests), ((), *plain, *segments.cross))

    @property
    def asked_of_all(self) -> Asked:
        """The same of the users of all shares."""
        sample = 1.0 if self.options.sample is None else self.options.sample
        return replace(self.asked, sample=sample)

    @property
    def id_types(self) -> dict[str, tuple[str, ...]]:
        """The types that ids of users and of items are brought to."""
        kinds = zip(("user", "item"), self.reader.plans, strict=True)
        return {kind: tuple(map(str, plan.dtypes)) for kind, plan in kinds}

    def check_passes(self) -> None:
        """Refuse to cut what must be whole.

        Raises:
            RequestError: several passes would cut clusters [cluster-passes].
        """
        is_whole = self.n_passes == 1 or self.keeps_clusters
        if self.config.statistics.cluster is not None and not is_whole:
            raise RequestError(
                "clusters of users must be whole, and several passes would cut them",
                code="cluster-passes",
                at=self.config.at("statistics", "cluster"),
                hint="raise --memory-limit",
            )


def _passes(n_passes: int) -> list[PassShare | None]:
    return [None] if n_passes == 1 else [PassShare(each, n_passes) for each in range(n_passes)]
