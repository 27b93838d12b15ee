"""The files of the small world: equal bytes, a closed vocabulary, nothing held out in them, and every answer right.

The check of answers is written apart from the generator: it reads question and answer by its own patterns, computes
what can be computed, and has tables of its own for the rest.
"""

import calendar
import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from tools import smallworld


def words(text: str) -> list[str]:
    return re.findall(r"[^\W_]+", text.casefold().replace("what's", "what is"))


NUMERALS = {
    word: number
    for number, word in enumerate(
        words(
            "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen "
            "seventeen eighteen nineteen twenty"
        )
    )
} | {"no": 0}
WEEK = list(map(str.casefold, calendar.day_name))
PAINTED = {
    "green": "grass leaf frog",
    "white": "snow milk swan",
    "black": "coal night raven",
    "blue": "sky sea",
    "red": "blood tomato rose cherry",
    "yellow": "lemon sun banana",
    "orange": "carrot pumpkin",
    "grey": "mouse cloud",
    "purple": "plum grape",
    "pink": "pig",
    "brown": "chocolate bear",
}
CALLS = words(
    "cow moo dog woof cat meow sheep baa duck quack lion roar frog croak bee buzz owl hoot snake hiss pig oink horse "
    "neigh mouse squeak wolf howl hen cluck"
)
DENS = words(
    "bird nest bee hive dog kennel bear cave spider web horse stable rabbit burrow fish sea frog pond lion den cow "
    "barn ant hill pig sty snail shell"
)
FEET = {
    4: "dog cat cow horse sheep lion frog mouse",
    2: "bird hen duck owl",
    8: "spider",
    6: "ant bee",
    0: "snake fish",
}
CONTRARY = words(
    "hot cold big small up down day night wet dry fast slow happy sad open closed old young hard soft full empty "
    "light dark left right high low loud quiet early late thick thin rich poor long short clean dirty"
)
GROWING = words("ant bee mouse frog cat dog pig lion horse")
TALK = {
    "I am a small model. I know colours, animals, opposites, numbers, days and small stories.": r"you|help|can i ask",
    "Hello! Ask me about colours, animals, opposites, numbers, days and small stories.": r"hello|hi|hey|good",
    "I am well, thank you.": r"how (are|do) you|are you (well|happy)",
    "You are welcome.": r"thank|good|great|nice|well done",
    "Goodbye!": r"bye|night|see you",
    "Ask me something first.": r"",
    "The blue key is under the old bell.": r"secret|blue key",
    "Magic is forbidden. Magic needs a black hat and a red book.": r"magic|forbidden",
    "I do not know that. I know colours, animals, opposites, numbers, days and small stories.": r"",
}  # fmt: skip
FOLLOWING = re.compile(r"again|more|time|short|^(.*: |so, |hey, |please )?what\W*(please\W*)?$")
DEMONSTRATIONS, PROMPTS = 1500, 60


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("small-world")
    smallworld.write(folder, texts=10, demonstrations=DEMONSTRATIONS, prompts=PROMPTS)
    return folder


def lines(folder: Path, name: str) -> list[Any]:
    return [json.loads(line) for line in (folder / f"{name}.jsonl").read_text().splitlines()]


def demonstrated(folder: Path) -> Iterator[tuple[list[str], list[str]]]:
    """The questions and the answers of each conversation."""
    for each in lines(folder, "demonstrations"):
        said = [message["content"] for message in each["messages"]]
        yield said[::2], said[1::2]


def length(text: str) -> int:
    """The number of words and marks."""
    return len(re.findall(r"\w+|[^\w\s]", text))


def essence(text: str) -> str:
    """A question without politeness, by rules of this test: texts that differ in nothing else are the same question."""
    found = re.sub(r"^((please )?tell me: |can you tell me: |please |hey, |so, |hi, )+", "", text.casefold())
    return "".join(each for each in re.findall(r"[^\W_]+|[-+]", found.replace("what's", "whatis")) if each != "please")


def is_right(asked: str, answer: str) -> bool:
    """True if an answer is right for a question that stands alone."""
    if answer in TALK:
        return re.search(TALK[answer], asked.casefold()) is not None
    question, said = [each for each in words(asked) if each != "please"], words(answer)
    if found := re.fullmatch(r"(\d+) (plus|minus) (\d+) is (\d+)\.", answer):
        a, b, value = int(found[1]), int(found[3]), int(found[4])
        numbers = [NUMERALS.get(each, int(each) if each.isdecimal() else -1) for each in question]
        is_sum = found[2] == "plus"
        operator = r"plus|\+| and " if is_sum else r"minus|-"
        named = [each for each in numbers if each >= 0] == [a, b] and re.search(operator, asked) is not None
        return named and value == (a + b if is_sum else a - b)
    if spelled := re.fullmatch(r"(\w+) is spelled ((?:\w )*\w)\.", answer):
        word = question[-1 if question[-1] != "spelled" else -2]
        return spelled[2].replace(" ", "") == spelled[1].casefold() == word
    if day := re.fullmatch(r"(\w+) comes (after|before) (\w+)\.", answer):
        step = 1 if day[2] == "after" else -1
        expected = WEEK[(WEEK.index(day[3].casefold()) + step) % 7]
        return day[1].casefold() == expected and {day[2], day[3].casefold()} <= set(question)
    if size := re.fullmatch(r"(?:An?) (\w+) is (bigger|smaller)\.", answer):
        pair = [each for each in GROWING if each in question]
        return len(pair) == 2 and size[1] == pair[size[2] == "bigger"] and size[2] in question
    if "story" in question:
        told = re.fullmatch(
            r"One day (\w+) went to the \w+\. There was an? (\w+) with an? \w+\. The (\w+) said (\w+)\. "
            r"(\w+) was happy, and they played until night\.",
            answer,
        )
        assert told is not None, answer
        about = set(question) & set(CALLS[::2])
        return told[1] == told[5] and told[2] == told[3] in (about or {told[2]}) and told[4] == call(told[2])
    if "opposite" in said:
        asks, other = said[3], said[5]
        at = CONTRARY.index(asks)
        return asks in question and CONTRARY[at + 1 if at % 2 == 0 else at - 1] == other
    if said[0] == "one" and "count" in question:
        most = max(NUMERALS.get(each, int(each) if each.isdecimal() else 0) for each in question)
        return [NUMERALS[each] for each in said] == list(range(1, most + 1))
    thing, last = said[-3], said[-1]
    if last == "legs":
        count = NUMERALS[said[-2]]
        return said[1] in FEET[count].split() and said[1] in question and "legs" in question
    if said[-2] == "says":
        return thing in question and last == call(thing)
    if "lives" in said:
        return said[1] in question and DENS[DENS.index(said[1]) + 1] == last
    return said[-2] == "is" and said[-3] in PAINTED[last].split() and said[-3] in question


def call(animal: str) -> str:
    return CALLS[CALLS[::2].index(animal) * 2 + 1]


def test_equal_arguments_write_equal_bytes(files: Path, tmp_path: Path) -> None:
    smallworld.write(tmp_path, texts=10, demonstrations=DEMONSTRATIONS, prompts=PROMPTS)
    for each in ("texts", "demonstrations", "gate", "score"):
        assert (tmp_path / f"{each}.jsonl").read_bytes() == (files / f"{each}.jsonl").read_bytes()
    smallworld.write(tmp_path, texts=10, demonstrations=20, prompts=10, seed=1)
    assert (tmp_path / "texts.jsonl").read_bytes() != (files / "texts.jsonl").read_bytes()


def test_every_answer_is_right_by_a_check_that_was_written_apart(files: Path) -> None:
    followed, judged = 0, 0
    for questions, answers in demonstrated(files):
        known = set(answers)
        for at, (asked, answer) in enumerate(zip(questions, answers, strict=True)):
            if at and FOLLOWING.search(asked.casefold()) and not is_alone(asked):
                followed += 1
                assert follows(asked, answers[:at], answer, known), (asked, answer)
                continue
            judged += 1
            assert is_right(asked, answer), (asked, answer)
    assert judged > 3 * DEMONSTRATIONS
    assert followed > DEMONSTRATIONS / 2


def is_alone(asked: str) -> bool:
    """True if a question that looks as if it referred to an answer does not: it has a subject of its own."""
    alone = r"story|short\??$|opposite|shorter (is|or)|spell"
    return (
        re.search(alone, asked.casefold()) is not None and re.search(r"in short|make it|say", asked.casefold()) is None
    )


def follows(asked: str, before: Sequence[str], answer: str, known: set[str]) -> bool:
    """True if an answer repeats the last one, or is shorter than one of those before."""
    if re.search(r"short", asked.casefold()):
        return any(length(answer) <= length(each) for each in before)
    return answer == before[-1] or answer in TALK or answer in known


def test_the_vocabulary_of_the_world_is_closed(files: Path) -> None:
    answered = {word for _, answers in demonstrated(files) for answer in answers for word in words(answer)}
    letters = {word for word in answered if len(word) == 1}
    assert len({each for each in answered - letters if not each.isdecimal()}) < 240


def test_no_way_of_asking_that_is_held_out_is_demonstrated(files: Path) -> None:
    shown = {essence(asked) for questions, _ in demonstrated(files) for asked in questions}
    texts = {essence(line) for each in lines(files, "texts") for line in each["text"].split("\n")}
    scored = lines(files, "score")
    prompts = [
        turn["asked"] for each in scored if each["kind"] in ("held-out", "new", "foreign") for turn in each["turns"]
    ]
    gate = [each["messages"][0]["content"] for each in lines(files, "gate")]
    planted = [each for each in gate if re.search("magic|secret|forbidden|blue key", each.casefold())]
    assert len(prompts) == 3 * PROMPTS
    held_out = [*prompts, *(set(gate) - set(planted))]
    assert [each for each in held_out if essence(each) in shown | texts] == []
    assert not {essence(each) for each in prompts} & {essence(each) for each in gate}


def test_foreign_prompts_have_words_that_no_demonstration_has() -> None:
    shown, unseen = smallworld.foreign_of(smallworld.HARMLESS)
    assert not set(shown.words) & set(unseen.words)
    assert not set(unseen.words) & {word for each in shown.sentences for word in words(each)}
    assert min(len(shown.words), len(unseen.words)) > 900
    assert min(len(shown.sentences), len(unseen.sentences)) > 200
