"""The stage: where seeds are played, and what a calm seed of the same script has left.

Promises: a script is played calmly once, by one of the workers; every other seed of it is examined and compared with
that, line by line.
"""

import hashlib
import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from tests.shared import made_once
from tests.simulation.platform import NODE_RATES, RATES, NodeFault
from tests.simulation.story import BESIDE, CALM, CALM_NODES, CANCELLED, MAIN, Played, Script, Story, script_of, weather
from tutti.simulation import Control, Fault, SimulationFailed

CALM_TRIES = 20


class Stage:
    """Over a folder of pages; `kept` is where the workers keep what calm seeds left."""

    def __init__(self, pages: Path, kept: Path) -> None:
        self.pages, self._kept = pages, kept
        self.left_calmly = cache(self._known)

    def play_seed(self, seed: int) -> Played:
        """A seed with the script and the weather that it draws. Raises SimulationFailed."""
        return self.play(seed, script_of(seed), rates=weather(seed, RATES), node_rates=weather(seed, NODE_RATES))

    def play(
        self,
        seed: int,
        script: Script,
        *,
        rates: Mapping[Fault, float] = RATES,
        node_rates: Mapping[NodeFault, float] = NODE_RATES,
        control: Control | None = None,
    ) -> Played:
        """One seed to its end, examined and compared. Raises SimulationFailed."""
        self.left_calmly(MAIN, script.calm)
        story = Story(seed, script, self.pages, rates=rates, node_rates=node_rates, control=control)
        try:
            story.tell()
            story.settle(lambda lines: not self.differences(lines, story))
            played = story.played()
            differ = self.differences(played.export, story)
        finally:
            story.close()
        if differ:
            raise SimulationFailed(f"seed {seed}: the canonical state differs from a calm seed's: {differ[0]}")
        return played

    def differences(self, lines: tuple[str, ...], story: Story) -> list[str]:
        """What differs from a calm seed, in words."""
        expected = dict(self.left_calmly(MAIN, story.script.calm))
        if not story.reshaped:  # the job was done before it could be
            expected = {name: line for name, line in expected.items() if not name.startswith("transitions/")}
        seen = by_name(lines)
        if story.script.cancels:
            others = self.left_calmly(CANCELLED, BESIDE).keys() - expected.keys()
            seen = {name: line for name, line in seen.items() if name not in others}
        names = sorted(name for name in seen.keys() | expected.keys() if seen.get(name) != expected.get(name))
        return [f"seen {seen.get(name, 'nothing')}, expected {expected.get(name, 'nothing')}" for name in names]

    def _known(self, run: str, script: Script) -> dict[str, str]:
        name = hashlib.sha256(repr((run, script)).encode()).hexdigest()[:16]
        found: dict[str, str] = made_once(self._kept / name, lambda: self._left_calmly(run, script))
        return found

    def _left_calmly(self, run: str, script: Script) -> dict[str, str]:
        """What a calm seed leaves; one in which the job was done before it could be reshaped is none."""
        for number in range(CALM_TRIES):
            story = Story(f"calm {number}", script, self.pages, rates=CALM, node_rates=CALM_NODES)
            try:
                if run == MAIN:
                    story.tell()
                else:
                    story.tell_alone(run)
                story.settle(lambda lines: True)
                if story.reshaped == bool(script.reshape):
                    return by_name(story.played().export)
            finally:
                story.close()
        raise AssertionError(f"calmly, the job was done {CALM_TRIES} times before {script} could reshape it")


def by_name(lines: tuple[str, ...]) -> dict[str, str]:
    return {json.loads(line)["name"]: line for line in lines}
