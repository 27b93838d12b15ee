"""Many short runs over all services and a node: what their processes keep in memory does not grow with them.

Counted are the entries of all collections that services, their loops and the agent reach. Databases, the event log and
blobs are left out: they keep what happened. Metrics are left out too (`tutti/trainer/agent/measures_test.py`).
"""

import functools
import types
from collections import Counter, deque
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from google.protobuf.message import Message

from tests.simulation.story import BESIDE, CALM, CALM_NODES, Story, recipe, write_pages
from tutti.chassis.rpc.kinds import kind_of
from tutti.chassis.store.unit import Unit
from tutti.contracts.common.v1 import STATE_DONE
from tutti.contracts.pipeline.v1 import CreateRunRequest, Run
from tutti.pipeline.service import build as build_pipeline
from tutti.simulation import Simulation

FIRST, MORE = 2, 4
"""Runs after which everything was used once, and those that follow."""
QUIET_TURNS = 1_500
"""Enough for every loop to look at its open resources again, and to forget others."""
RESOURCES, MOST_OF_A_PAGE = 250, 100
ELSEWHERE = ("sqlalchemy", "grpc", "google", "prometheus_client", "logging", "tutti.simulation", "tutti.backbone")
"""Packages whose objects are not looked into: libraries, and the world of the simulation."""
LIMITED = ("agent a._journal.record.begun", "agent a._launcher._gangs")
"""The journal of an agent, which keeps the newest 256 attempts; and the ranks that a simulated world remembers."""
COLLECTIONS = (dict, list, set, frozenset, tuple, deque)


def entries(root: object, name: str) -> Counter[str]:
    """The number of entries of all collections that an object reaches, by the attributes that lead there."""
    found: Counter[str] = Counter()
    reached: dict[int, object] = {id(root): root}
    waiting = deque([(name, root)])
    while waiting:
        path, each = waiting.popleft()
        if isinstance(each, COLLECTIONS):
            found[path] += len(each)
        for words, part in parts(each):
            if id(part) not in reached:
                reached[id(part)] = part
                waiting.append((path + words, part))
    return found


def parts(each: Any) -> Iterator[tuple[str, object]]:
    """What an object holds itself, each with the words that lead to it."""
    if isinstance(each, dict):
        yield from (("[]", value) for value in list(each.values()))
    elif isinstance(each, COLLECTIONS):
        yield from (("[]", value) for value in list(each))
    elif isinstance(each, types.MethodType):
        yield "", each.__self__
    elif isinstance(each, functools.partial):
        yield from (("()", value) for value in (each.func, *each.args, *each.keywords.values()))
    elif isinstance(each, types.FunctionType):
        cells = zip(each.__code__.co_freevars, each.__closure__ or (), strict=True)
        yield from ((f".{name}", cell.cell_contents) for name, cell in cells)
    elif not isinstance(each, type | types.ModuleType | Message) and not type(each).__module__.startswith(ELSEWHERE):
        yield from ((f".{name}", value) for name, value in getattr(each, "__dict__", {}).items())


def held(story: Story) -> Counter[str]:
    """The entries of all services and agents, by where they are; nothing happens meanwhile."""
    story.simulation.run(max_turns=QUIET_TURNS)
    found: Counter[str] = Counter()
    for name, (life,) in story.simulation.lives.items():
        found += entries(life.parts, name)
    for name, agent in story.platform.agents.items():
        found += entries(agent.agent, f"agent {name}")
    return found


def train(story: Story, number: int) -> None:
    """A run with a seed of its own, so that it trains; earlier stages are reused."""
    name = f"runs/{number}"
    text = recipe(story.pages, story.script).replace("  attempts:", f"  seed: {number}\n  attempts:")
    story.call(lambda: story.pipeline.CreateRun(CreateRunRequest(request_id=name, name=name, recipe=text)))
    story.until_ended(name)


def test_no_collection_of_a_service_or_an_agent_grows_with_the_runs_that_ended(tmp_path: Path) -> None:
    write_pages(tmp_path)
    story = Story("memory", BESIDE, tmp_path, rates=CALM, node_rates=CALM_NODES)
    try:
        story.platform.add_node("a")
        for number in range(FIRST):
            train(story, number)
        before = held(story)
        for number in range(FIRST, FIRST + MORE):
            train(story, number)
        after = held(story)
    finally:
        story.close()
    assert {"pipeline", "scheduler", "committer", "lineage", "agent a"} <= {path.partition(".")[0] for path in after}
    grown = {path: (before[path], count) for path, count in after.items() if count - before[path] >= MORE}
    assert {path: counts for path, counts in grown.items() if not path.startswith(LIMITED)} == {}


def test_a_service_that_lists_all_resources_of_another_gets_small_pages() -> None:
    """A block of memory that grows with the number of resources leaves ever larger holes in the heap."""
    names = [f"runs/{number:03}" for number in range(RESOURCES)]
    with Simulation(0, {"pipeline": build_pipeline}, rates={}) as simulation:
        (runs,) = simulation.lives["pipeline"][0].parts.service.resources

        def create(unit: Unit) -> None:
            for name in names:
                runs.create(unit, Run(name=name, state=STATE_DONE))

        simulation.peek("pipeline", create)
        pages = list(kind_of(Run).pages(simulation.channel("pipeline")))
    assert [run.name for page in pages for run in page] == names
    assert max(map(len, pages)) <= MOST_OF_A_PAGE
