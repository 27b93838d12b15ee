"""The tally of a campaign: what befell its seeds and what they emitted, counted.

Promises: parts that were played in different processes add up to the whole.
"""

import json
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from tests.simulation.platform import NodeFault
from tests.simulation.story import Played
from tutti.chassis.events.catalog import every_event
from tutti.simulation import Fault

FAULTS: tuple[Fault | NodeFault, ...] = (*Fault, *NodeFault)


@dataclass
class Tally:
    """`seconds` are those of the processor."""

    seeds: int = 0
    turns: int = 0
    seconds: float = 0.0
    faults: Counter[str] = field(default_factory=Counter)
    events: Counter[str] = field(default_factory=Counter)

    def add(self, played: Played) -> None:
        self.seeds += 1
        self.turns += played.turns
        for fault in FAULTS:
            self.faults[fault.name] += played.faults[fault] if isinstance(fault, Fault) else played.node_faults[fault]
        self.events += played.events

    def __add__(self, other: "Tally") -> "Tally":
        return Tally(
            self.seeds + other.seeds,
            self.turns + other.turns,
            self.seconds + other.seconds,
            self.faults + other.faults,
            self.events + other.events,
        )

    def write(self, path: Path) -> None:
        temporary = path.with_suffix(".tmp")
        temporary.write_text(json.dumps(vars(self)))
        temporary.rename(path)

    @classmethod
    def read(cls, path: Path) -> "Tally":
        found = json.loads(path.read_text())
        return cls(**{**found, "faults": Counter(found["faults"]), "events": Counter(found["events"])})

    def __str__(self) -> str:
        lines = [
            f"{self.seeds} seeds of the real platform, {self.turns} turns, {self.seconds:.0f} s of processor time",
            f"{self.events.total()} distinct events:",
            *(f"  {self.events[event.type]:7} events {event.type}" for event in every_event()),
            f"{self.faults.total()} faults:",
            *(f"  {self.faults[fault.name]:7} faults {fault.name.lower()}: {fault.value}" for fault in FAULTS),
        ]
        return "\n".join(lines)
