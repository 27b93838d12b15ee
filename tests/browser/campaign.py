"""A campaign in a process of its own, for tests that stop and kill it while somebody judges in a browser.

Promises: services, databases, sessions, the HTTP server and the settings are those of a platform that nobody has
configured.
"""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.web.hosted import hosted
from tutti.annotation.service import build
from tutti.chassis.config.datadir import pages_in
from tutti.client import connect
from tutti.contracts.access.v1 import CreateUserRequest, IssueLinkRequest
from tutti.contracts.annotation.v1 import (
    CAMPAIGN_STATE_DRAFT,
    CROWD_PEOPLE,
    Axis,
    CampaignSpec,
    CreateCampaignRequest,
    InviteAnnotatorRequest,
    Overlap,
    Qualification,
)
from tutti.contracts.common.v1 import GetRequest
from tutti.contracts.options.v1 import ROLE_ANNOTATOR
from tutti.web.tokens import digest, new_token

GUIDELINE = "# What helps\n\nPrefer the answer that *helps* more.\n\n- It is true.\n- It is short.\n"
STARTED = "started"
WAIT_SECONDS = 180.0


def pair_lines(count: int, *, first: int = 0) -> str:
    """Ordinary pairs as JSON lines."""
    return "".join(
        json.dumps(
            {
                "prompt": [
                    {"role": "user", "content": f"Earlier question {number}?"},
                    {"role": "assistant", "content": "An earlier answer."},
                    {"role": "user", "content": f"Question {number}?"},
                ],
                "answers": [f"The *first* answer to {number}.\n\n- one\n- two", f"Another answer to {number}, longer."],
            }
        )
        + "\n"
        for number in range(first, first + count)
    )


@dataclass
class CampaignServer:
    """A process that serves annotation."""

    data_dir: Path
    process: subprocess.Popen[str] | None = None
    users: dict[str, str] = field(default_factory=dict)

    @property
    def url(self) -> str:
        found = pages_in(self.data_dir, "annotation")
        assert found is not None
        return found

    def start(self) -> None:
        command = [sys.executable, "-m", "tests.browser.campaign", str(self.data_dir)]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        assert self.process.stdout.readline().strip() == STARTED

    def stop(self) -> None:
        """Drain it, as `tutti down` does, and await its end."""
        assert self.process is not None
        self.process.terminate()
        assert self.process.wait(WAIT_SECONDS) == 0

    def kill(self) -> None:
        """SIGKILL, and its end is awaited."""
        assert self.process is not None
        self.process.kill()
        self.process.wait(WAIT_SECONDS)

    def suspend(self) -> None:
        assert self.process is not None
        self.process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        assert self.process is not None
        self.process.send_signal(signal.SIGCONT)

    def restart(self) -> None:
        self.kill()
        self.start()

    def link(self, user: str) -> str:
        """The token of a login link for a user, who is created when it is first asked for."""
        token = new_token()
        with connect(self.data_dir) as client:
            if user not in self.users:
                request = CreateUserRequest(request_id=user, display_name=user, roles=[ROLE_ANNOTATOR])
                self.users[user] = client.access.CreateUser(request).user.name
            client.access.IssueLink(IssueLinkRequest(link_digest=digest(token), user=self.users[user]))
        return token

    def operator_link(self) -> str:
        """The token of a login link for whoever runs the platform."""
        token = new_token()
        with connect(self.data_dir) as client:
            client.access.IssueLink(IssueLinkRequest(link_digest=digest(token)))
        return token

    def campaign(self, name: str, *annotators: str, pairs: str, wait: float = WAIT_SECONDS, **changes: Any) -> str:
        """Create a campaign of people with these annotators; its id, when it is open."""
        spec: dict[str, Any] = {
            "pairs": pairs,
            "guideline": GUIDELINE,
            "axes": [Axis(name="helpful", rule="Which answer helps more?")],
            "crowd": CROWD_PEOPLE,
            "overlap": Overlap(least=len(annotators), most=len(annotators)),
            "controls": 0.0,
            "qualification": Qualification(),
        }
        full = f"campaigns/{name}"
        for each in annotators:
            self.link(each)
        with connect(self.data_dir) as client:
            asked = CreateCampaignRequest(request_id=name, name=full, spec=CampaignSpec(**{**spec, **changes}))
            client.annotation.CreateCampaign(asked)
            waiting = threading.Event()
            for _ in range(int(wait / 0.05)):
                found = client.annotation.GetCampaign(GetRequest(name=full))
                if found.state != CAMPAIGN_STATE_DRAFT:
                    break
                waiting.wait(0.05)
            for each in annotators:
                invited = InviteAnnotatorRequest(request_id=f"{name}/{each}", campaign=full, user=self.users[each])
                client.annotation.InviteAnnotator(invited)
        return name


@contextlib.contextmanager
def campaign_server(data_dir: Path) -> Iterator[CampaignServer]:
    server = CampaignServer(data_dir)
    server.start()
    try:
        yield server
    finally:
        server.resume()
        server.kill()


def main() -> None:
    signal.signal(signal.SIGTERM, lambda number, frame: None)  # it ends the pause
    with hosted(Path(sys.argv[1]), builds={"annotation": build}):
        print(STARTED, flush=True)
        signal.pause()


if __name__ == "__main__":
    main()
