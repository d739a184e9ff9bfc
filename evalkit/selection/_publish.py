"""A finished selection: the winner's run, the look at test, selection.json and its page."""

import os
from dataclasses import replace
from pathlib import Path

from evalkit import history
from evalkit.config import Config, RankingsTable, TruthTable
from evalkit.errors import RequestError
from evalkit.jobs.job import Job
from evalkit.planning.tables import Given, open_tables
from evalkit.report import Report
from evalkit.report.html import render_selection_page
from evalkit.report.selection import Confirmed, Selection, render_selection
from evalkit.runs import machine_errors, private_folder
from evalkit.selection._choose import Choice
from evalkit.selection._measure import How
from evalkit.splits.content import content_of

TAG = "selected"
FILE, PAGE = "selection.json", "selection.html"


def test_config(config: Config, winner: RankingsTable, baseline: RankingsTable | None) -> Config:
    """What confirms a winner: the config over the test part."""
    section = config.selection
    assert section is not None
    assert section.confirm is not None
    assert config.truth is not None
    own = {"path": section.confirm.path, "where": section.confirm.where}
    truth = TruthTable.model_validate({**config.truth.model_dump(exclude_unset=True), **own})
    return winner_config(config, winner, baseline).model_copy(update={"truth": truth})


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


def content_of_truth(config: Config) -> str:
    """The content fingerprint of the users and items of a config's truth, without its `where`."""
    assert config.truth is not None
    whole = config.truth.model_copy(update={"where": None})
    tables = open_tables(config.model_copy(update={"truth": whole}), Given())
    frame = tables.truth.frame
    ids = [name for name in frame.collect_schema() if name.startswith("user_")]
    return content_of(frame, [*ids, "item"]).fingerprint


def refuse_test_as_truth(config: Config, test: Config) -> str:
    """The content fingerprint of the test part, which the trials are not chosen by.

    Raises:
        RequestError: they are [selection-on-test].
    """
    content = content_of_truth(test)
    if content_of_truth(config.model_copy(update={"rankings": test.rankings})) == content:
        raise RequestError(
            "the trials would be chosen by the test part",
            code="selection-on-test",
            at=config.at("truth", "path"),
            hint="[truth] is the validation part; confirm names the test part",
        )
    return content


def finish(choice: Choice, folder: Path, out: Path, how: How) -> tuple[Selection, Path]:
    """Measure the winner, on test where that is asked for, and write all of it.

    Args:
        folder: of runs; the winner's run is tagged `selected` there.
        out: folder of selections, in which this one gets a directory of its own.
    """
    config, tried = choice.config, choice.tried
    section, selection = config.selection, choice.selection
    assert section is not None
    names = [selection.winner, config.statistics.baseline]
    if names[1] is not None and names[1] not in tried:
        raise RequestError(
            f"the baseline {names[1]!r} is none of the trials",
            code="unknown-model",
            at=config.at("statistics", "baseline"),
            hint="name one of them, or leave baseline out",
        )
    own = [tried[name] if name is not None else None for name in names]
    if own[1] is own[0]:
        own[1] = None
    if section.confirm is not None:
        tables = [None if each is None else each.confirm or each.table for each in own]
        assert tables[0] is not None
        run_as = test_config(config, tables[0], tables[1])
        content = refuse_test_as_truth(config, run_as)
    else:
        tables = [None if each is None else each.table for each in own]
        assert tables[0] is not None
        run_as, content = winner_config(config, tables[0], tables[1]), ""
    done = Job(run_as, folder, threads=how.threads, memory_limit=how.memory_limit).run()
    assert isinstance(done.path, Path)
    history.tag_run(folder, done.path, TAG)
    report = done.report
    selection = replace(selection, run_id=report.run_id, run_key=report.run_key)
    if content:
        selection = replace(selection, confirmed=_confirmed(report, selection, content))
    return selection, write_selection(selection, out)


def _confirmed(report: Report, selection: Selection, content: str) -> Confirmed:
    own = next(
        each
        for each in report.estimates
        if each.model == selection.winner
        and each.metric == selection.metric
        and each.segment is None
    )
    found = Confirmed(report.run_id, content, own.value, own.low, own.high)
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
