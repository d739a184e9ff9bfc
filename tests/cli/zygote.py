"""A process that has loaded the program, and runs it in children: loading takes 0.7 of its second.

Reads a line of JSON a run (arguments, folder, environment, files of stdout and stderr), and writes
a line with its exit status. It has started no thread of its own and computed nothing.
"""

import gc
import json
import os
import signal
import sys

os.environ["OPENBLAS_NUM_THREADS"] = "1"
import email.parser  # noqa: F401
import encodings.ascii  # noqa: F401

import polars.selectors  # noqa: F401

import evalkit.cli.app
import evalkit.cli.result
import evalkit.config
import evalkit.jobs.job
import evalkit.kernels.machine
import evalkit.kinds.rankings._global_stats
import evalkit.kinds.rankings.conclude
import evalkit.kinds.rankings.measure
import evalkit.pipeline
import evalkit.report.html
import evalkit.report.record
import evalkit.report.screen  # noqa: F401
from evalkit.cli import main, outcome  # noqa: F401
from evalkit.config import parse_config

CONFIG = """
truth.path = "truth.parquet"
metrics.names = ["nDCG@10"]
[[rankings]]
model = "a"
path = "a.parquet"
"""


def serve() -> None:
    """Returns in children, which are to run the program and end."""
    for line in sys.stdin:
        request = json.loads(line)
        child = os.fork()
        if child == 0:
            signal.alarm(300)
            os.chdir(request["cwd"])
            sys.path[0] = request["cwd"]
            os.environ.clear()
            os.environ.update(request["env"])
            for number, name in enumerate((os.devnull, request["out"], request["err"])):
                file = os.open(name, os.O_WRONLY | os.O_APPEND if number else os.O_RDONLY)
                os.dup2(file, number)
                os.close(file)
            sys.argv = ["evalkit", *request["arguments"]]
            return
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)
    os._exit(0)


if __name__ == "__main__":
    parse_config(CONFIG, source="job.toml")  # makes models of sections, and spellings of metrics
    gc.freeze()
    serve()
    main()
