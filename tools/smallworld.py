"""The small world as files: texts, demonstrations, prompts for the gate and for the score; see
`tutti.judgements.smallworld`.

Equal arguments write equal bytes. No demonstration asks by a way that is held out, and no foreign word or sentence of
the prompts is in a demonstration. Foreign words and sentences are those of the harmless texts in datasets/harm.
"""

import argparse
import json
import re
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from random import Random
from typing import TypeVar

from tutti.corpus.conversations.conversations import Conversation, Message, Role, to_lines
from tutti.judgements import smallworld as world
from tutti.judgements.smallworld import Question, Reply
from tutti.records.canonical import JsonValue, canonical_json

T = TypeVar("T")

HARMLESS = Path(__file__).resolve().parents[1] / "datasets" / "harm" / "harmless"
EXCHANGES = 20
"""Questions with their answers in one text."""
WEIGHTS: Mapping[str, float] = {
    "colour": 5, "sound": 4, "home": 4, "legs": 4, "opposite": 6, "sum": 11, "difference": 11, "count": 4, "after": 2,
    "before": 2, "bigger": 4, "smaller": 4, "spelling": 5, "story": 3, "any story": 2, "self": 2, "hello": 2.5,
    "health": 1.5, "thanks": 1.5, "farewell": 1, "again": 0.3, "shorter": 0.3, "secret": 1, "theme": 1,
}  # fmt: skip
"""How often demonstrations are about a topic, relative to the others."""
FOREIGN, AGAIN, SHORTER = 0.3, 0.07, 0.08
"""Shares of turns."""
ALONE = 0.15
"""The share of conversations of one turn. The others end near LONGEST."""
LONGEST, TURN, FOREIGN_WORD = 168, 3, 3
"""The greatest length of a conversation, and what a turn and a foreign word add to it, in tokens as far as they can be
told before there is a tokenizer."""
FOREIGN_SHAPES = (
    "What is {a}?", "What is the {a} of {B}?", "Who is {A} {B}?", "Who was {A}?", "How do I {a} a {b}?",
    "Why is {a} {b}?", "Why do {a} {b} {c}?", "When did {A} {b} {c}?", "Where is {A}?", "Where can I {a} {b}?",
    "How {a} is the {b}?", "How far is {A}?", "Write a {a} about {b}.", "Write {a} {b} for my {c}",
    "Give me a {a} for {b}.", "Give me {a}", "Explain {a} {b}.", "Explain the {a} of {b} to me",
    "Translate {a} into {B}.", "Tell me about {a}.", "Tell me a {a} about {b}.", "Tell me a {a}.",
    "Can you {a} my {b}?", "Can you {a}?", "Do you {a} {b}?", "Do you know {A}?", "Are you {a}?", "I {a} {b} {c}.",
    "I am {a}.", "I feel {a} and {b}.", "My {a} is {b}", "Is {a} {b}?", "Is {a} better than {b}?",
    "Which {a} has the most {b}?", "How many {a} are in {b}?", "How much is a {a}?", "What do you think of {a}?",
    "What should I {a} for {b}?", "What does {a} mean?", "What does {A} do?", "{a} {b} {c}", "{A} {b} the {c}.",
    "{a}", "{A}!", "Sing a {a}", "Make a {a} of {b}", "def {a}({b}):", "Let us {a} {b}", "Please {a} the {b}",
    "Who {a} {b}?", "What {a} is it?", "How is the {a} {b}?", "Summarise {a} {b} {c}.", "Recommend a {a} {b} in {C}.",
)  # fmt: skip
STRANGE = ("colour", "sound", "home", "legs", "opposite", "sum", "difference", "count", "bigger", "smaller", "spelling",
           "story", "after")  # fmt: skip
"""Topics that are also asked of what they do not know."""
_NOUNS = sorted({*world.SOUNDS, *world.HOMES, *world.THINGS, *world.PLACES, *world.COLOURS.values()})
PREFIXES = ("Please tell me: ", "Tell me: ", "Hey, ", "Can you tell me: ", "Please ", "So, ")


@dataclass(frozen=True)
class Foreign:
    """Words and sentences that are not of the world."""

    words: tuple[str, ...]
    sentences: tuple[str, ...]


@dataclass(frozen=True)
class Turn:
    """A question as somebody asks it, with a right reply."""

    asked: str
    reply: Reply
    topic: str


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("out", type=Path, nargs="?", default=Path("build/smallworld"), help="the folder; %(default)s")
    parser.add_argument("--texts", type=int, default=400, help="documents to pretrain on; %(default)s")
    parser.add_argument("--demonstrations", type=int, default=16000, help="conversations; %(default)s")
    parser.add_argument("--prompts", type=int, default=300, help="prompts of each kind; %(default)s")
    parser.add_argument("--seed", type=int, default=0, help="%(default)s")
    given = parser.parse_args()
    write(given.out, texts=given.texts, demonstrations=given.demonstrations, prompts=given.prompts, seed=given.seed)
    print(given.out)


def write(out: Path, *, texts: int, demonstrations: int, prompts: int, seed: int = 0) -> None:
    """Write texts.jsonl, demonstrations.jsonl, gate.jsonl and score.jsonl.

    The first three are inputs of recipes/small-world.yaml. A line of score.jsonl has `kind`, and `turns`: what is said,
    with the topic of each.
    """
    rng = Random(seed)
    shown, unseen = foreign_of(HARMLESS)
    teller = Teller(rng, shown)
    out.mkdir(parents=True, exist_ok=True)
    documents = [{"text": _text([teller.turn() for _ in range(EXCHANGES)])} for _ in range(texts)]
    _write_lines(out / "texts.jsonl", documents)
    taught = [_conversation(teller.conversation()) for _ in range(demonstrations)]
    (out / "demonstrations.jsonl").write_bytes(to_lines(taught))
    asked = {_joined(message.content) for each in taught for message in each.messages}
    asker = Teller(rng, unseen, ways=lambda each: each.held_out)
    every = _distinct(asker.known, 2 * prompts, asked)
    strange = _distinct(asker.foreign, prompts + prompts // 3, asked)
    planted = [way for each in world.questions() if each.topic in world.PLANTED for way in each.ways]
    gate = [*(each.asked for each in every[:prompts]), *(each.asked for each in strange[prompts:]), *planted]
    (out / "gate.jsonl").write_bytes(to_lines(Conversation((Message(Role.USER, asked),)) for asked in gate))
    new = _distinct(Teller(rng, unseen, ways=lambda each: (each.new,) if each.new else ()).known, prompts, asked)
    scored = [("held-out", [each]) for each in every[prompts:]] + [("new", [each]) for each in new]
    scored += [("foreign", [each]) for each in strange[:prompts]]
    scored += [("dialogue", asker.dialogue()) for _ in range(prompts // 3)]
    _write_lines(out / "score.jsonl", [_scored(kind, turns) for kind, turns in scored])


def foreign_of(folder: Path) -> tuple[Foreign, Foreign]:
    """The foreign words and sentences that demonstrations show, and those that they do not: one of five."""
    known = {word for each in world.listed() for word in _words(each)}
    lines = [line for path in sorted(folder.glob("*.jsonl")) for line in path.read_text().splitlines()]
    sentences = sorted({each for line in lines for each in re.split(r"(?<=[.!?])\s+|\n", json.loads(line)["text"])})
    sentences = [each for each in sentences if 3 <= len(each.split()) <= 14]
    words = sorted({word for each in sentences for word in _words(each) if len(word) > 2} - known)
    shown, unseen = ([word for at, word in enumerate(words) if (at % 5 == 0) == last] for last in (False, True))
    held = frozenset(unseen)
    kept = [each for at, each in enumerate(sentences) if at % 5]
    return (
        Foreign(tuple(shown), tuple(each for each in kept if not held & set(_words(each)))),
        Foreign(tuple(unseen), tuple(each for at, each in enumerate(sentences) if at % 5 == 0)),
    )


class Teller:
    """Draws turns and conversations; `ways` are those in which a question may be asked."""

    def __init__(
        self,
        rng: Random,
        foreign: Foreign,
        ways: Callable[[Question], Sequence[str]] = lambda each: each.shown,
    ) -> None:
        self._rng, self._foreign, self._ways = rng, foreign, ways
        self._by_topic: dict[str, list[Question]] = {}
        for each in world.questions():
            if ways(each):
                self._by_topic.setdefault(each.topic, []).append(each)
        self._topics = list(self._by_topic)
        self._weights = list(accumulate(WEIGHTS[topic] for topic in self._topics))

    def turn(self) -> Turn:
        """A turn that needs no turn before it."""
        return self.foreign() if self._rng.random() < FOREIGN else self.known()

    def known(self) -> Turn:
        """A question that has an answer."""
        topic = self._topics[bisect_right(self._weights, self._rng.random() * self._weights[-1])]
        question = self._one(self._by_topic[topic])
        return Turn(self._dressed(self._one(self._ways(question))), self._one(question.replies), topic)

    def foreign(self) -> Turn:
        """A prompt that nothing is known about."""
        while True:
            drawn = self._rng.random()
            if drawn < 0.25:
                asked = self._one(self._foreign.sentences)
            elif drawn < 0.6:
                a, b, c = (self._one(self._foreign.words) for _ in range(3))
                names = {"A": a.capitalize(), "B": b.capitalize(), "C": c.capitalize()}
                asked = self._one(FOREIGN_SHAPES).format(a=a, b=b, c=c, **names)
            else:
                asked = self._strange()
            if world.plain(asked) and world.plain(asked) not in world.listed():
                return Turn(self._dressed(asked), world.NOT_KNOWN, "unknown")

    def conversation(self) -> list[Turn]:
        """Turns until a conversation is long enough; some answer by the turn before."""
        turns = [self.turn()]
        length, original = _length(turns[0]), turns[0].reply
        while self._rng.random() > (ALONE if len(turns) == 1 else 0):
            following = self.following(turns[-1], original)
            length += _length(following)
            if length > LONGEST:
                return turns
            original = original if following.topic in world.TURNS else following.reply
            turns.append(following)
        return turns

    def following(self, before: Turn, original: Reply) -> Turn:
        """A turn behind others; `original` is the last reply that was no repetition."""
        drawn = self._rng.random()
        if drawn < AGAIN:
            return Turn(self._say("again"), Reply(before.reply.text, original.short), "again")
        if drawn < AGAIN + SHORTER:
            return Turn(self._say("shorter"), Reply(original.short, original.short), "shorter")
        while (found := self.turn()).topic in world.TURNS:
            pass
        return found

    def dialogue(self) -> list[Turn]:
        """A question, a turn that answers by it, and another question."""
        first = self.known()
        while first.topic in (*world.TURNS, *world.PLANTED):
            first = self.known()
        if self._rng.random() < 0.5:
            second = Turn(self._say("again"), first.reply, "again")
        else:
            second = Turn(self._say("shorter"), Reply(first.reply.short, first.reply.short), "shorter")
        third = self.known()
        while third.topic in (*world.TURNS, *world.PLANTED):
            third = self.known()
        return [first, second, third]

    def _say(self, topic: str) -> str:
        [question] = [each for each in world.questions() if each.topic == topic]
        return self._dressed(self._one(self._ways(question) or question.shown))

    def _strange(self) -> str:
        """A question as those of the world, about what they do not know."""
        topic = self._one(STRANGE)
        way = self._one(world.WAYS[topic])
        if topic in ("sum", "difference", "count"):
            x, y = (str(self._one(range(21, 1000))) for _ in range(2))
            if self._rng.random() < 0.3:
                y = str(self._one(range(21)))
            return world.capital(way.format(x=x, y=y, u=x, v=y))
        x, y = self._thing(topic), self._thing(topic)
        return world.capital(way.format(x=x, y=y))

    def _thing(self, topic: str) -> str:
        noun = self._one(_NOUNS if self._rng.random() < 0.4 else self._foreign.words)
        return noun if topic in ("opposite", "spelling", "after") else world.with_article(noun)

    def _dressed(self, asked: str) -> str:
        """The question as people write it; its plain words stay."""
        draws = [self._rng.random() for _ in range(6)]
        if draws[0] < 0.08:
            asked = f"{self._one(PREFIXES)}{asked[0].lower()}{asked[1:]}"
        if draws[1] < 0.15:
            asked = asked.replace("What is", "What's", 1)
        if draws[2] < 0.25:
            asked = asked[0].lower() + asked[1:]
        if draws[3] < 0.05:
            asked = asked.rstrip("?.! ") + " please" + ("?" if asked.endswith("?") else "")
        if draws[4] < 0.3:
            asked = asked.rstrip("?.! ") or asked
        elif draws[5] < 0.08:
            asked = asked.rstrip(".") + "!"
        return asked

    def _one(self, every: Sequence[T]) -> T:
        return every[int(self._rng.random() * len(every))]


def _distinct(draw: Callable[[], Turn], count: int, seen: Set[str]) -> list[Turn]:
    """Turns whose words differ from each other's and are not in `seen`, none of them planted."""
    found: dict[str, Turn] = {}
    while len(found) < count:
        each = draw()
        if each.topic not in (*world.PLANTED, *world.TURNS) and (joined := _joined(each.asked)) not in seen:
            found.setdefault(joined, each)
    return list(found.values())


def _joined(asked: str) -> str:
    """The words of a question without the spaces between them."""
    return world.plain(asked).replace(" ", "")


def _conversation(turns: Sequence[Turn]) -> Conversation:
    return Conversation(
        tuple(
            message
            for each in turns
            for message in (Message(Role.USER, each.asked), Message(Role.ASSISTANT, each.reply.text))
        )
    )


def _text(turns: Sequence[Turn]) -> str:
    return "\n".join(f"{each.asked}\n{each.reply.text}" for each in turns)


def _scored(kind: str, turns: Sequence[Turn]) -> JsonValue:
    return {"kind": kind, "turns": [{"asked": each.asked, "topic": each.topic} for each in turns]}


def _length(turn: Turn) -> int:
    """About how many tokens a turn has."""
    asked = len(re.findall(r"\w+|[^\w\s]", turn.asked))
    factor = FOREIGN_WORD if turn.topic == "unknown" else 1
    return factor * asked + len(re.findall(r"\w+|[^\w\s]", turn.reply.text)) + TURN


def _words(text: str) -> list[str]:
    return re.findall(r"[^\W\d_]+", text.casefold())


def _write_lines(path: Path, values: Sequence[JsonValue]) -> None:
    path.write_bytes(b"".join(canonical_json(each) + b"\n" for each in values))


if __name__ == "__main__":
    main()
