"""Engines that a config is measured on, when it is not this process: Apache Spark."""

from evalkit.engines._spark import open_catalogs, run_on_spark
