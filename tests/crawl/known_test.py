"""A crawl that knows many URLs has them in its database, and of each that it is to visit a count in memory."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.crawl.known import LINKS
from tests.scale import scale
from tests.smalldisk import ROOT

BATCHES_MEGABYTES, URL_BYTES, NOTED_BYTES = 10, 250, 10
"""A batch and what the database keeps; of a URL that is to be visited; of any, since the test notes who was asked."""


@pytest.mark.timeout(1_800)
@pytest.mark.parametrize(("visited", "bytes_of_url"), [("all", URL_BYTES), ("few", NOTED_BYTES)])
def test_of_a_url_memory_has_a_count_if_it_is_to_be_visited(visited: str, bytes_of_url: int, tmp_path: Path) -> None:
    count = scale(test=20_000, soak=1_000_000)
    command = [sys.executable, "-m", "tests.crawl.known", str(tmp_path), str(count), visited]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["known"] == count + count // LINKS + 1
    assert found["megabytes"] < BATCHES_MEGABYTES + count * bytes_of_url / 1e6
