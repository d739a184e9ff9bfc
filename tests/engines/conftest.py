"""One session of Spark for all tests."""

import pytest


@pytest.fixture(scope="session")
def session(tmp_path_factory):
    from pyspark.sql import SparkSession

    from evalkit.engines._spark import new_session

    options = {"spark.sql.warehouse.dir": str(tmp_path_factory.mktemp("tables"))}
    options |= {"spark.sql.execution.arrow.maxRecordsPerBatch": "7", "spark.log.level": "ERROR"}
    options |= {"spark.sql.codegen.wholeStage": "false"}  # takes longer than so few rows
    session = new_session(SparkSession, master="local[2,4]", options=options)
    yield session
    session.stop()
