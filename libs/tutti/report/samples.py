"""Samples of a model in its report: what is a prompt, what is its own, and what it had read word for word."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise

from tutti.client.plain import Plain
from tutti.report import passages

SHOWN_SPANS, SHOWN_HOLDERS = 3, 3


class Kind(StrEnum):
    """The origin of the characters of a sample."""

    PROMPT = "prompt"
    OWN = "own"
    READ = "read"


@dataclass(frozen=True)
class Piece:
    """Characters of one kind that follow each other."""

    kind: Kind
    text: str


@dataclass(frozen=True)
class Span:
    """A passage that stands in so many `places`; `holders`: documents that hold it, each with the steps that saw it."""

    text: str
    tokens: int
    places: int
    holders: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Sample:
    """`spans`: the longest passages; `words` stand where there are none, "" where nobody could say."""

    pieces: tuple[Piece, ...]
    spans: tuple[Span, ...]
    words: str


def samples(continuations: Sequence[Plain]) -> list[Sample]:
    """Continuations as `passages.continued` tells them, to be shown."""
    return [Sample(_pieces(each), _spans(each["passages"] or []), passages.nothing(each)) for each in continuations]


def visible(text: str) -> str:
    """Its lines, without characters that cannot be seen or turn what stands around them."""
    return "".join(each if each.isprintable() or each == "\n" else " " for each in text)


def _pieces(continuation: Plain) -> tuple[Piece, ...]:
    """The whole text, cut where its kind changes; of the prompt it does not matter that it was read."""
    data = f"{continuation['prompt']}{continuation['text']}".encode()
    own = len(continuation["prompt"].encode())
    found_read = continuation["passages"] or []
    read = [(_begin(data, max(each["begin"], own)), _begin(data, each["end"])) for each in found_read]
    cuts = sorted({0, own, len(data), *(end for span in read for end in span)})
    found: list[Piece] = []
    for begin, end in pairwise(cuts):
        inside = any(first <= begin and end <= last for first, last in read)
        kind = Kind.PROMPT if end <= own else Kind.READ if inside else Kind.OWN
        text = visible(data[begin:end].decode(errors="replace"))
        if found and found[-1].kind is kind:
            text = found.pop().text + text
        found.append(Piece(kind, text))
    return tuple(found)


def _begin(data: bytes, at: int) -> int:
    """The start of the character in which a token ended: tokens are bytes."""
    while at < len(data) and data[at] & 0xC0 == 0x80:
        at -= 1
    return at


def _spans(found: Sequence[Plain]) -> tuple[Span, ...]:
    return tuple(
        Span(
            each["text"],
            each["tokens"],
            each["count"],
            tuple(
                (holder["source"] or holder["document"], passages.seen(holder).strip())
                for holder in each["documents"][:SHOWN_HOLDERS]
            ),
        )
        for each in passages.longest(found, SHOWN_SPANS)
    )
