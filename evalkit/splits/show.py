"""A split as a command makes and tells it."""

import json
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from evalkit.config import GateRule, SplitConfig, speaking
from evalkit.config.credentials import storing
from evalkit.errors import FINE, GATE_FAILED, RequestError
from evalkit.runs import machine_errors, private_folder
from evalkit.sources import Guessing, verifying
from evalkit.splits.leakage import VERDICTS
from evalkit.splits.make import REPEATS, make_split, write_leaks

FEW = 100  # users whose mean has a wide interval


def run_split(
    config: SplitConfig,
    out: Path | None,
    *,
    is_json: bool,
    fail_on: str | None,
    say: Callable[[str], None],
    note: Callable[[str], None],
) -> int:
    """Make the split that a config asks for, and say what it holds; the exit status.

    Raises:
        EvalkitError: as `make_split`.
    """
    folder = out or Path(config.split.out or f"splits/{config.name}")
    with speaking(config.entry_point), verifying(config.verify_pages):
        made = make_split(
            config.split,
            guessing=Guessing(config.entry_point, section="split"),
            out=folder,
            storage=config.storage,
            at=config.at("split"),
        )
    told = made.manifest
    leaks = told["leakage"]
    gates = judge_leaks(config.gates, leaks["counts"])
    if is_json:
        say(json.dumps({**told, "gates": gates}, indent=2, sort_keys=True))
        return _status(gates, leaks["verdict"], fail_on)
    if not made.is_new:
        note("this very split is there already; nothing was done")
    if told["guessed"]:
        columns = (f"{key} = {told['columns'][key]}" for key in told["guessed"])
        note(f"columns are guessed: {', '.join(columns)}")
    for line in [*summary(told), f"leakage: {leaks['verdict']}", *_spelled(gates)]:
        say(line)
    say(str(folder))
    return _status(gates, leaks["verdict"], fail_on)


def run_check(
    config: SplitConfig,
    parts: Mapping[str, str],
    out: Path | None,
    *,
    is_json: bool,
    fail_on: str | None,
    say: Callable[[str], None],
) -> int:
    """Say what the parts of anybody's split give away; the exit status.

    Raises:
        EvalkitError: as `check_parts`; the folder is there [file-exists].
    """
    from evalkit.splits.check import check_parts

    if out is not None and os.path.lexists(out):
        raise RequestError(
            "the folder is there", code="file-exists", at=str(out), hint="name another folder"
        )
    with speaking(config.entry_point), storing(config.storage), verifying(config.verify_pages):
        leaks = check_parts(parts, config.split, Guessing(config.entry_point, section="split"))
    gates = judge_leaks(config.gates, leaks["counts"])
    if out is not None:
        with machine_errors(out), private_folder(out) as folder:
            write_leaks(folder, leaks, out.name)
            os.chmod(folder, 0o700)
            out.parent.mkdir(parents=True, exist_ok=True)
            os.rename(folder, out)
    if is_json:
        kept = [{key: e for key, e in fold.items() if key != "plots"} for fold in leaks["folds"]]
        say(json.dumps({**leaks, "folds": kept, "gates": gates}, indent=2, sort_keys=True))
    else:
        for line in [*leak_lines(leaks), *_spelled(gates)]:
            say(line)
    return _status(gates, leaks["verdict"], fail_on)


def leak_lines(leaks: Mapping[str, Any]) -> list[str]:
    """Parts, counts and verdict, a line each."""
    fold = leaks["folds"][0]
    lines = [
        f"{name}: {each['rows']:,} rows, {each['users']:,} users, {each['items']:,} items"
        for name, each in fold["parts"].items()
    ]
    for name, count in sorted(leaks["counts"].items()):
        lines.append(f"{name} = {count:,}" if isinstance(count, int) else f"{name} = {count:.6f}")
    return [*lines, f"leakage: {leaks['verdict']}"]


def judge_leaks(gates: Sequence[GateRule], counts: Mapping[str, float]) -> list[dict[str, Any]]:
    """Each gate about leakage, and whether it holds; a count that is not there cannot tell."""
    found = []
    for gate in gates:
        value = counts.get(str(gate.data).removeprefix("leakage."))
        is_fine = gate.unclear == "pass"
        if value is not None:
            is_fine = (gate.min is None or value >= float(gate.min)) and (
                gate.max is None or value <= float(gate.max)
            )
        found.append(
            {"data": gate.data, "value": value, "min": gate.min, "max": gate.max, "holds": is_fine}
        )
    return found


def _spelled(gates: Sequence[Mapping[str, Any]]) -> list[str]:
    lines = []
    for gate in gates:
        value = "not known" if gate["value"] is None else f"{gate['value']:g}"
        bounds = [f"{key} {gate[key]:g}" for key in ("min", "max") if gate[key] is not None]
        word = "pass" if gate["holds"] else "FAIL"
        lines.append(f"gate {word}: {gate['data']} is {value}, {' and '.join(bounds)}")
    return lines


def _status(gates: Sequence[Mapping[str, Any]], verdict: str, fail_on: str | None) -> int:
    """1 where a gate does not hold, or the verdict is as bad as was named."""
    is_bad = fail_on is not None and VERDICTS.index(verdict) >= VERDICTS.index(fail_on)
    return GATE_FAILED if is_bad or not all(gate["holds"] for gate in gates) else FINE


def summary(told: dict[str, Any]) -> list[str]:
    """What a split holds, a line for each part, and what is to be known of it."""
    several = max(part["fold"] for part in told["parts"]) > 1
    rows = []
    for part in told["parts"]:
        name = f"fold {part['fold']} {part['name']}" if several else part["name"]
        cold = ""
        if "cold_user_rows" in part:
            new = f"{part['cold_user_rows']:,} of users and {part['cold_item_rows']:,} of items"
            cold = f"; {new} that train lacks"
        shown = f"{part['rows']:,} rows, {part['users']:,} users, {part['items']:,} items{cold}"
        rows.append(f"{name}: {shown}" + (f"; {part['where']}" if "where" in part else ""))
    for part in told["parts"]:
        of_all = max(each["users"] for each in told["parts"] if each["fold"] == part["fold"])
        if part["name"] in ("test", "validation") and part["users"] < min(FEW, of_all // 20):
            few = f"{part['name']} has {part['users']:,} users, where another part has {of_all:,}: "
            rows.append(few + "few for an interval; a longer span, or a share (0.2), has more")
    if told["dropped"]:
        dropped = ", ".join(f"{name} {n:,}" for name, n in sorted(told["dropped"].items()))
        rows.append(f"dropped: {dropped}")
    ties = told["ties"]
    if ties["users_that_hang_on_row_order"]:
        rows.append(
            f"{ties['users_that_hang_on_row_order']:,} users hang on row order: their boundary "
            'goes through equal times (ties = "item" settles them by item)'
        )
    if n := ties.get(REPEATS):
        rows.append(f"{n:,} users hang on row order: of their repeats with one time, one stays")
    return rows
