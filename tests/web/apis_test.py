"""API routes over real HTTP: who may call them, what is refused and how, streams, and clients that leave."""

import asyncio
import http.client
import json
import threading
from collections.abc import AsyncGenerator, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.web.hosted import Hosted, Visitor, hosted
from tests.web.tokens_test import issue, user
from tutti.chassis.config.datadir import pages_in
from tutti.chassis.errors import InvalidField, Unavailable
from tutti.chassis.identity.auth import Role
from tutti.chassis.service import Host, Service
from tutti.web.pages import Api, Ask, Reply, Site

ENGINEERS, ANNOTATORS = frozenset({Role.ENGINEER}), frozenset({Role.ANNOTATOR})
WAIT_SECONDS = 60.0


class Echo:
    """Answers with what it was asked; counts the streams that were closed and the handlers that were cancelled."""

    def __init__(self) -> None:
        self.began, self.left = threading.Event(), threading.Event()

    async def reply(self, ask: Ask) -> Reply:
        if ask.body == "leave":
            await self._forever()
        if ask.body == "unavailable":
            raise Unavailable("the replicas are away")
        if ask.body == "defect":
            raise ZeroDivisionError
        return Reply({"said": ask.body, "user": ask.principal.user}, headers={"x-tutti-answer": "answers/1"})

    async def stream(self, ask: Ask) -> Reply:
        return Reply(self._events(ask.body), headers={"x-tutti-answer": "answers/2"})

    async def _events(self, body: object) -> AsyncGenerator[str, None]:
        try:
            for number in range(3):
                yield json.dumps({"number": number})
            if body == "fail":
                raise Unavailable("no replica is left")
            if body == "leave":
                self.began.set()
                while True:
                    await asyncio.sleep(0.01)
                    yield "{}"
            yield "[DONE]"
        finally:
            self.left.set()

    async def _forever(self) -> None:
        self.began.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.left.set()


def text(body: object) -> object:
    if not isinstance(body, str):
        raise InvalidField("messages", seen=body, expected="a text")
    return body


@pytest.fixture(scope="module")
def echo() -> Echo:
    return Echo()


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory, echo: Echo) -> Iterator[Hosted]:
    routes = [
        Api("/v1/echo", echo.reply, ENGINEERS, "POST", read=text, max_bytes=1000),
        Api("/v1/models", echo.reply, ENGINEERS),
        Api("/v1/stream", echo.stream, ENGINEERS, "POST", read=text),
        Api("/v1/other", echo.reply, ANNOTATORS),
    ]

    def build(host: Host) -> Service:
        return Service(name="toy", resources=[], pages=Site("toy", "tests.web", routes))

    with hosted(tmp_path_factory.mktemp("platform"), builds={"toy": build}) as found:
        yield found


@pytest.fixture(scope="module")
def token(served: Hosted) -> str:
    with served.client() as operator:
        return issue(operator, user(operator, "Program"))[0]


class Program:
    """A client of the API, without a browser's headers."""

    def __init__(self, served: Hosted, token: str) -> None:
        url = pages_in(served.data_dir.path, "toy")
        assert url is not None
        self.address = urlsplit(url).netloc
        self.headers = {"authorization": f"Bearer {token}", "content-type": "application/json"} if token else {}

    def open(self, method: str, path: str, body: bytes = b"") -> http.client.HTTPResponse:
        self.connection = http.client.HTTPConnection(self.address, timeout=WAIT_SECONDS)
        self.connection.request(method, path, body, self.headers)
        return self.connection.getresponse()

    def send(self, method: str, path: str, body: bytes = b"") -> tuple[int, Any, http.client.HTTPResponse]:
        response = self.open(method, path, body)
        said = json.loads(response.read())
        self.connection.close()
        return response.status, said, response


@pytest.fixture
def program(served: Hosted, token: str) -> Program:
    return Program(served, token)


def test_a_call_with_the_token_of_a_user_is_answered_as_json(program: Program) -> None:
    status, said, response = program.send("POST", "/v1/echo", b'"hello"')
    assert (status, said["said"]) == (200, "hello")
    assert said["user"].startswith("users/")
    assert response.headers["x-tutti-answer"] == "answers/1"
    assert program.send("GET", "/v1/models")[1]["said"] is None


def test_nobody_is_let_in_without_a_token_of_a_role_of_the_route(served: Hosted, program: Program) -> None:
    visitor = Visitor(f"http://{program.address}")
    visitor.log_in(served.link())
    assert visitor.cookies
    assert visitor.get("/v1/models").status == 401  # a cookie counts for nothing
    for given in ("", "tutti-user-" + "a" * 43, served.data_dir.tokens().of(Role.OPERATOR)):
        status, said, response = Program(served, given).send("POST", "/v1/echo", b'"hello"')
        assert status == 401
        assert said["error"]["code"] == "unauthenticated"
        assert response.headers["www-authenticate"] == "Bearer"
    status, said, _ = program.send("GET", "/v1/other")
    assert (status, said["error"]["type"]) == (403, "permission_error")


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "param"),
    [
        ("POST", "/v1/echo", b"", 400, None),
        ("POST", "/v1/echo", b"{", 400, None),
        ("POST", "/v1/echo", b"\xff", 400, None),
        ("POST", "/v1/echo", b"NaN", 400, None),
        ("POST", "/v1/echo", b"[" * 900, 400, None),
        ("POST", "/v1/echo", b"7", 400, "messages"),
        ("POST", "/v1/echo", b'"' + b"x" * 2000 + b'"', 413, None),
        ("POST", "/v1/echo", b'"unavailable"', 503, None),
        ("POST", "/v1/echo", b'"defect"', 500, None),
        ("GET", "/v1/echo", b"", 405, None),
        ("POST", "/v1/nothing", b"{}", 404, None),
    ],
)
def test_every_refusal_has_the_body_of_an_api_error(
    program: Program, method: str, path: str, body: bytes, status: int, param: str | None
) -> None:
    seen, said, response = program.send(method, path, body)
    assert seen == status
    assert said["error"].keys() == {"message", "type", "param", "code"}
    assert said["error"]["param"] == param
    assert ("retry-after" in response.headers) == (status == 503)
    assert program.send("POST", "/v1/echo", b'"hello"')[0] == 200  # others are served


def test_a_path_without_a_page_is_answered_with_a_page(program: Program) -> None:
    answer = Visitor(f"http://{program.address}").get("/nothing")
    assert (answer.status, answer.headers["content-type"]) == (404, "text/html; charset=utf-8")
    assert "/nothing" in answer.text


def events(response: http.client.HTTPResponse) -> list[str]:
    lines = response.read().decode().split("\n\n")
    return [line.removeprefix("data: ") for line in lines if line and not line.startswith(":")]


def test_a_stream_has_its_events_in_order(program: Program) -> None:
    response = program.open("POST", "/v1/stream", b'"all"')
    assert response.headers["content-type"].startswith("text/event-stream")
    assert response.headers["x-accel-buffering"] == "no"
    assert response.headers["x-tutti-answer"] == "answers/2"
    assert events(response) == ['{"number": 0}', '{"number": 1}', '{"number": 2}', "[DONE]"]


def test_a_stream_that_fails_ends_with_the_error_and_no_end(program: Program) -> None:
    *_, last = events(program.open("POST", "/v1/stream", b'"fail"'))
    assert json.loads(last)["error"]["code"] == "unavailable"


@pytest.mark.parametrize("path", ["/v1/echo", "/v1/stream"])
def test_a_client_that_leaves_ends_what_it_asked_for(program: Program, echo: Echo, path: str) -> None:
    echo.began.clear()
    echo.left.clear()
    connection = http.client.HTTPConnection(program.address, timeout=WAIT_SECONDS)
    connection.request("POST", path, b'"leave"', program.headers)
    assert echo.began.wait(WAIT_SECONDS)
    connection.close()
    assert echo.left.wait(WAIT_SECONDS)


def test_a_server_that_drains_waits_for_streams(tmp_path: Path, echo: Echo) -> None:
    routes = [Api("/v1/stream", echo.stream, ENGINEERS, "POST", read=text)]

    def build(host: Host) -> Service:
        return Service(name="toy", resources=[], pages=Site("toy", "tests.web", routes))

    with hosted(tmp_path, builds={"toy": build}) as served:
        with served.client() as operator:
            program = Program(served, issue(operator, user(operator, "Program"))[0])
        whole = program.open("POST", "/v1/stream", b'"all"')
        assert whole.status == 200
    assert events(whole)[-1] == "[DONE]"
