"""A finished selection: the winner's run, the look at test, selection.json and its page."""

import os
from dataclasses import dataclass, replace
from pathlib import Path

from evalkit import history
from evalkit.config import (
    Config,
    Confirmation,
    RankingsTable,
    TruthColumns,
    TruthTable,
    find_entry,
    read_split,
)
from evalkit.credentials import storing
from evalkit.errors import GATE_FAILED, EvalkitError, RequestError
from evalkit.history.looks import Part, content_of_table, find_looks, known_parts
from evalkit.jobs.job import Job
from evalkit.planning.tables import Given
from evalkit.report import Report, Warning_
from evalkit.report.html import render_selection_page
from evalkit.report.selection import Confirmed, Selection, render_selection
from evalkit.runs import machine_errors, private_folder
from evalkit.selection._choose import Choice
from evalkit.selection._measure import How
from evalkit.sources import Table, open_truth

TAG = "selected"
FILE, PAGE = "selection.json", "selection.html"


class LookedError(EvalkitError):
    """The test part is used up; as a gate that failed, with its data and its request in order."""

    exit_status = GATE_FAILED


@dataclass(frozen=True, slots=True)
class Ahead:
    """What is known of the test part before anything is measured.

    Args:
        truth: the part as a truth; None where nothing is confirmed.
        content: the fingerprint of its users and items.
        n_looks: those before, and this one.
    """

    truth: TruthTable | None = None
    content: str = ""
    n_looks: int = 0


def look_ahead(config: Config, folder: Path, *, again: bool) -> Ahead:
    """The test part of a selection, and how often it was looked at.

    Args:
        folder: of runs.
        again: look at it however often that was.
    Raises:
        RequestError: the trials would be chosen by a test part [selection-on-test].
        LookedError: it was looked at as often as the config allows [looks-used-up].
    """
    section = config.selection
    if section is None or config.truth is None:
        return Ahead()  # told where trials are measured
    by = content_of_table(_opened(config, config.truth))
    aside = [each.content for each in known_parts(folder, config.truth.path)]
    truth, content, n_looks = None, "", 0
    if section.confirm is not None:
        truth = _test_truth(config, config.truth, section.confirm)
        part = Part.of(_opened(config, truth))
        content, n_looks = part.content, len(find_looks(folder, part)) + 1
        aside.append(content)
    if by in aside:
        raise RequestError(
            "the trials would be chosen by a test part",
            code="selection-on-test",
            at=config.at("truth", "path"),
            hint="[truth] is the validation part; confirm names the test part",
        )
    if n_looks > section.looks and not again:
        raise LookedError(
            f"{n_looks - 1:,} runs looked at this test part, and looks = {section.looks}",
            code="looks-used-up",
            at=config.at("selection", "confirm"),
            hint="evalkit history looks lists them; --again looks once more",
        )
    return Ahead(truth, content, n_looks)


def _test_truth(config: Config, truth: TruthTable, confirm: Confirmation) -> TruthTable:
    """The test part as a truth, by the rules of the config's own."""
    kept = truth.model_dump(exclude_unset=True, exclude={"split", "part", "fold"})
    own: dict[str, object] = {**kept, "path": confirm.path, "where": confirm.where}
    if confirm.split is not None:
        found = read_split(confirm.split)
        at = config.at("selection", "confirm")
        files = find_entry(found, confirm.part, confirm.fold, at=at)["files"]
        columns = {k: v for k, v in found["columns"].items() if k in TruthColumns.model_fields}
        own["path"] = [os.path.join(confirm.split, str(each["path"])) for each in files]
        own["columns"] = {**columns, **kept.get("columns", {})}
        own |= {"split": confirm.split, "part": confirm.part, "fold": confirm.fold}
    return TruthTable.model_validate({key: each for key, each in own.items() if each is not None})


def _opened(config: Config, truth: TruthTable) -> Table:
    """A truth without its `where`."""
    whole = truth.model_copy(update={"where": None})
    with storing(config.storage):
        return open_truth(whole, None, Given().guessing(config))


def winner_config(config: Config, winner: RankingsTable, baseline: RankingsTable | None) -> Config:
    """The config of the winner's own run, beside the baseline where there is one."""
    tables = [each for each in (baseline, winner) if each is not None]
    named = None if baseline is None else baseline.model
    statistics = config.statistics.model_copy(update={"baseline": named, "pairs": "baseline"})
    return config.model_copy(
        update={
            "rankings": tuple(tables),
            "statistics": statistics,
            "selection": None,
            "gates": (),
            "output": config.output.model_copy(update={"per_user": True}),
        }
    )


def finish(
    choice: Choice, ahead: Ahead, folder: Path, out: Path, how: How
) -> tuple[Selection, Path]:
    """Measure the winner, on test where that is asked for, and write all of it.

    Args:
        ahead: what was known of the test part before.
        folder: of runs; the winner's run is tagged `selected` there.
        out: folder of selections, in which this one gets a directory of its own.
    """
    config, tried = choice.config, choice.tried
    section, selection = config.selection, choice.selection
    assert section is not None
    names = [selection.winner, config.statistics.baseline]
    own = [tried[name] if name is not None else None for name in names]
    if own[1] is own[0]:
        own[1] = None
    is_test = ahead.truth is not None
    tables = [
        None if each is None else (each.confirm if is_test else None) or each.table for each in own
    ]
    assert tables[0] is not None
    run_as = winner_config(config, tables[0], tables[1])
    if is_test:
        level = 1 - (1 - config.statistics.level) / ahead.n_looks
        statistics = run_as.statistics.model_copy(update={"level": level})
        run_as = run_as.model_copy(update={"truth": ahead.truth, "statistics": statistics})
    done = Job(run_as, folder, threads=how.threads, memory_limit=how.memory_limit).run()
    assert isinstance(done.path, Path)
    history.tag_run(folder, done.path, TAG)
    report = done.report
    selection = replace(selection, run_id=report.run_id, run_key=report.run_key)
    if is_test:
        confirmed = _confirmed(report, selection, ahead.content, run_as.statistics.level)
        selection = replace(selection, confirmed=confirmed, looks=ahead.n_looks)
    if ahead.n_looks > 1:
        message = f"look {ahead.n_looks} at this test part: intervals on test are of "
        message += f"{run_as.statistics.level:.2%}, so that those of all looks hold together"
        told = Warning_("looked-before", message)
        selection = replace(selection, warnings=(*selection.warnings, told))
    return selection, write_selection(selection, out)


def _confirmed(report: Report, selection: Selection, content: str, level: float) -> Confirmed:
    own = next(
        each
        for each in report.estimates
        if each.model == selection.winner
        and each.metric == selection.metric
        and each.segment is None
    )
    found = Confirmed(report.run_id, content, level, own.value, own.low, own.high)
    for each in report.comparisons:
        if each.metric == selection.metric and each.segment is None:
            limits = (each.delta, each.low, each.high)
            baseline, (delta, low, high) = each.baseline, limits
            return replace(found, baseline=baseline, delta=delta, delta_low=low, delta_high=high)
    return found


def write_selection(selection: Selection, out: Path) -> Path:
    """Write selection.json and its page into a directory of their own, whole or not at all."""
    path = out / selection.selection_id
    with machine_errors(out):
        out.mkdir(parents=True, exist_ok=True)
        with private_folder(path) as fresh:
            whole = fresh / selection.selection_id
            whole.mkdir()
            (whole / PAGE).write_text(render_selection_page(selection), encoding="utf-8")
            (whole / FILE).write_text(render_selection(selection), encoding="utf-8")
            os.rename(whole, path)
    return path
