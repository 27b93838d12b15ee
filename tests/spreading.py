"""How the tests of the suite are assigned to workers, in units, and reassigned when a worker dies.

Guarantees: the tests of a unit run on one worker in their order, the longest units first. The last of three or more
workers prefers units that mostly wait for servers, leases and deadlines; the first those that share a platform, which
then is up on that worker alone; the others prefer those that compute.
Units come from the names of tests alone: marks of groups no longer reach the controller with pytest 9.2 and
pytest-xdist 3.8.
"""

import re
from typing import Any

import pytest
from xdist.scheduler import LoadScopeScheduling

COLLECTED = pytest.StashKey[tuple[pytest.Item, ...]]()
"""In the stash of the configuration: all tests that were collected, with those that wait for their turn."""
_PART = re.compile(r"[\[-](part\d+)[\]-]")
WAITING = (
    "libs/tutti/platform/supervisor_test.py",
    "tests/stack/",
    "tests/faults/",
    "tests/contract/hung_test.py",
    "tests/contract/leadership_test.py",
    "tests/contract/network_test.py",
    "tests/e2e/access_test.py",
    "tests/e2e/agents_test.py",
    "tests/e2e/fulldisk_test.py",
    "tests/e2e/interrupt_test.py",
    "tests/e2e/operations_test.py",
    "tests/e2e/secured_test.py",
    "tests/e2e/telemetry_test.py",
    "tests/trainer/faults_test.py",
)
"""Prefixes of the units that leave a processor idle for most of their time."""
SHARING = tuple(
    f"tests/{name}_test.py"
    for name in (
        "e2e/access", "e2e/agents", "e2e/assistant", "e2e/calls", "e2e/classifiers", "e2e/continuing", "e2e/crawl",
        "e2e/demonstrations", "e2e/examples", "e2e/filter", "e2e/first_light_assistant", "e2e/folder", "e2e/mistakes",
        "e2e/named", "e2e/nouns", "e2e/reshape", "e2e/retraction", "e2e/short_runs", "e2e/spikes", "e2e/sweep",
        "e2e/tokenizers", "e2e/tuned", "e2e/versions", "faults/part",
    )
)  # fmt: skip
"""The units whose tests use the fixture `served`: a platform that is up for the rest of the session."""


def unit(nodeid: str) -> str:
    """The module of a test; of a campaign in parts (`tests.scale.parts`) one part of it."""
    module, _, test = nodeid.partition("::")
    part = _PART.search(test)
    return f"{module}[{part[1]}]" if part else module


def preferred(units: list[str], *, waiting: bool = False, sharing: bool = False) -> str:
    """Return the first unit that shares a platform, waits, or computes; where there is none, the first that shares no
    platform, or the first of all.
    """
    alone = [name for name in units if name not in SHARING]
    if sharing and len(alone) < len(units):
        return next(name for name in units if name in SHARING)
    return next((name for name in alone if name.startswith(WAITING) == waiting), next(iter(alone), units[0]))


class ByModule(LoadScopeScheduling):  # type: ignore[misc]  # it has no types
    """Assigns whole units, and ends a run in which a worker dies.

    When a worker of pytest-xdist 3.8 dies, its finished units are assigned again, and a worker that has one test waits
    for a second one. In both cases the run never ends (its issues 1323 and 1327).
    """

    def _split_scope(self, nodeid: str) -> str:
        return unit(nodeid)

    def _assign_work_unit(self, node: Any) -> None:
        waiting = len(self.nodes) > 2 and node is self.nodes[-1]
        chosen = preferred(list(self.workqueue), waiting=waiting, sharing=node is self.nodes[0])
        self.workqueue.move_to_end(chosen, last=False)
        super()._assign_work_unit(node)

    def mark_test_complete(self, node: Any, item_index: int, duration: float = 0) -> None:
        super().mark_test_complete(node, item_index, duration)
        work = self.assigned_work[node]
        for name in [name for name, tests in work.items() if all(tests.values())]:
            del work[name]

    def _reschedule(self, node: Any) -> None:
        super()._reschedule(node)
        while self.workqueue and not node.shutting_down and self._pending_of(self.assigned_work[node]) < 2:
            super()._reschedule(node)
