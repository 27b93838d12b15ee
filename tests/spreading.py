"""How the tests of the suite are assigned to workers, in units, and reassigned when a worker dies.

Units come from the names of tests alone: marks of groups no longer reach the master with pytest 9.2 and pytest-xdist
3.8.
"""

import re
from typing import Any

from xdist.scheduler import LoadScopeScheduling

_PART = re.compile(r"[\[-](part\d+)[\]-]")


def unit(nodeid: str) -> str:
    """The module of a test; of a campaign in parts (`tests.scale.parts`) one part of it."""
    module, _, test = nodeid.partition("::")
    part = _PART.search(test)
    return f"{module}[{part[1]}]" if part else module


class ByModule(LoadScopeScheduling):  # type: ignore[misc]  # it has no types
    """Assigns whole units, and ends a run in which a worker dies.

    When a worker of pytest-xdist 3.8 dies, its finished units are assigned again, and a worker that has one test waits
    for a second one. In both cases the run never ends (its issues 1323 and 1327).
    """

    def _split_scope(self, nodeid: str) -> str:
        return unit(nodeid)

    def mark_test_complete(self, node: Any, item_index: int, duration: float = 0) -> None:
        super().mark_test_complete(node, item_index, duration)
        work = self.assigned_work[node]
        for name in [name for name, tests in work.items() if all(tests.values())]:
            del work[name]

    def _reschedule(self, node: Any) -> None:
        super()._reschedule(node)
        while self.workqueue and not node.shutting_down and self._pending_of(self.assigned_work[node]) < 2:
            super()._reschedule(node)
