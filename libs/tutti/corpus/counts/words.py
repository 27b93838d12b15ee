"""Words: the tokens of a text, after the simple part of Unicode's word boundaries (UAX 29, rules WB5 to WB12).

A *word* is a run of letters and numbers. An apostrophe, a full stop or a connector (`_`) belongs to it where it stands
between two of them; a comma does between two numbers. What extends a character (accents, joiners of zero width) belongs
to the word before it, and is nothing elsewhere. An ideograph of Han, and a letter of Hiragana, is a word by itself:
what is written without spaces has no other words without a dictionary. A *mark* is a run of one and the same other
character that is not a space. Words and marks are the *tokens*; characters are code points.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tutti.corpus.counts.characters import Class, class_of

IN_WORD = (Class.LETTER, Class.NUMBER)


@dataclass(frozen=True, slots=True)
class Token:
    """A word or a mark."""

    text: str
    is_word: bool
    is_alphabetic: bool  # at least one of its characters is a letter or an ideograph


def tokens(text: str) -> Iterator[Token]:
    """The tokens of a text, in its order."""
    at, end = 0, len(text)
    while at < end:
        begin, kind = at, class_of(text[at])
        at += 1
        if kind in (Class.SPACE, Class.EXTEND):
            continue
        if kind == Class.IDEOGRAPH:
            at = _extended(text, at)
            yield Token(text[begin:at], is_word=True, is_alphabetic=True)
        elif kind in IN_WORD:
            while at < end and (class_of(text[at]) in (*IN_WORD, Class.EXTEND) or _joins(text, at)):
                at += 1
            word = text[begin:at]
            yield Token(word, is_word=True, is_alphabetic=any(class_of(each) == Class.LETTER for each in word))
        else:
            while at < end and text[at] == text[begin]:
                at += 1
            yield Token(text[begin:at], is_word=False, is_alphabetic=False)


def _extended(text: str, at: int) -> int:
    while at < len(text) and class_of(text[at]) == Class.EXTEND:
        at += 1
    return at


def _joins(text: str, at: int) -> bool:
    """True if the character at `at`, directly after a part of a word, joins that word and its continuation."""
    if at + 1 == len(text):
        return False
    kind, following = class_of(text[at]), class_of(text[at + 1])
    if kind == Class.JOINER:
        return following in IN_WORD
    return kind == Class.THOUSANDS and class_of(text[at - 1]) == following == Class.NUMBER
