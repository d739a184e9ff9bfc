"""Threads that run serial kernels side by side; kernels release the GIL."""

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextvars import copy_context
from itertools import chain, islice
from typing import TypeVar

from .decorator import loading

Work = TypeVar("Work")
Done = TypeVar("Done")

ROWS_AT_HAND = 1 << 15


def usable_cores() -> int:
    """Processors this process may use: its affinity, cut by the container's CPU quota."""
    try:
        cores = len(os.sched_getaffinity(0))
    except AttributeError:  # macOS has no affinity
        cores = os.cpu_count() or 1
    try:
        with open("/sys/fs/cgroup/cpu.max", encoding="ascii") as file:
            quota, period = file.read().split()
    except (OSError, ValueError):
        return cores
    return cores if quota == "max" else max(1, min(cores, -(-int(quota) // int(period))))


def kernels_are_compiled() -> bool:
    """False with NUMBA_DISABLE_JIT=1, where plain Python stands in and atomics are not atomic."""
    return os.environ.get("NUMBA_DISABLE_JIT", "0") in ("", "0")


def slices_of(n: int, most: int = ROWS_AT_HAND) -> Iterator[slice]:
    """`n` rows a few at a time, so that what is worked out of them stays close to the core."""
    for begin in range(0, n, most):
        yield slice(begin, min(begin + most, n))


def ordered_map(
    work: Callable[[Work], Done], items: Iterable[Work], *, threads: int
) -> Iterator[Done]:
    """`work(item)` in the order of the items, at most three items a thread in memory."""
    return _mapped(work, items, threads, lambda waiting: [waiting.popleft()])


def finished_map(
    work: Callable[[Work], Done], items: Iterable[Work], *, threads: int
) -> Iterator[Done]:
    """The same as each item is finished, so that none waits for one that takes longer."""
    return _mapped(work, items, threads, _take_finished)


def _take_finished(waiting: deque[Future[Done]]) -> list[Future[Done]]:
    finished, others = wait(waiting, return_when=FIRST_COMPLETED)
    waiting.clear()
    waiting.extend(others)
    return list(finished)


def _mapped(
    work: Callable[[Work], Done],
    items: Iterable[Work],
    threads: int,
    take: Callable[[deque[Future[Done]]], list[Future[Done]]],
) -> Iterator[Done]:
    """What `take` takes of those that wait, whenever they are many, and all in the end.

    One item alone is worked on at once: to start threads takes longer than little work does.
    """
    items = iter(items)
    first = list(islice(items, 0 if threads <= 1 or not kernels_are_compiled() else 2))
    items = chain(first, items)
    if len(first) < 2:
        yield from map(work, items)
        return
    del first  # they may be large
    waiting: deque[Future[Done]] = deque()
    with ThreadPoolExecutor(threads) as pool:
        try:
            for item in items:
                waiting.append(pool.submit(copy_context().run, loading.run_beside, work, item))
                if len(waiting) > 3 * threads:
                    yield from (future.result() for future in take(waiting))
            while waiting:
                yield from (future.result() for future in take(waiting))
        finally:
            for future in waiting:
                future.cancel()


def one_ahead(work: Callable[[Work], Done], items: Iterable[Work]) -> Iterator[Done]:
    """`work(item)` in the order of the items; the next one is at work while one is looked at."""
    with ThreadPoolExecutor(1) as pool:
        waiting: Future[Done] | None = None
        for item in items:
            after = pool.submit(copy_context().run, work, item)
            if waiting is not None:
                yield waiting.result()
            waiting = after
        if waiting is not None:
            yield waiting.result()
