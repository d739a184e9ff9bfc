"""How much memory a whole process had at most, by the operating system."""

import subprocess
import sys
from dataclasses import dataclass

# a process inherits the peak of who starts it, so somebody small starts it
_STARTER = """
import resource, subprocess, sys
ended = subprocess.run(sys.argv[1:])
peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
print(f"peak {peak} {ended.returncode}", file=sys.stderr)
"""


@dataclass(frozen=True, slots=True)
class Ended:
    """How a process ended; its peak in MiB."""

    status: int
    stdout: str
    stderr: str
    peak_mib: float


def run_measured(*arguments: str, seconds: float = 300.0) -> Ended:
    """`python ARGUMENTS`, measured."""
    command = [sys.executable, "-S", "-c", _STARTER, sys.executable, *arguments]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=seconds)
    stderr, _, last = ended.stderr.rstrip().rpartition("peak ")
    peak, status = map(int, last.split())
    return Ended(status, ended.stdout, stderr, peak / 1024)


def run_evalkit(*arguments: str, seconds: float = 300.0) -> Ended:
    """`evalkit ARGUMENTS`, measured."""
    return run_measured("-m", "evalkit", *arguments, seconds=seconds)
