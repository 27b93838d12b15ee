"""Follow an event in docs/architecture.md: the files that it names are those that the event really takes.

A profile counts: between the commit of the last checkpoint and the end of the job, which files of the committer and of
the scheduler, and of the libraries below them, have a function that was executed.
"""

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from tests.simulation.story import BESIDE, CALM, CALM_NODES, MAIN, Story, write_pages

ROOT = Path(__file__).resolve().parents[2]
SOURCES = (f"{ROOT}/services/tutti/", f"{ROOT}/libs/tutti/")
BELOW = ("chassis/", "backbone/", "contracts/", "simulation/")
RELEASE, HANDLER, ADVANCE = "Commits._release", "Driver.on_checkpoint", "Driver.advance"
LAST = "Driver._end"
MOST = 11


class Profile:
    """The files executed below the calls that carry the event, from the newest release on, until the job is ended."""

    def __init__(self) -> None:
        self.files: set[str] = set()
        self._depth, self._ended = 0, False

    def __call__(self, frame: FrameType, event: str, argument: object) -> None:
        code = frame.f_code
        source = next((each for each in SOURCES if code.co_filename.startswith(each)), None)
        if source is None or self._ended:
            return
        file = code.co_filename.removeprefix(source)
        carries = code.co_qualname in (RELEASE, HANDLER, ADVANCE) and not file.startswith("pipeline/")
        if event == "call":
            if code.co_qualname == RELEASE and not self._depth:
                self.files.clear()
            self._depth += carries
            if self._depth and not file.startswith(BELOW):
                self.files.add(file)
        elif event == "return":
            self._depth -= carries
            self._ended = code.co_qualname == LAST


@contextmanager
def profiled() -> Iterator[Profile]:
    profile: Any = Profile()
    before = sys.getprofile()
    sys.setprofile(profile)
    try:
        yield profile
    finally:
        sys.setprofile(before)


@pytest.fixture(scope="module")
def executed(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    pages = tmp_path_factory.mktemp("pages")
    write_pages(pages)
    story = Story("followed", BESIDE, pages, rates=CALM, node_rates=CALM_NODES)
    try:
        story.platform.add_node("a")
        story.create(MAIN, story.script)
        with profiled() as profile:
            story.until_ended(MAIN)
    finally:
        story.close()
    return profile.files


def named() -> set[str]:
    section = (ROOT / "docs/architecture.md").read_text().split("## Follow an event")[1].split("\n## ")[0]
    return set(re.findall(r"`services/tutti/([a-z/]+\.py)`", section))


def test_the_walkthrough_names_the_files_that_are_executed(executed: set[str]) -> None:
    assert executed == named()


def test_eleven_files_suffice(executed: set[str]) -> None:
    assert len(executed) <= MOST, sorted(executed)
