"""Many seeds of the real platform: every service, real agents, simulated ranks, every fault; one story.

What each seed leaves is compared with a calm one; and each safeguard is missed when it is taken out.
"""

import json
import logging
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.scale import SOAK, scale
from tests.simulation.platform import RATES, NodeFault
from tests.simulation.story import CALM, CALM_NODES, Played, Story, write_pages
from tutti.chassis.catalog import every_event
from tutti.chassis.simulation import Control, Fault, SimulationFailed

SEEDS = 16
SOAK_SEEDS = 3000
TRIES = 12


@dataclass(frozen=True)
class Stage:
    """The pages, and by name the canonical lines of a calm seed: without the cancelled run, and those that only it
    can add."""

    pages: Path
    expected: dict[str, str]
    optional: frozenset[str]

    def play(self, seed: int, *, control: Control | None = None) -> Played:
        """One seed to its end, examined and compared. Raises SimulationFailed."""
        story = Story(seed, self.pages, control=control, replicas=1 + (seed % 5 == 0))
        try:
            story.tell()
            story.settle(lambda lines: self.differences(lines, story) == [])
            played = story.played()
            differ = self.differences(played.export, story)
        finally:
            story.close()
        if differ:
            raise SimulationFailed(f"seed {seed}: the canonical state differs from a calm seed's: {differ[0]}")
        return played

    def complaint(self, seed: int, control: Control) -> str:
        """What is wrong with a seed that lacks a safeguard; empty when it was not missed."""
        try:
            self.play(seed, control=control)
        except SimulationFailed as failed:
            return str(failed)
        return ""

    def differences(self, lines: tuple[str, ...], story: Story) -> list[str]:
        """What differs from a calm seed, in words."""
        seen = {name: line for name, line in by_name(lines).items() if name not in self.optional}
        expected = {
            name: line for name, line in self.expected.items() if story.reshaped or not name.startswith("transitions/")
        }
        names = sorted(name for name in seen.keys() | expected.keys() if seen.get(name) != expected.get(name))
        return [f"seen {seen.get(name, 'nothing')}, expected {expected.get(name, 'nothing')}" for name in names]


def by_name(lines: tuple[str, ...]) -> dict[str, str]:
    return {json.loads(line)["name"]: line for line in lines}


def play_calmly(pages: Path, *, others: bool) -> dict[str, str]:
    story = Story("calm", pages, rates=CALM, node_rates=CALM_NODES)
    try:
        story.tell(others=others, cancels=False)
        story.settle(lambda lines: True)
        return by_name(story.played().export)
    finally:
        story.close()


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    # What agents and the committer say of each injected fault would be thousands of lines.
    logging.disable(logging.ERROR)
    pages = tmp_path_factory.mktemp("pages")
    write_pages(pages)
    main = play_calmly(pages, others=False)
    whole = play_calmly(pages, others=True)
    yield Stage(pages, main, frozenset(whole.keys() - main.keys()))
    logging.disable(logging.NOTSET)


@pytest.mark.timeout(7200 if SOAK else 600)
def test_the_platform_comes_to_the_same_end_under_any_seed(stage: Stage, capsys: pytest.CaptureFixture[str]) -> None:
    faults: Counter[Fault | NodeFault] = Counter()
    events: Counter[str] = Counter()
    turns, seeds = 0, scale(test=SEEDS, soak=SOAK_SEEDS)
    for seed in range(seeds):
        played = stage.play(seed)
        faults += played.faults
        faults += played.node_faults
        events += played.events
        turns += played.turns
    with capsys.disabled():
        print(f"\n{seeds} seeds of the real platform, {turns} turns, {events.total()} distinct events:")
        for event in every_event():
            print(f"  {events[event.type]:6} {event.type}")
        print(f"{faults.total()} faults:")
        for fault in (*Fault, *NodeFault):
            print(f"  {faults[fault]:6} {fault.name.lower()}: {fault.value}")
    assert not [event.type for event in every_event() if not events[event.type]]
    assert not [fault.name for fault in (*RATES, *NodeFault) if faults[fault] < seeds / 3]


@pytest.mark.parametrize(
    ("control", "finding"),
    [
        (Control.INBOX_OFF, r"took \S+ \d times"),
        (Control.RELAY_BEFORE_COMMIT, "was published and never committed"),
        (Control.MARK_BEFORE_PUBLISH, "was committed and never published"),
    ],
    ids=["inbox_off", "relay_before_commit", "mark_before_publish"],
)
@pytest.mark.timeout(600)
def test_a_safeguard_of_the_platform_that_is_taken_out_is_missed(stage: Stage, control: Control, finding: str) -> None:
    found = next((words for seed in range(TRIES) if (words := stage.complaint(seed, control))), "nothing")
    assert re.search(finding, found), f"{TRIES} seeds, in which {control.value}: {found}"


def test_a_seed_of_the_platform_repeats_itself(stage: Stage) -> None:
    assert stage.play(2).trace == stage.play(2).trace
