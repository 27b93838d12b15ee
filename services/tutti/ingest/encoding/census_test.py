"""The census of bytes: the kernel counts what Python counts."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tutti.ingest.encoding.census import NOTHING, Census, census, counted, native
from tutti.ingest.encoding.sniffing import decode, media_type


@pytest.mark.skipif(native().library is None, reason=native().why_not)
@given(
    st.binary(max_size=600)
    | st.lists(st.sampled_from([b"<", b"\0", b"a", b"T", b"z", b"{", b"\x7f", b"\n"] * 2 + [b"<" * 200])).map(b"".join)
)
def test_the_kernel_counts_what_python_counts(data: bytes) -> None:
    assert census(data) == counted(data)


def test_every_byte_is_counted_for_what_it_is() -> None:
    assert census(bytes(range(256))) == Census(28, 1, 0, 0)
    assert census(bytes(range(256)) * 100) == Census(2800, 100, 0, 0)
    assert census(b"<table><Ta></table><a><z <td><@><[><\xe1>" * 20) == Census(0, 180, 100, 40)
    assert census(b"") == NOTHING


@given(
    st.binary(max_size=200),
    st.sampled_from(
        [
            "",
            "utf-8",
            "shift_jis",
            "gb18030",
            "iso-2022-jp",
            "big5",
            "koi8-r",
            "euc-kr",
            "utf-16le",
            "ibm866",
            "tis-620",
        ]
    ),
)
def test_no_character_set_has_more_tags_than_bytes_for_them(data: bytes, charset: str) -> None:
    for page in (data, b"\xff\xfe" + data, b"\xfe\xff" + data, b"\x1b$B" + data):
        assert decode(page, media_type("", page), charset).text.count("<") <= census(page).tags
