"""What metrics of lists look at in one share of the users; loaded where one is asked for."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from evalkit.aggregate.accumulators.genres import genres_of_users, key_of_genres, requests_of_genres
from evalkit.aggregate.accumulators.shown import Shares, ShownSums
from evalkit.aggregate.sums import Pair, add_to
from evalkit.aggregate.user_values.gather import RankSets, ranges
from evalkit.config import policies_of
from evalkit.errors import DataError
from evalkit.inference.shown import key_of
from evalkit.item_lists import Measure
from evalkit.kernels.arrays import Flags
from evalkit.kinds.rankings._reader import ShareReader
from evalkit.kinds.rankings._splits import ShareSplit
from evalkit.kinds.rankings.merge import RankingSums
from evalkit.metrics import Lists, Request, closes_up, family_of, who_of
from evalkit.sources import Table, reading
from evalkit.sources.ids import USER_KEY, as_keys
from evalkit.truth import BATCH_ROWS, Train, Truth


@dataclass(frozen=True, slots=True)
class ShareLists:
    """The lists of one share of the users.

    Args:
        measure: what gives users their values.
    """

    reader: ShareReader
    truth: Truth
    measure: Measure

    @classmethod
    def of(
        cls, reader: ShareReader, truth: Truth, train: Train | None, held: Mapping[str, RankSets]
    ) -> "ShareLists":
        """What stands beside the lists of some models, whose items must all have been met."""
        tables, config, work = reader.tables, reader.tables.config, reader.lists
        assert work is not None
        reference, earlier = None, dict[str, tuple[Lists, ...]]()
        named = config.metrics.reference or ""
        if config.reference_is_model and named in held:
            rules = held[named].sets
            reference = next(each.lists for each in rules.values() if each.lists is not None)
        elif tables.reference is not None:
            found = reader.lists_beside(tables.reference, "reference", truth, train)
            reference = next(iter(found.values()), None)
        for (model, _), before in zip(tables.rankings, tables.earlier, strict=False):
            for table in reversed(before):
                for name, each in reader.lists_beside(table, model, truth, train).items():
                    earlier[name] = (*earlier.get(name, ()), each)
        drops = config.policies.null_ids == "drop"
        targets = _targets(truth, tables.users, drops) if "users" in work.needs else None
        measure = work.measure(truth, train, targets=targets, reference=reference, earlier=earlier)
        return cls(reader, truth, measure)

    def add(
        self,
        ranks: Mapping[str, RankSets],
        pairs: Sequence[Pair],
        split: ShareSplit,
        sums: RankingSums,
        *,
        together: bool,
    ) -> None:
        """Add up what metrics of all lists together are made of, and count unknown items.

        Args:
            together: models share their users.
        """
        self._note_odd(ranks, sums)
        self._keep_genres(ranks, sums)
        reader, hashes = self.reader, self.truth.stable_hashes()
        groups: dict[object, list[Request]] = {}
        for request in reader.measured:
            if family_of(request) in ("counts", "sums"):
                groups.setdefault(who_of(request), []).append(request)
        for requests in groups.values():
            held = {
                name: each.sets[each.rules_of(requests[0], reader.policies)]
                for name, each in ranks.items()
            }
            lists = {name: each.lists for name, each in held.items() if each.lists is not None}
            first, policies = requests[0], policies_of(requests[0], reader.policies)
            if closes_up(first):
                is_listed = self.measure.context.items.is_listed
                lists = {name: _closed_up(each, is_listed) for name, each in lists.items()}
            present = {
                name: self.measure.who_counts(first, policies, held[name].present) for name in lists
            }
            for names in [lists] if together else [{name: each} for name, each in lists.items()]:
                share = Shares(
                    self.measure,
                    names,
                    {name: present[name] for name in names},
                    hashes,
                    split.users,
                    split.cells,
                    pairs,
                    reader.threads,
                )
                key = key_of(requests[0], "" if together else next(iter(names)))
                add_to(sums.shown, key, ShownSums.of(share, requests))

    def _keep_genres(self, ranks: Mapping[str, RankSets], sums: RankingSums) -> None:
        """Keep the genres of some users, for the page."""
        reader, hashes = self.reader, self.truth.stable_hashes()
        for request in requests_of_genres(reader.measured):
            policies = policies_of(request, reader.policies)
            for name, rank in ranks.items():
                held = rank.sets[rank.rules_of(request, reader.policies)]
                if held.lists is not None:
                    who = self.measure.who_counts(request, policies, held.present)
                    found = genres_of_users(request, name, self.measure, held.lists, who, hashes)
                    add_to(sums.shown, key_of_genres(request, name), found)

    def _note_odd(self, ranks: Mapping[str, RankSets], sums: RankingSums) -> None:
        """Count what metrics of lists say little of."""
        items = self.measure.context.items
        for name, by_rules in ranks.items():
            held = next((each for each in by_rules.sets.values() if each.lists), None)
            if held is not None and held.lists is not None:
                assert self.reader.lists is not None
                odd = self.reader.lists.oddities(items, held.lists, held.present)
                sums.models[name].note_lists(*odd)


def _closed_up(lists: Lists, is_listed: Flags) -> Lists:
    """The same lists without items that the table lacks."""
    items = lists.items[ranges(lists.starts, lists.lengths)]
    kept, ends = is_listed[items], np.cumsum(lists.lengths)
    counts = np.append(0, np.cumsum(kept))
    lengths = counts[ends] - counts[ends - lists.lengths]
    return Lists(np.cumsum(lengths) - lengths, lengths, items[kept])


def _targets(truth: Truth, users: Table | None, drops: bool) -> Flags:
    """Who should have got a list: the users of their table, or those of the truth.

    Args:
        drops: rows without a user are passed over.
    Raises:
        DataError: rows of the table have no user [null-id].
    """
    if users is None:
        if truth.is_extra is None:
            return np.ones(truth.n_users, dtype=np.bool_)
        return ~truth.is_extra
    targets, n_nulls = np.zeros(truth.n_users, dtype=np.bool_), 0
    with reading(users):
        for rows in users.stream([truth.user_plan.key().alias(USER_KEY)], most=BATCH_ROWS):
            n_nulls += rows[USER_KEY].null_count()
            codes = truth.codes_of(as_keys(rows[USER_KEY].drop_nulls()))
            targets[codes[codes >= 0]] = True
    if n_nulls and not drops:
        hint = 'filter them by where, or write null_ids = "drop" under [policies]'
        message = f"{n_nulls:,} rows of the users have no user"
        raise DataError(message, code="null-id", at=users.at, hint=hint)
    return targets
