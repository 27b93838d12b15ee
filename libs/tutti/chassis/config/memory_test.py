"""Memory that ran out is told from other failures of an allocation or a library."""

from pathlib import Path

import pytest

from tutti.chassis.config.memory import kernel_kills, machine_bytes, ran_out


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (MemoryError(), True),
        (RuntimeError("[enforce fail at alloc_cpu.cpp:121] DefaultCPUAllocator: can't allocate memory"), True),
        (OSError(12, "Cannot allocate memory"), True),
        (ImportError("libtorch_cpu.so: failed to map segment from shared object"), True),
        (ImportError("x.so: failed to map segment from shared object: Operation not permitted"), False),
        (RuntimeError("CUDA error: an illegal memory access was encountered"), False),
    ],
)
def test_only_a_failed_allocation_is_memory_that_ran_out(error: Exception, expected: bool) -> None:
    assert ran_out(error) is expected


def test_a_container_with_a_limit_has_no_more_memory_than_that(tmp_path: Path) -> None:
    limit, whole = tmp_path / "memory.max", machine_bytes(tmp_path / "none")
    for text, expected in (("1048576\n", 1 << 20), ("max\n", whole), (f"{2 * whole}\n", whole)):
        limit.write_text(text)
        assert machine_bytes(limit) == expected


def test_the_kernel_counts_the_processes_that_it_killed_for_memory(tmp_path: Path) -> None:
    counters = tmp_path / "vmstat"
    assert kernel_kills(counters) == 0
    counters.write_text("pgfault 7\noom_kill 3\nswap_ra 0\n")
    assert kernel_kills(counters) == 3
