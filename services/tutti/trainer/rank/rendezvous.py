"""The rendezvous: how the ranks of one epoch find each other.

Rank 0 opens a store on a port that the kernel chose, on the node's own address. Every rank writes its presence and
waits for the others; at the deadline it names who is missing.
"""

import os
import socket
import time
from collections.abc import Callable
from datetime import timedelta

import psutil
import torch.distributed as dist
from torch._C._distributed_c10d import PrefixStore, Store, TCPStore

from tutti.model.device import backend_of
from tutti.trainer.failures import RankFailure, Reason

COLLECTIVE_SECONDS = 1800.0
"""Longer than any wait that the agents tolerate: they name the guilty rank before a collective gives up."""


def open_store(listen: str, seconds: float) -> tuple[TCPStore, str]:
    """The store of rank 0, and its address. It listens on `listen` alone."""
    listener = socket.socket(socket.AF_INET6 if ":" in listen else socket.AF_INET)
    listener.bind((listen, 0))
    listener.listen(1024)
    port = listener.getsockname()[1]
    store = TCPStore(
        listen,
        port,
        is_master=True,
        wait_for_workers=False,
        timeout=timedelta(seconds=seconds),
        master_listen_fd=listener.detach(),
    )
    return store, f"{listen}:{port}"


def join_store(address: str, seconds: float) -> TCPStore:
    """The store behind the address. Raises RankFailure when it does not answer."""
    host, _, port = address.rpartition(":")
    try:
        return TCPStore(host, int(port), is_master=False, wait_for_workers=False, timeout=timedelta(seconds=seconds))
    except (RuntimeError, ValueError) as error:
        raise RankFailure(
            Reason.RENDEZVOUS_TIMEOUT, f"rank 0 does not answer at {address}: {error}", ranks=[0]
        ) from error


def meet(store: Store, *, rank: int, ranks: int, epoch: int, seconds: float, check: Callable[[], None]) -> Store:
    """Wait until all ranks are here; the store of this epoch. Raises RankFailure naming those who are not."""
    own = PrefixStore(f"epoch{epoch}", store)
    own.set(_presence(rank), "here")
    deadline = time.monotonic() + seconds
    missing = [other for other in range(ranks) if other != rank]
    while missing:
        check()
        missing = [other for other in missing if not own.check([_presence(other)])]
        if missing and time.monotonic() > deadline:
            raise RankFailure(
                Reason.RENDEZVOUS_TIMEOUT,
                f"{_named(missing)} of {ranks} did not come to the rendezvous of epoch {epoch} within {seconds:g} s",
                ranks=missing,
            )
        if missing:
            time.sleep(0.02)
    return own


def open_group(store: Store, *, rank: int, ranks: int, listen: str, device: str) -> dist.ProcessGroup:
    """The process group of all ranks, over the interface that holds `listen`."""
    backend = backend_of(device)
    if interface := _interface(listen):
        os.environ["GLOO_SOCKET_IFNAME"] = interface
        os.environ["NCCL_SOCKET_IFNAME"] = interface
    dist.init_process_group(
        backend,
        store=PrefixStore("group", store),
        rank=rank,
        world_size=ranks,
        timeout=timedelta(seconds=COLLECTIVE_SECONDS),
    )
    group = dist.group.WORLD
    assert group is not None
    return group


def group_of_first(ranks: int) -> dist.ProcessGroup | None:
    """Collective over the group of all ranks. The group of the first `ranks` of them; none for a single one."""
    if ranks == 1:
        return None
    group = dist.new_group(list(range(ranks)), timeout=timedelta(seconds=COLLECTIVE_SECONDS))
    return group if isinstance(group, dist.ProcessGroup) else None  # a rank that is not of the group has none


def _presence(rank: int) -> str:
    return f"present/{rank}"


def _named(ranks: list[int]) -> str:
    return f"rank {ranks[0]}" if len(ranks) == 1 else f"ranks {', '.join(map(str, ranks))}"


def _interface(address: str) -> str | None:
    for name, entries in psutil.net_if_addrs().items():
        if any(entry.address == address for entry in entries):
            return name
    return None
