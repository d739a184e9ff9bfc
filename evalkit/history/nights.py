"""Models compared over all nights of a job, valid however often somebody looks."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Literal

import polars as pl

from evalkit.errors import DataError
from evalkit.history._index import open_index
from evalkit.history._truths import name_measure, name_truth
from evalkit.report import Comparison, Night, OverNights, Report
from evalkit.runs import finished, load_run
from evalkit.statistics.sequences import follow_nights

Users = Literal["overlapping", "disjoint"]


def compare_over_nights(
    report: Report,
    folder: Path,
    users: Users,
    *,
    metrics: Sequence[str] = (),
    fetch: Callable[[str], object] | None = None,
) -> tuple[OverNights, ...]:
    """The comparisons of a run, each with those of the same two models on earlier nights.

    Nights are the runs of the job before this one, in the order in which they were made, that
    compared the two by this metric over all users and measured as this one does; of several runs
    over one truth the last counts. All that is asked for is one family, by Bonferroni.

    Args:
        report: of the last night; the folder may hold it already.
        folder: of runs; where there is none, this night is the first.
        users: whether nights may share users. They do where a user of the run before is here
            again, as far as both keep values of users; so do clusters, and items that are drawn.
        metrics: in any spelling; by default the primary ones, or the one that leads.
        fetch: called with the id of a run before its files are read.
    Returns:
        Nothing where the run compares no two models by them.
    Raises:
        RequestError: it has no such metric [metric-not-in-report, ambiguous-metric].
    """
    wanted = [report.label_of(each) for each in metrics] or report.primary or report.leading[:1]
    own = [
        each
        for each in report.comparisons
        if each.segment is None and each.metric in wanted and each.std_error is not None
    ]
    earlier = [*_earlier(report, folder, fetch)] if own else []
    others = [run_id for run_id, *_, truth, _ in earlier if truth != name_truth(report)]
    n_shared = None
    if users == "disjoint" and others:
        n_shared = _count_shared(report, folder / others[-1])
    used: Users = "overlapping" if n_shared else users
    found = [_over_nights(report, each, earlier, used, len(own)) for each in own]
    return tuple(replace(each, n_shared=n_shared) for each in found)


def _count_shared(report: Report, path: Path) -> int | None:
    """The users of a run who are in an earlier one, where the config has both keep them."""
    with suppress(DataError, pl.exceptions.PolarsError, OSError):
        values = [each.per_user_values for each in (report, load_run(path))]
        output = (report.config or {}).get("output")
        if isinstance(output, dict) and output.get("per_user") and None not in values:
            now, before = (
                each.table().select(each.user_columns).unique() for each in values if each
            )
            return int(now.join(before, on=now.collect_schema().names()).collect().height)
    return None


def users_of(report: Report) -> Users:
    """Whether nights may share users, as the config of a run says; they may where it does not."""
    chosen = (report.config or {}).get("statistics")
    said = chosen.get("over_nights") if isinstance(chosen, dict) else None
    return "disjoint" if said == "disjoint" else "overlapping"


Row = tuple[str, str, tuple[str, str, str], float, float, int, str, str]


def _earlier(report: Report, folder: Path, fetch: Callable[[str], object] | None) -> Iterator[Row]:
    """Run, start, models and metric, difference, error, users, truth, and how it was measured."""
    if not folder.is_dir():
        return
    for _, manifest in finished(folder) if fetch is not None else ():
        if fetch is not None and manifest.name == report.name:
            fetch(manifest.run_id)
    with open_index(folder) as (connection, _):
        rows = connection.execute(
            """
            SELECT run_id, started, baseline, candidate, metric, delta, std_error, n_users, truth,
                   measured
            FROM comparisons JOIN runs USING (run_id)
            WHERE name = ? AND run_id < ? AND delta IS NOT NULL AND std_error IS NOT NULL
            ORDER BY run_id
            """,
            (report.name, report.run_id),
        ).fetchall()
    for run_id, started, *of, delta, error, n_users, truth, measured in rows:
        yield run_id, started, (of[0], of[1], of[2]), delta, error, n_users, truth, measured


def _over_nights(
    report: Report, last: Comparison, earlier: Sequence[Row], users: Users, n_tests: int
) -> OverNights:
    """One comparison over its nights."""
    of = last.baseline, last.candidate, last.metric
    truth, measured = name_truth(report), name_measure(report)
    assert last.std_error is not None
    now: Row = (
        *(report.run_id, report.meta.started, of, last.delta, last.std_error, last.n_users),
        *(truth, measured),
    )
    same = [each for each in earlier if each[2] == of]
    alike = {each[6]: each for each in (*same, now) if each[7] == measured}  # the last of a truth
    nights = sorted(alike.values())
    used: Users = users if last.n_clusters is None else "overlapping"
    level = report.statistics.level if report.statistics else 0.95
    found = follow_nights(
        [each[3] for each in nights],
        [each[4] for each in nights],
        [each[5] for each in nights],
        level=1.0 - (1.0 - level) / n_tests,
        disjoint=used == "disjoint",
    )
    known = tuple(
        Night(
            *(run_id, started, delta, error, n_users, each.mean, each.low, each.high),
            p_value=min(1.0, n_tests * each.p_value),
        )
        for (run_id, started, _, delta, error, n_users, *_), each in zip(nights, found, strict=True)
    )
    left_out = sum(each[7] != measured for each in same)
    compared = OverNights(*of, used, level, n_tests, left_out, known)
    estimate = report.estimate(last.candidate, last.metric, None, None)
    return _judged(compared, None if estimate is None else estimate.higher_is_better)


def _judged(compared: OverNights, higher_is_better: bool | None) -> OverNights:
    """The same with the verdict of the first night that found a difference."""
    first = next((e for e in compared.nights if e.p_value <= 1.0 - compared.level), None)
    if first is None:
        return compared
    is_better = (first.mean > 0) is higher_is_better
    verdict = "different" if higher_is_better is None else "better" if is_better else "worse"
    return replace(compared, verdict=verdict, found=first.run_id)
