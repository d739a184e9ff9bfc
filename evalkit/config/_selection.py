"""The section [selection]: which trials are held against one another, and how one is chosen."""

import re
from collections.abc import Mapping
from itertools import pairwise
from typing import Literal

from evalkit.config._places import Key, Places, table_in
from evalkit.config._problems import Problems
from evalkit.config._tables import Listed, RankingsColumns, Record, Texts, Threshold, key


class Constraint(Record):
    """What a trial must reach to be chosen."""

    metric: str = key(..., "A metric of the trials, over all users.")
    min: Threshold | None = key(None, "The value is at least that.")
    max: Threshold | None = key(None, "The value is at most that.")


class Screen(Record):
    """A race: trials that some of the users say to be worse leave before all are measured."""

    users: Listed[float] = key(
        (0.02, 0.1, 1.0),
        "Shares of the users, each sample within the next; the last one is 1.",
        min_length=1,
    )
    keep: float = key(0.33, "At least that share of the trials stays at a rung.", gt=0, le=1)


class Confirmation(Record):
    """The one look at users or rows that nothing was chosen by."""

    path: Texts = key((), "The test part: held-out interactions.")
    split: str | None = key(None, "Instead of path: folder of a split.")
    part: str = key("test", "Which part of the split.")
    fold: int | None = key(None, "Of which fold; default: the first.", ge=1)
    where: str | None = key(None, "SQL predicate on its rows.")
    rankings: str | None = key(
        None, "The trials' rankings for test, with a column in braces; default: their own."
    )


class SelectionSection(Record):
    """Many trials over validation, one look at test."""

    trials: str | None = key(
        None,
        "Table of trials, CSV or Parquet, as Optuna, MLflow and Ray export it, beside the "
        "[[rankings]], which are trials, too.",
    )
    path: str | None = key(
        None,
        "Rankings of a trial, with a column in braces: lists/{number}.parquet; "
        "default: a column path or rankings.",
    )
    columns: RankingsColumns | None = key(
        None, "Columns of the trials' rankings; default: guessed."
    )
    metric: str = key(..., "What the trials are chosen by.")
    constraints: Listed[Constraint] = key(
        (), "What a trial must reach: { metric = ..., min = ... }."
    )
    rule: Literal["best", "simplest-within"] = key(
        "best", "The best, or of those that cannot be told from it the one of least cost."
    )
    cost: str | None = key(None, "Column of trials: what a trial costs.")
    screen: Screen | None = key(None, "Drop hopeless trials by samples of the users.")
    estimate: Literal["bbc", "halves", "none"] = key(
        "bbc", "What the winner will be worth: by bootstrap, by halves, or not."
    )
    replicates: int = key(1000, "Resamples of the corrected estimate.", ge=100, le=100_000)
    confirm: Confirmation | None = key(None, "Measure the winner, and the baseline, once on test.")
    looks: int = key(1, "Further looks at the test part end with status 1.", ge=1)


def check_selection(tree: Mapping[str, object], problems: Problems) -> None:
    """Selections that can be made of what is given."""
    section = tree.get("selection")
    if not isinstance(section, dict):
        return
    key: Key = ("selection",)

    def refuse(name: str, message: str, hint: str, code: str = "conflicting-keys") -> None:
        problems.add((*key, name), code, message, hint=hint)

    for name in ("path", "cost", "columns"):
        if name in section and "trials" not in section:
            message = f"{name} is of a table of trials, and there is none"
            refuse(name, message, 'trials = "trials.csv" under [selection]', "missing-key")
    for name in ("trials", "cost"):
        if section.get(name) == "":
            refuse(name, f"'selection.{name}' is empty", "leave it out", "missing-key")
    confirm = section.get("confirm")
    if section.get("looks", 1) != 1 and confirm is None:
        message = "looks are at the test part of confirm, and there is none"
        refuse("looks", message, 'confirm = { split = "splits/NAME" }', "missing-key")
    others = table_in(section, "confirm").get("rankings")
    for name, place, value in (
        ("path", "path", section.get("path")),
        ("confirm", "rankings", others),
    ):
        if isinstance(value, str) and not re.search(r"\{[^{}]+\}", value):
            message = f"{place} = {value!r} is one file for all trials"
            refuse(name, message, 'a column in braces: "lists/{model}.parquet"')
    columns = set(re.findall(r"\{([^{}]+)\}", others)) if isinstance(others, str) else set()
    if "trials" not in section and (unknown := sorted(columns - {"model"})):
        message = f"rankings has {{{unknown[0]}}}, and there is no table of trials with columns"
        refuse("confirm", message, 'rankings = "lists/{model}-test.parquet"')
    if section.get("rule") == "simplest-within" and "cost" not in section:
        message = "simplest-within needs to know what a trial costs"
        refuse("rule", message, 'cost = "parameters", a column of trials', "missing-key")
    constraints = section.get("constraints")
    for number, constraint in enumerate(constraints if isinstance(constraints, list) else ()):
        if isinstance(constraint, dict) and ("min" in constraint) == ("max" in constraint):
            problems.add(
                (*key, "constraints", number),
                "missing-key" if "min" not in constraint else "conflicting-keys",
                "the constraint has no bound" if "min" not in constraint else "two bounds are two",
                hint='{ metric = "recall@10", min = 0.2 }',
            )
    if isinstance(confirm, dict) and ("path" in confirm) == ("split" in confirm):
        both = "path" in confirm
        message = "path and split exclude each other" if both else "there is no test part"
        code = "conflicting-keys" if both else "missing-key"
        refuse("confirm", message, 'confirm = { split = "splits/NAME", part = "test" }', code)
    elif isinstance(confirm, dict):
        if confirm.get("path") in ("", []) or confirm.get("split") == "":
            refuse("confirm", "the test part is empty", 'path = "test.parquet"', "missing-key")
        for name in sorted({"part", "fold"} & confirm.keys() if "path" in confirm else ()):
            refuse("confirm", f"{name} is of a split, and path names none", f"leave {name} out")
    users = table_in(section, "screen").get("users")
    if isinstance(users, list) and all(isinstance(each, int | float) for each in users):
        rising = all(a < b for a, b in pairwise(users))
        if users and not (rising and users[0] > 0 and users[-1] == 1):
            message = f"{users} do not rise from above 0 to 1"
            refuse("screen", message, "users = [0.02, 0.1, 1.0]", "out-of-range")


def with_defaults(tree: dict[str, object], places: Places) -> None:
    """Measure what a selection asks for, where no [metrics] say what is measured.

    A metric that is no text is told of the selection alone: another one stands in for it.
    """
    section = tree.get("selection")
    if "metrics" in tree or not isinstance(section, dict):
        return
    listed = section.get("constraints")
    tables: list[tuple[Key, object]] = [(("selection",), section)]
    for number, rule in enumerate(listed if isinstance(listed, list) else []):
        tables.append((("selection", "constraints", number), rule))
    named: dict[str, Key] = {}
    for place, table in tables:
        if isinstance(table, dict) and isinstance(name := table.get("metric"), str):
            named.setdefault(name, (*place, "metric"))
    tree["metrics"] = {"names": [*named] or ["RR"]}
    for number, place in enumerate(named.values()):
        places.options["metrics", "names", number] = places.at(place)
