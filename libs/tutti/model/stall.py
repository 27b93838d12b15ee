"""Stalls: which ranks hold up a gang that makes no progress, by what each of them waits for. Does not import torch.

Promises: a rank that waits for another one is not guilty; ranks that wait for each other in a cycle are one cause, and
all are named; the finding is the same wherever it is made from the same standings, in any order.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

STORING = "waiting for a free snapshot buffer"
"""The phase of a rank whose node stores slower than it trains; that is no stall, and the job says so."""
SHOWN = 8
"""Ranks or groups of ranks that a text lists before it only counts."""


@dataclass(frozen=True)
class Call:
    """The operations of a rank in a group: it has entered those up to `entered`, and waits in `pending`, if any.

    `peers` are the ranks of a pending point-to-point operation; those of a collective are the members of the group.
    """

    group: str
    entered: int
    name: str
    pending: int | None = None
    peers: tuple[int, ...] = ()


@dataclass(frozen=True)
class Standing:
    """The activity of a rank when it was asked; a silent one did not answer its agent.

    `idle` is the time in seconds since it last computed something, `crossed` the last step that it completed.
    """

    rank: int
    crossed: int = 0
    step: int = 0
    phase: str = ""
    place: str = ""
    idle: float = 0.0
    calls: tuple[Call, ...] = ()
    silent: bool = False

    @property
    def progress(self) -> tuple[int, int]:
        return self.step, sum(call.entered for call in self.calls)


@dataclass(frozen=True)
class Gang:
    """The ranks of an attempt: the node of each, and the members of the groups in which they communicate."""

    nodes: Mapping[int, str]
    groups: Mapping[str, tuple[int, ...]] = field(default_factory=dict)


@dataclass(frozen=True)
class Finding:
    """`guilty` ranks hold up the others, as one `cycle` if they wait for each other; if there are none, the network is
    suspected.

    `excused`: nobody is at fault, because a rank computes or its node still stores. `waits`: the ranks that each rank
    waits for.
    """

    guilty: tuple[int, ...]
    cause: str
    cycle: bool = False
    excused: bool = False
    waits: Mapping[int, tuple[int, ...]] = field(default_factory=dict)


def examine(gang: Gang, standings: Iterable[Standing], *, seconds: float) -> Finding:
    """Return the ranks that hold up a gang in which some rank made no progress for `seconds`.

    Ranks of the gang without a standing are those whose agents did not answer.
    """
    known = {each.rank: each for each in standings}
    missing = sorted(gang.nodes.keys() - known.keys())
    waits = {rank: _waits(known[rank], known, gang) for rank in sorted(known)}
    words = _details(known, waits, gang)
    if missing:
        nodes = sorted({gang.nodes[rank] for rank in missing})
        words.append(f"{_listed(nodes)} did not answer ({named(missing)})")

    def found(guilty: Collection[int], head: str, *, cycle: bool = False, excused: bool = False) -> Finding:
        """The finding with all details in its cause."""
        return Finding(tuple(sorted(guilty)), "; ".join([head, *words]), cycle, excused, waits)

    silent = [rank for rank, each in known.items() if each.silent]
    if silent:
        step = min(known[rank].crossed for rank in silent)
        return found(silent, f"{_placed(silent, gang)} has not answered for {seconds:.1f} s, after step {step}")
    head = f"no rank made progress for {seconds:.1f} s"
    if any(each.phase == STORING for each in known.values()):
        return found((), f"{head}: a node stores snapshots slower than its ranks train", excused=True)
    ends = _ends(waits)
    cycles = [end for end in ends if len(end) > 1]
    roots = {rank for end in ends if len(end) == 1 for rank in end if _holds_up(rank, waits)}
    # Whoever is known to hold up the others comes before agents that did not answer in time.
    answered = roots & known.keys()
    working = {rank for rank in answered if known[rank].idle < seconds / 2}
    if working and working == answered and not cycles:
        return found((), f"{head}: {_placed(working, gang)} computes", excused=True)
    guilty = answered - working
    if cycles:
        members = {rank for end in cycles for rank in end}
        told = "; ".join(f"{_placed(sorted(end), gang)} wait for each other in a cycle" for end in cycles)
        return found(members | guilty, f"{head}: {told}", cycle=True)
    if guilty:
        return found(guilty, f"{head}: the others wait for {_placed(guilty, gang)}")
    if roots:
        return found(roots, f"{head}: the others wait for {_placed(roots, gang)}, whose agent did not answer")
    free = {rank for rank in known if not any(call.pending is not None for call in known[rank].calls)}
    if not free:
        return found((), f"{head}: every rank has entered its operation, so the network between them is suspected")
    if working := {rank for rank in free if known[rank].idle < seconds / 2}:
        return found((), f"{head}: {_placed(working, gang)} computes", excused=True)
    least = min(known[rank].progress for rank in free)
    behind = {rank for rank in free if known[rank].progress == least}
    return found(behind, f"{head}: {_placed(behind, gang)} is furthest behind")


def named(ranks: Collection[int]) -> str:
    """Return the ranks in words: the first ones, and how many there are more."""
    if not ranks:
        return "nobody"
    return f"rank {next(iter(ranks))}" if len(ranks) == 1 else f"ranks {_listed([str(rank) for rank in sorted(ranks)])}"


def _waits(standing: Standing, known: Mapping[int, Standing], gang: Gang) -> tuple[int, ...]:
    """The ranks that this one waits for: peers, and members of a group that have not entered the same operation."""
    found: set[int] = set()
    if standing.silent:
        return ()
    for call in standing.calls:
        if call.pending is None:
            continue
        if call.peers:
            found |= {peer for peer in call.peers if peer in gang.nodes}
            continue
        for member in gang.groups.get(call.group, ()):
            if member in gang.nodes and _entered(known.get(member), call.group) < call.pending:
                found.add(member)
    return tuple(sorted(found - {standing.rank}))


def _entered(standing: Standing | None, group: str) -> int:
    if standing is None or standing.silent:
        return -1
    return max((call.entered for call in standing.calls if call.group == group), default=-1)


def _holds_up(rank: int, waits: Mapping[int, Sequence[int]]) -> bool:
    return any(rank in others for others in waits.values())


def _ends(waits: Mapping[int, Sequence[int]]) -> list[frozenset[int]]:
    """Return the strongly connected components that wait for no rank outside of them, by their lowest rank."""
    waited: dict[int, list[int]] = {}
    for rank, others in waits.items():
        for other in others:
            waited.setdefault(other, []).append(rank)
    left = waits.keys() | waited.keys()
    roots = {rank for rank in left if not waits.get(rank)}
    ends = [frozenset({rank}) for rank in roots]
    left = left - _reached(roots, waited)
    while left:
        rank = min(left)
        # What a rank of an end reaches, reaches it too; from any other rank, go on to one that does not come back.
        while beyond := _reached({rank}, waits) - _reached({rank}, waited):
            rank = min(beyond)
        end = frozenset(_reached({rank}, waits))
        ends.append(end)
        left = left - _reached(end, waited)
    return sorted(ends, key=min)


def _reached(ranks: Collection[int], edges: Mapping[int, Sequence[int]]) -> set[int]:
    """These ranks, and those that the edges lead to from them."""
    reached, ahead = set(ranks), list(ranks)
    while ahead:
        for other in edges.get(ahead.pop(), ()):
            if other not in reached:
                reached.add(other)
                ahead.append(other)
    return reached


def _details(known: Mapping[int, Standing], waits: Mapping[int, tuple[int, ...]], gang: Gang) -> list[str]:
    """The activity of each rank that answered; ranks that did the same share a text."""
    same: dict[str, list[int]] = {}
    for rank, standing in sorted(known.items()):
        if not standing.silent:
            same.setdefault(_doing(standing, waits[rank], gang), []).append(rank)
    words = [f"{named(ranks)} {'is' if len(ranks) == 1 else 'are'} {doing}" for doing, ranks in same.items()]
    return words if len(words) <= SHOWN else [*words[:SHOWN], f"{len(words) - SHOWN} more"]


def _doing(standing: Standing, waits: Sequence[int], gang: Gang) -> str:
    words = [f"in step {standing.step}, {standing.phase}"]
    words += list(_pending(standing, waits))
    if standing.place:
        words.append(f"at {standing.place}")
    return ", ".join(words)


def _pending(standing: Standing, waits: Sequence[int]) -> Iterator[str]:
    pending = [call for call in standing.calls if call.pending is not None]
    if pending:
        call = pending[0]
        yield f"waiting for {named(waits)} in {call.name} #{call.pending}"
    elif standing.calls:
        last = max(standing.calls, key=lambda call: call.entered)
        yield f"last operation {last.name} #{last.entered}"


def _placed(ranks: Collection[int], gang: Gang) -> str:
    """The ranks with their nodes."""
    by_node: dict[str, list[int]] = {}
    for rank in sorted(ranks):
        by_node.setdefault(gang.nodes.get(rank, ""), []).append(rank)
    return _listed([f"{named(own)} on {node}" if node else named(own) for node, own in by_node.items()])


def _listed(words: Sequence[str]) -> str:
    return ", ".join(words[:SHOWN]) + (f" and {len(words) - SHOWN} more" if len(words) > SHOWN else "")
