"""Local ranks: the ranks of an attempt as their agent sees them, and which loss among them came first.

When one rank dies, the others lose contact within milliseconds: what is reported is the cause, not what followed.
"""

import signal
from collections.abc import Sequence
from dataclasses import dataclass

from tutti.chassis.config import memory
from tutti.contracts.scheduler.v1 import AuditFailure, PolicyStop, Spike
from tutti.contracts.trainer.v1 import Failed, FlightRecord
from tutti.trainer.agent.ports import RankProcess
from tutti.trainer.failures import FINAL, Reason
from tutti.trainer.lifeline import Exit

CRASHES = (signal.SIGSEGV, signal.SIGBUS, signal.SIGILL, signal.SIGFPE, signal.SIGABRT)
"""The signals by which a process ends itself."""


@dataclass
class LocalRank:
    """One rank. Times are monotonic seconds; `heard` is when it last said anything, `met` whether it ever did.

    `work` is the count of its newest heartbeat, `worked_at` the time since which it has not changed. `kills` is how
    many processes the kernel had killed for memory when it was started.
    """

    rank: int
    process: RankProcess
    heard: float
    buffers: tuple[str, ...]
    met: bool = False
    step: int = 0
    kernel: str = ""
    finished: bool = False
    failed: Failed | None = None
    ended_at: float | None = None
    record: FlightRecord | None = None
    work: int = 0
    worked_at: float = 0.0
    kills: int = 0


@dataclass(frozen=True)
class Loss:
    """Ranks that end the attempt, and why; `final` if every other attempt would end so too, `stop` if the policy
    reached a stop rule, `audit` if that failed: it names the guilty, `ranks` is then who reports it; `spike` if the
    training goes back before it; `consequence` if ranks on other nodes are the cause. `reason`: for machines, empty if
    there is none.
    """

    ranks: tuple[int, ...]
    cause: str
    final: bool = False
    stop: PolicyStop | None = None
    audit: AuditFailure | None = None
    spike: Spike | None = None
    consequence: bool = False
    reason: str = ""


def first_loss(local_ranks: Sequence[LocalRank], *, now: float, settle: float) -> Loss | None:
    """The loss to report now, if any; an exit code or a better cause is awaited for at most `settle` seconds."""
    ends = [local for local in local_ranks if local.process.ended and not local.finished]
    for local in ends:
        local.ended_at = now if local.ended_at is None else local.ended_at
    for local in local_ranks:
        if local.failed is not None and local.failed.reason != Reason.PEER_LOST:
            own = tuple(rank for rank in local.failed.ranks if any(rank == each.rank for each in local_ranks))
            cause = f"rank {local.rank}: {local.failed.message} ({local.failed.reason})"
            if local.failed.HasField("audit"):
                return Loss((local.rank,), cause, audit=local.failed.audit)
            if local.failed.HasField("spike"):
                return Loss((local.rank,), cause, spike=local.failed.spike)
            stop = local.failed.stop if local.failed.HasField("stop") else None
            final, elsewhere = local.failed.reason in FINAL, bool(local.failed.ranks) and not own
            reason = local.failed.reason
            return Loss(own or (local.rank,), cause, final, stop, consequence=elsewhere, reason=reason)
    for local in ends:
        code = local.process.exit_code
        if local.failed is None and code != Exit.STOPPED:
            if code is None and not _settled(local, now, settle):
                return None
            server = local.process.server_exit_code
            killed = -signal.SIGKILL in (code, server) and memory.kernel_kills() > local.kills
            words = f"was killed by the kernel: {memory.TOO_LITTLE}" if killed else _ending(code, server)
            reason = Reason.OUT_OF_MEMORY if killed else Reason.RANK_ERROR if -(code or 0) in CRASHES else ""
            return Loss((local.rank,), f"rank {local.rank} {words} after step {local.step}", reason=reason)
    for local in ends:
        if local.failed is not None and _settled(local, now, settle):
            # Had another rank here ended otherwise, it would have been reported: the cause is on another node.
            return Loss((local.rank,), f"rank {local.rank}: {local.failed.message}", consequence=True)
    return None


def all_ended(local_ranks: Sequence[LocalRank]) -> bool:
    return all(local.process.ended for local in local_ranks)


def _settled(local: LocalRank, now: float, settle: float) -> bool:
    return local.ended_at is not None and now - local.ended_at > settle


def _ending(code: int | None, server: int | None) -> str:
    """`server`: the exit code of the process that forked the rank, and would have told how the rank ended."""
    if code is None:
        return (
            "ended without a word"
            if server is None
            else f"ended, as the process that forked it {_ending(server, None)}"
        )
    if code == -signal.SIGKILL:
        return f"was killed by SIGKILL ({memory.KILLED})"
    if code < 0:
        try:
            return f"was killed by {signal.Signals(-code).name}"
        except ValueError:
            return f"was killed by signal {-code}"
    if code == Exit.ALONE:
        return "gave up on its agent"
    return f"ended without a word, exit code {code}"
