"""What a page is and which characters its bytes stand for, whatever a header, a `<meta>` or a name says."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tutti.corpus.documents.documents import Document, MediaType
from tutti.ingest.encoding.charsets import characters
from tutti.ingest.encoding.sniffing import decode, is_binary, media_type
from tutti.ingest.reading.containers import Page
from tutti.ingest.reading.extraction import extract
from tutti.ingest.reading.rejections import Reason, Rejection

RU = "Библиотека открыта каждый день, и её книги может читать каждый житель города."
UK = "Бібліотека відчинена щодня, її книги може читати кожен мешканець міста."
JA = "図書館は毎日開いていて、町に住む人は誰でも本を読むことができます。"
ZH = "图书馆每天开放。住在城里的人都可以阅读那里的书籍。"
KO = "도서관은 매일 문을 열고, 마을에 사는 사람은 누구나 책을 읽을 수 있습니다."
FR = "La bibliothèque est ouverte « tous les jours », ses livres \u2013 déjà âgés \u2013 peuvent être lus l\u2019été."
PL = "Biblioteka jest otwarta każdego dnia, a jej książki może czytać każdy, kto mieszka w mieście; są też gazety."
EL = "Βιβλιοθήκες ανοίγουν κάθε μέρα, όλοι μπορούν εκεί εύκολα διαβάζοντας βιβλία στην πόλη τους."
LATIN = ("iso-8859-1", "latin1", "us-ascii", "windows-1252", "iso-8859-2", "iso-8859-9", "iso-8859-15", "windows-1250")


@pytest.mark.parametrize(
    ("text", "stored", "header", "meta", "charset"),
    [
        (RU, "koi8-r", "", "", "koi8-r"),
        (RU, "koi8-r", "koi8-r", "", "koi8-r"),
        (RU, "koi8-r", "", "koi8-r", "koi8-r"),
        (RU, "koi8-r", "utf-8", "", "koi8-r"),
        (RU, "koi8-r", "utf-8", "koi8-r", "koi8-r"),
        (RU, "koi8-r", "'KOI8-R'", "", "koi8-r"),
        (RU, "windows-1251", "", "", "windows-1251"),
        (RU, "windows-1251", "utf-8", "", "windows-1251"),
        (RU, "windows-1251", "", "x-cp1251", "windows-1251"),
        (RU, "iso-8859-5", "", "", "iso-8859-5"),
        (RU, "cp866", "", "", "ibm866"),
        (UK, "koi8-u", "", "", "koi8-u"),
        (JA, "shift_jis", "", "", "shift_jis"),
        (JA, "shift_jis", "utf-8", "", "shift_jis"),
        (f"{JA}①", "cp932", "x-sjis", "", "shift_jis"),
        (JA, "euc-jp", "", "", "euc-jp"),
        (JA, "euc-jp", "", "euc-jp", "euc-jp"),
        (JA, "iso-2022-jp", "", "", "iso-2022-jp"),
        (JA, "iso-2022-jp", "iso-2022-jp", "", "iso-2022-jp"),
        (ZH, "gb18030", "", "", "gb18030"),
        (ZH, "gb18030", "gb2312", "", "gb18030"),
        (ZH, "gb18030", "utf-8", "gbk", "gb18030"),
        (KO, "cp949", "", "", "euc-kr"),
        (EL, "iso-8859-7", "", "", "iso-8859-7"),
        (FR, "windows-1252", "", "", "windows-1252"),
        (FR, "windows-1252", "utf-8", "", "windows-1252"),
        (FR, "windows-1252", "", "utf-8", "windows-1252"),
        (FR, "windows-1252", "iso-8859-1", "", "windows-1252"),
        (f"{'Words of an English page, ' * 9}and a café", "windows-1252", "", "", "windows-1252"),
        (PL, "windows-1250", "", "", "windows-1250"),
        (PL, "iso-8859-2", "", "iso-8859-2", "iso-8859-2"),
        (FR, "utf-8", "iso-8859-1", "", "utf-8"),
        (FR, "utf-8", "", "windows-1252", "utf-8"),
        (RU, "utf-8", "windows-1251", "", "utf-8"),
        (JA, "utf-8", "shift_jis", "", "utf-8"),
        (ZH, "utf-8", "", "gb2312", "utf-8"),
        ("联通", "gb18030", "gb2312", "", "gb18030"),
        ("plain", "ascii", "iso-8859-1", "", "windows-1252"),
        ("plain", "ascii", "rot13", "", "utf-8"),
        (JA, "euc-jp", "", "x-euc-jp", "euc-jp"),
        (JA, "shift_jis", "", "csShiftJIS", "shift_jis"),
        (ZH, "gb18030", "", "GB_2312-80", "gb18030"),
        ("圖書館每天開放", "big5", "", "big5-hkscs", "big5"),
        (KO, "cp949", "", "korean", "euc-kr"),
        (PL, "iso-8859-2", "latin2", "", "iso-8859-2"),
        (PL, "iso-8859-2", "", "ISO_8859-2:1987", "iso-8859-2"),
        ("prix\u00a0: 5 \u20ac", "iso-8859-15", "iso8859-15", "", "iso-8859-15"),
        (f"{FR} \u221e", "mac_roman", "", "macintosh", "macintosh"),
        (RU, "mac_cyrillic", "", "x-mac-cyrillic", "x-mac-cyrillic"),
        ("ספריות פתוחות", "iso-8859-8", "", "logical", "iso-8859-8-i"),
        ("Бібліотэкі, дзе ёсць кнігі для ўсіх", "koi8-u", "koi8-u", "", "koi8-u"),
        (f"e{RU}", "utf-16-le", "Unicode", "", "utf-16-le"),
        (f"e{RU}", "utf-16-be", "unicodeFFFE", "", "utf-16-be"),
        (RU, "utf-16", "", "", "utf-16-le"),
        (RU, "utf-16", "koi8-r", "koi8-r", "utf-16-le"),
        (RU, "utf-16-le", "utf-16le", "", "utf-16-le"),
        (RU, "utf-16-be", "UTF-16BE", "", "utf-16-be"),
        (f"e{RU}", "utf-16-le", "utf-16", "", "utf-16-le"),
        (f"e{RU}", "utf-16-be", "utf-16", "", "utf-16-be"),
        (RU, "utf-8", "utf-16le", "", "utf-8"),
        (RU, "utf-8", "", "utf-16", "utf-8"),
        (RU, "utf-8-sig", "koi8-r", "koi8-r", "utf-8"),
    ],
)
def test_a_text_comes_back_whatever_was_declared(text: str, stored: str, header: str, meta: str, charset: str) -> None:
    page = f"<meta charset={meta}>{text}" if meta else text
    data = page.replace("ў", "╝").encode(stored) if stored == "koi8-u" else page.encode(stored)
    assert not is_binary(data, header)
    kind = media_type("page", data, header)
    assert kind is (MediaType.HTML if meta else MediaType.PLAIN)
    decoded = decode(data, kind, header)
    assert (decoded.text, decoded.charset, decoded.replaced) == (page, charset, 0)


@pytest.mark.parametrize(
    ("data", "header", "text", "charset", "replaced"),
    [
        (b"caf\xe9", "", "caf\u00e9", "windows-1252", 0),
        (b"a long line of text \x81", "", "a long line of text \ufffd", "windows-1252", 1),
        (b"a\xffb", "utf-8", "a\u00ffb", "windows-1252", 0),
        (JA.encode()[:-1], "", f"{JA[:-1]}\ufffd", "utf-8", 1),
        (JA.encode()[:-1], "iso-8859-1", f"{JA[:-1]}\ufffd", "utf-8", 1),
        (RU.encode("cp1251") + b"\x98", "windows-1251", f"{RU}\ufffd", "windows-1251", 1),
    ],
)
def test_what_fits_no_character_set_is_replaced_and_counted(
    data: bytes, header: str, text: str, charset: str, replaced: int
) -> None:
    decoded = decode(data, MediaType.PLAIN, header)
    assert (decoded.text, decoded.charset, decoded.replaced) == (text, charset, replaced)


@given(text=st.text(alphabet=st.characters(codec="utf-8")), label=st.sampled_from(LATIN))
def test_any_text_in_utf_8_comes_back_whatever_latin_label_it_has(text: str, label: str) -> None:
    assert decode(text.encode(), MediaType.PLAIN, label).text == text.removeprefix("\ufeff")


@given(st.binary(max_size=300), st.sampled_from(("", "utf-8", "utf-16", "utf-16be", "shift_jis", "koi8-r", "\u0130")))
def test_any_bytes_are_decoded_and_always_alike(data: bytes, header: str) -> None:
    kind = media_type("page", data, header)
    decoded = decode(data, kind, header)
    assert decode(data, kind, header) == decoded
    assert characters(b"", decoded.charset) == ("", 0)
    assert decoded.replaced <= decoded.text.count("\ufffd")


@pytest.mark.parametrize("header", ["", "utf-8", "utf-16le", "utf-16"])
@pytest.mark.parametrize("data", [b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", bytes(range(256)) * 4, b"a\0\1\0\2\0\3\0" * 9])
def test_what_is_binary_stays_so_whatever_was_declared(data: bytes, header: str) -> None:
    rejection = extract(Page("page.html", data, header))
    assert isinstance(rejection, Rejection)
    assert rejection.reason is Reason.BINARY


def test_a_page_in_utf_16_is_extracted_by_its_header_alone() -> None:
    document = extract(Page("page", f"<html><title>T</title><p>{RU}</p>".encode("utf-16-le"), "utf-16le"))
    assert isinstance(document, Document)
    assert (document.text, document.charset, document.media_type) == (RU, "utf-16-le", MediaType.HTML)
