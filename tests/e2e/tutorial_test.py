"""The tutorial, as a reader follows it: its files are written, its commands run in their order. Whole in soak."""

import json
import re
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.e2e.command import ROOT, TUTTI, environment, tutti
from tests.faults.processes import family, until
from tests.scale import SOAK
from tests.web.annotation_test import Annotator
from tests.web.hosted import Visitor

pytestmark = [pytest.mark.trains, pytest.mark.timeout(3600 if SOAK else 900)]
PAGE = (ROOT / "docs" / "tutorial.md").read_text()
STEP = re.compile(
    r"^```\w+ (?P<file>\S+)\n(?P<text>.*?)^```$|(?P<commands>(?:^    [^\n]*\n)+)", re.MULTILINE | re.DOTALL
)
TEXTS = sorted((ROOT / "docs").glob("*.md" if SOAK else "[ao]*.md"))
SMALL = (
    "size=tiny",
    "train.steps=2",
    "train.checkpoint_every=2",
    "train.ranks=1",
    "stages.prompts.split.train=0.7",
    "stages.prompts.split.campaign=0.2",
    "stages.prompts.split.final=0.1",
    "stages.tuned.ranks=1",
    "stages.tuned.epochs=1",
    "stages.answers.tokens=8",
    "stages.reward.ranks=1",
    "stages.reward.epochs=1",
    "stages.policy.ranks=1",
    "stages.policy.steps=1",
    "stages.policy.prompts_per_step=4",
    "stages.policy.group=2",
    "stages.policy.tokens=8",
    "stages.before.tokens=8",
    "stages.after.tokens=8",
)
"""Settings that make the recipe of the page small."""
LEAST_PAIRS = 20
"""How many pairs the page asks its reader to judge."""


@dataclass
class Reader:
    """Follows the page in a folder. `known` are the names of resources that the page calls ID."""

    folder: Path
    known: dict[str, str] = field(default_factory=dict)
    ran: list[str] = field(default_factory=list)

    def write(self, name: str, text: str) -> None:
        """Write a file of the page, or append a further part to it."""
        with (self.folder / name).open("a") as file:
            file.write(text)

    def run(self, command: str) -> None:
        """Run a command, and do what the page asks for after it."""
        for example, name in self.known.items():
            command = command.replace(example, name)
        words = shlex.split(command)
        self.ran.append(" ".join(words[:3]))
        if words[0] == "python":
            subprocess.run([sys.executable, *words[1:]], cwd=self.folder, check=True)
        elif words[1] in ("up", "down"):  # a supervisor must not be a child of this process
            subprocess.run([TUTTI, *words[1:]], cwd=self.folder, check=True, env=environment())
        else:
            self.tutti(*words[1:])
        if words[1:3] == ["runs", "show"]:
            stages = json.loads(self.answer("runs", "show", "-o", "json"))["stages"]
            (self.known["samples/ID"],) = (each["resource"] for each in stages if each["name"] == "answers")
        elif words[1:3] == ["releases", "ls"]:
            self.known["releases/ID"] = json.loads(self.answer("releases", "ls", "-o", "json"))[0]["name"]
        elif words[1:3] == ["campaigns", "close"]:
            until(lambda: self.state() == "published", seconds=300, what="the judgements")

    def tutti(self, *words: str) -> str:
        if words[:2] == ("campaigns", "invite"):
            until(lambda: self.state() != "draft", seconds=120, what="the pairs")
            (invited,) = json.loads(self.answer(*words, "-o", "json"))
            self.judge(invited["url"])
            return ""
        if words[-1] != "mine.yaml":
            return self.answer(*words)
        return self.answer(*words, *(part for each in self.overrides() for part in ("--set", each)))

    def answer(self, *words: str) -> str:
        result = tutti(*words, extra={"BROWSER": "true"})
        assert result.code == 0, result.err
        return result.out

    def overrides(self) -> Iterator[str]:
        """The small settings of the stages that the recipe has by now."""
        recipe = (self.folder / "mine.yaml").read_text()
        for each in () if SOAK else SMALL:
            stage = each.split(".")[1] if each.startswith("stages.") else ""
            if not stage or re.search(rf"^  {stage}:", recipe, re.MULTILINE):
                yield each

    def state(self) -> str:
        return str(json.loads(self.answer("campaigns", "show", "people", "-o", "json"))["state"])

    def judge(self, url: str) -> None:
        """Open the link of an invitation, as a browser does, and judge some pairs."""
        base, _, rest = url.partition("/login/")
        token, _, page = rest.partition("?next=")
        visitor = Visitor(base)
        assert visitor.get(f"/login/{token}").status == 200
        assert visitor.post("/login", {"token": token, "next": page}).headers["location"] == page
        annotator, judged = Annotator(visitor, campaign="people"), 0
        annotator.state()
        while judged < LEAST_PAIRS and (pairs := annotator.lease()):
            judged += len(annotator.judge(*pairs).json["accepted"])
        assert judged >= LEAST_PAIRS


def test_a_reader_comes_from_texts_to_a_judged_policy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "texts").mkdir()
    for path in TEXTS:
        shutil.copy(path, tmp_path / "texts")
    reader, began = Reader(tmp_path), time.monotonic()
    try:
        for step in STEP.finditer(PAGE):
            if step["file"]:
                reader.write(step["file"], step["text"])
            for command in (step["commands"] or "").replace("\\\n", " ").splitlines():
                if command.strip():
                    reader.run(command.strip())
    finally:
        subprocess.run([TUTTI, "down"], cwd=tmp_path, check=False, env=environment())
    print(f"count: the tutorial took {(time.monotonic() - began) / 60:.0f} minutes")
    assert {"tutti up --detach", "tutti run mine.yaml", "python prompts.py texts", "tutti down"} <= set(reader.ran)
    assert (tmp_path / "policy" / "model.safetensors").exists()
    assert family(tmp_path / ".tutti") == []
