"""Japanese pages hold what vendors added to the standards, and a fault takes no more than browsers let it take."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tutti.corpus.documents.documents import MediaType
from tutti.ingest.encoding.charsets import characters
from tutti.ingest.encoding.japanese import euc_jp, iso_2022_jp
from tutti.ingest.encoding.sniffing import decode

KANJI, KANA = 0x21, b"\x1b(I"
ROWS = range(0x21, 0x7F)


def by_shift_jis(first: int, second: int) -> str:
    """What a pair is in Shift_JIS as Windows has it, which orders the same rows in another way."""
    row, cell = first - 0x20, second - 0x20
    lead = (row + 1) // 2 + (0x80 if row <= 62 else 0xC0)
    trail = cell + (0x9E if row % 2 == 0 else 0x3F if cell < 64 else 0x40)
    return bytes((lead, trail)).decode("cp932", "ignore") if trail < 0xFD else ""


def test_a_pair_is_what_it_is_in_shift_jis() -> None:
    pairs = [(first, second) for first in ROWS for second in ROWS]
    seen = [euc_jp(bytes((first | 0x80, second | 0x80))) for first, second in pairs]
    assert seen == [iso_2022_jp(b"\x1b$B%c%c\x1b(B" % pair) for pair in pairs]
    known = {pair: text for pair, text in zip(pairs, seen, strict=True) if text != "\ufffd"}
    assert {"①", "Ⅳ", "㈱", "№", "㎏", "髙", "﨑", "\uff5e", "\uff0d"} <= set(known.values())
    assert len(known) == 6879 + 83 + 374  # of the standard, and those of NEC, and of IBM by NEC
    assert all(by_shift_jis(*pair) == text for pair, text in known.items())


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"\xad\xa1\xad\xa2 \xad\xea\xc6\xfc\xcb\xdc", "①② ㈱日本"),
        (b"\xa4\xa2\xa9\xa1\xa4\xa4", "あ\ufffdい"),  # a pair that is none
        (b"\xa4\xa2\xa4\x20\xa4\xa4", "あ\ufffd い"),
        (b"\xa4\xa2\xa4\x90\xa4\xa4", "あ\ufffdい"),
        (b"\xa4\xa2\xff\xa4\xa4", "あ\ufffdい"),
        (b"\xa4\xa2\xa4", "あ\ufffd"),
        (b"\x8e\xb1\x8e\xe1\xa4\xa4", "ｱ\ufffdい"),
        (b"\x8f\xb0\xa1\x8f\xa1\xa1\xa4\xa4", "丂\ufffdい"),
        (b"\x8f\xb0!\x8f", "\ufffd!\ufffd"),
        (b"\xa1\xc1 \x8f\xa2\xb7 ~", "\uff5e \uff5e ~"),
    ],
)
def test_euc_jp_is_read_as_browsers_do(data: bytes, text: str) -> None:
    assert decode(b"\xc6\xfc\xcb\xdc" * 20 + data, MediaType.PLAIN, "euc-jp").text == "日本" * 20 + text


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b'a\x1b$B-!$"\x1b(Bb', "a①あb"),
        (b"\x1b$@F|K\\\x1b(J\\~\x1b(I1\x1b(B\\~", "日本\xa5\u203eｱ\\~"),
        (b'\x1b$B$"\n$$\x1b(B', "あ\nい"),
        (b'\x1b$B$"$\x1b(Bb', "あ\ufffdb"),
        (b'\x1b$B)!$"', "\ufffdあ"),
        (b"\x1b(Da\xe9\x0e", "\ufffd(Da\ufffd\ufffd"),
        (b"\x1b(I`", "\ufffd"),
    ],
)
def test_iso_2022_jp_is_read_as_browsers_do(data: bytes, text: str) -> None:
    assert characters(data, "iso-2022-jp") == (text, text.count("\ufffd"))


@given(st.text(st.sampled_from("日本語のぺージｱａ丂 a\n~\\"), max_size=50))
def test_what_python_writes_comes_back(text: str) -> None:
    assert euc_jp(text.encode("euc_jp")) == text


@given(st.text(st.sampled_from("日本語のページ a\n~\\"), max_size=50))
def test_what_python_writes_with_escapes_comes_back(text: str) -> None:
    assert iso_2022_jp(text.encode("iso2022_jp")) == text


@given(
    st.lists(st.sampled_from([b"\x8f", b"\x8e", b"\xa4", b"\xad\xa1", b"a", b"\x1b$B", b"\x1b(B", b"\x80"])).map(
        b"".join
    )
)
def test_any_bytes_are_read_and_no_ascii_is_lost(data: bytes) -> None:
    assert euc_jp(data).count("a") == data.count(b"a")
    assert iso_2022_jp(data + b"\x1b(B end").endswith(" end")
