"""One entry point for every split: the config, the command line and Python call `make_split`."""

import json
import os
import stat
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from evalkit.config import SPLIT_FILE, SPLIT_VERSION, SplitSection, find_part, read_split
from evalkit.config.credentials import storing
from evalkit.errors import DataError, RequestError, check_folder
from evalkit.kernels.arrays import Bytes
from evalkit.kernels.memory import give_back_early, run_within
from evalkit.report.figures import Figures
from evalkit.report.version import VERSION
from evalkit.runs import digest, file_record, machine_errors, private_folder, sync_directory, write
from evalkit.sources import Guessing, open_split
from evalkit.sources.ids import try_seeds
from evalkit.sources.shell import quoted
from evalkit.splits._codes import FootersDifferError
from evalkit.splits._cut import Cut, cut_rows, tell_leaks
from evalkit.splits._describe import Counting, OddTimes
from evalkit.splits._filters import NULLS, PARTS, TRAIN
from evalkit.splits._log import LogFeed
from evalkit.splits._memory import SplitBudget
from evalkit.splits._reverse_scan import Back
from evalkit.splits._rule import settle_rule
from evalkit.splits._source import Log, batches_of, refuse_changed
from evalkit.splits._units import spell_time
from evalkit.splits._write import ASSIGNMENT, FoldPart, Writing, arrow_gives_back, write_assignment
from evalkit.splits.leakage import join_folds

LEAKAGE = "leakage.json"
REPEATS = "users_whose_repeats_hang_on_row_order"


@dataclass(slots=True)
class Split:
    """A split that was made.

    Args:
        manifest: what `split.json` holds.
        path: the folder; None where nothing was written.
        assignment: a column of letters for each fold: 0 no part, 1 train, 2 validation, 3 test,
            4 the fold-in of test users, 5 that of validation users; empty where it was there.
        leakage: what `leakage.json` holds.
    """

    manifest: dict[str, Any]
    path: Path | None = None
    assignment: list[pl.Series] = field(default_factory=list)
    is_new: bool = True
    leakage: dict[str, Any] = field(default_factory=dict)
    _log: Log | None = None

    @property
    def figures(self) -> Figures:
        """Every picture of the split's page by its title, as those of a report."""
        from evalkit.report.html import leakage_figures

        return leakage_figures(self.leakage)

    def part(self, name: str, fold: int = 1) -> pl.LazyFrame:
        """The rows of a part.

        Raises:
            RequestError: there is no such part [unknown-part].
            DataError: its files changed [split-changed].
        """
        if self.path is not None and self.manifest["rule"]["write"] == "parts":
            files = find_part(self.path, name, fold).files
            return pl.scan_parquet(list(files), glob=False)
        if self._log is None:
            message, hint = "the split was there, and keeps no rows of parts", 'write="parts" does'
            raise RequestError(message, code="unknown-part", at=str(self.path), hint=hint)
        n_folds = len(self.assignment)
        if name not in PARTS or not 0 < fold <= n_folds:
            message = f"the split has no part {name!r} in fold {fold}"
            hint = f"it has {', '.join(PARTS)}" + (f" in {n_folds} folds" if n_folds > 1 else "")
            raise RequestError(message, code="unknown-part", hint=hint)
        chosen = self.assignment[fold - 1] == PARTS[name]
        return self._log.whole.collect().filter(chosen).lazy()


def make_split(
    section: SplitSection,
    *,
    given: object | None = None,
    guessing: Guessing | None = None,
    out: Path | None = None,
    storage: dict[str, str] | None = None,
    at: str = "split",
) -> Split:
    """Cut a log, and publish the parts in one step.

    Args:
        given: a table in memory, in place of the paths.
        out: the folder of the split; None writes nothing.
    Raises:
        RequestError: keys that do not go together [bad-split], a folder that is there
            [file-exists], or none of this machine [bad-path].
        DataError: the log is wrong, or does not fit the rule [empty-part, null-id, ...].
        BusyError: the log changed meanwhile [input-changed].
        MachineError: the disk refuses [disk-full, not-writable, write-failed], what is held does
            not fit into the limit [memory-limit].
    """
    rule = settle_rule(section, at)
    if out is not None:
        check_folder(out)
    if rule.memory_limit is not None:
        give_back_early()
    with storing(storage or {}):
        table, whole = open_split(section, given, guessing or Guessing())
        log = Log(table, whole)
        _check_log(log, rule)
        identity = table.fingerprint()
        if out is not None and os.path.lexists(out):
            return _found(out, rule, identity)
        made = partial(_made, log, rule, identity, out)
        return run_within(made, made)


def _made(log: Log, rule: SplitSection, identity: str | None, out: Path | None) -> Split:
    def made(seed: int) -> Split:
        feed = LogFeed.of(log, rule, seed)
        try:
            cut = cut_rows(feed, rule, log.table.at, SplitBudget(rule.memory_limit))
            return _finish(log, feed, cut, rule, identity, out)
        except FootersDifferError:
            pass
        except DataError:
            if not feed.is_told:  # none is refused by what footers alone may say
                raise
        log.trusts_footers = False
        return made(seed)

    return try_seeds(made)


def _check_log(log: Log, rule: SplitSection) -> None:
    """Refuse a log that lacks what a rule needs, and times that cannot be compared.

    Raises:
        DataError: no time [missing-time], times that are floats [bad-time], no relevance
            [missing-column].
    """
    schema, unread = log.schema, log.table.chosen.unread
    time = f'time = "{unread.get("time", "...")}" under [split.columns]'
    by_time = rule.order == "time" and rule.by not in ("users", "rows", "round-robin", "blocks")
    if "time" not in schema and by_time and rule.by in ("user", "item"):
        message = f"by = {rule.by!r} takes the latest rows, and the log has no time"
        hint = f'{time}, or order = "input" where the latest is last'
        raise DataError(message, code="missing-time", at=log.table.at, hint=hint)
    if "time" not in schema and by_time:
        message = "a split at a moment needs a time, and the log has none"
        hint = f'{time}, or by = "rows"'
        raise DataError(message, code="missing-time", at=log.table.at, hint=hint)
    if "relevance" not in schema and (rule.threshold is not None or rule.dedupe == "max"):
        message = "threshold and the best of repeats need a relevance"
        hint = f'relevance = "{unread.get("relevance", "rating")}" under [split.columns]'
        raise DataError(message, code="missing-column", at=log.table.at, hint=hint)


def _finish(
    log: Log, feed: LogFeed, cut: Cut, rule: SplitSection, identity: str | None, out: Path | None
) -> Split:
    """Look at all rows once more, and write what was asked for."""
    for fold in cut.folds:
        fold.letters[log.train_anyway] = TRAIN
    with ExitStack() as stack:
        writing = folder = None
        if out is not None:
            stack.enter_context(machine_errors(out))
            folder = stack.enter_context(private_folder(out))
            if rule.memory_limit is not None:
                stack.enter_context(arrow_gives_back())
            if rule.write == "parts":
                writing = Writing(log, cut, rule, folder, stack.enter_context(ExitStack()))
        parts = _look_again(log, feed, cut, writing)
        told = _told(log, feed, rule, cut, identity) | {"parts": parts}
        leaks = join_folds(tell_leaks(cut, feed))
        told["leakage"] = {"verdict": leaks["verdict"], "counts": leaks["counts"]}
        _add_files(log, cut, rule, told, writing.end() if writing is not None else [], folder)
        if out is not None and folder is not None:
            if log.table.fingerprint() != identity:
                refuse_changed(log)
            _publish(folder, told, out, leaks)
    series = [pl.Series("part", fold.letters) for fold in cut.folds]
    return Split(told, out, series, True, leaks, log)


def _look_again(log: Log, feed: LogFeed, cut: Cut, writing: Writing | None) -> list[dict[str, Any]]:
    """All rows once more: train past held-out ones, contents, files; what is told of parts."""
    counting, odd = Counting(log, cut), OddTimes(log)
    names = _own_names(log) if writing is not None else None
    if cut.back is not None:
        return _look_back(log, feed, cut, cut.back, writing, names)
    kept: list[list[Bytes]] = []
    for rows, batch, own in feed.whole(names) if names is not None else feed.with_relevance():
        marks = [fold.look(rows) for fold in cut.folds]
        counting.add(own, rows.begin, marks)
        odd.add(rows.times)
        if writing is not None and names is not None:
            writing.add(batch, marks)
        elif writing is not None:
            kept.append(marks)
    if (
        kept and writing is not None
    ):  # SQL made our columns: those of the log are read by themselves
        marks = [np.concatenate(each) for each in zip(*kept, strict=True)]
        begin = 0
        for batch in batches_of(log):
            end = begin + batch.height
            writing.add(batch, [each[begin:end] for each in marks])
            begin = end
        if begin != log.n_rows:
            refuse_changed(log)
    odd.tell()
    return counting.told()


def _look_back(
    log: Log, feed: LogFeed, cut: Cut, back: Back, writing: Writing | None, names: list[str] | None
) -> list[dict[str, Any]]:
    """The same where letters and leaks are told by all rows from the last to the first."""
    (fold,) = cut.folds
    counting, odd = Counting(log, cut), OddTimes(log)
    is_whole = names is None  # else contents are told by the columns that are written
    for rows, own in feed.backwards(back.slices, is_whole=is_whole):
        back.add(rows, fold.leaks)
        odd.add(rows.times)
        if is_whole:
            counting.add(own, rows.begin)
    back.end(fold.leaks)
    fold.of_users, fold.of_items = back.bits()
    counting.add_cold(back.cold)
    begin = 0
    for batch in batches_of(log) if writing is not None else ():
        if begin + batch.height > log.n_rows:
            refuse_changed(log)
        if names is not None:
            counting.add(batch.select(_renamed(log, names)), begin)
        if writing is not None:
            writing.add(batch, [back.marks_of(begin, batch.height)])
        begin += batch.height
    if writing is not None and begin != log.n_rows:
        refuse_changed(log)
    odd.tell()
    return counting.told()


def _own_names(log: Log) -> list[str] | None:
    """The columns of the log that are ours, in our order; None where one of them is SQL."""
    columns, known = log.table.columns, log.whole.collect_schema()
    ours = log.schema
    users = columns["user"]
    own: dict[str, object] = {**columns, "user_0": users}
    if not isinstance(users, str):
        own |= {f"user_{place}": name for place, name in enumerate(users)}
    names = [str(own[name]) for name in ours]
    if any(name not in known for name in names):
        return None
    same = all(known[n] == dtype for n, dtype in zip(names, ours.values(), strict=True))
    return names if same else None


def _renamed(log: Log, names: list[str]) -> list[pl.Expr]:
    return [pl.col(name).alias(our) for name, our in zip(names, log.schema, strict=True)]


def _found(out: Path, rule: SplitSection, identity: str | None) -> Split:
    """The split that is there already, where it is this one."""
    wanted = _split_id(rule, identity)
    if (out / SPLIT_FILE).is_file():
        there = read_split(out)
        if identity is not None and there["split_id"] == wanted:
            return Split(there, out, is_new=False)
    if out.is_file():
        message, hint = "a file is there, and no folder", "name another folder"
        raise RequestError(message, code="file-exists", at=str(out), hint=hint)
    message, hint = "the folder is there, and holds no such split", "name another folder"
    if (out / SPLIT_FILE).is_file():
        hint += f", or remove that split: rm -r {quoted(str(out))}"
    raise RequestError(message, code="file-exists", at=str(out), hint=hint)


def _rule_of(rule: SplitSection) -> dict[str, Any]:
    """Every axis, written out."""
    return {
        **rule.model_dump(mode="json", exclude={"path", "format", "out", "memory_limit"}),
        "write": rule.write,
    }


def _split_id(rule: SplitSection, identity: str | None) -> str:
    return digest({"rule": _rule_of(rule), "inputs": identity, "version": SPLIT_VERSION})


def _told(
    log: Log, feed: LogFeed, rule: SplitSection, cut: Cut, identity: str | None
) -> dict[str, Any]:
    columns = dict(log.table.columns)
    crossed, by_order = cut.crossed()
    return {
        "schema_version": SPLIT_VERSION,
        "evalkit": VERSION,
        "split_id": _split_id(rule, identity),
        "inputs": {"paths": list(log.table.paths), "fingerprint": identity, "rows": log.n_rows},
        "columns": {
            key: list(each) if isinstance(each, tuple) else each for key, each in columns.items()
        },
        "guessed": list(log.table.guessed),
        "rule": _rule_of(rule),
        "hash": "splitmix64 of values, FNV-1a of text",
        "time_unit": log.unit,
        "moments": cut.assigned.moments,
        "dropped": cut.dropped,
        "core_rounds": cut.rounds,
        "ties": {
            "users_with_boundary_in_equal_times": crossed,
            "users_that_hang_on_row_order": by_order,
            **({REPEATS: cut.n_hanging} if rule.dedupe != "none" else {}),
        },
        "users_with_fewer_test_rows": cut.assigned.fewer,
        "rows_looked_at": log.n_rows - sum(feed.dropped.get(each, 0) for each in NULLS),
    }


def _add_files(
    log: Log,
    cut: Cut,
    rule: SplitSection,
    told: dict[str, Any],
    parts: list[FoldPart],
    folder: Path | None,
) -> None:
    """The files of every part, the assignment, or predicates."""
    written = {(part.fold, part.name): part for part in parts}
    for entry in told["parts"]:
        part = written.get((entry["fold"] - 1, entry["name"]))
        entry["files"] = []
        if part is not None and folder is not None:
            entry["files"] = [{"path": part.path, **file_record(folder, part.path)}]
    told["files"] = []
    if rule.write == "assignment" and folder is not None:
        write_assignment(cut, folder)
        told["files"] = [{"path": ASSIGNMENT, **file_record(folder, ASSIGNMENT)}]
    if rule.write == "where":
        _add_predicates(log, told)


def _add_predicates(log: Log, told: dict[str, Any]) -> None:
    """SQL for each part, where one moment says it all."""
    column = log.table.columns.get("time")
    for entry in told["parts"]:
        moments = told["moments"][entry["fold"] - 1]
        names = [name for name in ("validation", "test", "end") if name in moments]
        bounds = {"train": (moments.get("start"), moments[names[0]])}
        for name, after in zip(names, [*names[1:], None], strict=True):
            bounds[name] = (moments[name], moments[after] if after else None)
        low, high = bounds[entry["name"]]
        dtype = log.schema["time"]
        as_sql = (
            "{}" if dtype.is_integer() else "date '{}'" if dtype == pl.Date else "timestamp '{}'"
        )
        said = [
            f"{column} {sign} {as_sql.format(spell_time(value, dtype, log.unit))}"
            for sign, value in ((">=", low), ("<", high))
            if value is not None
        ]
        entry["where"] = " AND ".join(said) or "true"


def write_leaks(folder: Path, leaks: dict[str, Any], title: str) -> None:
    """`leakage.json`, and its page."""
    from evalkit.report.html import render_leakage

    kept = {key: each for key, each in leaks.items() if key != "folds"}
    kept["folds"] = [  # the first fold is drawn
        {key: each for key, each in fold.items() if n == 0 or key != "plots"}
        for n, fold in enumerate(leaks["folds"])
    ]
    write(folder / LEAKAGE, (json.dumps(kept, indent=2, sort_keys=True) + "\n").encode())
    write(folder / "leakage.html", render_leakage(title, leaks).encode())


def _publish(folder: Path, told: dict[str, Any], out: Path, leaks: dict[str, Any]) -> None:
    """The manifest last, then the folder under its name, whole or not at all."""
    write_leaks(folder, leaks, out.name)
    text = json.dumps(told, indent=2, sort_keys=True, ensure_ascii=False) + "\n"
    write(folder / SPLIT_FILE, text.encode())
    out.parent.mkdir(parents=True, exist_ok=True)
    os.chmod(folder, stat.S_IMODE(os.stat(out.parent).st_mode) & 0o755 | 0o700)
    os.rename(folder, out)
    sync_directory(out.parent)
