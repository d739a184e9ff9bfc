"""The worked examples of `evalkit explain` for metrics of lists: three lists of four items."""

import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import polars as pl

    from evalkit.metrics import Request, Value

INDENT = "  "
CUTOFFS = (1, 3)
MODEL, NOW = "model", "2026-01-31"
ITEMS: dict[str, list[Any]] = {
    "item": ["a", "b", "c", "d"],
    "genres": ["drama", "drama|war", "comedy", "comedy|war"],
    "provider": ["x", "x", "y", "y"],
    "published": ["2025-12-02", "2026-01-01", "2026-01-16", "2026-01-30"],
    "vector": [[1.0, 0.0], [1.0, 1.0], [0.0, 1.0], [0.0, 2.0]],
}
USERS = {"user": ["ann", "ben", "cat", "dan"], "group": ["old", "new", "new", "old"]}
# items by user, in order where they are lists; dan has no list
LOGS = {
    MODEL: {"ann": "abc", "ben": "abd", "cat": "ca"},
    "train": {"ann": "abc", "ben": "ac", "cat": "ab", "dan": "d"},
    "truth": {"ann": "d", "ben": "bd", "cat": "cd"},
    "reference": {"ann": "acd", "ben": "bad", "cat": "cb"},
    "earlier": {"ann": "abd", "ben": "abd", "cat": "b"},
}
SAID = {
    MODEL: "the lists",
    "train": "train",
    "truth": "right answers",
    "reference": "reference",
    "earlier": "lists before",
}
GROUP = {"bias_disparity": "x"}  # it is of one group; the others may be of all
READ = {"history": "train", "relevant": "truth", "provider": "by"}  # tables under another word


def list_example(request: "Request") -> Iterator[str]:
    """What the metric makes of a few lists, and what each of its choices changes."""
    metric = request.metric
    assert metric.lists is not None
    variants = list(_variants(request))
    read = metric.lists.needs
    needs: set[str] = {need for each in variants for need in read(dict(each.parameters))}
    needs |= {"group", "relevant"} if metric.lists.family == "means" else set()
    yield "Example"
    yield from _tables(needs)
    yield ""
    width = max(len(each.label) for each in variants)
    for variant, value in zip(variants, _measure(variants), strict=True):
        shown = "undefined" if math.isnan(value) else f"{value:.6f}"
        yield f"{INDENT}{variant.label:<{width}}  {shown}"


def _tables(needs: set[str]) -> Iterator[str]:
    logs = {MODEL, *needs, *(READ[need] for need in needs & READ.keys())}
    users = "".join(f"{user:<9}" for user in LOGS[MODEL])
    yield f"{INDENT}{'':<15}{users}".rstrip()
    for name in (each for each in LOGS if each in logs):
        items = "".join(f"{' '.join(LOGS[name][user]):<9}" for user in LOGS[MODEL])
        also = f"dan: {LOGS[name]['dan']}" if "dan" in LOGS[name] else ""
        yield f"{INDENT}{SAID[name]:<15}{items}{also}".rstrip()
    for column, need in (("user", "users"), ("group", "group")):
        if need in needs:
            *three, last = USERS[column]
            told = last if column == "user" else f"dan: {last}"
            yield f"{INDENT}{column:<15}{''.join(f'{each:<9}' for each in three)}{told}"
    columns = [each for each in ITEMS if {each, READ.get(each)} & needs]
    if columns or "items" in needs:
        yield ""
        for column in ("item", *columns):
            cells = "".join(f"{_cell(each):<12}" for each in ITEMS[column])
            at = f"now {NOW}" if column == "published" else ""
            yield f"{INDENT}{column:<15}{cells}{at}".rstrip()


def _cell(value: object) -> str:
    return " ".join(f"{each:g}" for each in value) if isinstance(value, list) else str(value)


def _variants(request: "Request") -> Iterator["Request"]:
    """The request at each cutoff, then each other choice of each parameter."""
    metric = request.metric
    values: dict[str, Value] = dict(request.parameters)
    for own_parameter in metric.parameters:  # columns and groups that are here
        if isinstance(own_parameter.default, str) and not own_parameter.choices:
            values[own_parameter.name] = own_parameter.default or GROUP.get(metric.name, "")
    cutoffs = CUTOFFS if metric.cutoff == "optional" else (None,)
    for cutoff in cutoffs:
        yield metric.request(cutoff, **values)
    for parameter in metric.parameters:
        for other in parameter.choices:
            if other != values[parameter.name]:
                yield metric.request(cutoffs[-1], **{**values, parameter.name: other})


def _measure(requests: Sequence["Request"]) -> list[float]:
    import polars as pl

    from evalkit.config import build_config
    from evalkit.pipeline import run_config

    with TemporaryDirectory() as folder:
        frames = {name: _frame(name) for name in LOGS}
        frames |= {"items": pl.DataFrame(ITEMS), "users": pl.DataFrame(USERS)}
        paths = {name: str(Path(folder, f"{name}.parquet")) for name in frames}
        for name, frame in frames.items():
            frame.write_parquet(paths[name])
        tree: dict[str, Any] = {
            "truth": {"path": paths["truth"]},
            "train": {"path": paths["train"]},
            "items": {"path": paths["items"], "separator": "|", "now": NOW},
            "users": {"path": paths["users"]},
            "segments": {"group": {"path": paths["users"], "user": "user", "by": "group"}},
            "rankings": [{"model": MODEL, "path": paths[MODEL], "earlier": [paths["earlier"]]}],
            "metrics": {
                "names": [each.label for each in requests],
                "reference": paths["reference"],
            },
        }
        report = run_config(build_config(tree, name="example"), threads=1)
    return [report.value(each.label) for each in requests]


def _frame(name: str) -> "pl.DataFrame":
    import polars as pl

    rows = [
        (user, item, rank)
        for user, items in LOGS[name].items()
        for rank, item in enumerate(items, 1)
    ]
    columns = ["user", "item", "rank"]
    return pl.DataFrame(rows, schema=columns, orient="row").select(
        columns if name in (MODEL, "reference", "earlier") else columns[:2]
    )
