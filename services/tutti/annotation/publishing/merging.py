"""Judgement sets of several campaigns as one, such as those of two rounds. Pure.

Promises: numbers of pairs and keys of annotators stay apart; a single set is left as it is. Who judged in two campaigns
counts as two annotators, since a set does not know users.
"""

from collections.abc import Sequence
from dataclasses import replace

from tutti.corpus.conversations.judgementset import JudgementLine, PairLine

Lines = tuple[Sequence[PairLine], Sequence[JudgementLine]]


def merged(sets: Sequence[Lines]) -> Lines:
    """Return the pairs and the judgements of all sets, in their order."""
    pairs, judgements = list[PairLine](), list[JudgementLine]()
    for place, (found, said) in enumerate(sets):
        offset = max((each.number for each in pairs), default=-1) + 1 if place else 0
        pairs += [replace(each, number=each.number + offset) for each in found]
        judgements += [replace(each, pair=each.pair + offset, annotator=key_of(each.annotator, place)) for each in said]
    return pairs, judgements


def key_of(annotator: str, place: int) -> str:
    """Return the key in the merged set of an annotator of the set at `place`, from 0; keys are letters and digits."""
    return f"{annotator}@{place + 1}" if place else annotator


def whose(key: str) -> tuple[str, int]:
    """Return the annotator that a key of a merged set stands for, and the place of the set."""
    annotator, _, place = key.partition("@")
    return annotator, int(place) - 1 if place else 0
