"""DataFrames of Spark evaluated where they are: `evalkit.spark.evaluate`."""

from collections.abc import Mapping
from typing import Any

from evalkit.api import Report
from evalkit.api import evaluate as evaluate_tables


def evaluate(
    truth: object,
    rankings: object,
    *,
    partitions: int | None = None,
    options: Mapping[str, str] | None = None,
    **asked: Any,
) -> Report:
    """Metrics of rankings over held-out interactions, measured by the executors of Spark.

    The report is that of `evalkit.evaluate`, byte for byte but for its inputs and times.

    Args:
        truth, rankings: as `evalkit.evaluate` takes them, as DataFrames of Spark or paths of
            Parquet files; so are train, tables of segments and weights.
        partitions: shares of the users, as under `[engine]` of a config.
        options: of a session that is begun for this.
        asked: whatever else `evalkit.evaluate` takes.
    Raises:
        RequestError: the request is wrong, or Spark cannot do it [not-on-spark, no-spark].
        DataError: the data is wrong.
        MachineError: Spark ended the job [spark-failed].
    """
    engine: dict[str, object] = {"kind": "spark", "options": dict(options or {})}
    if partitions is not None:
        engine["partitions"] = partitions
    return evaluate_tables(truth, rankings, engine=engine, **asked)
