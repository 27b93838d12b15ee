"""Threads: work on items side by side, for work that releases the GIL."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")


def in_threads(work: Callable[[T], R], items: Iterable[T], workers: int) -> Iterator[R]:
    """`work` of each item in their order, at most two items a worker at once; one worker is this very thread."""
    if workers == 1:
        yield from map(work, items)
        return
    with ThreadPoolExecutor(workers) as pool:
        running: deque[Future[R]] = deque()
        for item in items:
            running.append(pool.submit(work, item))
            if len(running) == 2 * workers:
                yield running.popleft().result()
        yield from (each.result() for each in running)
