"""Memory that ran out: errors of real allocations."""

import errno

import pytest

from tutti.chassis.config.memory import TOO_LITTLE, named, ran_out


def allocate() -> None:
    bytearray(1 << 60)


def test_a_failed_allocation_is_named_with_what_to_do() -> None:
    with pytest.raises(MemoryError) as failed:
        allocate()
    assert named(failed.value) == f"MemoryError; {TOO_LITTLE}"


def test_a_process_that_cannot_be_forked_for_want_of_memory_is_named() -> None:
    assert ran_out(OSError(errno.ENOMEM, "Cannot allocate memory"))


def test_other_errors_keep_their_words() -> None:
    assert named(ValueError("odd")) == "ValueError: odd"
    assert not ran_out(ValueError("odd"))
