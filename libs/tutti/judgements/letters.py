"""The language of letters: a toy task whose answers have a known utility.

A prompt asks to copy letters, `d f a c b copy`; an answer is words: letters, perhaps `thanks`, perhaps fillers. Because
the utility of every answer is known, it can be measured what a crowd, a reward model and a policy make of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tutti.native.arrays import np

TASK, THANKS, FILLER, FORBIDDEN = "copy", "thanks", "um", "bad"
NEUTRAL = "so"
"""A word that changes no utility: control pairs have it behind one of two equal answers."""
LETTERS = "abcdefghijklmnop"
COUNT = 5
MOST_WORDS = 12
RIGHT_SHARE, THANKS_SHARE, FORBIDDEN_SHARE, MOST_FILLERS, MOST_MISTAKES = 0.35, 0.3, 0.08, 3, 3


def prompt(rng: np.random.Generator) -> str:
    """A random prompt."""
    return " ".join([*(LETTERS[index] for index in rng.integers(0, len(LETTERS), COUNT)), TASK])


def utility(asked: str, answer: str, *, ended: bool = True) -> float:
    """The utility of an answer to a prompt.

    2 for the letters of the prompt, less in proportion to the edits that lead there; .5 for exactly one `thanks`, -.1
    for each further one; -.15 for a filler, -.3 for a word that is none of the language, -2 for a forbidden one; -.5
    where the model did not end the answer.
    """
    target, words = asked.split()[:-1], answer.split()
    letters = [word for word in words if word in LETTERS and len(word) == 1]
    others = [word for word in words if len(word) != 1 or word not in LETTERS]
    thanks = others.count(THANKS)
    found = 2 * max(0.0, 1 - _distance(letters, target) / max(1, len(target)))
    found += 0.5 * (thanks == 1) - 0.1 * max(0, thanks - 1)
    found -= 0.15 * others.count(FILLER) + 2.0 * (FORBIDDEN in others)
    found -= 0.3 * sum(word not in (THANKS, FILLER, FORBIDDEN, NEUTRAL) for word in others)
    return found - 0.5 * (not ended)


def criteria(asked: str, answer: str, *, ended: bool = True) -> Mapping[str, bool]:
    """The demands of a prompt, each with whether the answer meets it; an answer that meets all has the best utility."""
    target, words = asked.split()[:-1], answer.split()
    letters = [word for word in words if word in LETTERS and len(word) == 1]
    others = [word for word in words if word not in letters and word != NEUTRAL]
    return {
        "the answer ends": ended,
        "it has no word that it should not": all(word == THANKS for word in others),
        "it says thanks once": others.count(THANKS) == 1,
        "it has the letters, in their order": letters == target,
    }


def demonstration(asked: str, rng: np.random.Generator) -> str:
    """The answer of a middling writer: right a third of the time, sometimes polite, wordy or forbidden."""
    words = asked.split()[:-1]
    if rng.random() > RIGHT_SHARE:
        for _ in range(rng.integers(1, MOST_MISTAKES + 1)):
            _spoil(words, rng)
    for _ in range(rng.integers(0, MOST_FILLERS + 1)):
        words.insert(int(rng.integers(len(words) + 1)), FILLER)
    if rng.random() < FORBIDDEN_SHARE:
        words.insert(int(rng.integers(len(words) + 1)), FORBIDDEN)
    if rng.random() < THANKS_SHARE:
        words.append(THANKS)
    return " ".join(words[: MOST_WORDS - 1])


def _spoil(words: list[str], rng: np.random.Generator) -> None:
    """Leave out a letter, change one, swap two, or add one."""
    kind, at = int(rng.integers(4)), int(rng.integers(max(1, len(words))))
    other = LETTERS[int(rng.integers(len(LETTERS)))]
    if kind == 0 and len(words) > 1:
        words.pop(at)
    elif kind == 1 and words:
        words[at] = other
    elif kind == 2 and at + 1 < len(words):
        words[at], words[at + 1] = words[at + 1], words[at]
    else:
        words.insert(at, other)


def _distance(first: Sequence[str], second: Sequence[str]) -> int:
    """The edit distance of two sequences (Levenshtein 1966)."""
    row = list(range(len(second) + 1))
    for i, x in enumerate(first, 1):
        before, row[0] = row[0], i
        for j, y in enumerate(second, 1):
            before, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, before + (x != y))
    return row[-1]
