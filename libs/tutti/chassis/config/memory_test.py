"""Memory that ran out is told from other failures of an allocation or a library."""

import pytest

from tutti.chassis.config.memory import ran_out


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
