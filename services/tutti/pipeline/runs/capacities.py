"""The check of a recipe against the machines that are there.

Promises: nothing is recorded before; if the scheduler does not answer, recipes are checked without it, and runs begin.
"""

import contextlib
from collections.abc import Callable, Collection, Iterator

from tutti.backbone.embedded.database import EmbeddedDatabase
from tutti.chassis.config import memory
from tutti.chassis.errors import InvalidField, Problem, Unavailable
from tutti.chassis.rpc.kinds import kind_of
from tutti.chassis.service import Host
from tutti.contracts.pipeline.v1 import Run
from tutti.contracts.scheduler.v1 import Node
from tutti.model.spec import StepSpec
from tutti.pipeline.plans import graph, reading
from tutti.pipeline.plans.capacity import Capacity, capacity_of, misfits, warnings
from tutti.pipeline.recipes.recipe import Recipe

JOIN_SECONDS = 20.0
"""After the start of a platform, until its own agents have registered."""


class Capacities:
    """The machines of this platform, as the scheduler knows them when a recipe is checked."""

    def __init__(self, host: Host) -> None:
        self._host, self._since = host, host.clock.monotonic()

    def problems(self, recipe: Recipe) -> Iterator[InvalidField]:
        """The errors of the stages that the machines cannot hold."""
        if (capacity := self._capacity()) is not None:
            for node in graph.nodes(recipe):
                yield from misfits(node, capacity)

    def check(self, recipe: Recipe, reused: Callable[[], Collection[str]], *, wait: bool = False) -> list[str]:
        """Refuse a recipe with a stage that the machines cannot hold, unless it is `reused`; return the warnings.

        Raises InvalidField; with `wait`, Unavailable while agents of a platform that has just started may still come.
        """
        capacity = self._capacity()
        if capacity is None:
            return []
        nodes = graph.nodes(recipe)
        found = {node.name: problem for node in nodes for problem in misfits(node, capacity)}
        if found and (missing := [problem for name, problem in found.items() if name not in reused()]):
            if (
                wait
                and missing[0].field.endswith("ranks")
                and self._host.clock.monotonic() - self._since < JOIN_SECONDS
            ):
                raise Unavailable(f"{missing[0].message}; agents may still register")
            raise missing[0]
        return [each for node in nodes for each in warnings(node, capacity)]

    def warnings(self, recipe: Recipe) -> list[str]:
        """The warnings of `check`, for a recipe that is not refused whatever the machines are."""
        if (capacity := self._capacity()) is None:
            return []
        return [each for node in graph.nodes(recipe) for each in warnings(node, capacity)]

    def warnings_of(self, run: Run) -> list[str]:
        """Those of a recorded run; none if its recipe is of a version that this one does not read."""
        with contextlib.suppress(InvalidField):
            return self.warnings(reading.read(run.spec.recipe))
        return []

    def _capacity(self) -> Capacity | None:
        """None if the scheduler does not answer."""
        closed = isinstance(self._host.database, EmbeddedDatabase)
        try:
            machines = [node for page in kind_of(Node).pages(self._host.channel("scheduler")) for node in page]
        except Problem:
            return None
        here = memory.machine_bytes() if closed else 0
        return capacity_of(machines, closed=closed, here=here, slots=StepSpec.leaves)
