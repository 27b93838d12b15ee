"""The lexicon of harm: terms that count unless what stands near makes them harmless.

lexicon.toml holds the terms of each category, in English, German and Spanish, and the excuses: words of news, warnings,
medicine, teaching. Promises: a function of the text and that file; a text without a term costs no more than the
search for its features, however long the list.
"""

from __future__ import annotations

import functools
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import chain, pairwise
from pathlib import Path

from tutti.corpus.quality.features import STEM, having, of_pair, of_stem, of_word, words
from tutti.ingest.quality.rules import Keep, Rule
from tutti.native.arrays import np, npt, pa

LEXICON_VERSION = 2
SOURCE = Path(__file__).with_suffix(".toml")
CATEGORIES = ("adult", "dangerous_advice", "harassment", "scam", "spam")
COLUMNS = {category: f"harm_lexicon_{category}" for category in CATEGORIES}


@cache
def schema() -> pa.Schema:
    """Return the columns with the number of words of each category."""
    return pa.schema([pa.field(name, pa.int64(), nullable=False) for name in COLUMNS.values()])


MOST_SHARE = 0.01
COMMON = frozenset(("a", "back", "go", "i", "in", "into", "it", "of", "so", "that", "the", "to", "want", "you", "your"))
"""Two of these in a row stand in too many texts to tell which have a term."""

HARM_LEXICON = tuple(Rule(column, column, "words", Keep.AT_MOST, MOST_SHARE) for column in COLUMNS.values())
"""A document goes when more than one of a hundred of its words begins a term that counts."""


@dataclass(frozen=True)
class Term:
    """`words`, of which the last is a beginning if `open_ended`, of a category."""

    category: str
    words: tuple[str, ...]
    open_ended: bool

    @functools.cached_property
    def whole(self) -> frozenset[str]:
        """Words without which it stands nowhere."""
        return frozenset(self.words[:-1] if self.open_ended else self.words)

    def stands_at(self, text: Sequence[str], at: int) -> bool:
        found = text[at : at + len(self.words)]
        if len(found) < len(self.words) or tuple(found[:-1]) != self.words[:-1]:
            return False
        return found[-1].startswith(self.words[-1]) if self.open_ended else found[-1] == self.words[-1]


@dataclass(frozen=True, slots=True)
class Lexicon:
    """Terms by their first word, or, where that is open-ended, by its first STEM characters.

    `excuses`: of each category whole words, and beginnings.
    """

    window: int
    terms: dict[str, tuple[Term, ...]]
    beginnings: dict[str, tuple[Term, ...]]
    excuses: dict[str, tuple[frozenset[str], tuple[str, ...]]]

    def found(self, text: Sequence[str]) -> Iterator[tuple[int, Term]]:
        """The places of each term in the words of a text."""
        possible = self._possible(set(text))
        for at in [at for at, word in enumerate(text) if word in possible]:
            for term in possible[text[at]]:
                if term.stands_at(text, at):
                    yield at, term

    def _possible(self, words: set[str]) -> dict[str, list[Term]]:
        """By its first word each term that may stand in a text of these words."""
        found: dict[str, list[Term]] = {}
        begun = {word for word in words if word[:STEM] in self.beginnings}
        for word in begun | (words & self.terms.keys()):
            begin = (*self.terms.get(word, ()), *self.beginnings.get(word[:STEM], ()))
            if some := [term for term in begin if words.issuperset(term.whole)]:
                found[word] = some
        return found

    def excused(self, text: Sequence[str], at: int, term: Term) -> bool:
        """True if an excuse of its category is near a term, and outside of it."""
        whole, beginnings = self.excuses[term.category]
        end = at + len(term.words)
        near = (*text[max(0, at - self.window) : at], *text[end : end + self.window])
        return any(word in whole or word.startswith(beginnings) for word in near)


@functools.cache
def lexicon() -> Lexicon:
    """The terms of lexicon.toml."""
    held = tomllib.loads(SOURCE.read_text(encoding="utf-8"))
    terms: dict[str, tuple[Term, ...]] = {}
    beginnings: dict[str, tuple[Term, ...]] = {}
    excuses = {}
    for category, part in held["categories"].items():
        every = [word for name in part["excused_by"] for word in held["excuses"][name]]
        whole = frozenset(word for word in every if not word.endswith("*"))
        excuses[category] = whole, tuple(word[:-1] for word in every if word.endswith("*"))
        for written in dict.fromkeys(part["terms"]):
            if written.endswith("*") and len(words(written)[-1]) < STEM:
                raise ValueError(f"{SOURCE.name}: {written!r}; expected {STEM} characters or more before *")
            term = Term(category, tuple(words(written.removesuffix("*"))), written.endswith("*"))
            alone = term.open_ended and len(term.words) == 1
            known, key = (beginnings, term.words[0][:STEM]) if alone else (terms, term.words[0])
            known[key] = (*known.get(key, ()), term)
    return Lexicon(held["window"], terms, beginnings, excuses)


@dataclass(frozen=True, slots=True)
class Signs:
    """The features that a text must have to contain a term.

    `names`: uint64, of the features; a way that a term may stand needs those from needs[begins[k]] on, and of them
    rarest[k] is in the fewest texts: int64 each, places among the names.
    """

    names: npt.NDArray[np.uint64]
    needs: npt.NDArray[np.int64]
    begins: npt.NDArray[np.int64]
    rarest: npt.NDArray[np.int64]


@functools.cache
def _signs() -> Signs:
    names, needs, begins, rarest = dict[int, int](), list[int](), list[int](), list[int]()
    for term in chain.from_iterable((*lexicon().beginnings.values(), *lexicon().terms.values())):
        for way in _ways(term):
            begins.append(len(needs))
            needs += [names.setdefault(name, len(names)) for name in way]
            rarest.append(needs[begins[-1]])
    return Signs(np.array([*names], np.uint64), np.array(needs), np.array(begins), np.array(rarest))


def _ways(term: Term) -> Iterator[list[int]]:
    """The features that a text with this term has, one way or the other; the one that is in the fewest texts first."""
    last = term.words[-1]
    pairs = list(pairwise(term.words[:-1] if term.open_ended else term.words))[::-1]
    pairs.sort(key=lambda pair: (not COMMON.issuperset(pair), len("".join(pair))), reverse=True)
    others = [of_pair(*pair) for pair in pairs]
    if term.open_ended:
        yield from ([of_stem(last), *others], [of_word(last), *others])
    else:
        yield others or [of_word(last)]


def possible(texts: pa.Array) -> npt.NDArray[np.int64]:
    """int64: which texts may hold a term. Raises UnreadableTexts."""
    signs = _signs()
    found = having(texts, signs.names)
    some = np.flatnonzero(found[:, signs.rarest].any(axis=1))
    ways = np.logical_and.reduceat(found[some][:, signs.needs], signs.begins, axis=1)
    return some[ways.any(axis=1)]


def count(text: str) -> list[int]:
    """The number of terms of each of CATEGORIES that count."""
    held, found = lexicon(), words(text)
    row = dict.fromkeys(CATEGORIES, 0)
    for at, term in held.found(found):
        row[term.category] += not held.excused(found, at, term)
    return list(row.values())


def counts(texts: pa.Array) -> pa.RecordBatch:
    """One row of `schema` for each text of a string array. Raises UnreadableTexts."""
    rows = np.zeros((len(texts), len(CATEGORIES)), np.int64)
    for at in possible(texts).tolist():
        rows[at] = count(texts[at].as_py())
    return pa.record_batch([np.ascontiguousarray(column) for column in rows.T], schema=schema())
