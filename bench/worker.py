"""One contestant in its own process: a line on stdin starts a round, a line of JSON ends it.

Needs nothing but the standard library, the contestants' folder and the contestant's own library.
"""

import contextlib
import importlib
import json
import os
import resource
import sys
import time
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path


def main() -> int:
    """Rounds until stdin ends; exit status 0."""
    told = json.loads(sys.argv[1])
    name, threads = told["contestant"], told["threads"]
    replies = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what libraries print is no reply

    def reply(**fields: object) -> None:
        replies.write(json.dumps(fields) + "\n")
        replies.flush()

    with contextlib.suppress(AttributeError):  # macOS has no affinity
        os.sched_setaffinity(0, told["cores"] or sorted(os.sched_getaffinity(0))[:threads])
    try:
        contestant = importlib.import_module(f"contestants.{name}")
    except ImportError as error:
        reply(skipped=str(error))
        return 0
    call = contestant.prepare(Path(told["log"]), told["labels"], threads)
    libraries = importlib.import_module("contestants").CONTESTANTS[name].libraries
    reply(versions={library: find_version(library) for library in libraries})
    for _ in sys.stdin:
        cpu, wall = read_cpu(), time.perf_counter()
        answer = call()
        wall, cpu = time.perf_counter() - wall, read_cpu() - cpu
        fields = {"wall": wall, "cpu": cpu, "peak_bytes": read_peak()}
        reply(values=answer.values, notes=answer.notes, digest=answer.digest(), **fields)
    return 0


def find_version(library: str) -> str:
    """What is installed; a source tree that is not tells its own."""
    try:
        return version(library)
    except PackageNotFoundError:
        return str(importlib.import_module(library).__version__)


def read_cpu() -> float:
    """CPU seconds of this process and of those that it has waited for."""
    return sum(used.ru_utime + used.ru_stime for used in read_usage())


def read_peak() -> int:
    """The operating system's largest resident set, of this process or of one it started."""
    unit = 1 if sys.platform == "darwin" else 1024
    own, started = (used.ru_maxrss * unit for used in read_usage())
    with contextlib.suppress(OSError):  # ru_maxrss remembers the process that forked this one
        lines = Path("/proc/self/status").read_text().splitlines()
        own = next(int(line.split()[1]) << 10 for line in lines if line.startswith("VmHWM"))
    return max(own, started)


def read_usage() -> list[resource.struct_rusage]:
    """What the operating system has counted for this process and for those it has waited for."""
    return [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]


if __name__ == "__main__":
    sys.exit(main())
