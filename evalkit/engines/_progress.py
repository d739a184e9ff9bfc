"""How many partitions Spark has done, told while its jobs run."""

import secrets
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from evalkit.planning.counters import PROGRESS_SECONDS, Progress

Tell = Callable[[Progress], None]


@contextmanager
def telling(session: Any, tell: Tell | None, n_planned: int) -> Iterator[None]:
    """Here the jobs of a session are told as they go on, by parts that are read or measured.

    Args:
        tell: nobody asks where it is None.
        n_planned: parts that there will be at least; Spark begins one stage after the other.
    """
    if tell is None:
        yield
    elif hasattr(session, "registerProgressHandler") and not _has_context(session):
        with _from_connect(session, tell, n_planned):
            yield
    else:
        with _from_tracker(session.sparkContext, tell, n_planned):
            yield


def _has_context(session: Any) -> bool:
    try:
        return session.sparkContext is not None
    except Exception:  # Spark Connect shows no context
        return False


@contextmanager
def _from_connect(session: Any, tell: Tell, n_planned: int) -> Iterator[None]:
    seen: dict[int, tuple[int, int]] = {}  # done and all, of each stage

    def handle(stages: Iterable[Any] | None, **_: object) -> None:
        for each in stages or ():
            seen[each.stage_id] = each.num_completed_tasks, each.num_tasks
        tell(_summed(seen.values(), n_planned))

    session.registerProgressHandler(handle)
    try:
        yield
    finally:
        session.removeProgressHandler(handle)


@contextmanager
def _from_tracker(context: Any, tell: Tell, n_planned: int) -> Iterator[None]:
    group, tracker = f"evalkit-{secrets.token_hex(8)}", context.statusTracker()
    ended = threading.Event()

    def look() -> Progress:
        stages: dict[int, tuple[int, int]] = {}
        for job in tracker.getJobIdsForGroup(group):
            for stage in getattr(tracker.getJobInfo(job), "stageIds", ()):
                if (found := tracker.getStageInfo(stage)) is not None:
                    stages[stage] = found.numCompletedTasks, found.numTasks
        return _summed(stages.values(), n_planned)

    def watch() -> None:
        while not ended.wait(PROGRESS_SECONDS):
            with suppress(Exception):  # a session that ends; the job itself says why
                tell(look())

    context.setJobGroup(group, "evalkit")
    watching = threading.Thread(target=watch, name="progress", daemon=True)
    watching.start()
    try:
        yield
    finally:
        ended.set()
        watching.join()
        with suppress(Exception):
            context.setLocalProperty("spark.jobGroup.id", None)
            context.setLocalProperty("spark.job.description", None)


def _summed(stages: Iterable[tuple[int, int]], n_planned: int) -> Progress:
    found = [*stages]
    n_all = sum(n_tasks for _, n_tasks in found)
    return Progress(
        "spark", sum(n_done for n_done, _ in found), max(n_all, n_planned), "partitions"
    )
