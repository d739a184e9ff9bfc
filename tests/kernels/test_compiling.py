"""Kernels: compiled late and once, from a cache that can cost time but never a wrong number."""

import json
import math
import os
import re
import stat
import subprocess
import sys
import textwrap
import threading
import time
from collections import namedtuple
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from tempfile import NamedTemporaryFile

import numpy as np
import pytest

from evalkit.kernels import ConstantTable, intrinsic, kernel, loading
from evalkit.kernels.object_file import PLACES_CODE

ROOT = Path(__file__).parents[2]
is_jit_on = os.environ.get("NUMBA_DISABLE_JIT", "0") == "0"
needs_jit = pytest.mark.skipif(not is_jit_on, reason="nothing is compiled")

SQUARES = ConstantTable(lambda: [float(number * number) for number in range(10)])
OFFSET = 5.0


@kernel
def plus_offset(value):
    return value + OFFSET


@kernel
def sum_of_squares(values):
    total = 0.0
    for value in values:
        total += plus_offset(SQUARES[value])
    return total


@intrinsic(lambda value: value + 1)
def increment(typing_context, value):
    def generate(context, builder, signature, arguments):
        return builder.add(arguments[0], context.get_constant(value, 1))

    return value(value), generate


@kernel
def count_up(n_steps):
    number = 0
    for _ in range(n_steps):
        number = increment(number)
    return number


def test_a_kernel_reads_tables_and_other_kernels():
    values = np.array([2, 3])

    assert sum_of_squares(values) == 4 + 9 + 2 * OFFSET
    assert sum_of_squares.plain(values) == 4 + 9 + 2 * OFFSET


def test_an_intrinsic_does_what_its_plain_twin_does():
    assert count_up(7) == count_up.plain(7) == 7


@needs_jit
def test_an_unused_kernel_is_not_compiled():
    @kernel
    def unused(value):
        return value

    assert unused.entries == {}
    assert unused._part is None


@needs_jit
def test_division_by_zero_is_not_raised_in_kernels():
    @kernel
    def divide(left, right):
        return left / right

    assert divide(1.0, 0.0) == np.inf


@needs_jit
def test_kernels_are_neither_parallel_nor_fast_math():
    options = sum_of_squares.part.targetoptions

    assert not options.get("parallel")
    assert not options.get("fastmath")
    assert options["error_model"] == "numpy"


@pytest.mark.parametrize("value", [3, 2**62, np.int64(-3), np.uint64(2**64 - 1), 0.1, -np.inf])
def test_numbers_go_in_and_out_as_they_are(value):
    @kernel
    def same(value):
        return value

    assert same(value) == value


def test_truths_stay_truths():
    @kernel
    def negate(value):
        return not value

    assert negate(True) is False
    assert negate(np.bool_(False)) is True


Pair = namedtuple("Pair", ["values", "factor"])


def test_tuples_of_arrays_and_numbers_are_read():
    @kernel
    def sum_up(pair, bounds, table):
        total = 0.0
        for row in range(bounds[0], bounds[1]):
            for column in range(table.shape[1]):
                total += pair.factor * pair.values[row] * table[row, column]
        return total, bounds[1] - bounds[0]

    values = np.array([5.0, 1.0, 2.0])
    table = np.array([[9, 9], [1, 2], [3, 4]])

    assert sum_up(Pair(values, 2.0), (1, 3), table) == (2 * (3 + 2 * 7), 2)


def test_arrays_are_written():
    @kernel
    def fill(out, value):
        for row in range(out.shape[0]):
            for column in range(out.shape[1]):
                out[row, column] = value + column

    out = np.zeros((2, 3), dtype=np.int32)

    assert fill(out, 7) is None
    assert out.tolist() == [[7, 8, 9]] * 2


def test_kernels_may_make_arrays():
    @kernel
    def add_up_made(n):
        numbers = np.arange(n)
        return (numbers[::-1].copy() * 1)[0] + np.zeros(n).size

    assert add_up_made(1000) == 999 + 1000
    assert sum(add_up_made(n) for n in range(1, 2000)) == sum(2 * n - 1 for n in range(1, 2000))


@needs_jit
@pytest.mark.parametrize("value", ["text", None, np.float32(1), [1], np.arange(9)[::2]])
def test_what_no_kernel_takes_is_refused(value):
    with pytest.raises(TypeError, match=r"^a kernel takes (no|arrays in one piece)"):
        plus_offset(value)


@needs_jit
def test_what_c_does_not_have_is_refused_when_compiling():
    @kernel
    def gamma(value):
        return math.gamma(value)

    with pytest.raises(NotImplementedError, match="'numba_gamma', which C does not have"):
        gamma(3.0)


def test_powers_of_two_are_those_of_c():
    @kernel
    def scale(value, exponent):
        return math.ldexp(value, exponent)

    assert scale(0.75, -1040) == math.ldexp(0.75, -1040)


def test_a_table_is_a_sequence():
    assert len(SQUARES) == 10
    assert SQUARES[3] == 9.0
    assert list(SQUARES[:3]) == [0.0, 1.0, 4.0]


def test_importing_metrics_of_rankings_loads_neither_numpy_nor_numba():
    code = """
        import sys
        from evalkit.metrics import describe, parse_metrics, registry
        parse_metrics([f"{name}@10" for name in registry()])
        for metric in registry().values():
            describe(metric)
        print(sorted({"numpy", "numba", "polars", "pyarrow"} & set(sys.modules)))
    """
    assert python(code, ROOT).stdout == "[]\n"


def test_no_source_asks_for_fast_math_or_threads_in_kernels():
    sources = [file.read_text() for file in (ROOT / "evalkit").rglob("*.py")]
    asked = re.compile(r"fastmath\s*=\s*True|parallel\s*=\s*True|\bprange\(")

    assert not any(asked.search(source) for source in sources)


# ---- the cache, in processes of their own --------------------------------------------------

MAIN = """
    import sys
    sys.path.insert(0, ".")
    import one
    from evalkit.kernels import cache_directory
    value, kept = one.total(3), sum(each.is_kept for each in one.total.entries.values())
    # at once, as several processes write into one file
    print(f"{value} {kept} {cache_directory()}\\n", end="")
"""
ONE = """
    from evalkit.kernels import kernel
    from two import FACTOR, helper

    @kernel
    def total(number):
        return FACTOR * helper(number)
"""
TWO = """
    from evalkit.kernels import kernel

    FACTOR = 10

    @kernel
    def helper(number):
        return number + 1
"""


# runs code in children: numba takes 0.3 s to be loaded, and as much to compile for the first time
FORKS = """
    import json, os, sys
    from evalkit.kernels import kernel
    from evalkit.kernels.compiler import compile_entry
    compile_entry(kernel(lambda number: number + 1).part, [1], "first")
    for line in sys.stdin:
        code, arguments, folder, environment, *files = json.loads(line)
        if child := os.fork():
            print(os.waitpid(child, 0)[1], flush=True)
            continue
        os.chdir(folder)
        os.environ.clear()
        os.environ.update(environment)
        sys.argv[1:] = arguments
        for number, file in enumerate(files, 1):
            os.dup2(os.open(file, os.O_WRONLY), number)
        exec(code, {})
        break
"""


def environment_in(folder: Path, more: Mapping[str, str]) -> dict[str, str]:
    """That of a process with a cache of its own below `folder`."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("NUMBA_")}
    paths = {"XDG_CACHE_HOME": str(folder / "cache"), "HOME": str(folder / "home")}
    return {**kept, **paths, "PYTHONPATH": str(ROOT), **more}


def command(code: str) -> list[str]:
    return [sys.executable, "-W", "error", "-c", textwrap.dedent(code)]


def python(
    code: str, folder: Path, *arguments: str, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Runs code in a fresh interpreter with a cache of its own below `folder`."""
    return subprocess.run(
        [*command(code), *arguments],
        cwd=folder,
        env=environment_in(folder, environment),
        capture_output=True,
        text=True,
        check=True,
    )


@pytest.fixture(scope="module")
def forks() -> Iterator["subprocess.Popen[str]"]:
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command(FORKS), env=environment_in(ROOT, {}), text=True, **pipes) as all_:
        yield all_


@pytest.fixture
def loaded(forks) -> Callable[..., subprocess.CompletedProcess[str]]:
    """`python`, in a process that has loaded numba and called nothing."""

    def run(code: str, folder: Path, *arguments: str, **environment: str):
        variables = environment_in(folder, environment)
        with NamedTemporaryFile() as out, NamedTemporaryFile() as err:
            asked = textwrap.dedent(code), arguments, str(folder), variables, out.name, err.name
            print(json.dumps(asked), file=forks.stdin, flush=True)
            status = int(forks.stdout.readline())
            finished = subprocess.CompletedProcess(
                [code], status, out.read().decode(), err.read().decode()
            )
        finished.check_returncode()
        return finished

    return run


def write_project(folder: Path, package: str = "") -> Path:
    (folder / "one.py").write_text(textwrap.dedent(ONE.replace("two", f"{package}two")))
    (folder / "two.py").write_text(textwrap.dedent(TWO))
    return folder


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return write_project(tmp_path)


@pytest.fixture(scope="module")
def compiled(tmp_path_factory) -> tuple[Path, Path]:
    """A project whose kernel was compiled by a process that has ended, and its cache."""
    folder = write_project(tmp_path_factory.mktemp("compiled"))
    value, n_loaded, path = run(folder)
    assert (value, n_loaded) == (40, 0)
    return folder, path


def run(project: Path, **environment: str) -> tuple[int, int, Path]:
    """The kernel's value, how often the cache was hit, and where the cache is."""
    finished = python(MAIN, project, **environment)
    assert finished.stderr == ""
    value, n_loaded, path = finished.stdout.split()
    return int(value), int(n_loaded), Path(path)


def test_the_second_process_loads_what_the_first_one_compiled(compiled):
    project, path = compiled

    assert run(project) == (40, 1, path)


def test_the_cache_is_private_and_of_the_user(compiled):
    project, path = compiled

    assert path.parent == project / "cache" / "evalkit"
    assert stat.S_IMODE(path.stat().st_mode) == 0o700
    assert [file.name[:6] for file in path.iterdir()] == ["total_"]


EDITS = {  # each of a project of its own: file, what it says, what it says then, the value
    "own_code": ("one", "FACTOR * helper", "1 + FACTOR * helper", 41),
    "helper": ("two", "number + 1", "number + 2", 50),
    "constant": ("two", "FACTOR = 10", "FACTOR = 20", 80),
    "nothing": ("two", "FACTOR = 10", "FACTOR = 10", 40),
}
MAIN_OF_EACH = """
    import sys
    from importlib import import_module
    sys.path.insert(0, ".")
    for name in sys.argv[1:]:
        total = import_module(name + ".one").total
        print(name, total(3), sum(each.is_kept for each in total.entries.values()))
"""


@pytest.fixture
def run_each(loaded, tmp_path) -> Callable[[Iterable[str]], dict[str, tuple[int, int]]]:
    """Of each project the kernel's value, and how often the cache was hit."""

    def run(names: Iterable[str]) -> dict[str, tuple[int, int]]:
        lines = loaded(MAIN_OF_EACH, tmp_path, *names).stdout.splitlines()
        return {name: (int(value), int(n)) for name, value, n in map(str.split, lines)}

    return run


def test_an_edit_is_seen(run_each, tmp_path):
    for name in EDITS:
        (tmp_path / name).mkdir()
        write_project(tmp_path / name, package=f"{name}.")
    assert run_each(EDITS) == dict.fromkeys(EDITS, (40, 0))
    for name, (file, old, new, _) in EDITS.items():
        path = tmp_path / name / f"{file}.py"
        path.write_text(path.read_text().replace(old, new))
        later = time.time() + 60  # bytecode of the same second and size is current
        os.utime(path, (later, later))

    assert run_each(EDITS) == {name: (edit[-1], name == "nothing") for name, edit in EDITS.items()}


def test_cached_kernels_need_no_numba(compiled):
    project, _ = compiled
    code = (
        MAIN + "    import two; print(two.helper._part, {'numba', 'llvmlite'} & {*sys.modules})\n"
    )

    expected = set() if PLACES_CODE else {"llvmlite"}
    assert python(code, project).stdout.splitlines()[-1] == f"None {expected}"


@needs_jit
def test_a_kernel_that_kernels_call_can_be_called_from_python():
    assert plus_offset(1.0) == 1.0 + OFFSET
    assert sum_of_squares(np.array([1])) == 1.0 + OFFSET


@needs_jit
def test_the_time_of_compiling_is_counted():
    unique = time.time()  # so that no cache has it

    @kernel
    def triple(value):
        return unique * value

    before = loading.seconds, loading.cpu_seconds
    triple(2)
    after = loading.seconds, loading.cpu_seconds
    triple(3)

    assert after[0] > before[0] + 0.005
    assert after[1] > before[1] + 0.005
    assert (loading.seconds, loading.cpu_seconds) == after


@pytest.mark.parametrize(("second", "least", "most"), [(0.0, 0.15, 0.25), (0.3, 0.3, 0.4)])
def test_threads_that_load_count_for_their_share(second, least, most):
    def load(seconds):
        began.wait()
        if seconds:
            with clock:
                time.sleep(seconds)
        ended.wait()

    clock = type(loading)()
    began, ended = threading.Barrier(2), threading.Barrier(2)
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(partial(clock.run_beside, load), [0.3, second]))

    assert least <= clock.seconds < most


def test_flags_that_change_code_have_a_cache_of_their_own(compiled):
    project, plain = compiled
    flagged = run(project, NUMBA_BOUNDSCHECK="1")

    assert flagged[2] != plain
    assert flagged[1] == 0


def test_the_number_of_threads_keeps_the_cache(compiled):
    project, plain = compiled

    assert run(project, NUMBA_NUM_THREADS="1") == (40, 1, plain)


def test_a_given_cache_directory_is_the_base(project):
    path = run(project, NUMBA_CACHE_DIR=str(project / "mine"))[2]

    assert path.parent == project / "mine" / "evalkit"
    assert run(project, NUMBA_CACHE_DIR=str(project / "mine"))[1] == 1


DAMAGES = {
    "truncated": lambda kept: kept[:100],
    "empty": lambda kept: b"",
    "flipped": lambda kept: bytes(byte ^ (place == 500) for place, byte in enumerate(kept)),
    "foreign": lambda kept: b"not ours",
}


def test_a_corrupt_file_is_compiled_again(run_each, tmp_path):
    for name in DAMAGES:
        (tmp_path / name).mkdir()
        write_project(tmp_path / name, package=f"{name}.")
    run_each(DAMAGES)
    files = sorted((tmp_path / "cache" / "evalkit").glob("*/*"))
    assert len(files) == len(DAMAGES)
    for file, damaged in zip(files, DAMAGES.values(), strict=True):
        file.write_bytes(damaged(file.read_bytes()))

    assert run_each(DAMAGES) == dict.fromkeys(DAMAGES, (40, 0))
    assert run_each(DAMAGES) == dict.fromkeys(DAMAGES, (40, 1))


def test_an_unwritable_cache_costs_one_warning(project, loaded):
    (project / "cache").write_text("a file where the directory should be")

    finished = loaded(MAIN, project)

    assert finished.stdout.split() == ["40", "0", "None"]
    assert finished.stderr.count("\n") == 1
    assert finished.stderr.startswith("warning[no-kernel-cache]: ")


def test_a_cache_that_others_can_write_is_not_used(compiled, loaded):
    project, path = compiled
    path.chmod(0o777)
    try:
        finished = loaded(MAIN, project)
    finally:
        path.chmod(0o700)

    assert finished.stdout.split() == ["40", "0", "None"]
    assert "can be written by others" in finished.stderr


def test_a_cache_that_cannot_be_saved_to_costs_one_warning(project, loaded):
    code = MAIN.replace(
        "value, kept =",
        "import shutil; shutil.rmtree(cache_directory()); value, kept =",
    )

    finished = loaded(code, project)

    assert finished.stdout.split() == ["40", "0", "None"]
    assert finished.stderr.count("warning[no-kernel-cache]") == 1


def test_the_cache_serves_when_numba_was_imported_first(project):
    code = "import numba\n" + textwrap.dedent(MAIN)
    first, second = python(code, project), python(code, project)

    assert first.stdout.split()[:2] == ["40", "0"]
    assert second.stdout.split()[:2] == ["40", "1"]


def test_without_the_jit_nothing_is_compiled_nor_imported(project):
    code = """
        import sys
        sys.path.insert(0, ".")
        import one
        print(one.total(3), "numba" in sys.modules)
    """
    assert python(code, project, NUMBA_DISABLE_JIT="1").stdout == "40 False\n"
    assert not (project / "cache").exists()


def test_threads_compile_a_kernel_once(project, loaded):
    code = """
        import sys
        sys.path.insert(0, ".")
        import one
        from concurrent.futures import ThreadPoolExecutor
        with ThreadPoolExecutor(8) as pool:
            print(set(pool.map(one.total, [3] * 64)), len(one.total.entries))
    """
    assert loaded(code, project).stdout == "{40} 1\n"


def test_processes_that_start_together_on_a_cold_cache_all_succeed(project, loaded):
    code = """
        import os
        started = []
        for _ in range(3):
            if all(started):
                started.append(os.fork())
    """
    ended = """
        if all(started):
            assert [os.waitpid(each, 0)[1] for each in started] == [0] * 3
    """

    finished = loaded(
        textwrap.dedent(code) + textwrap.dedent(MAIN) + textwrap.dedent(ended), project
    )

    assert [line[:3] for line in finished.stdout.splitlines()] == ["40 "] * 4
    assert finished.stderr == ""
    assert run(project)[:2] == (40, 1)


def test_a_warm_cache_that_is_read_only_serves(compiled):
    project, path = compiled
    code = """
        import pathlib
        def refuse(self, content):
            raise OSError(30, "Read-only file system", str(self))
        pathlib.Path.write_bytes = refuse
    """

    finished = python(textwrap.dedent(code) + textwrap.dedent(MAIN), project)

    assert (finished.stdout.split(), finished.stderr) == (["40", "1", str(path)], "")


@kernel(allocates=False)
def choose(numbers, index, out):
    out[0] = min(numbers[0], numbers[1])
    out[1] = max(numbers[0], numbers[1], numbers[2])
    out[2] = min(index, 2.5)
    out[3] = max(index, 1)


@pytest.mark.parametrize("index", [1, 3, -4])
@pytest.mark.parametrize(
    "numbers",
    [(1.0, 2.0, 3.0), (np.nan, 1.0, 2.0), (1.0, np.nan, 0.5), (-0.0, 0.0, -0.0), (0.0, -0.0, -1.0)],
)
def test_the_smallest_and_the_largest_are_those_of_python(numbers, index):
    out = np.zeros(4)

    choose(np.array(numbers), index, out)

    expected = [min(numbers[:2]), max(numbers), min(index, 2.5), max(index, 1)]
    assert out.tobytes() == np.array(expected, dtype=np.float64).tobytes()


@kernel(allocates=False)
def add_twice(numbers):
    def twice(number):
        return 2.0 * number

    return twice(numbers[0]) + twice(numbers[1])


def test_a_kernel_may_hold_a_function():
    assert add_twice(np.array([1.0, 2.5])) == 7.0
