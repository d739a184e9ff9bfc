"""Every name of a ranking or list metric of other libraries, beside evalkit on the same logs.

    python bench/peers.py                    # once: the libraries, each in its environment
    python bench/names.py                    # all of them; or --only ranx,rectools
    python bench/names.py --data FOLDER      # lists of MovieLens 100K too, as FOLDER/ml-100k has it

Names are those of docs/names.json that a profile reads. Each library runs in its own environment on
every log (`names_worker.py`), and evalkit measures the same log, asked by the library's name under
its profile. A name is equal where every number is, its mean and every user's value; differs where
one is not; refused where evalkit measures none of its logs, each with its reason. out/names.json
has all of it, by log; `docs/list_names.py` reads it. Exit status 1: a number differs.
"""

import json
import math
import random
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import polars as pl

import evalkit
from evalkit.metrics import names_like
from harness import BENCH, ROOT, make_parser
from peers import interpreter, is_installed, list_peers, source_of

PROFILES = {"pytrec_eval": "trec_eval"}
REGISTRIES = {"pytrec_eval": "trec_eval", "trec_eval_10": "trec_eval"}
TOLERANCES = {"torchmetrics": 2e-6, "recbole": 2e-6, "lenskit": 5e-7}
ROWS = {
    "trec_eval_10",
    "rectools",
    "replay",
    "recommenders",
    "torchmetrics",
    "evidently",
    "recpack",
    "sklearn",
    "jurity",
}
UNRULED = {"torchmetrics", "cornac", "recbole", "jurity", "recpack"}  # no rule for equal scores
GENRES = ("action", "comedy", "drama", "horror", "war")
Found = tuple[float, dict[str, float]]


def main() -> int:
    """Exit status: 1 where a number differs."""
    parser = make_parser(__doc__)
    parser.add_argument("--only", default=",".join(list_peers()), help="Some of the libraries.")
    parser.add_argument("--data", type=Path, help="Folder with ml-100k.")
    given = parser.parse_args()
    registries = json.loads((ROOT / "docs" / "names.json").read_text(encoding="utf-8"))
    told: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        logs = invent_logs(given.seed)
        if given.data is not None:
            logs |= real_logs(given.data)
        for name, log in logs.items():
            (Path(folder) / name).write_text(json.dumps(log))
        for library in given.only.split(","):
            if not is_installed(library, given.out):
                print(f"{library}: not installed; python bench/peers.py --only {library}")
                continue
            registry = REGISTRIES.get(library, library)
            names = [
                name
                for name in registries[registry]["names"]
                if any(x.library == registry and x.kind == "rankings" for x in names_like(name))
            ]
            told[library] = judge(library, names, logs, Path(folder), given.out)
            show(library, told[library], len(names))
    given.out.mkdir(parents=True, exist_ok=True)
    file = given.out / "names.json"
    known = json.loads(file.read_text()) if file.exists() else {}
    file.write_text(json.dumps({**known, **told}, indent=1, ensure_ascii=False))
    return int(any(x["outcome"] == "differs" for each in told.values() for x in each.values()))


def show(library: str, told: dict[str, Any], n_names: int) -> None:
    """One line, and one of each name that is not equal; every name has one outcome."""
    counts = Counter(each["outcome"] for each in told.values())
    if counts.total() != n_names:
        raise SystemExit(f"{library}: {n_names} names, and outcomes of {counts.total()}")
    print(f"{library}: " + ", ".join(f"{n} {outcome}" for outcome, n in counts.most_common()))
    for name, each in told.items():
        if each["outcome"] != "equal":
            print(f"    {name}: {each['outcome']}: {each['why'][:200]}")


def judge(
    library: str, names: list[str], logs: dict[str, Any], folder: Path, out: Path
) -> dict[str, Any]:
    """What is true of each name: its outcome, why, and what happened on each log."""
    why, answers = "", []
    command = [interpreter(library, out), BENCH / "names_worker.py", library]
    done = subprocess.run(
        [*map(str, command), str(folder), str(source_of(library, out))],
        capture_output=True,
        text=True,
    )
    if done.returncode == 0:
        answers = json.loads(done.stdout.splitlines()[-1])
    else:
        why = done.stderr.strip().splitlines()[-1][:200]
    found: dict[str, Any] = {
        name: {"equal": 0, "differs": [], "refused": [], "fails": []} for name in names
    }
    ours = {
        log: measure_all(library, {x["asked"] for x in answers if x["log"] == log}, logs[log])
        for log in logs
    }
    for answer in answers:
        name, log, asked = answer["name"], answer["log"], answer["asked"]
        if name not in found:
            raise SystemExit(f"{library}: {name!r} is none of its names")
        if log.startswith("equal scores") and library in UNRULED:
            continue
        where, mine = f"{asked} on {log}: ", ours[log][asked]
        if "error" in answer:
            found[name]["fails"].append(where + answer["error"])
        elif isinstance(mine, str):
            found[name]["refused"].append(where + mine)
        else:
            theirs = answer["mean"], answer["users"]
            wrong = differences(theirs, mine, TOLERANCES.get(library, 1e-12))
            found[name]["differs"] += [where + wrong] if wrong else []
            found[name]["equal"] += not wrong and told_apart(theirs, mine)
    for each in found.values():
        outcomes = ("differs", "refused", "fails")
        first = next((which for which in outcomes if each[which]), "")
        is_equal = each["equal"] and not each["differs"]
        each["outcome"] = "equal" if is_equal else "not run" if first in ("", "fails") else first
        each["why"] = "" if is_equal else each[first][0] if first else why or "not called"
    return found


def told_apart(theirs: Found, ours: Found) -> bool:
    """Whether equal numbers say anything: one is not 0, and any that moved would be seen."""
    numbers = [x for x in (theirs[0], *theirs[1].values()) if math.isfinite(x)]
    moved = [x + 1e-3 * max(1.0, abs(x)) for x in (theirs[0], *theirs[1].values())]
    given = moved[0], dict(zip(theirs[1], moved[1:], strict=True))
    if any(numbers) and not differences(given, ours, 1e-4):
        raise SystemExit("a number that was moved is found equal")
    return any(numbers)


def differences(theirs: Found, ours: Found, tolerance: float) -> str:
    """The first number that is another one, or nothing."""
    users = [(user, x, ours[1].get(user, math.nan)) for user, x in theirs[1].items()]
    for who, x, mine in [("mean", theirs[0], ours[0]), *users]:
        if math.isnan(x) and math.isnan(mine):
            continue
        if not abs(x - mine) <= tolerance * max(1.0, abs(x)):
            return f"{who} {x!r}, evalkit {mine!r}"
    return ""


def measure_all(library: str, asked: set[str], log: dict[str, Any]) -> dict[str, Found | str]:
    """Of each metric evalkit's mean and values of users under the library's profile, or why not."""
    if len(asked) == 1:
        try:
            return {name: found_in(measure(library, [name], log), 0) for name in asked}
        except evalkit.EvalkitError as error:
            return dict.fromkeys(asked, str(error))
    names = sorted(asked)
    try:
        report = measure(library, names, log)
        if len(report.estimates) == len(names):
            return {name: found_in(report, place) for place, name in enumerate(names)}
    except evalkit.EvalkitError:
        pass
    half = len(names) // 2
    parts = [measure_all(library, set(part), log) for part in (names[:half], names[half:]) if part]
    return {name: found for part in parts for name, found in part.items()}


def found_in(report: evalkit.Report, place: int) -> Found:
    """A mean and the values of users, where the metric has them."""
    estimate = report.estimates[place]
    try:
        frame = report.per_user(estimate.metric)
    except evalkit.EvalkitError:
        return estimate.value, {}
    values = frame.select(pl.col("user").cast(pl.String), frame.columns[-1]).iter_rows()
    return estimate.value, dict(values)


def measure(library: str, asked: list[str], log: dict[str, Any]) -> evalkit.Report:
    """The report of metrics under the library's profile."""
    truth = [(int(u), int(i), x) for u, row in log["truth"].items() for i, x in row.items()]
    lists = [(int(u), [i for i, _ in row], [x for _, x in row]) for u, row in log["run"].items()]
    schema: dict[str, pl.DataType | type[pl.DataType]] = {"user": pl.Int64}
    schema |= {"item": pl.List(pl.Int64), "score": pl.List(pl.Float64)}
    run = pl.DataFrame(lists, schema=schema, orient="row")
    rows = run.filter(pl.col("item").list.len() > 0).explode("item", "score")
    other = [(int(u), i, rank) for u, row in log["other"].items() for rank, i in enumerate(row, 1)]
    train = [(int(u), i) for u, row in log["train"].items() for i in row]
    rank = ["user", "item", "rank"]
    return evalkit.evaluate(
        pl.DataFrame(truth, schema=["user", "item", "relevance"], orient="row"),
        {"run": rows if library in ROWS else run},
        metrics=asked,
        profile=PROFILES.get(library, library),
        train=pl.DataFrame(train, schema=["user", "item"], orient="row") if train else None,
        items=pl.DataFrame(log["items"]) if log["items"] else None,
        reference=pl.DataFrame(other, schema=rank, orient="row") if other else None,
        policies={"truth_in_train": "count"},
        per_user=True,
        threads=1,
    )


def invent_logs(seed: int) -> dict[str, Any]:
    """Logs by name; each is odd in one way."""
    kinds: dict[str, dict[str, Any]] = {
        "plain": {},
        "grades": {"grades": (1, 2, 3)},
        "below 0": {"grades": (-1, 1, 2, 3)},
        "judged 0": {"grades": (0, 1, 2)},
        "equal scores": {"grades": (0, 1, 2), "digits": 1},
        "other users": {"holes": True},
        "empty lists": {"empty": True},
        "short lists": {"longest": 4},
        "nothing relevant": {"nothing": True},
        "all in train": {"warm": True},
    }
    return {name: invent_log(random.Random(f"{seed} {name}"), **how) for name, how in kinds.items()}


def invent_log(
    draw: random.Random,
    *,
    grades: tuple[int, ...] = (1,),
    digits: int = 9,
    holes: bool = False,
    empty: bool = False,
    nothing: bool = False,
    warm: bool = False,
    longest: int = 12,
) -> dict[str, Any]:
    """Twelve users and thirty items; what a user had seen is neither judged nor shown."""
    log: dict[str, Any] = {name: {} for name in ("truth", "run", "other", "train")}
    for user in range(1, 13):
        order = draw.sample(range(1, 31), 30)
        seen, left = order[: draw.randint(1, 6)], order[6:]
        log["train"][user] = seen
        if not holes or user % 4:
            chosen = draw.sample(left, draw.randint(2, 7))
            log["truth"][user] = {item: draw.choice(grades) for item in chosen}
            if nothing and user % 3 == 0:
                log["truth"][user] = dict.fromkeys(chosen, 0)
        if not holes or user % 5:
            size = 0 if empty and user % 4 == 0 else draw.randint(1, longest) if longest < 9 else 12
            scores = sorted(
                (round(draw.uniform(0.1, 3), digits) for _ in range(size)), reverse=True
            )
            log["run"][user] = list(zip(draw.sample(left, size), scores, strict=True))
        log["other"][user] = draw.sample(left, 8)
    if warm:
        log["train"] |= {13: list(range(1, 31))}
    log["items"] = [
        {
            "item": item,
            "genres": draw.sample(GENRES, draw.randint(1, 3)),
            "provider": f"p{item % 3}",
            "vector": [draw.choice((0.5, 1.5, 2.5)) for _ in range(4)],
        }
        for item in range(1, 31)
    ]
    return log


def real_logs(data: Path) -> dict[str, Any]:
    """MovieLens 100K: test ratings as they are, and the lists of each model."""
    table = pl.read_parquet(data / "ml-100k" / "interactions.parquet")
    found = {}
    for file in sorted((data / "ml-100k" / "rankings").glob("*.parquet")):
        log: dict[str, Any] = {"truth": {}, "run": {}, "other": {}, "train": {}, "items": []}
        for user, item, rating in table.filter(split="test")["user_id", "item_id", "rating"].rows():
            log["truth"].setdefault(user, {})[item] = int(rating)
        ranked = pl.read_parquet(file).sort("user_id", "rank")
        for user, item, score in ranked["user_id", "item_id", "score"].rows():
            log["run"].setdefault(user, []).append((item, float(score)))
        ties = ranked.select("user_id", "score").is_duplicated().any()
        found[f"ml-100k {file.stem}" if not ties else "equal scores, ml-100k"] = log
    return found


if __name__ == "__main__":
    sys.exit(main())
