"""The autopsy: from the flight records of a hanging attempt to the guilty rank, in words.

Guilty is who did not answer; when all did, who is furthest behind: in the lowest step, and there with the fewest
collectives entered.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath

from tutti.contracts.trainer.v1 import FlightRecord

MAIN = "MainThread"
_FRAME = re.compile(r'File "([^"]+)", line (\d+), in (\S+)')


@dataclass(frozen=True)
class Collective:
    """The newest collective of a rank, as its back end recorded it."""

    name: str
    sequence: int
    pending: bool

    def __str__(self) -> str:
        return f"{self.name} #{self.sequence} ({'waiting' if self.pending else 'left'})"


@dataclass(frozen=True)
class Finding:
    """The hanging ranks, and the cause as it is reported."""

    guilty: tuple[int, ...]
    cause: str


def examine(
    records: Mapping[int, FlightRecord], silent: Sequence[int], *, steps: Mapping[int, int], seconds: float
) -> Finding:
    """`silent` did not answer for `seconds`; `steps` are the steps that each rank has crossed."""
    if silent:
        guilty = tuple(sorted(silent))
        words = [f"{_named(guilty)} has not answered for {seconds:.1f} s, after step {min(steps[r] for r in guilty)}"]
    else:
        guilty = _behind(records)
        words = [f"no rank made progress for {seconds:.1f} s; {_named(guilty)} is furthest behind"]
    words += [_told(rank, records[rank]) for rank in sorted(records)]
    return Finding(guilty, "; ".join(words))


def last_collective(record: FlightRecord) -> Collective | None:
    """None when there was none, or the back end's record cannot be read."""
    try:
        entries = json.loads(record.collectives or "{}").get("entries", [])
        newest = max(entries, key=lambda entry: int(entry["collective_seq_id"]), default=None)
        if newest is None:
            return None
        return Collective(
            str(newest["profiling_name"]), int(newest["collective_seq_id"]), pending=not newest.get("retired", False)
        )
    except (ValueError, KeyError, TypeError, AttributeError):
        return None


def _behind(records: Mapping[int, FlightRecord]) -> tuple[int, ...]:
    if not records:
        return ()
    places = {rank: (record.step, _sequence(record)) for rank, record in records.items()}
    least = min(places.values())
    return tuple(sorted(rank for rank, place in places.items() if place == least))


def _sequence(record: FlightRecord) -> int:
    collective = last_collective(record)
    return -1 if collective is None else collective.sequence


def _told(rank: int, record: FlightRecord) -> str:
    collective = last_collective(record)
    where = f", last collective {collective}" if collective else ""
    return f"rank {rank} is in step {record.step}, {record.phase}{where}{_stack(record.stacks)}"


def _stack(stacks: str) -> str:
    """The innermost frame of the main thread that is ours, without the machine's folders."""
    for block in stacks.split("\n\n"):
        if block.startswith(MAIN) and (frames := _FRAME.findall(block)):
            path, line, function = next((frame for frame in reversed(frames) if "tutti" in frame[0]), frames[-1])
            return f", at {'/'.join(PurePath(path).parts[-2:])} line {line} in {function}"
    return ""


def _named(ranks: Sequence[int]) -> str:
    if not ranks:
        return "nobody"
    return f"rank {ranks[0]}" if len(ranks) == 1 else f"ranks {', '.join(map(str, ranks))}"
