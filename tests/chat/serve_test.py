"""`tutti serve` on a platform of processes: ready, asked over HTTP, its host killed, verified, stopped."""

import json
import os
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psutil
import pytest

from tests.chat.platforms import CHAT_BUILDS, planted
from tests.chat.replicas import await_that
from tests.e2e.command import platform, tutti
from tests.faults.processes import named
from tests.web.hosted import hosted

TRIED = ("--experimental", "--deadline", "600")
MESSAGES = [{"role": "user", "content": "a b c"}]


@dataclass
class Served:
    data_dir: Path
    checkpoint: str
    told: dict[str, Any]
    token: str

    def ask(self) -> tuple[str, str]:
        """The text of an answer, and the name of its record."""
        url = urlsplit(self.told["base_url"])
        connection = HTTPConnection(url.netloc, timeout=300)
        sent = json.dumps({"model": self.told["model"], "messages": MESSAGES, "seed": 3, "max_tokens": 40})
        headers = {"authorization": f"Bearer {self.token}", "content-type": "application/json"}
        connection.request("POST", f"{url.path}/chat/completions", sent, headers)
        response = connection.getresponse()
        said = json.loads(response.read())
        connection.close()
        assert response.status == 200, said
        return said["choices"][0]["message"]["content"], response.headers["x-tutti-answer"]

    def shown(self) -> Any:
        return tutti("deployments", "show", self.told["deployment"], "--data-dir", self.data_dir, "-o", "json").json()

    def replicas(self) -> list[psutil.Process]:
        return named(self.data_dir, "tutti.chat.replica")

    def kill_host(self) -> None:
        children = json.loads((self.data_dir / "processes.json").read_text())["children"]
        (pid,) = [each["pid"] for each in children if each["name"] == "host"]
        os.kill(pid, signal.SIGKILL)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    data_dir = tmp_path_factory.mktemp("platform")
    with hosted(data_dir, builds=CHAT_BUILDS) as prepared:
        checkpoint = planted(prepared)
    with platform(data_dir, agents=0):
        done = tutti("serve", checkpoint, "--detach", "-o", "json", "--data-dir", data_dir, *TRIED)
        assert done.code == 0, done.err
        issued = tutti("token", "create", "--role", "engineer", "-o", "json", "--data-dir", data_dir)
        yield Served(data_dir, checkpoint, done.json(), issued.json()["token"])


def test_what_serves_answers_and_each_answer_is_verified(served: Served) -> None:
    assert {"deployment", "base_url", "model", "state"} <= served.told.keys()
    assert served.told["state"] == "ready"
    assert served.told["base_url"].endswith("/v1")
    text, name = served.ask()
    verified = tutti("answers", "verify", name, "-o", "json", "--data-dir", served.data_dir)
    assert verified.code == 0, verified.err
    assert (verified.json()["equal"], verified.json()["differs"]) == (True, [])
    assert verified.json()["bytes"] == len(text.encode())


def test_an_answer_is_traced_to_the_checkpoint_that_answered(served: Served) -> None:
    _, name = served.ask()

    def parents() -> list[str]:
        traced = tutti("trace", name, "-o", "json", "--data-dir", served.data_dir)
        return [each["parent"] for each in traced.json()["edges"]] if traced.code == 0 else []

    await_that(lambda: served.checkpoint in parents(), "the graph to have the answer")


def test_replicas_end_with_a_host_that_is_killed_and_are_started_by_the_next_one(served: Served) -> None:
    before, text = served.replicas(), served.ask()[0]
    assert len(before) == 1
    served.kill_host()
    await_that(lambda: not {each.pid for each in before} & {each.pid for each in served.replicas()}, "it to end", 60)
    again = tutti("serve", served.checkpoint, "--detach", "-o", "json", "--data-dir", served.data_dir, *TRIED)
    assert again.code == 0, again.err
    assert again.json() == served.told
    assert served.ask()[0] == text


def test_a_checkpoint_that_cannot_be_served_is_an_error_of_the_command(served: Served) -> None:
    where = ("--detach", "--data-dir", served.data_dir)
    for checkpoint, more, words in (
        ("checkpoints/nothing/0/1", ("--experimental",), "checkpoints/nothing/0/1"),
        (served.checkpoint, (), "--experimental"),
        (served.checkpoint, ("--experimental", "--name", "late", "--deadline", "1"), "deployments/late"),
    ):
        done = tutti("serve", checkpoint, *more, *where)
        assert done.code == 1
        assert words in done.err
    assert tutti("deployments", "stop", "late", "--data-dir", served.data_dir).code == 0


def test_a_deployment_is_stopped_by_its_name(served: Served) -> None:
    name = served.told["model"]
    stopped = tutti("deployments", "stop", name, "-o", "json", "--data-dir", served.data_dir)
    assert stopped.json()["state"] == "stopped"
    assert served.replicas() == []
    assert served.shown()["state"] == "stopped"
