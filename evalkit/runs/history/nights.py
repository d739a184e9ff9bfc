"""Models compared over all nights of a job, valid however often somebody looks."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Literal

import polars as pl

from evalkit.errors import DataError
from evalkit.report import Comparison, Night, OverNights, Report
from evalkit.report.record import readable
from evalkit.runs import finished, load_run
from evalkit.runs.history._index import open_index
from evalkit.runs.history._truths import name_measure, name_truth
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
    Nights are taken as overlapping where a user is on two of them, as far as they keep values of
    users, and with clusters, and items that are drawn.

    Args:
        report: of the last night; the folder may hold it already.
        folder: of runs; where there is none, this night is the first.
        users: whether nights may share users.
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
    chosen = [_nights_of(report, each, earlier) for each in own]
    n_shared = None
    if users == "disjoint":
        ids = dict.fromkeys(
            row[0] for nights in chosen for row in nights if row[0] != report.run_id
        )
        n_shared = _count_shared(report, [folder / each for each in ids])
    used: Users = "overlapping" if n_shared else users
    return tuple(
        _over_nights(report, each, nights, earlier, used, n_shared, len(own))
        for each, nights in zip(own, chosen, strict=True)
    )


def _count_shared(report: Report, earlier: Sequence[Path]) -> int | None:
    """The users of several nights; None where none is known and a night does not keep its users."""
    nights = [_users_of_run(report), *map(_users_of_run, earlier)]
    known = [each for each in nights if each is not None]
    n_shared = 0
    with suppress(pl.exceptions.PolarsError, OSError):
        widths = {each.collect_schema().len() for each in known}
        if len(widths) == 1:
            users = pl.concat(known).group_by(pl.all()).len()
            n_shared = (
                users.filter(pl.col("len") > 1).select(pl.len()).collect(engine="streaming").item()
            )
            return int(n_shared) if n_shared or len(known) == len(nights) else None
    return None


def _users_of_run(run: Report | Path) -> pl.LazyFrame | None:
    """Each user once, as text, where the config has them kept."""
    with suppress(DataError, pl.exceptions.PolarsError, OSError):
        report = load_run(run) if isinstance(run, Path) else run
        output, kept = (report.config or {}).get("output"), report.per_user_values
        if isinstance(output, dict) and output.get("per_user") and kept is not None:
            columns = [
                pl.col(name).cast(pl.String).alias(f"user_{place}")
                for place, name in enumerate(kept.user_columns)
            ]
            return kept.table().select(columns).unique()
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


def _nights_of(report: Report, last: Comparison, earlier: Sequence[Row]) -> list[Row]:
    """Those of one comparison, in order; of several runs over one truth the last."""
    of = tuple(map(readable, (last.baseline, last.candidate, last.metric)))
    assert last.std_error is not None
    now: Row = (
        *(report.run_id, report.meta.started, (of[0], of[1], of[2])),
        *(last.delta, last.std_error, last.n_users, name_truth(report), name_measure(report)),
    )
    alike = (each for each in (*earlier, now) if (each[2], each[7]) == (of, now[7]))
    return sorted({each[6]: each for each in alike}.values())


def _over_nights(
    report: Report,
    last: Comparison,
    nights: Sequence[Row],
    earlier: Sequence[Row],
    users: Users,
    n_shared: int | None,
    n_tests: int,
) -> OverNights:
    """One comparison over its nights."""
    of, measured = nights[-1][2], nights[-1][7]
    n_otherwise = sum(each[2] == of and each[7] != measured for each in earlier)
    n_alike = 1 + sum(each[2] == of and each[7] == measured for each in earlier)
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
    compared = OverNights(
        *(last.baseline, last.candidate, last.metric, used, level, n_tests, n_otherwise, known),
        n_shared=n_shared,
        n_again=n_alike - len(nights),
    )
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
