# ruff: noqa: F401  # these are the names
"""The names of the room, which its `__init__` gives when one is asked for."""

from evalkit.config._alerts import AlertsSection
from evalkit.config._arguments import Columns, check_argument, hinted, our_columns
from evalkit.config._building import (
    build_config,
    build_gates,
    build_split,
    build_statistics,
    with_conventions,
)
from evalkit.config._builtins import build_builtin
from evalkit.config._engine import EngineSection
from evalkit.config._entry_points import EntryPoint, in_words_of, speaking
from evalkit.config._manifest import check_files, find_part
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
from evalkit.config._selection import Confirmation, SelectionSection
from evalkit.config._shares import is_laid_out, of_share, reads_catalogs, refuse_layout, with_paths
from evalkit.config._split import Core, SplitSection, bytes_of
from evalkit.config._tables import (
    CATALOG,
    SPAN,
    Builtin,
    FormKeys,
    ItemsTable,
    KindTable,
    LabelsTable,
    Listed,
    LogColumns,
    LogTable,
    Moment,
    Names,
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
    is_none,
    key,
    unsaid,
)
from evalkit.config._variables import parse_variables
