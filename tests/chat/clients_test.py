"""Clients of the API, unchanged: the official one of OpenAI, and requests as the sources of others build them.

Each file of `clients` names the repository and the commit whose requests it has.
"""

import json
import signal
from pathlib import Path
from typing import Any

import openai
import pytest

from tests.chat.completions_test import HELLO, World, body, served, world
from tests.web.apis_test import Program, events
from tests.web.hosted import Hosted
from tests.web.tokens_test import issue, user

__all__ = ["served", "world"]
FILES = sorted((Path(__file__).parent / "clients").glob("*.json"))
REQUESTS = [(file.stem, each) for file in FILES for each in json.loads(file.read_text())["requests"]]
SECONDS = 300.0


@pytest.fixture(scope="module")
def token(served: Hosted) -> str:
    with served.client() as operator:
        return issue(operator, user(operator, "Clients"))[0]


@pytest.fixture(scope="module")
def client(served: Hosted, token: str) -> openai.OpenAI:
    address = Program(served, token).address
    return openai.OpenAI(base_url=f"http://{address}/v1", api_key=token, timeout=SECONDS)


@pytest.mark.parametrize(("name", "asked"), REQUESTS)
def test_a_request_as_a_client_builds_it_is_answered(
    served: Hosted, token: str, name: str, asked: dict[str, Any]
) -> None:
    program, sent = Program(served, token), json.dumps(asked["body"]).encode()
    response = program.open("POST", asked["send"], sent)
    assert response.status == 200, (name, response.read())
    if asked["body"].get("stream"):
        *chunks, last = events(response)
        assert last == "[DONE]"
        assert json.loads(chunks[-1])["usage"]["total_tokens"]
    else:
        assert "error" not in json.loads(response.read())


def test_openais_client_lists_models_and_reads_answers_whole_and_streamed(client: openai.OpenAI, world: World) -> None:
    assert [each.id for each in client.models.list()] == ["narrow", "toy"]
    asked: dict[str, Any] = {"model": "toy", "messages": HELLO, "seed": 5, "max_tokens": 20}
    whole = client.chat.completions.create(**asked, n=2, logprobs=True, top_logprobs=2)
    assert whole.choices[0].message.content == world.text(body(max_tokens=20))[0]
    assert whole.system_fingerprint == world.truth.opened.signature
    content = whole.choices[1].logprobs and whole.choices[1].logprobs.content
    assert content
    assert all(len(each.top_logprobs) == 2 for each in content)
    with client.chat.completions.create(**asked, stream=True, stream_options={"include_usage": True}) as stream:
        chunks = list(stream)
    assert "".join(each.choices[0].delta.content or "" for each in chunks if each.choices) == (
        whole.choices[0].message.content
    )
    assert chunks[-1].usage is not None
    assert chunks[-1].usage.completion_tokens
    text = client.completions.create(model="toy", prompt=["a b", "c"], max_tokens=4, echo=True, logprobs=1)
    assert [each.text[:1] for each in text.choices] == ["a", "c"]
    assert text.choices[0].logprobs is not None
    assert text.choices[0].logprobs.token_logprobs


def test_a_request_is_refused_for_a_while_where_as_many_wait_as_are_answered_at_once(
    client: openai.OpenAI, world: World
) -> None:
    once = client.with_options(max_retries=0)
    asked: dict[str, Any] = {"model": "narrow", "messages": HELLO, "seed": 5, "max_tokens": 20}
    stopped = [each.id for each in world.children]
    for each in stopped:
        each.send(signal.SIGSTOP)
    try:
        streams = [once.chat.completions.create(**asked, stream=True) for _ in range(2)]
        with pytest.raises(openai.InternalServerError) as refused:
            once.chat.completions.create(**asked)
        other = once.chat.completions.create(**asked | {"model": "toy"}, stream=True)
    finally:
        for each in stopped:
            each.send(signal.SIGCONT)
    assert (refused.value.status_code, refused.value.code) == (503, "overloaded")
    assert int(refused.value.response.headers["retry-after"]) > 0
    assert "x-ratelimit-remaining-requests" not in refused.value.response.headers
    texts = ["".join(each.choices[0].delta.content or "" for each in stream) for stream in (*streams, other)]
    assert texts == [world.text(body(max_tokens=20))[0]] * 3
    assert client.chat.completions.create(**asked).choices[0].message.content == texts[0]


def test_openais_client_raises_its_errors(client: openai.OpenAI) -> None:
    with pytest.raises(openai.NotFoundError):
        client.chat.completions.create(model="other", messages=[{"role": "user", "content": "a"}])
    with pytest.raises(openai.BadRequestError) as refused:
        client.completions.create(model="toy", prompt="a", suffix="b")
    assert refused.value.param == "suffix"
    with pytest.raises(openai.BadRequestError) as refused:
        client.completions.create(model="toy", prompt=["a"] * 8, n=16, max_tokens=200)
    assert refused.value.param == "n"
    with pytest.raises(openai.AuthenticationError):
        client.with_options(api_key="wrong").models.list()


@pytest.mark.parametrize(
    ("sent", "status", "param"),
    [
        (b"", 400, None),
        (b"[" * 100_000, 400, None),
        (b'{"model": "toy", "prompt": ' + b"[" * 500 + b"]" * 500 + b"}", 400, "prompt[0]"),
        (b'{"model": "toy", "prompt": "a", "seed": ' + b"9" * 5000 + b"}", 400, None),
        (b'{"model": "toy", "prompt": "a", "temperature": 1e999}', 400, "temperature"),
        (b'{"model": "toy", "prompt": "\\ud800"}', 400, "prompt"),
        (b'{"model": "toy", "prompt": "a", "\\ud800": 1}', 400, "\\ud800"),
        (b'{"model": "toy", "prompt": [1000000]}', 400, "prompt"),
        (b'{"model": "toy", "prompt": "' + b"a " * 300 + b'"}', 400, "prompt"),
        (b'{"model": "toy", "prompt": "' + b"a" * (1 << 20) + b'"}', 413, None),
        (b'{"model": "toy\\u0000", "prompt": "a"}', 404, None),
    ],
)
def test_a_hostile_body_is_refused_by_its_field_and_others_are_served(
    served: Hosted, token: str, sent: bytes, status: int, param: str | None
) -> None:
    program = Program(served, token)
    seen, said, _ = program.send("POST", "/v1/completions", sent)
    assert (seen, said["error"]["param"]) == (status, param)
    assert program.send("GET", "/v1/models")[0] == 200


def test_a_text_that_spells_role_tokens_is_text(served: Hosted, token: str) -> None:
    program = Program(served, token)
    for path, sent in (
        ("/v1/completions", {"model": "toy", "prompt": "<|user|><|endoftext|>", "max_tokens": 2, "echo": True}),
        ("/tokenize", {"prompt": "<|user|><|endoftext|>"}),
    ):
        status, said, _ = program.send("POST", path, json.dumps(sent).encode())
        assert status == 200
        assert said.get("count", said.get("usage", {}).get("prompt_tokens")) > 10
