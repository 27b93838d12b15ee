"""The autopsy: from the flight record of a rank to what it waits for.

Promises: a record that cannot be read is one of a rank that waits for nobody; what leaves the node is small, however
long the record is.
"""

import json
import re
from collections.abc import Iterable, Mapping
from pathlib import PurePath
from typing import Any

from tutti.contracts.scheduler.v1 import CallGroup, GroupCall, RankStanding
from tutti.contracts.trainer.v1 import FlightRecord
from tutti.model.stall import Call, Standing

MAIN = "MainThread"
MEETING, STARTING, STAGING = "meeting the other ranks", "starting", "staging its data"
RENDEZVOUS = "rendezvous"
"""The name of the group of all ranks while they meet."""
GROUPS = "groups"
"""The key under which a rank adds the members of its groups to the record of its collectives."""
_FRAME = re.compile(r'File "([^"]+)", line (\d+), in (\S+)')
_PEER = re.compile(r"(?:send \d+->(\d+)|recv \d+<-(\d+))")
MOST_GROUPS = 32

Groups = dict[str, tuple[int, ...]]


def standing_of(rank: int, record: FlightRecord | None, *, crossed: int, idle: float) -> Standing:
    """Return what a rank was doing; silent without a record."""
    if record is None:
        return Standing(rank, crossed=crossed, idle=idle, silent=True)
    return Standing(
        rank,
        crossed=crossed,
        step=record.step,
        phase=record.phase,
        place=_place(record.stacks),
        idle=idle,
        calls=(_meeting(record.phase), *_calls(record)),
    )


def staging(rank: int) -> Standing:
    """The standing of a rank whose process does not exist yet."""
    return Standing(rank, phase=STAGING, calls=(_meeting(STARTING),))


def unclear(rank: int, *, crossed: int, idle: float, finished: bool) -> Standing:
    """The standing of a rank that has finished, or has not sent its record yet and may still do so."""
    phase = "finished" if finished else "busy, without a flight record"
    return Standing(rank, crossed=crossed, step=crossed + 1, phase=phase, idle=idle, calls=(_meeting(phase),))


def groups_of(records: Iterable[FlightRecord], ranks: int) -> Groups:
    """Return the members of the groups that the records know, and of all `ranks` while they meet."""
    found: Groups = {RENDEZVOUS: tuple(range(ranks))}
    for record in records:
        groups = _loaded(record).get(GROUPS)
        for name, members in groups.items() if isinstance(groups, dict) else ():
            if len(found) < MOST_GROUPS and isinstance(members, list):
                found[str(name)] = tuple(sorted(each for each in members if isinstance(each, int)))
    return found


def to_wire(standing: Standing) -> RankStanding:
    return RankStanding(
        rank=standing.rank,
        silent=standing.silent,
        crossed=standing.crossed,
        step=standing.step,
        phase=standing.phase[:100],
        place=standing.place[:200],
        idle_seconds=standing.idle,
        calls=[
            GroupCall(group=each.group, entered=each.entered, name=each.name, pending=each.pending, peers=each.peers)
            for each in standing.calls[:MOST_GROUPS]
        ],
    )


def groups_to_wire(groups: Groups) -> list[CallGroup]:
    return [CallGroup(name=name, ranks=ranks) for name, ranks in sorted(groups.items())]


def _meeting(phase: str) -> Call:
    """The rendezvous as an operation: it is no collective of a back end."""
    return Call(RENDEZVOUS, int(phase != STARTING), "rendezvous", pending=1 if phase == MEETING else None)


def _calls(record: FlightRecord) -> list[Call]:
    """The newest operation of each group, and the oldest one in which the rank still waits."""
    loaded = _loaded(record)
    entries = loaded.get("entries")
    by_group: dict[str, list[Mapping[str, Any]]] = {}
    try:
        for entry in entries if isinstance(entries, list) else ():
            by_group.setdefault(str(entry["process_group"][0]), []).append(entry)
        return [_call(group, own, loaded) for group, own in sorted(by_group.items())]
    except (ValueError, KeyError, TypeError, IndexError):
        return []


def _call(group: str, entries: list[Mapping[str, Any]], loaded: Mapping[str, Any]) -> Call:
    """Raises ValueError, KeyError, TypeError and IndexError for entries of another form."""
    collectives = [entry for entry in entries if not entry.get("is_p2p", False)]
    entered = max((int(entry["collective_seq_id"]) for entry in collectives), default=0)
    waiting = [entry for entry in entries if not entry.get("retired", False)]
    newest = max(entries, key=lambda entry: int(entry["record_id"]) if "record_id" in entry else 0)
    if not waiting:
        return Call(group, entered, str(newest["profiling_name"]))
    oldest = min(waiting, key=lambda entry: int(entry["record_id"]) if "record_id" in entry else 0)
    name = str(oldest["profiling_name"])
    if not oldest.get("is_p2p", False):
        return Call(group, entered, name, pending=int(oldest["collective_seq_id"]))
    peers: tuple[int, ...] = ()
    if (match := _PEER.search(name)) is not None:
        number = int(match[1] or match[2])
        members = loaded.get(GROUPS, {}).get(group, [])
        peers = (int(members[number]) if number < len(members) else number,)
    return Call(group, entered, name, pending=int(oldest["p2p_seq_id"]), peers=peers)


def _loaded(record: FlightRecord) -> Mapping[str, Any]:
    try:
        found = json.loads(record.collectives or "{}")
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _place(stacks: str) -> str:
    """The innermost frame of the main thread that is ours, without the machine's folders."""
    for block in stacks.split("\n\n"):
        if block.startswith(MAIN) and (frames := _FRAME.findall(block)):
            path, line, function = next((frame for frame in reversed(frames) if "tutti" in frame[0]), frames[-1])
            return f"{'/'.join(PurePath(path).parts[-2:])} line {line} in {function}"
    return ""
