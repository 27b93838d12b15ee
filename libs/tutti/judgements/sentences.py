"""The language of sentences: one sentence of a given length that uses a given word.

A prompt is `Use queue in 7 words`; the best answer is one sentence of seven words, such as `Return the number of items
in queue.` The utility looks at the form alone: it cannot tell whether a sentence is true, or even makes sense. Unlike
the letters, the answers are made of ordinary text, so a model needs a base that has read some.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from tutti.native.arrays import np

NEUTRAL = "so"
"""A word that changes no utility: control pairs have it behind one of two equal answers."""
FEWEST, MOST = 4, 10
"""The range of lengths that are asked for, in words."""
LONG = 4
"""The least letters of a word that a prompt can ask for, and that a good answer has once."""
RIGHT_SHARE, MOST_SLIPS, MOST_MISSING = 0.35, 2, 3
_PROMPT = re.compile(r"Use (\S+) in (\d{1,3}) words")
_STOPS = ".!?"


def prompt(word: str, count: int) -> str:
    """The prompt for a sentence of `count` words that uses `word`."""
    return f"Use {word} in {count} words"


def utility(asked: str, answer: str, *, ended: bool = True) -> float:
    """The utility of an answer to a prompt; of any other prompt, that of the form.

    1 for the word of the prompt; 1 for its length, and .25 less for each word too few or too many, at least 0; .5 for
    one sentence, which begins with a capital letter and has one full stop, at its end; -.3 for each word of four
    letters or more that repeats one before it; -.5 where the model did not end the answer.
    """
    target, count = _asked(asked)
    words = _words(answer)
    found = float(_has(words, target))
    found += max(0.0, 1 - 0.25 * abs(len(words) - count)) if count else 0.0
    found += 0.5 * _is_sentence(words)
    return found - 0.3 * _repeats(words) - 0.5 * (not ended)


def criteria(asked: str, answer: str, *, ended: bool = True) -> Mapping[str, bool]:
    """The demands of a prompt, each with whether the answer meets it; an answer that meets all has the best utility."""
    target, count = _asked(asked)
    words = _words(answer)
    return {
        "the answer ends": ended,
        "it is one sentence": _is_sentence(words),
        "it repeats no long word": not _repeats(words),
        "it uses the word": _has(words, target),
        "it has the length, give or take a word": abs(len(words) - count) <= 1,
        "it has exactly the length": len(words) == count,
    }


def demonstration(
    sentence: str, word: str, others: Sequence[str], rng: np.random.Generator
) -> tuple[tuple[str, int], str]:
    """The word and the length that a middling writer was asked for, and the answer, which is made of `sentence`.

    `word` is one of its words, `others` words that others ask for. A third of the answers are right; the others lack
    the word, have another length, are no sentence, or repeat a word.
    """
    words = sentence.split()
    count = len(words)
    if rng.random() > RIGHT_SHARE:
        for _ in range(rng.integers(1, MOST_SLIPS + 1)):
            kind = int(rng.integers(4))
            if kind == 0:
                word = others[int(rng.integers(len(others)))]
            elif kind == 1:
                count += int(rng.integers(1, MOST_MISSING + 1)) * (1 if rng.random() < 0.5 else -1)
            elif kind == 2:
                words = [words[0].lower(), *words[1:-1], words[-1].rstrip(_STOPS)]
            else:
                at = int(rng.integers(len(words)))
                words.insert(at, words[at].rstrip(_STOPS))
    return (word, min(MOST, max(FEWEST, count))), " ".join(words)


def _asked(asked: str) -> tuple[str, int]:
    """The word and the length of a prompt; nothing of any other text."""
    found = _PROMPT.fullmatch(asked.strip())
    return (found[1], int(found[2])) if found else ("", 0)


def _words(answer: str) -> list[str]:
    return [word for word in answer.split() if word != NEUTRAL]


def _has(words: Sequence[str], target: str) -> bool:
    return bool(target) and target.lower() in map(_bare, words)


def _bare(word: str) -> str:
    return word.strip(".,:;!?'\"()").lower()


def _is_sentence(words: Sequence[str]) -> bool:
    text = " ".join(words)
    return text[:1].isupper() and text.endswith(".") and sum(text.count(stop) for stop in _STOPS) == 1


def _repeats(words: Sequence[str]) -> int:
    long = [bare for word in words if len(bare := _bare(word)) >= LONG]
    return len(long) - len(set(long))
