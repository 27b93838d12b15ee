"""The filter on every surface, over real replicas: what matches never leaves, and what was decided computes again."""

import itertools
import json
import random
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from tests.chat.completions_test import World, chunks, text_of
from tests.web.apis_test import Program, events
from tests.web.hosted import Hosted, hosted
from tests.web.tokens_test import issue, user
from tutti.chassis.rpc import eventloop
from tutti.chassis.service import Host, Service
from tutti.chat.answering import joined
from tutti.chat.answers import Answers
from tutti.chat.beginnings import Beginnings
from tutti.chat.completions import Completions
from tutti.chat.filter.release import NONE, Decision, Filter, Windows, judged, of_rules
from tutti.chat.filter.rules import Rule
from tutti.chat.filter.words import WORDS, Withheld
from tutti.chat.journal import Entry, Finished, Journal
from tutti.chat.leases import Leases
from tutti.chat.models import Model
from tutti.chat.records import AnswerRecord, Verdict, record_of, verify
from tutti.chat.requests import read
from tutti.chat.saying import Record
from tutti.chat.tables import Tables
from tutti.contracts.access.v1.stubs import AccessServiceStub
from tutti.web.pages import Site

ASKED = [{"role": "user", "content": "a b c"}]
REFUSED = {words[withheld] for words in WORDS.values() for withheld in Withheld}
EACH = 30


class Filtered:
    """The models of a world, each with another filter; `finished` are the answers that ended."""

    def __init__(self, world: World) -> None:
        self.world, self.entries, ids = world, list[Entry](), itertools.count()
        self.filters: dict[str, Filter] = {}
        self.name = lambda: f"f{next(ids)}"

    def completions(self, host: Host) -> Completions:
        journal, leases = Journal(self.entries.extend), Leases(AccessServiceStub(host.channel("access")))
        beginnings = Beginnings(journal, leases, name=self.name, seed=lambda: 7)
        answers = Answers(host.units, Tables(host.metadata), self.models, self.name)
        return Completions(self.models, journal, beginnings, answers, now=lambda: 0)

    def models(self) -> list[Model]:
        served, router = self.world.served, self.world.router
        return [
            Model(name, f"deployments/{name}", "checkpoints/a/0/1", 0, replace(served, filter=each), router, "")
            for name, each in {"open": NONE, **self.filters}.items()
        ]

    def record(self, name: str) -> Finished:
        [found] = [each for each in self.entries if isinstance(each, Finished) and each.begun.answer == name]
        return found

    def verified(self, name: str, model: str) -> Verdict:
        """An answer computed again with the filter of a model."""
        found, served = self.record(name), next(each.served for each in self.models() if each.name == model)
        said, record, router = found.record.completion_tokens, found.record, self.world.router
        again = verify(served, found.begun.request, router, record, id=f"again-{name}-{model}", said=said)
        return eventloop.run(again, 300)


@pytest.fixture(scope="module")
def filtered(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Filtered]:
    world = World(tmp_path_factory.mktemp("chat"))
    yield Filtered(world)
    world.close()


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory, filtered: Filtered) -> Iterator[Hosted]:
    def build(host: Host) -> Service:
        return Service(name="toy", resources=[], pages=Site("toy", "tests.web", filtered.completions(host).routes()))

    with hosted(tmp_path_factory.mktemp("platform"), builds={"toy": build}) as found:
        yield found


@pytest.fixture(scope="module")
def token(served: Hosted) -> str:
    with served.client() as operator:
        return issue(operator, user(operator, "Program"))[0]


@pytest.fixture
def program(served: Hosted, token: str) -> Program:
    return Program(served, token)


def ask(program: Program, **more: Any) -> tuple[dict[str, Any], str]:
    """An answer that is not streamed, and the name of its record."""
    sent = {"model": "open", "messages": ASKED, "max_tokens": 24, **more}
    status, said, response = program.send("POST", "/v1/chat/completions", json.dumps(sent).encode())
    assert status == 200, said
    return said, response.headers["x-tutti-answer"]


def streamed(program: Program, **more: Any) -> tuple[str, str, str]:
    """The text of a streamed answer, why it ended, and the name of its record."""
    sent = {"model": "open", "messages": ASKED, "max_tokens": 24, "stream": True, **more}
    response = program.open("POST", "/v1/chat/completions", json.dumps(sent).encode())
    found = chunks(events(response))
    return text_of(found), found[-1]["choices"][0]["finish_reason"], response.headers["x-tutti-answer"]


def content(said: dict[str, Any]) -> str:
    return str(said["choices"][0]["message"]["content"])


def without_words(text: str) -> str:
    """A text without what the filter says at its end."""
    return next((text.removesuffix(each).removesuffix("\n\n") for each in REFUSED if text.endswith(each)), text)


def drawn(source: random.Random, text: str) -> Filter:
    """A filter that withholds a part of a text, which it takes from it."""
    begin = source.randrange(len(text) // 4, len(text) - 4)
    pattern = "".join(f"\\{each}" if each in "*?\\" else each for each in text[begin : begin + 4])
    rule = Rule("part", pattern, inside=True)
    letter = text[begin]
    windows = Windows("busy", "1", 48, lambda window: "letter" if window.count(letter) > 6 else "")
    return of_rules([rule] if source.random() < 0.7 else [], windows if source.random() < 0.5 else None, "busy@1")


def test_no_withheld_character_leaves_whole_or_streamed_and_every_decision_computes_again(
    program: Program, filtered: Filtered
) -> None:
    source = random.Random(3)
    stopped = 0
    for number in range(EACH):
        given = {"seed": number, "logit_bias": {"10": -2}}
        text = content(ask(program, **given)[0])
        if len(text) < 12 or len(text.split()) < 2:
            continue
        filtered.filters = {"held": drawn(source, text)}
        truth = judged(filtered.filters["held"].answer, text)
        expected = text if truth.cut is None else text[: truth.cut]
        said, name = ask(program, model="held", **given)
        stream, finished, of_stream = streamed(program, model="held", **given)
        assert content(said) == stream
        assert without_words(stream) == expected
        assert (finished == "content_filter") == (truth.cut is not None)
        assert said["choices"][0]["finish_reason"] == finished
        record = filtered.record(name).record
        assert [tuple(each) for each in record.decisions] == [
            (each.rule, each.version, each.place, each.begin, each.end) for each in truth.decisions
        ]
        assert AnswerRecord.from_dict(record.to_dict()) == record
        assert said["usage"]["completion_tokens"] <= record.completion_tokens
        assert filtered.record(of_stream).record == replace(record, moves=[], moved=0)
        assert filtered.verified(name, "held").equal
        stopped += truth.cut is not None
    assert stopped > EACH // 3


def test_an_answer_differs_under_another_filter_by_name(program: Program, filtered: Filtered) -> None:
    texts = ((seed, re.search("[a-z]{2}", content(ask(program, seed=seed)[0]))) for seed in range(EACH))
    seed, letters = next((seed, found.group()) for seed, found in texts if found)
    filtered.filters = {"held": of_rules([Rule("word", letters, inside=True)])}
    _, name = ask(program, model="held", seed=seed)
    assert filtered.verified(name, "held").equal
    assert {"filter", "text_digest", "finished", "decisions", "decided"} <= {*filtered.verified(name, "open").differs}


@pytest.mark.parametrize(("language", "asked"), [("en", "How is the"), ("de", "Wie ist der"), ("es", "Cómo es el")])
def test_a_prompt_that_a_rule_refuses_is_answered_by_words_in_its_language(
    program: Program, filtered: Filtered, language: str, asked: str
) -> None:
    filtered.filters = {"held": of_rules([Rule("word", "bad thing")])}
    messages = [{"role": "user", "content": f"{asked} b\u00e1d\u200b  TH1NG?"}]
    said, name = ask(program, model="held", messages=messages)
    assert content(said) == WORDS[language][Withheld.PROMPT]
    assert said["choices"][0]["finish_reason"] == "content_filter"
    assert said["usage"]["completion_tokens"] == 0
    stream, finished, _ = streamed(program, model="held", messages=messages)
    assert (stream, finished) == (content(said), "content_filter")
    record = filtered.record(name).record
    assert (record.decided, record.completion_tokens) == (1, 0)
    assert record.decisions[0][:3] == ["word", "1", 0]
    assert filtered.verified(name, "held").equal


def test_a_record_has_the_first_of_many_decisions_and_their_number(filtered: Filtered) -> None:
    served, request = filtered.world.served, read({"model": "open", "messages": ASKED})
    for name, most in (("r" * 40, 64), ("r", 64)):
        state = Record(joined(served, request, id="many", seed=7, salt=""))
        state.decisions = [Decision(name, "1", number, 0, 9) for number in range(100)]
        record = record_of(served, request, state, "content_filter")
        assert record.decided == 100
        assert 30 < len(record.decisions) <= most
        assert len(json.dumps(record.decisions)) < 4096


def test_a_filter_that_finds_nothing_changes_no_character(program: Program, filtered: Filtered) -> None:
    filtered.filters = {"held": of_rules([Rule("none", "never said here")])}
    for number in range(5):
        whole, other = ask(program, seed=number)[0], ask(program, model="held", seed=number)[0]
        assert (content(whole), whole["usage"]) == (content(other), other["usage"])
