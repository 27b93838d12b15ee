"""The ports of the agent: ranks, the I/O child, the control plane. Real and simulated ones have the same interface.

Nothing here waits: what is not there yet is asked for again by the next step of the agent.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from tutti.contracts.committer.v1 import (
    ClaimVerificationRequest,
    ClaimVerificationResponse,
    ReportShardRequest,
    ReportShardResponse,
    ReportVerificationRequest,
    ReportVerificationResponse,
)
from tutti.contracts.common.v1 import GetRequest
from tutti.contracts.sampling.v1 import Experience, ReportExperienceRequest
from tutti.contracts.scheduler.v1 import (
    HeartbeatRequest,
    HeartbeatResponse,
    Node,
    RegisterNodeRequest,
    ReportProgressRequest,
    ReportProgressResponse,
    ReportRankRequest,
    ReportRankResponse,
    ReportReleasedRequest,
    ReportReleasedResponse,
    ReportStallRequest,
    ReportStallResponse,
)
from tutti.contracts.trainer.v1 import IoMessage, RankMessage
from tutti.platform.processes import ProcessId

T = TypeVar("T")


class LaunchError(Exception):
    """No process can be started."""


class RankProcess(Protocol):
    """A rank as its agent sees it."""

    @property
    def process(self) -> ProcessId | None:
        """None while it is being started, or where there is no process."""
        ...

    def send(self, message: RankMessage) -> None: ...

    def receive(self) -> list[RankMessage]: ...

    @property
    def ended(self) -> bool:
        """True if its last message was received: nothing more can come."""
        ...

    @property
    def exit_code(self) -> int | None:
        """Negative for a signal; None while unknown."""
        ...

    @property
    def server_exit_code(self) -> int | None:
        """Exit code of the server that forked it and ended before it; None where none did, or it was killed here."""
        ...

    def kill(self) -> None: ...

    @property
    def gone(self) -> bool:
        """True if the process does not exist any more."""
        ...

    def close(self) -> None:
        """Stop polling the connection: a closed socket would stay readable (EOF)."""
        ...


class Launcher(Protocol):
    def launch(self, device: str) -> RankProcess:
        """Raises LaunchError."""
        ...

    def poll(self) -> None:
        """Take in what happened to the processes."""
        ...

    def processes(self) -> Sequence[ProcessId]:
        """Its own helpers, to be recorded as killable."""
        ...

    def filenos(self) -> Sequence[int]: ...

    def close(self) -> None: ...


class IoLink(Protocol):
    """The conversation with the I/O child. `restarts` grows when another child took over; what was asked is to be
    asked again then. `fate` says what became of the last one that was replaced."""

    restarts: int
    fate: str

    def send(self, message: IoMessage) -> None: ...

    def receive(self) -> list[IoMessage]: ...

    def processes(self) -> Sequence[ProcessId]: ...

    def filenos(self) -> Sequence[int]: ...

    def close(self) -> None: ...


class SchedulerApi(Protocol):
    """The part of the scheduler that an agent calls. All raise chassis Problems."""

    def RegisterNode(self, request: RegisterNodeRequest) -> Node: ...

    def GetNode(self, request: GetRequest) -> Node: ...

    def Heartbeat(self, request: HeartbeatRequest) -> HeartbeatResponse: ...

    def ReportRank(self, request: ReportRankRequest) -> ReportRankResponse: ...

    def ReportProgress(self, request: ReportProgressRequest) -> ReportProgressResponse: ...

    def ReportStall(self, request: ReportStallRequest) -> ReportStallResponse: ...

    def ReportReleased(self, request: ReportReleasedRequest) -> ReportReleasedResponse: ...


class CommitterApi(Protocol):
    """The part of the committer that an agent calls. All raise chassis Problems."""

    def ReportShard(self, request: ReportShardRequest) -> ReportShardResponse: ...

    def ClaimVerification(self, request: ClaimVerificationRequest) -> ClaimVerificationResponse: ...

    def ReportVerification(self, request: ReportVerificationRequest) -> ReportVerificationResponse: ...


class SamplingApi(Protocol):
    """The part of sampling that an agent calls. Raises chassis Problems."""

    def ReportExperience(self, request: ReportExperienceRequest) -> Experience: ...


class BackgroundCalls(Protocol):
    """Makes calls that may take long, one at a time a lane, and brings their answers to the caller's own thread."""

    def busy(self, lane: str) -> bool: ...

    def send(self, lane: str, call: Callable[[], T], then: Callable[[T | Exception], None]) -> None:
        """`then` runs in a later `deliver`."""
        ...

    def deliver(self) -> bool:
        """Hand out the answers that are here; whether there were any."""
        ...

    def filenos(self) -> Sequence[int]: ...

    def close(self) -> None: ...


@dataclass(frozen=True)
class AgentSettings:
    """One agent's own numbers; times in seconds."""

    node: str
    slots: int
    devices: tuple[str, ...]
    address: str = "127.0.0.1"
    kernel: str = ""
    machine: str = ""
    memory_bytes: int = 0
    silence: float = 20.0
    rendezvous: float = 60.0
    staging: float = 600.0
    start: float = 60.0
    dump: float = 3.0
    settle: float = 0.5
    stall: float = 300.0
    verdict: float = 60.0
    heartbeat: float = 5.0
    poll: float = 0.25
    claim: float = 1.0
    relook: float = 10.0
    progress: float = 0.5
    drain: float = 8.0
    buffers: int = 2
    folder: str = ""

    @property
    def name(self) -> str:
        return f"nodes/{self.node}"

    @property
    def meeting(self) -> float:
        """The time that a rank waits for the others: they may be on nodes that still stage."""
        return self.staging + self.rendezvous
