"""Threads that run serial kernels side by side; kernels release the GIL."""

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, as_completed, wait
from contextvars import copy_context
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
    if threads <= 1 or not kernels_are_compiled():
        yield from map(work, items)
        return
    waiting: deque[Future[Done]] = deque()
    with ThreadPoolExecutor(threads) as pool:
        try:
            for item in items:
                waiting.append(pool.submit(copy_context().run, loading.run_beside, work, item))
                if len(waiting) > 3 * threads:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()


def finished_map(
    work: Callable[[Work], Done], items: Iterable[Work], *, threads: int
) -> Iterator[Done]:
    """The same as each item is finished, so that none waits for one that takes longer."""
    if threads <= 1 or not kernels_are_compiled():
        yield from map(work, items)
        return
    waiting: set[Future[Done]] = set()
    with ThreadPoolExecutor(threads) as pool:
        try:
            for item in items:
                waiting.add(pool.submit(copy_context().run, loading.run_beside, work, item))
                if len(waiting) > 3 * threads:
                    finished, waiting = wait(waiting, return_when=FIRST_COMPLETED)
                    yield from (future.result() for future in finished)
            yield from (future.result() for future in as_completed(waiting))
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
