"""Chat completions over HTTP from real replicas: streamed, whole, stopped, left, and moved."""

import http.client
import itertools
import json
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import func, select

from tests import talks
from tests.chat.replicas import START_SECONDS, await_that, child, engine, serving, staged, undisturbed
from tests.web.apis_test import Program, events
from tests.web.hosted import Hosted, hosted
from tests.web.tokens_test import issue, user
from tutti.chassis.config.datadir import DataDir
from tutti.chassis.connections import connection_of_loop
from tutti.chassis.errors import PermissionDenied
from tutti.chassis.identity.auth import Role
from tutti.chassis.rpc import eventloop
from tutti.chassis.service import Host, Service
from tutti.chat.answering import joined, pieces
from tutti.chat.answers import Answers
from tutti.chat.beginnings import Beginnings
from tutti.chat.completions import ROLES, Completions
from tutti.chat.journal import Entry, Finished, Journal, Said
from tutti.chat.leases import Leases
from tutti.chat.models import Model
from tutti.chat.records import AnswerRecord, Verdict, digest_of_ids, record_of, verify
from tutti.chat.requests import as_body, read
from tutti.chat.routing import Router
from tutti.chat.saying import Record, Served
from tutti.chat.tables import Tables
from tutti.chat.tokenizing import Tokenizing
from tutti.client import connect
from tutti.contracts.access.v1 import ListTokensRequest, ListUsageRequest, RevokeTokenRequest
from tutti.contracts.access.v1.stubs import AccessServiceStub
from tutti.corpus.conversations.template import CHAT_1
from tutti.inference.engine import Chosen
from tutti.web.pages import Site
from tutti.web.tokens import ID_DIGITS, digest

LIMITS = ("access.concurrent_answers=9", "access.answer_tokens_per_minute=5000")
HELLO = [{"role": "user", "content": "a b c"}]


class World:
    def __init__(self, folder: Path) -> None:
        checkpoint = staged(folder)
        self.data_dir = DataDir(folder / "replicas")
        self.children = [child(self.data_dir, name, checkpoint) for name in "ab"]
        self.truth = engine(checkpoint)
        opened = self.truth.opened
        self.served = Served(opened.model, opened.length, talks.TOKENIZER, CHAT_1.bind(talks.TOKENIZER))
        token = self.data_dir.tokens().of(Role.SERVICE)
        addresses = serving(self.children)

        async def made() -> Router:
            router = Router(connection_of_loop, token, spare_seconds=START_SECONDS)
            await router.use(addresses)
            return router

        self.router = eventloop.run(made(), 60)
        await_that(lambda: all(each.opened for each in self.router.replicas), "replicas to be followed")
        ids = itertools.count()
        self.entries = list[Entry]()
        self.model = Model(
            "toy", "deployments/toy", "checkpoints/toy/0/1", 0, self.served, self.router, opened.signature
        )
        self.models = [self.model, replace(self.model, name="narrow", deployment="deployments/narrow", streams=1)]
        self.name = lambda: f"{next(ids)}"

    def completions(self, host: Host) -> Completions:
        journal, leases = Journal(self.entries.extend), Leases(AccessServiceStub(host.channel("access")))
        beginnings = Beginnings(journal, leases, name=self.name, seed=lambda: 7)
        answers = Answers(host.units, Tables(host.metadata), lambda: self.models, self.name)
        return Completions(lambda: self.models, journal, beginnings, answers, now=lambda: 0)

    def chosen(self, body: dict[str, Any]) -> list[Chosen]:
        """The tokens of an undisturbed engine."""
        join = joined(self.served, read(body), id="truth", seed=7, salt="")
        return [each for each in undisturbed(self.truth, [join])["truth"] if isinstance(each, Chosen)]

    def text(self, body: dict[str, Any]) -> tuple[str, int]:
        """The text of an undisturbed engine without stop strings, and the number of its tokens."""
        return said(found := self.chosen(body)), len(found)

    def verified(self, name: str) -> bool:
        """True if an answer that has ended computes again."""
        [found] = [each for each in self.entries if isinstance(each, Finished) and each.begun.answer == name]
        count = sum(isinstance(each, Said) and each.answer == name for each in self.entries)
        request, router = found.begun.request, self.router
        return eventloop.run(
            verify(self.served, request, router, found.record, id=f"again {name}", said=count), 300
        ).equal

    def close(self) -> None:
        eventloop.run(self.router.close(), 60)
        for each in self.children:
            each.end(10)


def said(tokens: list[Chosen]) -> str:
    return b"".join(talks.TOKENIZER.spelled[each.token] for each in tokens).decode(errors="replace")


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    made = World(tmp_path_factory.mktemp("chat"))
    yield made
    made.close()


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory, world: World) -> Iterator[Hosted]:
    def build(host: Host) -> Service:
        routes = [*world.completions(host).routes(), *Tokenizing(lambda: world.models).routes(ROLES)]
        return Service(name="toy", resources=[], pages=Site("toy", "tests.web", routes))

    with hosted(tmp_path_factory.mktemp("platform"), *LIMITS, builds={"toy": build}) as found:
        yield found


@pytest.fixture
def program(served: Hosted) -> Program:
    with served.client() as operator:
        return Program(served, issue(operator, user(operator, "Program"))[0])


def body(**more: Any) -> dict[str, Any]:
    return {"model": "toy", "messages": HELLO, "seed": 5, **more}


def post(program: Program, **more: Any) -> tuple[int, Any, http.client.HTTPResponse]:
    return program.send("POST", "/v1/chat/completions", json.dumps(body(**more)).encode())


def chunks(found: list[str]) -> list[Any]:
    assert found[-1] == "[DONE]"
    return [json.loads(each) for each in found[:-1]]


def text_of(found: list[Any]) -> str:
    return "".join(each["choices"][0]["delta"].get("content", "") for each in found if each["choices"])


def test_models_are_listed(program: Program) -> None:
    assert [each["id"] for each in program.send("GET", "/v1/models")[1]["data"]] == ["narrow", "toy"]


def test_an_answer_is_the_engines_whole_and_streamed(program: Program, world: World) -> None:
    truth, count = world.text(body())
    status, said, response = post(program)
    assert (status, said["choices"][0]["message"]["content"]) == (200, truth)
    assert said["choices"][0]["finish_reason"] in ("stop", "length")
    assert said["usage"]["completion_tokens"] == count
    assert response.headers["x-tutti-answer"].startswith("answers/")
    sent = json.dumps(body(stream=True, stream_options={"include_usage": True})).encode()
    found = chunks(events(program.open("POST", "/v1/chat/completions", sent)))
    assert text_of(found) == truth
    assert (found[-1]["choices"], found[-1]["usage"]) == ([], said["usage"])
    assert found[-2]["choices"][0]["finish_reason"] == said["choices"][0]["finish_reason"]


def test_every_token_of_an_answer_is_in_the_journal_and_its_record_at_the_end(program: Program, world: World) -> None:
    name = post(program)[2].headers["x-tutti-answer"]
    said = [each for each in world.entries if isinstance(each, Said) and each.answer == name]
    [record] = [each.record for each in world.entries if isinstance(each, Finished) and each.begun.answer == name]
    assert [each.at for each in said] == list(range(record.completion_tokens))
    assert digest_of_ids([each.token for each in said]) == record.ids_digest
    assert (record.signature, record.exact) == (world.truth.opened.signature, True)


def test_an_answer_ends_before_a_stop_string(program: Program, world: World) -> None:
    truth, _ = world.text(body())
    stop = truth[20:22]
    _, said, _ = post(program, stop=stop)
    assert said["choices"][0]["message"]["content"] == truth[: truth.index(stop)]
    assert said["choices"][0]["finish_reason"] == "stop"


def test_choices_are_answers_of_their_own_that_are_counted_and_reserved_together(
    program: Program, world: World
) -> None:
    _, found, response = post(program, n=3, max_tokens=20)
    names = response.headers["x-tutti-answer"].split(", ")
    texts = [each["message"]["content"] for each in found["choices"]]
    assert [each["index"] for each in found["choices"]] == [0, 1, 2]
    assert texts == [world.text(as_body(each))[0] for each in read(body(n=3, max_tokens=20)).singles(7)]
    assert len({*texts}) == len(names) == 3
    assert all(world.verified(each) for each in names)
    one = post(program, max_tokens=20)[1]["usage"]
    assert found["usage"]["prompt_tokens"] == one["prompt_tokens"]
    assert found["usage"]["completion_tokens"] > one["completion_tokens"]
    sent = json.dumps(body(stream=True, n=3, max_tokens=20)).encode()
    streamed = chunks(events(program.open("POST", "/v1/chat/completions", sent)))
    for index, text in enumerate(texts):
        own = [each for each in streamed if each["choices"][0]["index"] == index]
        assert text_of(own) == text
        assert own[-1]["choices"][0]["finish_reason"]


def test_nothing_is_held_after_every_kind_of_end_of_choices(served: Hosted, program: Program) -> None:
    access = served.running("access")
    [rows] = [each for each in access.service.tables if each.name == "reservations"]
    running = select(func.count()).select_from(rows).where(rows.c.ended_at.is_(None))

    def held() -> Any:
        return access.host.units.run(lambda unit: unit.tx.execute(running).scalar())

    endless = {"stream": True, "n": 3, "max_tokens": 100, "logit_bias": {str(talks.TOKENIZER.eos): -100}}
    for kind in ("whole", "stopped", "refused", "left at once", "left later") * 2:
        if kind.startswith("left"):
            response = program.open("POST", "/v1/chat/completions", json.dumps(body(**endless)).encode())
            if kind == "left later":
                assert response.readline()
            response.close()
            program.connection.close()
        else:
            every: dict[str, dict[str, Any]] = {"whole": {}, "stopped": {"stop": ["a", "b"]}, "refused": {"n": 99}}
            more = every[kind]
            assert post(program, **{"n": 3, "max_tokens": 9, **more})[0] == (400 if kind == "refused" else 200)
    await_that(lambda: held() == 0, "all reservations to end")


def test_log_probabilities_are_the_models_and_those_of_withheld_tokens_are_absent(
    program: Program, world: World
) -> None:
    more = {"logprobs": True, "top_logprobs": 3, "logit_bias": {"97": 2}, "max_tokens": 40}
    truth = [each for each in world.chosen(body(**more)) if talks.TOKENIZER.spelled[each.token]]
    _, found, _ = post(program, **more)
    content = found["choices"][0]["logprobs"]["content"]
    assert [each["logprob"] for each in content] == [each.logprob for each in truth]
    assert [bytes(each["bytes"]) for each in content] == [talks.TOKENIZER.spelled[each.token] for each in truth]
    assert [[other["logprob"] for other in each["top_logprobs"]] for each in content] == [
        [logprob for _, logprob in each.alternatives] for each in truth
    ]
    stop = said(truth)[10:12]
    _, cut, _ = post(program, **more, stop=stop)
    shown = cut["choices"][0]["message"]["content"]
    kept = cut["choices"][0]["logprobs"]["content"]
    assert kept == content[: len(kept)]
    assert shown.startswith(b"".join(bytes(each["bytes"]) for each in kept).decode(errors="replace"))
    assert len(kept) < len(content)
    sent = json.dumps(body(**more, stop=stop, stream=True)).encode()
    streamed = chunks(events(program.open("POST", "/v1/chat/completions", sent)))
    scores = [each["choices"][0]["logprobs"] for each in streamed]
    assert [token for each in scores if each for token in each["content"]] == kept


def complete(program: Program, prompt: Any, **more: Any) -> Any:
    sent = {"model": "toy", "prompt": prompt, "seed": 5, **more}
    status, found, _ = program.send("POST", "/v1/completions", json.dumps(sent).encode())
    assert status == 200, found
    return found


def test_a_completion_continues_texts_and_ids_of_one_prompt_or_several(program: Program) -> None:
    ids = talks.TOKENIZER.encode("a b c").tolist()
    several = complete(program, ["a b c", ids, "d e"], n=2)
    assert [each["index"] for each in several["choices"]] == [*range(6)]
    texts = [each["text"] for each in several["choices"]]
    assert texts[:2] == texts[2:4]
    assert texts[0] == complete(program, "a b c")["choices"][0]["text"]
    assert several["usage"]["prompt_tokens"] == 2 * len(ids) + len(talks.TOKENIZER.encode("d e"))
    sent = {"model": "toy", "prompt": "a b c", "seed": 5, "stream": True, "stream_options": {"include_usage": True}}
    streamed = chunks(events(program.open("POST", "/v1/completions", json.dumps(sent).encode())))
    assert "".join(each["choices"][0]["text"] for each in streamed if each["choices"]) == texts[0]
    assert streamed[-1]["usage"]["prompt_tokens"] == len(ids)
    assert complete(program, "", max_tokens=3)["usage"]["prompt_tokens"] == 1


def test_an_echo_has_the_log_probabilities_of_its_prompt_with_every_bit(program: Program, world: World) -> None:
    prompt = "a b c d e f g h"
    ids = talks.TOKENIZER.encode(prompt).tolist()
    plain, echo = complete(program, prompt), complete(program, prompt, echo=True)
    assert echo["choices"][0]["text"] == prompt + plain["choices"][0]["text"]
    assert echo["usage"] == plain["usage"]
    scored = complete(program, prompt, echo=True, logprobs=1)
    found = scored["choices"][0]["logprobs"]
    assert scored["choices"][0]["text"] == echo["choices"][0]["text"]
    assert scored["usage"] == plain["usage"]
    [truth] = world.truth.engine.score([ids])
    assert found["token_logprobs"][: len(ids)] == [None, *truth.tolist()]
    assert found["top_logprobs"][0] is None
    for token, logprob, top in zip(
        *(found[key][1:] for key in ("tokens", "token_logprobs", "top_logprobs")), strict=True
    ):
        assert top[token] == logprob
    assert found["tokens"][: len(ids)] == [talks.TOKENIZER.spelled[each].decode() for each in ids]
    assert found["text_offset"][: len(ids)] == [len("".join(found["tokens"][:at])) for at in range(len(ids))]
    alone = complete(program, ids, echo=True, logprobs=0, max_tokens=0)
    assert alone["choices"][0]["text"] == prompt
    assert alone["choices"][0]["logprobs"]["token_logprobs"] == [None, *truth.tolist()]
    assert alone["usage"]["completion_tokens"] == 0
    names = [each.begun.answer for each in world.entries if isinstance(each, Finished) and each.begun.request.echo]
    assert len(names) == 3
    assert all(world.verified(each) for each in names)


def test_every_token_of_an_echo_has_a_score_and_the_one_behind_it_too(program: Program) -> None:
    """Clients that take likelihoods count tokens from both ends."""
    prompt = talks.TOKENIZER.encode("a \u00e9 \U0001f600 b").tolist()
    halves = talks.TOKENIZER.encode("\u00e9").tolist()
    for last in (talks.TOKENIZER.eos, prompt[0], *halves):
        more = {"max_tokens": 1, "temperature": 0, "logit_bias": {str(last): 100}}
        found = complete(program, prompt, echo=True, logprobs=1, **more)["choices"][0]["logprobs"]
        assert len(found["token_logprobs"]) == len(prompt) + 1
        assert None not in found["token_logprobs"][1:]


def test_texts_become_ids_and_ids_become_texts(program: Program) -> None:
    def call(path: str, **sent: Any) -> Any:
        status, found, _ = program.send("POST", path, json.dumps(sent).encode())
        return found if status == 200 else (status, found["error"]["param"])

    info = program.send("GET", "/tokenizer_info")[1]
    assert call("/tokenize", prompt=info["eos_token"])["tokens"] == [talks.TOKENIZER.eos]
    text = "a b \u00e9 <|user|>"
    found = call("/tokenize", prompt=text, model="toy", add_special_tokens=False, return_token_strs=True)
    assert found["tokens"] == talks.TOKENIZER.encode(text).tolist()
    assert found["count"] == len(found["tokens"]) == len(found["token_strs"])
    assert call("/detokenize", tokens=found["tokens"]) == {"prompt": text}
    assert (
        call("/tokenize", model="toy", messages=HELLO)["tokens"]
        == CHAT_1.bind(talks.TOKENIZER).open(read(body()).messages).tolist()
    )
    assert call("/tokenize", messages=HELLO) == (400, "model")
    assert call("/tokenize", prompt="a", messages=HELLO) == (400, "prompt")
    assert call("/detokenize", tokens=[10**6]) == (400, "tokens")
    assert call("/tokenize", prompt="a", model="other") == (404, None)
    assert program.send("GET", "/openapi.json")[1]["openapi"].startswith("3.1")


def test_a_request_that_cannot_be_answered_is_refused_by_its_parameter(program: Program) -> None:
    for more, status, param in (
        ({"model": "other"}, 404, None),
        ({"n": 17}, 400, "n"),
        ({"messages": [{"role": "user", "content": "a " * 300}]}, 400, "messages"),
    ):
        seen, said, _ = post(program, **more)
        assert (seen, said["error"]["param"]) == (status, param)


def test_a_client_asks_for_answers_sees_what_is_left_and_can_do_nothing_else(served: Hosted) -> None:
    with served.client() as operator:
        token, _ = issue(operator, "users/client")
        client = Program(served, token)
        assert client.send("GET", "/v1/models")[0] == 200
        _, said, response = post(client)
        used = said["usage"]
        assert response.headers["x-ratelimit-limit-tokens"] == "5000"
        assert int(response.headers["x-ratelimit-remaining-requests"]) == 599
        [usage] = operator.access.ListUsage(ListUsageRequest(user="users/client")).usage
        assert (usage.requests, usage.prompt_tokens, usage.completion_tokens) == (
            *(1, used["prompt_tokens"]),
            used["completion_tokens"],
        )
        with connect(address=operator.address("access"), token=token) as called, pytest.raises(PermissionDenied):
            called.access.ListTokens(ListTokensRequest())


def test_answers_beyond_a_limit_are_refused_until_others_end(served: Hosted, program: Program) -> None:
    sent = json.dumps(body(stream=True, max_tokens=200, logit_bias={str(talks.TOKENIZER.eos): -100})).encode()
    running = list[tuple[Program, http.client.HTTPResponse]]()
    while not running or running[-1][1].status == 200:
        another = Program(served, program.headers["authorization"].removeprefix("Bearer "))
        running.append((another, another.open("POST", "/v1/chat/completions", sent)))
        assert len(running) < 100
    refused = running[-1][1]
    assert (refused.status, json.loads(refused.read())["error"]["code"]) == (429, "rate_limit_exceeded")
    assert int(refused.headers["retry-after"]) * 1000 >= int(refused.headers["retry-after-ms"]) > 0
    for name in ("limit", "remaining", "reset"):
        assert refused.headers[f"x-ratelimit-{name}-requests"]
        assert refused.headers[f"x-ratelimit-{name}-tokens"]
    for each, response in running:
        response.close()
        each.connection.close()
    await_that(lambda: post(program, max_tokens=1)[0] == 200, "another answer to be admitted")


def test_a_token_that_is_revoked_ends_its_answer_with_an_error(served: Hosted, world: World) -> None:
    sent = json.dumps(body(stream=True, max_tokens=240, logit_bias={str(talks.TOKENIZER.eos): -100})).encode()
    with served.client() as operator:
        token, _ = issue(operator, user(operator, "Revoked"))
        client = Program(served, token)
        response = client.open("POST", "/v1/chat/completions", sent)
        assert response.readline() + response.readline()
        stopped = [each.id for each in world.children if each.exit_code is None]
        for each in stopped:
            each.send(signal.SIGSTOP)
        operator.access.RevokeToken(RevokeTokenRequest(id=digest(token)[:ID_DIGITS]))
        found = events(response)
        for each in stopped:
            each.send(signal.SIGCONT)
    assert json.loads(found[-1])["error"]["code"] == "unauthenticated"
    assert post(client)[0] == 401


def test_a_replica_that_is_killed_in_mid_sentence_leaves_no_trace(program: Program, world: World) -> None:
    sent = body(stream=True, seed=11, max_tokens=200, logit_bias={str(talks.TOKENIZER.eos): -100})
    truth, count = world.text(sent)
    killed = list[str]()

    def kill() -> None:
        """Kill the replica that answers, as soon as it has the request."""
        while not (busy := [each.address for each in world.router.replicas if each.in_hand]):
            time.sleep(0.0005)
        next(each for each in world.children if each.address == busy[0]).id.send(signal.SIGKILL)
        killed.extend(busy)

    killing = threading.Thread(target=kill)
    killing.start()
    found = chunks(events(program.open("POST", "/v1/chat/completions", json.dumps(sent).encode())))
    killing.join()
    assert killed
    assert text_of(found) == truth
    assert count == 200


def test_an_answer_is_computed_again_from_its_record_and_a_changed_one_differs_by_name(world: World) -> None:
    request = read(body(seed=13, stop="zz"))

    async def answered() -> tuple[AnswerRecord, Verdict, Verdict]:
        record, finished = Record(joined(world.served, request, id="kept", seed=7, salt="")), ""
        async with aclosing(pieces(world.served, request, world.router, record)) as found:
            async for piece in found:
                finished = piece.finished or finished
        kept = record_of(world.served, request, record, finished)
        changed = replace(kept, text_digest=kept.model)
        return (
            kept,
            await verify(world.served, request, world.router, kept, id="again", said=0),
            await verify(world.served, request, world.router, changed, id="once more", said=0),
        )

    kept, equal, other = eventloop.run(answered(), 300)
    assert AnswerRecord.from_dict(kept.to_dict()) == kept
    assert "a b c" not in str(kept.to_dict())
    assert (equal.equal, equal.bytes) == (True, kept.bytes)
    assert other.differs == ("text_digest",)
