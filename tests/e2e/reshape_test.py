"""The number of ranks changes by recorded transitions, and no bit of the states does; without one it is refused."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.command import checkpoints, start, tiny, tutti
from tests.faults.processes import until

pytestmark = [pytest.mark.xdist_group("e2e-reshape"), pytest.mark.timeout(600)]
WAY = (2, 3, 1, 4)
STEPS = ("train.steps=60", "train.checkpoint_every=5")


def job(data_dir: Path) -> dict[str, Any]:
    listed = tutti("jobs", "ls", "--data-dir", data_dir, "-o", "json")
    found = json.loads(listed.out) if listed.code == 0 else []
    return found[0] if found else {"state": "none", "decided_step": 0, "epoch": 0}


def test_the_way_4_2_3_1_4_gives_the_states_of_an_undisturbed_run(pages: Path, tmp_path: Path) -> None:
    straight = tutti(*tiny(tmp_path / "straight", pages, "train.ranks=4", *STEPS))
    assert straight.code == 0, straight.err
    data_dir = tmp_path / "bent"
    process = start(*tiny(data_dir, pages, "train.ranks=4", *STEPS))
    for number, ranks in enumerate(WAY, start=1):
        until(lambda: job(data_dir)["decided_step"] >= 5 * number, seconds=120, what=f"step {5 * number}")  # noqa: B023
        asked = tutti("jobs", "reshape", job(data_dir)["name"], "--dp", ranks, "--data-dir", data_dir)
        assert asked.code == 0, asked.err
        until(lambda: job(data_dir)["epoch"] > number, seconds=120, what=f"epoch {number + 1}")  # noqa: B023
    out, err = process.communicate(timeout=240)
    assert process.returncode == 0, err
    bent = json.loads(out)
    assert checkpoints(bent) == checkpoints(straight.json())
    assert bent["train"]["shape"]["data_parallel"] == WAY[-1]
    print("\n".join(bent["train"]["history"]))


def test_more_ranks_than_leaves_are_refused(pages: Path, tmp_path: Path) -> None:
    process = start(*tiny(tmp_path / "data", pages, "train.steps=200"))
    until(lambda: job(tmp_path / "data")["state"] == "running", seconds=120, what="training")
    refused = tutti("jobs", "reshape", job(tmp_path / "data")["name"], "--dp", 9, "--data-dir", tmp_path / "data")
    assert refused.code == 2
    assert "8" in refused.err
    process.terminate()
    process.communicate(timeout=60)
