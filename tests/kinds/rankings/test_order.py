"""A column that says the order of rows: the numbers of rows that stand in that order."""

import json

import polars as pl
import pytest
from passes import in_passes
from spark_logs import ORDERS, make_copies

from evalkit.config import parse_config
from evalkit.pipeline import run_config


def said(text, folder, n_passes=1):
    config = parse_config(text, source="x.toml", base=folder)
    found = in_passes(n_passes, lambda: run_config(config))
    assert found.status == 0, found.said
    document = json.loads(found.said)
    return {key: each for key, each in document.items() if key not in ("config", "inputs")}


@pytest.mark.some_cases(3)
@pytest.mark.parametrize("name", ORDERS)
def test_rows_count_in_their_order_wherever_they_stand(tmp_path, name):
    text = make_copies(tmp_path, name)
    asis = said(text, tmp_path)
    for table in ("truth", "a", "b"):
        path = tmp_path / f"{table}.parquet"
        pl.read_parquet(path).sample(fraction=1.0, shuffle=True, seed=5).write_parquet(path)
    others = "".join(
        f', {key} = "{key}"' for key in ("rank", "score") if key not in ORDERS[name][1]
    )
    columns = 'columns = { user = "user", item = "item", order = "place"%s }'
    truth = columns % ', relevance = "relevance"' * (name == "truth")
    named = text.replace("truth.path", f"[truth]\n{truth}\npath")
    named = named.replace("[[rankings]]\n", f"[[rankings]]\n{columns % others}\n")

    if name == "rows":  # otherwise `place` looks like a rank, which the rows contradict
        text = text.replace("[[rankings]]\n", '[[rankings]]\nranked_by = "rows"\n')

    assert said(text, tmp_path) != asis
    assert said(named, tmp_path) == asis
    assert said(named, tmp_path, n_passes=3) == asis
