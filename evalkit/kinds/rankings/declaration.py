"""What a config may say of rankings, and what evalkit has to know of them beforehand."""

from evalkit.config import (
    ItemsTable,
    LogTable,
    RankingsTable,
    TrainTable,
    TruthTable,
    UsersTable,
)
from evalkit.metrics import RANKED_COUNTS, Declaration, Section

DECLARATION = Declaration(
    sections={
        "rankings": Section(RankingsTable, "What is judged.", is_listed=True, has_model=True),
        "truth": Section(TruthTable, "What is right."),
        "log": Section(LogTable, "Both in one table.", has_model=True),
        "train": Section(TrainTable, "What the models had seen."),
        "items": Section(ItemsTable, "What could be shown."),
        "users": Section(UsersTable, "Who should have got a list."),
    },
    metrics="evalkit.metrics.rankings",
    declared_by="@metric(...)",
    kernels_take="hits, relevant, lengths, cutoffs",
    words=RANKED_COUNTS,
    refuses=(),
)
