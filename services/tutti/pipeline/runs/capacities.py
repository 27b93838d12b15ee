"""The check of a recipe against the machines that are there.

Promises: nothing is recorded before; if the scheduler does not answer, recipes are checked without it, and runs begin.
"""

import contextlib
from collections.abc import Callable, Collection, Iterator, Mapping
from functools import cache

from tutti.backbone.blobs import BlobMissing
from tutti.backbone.embedded.database import EmbeddedDatabase
from tutti.chassis.config import memory
from tutti.chassis.errors import InvalidField, Problem, Unavailable
from tutti.chassis.rpc.kinds import kind_of
from tutti.chassis.service import Host
from tutti.checkpoints.bodies import decode_body
from tutti.checkpoints.keys import import_of
from tutti.contracts.committer.v1 import Checkpoint
from tutti.contracts.pipeline.v1 import Run
from tutti.contracts.scheduler.v1 import Node as Machine
from tutti.model.spec import ModelSpec, StepSpec
from tutti.pipeline.plans import graph, reading
from tutti.pipeline.plans.capacity import Capacity, capacity_of, misfits, warnings
from tutti.pipeline.plans.graph import Node
from tutti.pipeline.recipes.begun import Begun
from tutti.pipeline.recipes.imports import CHECKPOINTS, INITIAL, beginning
from tutti.pipeline.recipes.recipe import Recipe
from tutti.records.canonical import is_digest
from tutti.records.errors import CorpusError

JOIN_SECONDS = 20.0
"""After the start of a platform, until its own agents have registered."""


class Capacities:
    """The machines of this platform, as the scheduler knows them when a recipe is checked."""

    def __init__(self, host: Host) -> None:
        self._host, self._since = host, host.clock.monotonic()

    def problems(self, recipe: Recipe) -> Iterator[InvalidField]:
        """The errors of the stages that the machines cannot hold."""
        if (capacity := self._capacity()) is not None:
            for node, begun in self._nodes(recipe):
                yield from misfits(node, capacity, begun)

    def check(self, recipe: Recipe, reused: Callable[[], Collection[str]], *, wait: bool = False) -> list[str]:
        """Refuse a recipe with a stage that the machines cannot hold, unless it is `reused`; return the warnings.

        Raises InvalidField; with `wait`, Unavailable while agents of a platform that has just started may still come.
        """
        capacity = self._capacity()
        if capacity is None:
            return []
        nodes = self._nodes(recipe)
        found = {node.name: problem for node, begun in nodes for problem in misfits(node, capacity, begun)}
        if found and (missing := [problem for name, problem in found.items() if name not in reused()]):
            if (
                wait
                and missing[0].field.endswith("ranks")
                and self._host.clock.monotonic() - self._since < JOIN_SECONDS
            ):
                raise Unavailable(f"{missing[0].message}; agents may still register")
            raise missing[0]
        return [each for node, begun in nodes for each in warnings(node, capacity, begun)]

    def warnings(self, recipe: Recipe) -> list[str]:
        """The warnings of `check`, for a recipe that is not refused whatever the machines are."""
        if (capacity := self._capacity()) is None:
            return []
        return [each for node, begun in self._nodes(recipe) for each in warnings(node, capacity, begun)]

    def warnings_of(self, run: Run) -> list[str]:
        """Those of a recorded run; none if its recipe is of a version that this one does not read."""
        with contextlib.suppress(InvalidField):
            return self.warnings(reading.read(run.spec.recipe))
        return []

    def _nodes(self, recipe: Recipe) -> list[tuple[Node, ModelSpec | None]]:
        """The stages that train, each with the model of the checkpoint of an earlier run that it goes back to."""
        model_of = cache(self._model_of)
        every = {node.name: node for node in graph.nodes(recipe)}
        trained = [node for node in every.values() if node.stage.slots(node.view)]
        return [(node, model_of(_begins_with(node, every))) for node in trained]

    def _model_of(self, checkpoint: str) -> ModelSpec | None:
        """None for no checkpoint, and for one that is not there: that is refused by the key that names it."""
        if not checkpoint:
            return None
        try:
            found = kind_of(Checkpoint).get(self._host.channel("committer"), checkpoint)
            return Begun.of(decode_body(self._host.blobs.get(found.manifest_key))).model
        except (Problem, BlobMissing, CorpusError):
            return None

    def _capacity(self) -> Capacity | None:
        """None if the scheduler does not answer."""
        closed = isinstance(self._host.database, EmbeddedDatabase)
        try:
            machines = [node for page in kind_of(Machine).pages(self._host.channel("scheduler")) for node in page]
        except Problem:
            return None
        here = memory.machine_bytes() if closed else 0
        return capacity_of(machines, closed=closed, here=here, slots=StepSpec.leaves)


def _begins_with(node: Node, every: Mapping[str, Node]) -> str:
    """The checkpoint of an earlier run, or of an import, that a stage goes back to; "" for none."""
    for reference in node.inputs.get(INITIAL, ()):
        found = beginning(reference, node.view.recipe.stages)
        folder = every[found].folder if found in every else None
        if folder is not None and folder.model and is_digest(folder.path):  # a path, until the folder was read
            return f"{CHECKPOINTS}{import_of(folder.path)}/0/0"
        return found if found.startswith(CHECKPOINTS) else ""
    return ""
