"""Personal data: what is found, what is left alone, and hostile text in linear work."""

import re
from collections.abc import Callable, Iterator
from itertools import pairwise
from re import _constants as opcode  # type: ignore[attr-defined]
from re import _parser as parser  # type: ignore[attr-defined]

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tutti.ingest.quality import emails, keys, numerals
from tutti.ingest.quality.findings import Finding, Kind, Window
from tutti.ingest.quality.numerals import luhn
from tutti.ingest.quality.pii import MASKS, NO_PII, Suspicion, find, inspect, masked, native, number_windows, suspicions
from tutti.ingest.quality.rules import decide

PEM = "-----BEGIN RSA PRIVATE KEY-----\nMIIEow==\n-----END RSA PRIVATE KEY-----"
CUT_PEM = "-----BEGIN EC PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\n\n" + "aB1+" * 16 + "\n" + "cD2/" * 16
PGP = "-----BEGIN PGP PRIVATE KEY BLOCK-----\nVersion: 2\n\nlQ==\n=aB1c\n-----END PGP PRIVATE KEY BLOCK-----"
JWT = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N"

MASKED = {
    "Write to jane.doe+x@mail.uni-a.edu.": "Write to [email].",
    "(Bob <bob@tutti.io>), a@b.co@c": "(Bob <[email]>), [email]@c",
    "Call +44 20 7946 0958 or +1 (212) 736-5000!": "Call [phone] or [phone]!",
    "Call (212) 736-5000, 212-736-5000 or 1-212-736-5000": "Call [phone], [phone] or [phone]",
    "212 736 5000, (212) 736 5000, 1 (212) 736 5000 or 1 212 736 5000": "[phone], [phone], [phone] or [phone]",
    "+1 (212) 736 - 5000, +44 20 7946 - 0958": "[phone], [phone]",
    "Visa 4111 1111 1111 1111, 12/26": "Visa [card], 12/26",
    "Amex 3782-822463-10005 and 5555555555554444.": "Amex [card] and [card].",
    "From 8.8.8.8:53 and 2001:4860:4860::8888.": "From [address]:53 and [address].",
    "key=AKIAIOSFODNN7EXAMPLE;": "key=[key];",
    f"Bearer {JWT}": "Bearer [key]",
    "ghp_" + "a1B2" * 9 + "\nsk-proj-" + "x9" * 20: "[key]\n[key]",
    f"a\n{PEM}\nb": "a\n[key]\nb",
    f"a\n{PGP}\nb": "a\n[key]\nb",
    f"{CUT_PEM}\nThat was it. {PEM} {CUT_PEM}": "[key]\nThat was it. [key] [key]",
    f"{PEM.partition('-----END ')[0]}-----END {PEM}": "[key]-----END [key]",
    CUT_PEM.replace("\n", r"\n") + '"}': '[key]"}',
    f"AKIAIOSFODNN7EXAMPLE.Then {JWT}.Then AKIAIOSFODNN7EXAMPLE...": "[key].Then [key].Then [key]...",
    "ivan@xn--e1afmkfd.xn--p1ai, max@m\u00fcller.de, a@\u4f8b\u5b50.\u4e2d\u56fd.": "[email], [email], [email].",
    "\u8bf7\u8054\u7cfbivan@qq.com\u8c22\u8c22 jane@b.co-": "\u8bf7\u8054\u7cfb[email]\u8c22\u8c22 [email]-",
}

FOLLOWED_BY_DIGITS = {
    "4111 1111 1111 1111 123 exp 12/27": "[card] 123 exp 12/27",
    "4111-1111-1111-1111-123": "[card]-123",
    "Visa 4242 4242 4242 4242 999, 4242 4242 4242 4242 9999": "Visa [card] 999, [card] 9999",
    "1234 4111 1111 1111 1111 1234": "1234 [card] 1234",
    "4111 1111 1111 1111 110": "[card]",  # Luhn's digit is that of all 19
    "Tel. +49 30 1234567 10115 Berlin": "Tel. [phone] 10115 Berlin",
    "+1 202 456 1111 20500 Washington": "[phone] 20500 Washington",
    "+1 202 456 1111 123 or +1 202 555 0100 123": "[phone] 123 or +1 202 555 0100 123",
    "phone +33 1 42 34 56 78 75001 Paris": "phone [phone] 75001 Paris",
    "+41 44 668 18 00 8005 Zurich": "[phone] Zurich",  # 15 digits
    "+49 30 1234567x, +49 301 1234567 12345678x": "+49 30 1234567x, [phone] 12345678x",
    "+49 30 1234567 4111 1111 1111 1111": "[phone] [card]",
    "+49 30 1234567 8.8.8.8": "[phone] [address]",
    "+49 30 1234567 1234@b.co": "[phone] [email]",
    "+44 20 7946 0958 212-736-5000": "[phone] [phone]",
}

LEFT_ALONE = [
    "user@example.com, root@localhost, a@sub.test, @property, x@y, .@b.co, git@",
    "10.0.0.1 127.0.0.1 192.168.1.1 256.1.1.1 1.2.3 1.2.3.4.5 fe80::1 ::1 12:34:56 std::bad",
    "4111 1111 1111 1112, 1234567890123456, 0000 0000 0000 0000, 41111111111111111111111",
    "212 736 5000 1000, 17 212 736 5000, 212 555 0100, 212 136 5000, 2127365000, 300 400 500",
    "212-555-0100, 2024-01-31, 3.14159265, 1 2 3 4 5 6 7 8 9 10 11 12, 736-5000, +123",
    "AKIA, sk-SK, sk-" + "abcdefgh" * 4 + ", eyJhbGciOiJIUzI1NiJ9, hf_hub_download, my" + "ghp_" + "a1B2" * 9,
    "-----BEGIN CERTIFICATE-----\nMIIE\n-----END CERTIFICATE-----",
    "What begins with -----BEGIN PRIVATE KEY----- is a key; -----BEGIN PRIVATE KEY-----\nNote: none",
]


@pytest.mark.parametrize("text", MASKED)
def test_what_identifies_is_masked_by_its_kind(text: str) -> None:
    assert masked(text, find(text)) == MASKED[text]


@pytest.mark.parametrize("text", FOLLOWED_BY_DIGITS)
def test_a_number_is_found_whatever_numbers_stand_around_it(text: str) -> None:
    assert masked(text, find(text)) == FOLLOWED_BY_DIGITS[text]


TEXTS = [*MASKED, *FOLLOWED_BY_DIGITS, *LEFT_ALONE]
FORMS = st.sampled_from([*TEXTS, *(form + "a1" * 30 for form in keys.FORMS), "2001:db8::", " 1.1.1.1", "7" * 7])
CUT = st.tuples(FORMS, st.integers(0, 80), st.integers(0, 80)).map(lambda cut: cut[0][cut[1] : len(cut[0]) - cut[2]])


@pytest.mark.skipif(native().library is None, reason=native().why_not)
@given(st.lists(FORMS | CUT | st.text(max_size=5), max_size=5).map("".join))
def test_nothing_is_found_that_was_not_suspected(text: str) -> None:
    seen = suspicions(text)
    assert Suspicion.KEYS in seen or not list(keys.find(text))
    assert Suspicion.NUMBERS in seen or not list(numerals.find(text))
    assert Suspicion.ADDRESSES in seen or not list(numerals.find_ipv6(text))
    assert list(numerals.find(text)) == list(numerals.find(text, number_windows(text)))
    assert set(number_windows(text)) <= set(numerals.windows(text))


def test_more_numbers_than_are_looked_for_at_once_are_all_found() -> None:
    text = "\u6771: 212-736-5000, \n" * 1000
    assert len(find(text)) == 1000
    assert masked(text, find(text)) == "\u6771: [phone], \n" * 1000


def test_most_texts_are_not_suspected() -> None:
    prose = "In 2024 (or 3 years before) it was 12:30; task-force, example.com, a_b: see 1.2, 3.4 and 10-20."
    assert native().library is None or not suspicions(prose)


@pytest.mark.parametrize("text", LEFT_ALONE)
def test_what_only_looks_like_it_stays(text: str) -> None:
    assert masked(text, find(text)) == text


@pytest.mark.parametrize(
    ("digits", "right"), [("79927398713", True), ("79927398710", False), ("0", True), ("18", True)]
)
def test_luhns_check_digit(digits: str, right: bool) -> None:
    assert luhn(digits) is right


def test_a_batch_is_masked_counted_and_can_be_rejected_by_kind() -> None:
    texts, counts = inspect(pa.array(["a@b.co c@d.eu 8.8.8.8", "nothing"]), kinds=[Kind.EMAIL])
    assert texts.to_pylist() == ["[email] [email] 8.8.8.8", "nothing"]
    assert [(row["pii_emails"], row["pii_addresses"], row["pii_keys"]) for row in counts.to_pylist()] == [
        (2, 1, 0),
        (0, 0, 0),
    ]
    assert [row["rule"] for row in decide(counts, NO_PII).to_pylist()] == ["no_pii_emails", None]


PARTS = st.sampled_from(
    [
        *"aZ09@.-+() :\n[]",
        "a@b.co",
        "+44 20 7946 0958",
        "+1 202 456 1111 ",
        " 212-736-5000",
        "(212) 736 5000",
        " 212 736 5000",
        "4111111111111111",
        "4111 1111 1111 1111",
        "AKIAIOSFODNN7EXAMPLE",
        CUT_PEM,
        "8.8.8.8",
        "AKIA",
        "2001:db8:",
        "\u6771",
        JWT,
    ]
)


@settings(max_examples=100)
@given(text=st.lists(PARTS, max_size=40).map("".join))
def test_findings_do_not_overlap_and_each_is_found_alone(text: str) -> None:
    found = find(text)
    assert all(one.end <= other.begin for one, other in pairwise(found))
    for each in found:
        assert find(text[each.begin : each.end]) == [Finding(0, each.end - each.begin, each.kind)]


def test_a_mask_is_nothing_that_is_found() -> None:
    assert find(" ".join(MASKS.values())) == []


# megabytes of what: the dear ones are shorter
HOSTILE = {
    "1": 10,
    "a.": 10,
    "-----BEGIN RSA PRIVATE KEY-----": 10,
    "-----BEGIN PGP PRIVATE KEY BLOCK-----\nA-: ": 2,
    "eyJ": 2,
    "+(": 2,
    "1.2.": 2,
    "2001:": 2,
    "eyJ.": 2,
    "4111 ": 1,
    "sk-AKIA ": 1,
    "a@b.": 0.2,
    "@": 0.2,
}


@pytest.mark.parametrize("unit", HOSTILE)
def test_hostile_megabytes_are_examined_a_bounded_number_of_times(unit: str) -> None:
    text = unit * int(HOSTILE[unit] * 1_000_000 / len(unit))
    for windows in (emails.windows, numerals.windows, keys.windows):
        assert _examined(windows, text) <= 2 * len(text)
    assert find(text) == []


def _examined(windows: Callable[[str], Iterator[Window]], text: str) -> int:
    return sum(window.end - window.begin for window in windows(text))


@pytest.mark.parametrize(
    "pattern", [*numerals.PATTERNS, *emails.PATTERNS, *keys.PATTERNS], ids=lambda it: it.pattern[:20]
)
def test_a_pattern_looks_at_a_bounded_number_of_characters(pattern: re.Pattern[str]) -> None:
    assert parser.parse(pattern.pattern).getwidth()[1] <= keys.LONGEST
    assert _backtracks(parser.parse(pattern.pattern)) <= 16


def _backtracks(parsed: object) -> int:
    """The most ways in which the repeats of a pattern can divide a text: those that do not give back count as one."""
    ways = 1
    for code, argument in parsed:  # type: ignore[attr-defined]
        if code in (opcode.MAX_REPEAT, opcode.MIN_REPEAT):
            least, most, inner = argument
            ways *= (most - least + 1) * max(_backtracks(inner), 1)
        elif code is opcode.SUBPATTERN:
            ways *= _backtracks(argument[-1])
        elif code is opcode.BRANCH:
            ways *= sum(_backtracks(each) for each in argument[1])
    return ways
