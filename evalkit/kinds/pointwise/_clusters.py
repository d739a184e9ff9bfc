"""Users who vary together: standard errors from what whole clusters of them move a number by."""

from dataclasses import dataclass

import numpy as np

from evalkit.aggregate.segments import SegmentTable, hash_clusters, no_cluster, read_user_values
from evalkit.kernels.arrays import Flags, Floats, Ints, Keys
from evalkit.kinds.pointwise.segments import RowUsers
from evalkit.statistics.exact import ExactSums, sums_of_runs
from evalkit.statistics.ratios import N_TERMS, RatioSum, terms_of


@dataclass(frozen=True, slots=True)
class Clusters:
    """The cluster of every user.

    Args:
        users: of the tables.
        hashes: uint64[n_users], stable hashes of the users: their order within a cluster.
        clusters: uint64[n_users], stable hashes of the users' clusters.
        is_known: bool[n_users], users whose rows name one.
    """

    source: SegmentTable
    users: RowUsers
    hashes: Keys
    clusters: Keys
    is_known: Flags

    @classmethod
    def read(cls, source: SegmentTable, users: RowUsers) -> "Clusters":
        """Raises:
        DataError: rows of one user name several clusters [segment-conflict].
        """
        (values,) = read_user_values(source, users)
        is_known = values.is_not_null().to_numpy()
        return cls(source, users, users.hashes_of(users.keys), hash_clusters(values), is_known)

    def keys_of(self, users: Keys) -> Keys:
        """uint64[n_users], the cluster of each of some users.

        Raises:
            DataError: a user has none [no-cluster].
        """
        codes = self.users.codes_of(users)
        n_without = int(np.count_nonzero(~self.is_known[codes]))
        if n_without:
            raise no_cluster(self.source, n_without)
        return self.clusters[codes]

    def bundle(self, users: Keys) -> "Bundles":
        """Some users, cluster by cluster."""
        clusters, hashes = self.keys_of(users), self.hashes[self.users.codes_of(users)]
        order = np.lexsort((hashes, clusters))
        by_cluster = clusters[order]
        starts = np.flatnonzero(np.diff(by_cluster, prepend=~by_cluster[:1]))
        return Bundles(order, starts)


@dataclass(frozen=True, slots=True)
class Bundles:
    """Users brought together by cluster.

    Args:
        order: int64[n_users], users cluster by cluster.
        starts: int64[n_clusters], where each cluster begins.
    """

    order: Ints
    starts: Ints

    def spread(self, moves: Floats, *, is_mean: bool) -> RatioSum:
        """What clusters move a number by together, as a mean of which they are parts.

        Args:
            is_mean: a cluster weighs as much as its users; otherwise all clusters weigh alike.
            moves: float64[n_users], what each user moves the number by; NaN of those it does not
                stand on.
        Source:
            Cochran 1977, Sampling Techniques, 3rd edition, equation 6.13, of means; Deville 1999,
            Variance estimation for complex statistics and estimators, 2, of other numbers.
        """
        sums = ExactSums(N_TERMS)
        if moves.size:
            ordered = moves[self.order]
            is_there = ~np.isnan(ordered)
            n_users = np.add.reduceat(is_there.astype(np.float64), self.starts)
            values = np.where(is_there, ordered, 0.0)[:, None]
            together = sums_of_runs(values, self.starts)[:, 0]
            weights = np.where(n_users > 0, n_users if is_mean else 1.0, np.nan)
            together = np.where(n_users > 0, together * np.nansum(weights), np.nan)
            sums.add(terms_of(together.reshape(-1, 1), weights.reshape(-1, 1)))
        return RatioSum.of(sums, 0)
