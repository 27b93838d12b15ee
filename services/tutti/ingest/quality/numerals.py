"""Telephone numbers, payment cards and addresses of hosts: what is written in digits.

*Cards*: 13 to 19 digits, together or in the groups that are printed on them, of an issuer's range and length (ISO/IEC
7812) and with Luhn's check digit. *Telephones*: `+` and 7 to 15 digits (ITU E.164), or the North American form with its
area code, with spaces alone where no number stands beside it; a national form without either is no finding, nor are the
numbers kept for fiction (555-0100 to 0199). Where more numbers follow, a telephone takes all groups that fit into 15
digits: how long it is only its country knows.
*Addresses*: IPv4 in four decimal parts and IPv6 of the range 2000::/3, unless no site of the public web has them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from tutti.ingest.quality.findings import Finding, Kind, Window
from tutti.ingest.ranges import is_public

_RUN = re.compile(r"[0-9+(][0-9 ().+\-]{6,}+")
_IPV6 = re.compile(r"[23][0-9A-Fa-f]{3}+:[0-9A-Fa-f:.]{2,40}+")

_CARD = re.compile(
    r"(?<![0-9A-Za-z])(?:[0-9]{13,19}+|[0-9]{4}([ \-])[0-9]{4}\1[0-9]{4}\1[0-9]{4}(?:\1[0-9]{3}(?![0-9A-Za-z]))?+"
    r"|[0-9]{4}([ \-])[0-9]{6}\2[0-9]{4,5}+)(?![0-9A-Za-z])"
)
_GROUP, _FOUR_GROUPS = 4, 19  # characters of a card that is written in groups
_OCTET = r"(?>25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])"
_IPV4 = re.compile(rf"(?<![0-9A-Za-z.]){_OCTET}\.{_OCTET}\.{_OCTET}\.{_OCTET}(?![0-9A-Za-z]|\.[0-9])")
_INTERNATIONAL = re.compile(r"(?<![0-9A-Za-z+])\+[1-9](?:[ .()\-]{0,3}+[0-9]){6,14}+")
_NORTH_AMERICAN = re.compile(
    r"(?<![0-9A-Za-z.+\-])(?:(?:1[ .\-])?+(?:\([2-9][0-9]{2}\)[ ]?+|[2-9][0-9]{2}[ .\-])[2-9][0-9]{2}[.\-][0-9]{4}"
    r"|(?:1[ ])?+\([2-9][0-9]{2}\)[ ]?+[2-9][0-9]{2}[ ][0-9]{4}"
    r"|(?<![0-9][ ])(?:1[ ])?+[2-9][0-9]{2}[ ][2-9][0-9]{2}[ ][0-9]{4}(?![ ][0-9]))"
    r"(?![0-9A-Za-z])"
)
_DIGITS = frozenset("0123456789")
_IN_GROUP = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789")
_FICTION = re.compile(r"5550?1[0-9][0-9]\Z")
PATTERNS = (_IPV6, _CARD, _IPV4, _INTERNATIONAL, _NORTH_AMERICAN)
"""Each looks at a bounded number of characters from where it begins."""


def windows(text: str) -> Iterator[Window]:
    """Runs of digits and what stands between them in numbers; no two overlap."""
    for run in _RUN.finditer(text):
        yield Window(run.start(), run.end(), run.start())


def find(text: str, among: Iterable[Window] | None = None) -> Iterator[Finding]:
    """The numbers of a text but IPv6; those of one kind in its order, none of one kind overlapping another.

    `among`: the windows in which any may be, if that is known.
    """
    for window in windows(text) if among is None else among:
        end = min(window.end + 2, len(text))  # what stands behind decides, too
        yield from _cards(text, window.begin, end)
        for address in _IPV4.finditer(text, window.begin, end):
            if is_public(address[0]):
                yield Finding(address.start(), address.end(), Kind.ADDRESS)
        for written in _INTERNATIONAL.finditer(text, window.begin, end):
            if (phone := telephone(text, written.start(), written.end())) is not None:
                yield phone
        for written in _NORTH_AMERICAN.finditer(text, window.begin, end):
            if not _is_fiction(written[0]):
                yield Finding(written.start(), written.end(), Kind.PHONE)


def telephone(text: str, begin: int, limit: int) -> Finding | None:
    """The longest international number that begins here and ends at `limit` or before, with a group of digits.

    Of North America it has 11 digits, where a group ends with them.
    """
    written = _INTERNATIONAL.match(text, begin, limit)
    if written is None:
        return None
    ends, digits = dict[int, int](), 0  # by how many digits stand before
    for at in range(begin + 1, written.end()):
        if text[at] in _DIGITS:
            digits += 1
            if digits >= 7 and text[at + 1 : at + 2] not in _IN_GROUP:
                ends[digits] = at + 1
    if not ends:
        return None
    end = ends[11] if text[begin + 1] == "1" and 11 in ends else ends[max(ends)]
    return None if _is_fiction(text[begin:end]) else Finding(begin, end, Kind.PHONE)


def _cards(text: str, begin: int, end: int) -> Iterator[Finding]:
    """Those that begin with a group of digits; a group behind may belong to them, or be another number."""
    while (written := _CARD.search(text, begin, end)) is not None:
        begin = written.start() + _GROUP
        for each in dict.fromkeys((written[0], written[0][:_FOUR_GROUPS])):
            if is_card(each.replace(" ", "").replace("-", "")):
                begin = written.start() + len(each)
                yield Finding(written.start(), begin, Kind.CARD)
                break


def find_ipv6(text: str) -> Iterator[Finding]:
    """The addresses of hosts in IPv6, in their order."""
    for address in _IPV6.finditer(text):
        written = address[0].rstrip(".:") if not address[0].endswith("::") else address[0]
        if (address.start() == 0 or not _in_word(text[address.start() - 1])) and is_public(written):
            yield Finding(address.start(), address.start() + len(written), Kind.ADDRESS)


def is_card(digits: str) -> bool:
    """True if an issuer uses numbers with this prefix and length, and the check digit is right."""
    return len(digits) in _lengths(digits) and luhn(digits)


def luhn(digits: str) -> bool:
    """True if the last digit is Luhn's check digit of the others (ISO/IEC 7812-1, annex B)."""
    doubled = [int(digit) * 2 for digit in digits[-2::-2]]
    total = sum(map(int, digits[-1::-2])) + sum(each - 9 if each > 9 else each for each in doubled)
    return total % 10 == 0


def _lengths(digits: str) -> tuple[int, ...]:
    two, four = int(digits[:2]), int(digits[:4])
    if digits[0] == "4":
        return (13, 16, 19)
    if 51 <= two <= 55 or 2221 <= four <= 2720:
        return (16,)
    if two in (34, 37):
        return (15,)
    if two in (30, 36, 38, 39):
        return (14, 16, 19)
    if 3528 <= four <= 3589 or two in (62, 64, 65) or four == 6011:
        return (16, 17, 18, 19)
    return (13, 14, 15, 16, 17, 18, 19) if two in (50, *range(56, 60), 63, 67) else ()


def _is_fiction(written: str) -> bool:
    digits = re.sub(r"[^0-9]", "", written)
    return _FICTION.search(digits) is not None and len(digits) in (10, 11)


def _in_word(character: str) -> bool:
    return character.isalnum() or character in ":."
