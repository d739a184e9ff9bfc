"""What a share of the users leaves behind: exact sums and counts, which add up in any order."""

from dataclasses import dataclass, field

from evalkit.aggregate.sums import GrandTotals


@dataclass(slots=True)
class GroupCounts:
    """What became of the rows of one group."""

    rows: int = 0
    null_ids: int = 0
    bad_scores: int = 0
    users: int = 0
    depth: int = 0

    def merge(self, other: "GroupCounts") -> None:
        """Add those of other users."""
        self.rows += other.rows
        self.null_ids += other.null_ids
        self.bad_scores += other.bad_scores
        self.users += other.users
        self.depth = max(self.depth, other.depth)


@dataclass(slots=True)
class OutcomeSums:
    """Sums of the values of users by group, and counts of their rows."""

    totals: GrandTotals = field(default_factory=GrandTotals)
    groups: dict[str, GroupCounts] = field(default_factory=dict)

    def merge(self, other: "OutcomeSums") -> None:
        """Take over the sums of other users."""
        self.totals.merge(other.totals)
        for name, counts in other.groups.items():
            self.groups.setdefault(name, GroupCounts()).merge(counts)
