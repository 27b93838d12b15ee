"""Long units of the suite take turns: `make test` runs a third of them, other ones after each commit, and
`make test-all` runs everything.

Guarantees: the same commit has the same turn on every machine, since only the durations in tests/durations.json count,
never what this machine measured; the turns compute and wait about equally long; every long unit has exactly one; a unit
that is not recorded as long, which every new one is, always runs. Who names tests (`pytest FILE`) runs all of them.
"""

from collections.abc import Mapping

from tests.spreading import WAITING

TURNS = 3
LONG_SECONDS = 7
ALWAYS = ("tests/e2e/tiny_test.py",)
"""Long units that run after every commit: from pages to a committed checkpoint."""


def turns(seconds: Mapping[str, float]) -> dict[str, int]:
    """Return the turn, from 0 to `TURNS` - 1, of each unit that takes `LONG_SECONDS` or more.

    The longest ones are dealt first, each to the turn that has the fewest seconds of its kind so far: of units that
    mostly wait, or of others.
    """
    seconds_of = {waits: dict.fromkeys(range(TURNS), 0.0) for waits in (False, True)}
    found = {}
    for name in sorted(seconds, key=lambda name: (-seconds[name], name)):
        if seconds[name] >= LONG_SECONDS and name not in ALWAYS:
            dealt = seconds_of[name.startswith(WAITING)]
            found[name] = min(dealt, key=lambda turn: (dealt[turn], turn))
            dealt[found[name]] += seconds[name]
    return found


def waiting(seconds: Mapping[str, float], rotation: int) -> set[str]:
    """Return the long units whose turn it is not after this many commits."""
    return {name for name, turn in turns(seconds).items() if turn != rotation % TURNS}
