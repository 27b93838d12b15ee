"""The machine of a node in words, for people who read figures of it."""

import os
import platform
from pathlib import Path

from tutti.chassis.config import memory

CPUINFO = Path("/proc/cpuinfo")


def machine() -> str:
    """Return processor, cores that this process may use, and memory, such as "2 cores of AMD EPYC 7B13, 8 GiB"."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return f"{cores} {'core' if cores == 1 else 'cores'} of {_processor()}, {memory.machine_bytes() / 2**30:.0f} GiB"


def _processor() -> str:
    try:
        lines = CPUINFO.read_text().splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return (names or [platform.processor() or platform.machine()])[0][:80]
