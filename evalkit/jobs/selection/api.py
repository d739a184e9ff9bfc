"""The Python entry point: `evalkit.select`."""

import copy
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from evalkit.config import build_config, hinted, load_config
from evalkit.jobs.selection._measure import How
from evalkit.jobs.selection._publish import Selected, run_selection
from evalkit.planning.work import MeasureOptions

PathLike = str | os.PathLike[str]


@hinted
def select(
    config: PathLike | Mapping[str, object],
    *,
    overrides: str | Sequence[str] = (),
    runs: PathLike | None = None,
    out: PathLike | None = None,
    again: bool = False,
    threads: int | None = None,
    memory_limit: int | None = None,
) -> Selected:
    """Choose one of many trials, and confirm it on test, once; as `evalkit select`.

    Args:
        config: the path of a config with `[selection]`, or its sections as nested dicts.
        overrides: `key=value` texts, as `--set` takes them.
        runs: folder of runs, in which the winner's is tagged `selected`; the config's by default.
        out: folder that the selection gets a directory in; `selections` beside the runs by default.
        again: look at the test part, however often that was done.
        threads, memory_limit: as `evaluate` takes them.
    Raises:
        RequestError: the request is wrong [missing-key, selection-on-test, ...].
        DataError: the trials or the logs are wrong [missing-trial, no-trial-left, ...].
        EvalkitError: the test part is used up [looks-used-up].
    Example:
        >>> import os, tempfile
        >>> import polars as pl
        >>> lists = pl.DataFrame({"user": [1, 2, 3, 4], "item": [7, 8, 7, 9], "rank": [1] * 4})
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     tables = []
        ...     for model in ("a", "b", "validation"):
        ...         path = os.path.join(folder, f"{model}.parquet")
        ...         (lists if model != "a" else lists.with_columns(item=7)).write_parquet(path)
        ...         tables.append({"model": model, "path": path})
        ...     truth = {"path": tables.pop()["path"]}
        ...     asked = {"truth": truth, "rankings": tables, "selection": {"metric": "RR"}}
        ...     select(asked, runs=f"{folder}/runs").selection.winner
        'b'
    """
    asked = MeasureOptions(threads=threads, memory_limit=memory_limit)
    overrides = [overrides] if isinstance(overrides, str) else overrides
    if isinstance(config, Mapping):
        tree = copy.deepcopy(dict(config))
        request = build_config(tree, name="select", overrides=overrides, entry_point="python")
    else:
        request = load_config(Path(config), overrides=overrides)
    folder = Path(runs if runs is not None else request.output.path)
    how = How(asked.useful_threads, memory_limit)
    return run_selection(request, folder, None if out is None else Path(out), how, again=again)
