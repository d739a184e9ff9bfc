"""Rankings whose order of rows ranks: refused where a column that looks like a score disagrees."""

import json
import shlex
from dataclasses import replace

from evalkit.config import LogTable, RankingsTable
from evalkit.errors import DataError
from evalkit.sources.failures import mapped
from evalkit.sources.guess import Guessing
from evalkit.sources.table import Table


def by_rows(opened: Table, table: RankingsTable | LogTable, guessing: Guessing) -> Table:
    """The table, where the order of its rows ranks and no column says otherwise.

    Raises:
        DataError: a column that looks like a score contradicts the order of rows [row-order].
    """
    if table.ranked_by == "rows" or opened.look_at_scores is None:
        return opened
    with mapped(opened.at, lambda error: None):
        found = opened.look_at_scores()
    opened = replace(opened, row_scores=found)
    wrong = [each for each in found if each.verdict == "contradicts"]
    is_law = guessing.entry_point == "file" and "columns" in table.model_fields_set
    if not wrong or is_law:
        return opened
    names = ", ".join(repr(each.name) for each in wrong)
    looks = f"looks like a {wrong[0].looks_like}" if len(wrong) == 1 else "look like scores"
    raise DataError(
        f"no rank and no score is read, and column {names} {looks} that contradicts the order of "
        "the rows, which would rank",
        code="row-order",
        at=opened.at,
        hint=_advice(opened, wrong[0].sql, guessing),
    )


def _advice(opened: Table, sql: str, guessing: Guessing) -> str:
    section = guessing.section or opened.role
    if guessing.entry_point == "python":
        return (
            f'pass columns={{"score": {json.dumps(sql)}}}, or, where the order of rows ranks, '
            f'ranked_by={{"rankings": "rows"}}'
        )
    if guessing.entry_point != "file":
        score, rows = (
            shlex.quote(each)
            for each in (f"{section}.columns.score={sql}", f"{section}.ranked_by=rows")
        )
        return f"write --set {score}, or, where the order of rows ranks, --set {rows}"
    columns = {**opened.columns, "score": sql}
    spelled = ", ".join(
        f"{key} = {json.dumps(each if isinstance(each, str) else list(each), ensure_ascii=False)}"
        for key, each in columns.items()
    )
    table = "[log]" if section == "log" else "[[rankings]]"
    return (
        f"write columns = {{ {spelled} }} under {table}, or, where the order of rows ranks, "
        f'ranked_by = "rows"'
    )
