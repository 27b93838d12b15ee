"""Reconciler: brings what is open nearer to its end, whatever events were missed."""

import threading
from collections.abc import Callable, Iterable

from tutti.chassis.service import Host
from tutti.chassis.unit import Unit


class Reconciler:
    def __init__(
        self,
        name: str,
        host: Host,
        *,
        open: Callable[[Unit], Iterable[str]],
        advance: Callable[[str], bool | float | None],
        interval: float = 30.0,
    ) -> None:
        self.name, self.interval = name, interval
        self.woken = threading.Event()

    def wake(self, name: str) -> None:
        raise NotImplementedError

    def step(self) -> bool:
        raise NotImplementedError
