"""The service over HTTP and gRPC: deployments that serve, are killed and stopped, and answers with their records."""

import json
import re
import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests import talks
from tests.chat.platforms import CHAT_BUILDS, planted
from tests.chat.replicas import MODEL, START_SECONDS, await_that
from tests.web.apis_test import Program, events
from tests.web.hosted import Hosted, hosted
from tests.web.tokens_test import issue, user
from tutti.chassis.errors import AlreadyExists, InvalidField, NotFound, Refused, Unavailable
from tutti.client import Client, connect
from tutti.contracts.access.v1 import ListUsageRequest
from tutti.contracts.chat.v1 import (
    DEPLOYMENT_STATE_FAILED,
    DEPLOYMENT_STATE_READY,
    DEPLOYMENT_STATE_STOPPED,
    Answer,
    CreateDeploymentRequest,
    Deployment,
    DeploymentSpec,
    FilterRule,
    FilterSpec,
    StopDeploymentRequest,
    VerifyAnswerRequest,
)
from tutti.contracts.common.v1 import GetRequest, ListRequest
from tutti.contracts.evaluation.v1 import (
    STANDING_ACTIVE,
    STANDING_REFUSED,
    STANDING_REVOKED,
    STANDING_STALE,
    Release,
)
from tutti.platform.processes import ProcessId, process_id

NAME = "deployments/toy"
VERIFY_SECONDS = 120.0
MEMORY_BYTES = 1_200_000
"""Enough for the model with a context of 32 tokens, and not with 64."""
LETTERS = re.compile("[a-z]{2}")


class World:
    """A platform with a deployment that is ready, and programs of two users."""

    def __init__(self, served: Hosted) -> None:
        self.served, self.checkpoint = served, planted(served)
        with served.client() as operator:
            self.deploy(operator, NAME, self.checkpoint, replicas=2)
            self.users = [user(operator, name) for name in ("One", "Another")]
            self.tokens = [issue(operator, each)[0] for each in self.users]
            self.settled(operator, NAME, DEPLOYMENT_STATE_READY)

    @property
    def programs(self) -> list[Program]:
        return [Program(self.served, each) for each in self.tokens]

    def client(self, number: int) -> Client:
        """A client with the token of a user."""
        with self.served.client() as operator:
            return connect(address=operator.address("chat"), token=self.tokens[number])

    def deploy(self, client: Client, name: str, checkpoint: str, replicas: int = 1) -> Deployment:
        spec = DeploymentSpec(checkpoint=checkpoint, replicas=replicas, experimental=True)
        return client.chat.CreateDeployment(CreateDeploymentRequest(name=name, spec=spec)).deployment

    def settled(self, client: Client, name: str, *states: int) -> Deployment:
        return settled(client, name, *states)

    def replicas(self) -> list[ProcessId]:
        """The processes of its replicas, by their names."""
        found = {" ".join(each.cmdline()): each.pid for each in psutil.Process().children() if each.is_running()}
        return [process_id(pid) for command, pid in sorted(found.items()) if "tutti.chat.replica" in command]


def settled(client: Client, name: str, *states: int) -> Deployment:
    """The deployment once it has one of these states."""
    seen = [Deployment()]

    def look() -> bool:
        seen[0] = client.chat.GetDeployment(GetRequest(name=name))
        return seen[0].state in states

    await_that(look, f"{name} to be in {states}", START_SECONDS)
    return seen[0]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with hosted(tmp_path_factory.mktemp("platform"), builds=CHAT_BUILDS) as served:
        yield World(served)


def body(**more: Any) -> bytes:
    messages = [{"role": "user", "content": "a b c"}]
    return json.dumps({"model": "toy", "messages": messages, "seed": 5, "max_tokens": 60, **more}).encode()


def ask(program: Program, **more: Any) -> tuple[str, str]:
    """The text of an answer that was not streamed, and the name of its record."""
    status, said, response = program.send("POST", "/v1/chat/completions", body(**more))
    assert status == 200, said
    return said["choices"][0]["message"]["content"], response.headers["x-tutti-answer"]


def verified(client: Client, name: str) -> list[str]:
    """The parts in which an answer differs."""
    verdict = client.chat.VerifyAnswer(VerifyAnswerRequest(name=name), timeout=VERIFY_SECONDS)
    assert verdict.equal == (not verdict.differs)
    return list(verdict.differs)


def test_a_deployment_is_called_by_its_name_and_by_its_checkpoint(world: World) -> None:
    [program, _] = world.programs
    assert [each["id"] for each in program.send("GET", "/v1/models")[1]["data"]] == ["toy"]
    assert len({ask(program, model=name)[0] for name in ("toy", NAME, world.checkpoint)}) == 1


def test_an_answer_has_a_record_that_its_user_alone_can_read_and_verify(world: World) -> None:
    text, name = ask(world.programs[0], stop="zz")
    with world.client(0) as one, world.client(1) as other:
        record = one.chat.GetAnswer(GetRequest(name=name))
        assert (record.text_bytes, record.deployment, record.checkpoint) == (len(text.encode()), NAME, world.checkpoint)
        assert text not in str(record)
        assert record.ByteSize() <= 8 << 10
        assert verified(one, name) == []
        assert name in [each.name for each in one.chat.ListAnswers(ListRequest()).answers]
        assert name not in [each.name for each in other.chat.ListAnswers(ListRequest()).answers]
        with pytest.raises(NotFound):
            other.chat.GetAnswer(GetRequest(name=name))
        with pytest.raises(NotFound):
            other.chat.VerifyAnswer(VerifyAnswerRequest(name=name))


@pytest.mark.parametrize("part", ["text_digest", "ids_digest", "seed", "completion_tokens"])
def test_a_record_that_was_changed_differs_by_the_part(world: World, part: str) -> None:
    _, name = ask(world.programs[0])
    running = world.served.running("chat")
    [answers] = [each for each in running.service.resources if each.message is Answer]

    def change(unit: Any) -> None:
        record = answers.lock(unit, name)
        value = getattr(record, part)
        setattr(record, part, value + 1 if isinstance(value, int) else record.model)
        answers.put(unit, record)

    running.host.units.run(change)
    with world.client(0) as client:
        differs = verified(client, name)
    assert part in differs


def test_a_replica_that_is_killed_in_mid_sentence_leaves_no_trace_and_is_started_again(world: World) -> None:
    sent = {"seed": 11, "max_tokens": 200, "logit_bias": {str(talks.TOKENIZER.eos): -100}}
    whole, _ = ask(world.programs[0], **sent)
    before = world.replicas()
    with world.served.client() as operator:
        restarts = operator.chat.GetDeployment(GetRequest(name=NAME)).restarts
    response = world.programs[0].open("POST", "/v1/chat/completions", body(**sent, stream=True))
    first = response.readline() + response.readline()
    before[0].send(signal.SIGKILL)
    found = [json.loads(each) for each in (first.decode().removeprefix("data: "), *events(response)[:-1])]
    text = "".join(each["choices"][0]["delta"].get("content", "") for each in found if each["choices"])
    assert text == whole
    with world.served.client() as operator:
        await_that(
            lambda: (
                (seen := operator.chat.GetDeployment(GetRequest(name=NAME))).restarts > restarts and seen.serving == 2
            ),
            "the replica to be started again",
            START_SECONDS,
        )
        assert verified(operator, response.headers["x-tutti-answer"]) == []
    assert world.replicas() != before


def test_an_answer_whose_reader_leaves_has_a_record_of_what_was_said(world: World) -> None:
    sent = body(seed=12, max_tokens=250, logit_bias={str(talks.TOKENIZER.eos): -100}, stream=True)
    program = world.programs[0]
    response = program.open("POST", "/v1/chat/completions", sent)
    response.readline()
    name = response.headers["x-tutti-answer"]
    response.close()
    program.connection.close()
    with world.client(0) as client:
        await_that(lambda: name in [each.name for each in client.chat.ListAnswers(ListRequest()).answers], "a record")
        record = client.chat.GetAnswer(GetRequest(name=name))
        assert record.finished in ("cancelled", "length")
        assert verified(client, name) == []


def keyed(program: Program, key: str, path: str = "/v1/chat/completions", **more: Any) -> tuple[int, bytes, str]:
    """The bytes of a response to a request with an idempotency key, and the names of its answers."""
    program.headers = {**program.headers, "idempotency-key": key}
    response = program.open("POST", path, body(**more))
    return response.status, response.read(), response.headers.get("x-tutti-answer", "")


def requests_of(world: World, number: int) -> tuple[int, int]:
    with world.served.client() as operator:
        found = operator.access.ListUsage(ListUsageRequest(user=world.users[number])).usage
    return sum(each.requests for each in found), sum(each.completion_tokens for each in found)


@pytest.mark.parametrize(
    "more", [{}, {"stream": True, "seed": 2**63 - 1}, {"logprobs": True, "top_logprobs": 2, "n": 2}]
)
def test_a_retry_with_a_key_has_the_same_bytes_and_is_charged_once(world: World, more: dict[str, Any]) -> None:
    [one, other] = world.programs
    key = f"key-{sorted(more)}".replace(" ", "")
    before = requests_of(world, 0)
    first = keyed(one, key, **more)
    used = requests_of(world, 0)
    assert first[0] == 200
    assert used[0] == before[0] + 1
    assert [keyed(one, key, **more) for _ in range(2)] == [first, first]
    assert requests_of(world, 0) == used
    assert keyed(one, key, **more, top_p=0.5)[0] == 409
    assert keyed(other, key, **more)[2] != first[2]
    assert keyed(one, "a key", **more)[0] == 400


def test_a_retry_of_a_request_that_was_left_reads_the_answer_that_goes_on(world: World) -> None:
    program, bias = world.programs[0], {str(talks.TOKENIZER.eos): -100}
    more: dict[str, Any] = {"max_tokens": 200, "logit_bias": bias, "stream": True}
    program.headers = {**program.headers, "idempotency-key": "left"}
    response = program.open("POST", "/v1/chat/completions", body(**more))
    begun, name = response.readline(), response.headers["x-tutti-answer"]
    response.close()
    program.connection.close()
    retries = [keyed(program, "left", **more) for _ in range(2)]
    assert {each[2] for each in retries} == {name}
    assert len({each[1] for each in retries}) == 1
    assert retries[0][1].startswith(begun)
    assert retries[0][1].endswith(b"[DONE]\n\n")


def test_a_filter_that_changes_holds_for_later_answers_and_each_answer_verifies_with_its_own(world: World) -> None:
    texts = ((seed, *ask(world.programs[0], seed=seed)) for seed in range(50))
    seed, name, found = next((seed, name, each[0]) for seed, text, name in texts if (each := LETTERS.findall(text)))
    rule = FilterRule(name="letters", version=1, pattern=found, inside=True)
    with world.served.client() as operator:
        for rules in ([rule], []):
            spec = DeploymentSpec(checkpoint=world.checkpoint, replicas=2, experimental=True)
            spec.filter.rules.extend(rules)
            operator.chat.CreateDeployment(CreateDeploymentRequest(name=NAME, spec=spec))
            world.settled(operator, NAME, DEPLOYMENT_STATE_READY)
            text, later = ask(world.programs[0], seed=seed)
            assert (found in text.partition("[The filter")[0]) == (not rules)
            assert verified(operator, later) == verified(operator, name) == []
            if rules:
                filtered = operator.chat.GetAnswer(GetRequest(name=later))
        [decision] = filtered.decisions
        assert (filtered.finished, filtered.decided, decision.rule) == ("content_filter", 1, "letters")
        with pytest.raises(Refused) as refused:
            verified(operator, filtered.name)
        assert refused.value.reason == "FILTER_GONE"
        rule.pattern = "*"
        spec = DeploymentSpec(checkpoint=world.checkpoint, replicas=2, filter=FilterSpec(rules=[rule]))
        with pytest.raises(InvalidField):
            operator.chat.CreateDeployment(CreateDeploymentRequest(name=NAME, spec=spec))


def test_requests_that_cannot_be_answered_are_refused_by_their_parameter(world: World) -> None:
    [program, _] = world.programs
    for more, status, param in (
        ({"model": "other"}, 404, None),
        ({"n": 17}, 400, "n"),
        ({"messages": [{"role": "user", "content": "a " * 300}]}, 400, "messages"),
    ):
        seen, said, _ = program.send("POST", "/v1/chat/completions", body(**more))
        assert (seen, said["error"]["param"]) == (status, param)
    assert program.send("POST", "/v1/chat/completions", b"{")[0] == 400
    assert Program(world.served, "").send("GET", "/v1/models")[0] == 401


def test_a_deployment_that_cannot_work_is_refused_or_fails_with_its_reason(world: World) -> None:
    with world.served.client() as operator:
        for checkpoint, replicas, field in ((world.checkpoint, 0, "spec.replicas"), ("toy", 1, "spec.checkpoint")):
            with pytest.raises(InvalidField) as refused:
                world.deploy(operator, "deployments/wrong", checkpoint, replicas)
            assert refused.value.field == field
        with pytest.raises(AlreadyExists):
            world.deploy(operator, NAME, "checkpoints/other/0/1")
        failing = {
            "nothing": ("checkpoints/nothing/0/1", "checkpoints/nothing/0/1"),
            "mute": (planted(world.served, "mute", tokenizer=talks.TOKENIZER.version), "chat template"),
            "reward": (planted(world.served, "reward", replace(MODEL, scalar_head=True)), "reward model"),
        }
        for name, (checkpoint, words) in failing.items():
            world.deploy(operator, f"deployments/{name}", checkpoint)
            assert words in world.settled(operator, f"deployments/{name}", DEPLOYMENT_STATE_FAILED).reason


def test_a_deployment_for_which_there_is_no_memory_fails_with_what_it_needs_and_a_context_that_fits_serves(
    tmp_path: Path,
) -> None:
    with hosted(tmp_path, f"chat.memory_bytes={MEMORY_BYTES}", builds=CHAT_BUILDS) as served, served.client() as client:
        name, checkpoint = "deployments/large", planted(served)
        for context, state in (
            (256, DEPLOYMENT_STATE_FAILED),
            (0, DEPLOYMENT_STATE_FAILED),
            (32, DEPLOYMENT_STATE_READY),
        ):
            spec = DeploymentSpec(checkpoint=checkpoint, replicas=1, experimental=True, context=context)
            client.chat.CreateDeployment(CreateDeploymentRequest(name=name, spec=spec))
            found = settled(client, name, state)
            assert (found.state == DEPLOYMENT_STATE_READY) == ("of memory" not in found.reason)
        assert (found.context, found.memory_bytes <= MEMORY_BYTES) == (32, True)
        token = issue(client, user(client, "Someone"))[0]
        said = Program(served, token).send("POST", "/v1/chat/completions", body(model="large"))[1]
        assert said["usage"]["total_tokens"] <= 32


def test_replicas_answer_in_fast_mode_where_the_settings_say_so(tmp_path: Path) -> None:
    with hosted(tmp_path, "chat.mode=fast", builds=CHAT_BUILDS) as served, served.client() as client:
        spec = DeploymentSpec(checkpoint=planted(served), replicas=1, experimental=True)
        client.chat.CreateDeployment(CreateDeploymentRequest(name=NAME, spec=spec))
        assert not settled(client, NAME, DEPLOYMENT_STATE_READY).exact
        _, name = ask(Program(served, issue(client, user(client, "Someone"))[0]))
        assert not client.chat.GetAnswer(GetRequest(name=name)).exact


def test_a_checkpoint_without_an_active_release_is_served_as_an_experiment_alone(world: World) -> None:
    spec = DeploymentSpec(checkpoint=world.checkpoint, replicas=2)
    request = CreateDeploymentRequest(name=NAME, spec=spec)
    with world.served.client() as operator:
        for number, standing in enumerate((STANDING_REFUSED, STANDING_STALE, STANDING_REVOKED)):
            release = Release(name=f"releases/r{number}", checkpoint=world.checkpoint, standing=standing)
            world.served.plant("evaluation", release)
            with pytest.raises(Refused) as refused:
                operator.chat.CreateDeployment(request)
            assert refused.value.reason == "NO_RELEASE"
        active = Release(name="releases/active", checkpoint=world.checkpoint, standing=STANDING_ACTIVE)
        world.served.plant("evaluation", active)
        assert operator.chat.CreateDeployment(request).deployment.release == "releases/active"


def test_a_deployment_that_is_stopped_ends_its_replicas_and_can_be_started_again(world: World) -> None:
    _, name = ask(world.programs[0])
    replicas = world.replicas()
    with world.served.client() as operator:
        operator.chat.StopDeployment(StopDeploymentRequest(name=NAME))
        world.settled(operator, NAME, DEPLOYMENT_STATE_STOPPED)
        assert replicas
        assert not any(each.alive() for each in replicas)
        assert world.programs[0].send("POST", "/v1/chat/completions", body())[0] == 404
        with pytest.raises(Unavailable):
            verified(operator, name)
        world.deploy(operator, NAME, world.checkpoint)
        world.settled(operator, NAME, DEPLOYMENT_STATE_READY)
        assert verified(operator, name) == []


def test_a_release_that_is_revoked_while_it_speaks_ends_its_answers_and_refuses_others_with_the_reason(
    world: World,
) -> None:
    releases = ("releases/spoken", "releases/active")
    sent = body(seed=12, max_tokens=240, logit_bias={str(talks.TOKENIZER.eos): -100}, stream=True)
    with world.served.client() as operator:
        operator.chat.StopDeployment(StopDeploymentRequest(name=NAME))
        world.settled(operator, NAME, DEPLOYMENT_STATE_STOPPED)
        for each in releases:
            release = Release(name=each, checkpoint=world.checkpoint, standing=STANDING_ACTIVE)
            world.served.plant("evaluation", release)
        spec = DeploymentSpec(checkpoint=world.checkpoint, replicas=1)
        operator.chat.CreateDeployment(CreateDeploymentRequest(name=NAME, spec=spec))
        assert not world.settled(operator, NAME, DEPLOYMENT_STATE_READY).HasField("stale_since")
        for each in releases:
            world.served.plant("evaluation", Release(name=each, standing=STANDING_STALE))
        await_that(lambda: operator.chat.GetDeployment(GetRequest(name=NAME)).HasField("stale_since"), "the flag")
        assert ask(world.programs[0])
        for each in releases:
            world.served.plant("evaluation", Release(name=each, standing=STANDING_REVOKED))
        while (response := world.programs[0].open("POST", "/v1/chat/completions", sent)).status == 200:
            last = response.read().decode().strip().split("data: ")[-1]
            assert last == "[DONE]" or json.loads(last)["error"]["code"] == "release_withdrawn", last
        assert (response.status, json.loads(response.read())["error"]["code"]) == (409, "release_withdrawn")
        assert "revoked" in world.settled(operator, NAME, DEPLOYMENT_STATE_FAILED).reason
