"""Lost contact is told from the errors that a rank makes itself, whatever words these contain."""

from datetime import timedelta

import pytest
import torch
import torch.distributed as dist
from torch._C._distributed_c10d import TCPStore

from tutti.contracts.trainer.v1 import RankMessage
from tutti.trainer.failures import Reason
from tutti.trainer.rank.contact import lost_contact
from tutti.trainer.rank.rank import failed_of

NCCL = "NCCL error in: /pytorch/torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp:3356, "


@pytest.mark.parametrize(
    "words",
    [
        "[gloo/transport/tcp/pair.cc:561] Connection closed by peer [127.0.0.1]:439. This is typically caused by a "
        "remote worker crashing.",
        "[gloo/transport/tcp/pair.cc:534] Read error [10.0.0.2]:4711: Connection reset by peer",
        "[gloo/transport/tcp/unbound_buffer.cc:129] Timed out waiting 3000ms for send operation to complete",
        "[gloo/transport/tcp/buffer.cc:129] Application timeout caused pair closure",
        "[gloo/transport/tcp/pair.cc:144] writev [10.0.0.2]:4711: Broken pipe",
        "Failed to recv, got 0 bytes. Connection was likely closed. Did the remote server shutdown or crash?",
        "The client socket has timed out after 2000ms while trying to connect to (10.0.0.2, 4711).",
        "wait timeout after 1000ms, keys: /x",
        f"{NCCL}remote process exited or there was a network error, NCCL version 2.27.5\nncclRemoteError: A call "
        "failed possibly due to a network error or a remote process exiting prematurely.",
        f"{NCCL}unhandled system error, NCCL version 2.27.5\nncclSystemError: System call (e.g. socket, malloc) or "
        "external library call failed or device error.\nLast error:\nsocketProgress: Connection reset by peer",
        "[Rank 0] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=12) ran for 1800000 milliseconds",
    ],
)
def test_a_connection_that_was_closed_or_reset_or_timed_out_is_lost_contact(words: str) -> None:
    assert lost_contact(dist.DistBackendError(words))
    assert lost_contact(RuntimeError(words))
    assert failed_of(RuntimeError(words), rank=1, step=7, phase="stepping").reason == Reason.PEER_LOST


@pytest.mark.parametrize(
    "error",
    [
        RuntimeError("CUDA error: peer access is already enabled"),
        RuntimeError("CUDA error: peer mapping resources exhausted"),
        RuntimeError("CUDA error: the launch timed out and was terminated"),
        RuntimeError("CUDA error: an illegal memory access was encountered"),
        torch.AcceleratorError("CUDA error: unspecified launch failure; connection closed by peer"),
        dist.DistBackendError(
            f"{NCCL}unhandled cuda error, NCCL version 2.27.5\nncclUnhandledCudaError: Call to CUDA function failed.\n"
            "Last error:\nCuda failure 217 'peer access is not supported between these two devices'"
        ),
        dist.DistBackendError(
            f"{NCCL}unhandled cuda error, NCCL version 2.27.5\nLast error:\nsocketProgress: Connection closed by peer"
        ),
        dist.DistBackendError(f"{NCCL}internal error, NCCL version 2.27.5\nncclInternalError: Internal check failed."),
        dist.DistBackendError(f"{NCCL}invalid usage, NCCL version 2.27.5\nDuplicate GPU detected: rank 0 and rank 1"),
        dist.DistNetworkError("The server socket has failed to listen on any local network address. EADDRINUSE"),
        RuntimeError("NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus; connection timed out"),
        RuntimeError("[gloo/enforce.cc:33] op.preamble.length <= op.nbytes. 16 vs 8"),
        RuntimeError("expected a connection matrix of 3 peers"),
        ValueError("connection closed by peer"),
    ],
    ids=lambda error: str(error)[:40],
)
def test_an_error_of_the_device_or_the_program_is_the_ranks_own(error: Exception) -> None:
    assert not lost_contact(error)
    failed = failed_of(error, rank=1, step=7, phase="stepping")
    assert (failed.reason, list(failed.ranks)) == (Reason.RANK_ERROR, [1])
    assert str(error) in failed.message
    assert RankMessage(failed=failed).IsInitialized()


def test_a_store_whose_key_never_comes_has_lost_contact() -> None:
    store = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False, timeout=timedelta(milliseconds=50))
    with pytest.raises(RuntimeError) as caught:
        store.wait(["never"])
    assert lost_contact(caught.value)
