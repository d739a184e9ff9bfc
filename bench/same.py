"""The same bytes as another commit: reports of the same configs, run by both.

    python bench/same.py main                       # the working tree against main
    python bench/same.py v0.1.0 HEAD --logs 500     # two commits, more random logs
    python bench/same.py main --quick --logs 20     # random logs alone
    python bench/same.py main --keep cases          # what differs, to be run again by hand

Runs the demo, every config of configs/ on logs made to fit, the conformance fixtures under every
profile, and random logs of rankings, ratings and labels with random policies, segments and
statistics; each on one, two and eight threads, and with users cut into passes. What is compared is
report.json less what each run has of its own (`meta`, `run_id`, `run_key`, versions), the values of
users, and the text of errors. What a later commit adds on purpose stands in `ADDED`, with the value
that it has where nothing is shared; what else differs is printed, and the exit status is 1.
"""

import json
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from compare import WORKING_TREE, check_out

from harness import BENCH, make_parser

OWN = ("meta", "run_id", "run_key", "evalkit")
ADDED: dict[str, Any] = {  # field -> the value where nothing new is asked; ...: any
    "unknown_items": 0,
    "empty_genres": 0,
    "zero_vectors": 0,
    "short_lists": 0,
    "n_clusters": None,
    "df": None,
    **dict.fromkeys(("primary", "label", "family", "low_adjusted", "high_adjusted"), ...),
    **dict.fromkeys(("p_equivalent", "p_not_inferior", "low_margin", "high_margin"), ...),
}


def main() -> int:
    """Exit status: 0, or 1 where the two differ."""
    parser = make_parser(__doc__)
    parser.add_argument("commit", help="What git knows: a hash, a branch, a tag.")
    parser.add_argument("other", nargs="?", default=WORKING_TREE, help="Default: working tree.")
    parser.add_argument("--logs", type=int, default=120, help="Random logs of each kind.")
    parser.add_argument("--keep", type=Path, help="Folder that the cases are kept in.")
    parser.add_argument("--quick", action="store_true", help="Random logs alone.")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="evalkit-same-") as scratch:
        folder = given.keep or Path(scratch)
        make = [BENCH / "same_cases.py", folder, str(given.logs), str(given.seed)]
        make += ["--quick"] if given.quick else []
        subprocess.run([sys.executable, *make], check=True)
        answers = []
        for commit in (given.commit, given.other):
            with check_out(commit) as tree:
                answers.append(answers_of(tree, folder))
    return tell(*answers)


def answers_of(tree: Path, folder: Path) -> dict[str, Any]:
    """What a commit's files say of every case, by the case's name."""
    command = [sys.executable, "-P", str(BENCH / "same_worker.py"), str(folder), str(tree)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    lines = (json.loads(line) for line in done.stdout.splitlines())
    return {line["case"]: line["answer"] for line in lines}


def tell(before: dict[str, Any], after: dict[str, Any]) -> int:
    """Print what differs."""
    wrong = 0
    for case, answer in before.items():
        found = list(differences(answer, after[case]))
        wrong += bool(found)
        for path, one, other in found[:4]:
            print(f"{case}: {path}: {str(one)[:160]} -> {str(other)[:160]}")
    for case, answer in after.items():
        if "crash" in answer:
            print(f"{case}: {answer['crash']}")
    kinds = Counter(next(iter(each)) for each in after.values())
    print(f"{len(after):,} cases ({spell(kinds)}), {wrong:,} differ")
    return 1 if wrong or kinds["crash"] or not kinds["report"] else 0


def spell(kinds: Counter[str]) -> str:
    """How many cases ended in what."""
    return ", ".join(f"{number:,} {kind}" for kind, number in kinds.most_common())


def differences(one: Any, other: Any, path: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Places where two documents differ, but for what is each run's own or was added."""
    if isinstance(one, dict) and isinstance(other, dict):
        for key in dict.fromkeys((*one, *other)):
            place = f"{path}.{key}" if path else key
            if place.removeprefix("report.") in OWN:
                continue
            if key not in one and key in ADDED and ADDED[key] in (other[key], ...):
                continue
            yield from differences(one.get(key, "absent"), other.get(key, "absent"), place)
    elif isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        for number, pair in enumerate(zip(one, other, strict=True)):
            yield from differences(*pair, f"{path}[{number}]")
    elif one != other:
        yield path, one, other


if __name__ == "__main__":
    sys.exit(main())
