"""Every name of labels and ratings that a profile reads, held beside the library itself.

    python bench/names_pointwise.py sklearn=.venv/bin/python torchmetrics=PYTHON ...
    python bench/names_pointwise.py --write ...    # and write docs/names_of_rows.json

PYTHON is an interpreter that imports the library. It evaluates the calls of `names_calls.toml` on
logs made here (ties, one kind of label, constant and negative ratings, nothing at all); evalkit
evaluates the same names under the library's profile. A name is *equal* where both give one number,
or none, on every log. What a profile's `differs` says is no difference: `names_calls.toml` lists
the logs. Exit status 1 where a name differs, or has no call.
"""

import argparse
import json
import math
import random
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
CALLS = HERE / "names_calls.toml"
NAMES = HERE.parent / "docs" / "names.json"
OUT = HERE.parent / "docs" / "names_of_rows.json"
KINDS = {
    "labels": ("user", "score", "label", "weight"),
    "ratings": ("user", "rating", "prediction"),
}
Rows = Sequence[tuple[float, ...]]


def label_logs() -> Mapping[str, Rows]:
    """User, score, label, weight; scores are float32 numbers, so that no library rounds them."""
    draw = random.Random(35)
    users = [row % 12 for row in range(240)]
    labels = [int(draw.random() < 0.4) for _ in users]
    plain = [
        min(1023, max(1, round(1024 * (0.25 * label + 0.7 * draw.random())))) / 1024
        for label in labels
    ]
    ties = [round(8 * score) / 8 for score in plain]  # 0.5, 0 and 1 among them
    by_log = {
        "plain": (plain, labels),
        "ties": (ties, labels),
        "low": ([score / 4 for score in plain], labels),  # nothing is called positive
        "high": ([0.625 + score / 4 for score in plain], labels),
        "one score": ([0.5 for _ in plain], labels),
        "all 1": (plain, [1 for _ in plain]),
        "all 0": (plain, [0 for _ in plain]),
        "apart": (
            [0.125 + label / 2 + score / 4 for score, label in zip(plain, labels, strict=True)],
            labels,
        ),
        "right": ([float(label) for label in labels], labels),
        "wrong": ([1.0 - label for label in labels], labels),
    }
    logs = {
        name: [(*row, 1.0) for row in zip(users, *both, strict=True)]
        for name, both in by_log.items()
    }
    weights = [(*row[:3], draw.randint(0, 16) / 4) for row in logs["plain"]]
    return {**logs, "one row": logs["plain"][:1], "empty": [], "weights": weights}


def rating_logs() -> Mapping[str, Rows]:
    """User, rating, prediction."""
    draw = random.Random(53)
    users = [row % 12 for row in range(240)]
    stars = [float(draw.randint(1, 5)) for _ in users]
    near = [round(256 * (star + draw.gauss(0.25, 1))) / 256 for star in stars]
    near = [max(0.125, each) for each in near]
    by_log = {
        "plain": (stars, near),
        "ties": (stars, [float(round(each)) or 1.0 for each in near]),
        "with 0": ([star - 1 for star in stars], [max(0.0, each - 1) for each in near]),
        "above -1": ([star / 4 - 1 for star in stars], [each / 4 - 0.75 for each in near]),
        "negative": ([star - 3 for star in stars], [each - 3 for each in near]),
        "below 0": ([star - 8 for star in stars], [-each for each in near]),
        "one rating": ([3.0 for _ in stars], near),
        "one prediction": (stars, [3.0 for _ in stars]),
        "one of both": ([3.0 for _ in stars], [3.5 for _ in stars]),
        "right": (stars, stars),
        "one rating right": ([3.0 for _ in stars], [3.0 for _ in stars]),
    }
    logs = {name: list(zip(users, *columns, strict=True)) for name, columns in by_log.items()}
    return {**logs, "one pair": logs["plain"][:1], "two pairs": logs["plain"][:2], "empty": []}


LOGS = {"labels": label_logs, "ratings": rating_logs}


def read_names(library: str) -> Iterator[tuple[str, str]]:
    """Kind and name of all that the profile reads; the kind of refused names is empty."""
    from evalkit.metrics import names_like

    for name in json.loads(NAMES.read_text(encoding="utf-8"))[library]["names"]:
        said = [each for each in names_like(name) if each.library == library]
        kinds = {each.kind for each in said}
        for kind in kinds & set(KINDS) or ({""} if kinds <= {""} else set()):
            yield kind, name


def ours(kind: str, rows: Rows, metrics: Sequence[str], library: str) -> list[float | str]:
    """evalkit's numbers, or the codes of its refusals."""
    import polars as pl

    import evalkit

    evaluate = evalkit.evaluate_labels if kind == "labels" else evalkit.evaluate_ratings
    frame = pl.DataFrame(
        rows, schema={**dict.fromkeys(KINDS[kind], pl.Float64), "user": pl.Int64}, orient="row"
    )
    own: dict[str, Any] = {"columns": {"weight": "weight"}} if kind == "labels" else {}
    try:
        report = evaluate(frame, metrics=metrics, profile=library, **own)
        if len(report.estimates) == len(metrics):
            return [float(each.value) for each in report.estimates]
    except evalkit.EvalkitError as error:
        if len(metrics) <= 1:
            return [error.code for _ in metrics]
    half = len(metrics) // 2
    first, rest = metrics[:half], metrics[half:]
    return ours(kind, rows, first, library) + ours(kind, rows, rest, library)


def call(library: str) -> None:
    """In the library's interpreter: its numbers, as JSON, on the logs of standard input."""
    import warnings

    warnings.simplefilter("ignore")
    asked = json.load(sys.stdin)
    given = tomllib.loads(CALLS.read_text(encoding="utf-8"))[library]
    scope: dict[str, Any] = {}
    exec(given["setup"], scope)
    found: dict[str, dict[str, dict[str, float | str]]] = {}
    for kind, logs in asked["logs"].items():
        for name in asked["names"][kind]:
            code = find_call(given[kind], name)
            found.setdefault(kind, {})[name] = {
                log: number_of(code, name, scope, kind, rows) for log, rows in logs.items()
            }
    json.dump(found, sys.stdout)


def find_call(calls: Mapping[str, Sequence[str]], name: str) -> str | None:
    """The expression that stands for a name."""
    return next((code for code, names in calls.items() if name in names or not names), None)


def number_of(
    code: str | None, name: str, scope: dict[str, Any], kind: str, rows: Rows
) -> float | str:
    """What a call gives: a number, or what it raised."""
    if code is None:
        return "no call"
    columns = [list(column) for column in zip(*rows, strict=True)] or [[], [], [], []]
    own = dict(zip("usyw" if kind == "labels" else "urp", columns, strict=False))
    try:
        return float(eval(code.replace("NAME", name), {**scope, **own}))
    except Exception as error:  # whatever a library raises is its answer
        return f"{type(error).__name__}: {error}"[:200]


def outcome(here: float | str, there: float | str, tolerance: float) -> str:
    """How two answers stand to each other; where the library raises, evalkit may say anything."""
    if isinstance(there, str):
        return "no call" if there == "no call" else "raises"
    if here == "empty-input":
        return "raises"
    here = math.nan if isinstance(here, str) else here
    if math.isnan(here) or math.isnan(there):
        return "equal" if math.isnan(here) and math.isnan(there) else "differs"
    is_close = here == there or math.isclose(here, there, rel_tol=tolerance, abs_tol=tolerance)
    return "equal" if is_close else "differs"


def hold(library: str, python: str) -> Iterator[tuple[str, str, str, str]]:
    """Kind, name, outcome and, where numbers differ on a log, which do."""
    given = tomllib.loads(CALLS.read_text(encoding="utf-8"))[library]
    logs = {kind: dict(LOGS[kind]()) for kind in KINDS if kind in given}
    if "labels" in logs and not given.get("weights"):
        del logs["labels"]["weights"]
    names: dict[str, list[str]] = {kind: [] for kind in ("", *KINDS)}
    for kind, name in read_names(library):
        names[kind].append(name)
    done = subprocess.run(
        [python, __file__, "--call", library],
        input=json.dumps({"logs": logs, "names": names}),
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    theirs = json.loads(done.stdout.splitlines()[-1])
    for name in names[""]:
        codes = [ours(kind, logs[kind]["plain"], [name], library)[0] for kind in logs]
        yield "", name, "refused" if all(isinstance(code, str) for code in codes) else "read", ""
    for kind in logs:
        asked = [name + "".join(meant(given, "arguments", name)) for name in names[kind]]
        here = {log: ours(kind, rows, asked, library) for log, rows in logs[kind].items()}
        for place, name in enumerate(names[kind]):
            exempt = [log for logs_of in meant(given, "known", name) for log in logs_of]
            wrong: list[str] = []
            known: list[str] = []
            n_equal = 0
            for log in logs[kind]:
                both = here[log][place], theirs[kind][name][log]
                found = outcome(*both, given.get("tolerance", 1e-9))
                n_equal += found == "equal" and isinstance(both[0], float) and bool(both[0])
                if found == "differs":
                    (known if log in exempt else wrong).append(f"{log}: {both[1]}, here {both[0]}")
            why = "; ".join(wrong or known)
            if not n_equal and not wrong:
                why = str(theirs[kind][name]["plain"])
            equal = "by source" if name in given.get("by_source", ()) else "equal"
            yield kind, name, "differs" if wrong else equal if n_equal else "not run", why


def meant(given: Mapping[str, Any], table: str, name: str) -> list[Any]:
    """What a table says of a name, by patterns in small letters without underscores."""
    from evalkit.metrics import fold

    return [each for key, each in given.get(table, {}).items() if fnmatchcase(fold(name), key)]


def main() -> int:
    """Exit status: 0, or 1 where a name differs or has no call."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("pythons", nargs="*", help="LIBRARY=PYTHON")
    parser.add_argument("--call", help="A library, in whose interpreter this is.")
    parser.add_argument("--write", action="store_true", help="Write what was found to docs.")
    asked = parser.parse_args()
    if asked.call:
        call(asked.call)
        return 0
    told = json.loads(OUT.read_text(encoding="utf-8")) if OUT.exists() else {}
    counts: Counter[str] = Counter()
    for library, _, python in (each.partition("=") for each in asked.pythons):
        told[library] = {kind: {} for kind in KINDS}
        own: Counter[str] = Counter()
        for kind, name, found, why in hold(library, python):
            own[found] += 1
            if why:
                print(f"    {kind} {name}: {found}: {why}")
            if kind:
                told[library][kind][name] = found
        print(f"{library}: " + ", ".join(f"{n} {found}" for found, n in own.most_common()))
        counts += own
    if asked.write:
        lines = (f"{json.dumps(name)}: {json.dumps(found)}" for name, found in told.items())
        OUT.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
    return int(not set(counts) <= {"equal", "by source", "refused"})


if __name__ == "__main__":
    sys.exit(main())
