"""Engines that a config is measured on, when it is not this process: Apache Spark.

In: a config, and DataFrames or paths that executors read.
Out: partials of executors, merged and concluded here.
Open first: `_spark.py`.
"""

from evalkit.engines._spark import open_catalogs, run_on_spark
