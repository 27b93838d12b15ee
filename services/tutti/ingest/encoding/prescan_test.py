"""A character set is declared where browsers find it declared, and nowhere else."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tutti.corpus.documents.documents import MediaType
from tutti.ingest.encoding.prescan import declared
from tutti.ingest.encoding.sniffing import decode

OTHER = b"<meta charset=iso-8859-5>"
KOI = b"<meta charset=koi8-r>"


@pytest.mark.parametrize(
    ("page", "charset"),
    [
        (KOI, "koi8-r"),
        (b"<META/CharSet='KOI8-R'/>", "koi8-r"),
        (b'<meta charset = "koi8-r" >', "koi8-r"),
        (b'<meta charset=" koi8-r ">', "koi8-r"),
        (b"<meta http-equiv=Content-Type content='text/html; charset=koi8-r'>", "koi8-r"),
        (b"<meta content='text/html;charset = \"koi8-r\"' http-equiv='content-type'>", "koi8-r"),
        (b"<meta http-equiv=content-type content=text/html;charset=koi8-r;x>", "koi8-r"),
        (b"<!--" + OTHER + b"-->" + KOI, "koi8-r"),
        (b"<!-->" + KOI + b"<!--" + OTHER, "koi8-r"),
        (b"<!--" + OTHER, None),
        (b"<!doctype html" + OTHER[1:] + KOI, "koi8-r"),
        (b"<?x " + OTHER[1:] + b"</1 " + OTHER[1:] + KOI, "koi8-r"),
        (b"<p title='" + OTHER + b"'>" + KOI, "koi8-r"),
        (b"<meta name=description content='charset=iso-8859-5'>" + KOI, "koi8-r"),
        (b"<meta name=description content='charset=iso-8859-5'>", None),
        (b"<meta content='text/html; charset=iso-8859-5'>", None),
        (b"<meta http-equiv=content-type content='text/html'>" + KOI, "koi8-r"),
        (b"<meta name=x value=charset>" + KOI, "koi8-r"),
        (b"<meta charset=koi8-r charset=iso-8859-5>", "koi8-r"),
        (b"<meta charset=nobody-knows>" + KOI, "koi8-r"),
        (b"<metas charset=iso-8859-5>" + KOI, "koi8-r"),
        (b"<meta>charset=koi8-r", None),
        (b" " * 1000 + KOI + b" " * 9, "koi8-r"),
        (b" " * 1024 + KOI, None),
        (b"<p>no charset at all", None),
    ],
)
def test_a_page_declares_what_browsers_find(page: bytes, charset: str | None) -> None:
    assert declared(page) == charset


def test_a_page_is_read_by_what_it_declares_and_not_by_what_stands_in_a_comment() -> None:
    text = "Библиотека открыта каждый день, и её книги может читать каждый житель города."
    page = f"<!-- <meta charset=iso-8859-5> --><meta charset=koi8-r><p>{text}"
    decoded = decode(page.encode("koi8-r"), MediaType.HTML)
    assert (decoded.text, decoded.charset) == (page, "koi8-r")


PIECES = [
    b"<meta",
    b" charset=",
    b"koi8-r",
    b">",
    b"<!--",
    b"-->",
    b"'",
    b'"',
    b"=",
    b" ",
    b"/",
    b"<p",
    b"</",
    b"<!",
    b"x",
]


@given(st.lists(st.sampled_from(PIECES), max_size=50).map(b"".join))
def test_any_page_has_one_or_none(page: bytes) -> None:
    assert declared(page) in (None, "koi8-r")
    assert declared(b"<!--" + page.replace(b">", b"") + b"-->" + KOI) == "koi8-r"
