"""The section [engine]: where a config is measured. No number hangs on it."""

from typing import Literal

from pydantic import Field

from evalkit.config._tables import Record, key


class EngineSection(Record):
    """Where the work is done; it belongs to no run key and to no report."""

    kind: Literal["local", "spark"] = key("local", "This process, or Apache Spark.")
    master: str | None = key(
        None, "Master of Spark, as local[4] or spark://host:7077; default: that of spark-submit."
    )
    remote: str | None = key(None, "Server of Spark Connect instead, as sc://host:15002.")
    partitions: int | None = key(
        None,
        "Shares of the users; default: one for each 1.5 million rows, and three for each core.",
        ge=1,
        le=100_000,
    )
    options: dict[str, str] = Field(
        default_factory=dict, description='Of the session, as "spark.executor.memory" = "8g".'
    )
