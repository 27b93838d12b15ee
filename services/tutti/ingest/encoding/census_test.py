"""The census of bytes: the kernel counts what Python counts."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tutti.ingest.encoding.census import controls, counted, native


@pytest.mark.skipif(native().library is None, reason=native().why_not)
@given(
    st.binary(max_size=600)
    | st.lists(st.sampled_from([b"<", b"\0", b"a", b"\x1b", b"\x7f", b"\n"] * 2 + [b"\1" * 200, b"\1" * 5_000])).map(
        b"".join
    )
)
def test_the_kernel_counts_what_python_counts(data: bytes) -> None:
    assert controls(data) == counted(data)


def test_every_byte_is_counted_for_what_it_is() -> None:
    assert controls(bytes(range(256))) == 28
    assert controls(bytes(range(256)) * 100) == 2800
    assert controls(b"") == 0
