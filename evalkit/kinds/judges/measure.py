"""Measures one share of the units: its rows, as they were read."""

from evalkit.config import Config
from evalkit.kinds.judges.merge import JudgeRows
from evalkit.kinds.judges.open import open_judges, read_rows
from evalkit.planning.counters import input_of
from evalkit.planning.work import MeasureOptions, ShareResult
from evalkit.sources.ids import SEEDS, USER_KEY, DrawnShare, Sample, plan_ids


def measure_judges(config: Config, work: MeasureOptions) -> ShareResult:
    """The rows of one share of the units; of preferences, of the judges."""
    opened = open_judges(config, work.given)
    if work.opened is not None:
        work.opened(opened.all)
    table = opened.ratings
    schema = dict(table.frame.collect_schema())
    types = {name: dtype for name, dtype in schema.items() if name.startswith("user_")}
    what = "judge" if opened.section.columns.unit is None else "unit"
    plan = plan_ids(what, [(table.role, table.at, types)], seed=SEEDS[0])
    rows = read_rows(table)
    n_rows = rows.height
    number, n_shares = work.share
    keyed = rows.with_columns(plan.select(USER_KEY))
    if n_shares > 1:
        held = DrawnShare(number - 1, n_shares, plan).holds(keyed)
        rows, keyed = rows.filter(held), keyed.filter(held)
    if work.sample is not None:
        rows = rows.filter(Sample(work.sample, plan).holds(keyed))
    ids = {"user": tuple(map(str, types.values()))}
    names = table.user_names
    body = JudgeRows({number: rows}, names, table.at)
    return ShareResult(opened.config, ids, [input_of(table, n_rows, "judges")], body)
