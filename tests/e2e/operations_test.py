"""The commands of the pages for operators, run as they are written, page by page, on a platform with one run."""

import json
import os
import re
import shutil
import socket
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.e2e.command import ROOT, TUTTI, environment
from tests.scale import SOAK

pytestmark = [
    pytest.mark.trains,  # by commands of the pages
    pytest.mark.timeout(900),
    pytest.mark.skipif(not SOAK, reason="a soak row; tests/contracts/docs_test.py looks every command up"),
]
PAGES = ("operations", *(f"operations/{page}" for page in ("access", "capacity", "disaster", "telemetry", "upgrade")))
ELSEWHERE = {
    "tutti status --address tutti.example:7600 --tls-ca ca.pem": "another machine; tests/e2e/secured_test.py uses TLS",
}
BLOCK = re.compile(r"(?:^    .*\n)+", re.MULTILINE)
ENDLESS = re.compile(r" (-f|-w|--follow)( |$)|^tutti up(?!.*--detach)")
"""What goes on until Ctrl-C."""
ENDLESS_SECONDS = 15
STOPPED = 124
"""The code of `timeout` for a program that it had to stop."""
UP, CHANGES = re.compile(r"^(\w+=\S+ )?tutti up"), re.compile(r"^tutti (up|down|migrate)|^\w+=\S+ tutti up")


def blocks(page: str) -> list[list[str]]:
    """The commands of each block without their comments; those of other programs are left out."""
    found = []
    for block in BLOCK.findall((ROOT / "docs" / f"{page}.md").read_text()):
        lines = [re.sub(r"\s+#( .*)?$", "", line.strip()) for line in block.splitlines()]
        found.append([line for line in lines if re.match(r"(\w+=\S+ )?tutti ", line) and line not in ELSEWHERE])
    return [block for block in found if block]


@dataclass
class Console:
    """A shell in a folder whose `.tutti` is the data directory; `known` replaces the examples of the pages."""

    folder: Path
    known: dict[str, str] = field(default_factory=dict)

    def run(self, command: str, *, codes: tuple[int, ...] = (0,)) -> str:
        for example, name in self.known.items():
            command = re.sub(rf"(?<![\w-]){re.escape(example)}(?![\w-])", name, command)
        if found := re.search(r" --to (\S+)", command):
            shutil.rmtree(self.folder / found[1], ignore_errors=True)  # another example wrote there
        endless = ENDLESS.search(command) is not None
        words = ["timeout", "--signal=INT", "--kill-after=60", str(ENDLESS_SECONDS)] if endless else []
        path = f"{Path(TUTTI).parent}{os.pathsep}{os.environ['PATH']}"
        done = subprocess.run(
            [*words, "bash", "-euo", "pipefail", "-c", command],
            cwd=self.folder,
            env=environment({"PATH": path, "BROWSER": "true"}),
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert done.returncode in ((STOPPED,) if endless else codes), f"{command}: {done.returncode}\n{done.stderr}"
        return done.stdout

    def listed(self, plural: str) -> str:
        """The first name of a list."""
        return str(json.loads(self.run(f"tutti {plural} ls -o json"))[0]["name"])


@pytest.fixture
def console(tmp_path: Path, pages: Path) -> Iterator[Console]:
    (tmp_path / "recipes").symlink_to(ROOT / "recipes")
    made = Console(tmp_path)
    made.run("tutti up --detach")
    try:
        made.run(f"tutti run recipes/tiny.yaml --set input.path={pages}")
        made.run("tutti users add Somebody --role engineer")
        run, job, user = made.listed("runs"), made.listed("jobs").removeprefix("jobs/"), made.listed("users")
        dataset, tokenizer = made.listed("datasets"), made.listed("tokenizers")
        made.run(f"tutti checkpoints export {job}/0/20 --format hf --to other")
        made.run(f"tutti datasets export {run} --to kept")
        (tmp_path / "texts").mkdir()
        (tmp_path / "texts" / "one.txt").write_text("A text that is long enough for a tokenizer.\n" * 20)
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        made.known = {
            **dict.fromkeys(("runs/NAME", "runs/ID", "RUN", "runs/a0988177a04f-1"), run),
            **dict.fromkeys(("datasets/ID", "datasets/NAME"), dataset),
            **{"runs/TITLE": "runs/tiny", "job=words": "job=tiny", "tokenizers/ID": tokenizer, "JOB": job},
            **{"SERVICE": "dedup", "7000": str(port)},
            "users/u2607c6b0da92696202f": user,
        }
        yield made
    finally:
        for folder in (".tutti", "restored"):
            made.run(f"tutti down --data-dir {folder}", codes=(0, 1, 3))


@pytest.mark.parametrize("page", PAGES)
def test_every_command_of_a_page_does_what_it_says(console: Console, page: str) -> None:
    for block in blocks(page):
        is_up = not CHANGES.match(block[0])
        console.run("tutti down", codes=(0, 1, 3))
        if is_up:
            console.run("tutti up --detach")
        for command in block:
            if UP.match(command) and "--data-dir" not in command:
                console.run("tutti down", codes=(0, 1, 3))
            told = console.run(command)
            if UP.match(command) and ENDLESS.search(command):
                console.run("tutti up --detach")  # Ctrl-C has stopped it
            if command.startswith("tutti token create"):
                console.known["3f9a0c1d2e4b5a67"] = json.loads(console.run("tutti token ls -o json"))[-1]["id"]
            if command == "tutti stack show":
                (console.known["ID"],) = set(re.findall(r"[0-9a-f]{8}-[0-9a-f-]{27}|[0-9a-f]{32}", told))
