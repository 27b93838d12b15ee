"""Default sampling over HTTP and gRPC: a released checkpoint answers as it did for its release."""

import json
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import psutil
import pytest

from tests import talks
from tests.chat.platforms import CHAT_BUILDS, planted
from tests.chat.replicas import await_that
from tests.chat.service_test import VERIFY_SECONDS, settled
from tests.chat.talks_test import Caller, ident_of
from tests.web.apis_test import Program
from tests.web.commands_test import tutti
from tests.web.hosted import Hosted, hosted
from tests.web.tokens_test import issue, user
from tutti.contracts.access.v1 import RevokeTokenRequest
from tutti.contracts.chat.v1 import (
    DEPLOYMENT_STATE_READY,
    Answer,
    CreateDeploymentRequest,
    Deployment,
    DeploymentSpec,
    Drawing,
    VerifyAnswerRequest,
)
from tutti.contracts.common.v1 import STATE_DONE, GetRequest
from tutti.contracts.evaluation.v1 import (
    STANDING_ACTIVE,
    ComparedSample,
    Comparison,
    ComparisonSpec,
    Release,
    ReleasedComparison,
    ReleaseFinding,
    ReleaseSpec,
)
from tutti.contracts.sampling.v1 import Sample, SampleSpec
from tutti.sampling.service import build as build_sampling
from tutti.web.tokens import ID_DIGITS, digest

NAME = "deployments/toy"
GREEDY, WARM = Drawing(temperature=0, top_p=1), Drawing(temperature=0.7, top_p=0.9, top_k=5)
CHAT, TEXT = "/v1/chat/completions", "/v1/completions"
HELLO = [{"role": "user", "content": "a b c"}]


@dataclass
class World:
    served: Hosted
    checkpoint: str
    person: str
    token: str

    @property
    def program(self) -> Program:
        return Program(self.served, self.token)

    def released(self, name: str, *drawn: Drawing) -> None:
        """Plant a release whose comparisons have candidates that were drawn like this."""
        compared = list[ReleasedComparison]()
        for number, each in enumerate(drawn):
            of = f"{name}-{number}"
            spec = SampleSpec(
                checkpoint=self.checkpoint, temperature=each.temperature, top_p=each.top_p, top_k=each.top_k
            )
            self.served.plant("sampling", Sample(name=f"samples/{of}", spec=spec, state=STATE_DONE))
            judged = ComparisonSpec(candidate=ComparedSample(name=f"samples/{of}"))
            self.served.plant("evaluation", Comparison(name=f"comparisons/{of}", spec=judged, state=STATE_DONE))
            compared.append(ReleasedComparison(name=f"comparisons/{of}"))
        findings = [ReleaseFinding(rule="win", comparison=each.name, passed=True) for each in compared]
        gate = ReleaseSpec(comparisons=compared, win=0.5)
        made = Release(name=f"releases/{name}", spec=gate, checkpoint=self.checkpoint, standing=STANDING_ACTIVE)
        made.findings.extend(findings)
        self.served.plant("evaluation", made)

    def deploy(self, *, sampling: Drawing, experimental: bool = False) -> Deployment:
        """Serve the checkpoint, and wait until its default sampling is this."""
        spec = DeploymentSpec(checkpoint=self.checkpoint, replicas=1, experimental=experimental)
        with self.served.client() as operator:
            operator.chat.CreateDeployment(CreateDeploymentRequest(name=NAME, spec=spec))
            settled(operator, NAME, DEPLOYMENT_STATE_READY)
            await_that(lambda: self.defaults() == as_json(sampling), f"the default sampling {sampling}")
            return operator.chat.GetDeployment(GetRequest(name=NAME))

    def defaults(self) -> Any:
        """The default sampling in the list of models."""
        [found] = self.program.send("GET", "/v1/models")[1]["data"]
        return found["sampling"]

    def ask(self, path: str = CHAT, key: str = "", **more: Any) -> tuple[Any, list[str]]:
        """The body of an answer, and the names of its records."""
        program, given = self.program, {"messages": HELLO} if path == CHAT else {"prompt": "a b c"}
        if key:
            program.headers = {**program.headers, "idempotency-key": key}
        sent = json.dumps({"model": "toy", "max_tokens": 20, **given, **more}).encode()
        status, said, response = program.send("POST", path, sent)
        assert status == 200, said
        return said, response.headers["x-tutti-answer"].split(", ")

    def texts(self, path: str = CHAT, **more: Any) -> list[str]:
        choices = self.ask(path, **more)[0]["choices"]
        return [each["message"]["content"] if path == CHAT else each["text"] for each in choices]

    def record(self, name: str) -> Answer:
        with self.served.client() as operator:
            return operator.chat.GetAnswer(GetRequest(name=name))

    def differs(self, name: str) -> list[str]:
        with self.served.client() as operator:
            asked = VerifyAnswerRequest(name=name)
            return list(operator.chat.VerifyAnswer(asked, timeout=VERIFY_SECONDS).differs)


def as_json(drawing: Drawing) -> dict[str, float]:
    return {"temperature": drawing.temperature, "top_p": drawing.top_p, "top_k": drawing.top_k}


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    builds = {**CHAT_BUILDS, "sampling": build_sampling}
    with hosted(tmp_path_factory.mktemp("platform"), builds=builds) as served:
        with served.client() as operator:
            person = user(operator, "Ada")
            made = World(served, planted(served), person, issue(operator, person)[0])
        made.released("greedy", GREEDY, WARM)
        yield made


def test_a_release_decides_it_and_commands_show_it(world: World) -> None:
    found = world.deploy(sampling=GREEDY)
    assert (found.sampling, found.sampling_source) == (GREEDY, "samples/greedy-0")
    shown = tutti(world.served, "deployments", "show", "toy")
    assert (shown["sampling"], shown["sampling_source"]) == (as_json(GREEDY), "samples/greedy-0")
    served = tutti(world.served, "serve", world.checkpoint, "--name", "toy", "--detach")
    assert (served["sampling"], served["sampling_source"]) == (as_json(GREEDY), "samples/greedy-0")


@pytest.mark.parametrize("path", [CHAT, TEXT])
def test_an_answer_without_sampling_is_drawn_as_the_evidence_and_is_verified(world: World, path: str) -> None:
    [name] = world.ask(path)[1]
    assert world.texts(path) == world.texts(path, temperature=0, top_p=1, top_k=0)
    assert world.record(name).sampling == GREEDY
    assert world.differs(name) == []
    assert len({*world.texts(path, n=3)}) == 1


def test_what_a_request_says_wins(world: World) -> None:
    [name] = world.ask(temperature=1, seed=3)[1]
    assert world.record(name).sampling == Drawing(temperature=1, top_p=1)
    assert world.differs(name) == []
    assert len({*world.texts(temperature=1, seed=3, n=3)}) > 1
    assert world.record(world.ask(top_p=0.5)[1][0]).sampling == Drawing(temperature=0, top_p=0.5)


def test_the_page_has_the_same_sampling(world: World) -> None:
    ada = Caller(world.served, world.person)
    [model] = ada.get("models").json["models"]
    assert model["sampling"] == {**as_json(GREEDY), "source": "samples/greedy-0"}
    for said, temperature in ((ada.say("a b c"), 0), (ada.say("a b c", temperature=1), 1)):
        why = ada.get(f"why/{ident_of(ada.answered(said))}").json
        assert (why["temperature"], why["top_p"], why["top_k"]) == (temperature, 1, 0)


def lost(world: World, key: str, **more: Any) -> str:
    """Begin an answer with a key that ends before its own end; the name of its record."""
    with world.served.client() as operator:
        token = issue(operator, world.person)[0]
        program = Program(world.served, token)
        program.headers = {**program.headers, "idempotency-key": key}
        sent = json.dumps({"model": "toy", "messages": HELLO, "stream": True, **more}).encode()
        response = program.open("POST", CHAT, sent)
        name = response.headers["x-tutti-answer"]
        assert response.readline()
        replicas = [each for each in psutil.Process().children() if "tutti.chat.replica" in " ".join(each.cmdline())]
        for each in replicas:
            each.send_signal(signal.SIGSTOP)
        operator.access.RevokeToken(RevokeTokenRequest(id=digest(token)[:ID_DIGITS]))
        response.read()
        for each in replicas:
            each.send_signal(signal.SIGCONT)
        assert operator.chat.GetAnswer(GetRequest(name=name)).finished == "cancelled"
    return name


def test_an_answer_keeps_its_sampling_when_the_release_is_replaced(world: World) -> None:
    endless = {"max_tokens": 200, "logit_bias": {str(talks.TOKENIZER.eos): -100}}
    before, [name] = world.ask(key="whole")
    failed = lost(world, "lost", **endless)

    world.released("a-warmer-one", WARM, GREEDY)  # the first active one by name is that of a deployment
    assert world.deploy(sampling=WARM).release == "releases/a-warmer-one"
    assert world.record(world.ask()[1][0]).sampling == WARM
    assert world.differs(name) == world.differs(failed) == []
    assert world.ask(key="whole") == (before, [name])

    sent = json.dumps({"model": "toy", "messages": HELLO, "stream": True, **endless}).encode()
    program = world.program
    program.headers = {**program.headers, "idempotency-key": "lost"}
    response = program.open("POST", CHAT, sent)
    assert response.status == 200
    response.read()
    again = world.record(response.headers["x-tutti-answer"])
    assert (again.finished, again.sampling, again.seed) == ("length", GREEDY, world.record(failed).seed)
    assert world.differs(again.name) == []


def test_an_experiment_has_the_defaults_of_the_api(world: World) -> None:
    found = world.deploy(sampling=Drawing(temperature=1, top_p=1), experimental=True)
    assert (found.release, found.sampling_source) == ("", "")
