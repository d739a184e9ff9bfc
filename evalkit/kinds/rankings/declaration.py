"""What a config may say of rankings, and what evalkit has to know of them beforehand."""

from evalkit import config
from evalkit.metrics import RANKED_COUNTS, Declaration, Section

OF_OTHERS = (
    *("unpredicted", "unrated", "bad_labels", "crossed_units", "unknown_variants", "bad_values"),
    *("open_windows", "unexposed_events", "equal_events", "units", "ratio_errors"),
)
DECLARATION = Declaration(
    sections={
        "rankings": Section(
            config.RankingsTable, "What is judged.", is_listed=True, has_model=True
        ),
        "truth": Section(config.TruthTable, "What is right."),
        "log": Section(config.LogTable, "Both in one table.", has_model=True),
        "train": Section(config.TrainTable, "What the models had seen."),
        "items": Section(config.ItemsTable, "What could be shown."),
        "users": Section(config.UsersTable, "Who should have got a list."),
    },
    metrics="evalkit.metrics.rankings",
    declared_by="@metric(...)",
    kernels_take="hits, relevant, lengths, cutoffs",
    words=RANKED_COUNTS,
    refuses=(),
    follows=tuple(name for name in config.Policies.model_fields if name not in OF_OTHERS),
)
