"""What to evaluate, as one frozen record: read from TOML, `--set` and `--var`, or from options.

Every mistake is reported at once, each with the line it stands on.
"""

from evalkit.config._building import (
    build_config,
    build_gates,
    build_split,
    build_statistics,
    with_conventions,
)
from evalkit.config._builtins import build_builtin
from evalkit.config._doors import Door, speaking
from evalkit.config._engine import EngineSection
from evalkit.config._parts import SPLIT_FILE, SPLIT_VERSION, find_entry, read_split
from evalkit.config._places import Key, Places, key_lines, spell
from evalkit.config._policies import Policies
from evalkit.config._profiles import policies_of
from evalkit.config._reading import (
    MAX_BYTES,
    config_schema,
    evaluate_config,
    is_split_alone,
    load_config,
    load_split,
    parse_config,
)
from evalkit.config._records import (
    SELECTED,
    Config,
    GateRule,
    OutputSection,
    Segmentation,
    SegmentsSection,
    SplitConfig,
    StatisticsSection,
)
from evalkit.config._selection import (
    Confirmation,
    SelectionSection,
)
from evalkit.config._shares import is_laid_out, of_share, reads_catalogs, refuse_layout, with_paths
from evalkit.config._split import Core, SplitSection, bytes_of
from evalkit.config._tables import (
    CATALOG,
    SPAN,
    Builtin,
    ItemsTable,
    KindTable,
    LabelsTable,
    LogColumns,
    LogTable,
    PredictionsTable,
    RankingsColumns,
    RankingsTable,
    RatingsTable,
    Record,
    Texts,
    TrainColumns,
    TrainTable,
    TruthColumns,
    TruthTable,
    UsersTable,
    is_in_catalog,
    key,
    tuple_of_list,
)
from evalkit.config._variables import parse_variables

__all__ = [
    "CATALOG",
    "MAX_BYTES",
    "SELECTED",
    "SPAN",
    "SPLIT_FILE",
    "SPLIT_VERSION",
    "Builtin",
    "Config",
    "Confirmation",
    "Core",
    "Door",
    "EngineSection",
    "GateRule",
    "ItemsTable",
    "Key",
    "KindTable",
    "LabelsTable",
    "LogColumns",
    "LogTable",
    "OutputSection",
    "Places",
    "Policies",
    "PredictionsTable",
    "RankingsColumns",
    "RankingsTable",
    "RatingsTable",
    "Record",
    "Segmentation",
    "SegmentsSection",
    "SelectionSection",
    "SplitConfig",
    "SplitSection",
    "StatisticsSection",
    "Texts",
    "TrainColumns",
    "TrainTable",
    "TruthColumns",
    "TruthTable",
    "UsersTable",
    "build_builtin",
    "build_config",
    "build_gates",
    "build_split",
    "build_statistics",
    "bytes_of",
    "config_schema",
    "evaluate_config",
    "find_entry",
    "is_in_catalog",
    "is_laid_out",
    "is_split_alone",
    "key",
    "key_lines",
    "load_config",
    "load_split",
    "of_share",
    "parse_config",
    "parse_variables",
    "policies_of",
    "read_split",
    "reads_catalogs",
    "refuse_layout",
    "speaking",
    "spell",
    "tuple_of_list",
    "with_conventions",
    "with_paths",
]
