"""Simulated crowds: annotators of known character who judge by a known utility.

A judgement follows from (seed, annotator, pair), whatever else is judged and in whatever order. A crowd is read from
YAML; see `datasets/letters/crowd.yaml`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Self

import blake3
import yaml
from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag, ValidationError, model_validator

from tutti.judgements.declared import Declared
from tutti.judgements.formats import differ_in_format, formatting, plain
from tutti.judgements.languages import LANGUAGES, Language
from tutti.native.arrays import np

FIELDS = ("sharpness", "left", "length", "format")
TIE, MUCH = 0.25, 2.0
"""On the scale of the latent preference: below the first a pair is a tie, above the second one is much better."""


class InvalidCrowd(ValueError):
    """A crowd cannot be simulated as it is described."""


@dataclass(frozen=True)
class Annotator:
    """The first answer is preferred with probability sigmoid(sharpness (u1 - u2) + left side + length (l1 - l2) +
    format (f1 - f2)).

    `left` is added where the first answer is on the left and subtracted elsewhere; l1 and l2 are lengths in words, f1
    and f2 amounts of `formatting`.
    """

    sharpness: float
    left: float = 0.0
    length: float = 0.0
    format: float = 0.0


Range = Annotated[tuple[float, float], Field(description="the lowest and the highest value; uniform in between")]


class Character(BaseModel):
    """One kind of annotators: its share of the crowd, and the ranges that their numbers are drawn from."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    share: float = Field(gt=0, le=1)
    sharpness: Range
    left: Range = (0.0, 0.0)
    length: Range = (0.0, 0.0)
    format: Range = (0.0, 0.0)

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        for name in FIELDS:
            low, high = getattr(self, name)
            if not low <= high:
                raise ValueError(f"{name} is {low} … {high}; expected the lower value first")
        return self


MIXED = (
    Character(name="fair", share=0.6, sharpness=(1.5, 3.5), left=(-0.25, 0.25), length=(-0.03, 0.03)),
    Character(name="leaning left", share=0.15, sharpness=(0.8, 1.5), left=(1.0, 2.0)),
    Character(name="fond of length", share=0.15, sharpness=(0.6, 1.2), length=(0.25, 0.5)),
    Character(name="random", share=0.1, sharpness=(0.0, 0.0), left=(-0.5, 0.5)),
)
"""Most are fair, some lean to the left answer or to the longer one, a few press keys at random."""


class Crowd(BaseModel):
    """A crowd: the language by whose utility it judges, by name or declared, and its kinds of annotators."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    utility: Annotated[
        Annotated[Declared, Tag("declared")] | Annotated[str, Tag("name")],
        Discriminator(lambda value: "declared" if isinstance(value, dict | Declared) else "name"),
    ]
    kinds: tuple[Character, ...] = Field(default=MIXED, min_length=1)

    @model_validator(mode="after")
    def _known(self) -> Self:
        if isinstance(self.utility, str) and self.utility not in LANGUAGES:
            raise ValueError(
                f"utility {self.utility!r}; expected one of {', '.join(LANGUAGES)}, or `terms` of your own; people "
                f"judge instead without a simulated crowd"
            )
        if abs(sum(kind.share for kind in self.kinds) - 1) > 1e-6:
            raise ValueError(f"shares add up to {sum(kind.share for kind in self.kinds):g}; expected 1")
        return self

    @property
    def language(self) -> Language:
        """The language by whose utility the crowd judges."""
        return LANGUAGES[self.utility] if isinstance(self.utility, str) else self.utility.language

    @classmethod
    def read(cls, text: str) -> Self:
        """Read a crowd from YAML. Raises InvalidCrowd."""
        try:
            return cls.model_validate(yaml.safe_load(text))
        except yaml.YAMLError as error:
            raise InvalidCrowd(f"not YAML: {str(error).splitlines()[0]}") from error
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(map(str, first["loc"])) or "the crowd"
            raise InvalidCrowd(f"{where}: {first['msg'].removeprefix('Value error, ')}") from error

    @classmethod
    def load(cls, path: Path) -> Self:
        """Raises InvalidCrowd, OSError."""
        return cls.read(path.read_text())

    def annotators(self, count: int, seed: int) -> list[Annotator]:
        """The annotators of a crowd of `count`, kind after kind in proportion to their shares."""
        found: list[Annotator] = []
        total = 0.0
        for kind in self.kinds:
            total += kind.share
            while len(found) < round(total * count):
                rng = generator_of(seed, "annotator", len(found))
                found.append(Annotator(*(float(rng.uniform(*getattr(kind, name))) for name in FIELDS)))
        return found

    def score(
        self,
        annotator: Annotator,
        asked: str,
        answers: tuple[str, str],
        *,
        key: tuple[int, int, str],
        ended: tuple[bool, bool] = (True, True),
    ) -> int:
        """The score of a pair as shown, -2 (left much better) … 2 (right much better).

        `key` is (seed, annotator's index, pair's id); it alone decides the draw. Marks of formatting count by the
        leaning alone if answers differ in nothing else, or if a kind of the crowd leans to format.
        """
        judge, judged = self.language.utility, answers
        if differ_in_format(*answers) or any(any(kind.format) for kind in self.kinds):
            judged = (plain(answers[0]), plain(answers[1]))
        left, right = (judge(asked, answer, ended=end) for answer, end in zip(judged, ended, strict=True))
        lengths = [len(answer.split()) for answer in answers]
        mean = annotator.sharpness * (left - right) + annotator.left + annotator.length * (lengths[0] - lengths[1])
        if annotator.format:
            mean += annotator.format * (formatting(answers[0]) - formatting(answers[1]))
        uniform = float(generator_of(*key).uniform(1e-12, 1 - 1e-12))
        latent = mean + float(np.log(uniform / (1 - uniform)))
        strength = 0 if abs(latent) < TIE else 1 if abs(latent) < MUCH else 2
        return -strength if latent > 0 else strength

    def verdicts(
        self,
        people: Sequence[Annotator],
        chosen: Iterable[int],
        asked: str,
        answers: tuple[str, str],
        *,
        ended: tuple[bool, bool],
        rng: np.random.Generator,
        key: tuple[int, str],
    ) -> Iterator[tuple[int, bool, int]]:
        """Let the `chosen` of `people` judge a pair: who, whether the first answer was on the left, the score as shown.

        `rng` draws the order in which each sees the answers; `key` is (seed, pair's id).
        """
        seed, pair = key
        for who in chosen:
            is_left = bool(rng.integers(2))
            shown, ends = (answers, ended) if is_left else (answers[::-1], ended[::-1])
            yield who, is_left, self.score(people[who], asked, shown, key=(seed, who, pair), ended=ends)


def outcome(score: int, *, is_left: bool) -> float:
    """1 where the answer on this side won by a score as shown, 0 where it lost, .5 for a tie."""
    return 0.5 if score == 0 else float((score < 0) == is_left)


def generator_of(*key: object) -> np.random.Generator:
    """Return a generator of random numbers that follows from the key alone."""
    digest = blake3.blake3(repr(key).encode()).digest(16)
    return np.random.Generator(np.random.Philox(key=np.frombuffer(digest, np.uint64)))
