"""Many seeds of the real platform: every service, real agents, simulated ranks, every fault; a story each.

What each seed leaves is compared with a calm one; and each safeguard is missed when it is taken out.
"""

import logging
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest
from google.protobuf.message import Message
from tools import soak

from tests.scale import SOAK, parts, scale
from tests.shared import made_once, shared_folder
from tests.simulation.stage import Stage
from tests.simulation.story import Script, write_pages
from tests.simulation.tally import FAULTS, Tally
from tutti.chassis.events.catalog import every_event
from tutti.contracts.annotation.v1 import AnnotatorRetracted, PreferencesPublished
from tutti.contracts.chat.v1 import Answer, Deployment
from tutti.contracts.committer.v1 import Import
from tutti.contracts.scheduler.v1 import PolicyStopped, SpikeEnded
from tutti.simulation import Control, Fault, SimulationFailed

ROOT = Path(__file__).resolve().parents[2]
PARTS = 48 if SOAK else 6
EVENTS_OF_SOAK, STRIKES_OF_SOAK, SEEDS_OF_SOAK = 20_000, 1_000, 3_000
TRIES = 5
ELSEWHERE: dict[type[Message], str] = {
    AnnotatorRetracted: "services/tutti/annotation/publishing/facts_test.py",
    Answer: "tests/chat/service_test.py",
    Deployment: "tests/chat/service_test.py",
    Import: "services/tutti/committer/imports_test.py",
    PolicyStopped: "services/tutti/scheduler/jobs_test.py",
    PreferencesPublished: "services/tutti/annotation/publishing/facts_test.py",
    SpikeEnded: "services/tutti/scheduler/jobs_test.py",
}
"""Events that no story comes to, and the tests that see them: of people, policies, and models that answer
or come in.
"""


@dataclass(frozen=True)
class Without:
    """A safeguard that is taken out, in a weather in which it is needed, and what is then found."""

    control: Control
    rates: Mapping[Fault, float]
    finding: str
    replicas: int = 1


CONTROLS = (
    Without(Control.INBOX_OFF, {Fault.DUPLICATED: 0.3}, r"took \S+ \d times"),
    Without(Control.RELAY_BEFORE_COMMIT, {Fault.TRANSACTION_ABORTED: 0.05}, "was published and never committed"),
    Without(Control.MARK_BEFORE_PUBLISH, {Fault.LOG_UNAVAILABLE: 0.1}, "was committed and never published"),
    Without(Control.FENCE_OFF, {Fault.WORKER_STALLED: 0.5}, r"tasks took \S+ \d times", replicas=2),
)


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    # What agents and the committer say of each injected fault would be thousands of lines.
    logging.disable(logging.ERROR)
    shared = shared_folder(tmp_path_factory) / "stage"

    def write() -> None:
        (shared / "pages").mkdir()
        write_pages(shared / "pages")

    made_once(shared, write)
    yield Stage(shared / "pages", shared / "calm")
    logging.disable(logging.NOTSET)


@pytest.fixture(scope="module")
def tallies(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for all processes that play a part; of a soak one that outlives it, so that it can be gone on with."""
    if SOAK:
        kept = soak.ROOT / "build" / "soak" / soak.source_digest()[:16]
        kept.mkdir(parents=True, exist_ok=True)
        return kept
    folder = shared_folder(tmp_path_factory) / "tallies"
    folder.mkdir(exist_ok=True)
    return folder


@pytest.mark.timeout(7200 if SOAK else 900)
@parts(PARTS)
def test_the_platform_comes_to_the_same_end_under_any_seed(
    part: int, stage: Stage, tallies: Path, record_property: Callable[[str, object], None]
) -> None:
    seeds, mine = scale(test=24, soak=SEEDS_OF_SOAK), tallies / f"{part}.json"
    known = mine.exists()
    if not known:
        play(range(part, seeds, PARTS), stage).write(mine)
    parts = [Tally.read(path) for path in tallies.glob("*.json")]
    if len(parts) == PARTS and (part == PARTS - 1 or not known):  # the last one, whichever came last
        whole = sum(parts, Tally())
        record_property("said", str(whole))
        assert whole.seeds == seeds
        require_enough(whole)


def play(seeds: Iterable[int], stage: Stage) -> Tally:
    """What happened over these seeds; AssertionError with every one that went wrong."""
    tally, wrong, began = Tally(), [], time.process_time()
    for seed in seeds:
        try:
            tally.add(stage.play_seed(seed))
        except SimulationFailed as failed:
            wrong.append(str(failed))
    assert wrong == []
    tally.seconds = time.process_time() - began
    return tally


def require_enough(tally: Tally) -> None:
    """What the campaign owes at its full number, in proportion; and every type of event that is still emitted, but for
    those that others test.
    """
    share = tally.seeds / SEEDS_OF_SOAK
    assert tally.events.total() >= EVENTS_OF_SOAK * share
    emitted = [event for event in every_event() if not event.message.DESCRIPTOR.GetOptions().deprecated]
    assert {event.message for event in emitted if not tally.events[event.type]} == ELSEWHERE.keys()
    assert all(event.__name__ in (ROOT / test).read_text() for event, test in ELSEWHERE.items())
    assert not [fault.name for fault in FAULTS if tally.faults[fault.name] < STRIKES_OF_SOAK * share]


@pytest.mark.parametrize("without", CONTROLS, ids=lambda without: without.control.name.lower())
def test_a_safeguard_of_the_platform_that_is_taken_out_is_missed(without: Without, stage: Stage) -> None:
    found = []
    for seed in range(TRIES):
        script = Script(replicas=without.replicas)
        try:
            stage.play(seed, script, rates=without.rates, node_rates={}, control=without.control)
        except SimulationFailed as failed:
            stage.play(seed, script, rates=without.rates, node_rates={})  # with it nothing is wrong
            found.append(str(failed))
            break
    assert found, f"{TRIES} seeds did not notice that {without.control.value}"
    assert re.search(without.finding, found[0])


def test_a_seed_of_the_platform_repeats_itself(stage: Stage) -> None:
    assert stage.play_seed(17).trace == stage.play_seed(17).trace
