"""Environments for the libraries that evalkit is compared with, one each, below out/envs.

    python bench/peers.py                 # make or update all
    python bench/peers.py --only ranx,rectools

What is pinned stands in peers/NAME.txt, which may begin with the Python that the library needs, as
`# python3.13`. Packages of peers/NAME-alone.txt are installed without their dependencies; what no
registry has is cloned from the address and commit in peers/NAME-source.txt. A library that cannot
be installed is left out of the benchmark, with a word.
"""

import hashlib
import shutil
import subprocess
import sys
from pathlib import Path

from harness import BENCH, make_parser, tell

STAMP = "installed.txt"


def main() -> int:
    """Exit status: 0, or 1 when a library could not be installed."""
    parser = make_parser(__doc__)
    names = list_peers()
    parser.add_argument("--only", default=",".join(names), help="Some of the libraries.")
    given = parser.parse_args()
    wanted = given.only.split(",")
    if unknown := set(wanted) - set(names):
        parser.error(f"no library is called {', '.join(sorted(unknown))}")
    failed = [name for name in wanted if (problem := install(name, given.out)) and report(problem)]
    print(f"{len(wanted) - len(failed)} of {len(wanted)} libraries are ready in {given.out}/envs")
    return 1 if failed else 0


def list_peers() -> list[str]:
    """The libraries that have a list of pinned packages."""
    files = sorted((BENCH / "peers").glob("*.txt"))
    return [file.stem for file in files if not file.stem.endswith(("-alone", "-source"))]


def report(problem: str) -> bool:
    """Tell a problem; true."""
    tell(problem)
    return True


def install(name: str, out: Path) -> str:
    """Make or update one environment; what went wrong, or nothing."""
    folder = out / "envs" / name
    wanted = fingerprint(name)
    if (folder / STAMP).exists() and (folder / STAMP).read_text() == wanted:
        return ""
    tell(f"installing {name}")
    plain, alone, source = lists_of(name)
    first = plain.read_text().split("\n", 1)[0]
    python = shutil.which(first.removeprefix("# ")) or sys.executable
    pip = [str(interpreter(name, out)), "-m", "pip", "install", "--quiet"]
    steps = [[python, "-m", "venv", "--clear", str(folder)], [*pip, "--requirement", str(plain)]]
    if alone.exists():
        steps.append([*pip, "--no-deps", "--requirement", str(alone)])
    if source.exists():
        address, commit = source.read_text().split()
        clone = str(source_of(name, out))
        steps += [["git", "clone", "--quiet", address, clone]]
        steps += [["git", "-C", clone, "checkout", "--quiet", commit]]
    for command in steps:
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode != 0:
            lines = [line for line in done.stderr.splitlines() if line.startswith("ERROR")]
            return f"{name} is left out: {lines[-1] if lines else done.stderr[-300:]}"
    (folder / STAMP).write_text(wanted)
    return ""


def lists_of(name: str) -> list[Path]:
    """The lists of packages and the source; only the first one has to exist."""
    return [BENCH / "peers" / f"{name}{ending}.txt" for ending in ("", "-alone", "-source")]


def source_of(name: str, out: Path) -> Path:
    """Where a library lies that was cloned."""
    return out / "envs" / name / "source"


def fingerprint(name: str) -> str:
    """Changes with the lists and with the Python that the environment is made of."""
    lists = b"".join(each.read_bytes() for each in lists_of(name) if each.exists())
    return hashlib.sha256(lists + sys.version.encode()).hexdigest()


def interpreter(name: str, out: Path) -> Path:
    """The Python of an environment."""
    return out / "envs" / name / "bin" / "python"


def is_installed(name: str, out: Path) -> bool:
    """Whether the environment is there as its lists say."""
    stamp = out / "envs" / name / STAMP
    return stamp.exists() and stamp.read_text() == fingerprint(name)


if __name__ == "__main__":
    sys.exit(main())
