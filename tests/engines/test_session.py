"""Why a session did not begin or a job ended, in a user's words."""

import pytest

from evalkit.engines._spark import _failed
from evalkit.errors import MachineError, RequestError


@pytest.mark.parametrize(
    ("told", "kind", "code", "hint"),
    [
        (
            "[PACKAGE_NOT_INSTALLED] grpcio >= 1.67.0 must be installed",
            RequestError,
            "no-spark",
            "connect",
        ),
        (
            "[JAVA_GATEWAY_EXITED] Java gateway process exited",
            MachineError,
            "spark-failed",
            "JAVA_HOME",
        ),
        (
            "ModuleNotFoundError: No module named 'evalkit'",
            MachineError,
            "spark-failed",
            "--archives",
        ),
        (
            "SparkException: Total size of serialized results of 9 tasks (1030.2 MiB) is bigger "
            "than spark.driver.maxResultSize (1024.0 MiB)",
            MachineError,
            "spark-failed",
            "options =",
        ),
        ("", MachineError, "spark-failed", "partitions"),
    ],
)
def test_why_spark_ended(told, kind, code, hint):
    error = _failed(told)

    assert type(error) is kind
    assert error.code == code
    assert hint in error.hint
