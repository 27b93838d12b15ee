"""Personal data: found, counted, and masked by a word that says what stood there.

Promises: one pass over a text and bounded work at each place, whatever the text; what is found does not overlap (a key
wins over an email, that over the address of a host, a card, a telephone). It finds forms, not meaning: names of people
and places are no part of it. The kernel (pii.c) tells at once of most texts that there is nothing to look for.
"""

from __future__ import annotations

import ctypes
from collections.abc import Collection, Iterator, Sequence
from enum import IntFlag
from functools import cache
from pathlib import Path

from tutti.corpus.texts import require_texts
from tutti.ingest.encoding.normalisation import utf8
from tutti.ingest.quality import emails, keys, numerals
from tutti.ingest.quality.findings import Finding, Kind, Window
from tutti.ingest.quality.rules import Keep, Rule
from tutti.native.arrays import pa
from tutti.native.native import Kernel, kernel

PII_VERSION = 3
MASKS = {kind: f"[{kind.value}]" for kind in Kind}
COLUMNS = {kind: f"pii_{kind.value}s" if kind is not Kind.ADDRESS else "pii_addresses" for kind in Kind}


@cache
def schema() -> pa.Schema:
    """Return the columns with the number of findings of each kind."""
    return pa.schema([pa.field(name, pa.int64(), nullable=False) for name in COLUMNS.values()])


NO_PII = tuple(Rule(f"no_{column}", column, None, Keep.AT_MOST, 0) for column in COLUMNS.values())
"""Rules that reject what holds any; a recipe names those that it wants."""

_PRECEDENCE = (Kind.KEY, Kind.EMAIL, Kind.ADDRESS, Kind.CARD, Kind.PHONE)


class Suspicion(IntFlag):
    """The kinds of personal data that a text may contain."""

    KEYS = 1
    NUMBERS = 2
    ADDRESSES = 4


_FORMS = b"".join(bytes([len(begins), least]) + begins.encode() for begins, (least, _) in keys.FORMS.items()) + b"\0"
_SOURCE = Path(__file__).with_suffix(".c")
_WINDOWS = 256


def native() -> Kernel:
    """The kernel, or why there is none; it costs time alone."""
    return kernel(_SOURCE)


def suspicions(text: str) -> Suspicion:
    """The kinds to search for: all if there is no kernel."""
    library = native().library
    if library is None:
        return Suspicion.KEYS | Suspicion.NUMBERS | Suspicion.ADDRESSES
    data = utf8(text)
    return Suspicion(library.suspicions(data, ctypes.c_int64(len(data)), _FORMS))


def number_windows(text: str) -> Iterator[Window]:
    """The windows of numerals.py that have digits enough: all where there is no kernel."""
    library = native().library
    if library is None:
        yield from numerals.windows(text)
        return
    data = utf8(text)
    room, at = (ctypes.c_int64 * (2 * _WINDOWS))(), ctypes.c_int64()
    behind = characters = 0  # bytes that are counted, and as how many characters
    while at.value < len(data):
        found = library.numbers(data, ctypes.c_int64(len(data)), ctypes.byref(at), room, _WINDOWS)
        for begin, end in zip(room[: 2 * found : 2], room[1 : 2 * found : 2], strict=True):
            characters += begin - behind if len(data) == len(text) else _characters(data[behind:begin])
            behind = begin
            yield Window(characters, characters + end - begin, characters)


def _characters(data: bytes) -> int:
    return len(data.decode("utf-8", "surrogatepass"))


def find(text: str) -> list[Finding]:
    """The findings in a text, in its order, none overlapping another."""
    found = list(_suspected(text, suspicions(text)))
    found.sort(key=lambda each: (each.begin, _PRECEDENCE.index(each.kind)))
    kept: list[Finding] = []
    for each in found:
        if not kept or each.begin >= kept[-1].end:
            kept.append(each)
            continue
        wins = _PRECEDENCE.index(each.kind) < _PRECEDENCE.index(kept[-1].kind)
        if wins or each.end > kept[-1].end:
            shorter = numerals.telephone(text, kept[-1].begin, each.begin)  # which took groups of what is behind it
            kept[-1:] = [shorter, each] if shorter else [each] if wins else kept[-1:]
    return kept


def _suspected(text: str, suspected: Suspicion) -> Iterator[Finding]:
    yield from emails.find(text)
    if Suspicion.NUMBERS in suspected:
        yield from numerals.find(text, number_windows(text))
    if Suspicion.ADDRESSES in suspected:
        yield from numerals.find_ipv6(text)
    if Suspicion.KEYS in suspected:
        yield from keys.find(text)
    yield from keys.find_private(text)


def masked(text: str, findings: Sequence[Finding], kinds: Collection[Kind] = tuple(Kind)) -> str:
    """The text with the findings of these kinds replaced by MASKS."""
    parts, at = [], 0
    for each in findings:
        if each.kind in kinds:
            parts += [text[at : each.begin], MASKS[each.kind]]
            at = each.end
    return "".join([*parts, text[at:]])


def inspect(texts: pa.Array, kinds: Collection[Kind] = tuple(Kind)) -> tuple[pa.Array, pa.RecordBatch]:
    """The texts with these kinds masked, of the type of `texts`, and one row of `schema` each: how many of every kind.

    Raises UnreadableTexts.
    """
    require_texts(texts)
    written, counts = [], {kind: [0] * len(texts) for kind in Kind}
    for row, text in enumerate(texts.to_pylist()):
        findings = find(text)
        for each in findings:
            counts[each.kind][row] += 1
        written.append(masked(text, findings, kinds))
    return pa.array(written, texts.type), pa.record_batch([counts[kind] for kind in COLUMNS], schema=schema())
