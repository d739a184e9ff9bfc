"""What is asked of one run of rankings, and what every share of its users is measured with."""

from dataclasses import dataclass, field
from pathlib import Path

from evalkit.config import Config
from evalkit.errors import RequestError
from evalkit.ids import IdPlan, Sample, Share
from evalkit.looks.curves import curve_requests
from evalkit.looks.resampling import Draws, Resampling, resamples
from evalkit.metrics import Request
from evalkit.planning.ledger import Clock
from evalkit.planning.passes import Asked
from evalkit.planning.tables import Tables, plan_ids_of
from evalkit.ranks import are_held_whole
from evalkit.report import UserWriter
from evalkit.sources import Table
from evalkit.truth import Truth, build_truth
from evalkit.values.checks import check_item_segments, helping_requests, users_of_rankings
from evalkit.values.gather import ListRules, rules_of


@dataclass(slots=True)
class RankingJob:
    """One config of rankings, its tables, and how it is to be measured.

    Args:
        config: with the columns that are read.
        sample: share of the users, drawn by a hash of their ids.
        per_user: keep the values of every user.
        keep_parts: keep the sums that explain a change.
        n_shares: that the users are measured in.
        plans: how ids of users and of items become keys.
        folder: values of users are written into, instead of kept in memory.
        writer: of these.
        measured: the requests, then what helps them.
    """

    config: Config
    tables: Tables
    threads: int
    sample: float | None
    per_user: bool
    keep_parts: bool
    clock: Clock
    folder: Path | None = None
    n_shares: int = 1
    writer: UserWriter | None = None
    plans: tuple[IdPlan, IdPlan] = field(init=False)
    measured: list[Request] = field(init=False)

    def __post_init__(self) -> None:
        config = self.config
        self.measured = [*config.requests, *helping_requests(config.requests, config.policies)]
        check_item_segments(self.measured, config)
        self.keep_parts &= config.statistics.weight is None  # parts are of plain means

    def begin(self, seed: int) -> None:
        """Start from the first row, with ids hashed by this seed."""
        self.plans = plan_ids_of(self.tables, seed)
        if self.folder is not None:
            labels = [request.label for request in self.requests]
            self.writer = UserWriter(self.folder, self.tables.truth.user_names, labels)
        self.clock.start()

    @property
    def requests(self) -> tuple[Request, ...]:
        """What is reported."""
        return tuple(self.config.requests)

    @property
    def shares(self) -> list[Share | None]:
        """The shares of the users that are measured one after the other."""
        if self.n_shares == 1:
            return [None]
        return [Share(number, self.n_shares) for number in range(self.n_shares)]

    @property
    def compares(self) -> bool:
        """Whether models share users' draws or pairs, so that they are measured at one time."""
        statistics = self.config.statistics
        compares = statistics.baseline is not None or statistics.pairs == "all"
        return compares or self.has_ratios or resamples(statistics)

    @property
    def asked(self) -> Asked:
        """What of the config takes memory."""
        policies, statistics, listed = self.config.policies, self.config.statistics, set()
        for number, (_, table) in enumerate(self.tables.rankings):
            schema = table.frame.collect_schema()
            has = {"has_rank": "rank" in schema, "has_score": "score" in schema}
            for rules in self.rules_of(table):
                if rules.detailed or are_held_whole(rules.applied_to(policies), **has):
                    listed.add(number)
        return Asked(
            len(self.measured),
            self.compares,
            statistics.baseline is not None,
            statistics.pairs == "all",
            frozenset(listed),
            1.0 if self.sample is None else self.sample,
        )

    def rules_of(self, table: Table) -> list[ListRules]:
        """The ways in which what is measured wants the lists of a log to be put in order."""
        schema = table.frame.collect_schema()
        has = {"has_rank": "rank" in schema, "has_score": "score" in schema}
        policies = self.config.policies
        return list(dict.fromkeys(rules_of(each, policies, **has) for each in self.measured))

    def resampling(self, draws: Draws) -> Resampling | None:
        """What draws over users, where the config asks for it."""
        in_passes = self.n_shares > 1
        return Resampling.of(self.config, self.requests, in_passes=in_passes, draws=draws)

    @property
    def curve_requests(self) -> list[Request]:
        """What is measured for curves, where the config asks for them."""
        if not self.config.statistics.curves:
            return []
        return curve_requests(self.requests, self.config.policies)

    @property
    def has_ratios(self) -> bool:
        """Whether users count differently, or vary together."""
        return (
            self.config.statistics.weight is not None or self.config.statistics.cluster is not None
        )

    @property
    def has_items(self) -> bool:
        """Whether items are split."""
        return any(each.of_items for each in self.tables.segments)

    def check_passes(self) -> None:
        """Refuse to cut what must be whole.

        Raises:
            RequestError: several passes would cut clusters [cluster-passes].
        """
        if self.config.statistics.cluster is not None and self.n_shares > 1:
            raise RequestError(
                "clusters of users must be whole, and several passes would cut them",
                code="cluster-passes",
                at=self.config.at("statistics", "cluster"),
                hint="raise --memory-limit",
            )

    def sample_of_users(self) -> Sample | None:
        """Who is measured at all, where that are not all."""
        return None if self.sample is None else Sample(self.sample, self.plans[0])

    def truth_of(self, share: Share | None) -> Truth:
        """The right answers for one share of the users."""
        tables, (user_plan, item_plan) = self.tables, self.plans
        extra = None
        if self.config.policies.unknown_users == "count":
            rankings = [table for _, table in tables.rankings]
            extra = users_of_rankings(rankings, user_plan, tables.threshold)
        return build_truth(
            tables.truth,
            threshold=tables.threshold,
            user_plan=user_plan,
            item_plan=item_plan,
            policies=self.config.policies,
            threads=self.threads,
            sample=self.sample_of_users(),
            share=share,
            clock=self.clock.stop,
            extra=extra,
        )
