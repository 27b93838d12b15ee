"""Bytes that are read in place are those of the source, whatever it gives at once."""

from io import BytesIO
from random import Random

import pytest

from tutti.backbone.s3.largebytes import STEP, read_whole


@pytest.mark.parametrize("size", [0, 1, 4095, 4096, STEP - 1, STEP, 2 * STEP + 7])
@pytest.mark.parametrize("most", [STEP, 1 << 20, 65_537])
def test_the_bytes_are_those_of_the_source(size: int, most: int) -> None:
    data = Random(size).randbytes(size)
    source = BytesIO(data)
    found = read_whole(size, lambda view: source.readinto(view[:most]))
    assert type(found) is bytes
    assert found == data
    assert hash(found) == hash(data)
    assert bytes(size) == b"\0" * size  # nobody else's zeros were written to


def test_a_source_that_ends_early_is_named() -> None:
    with pytest.raises(EOFError, match="3 of 10 bytes"):
        read_whole(10, BytesIO(b"abc").readinto)
