"""What the system's allocator keeps of arrays, where there is room, and where there is none."""

import platform
import subprocess
import sys

import pytest

CODE = """
import resource
import numpy as np
from evalkit.kernels.memory import keep_arrays

def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    arrays = [np.ones(1 << 17) for _ in range(16)]  # of 1 MiB
    arrays.clear()
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

MIB = 1 << 20
print(keep_arrays(200 * MIB, threads=4) // MIB, keep_arrays(200 * MIB, threads=2) // MIB)
print(faults() > 1000, faults() > 1000, keep_arrays(0, threads=2), (faults(), faults() > 1000)[1])
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="not the allocator of glibc")
def test_memory_of_arrays_is_used_again_where_there_is_room():
    told = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=True)
    assert told.stdout.splitlines() == ["0 128", "True False 0 True"]
