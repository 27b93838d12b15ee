"""Character sets in a real browser: labels and bytes mean here what they mean there."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Page
from webencodings.labels import LABELS as ALL_LABELS

from tests.browser.chromium import chromium
from tutti.ingest.encoding.charsets import MULTIBYTE, characters, named

ASKED = "labels => labels.map(each => new TextDecoder(each).encoding)"
SINGLE = "label => Array.from({length: 256}, (_, k) => new TextDecoder(label).decode(new Uint8Array([k])))"
PAIRS = """([label, before]) => Array.from({length: 94 * 94}, (_, k) => new TextDecoder(label).decode(
    new Uint8Array([...before, 0xa1 + Math.floor(k / 94), 0xa1 + k % 94])))"""
ALONE = {"gbk": "gb18030", "x-user-defined": "windows-1252"}
"""What browsers call by a name of its own and read alike, or read otherwise in a page."""

LABELS = {label: name for label in ALL_LABELS if (name := named(label))}

RARE = ("windows-1255", 0xCA)
"""A vowel of Hebrew that Python does not have there."""


@pytest.fixture(scope="module")
def page() -> Iterator[Page]:
    with chromium() as browser:
        yield browser.new_page()


def test_every_label_means_what_it_means_there(page: Page) -> None:
    known = sorted(LABELS)
    seen = page.evaluate(ASKED, known)
    assert {label: named(label) for label in known} == {
        label: ALONE.get(name, name) for label, name in zip(known, seen, strict=True)
    }


def test_bytes_are_the_characters_that_they_are_there(page: Page) -> None:
    """But for controls, which browsers have where a character set has nothing."""
    for charset in sorted({*LABELS.values()} - {*MULTIBYTE, "utf-8"}):
        for byte, there in enumerate(page.evaluate(SINGLE, charset)):
            here, _ = characters(bytes((byte,)), charset)
            unknown = here == "\ufffd" and (0x80 <= ord(there) < 0xA0 or (charset, byte) == RARE)
            assert here == there or unknown, (charset, byte)


@pytest.mark.parametrize("before", [b"", b"\x8f"])
def test_pairs_and_triples_of_euc_jp_are_the_characters_that_they_are_there(before: bytes, page: Page) -> None:
    there = page.evaluate(PAIRS, ["euc-jp", list(before)])
    pairs = [bytes((0xA1 + at // 94, 0xA1 + at % 94)) for at in range(94 * 94)]
    assert [characters(before + each, "euc-jp")[0] for each in pairs] == there
