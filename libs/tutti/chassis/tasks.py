"""Tasks: long work as rows, claimed with an epoch, finished under it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, ParamSpec, Protocol, TypeVar

if TYPE_CHECKING:
    from tutti.chassis.service import Host
    from tutti.chassis.unit import Unit

T = TypeVar("T")
P = ParamSpec("P")
Finish = Callable[["Unit"], None]


class Pool(Protocol):
    def run(self, fn: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run a top-level picklable function elsewhere and wait for it; inline in simulation."""
        ...


@dataclass(frozen=True)
class Task:
    """`attempt` counts claims, from 1; `epoch` fences."""

    id: str
    kind: str
    resource: str
    payload: bytes
    attempt: int
    epoch: int


class WorkFailed(Exception):
    """No attempt can succeed; `reason` is recorded and shown to people."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class Retry(Exception):
    """Not now: try again after so many seconds. Spends no attempt."""

    def __init__(self, reason: str, after: float = 1.0) -> None:
        super().__init__(reason)
        self.reason, self.after = reason, after


class TaskContext:
    """What `run` is given."""

    task: Task
    host: "Host"

    def pool(self, fn: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        raise NotImplementedError

    def cancelled(self) -> bool:
        raise NotImplementedError

    def check(self) -> None:
        """Raises Cancelled or FencedOff: stop, what is computed cannot be recorded any more."""
        raise NotImplementedError
