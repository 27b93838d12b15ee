"""Which long units a commit runs."""

import subprocess
import sys
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from tests.durations import COMMITTED, recorded
from tests.spreading import WAITING
from tests.turns import ALWAYS, LONG_SECONDS, TURNS, turns, waiting

ROOT = Path(__file__).resolve().parents[1]
NAMES = st.builds("{}{}".format, st.sampled_from(["", WAITING[0]]), st.text(min_size=1))
DURATIONS = st.dictionaries(NAMES, st.floats(0, 1000), max_size=60)


@given(DURATIONS, st.integers(0, 10_000))
def test_every_long_unit_runs_once_in_successive_commits_and_a_short_one_always(
    seconds: dict[str, float], rotation: int
) -> None:
    ran = [set(seconds) - waiting(seconds, rotation + number) for number in range(TURNS)]
    for name in seconds:
        long = seconds[name] >= LONG_SECONDS
        assert sum(name in each for each in ran) == (1 if long else TURNS)


@given(DURATIONS, st.booleans())
def test_turns_differ_by_no_more_than_the_longest_unit_that_waits_or_computes(
    seconds: dict[str, float], waits: bool
) -> None:
    dealt = {name: turn for name, turn in turns(seconds).items() if name.startswith(WAITING) == waits}
    times = [sum(seconds[name] for name, turn in dealt.items() if turn == each) for each in range(TURNS)]
    assert max(times) - min(times) <= max((seconds[name] for name in dealt), default=0) + 1e-6


def test_what_runs_always_has_no_turn_and_exists() -> None:
    assert not set(turns(dict.fromkeys(ALWAYS, 100.0)))
    assert all((ROOT / name).exists() for name in ALWAYS)


def test_the_suite_leaves_out_what_has_another_turn_and_names_it() -> None:
    seconds = {name: took for name, (_, took) in recorded(COMMITTED).items()}
    out = sorted(name for name in waiting(seconds, 1) if "[" not in name)[0]
    short = "tests/durations_test.py"

    def collected(*options: str) -> str:
        command = [sys.executable, "-m", "pytest", "--collect-only", "-q", *options, out, short]
        environment = {"CAMPAIGN_ROTATION": "1", "PATH": "/usr/bin:/bin"}
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, env=environment)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    with_turns = collected("--turns")
    assert f"{out}::" not in with_turns
    assert f"{short}::" in with_turns
    assert out in with_turns.partition("wait for their turn")[2]
    assert f"{out}::" in collected()
