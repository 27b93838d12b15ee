"""What a process had resident, by the kernel's account."""

from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

from benchmarks.pairs import Pairs, median
from benchmarks.table import Row


def peak_megabytes(process: int | str = "self") -> float:
    """The most that this process, or the one with this id, had resident at once; pages of mapped files count."""
    status = Path(f"/proc/{process}/status").read_text().splitlines()
    return int(next(line for line in status if line.startswith("VmHWM")).split()[1]) / 1000


def peak_of(work: Callable[..., object], *given: object) -> float:
    """The most megabytes of a new process that does this work, a function of a module, and nothing else."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(_peak, work, *given).result()


def memory_row(what: str, ours: list[float], peer: list[float], note: str = "") -> Row:
    """The peaks of several processes, beside as many of the peer, or none."""
    return Row(
        f"{what}: memory",
        unit="MB",
        ours=median(ours),
        peer=median(peer) if peer else None,
        ratio=Pairs(tuple(ours), tuple(peer)).cost() if peer else None,
        note=note,
    )


def nothing() -> None:
    """What `peak_of` needs for this is what a process has that only loaded the module."""


def _peak(work: Callable[..., object], *given: object) -> float:
    work(*given)
    return peak_megabytes()
