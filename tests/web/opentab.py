"""An annotator's tab as its HTTP calls, for later releases: what a release answered, and what was not sent yet.

Promises: recorded by the code of the release itself, in a data directory of its own, whose tokens are those below and
open nothing else: `python -m tests.web.opentab VERSION` writes `tests/web/releases/VERSION.tar.xz` and `.json`.
"""

import json
import socket
import sys
import tarfile
import tempfile
import time
from pathlib import Path
from typing import Any

from tools.fixture import nobody

from tests.web.annotation_test import CAMPAIGN, JUDGEMENTS, LEASES, invited, opened
from tests.web.hosted import hosted
from tutti.annotation.conftest import judgement_id, spec
from tutti.annotation.service import build
from tutti.chassis.config.datadir import DataDir
from tutti.chassis.identity.auth import HELD, Tokens
from tutti.contracts.annotation.v1 import Overlap

FOLDER = Path(__file__).parent / "releases"
KEPT = ("version", "tokens", "db", "log", "blobs")
PAIRS, FIRST, UNSENT = 8, 2, 3
"""Pairs of the campaign; how many the tab judged and sent, and how many it judged since."""


def judgement(pair: str, guideline: str, score: int, **more: object) -> dict[str, object]:
    """A judgement as the tab sends it."""
    said = {"id": judgement_id("tab", pair, score), "pair": pair, "guideline": guideline, "kind": "judged"}
    return {**said, "answers": {"helpful": score}, "shown_ms": 4000, **more}


def record(folder: Path, version: str) -> None:
    """Play a tab and keep what it leaves."""
    with tempfile.TemporaryDirectory() as work:
        path = Path(work) / "data"
        tokens = Tokens({role: f"tutti-{role.value}-of-a-recorded-tab" for role in HELD})
        DataDir(path).write_private("tokens", tokens.text().encode())
        with hosted(path, builds={"annotation": build}) as served:
            opened(served, spec(pairs=PAIRS, overlap=Overlap(least=1, most=1)))
            tab = invited(served, "ada")
            state = tab.state().json
            leases = tab.send(LEASES, {"campaign": CAMPAIGN, "count": FIRST + UNSENT}).json
            guideline, pairs = state["guideline"]["version"], [each["id"] for each in leases["pairs"]]
            sent = [judgement(each, guideline, 1) for each in pairs[:FIRST]]
            receipt = tab.send(JUDGEMENTS, {"campaign": CAMPAIGN, "judgements": sent}).json
            assert len(receipt["accepted"]) == FIRST
            words = {"id": judgement_id("tab", "message"), "words": "May I skip pairs?"}
            messages = tab.send("/annotation/api/messages", {"campaign": CAMPAIGN, **words}).json
            undone = judgement(pairs[1], guideline, -2, supersedes=sent[1]["id"])
            made = [judgement(each, guideline, 2, comment="I am sure") for each in pairs[FIRST:]]
            found: dict[str, Any] = {
                "recorded": time.time(),
                "agent": tab.visitor.agent,
                "cookies": tab.visitor.cookies,
                "form_token": tab.token,
                "answers": {"state": state, "leases": leases, "judgements": receipt, "messages": messages},
                "sent": sent,
                "unsent": [sent[0], undone, *made],  # the answer to the first of them was lost
            }
        (folder / f"{version}.json").write_text(json.dumps(found, indent=1) + "\n")
        with tarfile.open(folder / f"{version}.tar.xz", "w:xz", preset=9) as archive:
            for name in KEPT:
                archive.add(
                    path / name, name, filter=lambda entry: None if entry.name.endswith(".lock") else nobody(entry)
                )


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    socket.gethostname = lambda: "recorder"
    record(FOLDER, sys.argv[1])
