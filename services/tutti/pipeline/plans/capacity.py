"""The capacity of the registered nodes, against what the trainings of a recipe need.

Pure. Promises: a recipe is refused only if it cannot work on any of these nodes; agents that may still come, and a need
that is only near the limit, make a warning.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from tutti.chassis.errors import InvalidField
from tutti.contracts.scheduler.v1 import Node as Machine
from tutti.model.footprint import MOST_TIMES
from tutti.model.spec import ModelSpec
from tutti.pipeline.plans.graph import Node
from tutti.records.sizes import size

ALL = "all nodes together"
ADD_AGENT = "start an agent: `python -P -m tutti.trainer`, on this or another machine"


@dataclass(frozen=True)
class Capacity:
    """Slots, and bytes of memory: of the largest node `where`, and of all together; 0 where a node's is not known.

    `closed`: no agent joins by itself, as on a platform of one machine.
    """

    slots: int
    largest: int = 0
    total: int = 0
    where: str = ""
    closed: bool = False


def capacity_of(machines: list[Machine], *, closed: bool, here: int, slots: int) -> Capacity:
    """The slots and the memory of the registered nodes, in any state.

    On a `closed` platform all nodes are one machine, with `here` bytes of memory; before its agent has registered, it
    counts as one node with as many `slots` as an agent has by default.
    """
    known = all(each.memory_bytes for each in machines)
    largest = max(machines, key=lambda each: each.memory_bytes, default=Machine()) if known else Machine()
    count = sum(each.slots for each in machines)
    if closed:
        memory = (largest.memory_bytes or here) if known else 0
        return Capacity(count or slots, memory, memory, largest.name or "this machine", closed=True)
    return Capacity(
        count, largest.memory_bytes, sum(each.memory_bytes for each in machines) if known else 0, largest.name
    )


def misfits(node: Node, capacity: Capacity, begun: ModelSpec | None = None) -> Iterator[InvalidField]:
    """The errors of a stage that no registered node, or all of them together, can hold.

    `begun` is the model of the checkpoint of an earlier run that the stage goes back to.
    """
    slots, footprint = node.stage.slots(node.view), node.stage.footprint(node.view, begun)
    if capacity.closed and slots > capacity.slots:
        expected = f"at most {capacity.slots}, the slots of the agents here; `tutti up --agents N` starts more agents"
        yield node.view.refused("ranks", seen=slots, expected=expected)
    if footprint is None:
        return
    for need, of, available, where in (
        (footprint.rank, "a training process of at least", capacity.largest, capacity.where),
        (footprint.gang, f"{slots} training processes of together at least", capacity.total, ALL),
    ):
        if 0 < available < need:
            seen = f"{of} {size(need)} of memory"
            expected = f"at most {size(available)}, as {where} has: {footprint.remedy}"
            yield node.view.refused("", seen=seen, expected=expected)
            return


def warnings(node: Node, capacity: Capacity, begun: ModelSpec | None = None) -> Iterator[str]:
    """The things that a stage may wait for, or run out of, in words; `begun` as in `misfits`."""
    slots, footprint = node.stage.slots(node.view), node.stage.footprint(node.view, begun)
    if not capacity.closed and slots > capacity.slots:
        key = node.view.key("ranks")
        yield (
            f"{key}: {node.name} needs {slots} slots, one a rank, and the registered agents have {capacity.slots}: it "
            f"waits for more; {ADD_AGENT}"
        )
    if footprint is None:
        return
    for need, of, available, where in (
        (footprint.rank, "a training process of ", capacity.largest, capacity.where),
        (footprint.gang, "" if slots == 1 else "together, the training processes of ", capacity.total, ALL),
    ):
        if need <= available < MOST_TIMES * need:
            yield (
                f"{of}{node.name} needs at least {size(need)} of memory, and may need {MOST_TIMES:g} times as much; "
                f"{where} has {size(available)}: if it runs out of memory, {footprint.remedy}"
            )
            return
