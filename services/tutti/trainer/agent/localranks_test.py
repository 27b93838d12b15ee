"""Places: a loss is charged to the node of the rank that caused it."""

import signal
from pathlib import Path

import pytest

from tutti.backbone import ManualClock
from tutti.chassis.config import memory
from tutti.contracts.scheduler.v1 import Spike
from tutti.contracts.trainer.v1 import Failed
from tutti.trainer.agent.localranks import LocalRank, first_loss
from tutti.trainer.failures import Reason
from tutti.trainer.lifeline import Exit
from tutti.trainer.simulated import Gangs, SimulatedRank


@pytest.mark.parametrize(
    ("reason", "ranks", "consequence"),
    [
        (Reason.RANK_ERROR, (0,), False),
        (Reason.PEER_LOST, (), True),
        (Reason.RENDEZVOUS_TIMEOUT, (5,), True),
        (Reason.RENDEZVOUS_TIMEOUT, (0, 5), False),
        (Reason.DIVERGED, (), False),
    ],
)
def test_a_loss_whose_cause_is_on_another_node_is_marked(
    reason: Reason, ranks: tuple[int, ...], consequence: bool
) -> None:
    process = SimulatedRank(Gangs(), ManualClock())
    process.exit_code = Exit.FAILED
    local = LocalRank(0, process, heard=0.0, buffers=(), failed=Failed(reason=reason, message="x", ranks=ranks))
    first_loss([local], now=1.0, settle=0.5)
    loss = first_loss([local], now=2.0, settle=0.5)
    assert loss is not None
    assert (loss.ranks, loss.consequence) == ((0,), consequence)


@pytest.mark.parametrize(("kills", "reason"), [(2, Reason.OUT_OF_MEMORY), (3, "")])
def test_a_kill_of_the_kernel_for_memory_is_told_from_another_kill(
    kills: int, reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    counters = tmp_path / "vmstat"
    counters.write_text("oom_kill 3\n")
    monkeypatch.setattr(memory.kernel_kills, "__defaults__", (counters,))
    process = SimulatedRank(Gangs(), ManualClock())
    process.exit_code = -signal.SIGKILL
    loss = first_loss([LocalRank(0, process, heard=0.0, buffers=(), kills=kills)], now=1.0, settle=0.5)
    assert loss is not None
    assert loss.reason == reason
    assert not loss.final


@pytest.mark.parametrize(
    ("number", "reason"), [(signal.SIGSEGV, Reason.RANK_ERROR), (signal.SIGKILL, ""), (signal.SIGTERM, "")]
)
def test_a_crash_is_an_error_of_the_rank_and_a_signal_of_others_is_not(number: signal.Signals, reason: str) -> None:
    process = SimulatedRank(Gangs(), ManualClock())
    process.exit_code = -number
    rank = LocalRank(0, process, heard=0.0, buffers=(), kills=memory.kernel_kills())
    loss = first_loss([rank], now=1.0, settle=0.5)
    assert loss is not None
    assert loss.reason == reason


def test_the_reason_that_a_rank_gave_goes_with_its_loss() -> None:
    process, failed = SimulatedRank(Gangs(), ManualClock()), Failed(reason=Reason.RANK_ERROR, message="E: x")
    loss = first_loss([LocalRank(1, process, heard=0.0, buffers=(), failed=failed)], now=1.0, settle=0.5)
    assert loss is not None
    assert loss.reason == Reason.RANK_ERROR


def test_a_training_that_goes_back_is_no_fault_of_a_rank() -> None:
    process, spike = SimulatedRank(Gangs(), ManualClock()), Spike(first=40, last=44)
    failed = Failed(reason=Reason.SPIKE, message="goes back", spike=spike)
    loss = first_loss([LocalRank(1, process, heard=0.0, buffers=(), failed=failed)], now=1.0, settle=0.5)
    assert loss is not None
    assert (loss.ranks, loss.spike, loss.final) == ((1,), spike, False)
