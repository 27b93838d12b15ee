"""Each stage on a disk that fills up at any place: it waits and says why, leaves nothing half-done, and goes on."""

import json
import os
import sys
from pathlib import Path

import pytest

from tests.corpora.filling import SITE
from tests.smalldisk import mountable, said, started

SIZE = "100m"
LEAST_TRIES = 5
FULL = ("no space left to ", "[Errno 28] ", "the disk of ")


@pytest.mark.parametrize("stage", ["crawl", "ingest", "filter", "dedup", "lines", "tokenization", "index"])
def test_a_stage_waits_for_room_leaves_nothing_half_done_and_goes_on(stage: str, tmp_path: Path) -> None:
    disk = mountable(tmp_path)
    command = [sys.executable, "-m", "tests.corpora.filling", str(disk), stage]
    with started(SIZE, disk, command, dict(os.environ)) as (process, _):
        assert process.wait(280) == 0, said(disk, SIZE)
    made = json.loads((tmp_path / f"{SIZE}.out").read_text())
    *waited, done = made["tried"]
    assert len(waited) >= LEAST_TRIES
    assert {each["state"] for each in waited} == {"STATE_RUNNING"}
    assert not [each for each in waited if not each["waits"].startswith(FULL)]
    assert not [each for each in made["tried"] if each["damaged"] or each["scratch"]]
    assert done["state"] == "STATE_DONE"
    assert made["same"]  # as with room from the beginning
    if stage == "crawl":  # no page was asked for whose answer could not be kept
        assert {path: count for path, count in made["asked"].items() if path != "/robots.txt"} == dict.fromkeys(
            ["/", *(f"/{number}" for number in range(SITE))], 1
        )
