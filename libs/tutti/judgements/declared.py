"""Languages that a crowd declares: the utility of an answer is the sum of what its properties are worth.

Promises: a declaration is data, and no code of it runs; a property is measured in time in proportion to the answer, as
a number from 0 to 1.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from tutti.judgements.languages import Language

MOST_TERMS, MOST_WORTH, LONGEST_TEXT, MOST_WORDS = 32, 100.0, 200, 100_000
PROPERTIES = ("contains", "begins", "ends", "words", "prompt_words", "ended", "repeats")

Text = Annotated[str, Field(min_length=1, max_length=LONGEST_TEXT)]
Count = Annotated[int, Field(ge=0, le=MOST_WORDS)]


class Term(BaseModel):
    """A property of answers, and what an answer with it is worth.

    `contains`, `begins` and `ends` are texts in any case. `words` are the lowest and the highest number of words; an
    answer of another length has less of the property, in proportion to the distance. `prompt_words` is the share of the
    prompt's words that the answer has, `ended` whether the model ended the answer, and `repeats` the share of words
    that occurred before in the answer.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    worth: float = Field(ge=-MOST_WORTH, le=MOST_WORTH, allow_inf_nan=False)
    contains: Text | None = None
    begins: Text | None = None
    ends: Text | None = None
    words: tuple[Count, Count] | None = None
    prompt_words: Literal[True] | None = None
    ended: Literal[True] | None = None
    repeats: Literal[True] | None = None

    @model_validator(mode="after")
    def _one(self) -> Self:
        given = [name for name in PROPERTIES if getattr(self, name) is not None]
        if len(given) != 1:
            raise ValueError(f"{' and '.join(given) or 'no property'}; expected exactly one of {', '.join(PROPERTIES)}")
        if self.words is not None and self.words[0] > self.words[1]:
            raise ValueError(f"words is {self.words[0]} … {self.words[1]}; expected the lower number first")
        return self

    def measured(self, asked: str, words: Sequence[str], *, ended: bool) -> float:
        """The amount of the property that an answer with these words has, from 0 to 1."""
        text = " ".join(words).casefold()
        if self.contains is not None:
            return float(self.contains.casefold() in text)
        if self.begins is not None:
            return float(text.startswith(self.begins.casefold()))
        if self.ends is not None:
            return float(text.endswith(self.ends.casefold()))
        if self.words is not None:
            least, most = self.words
            distance, limit = max(least - len(words), len(words) - most, 0), least if len(words) < least else most
            return max(0.0, 1 - distance / max(1, limit))
        own = [_bare(word) for word in words]
        if self.prompt_words:
            wanted = {_bare(word) for word in asked.split()} - {""}
            return len(wanted & set(own)) / len(wanted) if wanted else 0.0
        if self.repeats:
            return 1 - len(set(own)) / len(own) if own else 0.0
        return float(ended)

    @property
    def demand(self) -> str:
        """The property as a demand on answers: the opposite of one that is worth less than nothing."""
        holds = self.worth >= 0
        for verb, text in (("contain", self.contains), ("begin with", self.begins), ("end with", self.ends)):
            if text is not None:
                return f'it {"must" if holds else "must not"} {verb} "{text}"'
        if self.words is not None:
            return f"its number of words is {'' if holds else 'not '}{self.words[0]} to {self.words[1]}"
        if self.prompt_words:
            return "it has all words of the prompt" if holds else "it has no word of the prompt"
        if self.repeats:
            return "it repeats all words" if holds else "it repeats no word"
        return "the answer ends" if holds else "the answer does not end"


class Declared(BaseModel):
    """A language as a sum of terms; `neutral` words, which control pairs can have as filler, are not looked at.

    `subjects` are those that one can ask about; they are named to people, and no measure looks at them.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    terms: tuple[Term, ...] = Field(min_length=1, max_length=MOST_TERMS)
    neutral: tuple[Text, ...] = Field(default=("so",), max_length=MOST_TERMS)
    subjects: tuple[Text, ...] = Field(default=(), max_length=MOST_TERMS)

    def utility(self, asked: str, answer: str, *, ended: bool = True) -> float:
        """The utility of an answer to a prompt: the sum over terms of worth times measure."""
        words = self._words(answer)
        return sum(each.worth * each.measured(asked, words, ended=ended) for each in self.terms)

    def criteria(self, asked: str, answer: str, *, ended: bool = True) -> Mapping[str, bool]:
        """The demands of the terms, each with whether the answer meets it."""
        words = self._words(answer)
        return {
            each.demand: each.measured(asked, words, ended=ended) == (1.0 if each.worth >= 0 else 0.0)
            for each in self.terms
        }

    @property
    def language(self) -> Language:
        unseen = "anything but the properties that its crowd declares"
        return Language(self.utility, self.criteria, unseen, self.subjects)

    def _words(self, answer: str) -> list[str]:
        return [word for word in answer.split() if word not in self.neutral]


def _bare(word: str) -> str:
    """A word without punctuation around it, in lower case."""
    return word.strip(".,:;!?'\"()").casefold()
