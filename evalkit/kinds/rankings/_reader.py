"""What logs of rankings say of one share of the users: the truth, the train, ranks and lists."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import polars as pl

from evalkit.aggregate.user_values import checks
from evalkit.aggregate.user_values.gather import ListOrder, RankSets, rules_of
from evalkit.config import Policies, policies_of
from evalkit.errors import Faults
from evalkit.kinds.rankings._steps import TRAIN
from evalkit.metrics import Lists, Request
from evalkit.planning.counters import Clock
from evalkit.planning.tables import Tables
from evalkit.ranks import ModelProbe, RankScan, scan_alike
from evalkit.sources import Table
from evalkit.sources.ids import IdPlan, Sample, Share
from evalkit.truth import (
    Interactions,
    SeenRows,
    Train,
    Truth,
    build_train,
    build_truth,
    with_weights,
)

if TYPE_CHECKING:
    from evalkit.item_lists import ListCollector, ListWork


@dataclass(frozen=True, slots=True)
class Probed:
    """The ranks of one model.

    Args:
        main: the probe whose counts the report has.
        ranks: by each set of rules that lists are put in order by.
    """

    main: ModelProbe
    ranks: RankSets


@dataclass(frozen=True, slots=True)
class ShareReader:
    """Reads the logs of a run for one share of the users.

    Args:
        plans: how ids of users and of items become keys.
        measured: what the lists are put in order for.
        sample, share: the users who are read; None for all.
        lists: what metrics of lists ask for.
        known_models: of tables whose rows name them, by the table's number.
        memory_of_rows: bytes of rows that may be held, so that they are read once.
        seen_rows: of train, where they are kept on disk between passes.
    """

    tables: Tables
    plans: tuple[IdPlan, IdPlan]
    measured: Sequence[Request]
    threads: int
    clock: Clock
    sample: Sample | None
    lists: "ListWork | None"
    known_models: Mapping[int, Sequence[str]]
    memory_of_rows: int
    n_passes: int
    seen_rows: SeenRows | None = None
    share: Share | None = None

    @property
    def policies(self) -> Policies:
        """Those of the config."""
        return self.tables.config.policies

    @property
    def of_lists(self) -> list[Request]:
        """What is measured of the lists themselves."""
        return [each for each in self.measured if each.metric.lists is not None]

    @property
    def drops_seen(self) -> bool:
        """Whether items of the train are no part of a list."""
        train = self.tables.config.train
        return train is not None and train.drop_seen

    def truth(self) -> Truth:
        """The right answers."""
        tables, policies = self.tables, self.policies
        rankings = [table for _, table in tables.rankings]
        if policies.unknown_users == "count":
            of_rankings = checks.users_of_rankings(rankings, self.plans[0], tables.threshold)
            return self._truth_with(of_rankings)
        truth = self._truth_with(None)
        refuses = policies.unknown_users == "error" and not tables.config.is_truthless
        if self.lists is None or refuses:
            return truth
        if tables.users is not None:
            rankings.append(tables.users)
        who = [policies_of(each, policies).list_users for each in self.of_lists]
        if tables.train is not None and "train" in who:
            rankings.append(tables.train)
        others = checks.unknown_users(rankings, truth, self.sample, self.share)
        return truth if others is None else self._truth_with(others)

    def _truth_with(self, extra: pl.LazyFrame | None) -> Truth:
        tables, config = self.tables, self.tables.config
        users = self.sample, self.share
        truth = build_truth(
            Interactions(tables.truth, *self.plans, self.threads, *users, extra),
            threshold=tables.threshold,
            policies=config.policies,
            clock=self.clock.stop,
            keep_judged=bool(checks.of_judged(self.measured, config.policies)),
        )
        if "propensity" not in tables.truth.columns:
            return truth
        floor = None if config.truth is None else config.truth.min_propensity
        return with_weights(tables.truth, truth, floor, *users)

    def train(self, truth: Truth, faults: Faults) -> Train | None:
        """What the models had seen, where there is a log of it."""
        table, lists = self.tables.train, self.lists
        if table is None:
            return None
        counter = None if lists is None else lists.popularity_counter()
        with faults.step(TRAIN):
            train = build_train(
                table,
                truth,
                null_ids=self.policies.null_ids,
                threads=self.threads,
                share=self.share,
                watch=counter,
                kept_rows=self.seen_rows,
            )
        if counter is not None and lists is not None:
            given = self.plans[0], self.n_passes, train, self.seen_rows
            lists.popularity = counter.finish(table, *given)
        return train

    def probe(self, number: int, truth: Truth, train: Train | None) -> dict[str, Probed]:
        """The ranks of every model of one table of the rankings, by name."""
        from_model, table = self.tables.rankings[number]
        has = has_order(table)
        rules = orders_of(table, self.measured, self.policies)
        of_lists = orders_of(table, self.of_lists, self.policies) if self.lists is not None else ()
        scans = [
            RankScan(
                table,
                from_model,
                truth,
                rule.applied_to(self.policies),
                self.threads,
                train=train,
                drop_seen=self.drops_seen,
                sample=self.sample,
                share=self.share,
                progress=self.clock.line.advance,
                detailed=rule.detailed,
                collector=self._collector(truth) if rule in of_lists else None,
                known_models=self.known_models.get(number, ()),
                room=self.memory_of_rows,
            )
            for rule in rules
        ]
        by_rule = scan_alike(scans)
        return {
            name: Probed(
                main,
                RankSets(
                    {rule: each[name].ranks for rule, each in zip(rules, by_rule, strict=True)},
                    **has,
                ),
            )
            for name, main in by_rule[0].items()
        }

    def _collector(self, truth: Truth) -> "ListCollector":
        from evalkit.item_lists import ListCollector

        assert self.lists is not None
        return ListCollector(self.lists.codes, truth.n_users, self.lists.depth)

    def lists_beside(
        self, table: Table, model: str | None, truth: Truth, train: Train | None
    ) -> dict[str, Lists]:
        """The lists of every model of a table that is not measured itself."""
        from evalkit.item_lists import ListCollector

        assert self.lists is not None
        scan = RankScan(
            table,
            model,
            truth,
            self.policies.model_copy(update={"unknown_users": "skip"}),
            self.threads,
            train=train,
            drop_seen=self.drops_seen,
            sample=self.sample,
            share=self.share,
            collector=ListCollector(self.lists.codes, truth.n_users, self.lists.depth_beside),
        )
        (probes,) = scan_alike([scan])
        lists = {name: each.ranks.lists for name, each in probes.items()}
        return {name: each for name, each in lists.items() if each is not None}


def has_order(table: Table) -> dict[str, bool]:
    """Whether a log has scores, and ranks."""
    schema = table.frame.collect_schema()
    return {"has_score": "score" in schema, "has_rank": "rank" in schema}


def orders_of(table: Table, requests: Sequence[Request], policies: Policies) -> list[ListOrder]:
    """The ways in which requests want the lists of a log to be put in order."""
    has = has_order(table)
    return list(dict.fromkeys(rules_of(each, policies, **has) for each in requests))
