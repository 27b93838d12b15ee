"""Gangs: which rank of a job runs on which device of which node.

Promises: all ranks or none; the same nodes give the same seats; as few nodes as the free slots allow; the nodes of a
gang have one kernel signature, because two would give two different sums; a node is given no more to do than the event
that tells it of can hold.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass

from tutti.chassis.errors import InvalidField
from tutti.chassis.events.event import MAX_PAYLOAD_BYTES
from tutti.contracts.scheduler.v1 import NODE_STATE_READY, JobSpec, Node

EXCLUDING = 2
"""Convictions with which a node takes no more ranks."""
MAX_SLOTS, MAX_DEVICE_BYTES, MAX_ADDRESS_BYTES = 256, 16, 300
MAX_SPEC_BYTES = 6000  # what an assignment repeats of a job: its name, training and datasets
GROWTH_BYTES = MAX_ADDRESS_BYTES + 10  # of an assignment that is told later where to meet, and to stop
# A seat is a rank and a device; of checkpoint, keys, digests and shape there is less than the rest.
ASSIGNMENT_BYTES = MAX_SPEC_BYTES + MAX_SLOTS * (MAX_DEVICE_BYTES + 4) + 2000 + GROWTH_BYTES
SHOWN = 8  # names of nodes or ranks that a text lists before it only counts


@dataclass(frozen=True)
class Room:
    """A node that takes ranks; `free` holds a device for every free slot."""

    node: str
    free: tuple[str, ...]
    kernel: str = ""


@dataclass(frozen=True)
class Seat:
    rank: int
    node: str
    device: str


@dataclass(frozen=True)
class Short:
    """No gang: so many slots are missing."""

    missing: int


def room_of(node: Node) -> Room:
    """The free slots of a node: those that no assignment holds, until its agent says that the epoch is gone."""
    if node.state != NODE_STATE_READY or is_full(node) or is_excluded(node):
        return Room(node.name, (), node.kernel)
    devices = list(node.devices) or ["cpu"]
    # Slots are spread over the devices in order, so that two devices with four slots take two ranks each.
    slots = [devices[slot * len(devices) // node.slots] for slot in range(node.slots)]
    used = Counter(device for assignment in node.assignments for device in assignment.devices)
    free = []
    for device in slots:
        if used[device] > 0:
            used[device] -= 1
        else:
            free.append(device)
    return Room(node.name, tuple(free), node.kernel)


def check_size(name: str, spec: JobSpec) -> None:
    """Raise InvalidField for a job that no node could be told of."""
    size = len(f"{name}{spec.training}{spec.dataset_manifest_key}{spec.dataset_digest}{spec.tokenizer_key}".encode())
    size += sum(each.ByteSize() + 3 for each in spec.mixed)
    if size > MAX_SPEC_BYTES:
        expected = f"at most {MAX_SPEC_BYTES} bytes of name, training and datasets: they are part of events; mix fewer"
        raise InvalidField("spec", seen=f"{size} bytes", expected=expected)


def is_full(node: Node) -> bool:
    """True if another assignment might not fit into the node's event, however many slots are free."""
    return node.ByteSize() + len(node.assignments) * GROWTH_BYTES + ASSIGNMENT_BYTES > MAX_PAYLOAD_BYTES


def is_excluded(node: Node) -> bool:
    """True if the node was convicted of wrong results too often to be used again before an operator clears it."""
    return node.convictions >= EXCLUDING


def place(
    ranks: int, rooms: Sequence[Room], familiar: Set[str] = frozenset(), doubtful: Sequence[str] = ()
) -> tuple[Seat, ...] | Short:
    """Seats for all ranks, consecutive ranks together; between equals the `familiar` nodes are kept.

    A `doubtful` node is used only if the gang does not fit without it, the first ones rather than the last, and no more
    of them than it takes. The kernel signature of the familiar nodes is kept even so, because another one would change
    the result.
    """
    doubts = {node: place for place, node in enumerate(dict.fromkeys(doubtful))}
    known = {room.kernel for room in rooms if room.node in familiar}
    missing = ranks
    for kernels in (known, {room.kernel for room in rooms} - known):
        for spare in (False, True):
            for kernel in sorted(kernels):
                own = [room for room in rooms if room.kernel == kernel]
                sure = [room for room in own if room.node not in doubts]
                found = _place(ranks, _with_few(ranks, own, doubts) if spare else sure, familiar)
                if not isinstance(found, Short):
                    return found
                missing = min(missing, found.missing)
    return Short(missing)


def _with_few(ranks: int, rooms: Sequence[Room], doubts: Mapping[str, int]) -> list[Room]:
    """The rooms that hold the ranks with the fewest doubtful nodes; all if they do not hold them."""
    used = list(rooms)
    for room in sorted((each for each in rooms if each.node in doubts), key=lambda each: -doubts[each.node]):
        if sum(len(each.free) for each in used) - len(room.free) >= ranks:
            used.remove(room)
    return used


def _place(ranks: int, rooms: Sequence[Room], familiar: Set[str]) -> tuple[Seat, ...] | Short:
    missing = ranks - sum(len(room.free) for room in rooms)
    if missing > 0:
        return Short(missing)
    # By size; of each size the room to take first is last.
    left: dict[int, list[Room]] = {}
    for room in sorted(rooms, key=lambda room: (room.node not in familiar, room.node), reverse=True):
        left.setdefault(len(room.free), []).append(room)
    chosen: list[Room] = []
    needed = ranks
    while needed > 0:
        # The smallest room that takes all that is left wastes least; else the largest leaves the fewest nodes to go.
        size = min((size for size in left if size >= needed), default=None) or max(left)
        room = left[size].pop()
        if not left[size]:
            del left[size]
        chosen.append(Room(room.node, room.free[:needed]))
        needed -= len(chosen[-1].free)
    devices = [(room.node, device) for room in sorted(chosen, key=lambda room: room.node) for device in room.free]
    return tuple(Seat(rank, node, device) for rank, (node, device) in enumerate(devices))


def capacity(nodes: Iterable[Node]) -> int:
    """Slots of the nodes that take ranks, used ones included; of the kernel signature that has the most."""
    return registered(node for node in nodes if node.state == NODE_STATE_READY and not is_excluded(node))


def registered(nodes: Iterable[Node]) -> int:
    """Slots of these nodes, in whatever state; of the kernel signature that has the most."""
    slots: Counter[str] = Counter()
    for node in nodes:
        slots[node.kernel] += node.slots
    return max(slots.values(), default=0)


def node_words(nodes: Sequence[str]) -> str:
    """The names where they are few, else the first ones and the number of all."""
    shown = ", ".join(nodes[:SHOWN])
    return shown if len(nodes) <= SHOWN else f"{shown} and {len(nodes) - SHOWN:,} more"
