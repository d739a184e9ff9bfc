"""The same numbers in SQL: one join, two windows, two groupings, one row.

Of eleven forms that were tried (windows or lists for the ideal and for the average precision,
FILTER or CASE, one grouping or two, counting equal relevances) this one was the fastest, or within
noise of it. F1 is written 2h / (k + n): hits h, cutoff k, relevant items n. Lists are unnested, and
their places are the ranks; where there are scores alone, a window makes ranks of them.

    python bench/contestants/duckdb_query.py LOG LABELS THREADS    # a whole process; labels as JSON
"""

import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import duckdb

from contestants import Answer, Call, cutoffs_of


def prepare(log: Path, labels: Sequence[str], threads: int) -> Call:
    """One query on views of the Parquet files."""
    connection = duckdb.connect()
    connection.execute(f"SET threads = {threads}; SET preserve_insertion_order = false")
    for view, folder in (("truth", "truth"), ("rankings", "rankings/model-1")):
        files = str(log / folder / "*.parquet").replace("'", "''")
        table = f"read_parquet('{files}')"
        columns = {row[0] for row in connection.execute(f"DESCRIBE FROM {table}").fetchall()}
        connection.execute(f"CREATE VIEW {view} AS SELECT {spell_rows(columns)} FROM {table}")
    query = compose(cutoffs_of(labels))

    def call() -> Answer:
        found = connection.execute(query)
        row = found.fetchone()
        assert row is not None
        return Answer({name[0]: row[place] for place, name in enumerate(found.description)})

    return call


def spell_rows(columns: set[str]) -> str:
    """What makes rows of user, item and rank of rankings in any form; a truth is one already."""
    if "items" in columns:
        return "user, unnest(items) AS item, generate_subscripts(items, 1) AS rank"
    if "score" in columns and "rank" not in columns:
        best_first = "PARTITION BY user ORDER BY score DESC, item"
        return f"user, item, row_number() OVER ({best_first}) AS rank"
    return "*"


def compose(cutoffs: Sequence[int]) -> str:
    """The query for these cutoffs."""

    def each(write: Callable[[int], str]) -> str:
        return ",\n".join(write(k) for k in cutoffs)

    return f"""
WITH hits AS (
    SELECT user, rank, relevance / log2(rank + 1) AS gain,
        row_number() OVER (PARTITION BY user ORDER BY rank) / rank AS precision
    FROM rankings JOIN truth USING (user, item)
), found AS (
    SELECT user, min(rank) AS first,
        {
        each(
            lambda k: (
                f'''
        count(CASE WHEN rank <= {k} THEN 1 END) AS hits_{k},
        sum(CASE WHEN rank <= {k} THEN gain ELSE 0 END) AS dcg_{k},
        sum(CASE WHEN rank <= {k} THEN precision ELSE 0 END) AS precisions_{k}'''
            )
        )
    }
    FROM hits GROUP BY user
), places AS (
    SELECT user, row_number() OVER (PARTITION BY user ORDER BY relevance DESC) AS place,
        relevance / log2(place + 1) AS gain
    FROM truth
), ideal AS (
    SELECT user, count(*) AS relevant,
        {
        each(
            lambda k: (
                f'''
        sum(CASE WHEN place <= {k} THEN gain ELSE 0 END) AS ideal_{k}'''
            )
        )
    }
    FROM places GROUP BY user
)
SELECT
    {
        each(
            lambda k: (
                f'''
    avg(coalesce(dcg_{k}, 0) / ideal_{k}) AS "nDCG@{k}",
    avg(coalesce(hits_{k}, 0) / relevant) AS "recall@{k}",
    avg(coalesce(hits_{k}, 0) / {k}) AS "precision@{k}",
    avg(coalesce(precisions_{k}, 0) / least(relevant, {k})) AS "AP@{k}",
    avg(CASE WHEN first <= {k} THEN 1 / first ELSE 0 END) AS "RR@{k}",
    avg(CASE WHEN first <= {k} THEN 1 ELSE 0 END) AS "hit@{k}",
    avg(2 * coalesce(hits_{k}, 0) / ({k} + relevant)) AS "F1@{k}"'''
            )
        )
    }
FROM ideal LEFT JOIN found USING (user)
"""


if __name__ == "__main__":
    log, labels, threads = sys.argv[1:]
    print(json.dumps(prepare(Path(log), json.loads(labels), int(threads))().values))
