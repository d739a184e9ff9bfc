"""Hints that name a column of a table as the table has it."""

from evalkit.sources.table import Table


def keep_rows(table: Table, key: str, condition: str = "is not null") -> str:
    """The hint that leaves out rows whose column of `key` fails a condition."""
    return f"leave them out: where = {_sql_of(table, key, '{} ' + condition)} under [{table.role}]"


def turn_column(table: Table, key: str, sql: str) -> str:
    """The hint that reads `sql` in place of the column of `key`, which is `{}` in it."""
    return f"{key} = {_sql_of(table, key, sql)} under [{table.role}.columns]"


def _sql_of(table: Table, key: str, sql: str) -> str:
    text = table.columns.get(key)
    name = text if isinstance(text, str) else key
    if not name.isidentifier() and "(" not in name:
        name = f'"{name}"'
    mark = "'" if '"' in name else '"'
    return f"{mark}{sql.format(name)}{mark}"
