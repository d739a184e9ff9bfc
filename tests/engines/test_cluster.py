"""Executors in processes of their own: the same bytes, also where a worker is killed."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="Spark is not installed: pip install evalkit-recsys[spark]")

pytestmark = pytest.mark.spark

SCRIPT = """
import os, signal, sys, threading, time
from pathlib import Path
import psutil
sys.path[:0] = [sys.argv[1], sys.argv[2]]
from on_spark import both
from test_spark import ALL, make_logs
from passes import first_difference
from pyspark.sql import SparkSession
from evalkit.engines._spark import new_session

folder = Path(sys.argv[3])
make_logs(folder)
options = {"spark.executor.memory": "700m", "spark.driver.memory": "700m", "spark.log.level": "OFF"}
session = new_session(SparkSession, master="local-cluster[2,1,1024]", options=options)
killed = []

def kill_one():
    '''One Python worker of an executor dies in the middle of its work.'''
    mine = psutil.Process()
    while not killed:
        for each in mine.children(recursive=True):
            try:
                if "pyspark.daemon" in " ".join(each.cmdline()) and each.parent().name() != "java":
                    time.sleep(0.5)
                    each.send_signal(signal.SIGKILL)
                    killed.append(each.pid)
                    break
            except psutil.Error:
                pass
        time.sleep(0.05)

threading.Thread(target=kill_one, daemon=True).start()
one, spark = both(ALL, folder, partitions=6)
session.stop()
print("killed", len(killed), "same", first_difference(one, spark) == "", spark.status)
"""


def test_executors_of_their_own_one_of_whose_workers_is_killed(tmp_path):
    pytest.importorskip("psutil", reason="psutil is not installed")
    here = Path(__file__).parent
    script = ["-W", "ignore", "-c", SCRIPT]
    asked = [sys.executable, *script, str(here), str(here.parent), str(tmp_path)]
    local = {"SPARK_LOCAL_IP": "127.0.0.1", "SPARK_LOCAL_DIRS": str(tmp_path)}
    local |= {"SPARK_WORKER_DIR": str(tmp_path), "SPARK_LOCAL_HOSTNAME": "localhost"}
    done = subprocess.run(
        asked, env=os.environ | local, capture_output=True, text=True, timeout=400, check=False
    )

    assert done.stdout.splitlines()[-1:] == ["killed 1 same True 0"], done.stderr[-3000:]
