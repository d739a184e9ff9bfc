"""A finished selection: the winner's run, the look at test, selection.json and its page."""

import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from evalkit.config import (
    SELECTED,
    Config,
    Confirmation,
    RankingsTable,
    TruthColumns,
    TruthTable,
    find_part,
)
from evalkit.errors import RequestError, check_folder
from evalkit.jobs.job import Job
from evalkit.jobs.selection._choose import Choice, choose_trial
from evalkit.jobs.selection._measure import How
from evalkit.jobs.selection._trials import read_trials
from evalkit.planning.tables import Given, open_tables, reading_as
from evalkit.report import Report
from evalkit.report.html import render_selection_page
from evalkit.report.selection import Confirmed, Selection, render_selection
from evalkit.runs import history, is_store, machine_errors, private_folder
from evalkit.runs.history import holdout_uses
from evalkit.sources import Table

FILE, PAGE = "selection.json", "selection.html"


@dataclass(frozen=True, slots=True)
class Test:
    """The test part before anything is measured: as a truth, and the look that it will be."""

    truth: TruthTable
    ahead: holdout_uses.Ahead


def find_test(config: Config, folder: Path, *, again: bool) -> Test | None:
    """The test part of a selection, and how often it was looked at; None where there is none.

    Args:
        folder: of runs.
        again: look at it however often that was.
    Raises:
        RequestError: the trials would be chosen by a test part [selection-on-test].
        RequestError, DataError: as `read_trials`, and `open_tables` of the lists for test.
        LookedError: it was looked at as often as the config allows [looks-used-up].
    """
    section = config.selection
    if section is None or config.truth is None:
        return None  # told where trials are measured
    by = holdout_uses.HoldoutPart.of(_opened(config, config.truth)).content
    aside = [each.content for each in holdout_uses.known_parts(folder, config.truth.path)]
    truth = part = None
    if section.confirm is not None:
        truth = _test_truth(config, config.truth, section.confirm)
        part = replace(holdout_uses.HoldoutPart.of(_opened(config, truth)), most=section.looks)
        aside.append(part.content)
    if by in aside:
        hint = "[truth] is the validation part; confirm names the test part"
        if config.truth.split is not None and config.truth.part != "test":
            hint = "it is the test of an earlier fold: choose in the first one, fold = 1"
        raise RequestError(
            "the trials would be chosen by a test part",
            code="selection-on-test",
            at=config.at("truth", "path"),
            hint=hint,
        )
    if truth is None or part is None:
        return None
    lists = tuple(each.confirm for each in read_trials(config) if each.confirm is not None)
    if lists:
        update = {"truth": truth, "rankings": lists, "gates": ()}
        open_tables(config.model_copy(update=update), Given())
    at = config.at("selection", "confirm")
    return Test(truth, holdout_uses.count_look(part, folder, again=again, at=at))


def _test_truth(config: Config, truth: TruthTable, confirm: Confirmation) -> TruthTable:
    """The test part as a truth, by the rules of the config's own."""
    kept = truth.model_dump(exclude_unset=True, exclude={"split", "part", "fold"})
    own: dict[str, object] = {**kept, "path": confirm.path, "where": confirm.where}
    if confirm.split is not None:
        at = config.at("selection", "confirm")
        part = find_part(Path(confirm.split), confirm.part, confirm.fold, at=at)
        columns = {k: v for k, v in part.columns.items() if k in TruthColumns.model_fields}
        own["path"] = [str(each) for each in part.files]
        own["columns"] = {**columns, **kept.get("columns", {})}
        own |= {"split": confirm.split, "part": confirm.part, "fold": confirm.fold}
    return TruthTable.model_validate({key: each for key, each in own.items() if each is not None})


def _opened(config: Config, truth: TruthTable) -> Table:
    with reading_as(config):
        return holdout_uses.open_whole(truth, Given().guessing(config))


def winner_config(config: Config, winner: RankingsTable, baseline: RankingsTable | None) -> Config:
    """The config of the winner's own run, beside the baseline where there is one.

    What the trials are chosen by is measured there, too.
    """
    tables = [each for each in (baseline, winner) if each is not None]
    metrics, section = config.metrics, config.selection
    if section is not None:
        (chosen_by,) = config.read_metrics([section.metric])
        if chosen_by.label not in {each.label for each in config.requests}:
            metrics = metrics.model_copy(update={"names": (*metrics.names, section.metric)})
    named = None if baseline is None else baseline.model
    statistics = config.statistics.model_copy(update={"baseline": named, "pairs": "baseline"})
    return config.model_copy(
        update={
            "rankings": tuple(tables),
            "metrics": metrics,
            "statistics": statistics,
            "selection": None,
            "gates": (),
            "output": config.output.model_copy(update={"per_user": True}),
        }
    )


def finish(
    choice: Choice, test: Test | None, folder: Path, out: Path, how: How
) -> tuple[Selection, Path]:
    """Measure the winner, on test where that is asked for, and write all of it.

    Args:
        test: what was known of the test part before.
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
    tables = [
        None if each is None else (each.confirm if test else None) or each.table for each in own
    ]
    assert tables[0] is not None
    run_as = winner_config(config, tables[0], tables[1])
    ahead = holdout_uses.NO_LOOK
    if test is not None:
        run_as, ahead = run_as.model_copy(update={"truth": test.truth}), test.ahead
    written: list[tuple[Selection, Path]] = []

    def write(report: Report) -> None:
        """Write the selection before its run, so that a killed job leaves none without it."""
        found = replace(selection, run_id=report.run_id, run_key=report.run_key)
        if test is not None:
            level = ahead.corrected(run_as).statistics.level
            confirmed = _confirmed(report, found, ahead.content, level)
            confirmed = replace(confirmed, most_looks=section.looks)
            found = replace(found, confirmed=confirmed, looks=ahead.number)
            if ahead.number > 1:
                found = replace(found, warnings=(*found.warnings, ahead.warning(level)))
        written.append((found, write_selection(found, out)))

    job = Job(
        run_as,
        folder,
        options={"threads": how.threads, "memory_limit": how.memory_limit},
        ahead=ahead,
        concluded=write,
    )
    try:
        done = job.run()
    except BaseException:
        for found, path in written:
            if not (folder / str(found.run_id)).exists():
                shutil.rmtree(path, ignore_errors=True)
        raise
    assert isinstance(done.path, Path)
    history.tag_run(folder, done.path, SELECTED)  # of a selection that is whole
    return written[0]


def _confirmed(report: Report, selection: Selection, content: str, level: float) -> Confirmed:
    own = next(
        each
        for each in report.estimates
        if each.model == selection.winner
        and each.metric == selection.metric
        and each.segment is None
    )
    found = Confirmed(report.run_id, content, level, own.value, own.low, own.high)
    for comparison in report.comparisons:
        if comparison.metric == selection.metric and comparison.segment is None:
            limits = (comparison.delta, comparison.low, comparison.high)
            baseline, (delta, low, high) = comparison.baseline, limits
            return replace(found, baseline=baseline, delta=delta, delta_low=low, delta_high=high)
    return found


@dataclass(frozen=True, slots=True)
class Selected:
    """A finished selection, where it is written, and the run of its winner."""

    selection: Selection
    path: Path
    run: Path


def run_selection(
    config: Config,
    folder: Path,
    out: Path | None,
    how: How,
    *,
    again: bool = False,
    tell: Callable[[str], None] = lambda line: None,
) -> Selected:
    """Choose, confirm and write, as the command does.

    Args:
        folder: of runs.
        out: folder of selections; beside the runs by default.
        again: look at the test part however often that was done.
        tell: as `choose_trial` takes it.
    Raises:
        RequestError, DataError, MachineError, LookedError: as `find_test`, `choose_trial` and
            `finish`.
    """
    if is_store(str(folder).replace(":/", "://", 1)):  # as a path writes a URL
        raise RequestError(
            "a selection and the run of its winner are written to local folders",
            code="conflicting-keys",
            at=config.at("output", "path"),
            hint='--runs runs, or path = "runs" under [output]; evalkit run publishes to a store',
        )
    for each in (folder, out or folder):
        check_folder(each)
        if any(path.is_file() for path in (each, *each.parents)):
            message, hint = "a file is there, and no folder", "name another folder"
            raise RequestError(message, code="file-exists", at=str(each), hint=hint)
    config = history.name_selected(config, folder)
    test = find_test(config, folder, again=again)
    choice = choose_trial(config, how, tell)
    found, path = finish(choice, test, folder, out or folder.parent / holdout_uses.SELECTIONS, how)
    return Selected(found, path, folder / str(found.run_id))


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
