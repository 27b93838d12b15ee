"""A platform on real servers one of which has a disk that fills up while it trains: the doctor names the server, and
the run ends with the states of an embedded platform once there is room.
"""

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.contract.serverdisk_test import disk, kept_server
from tests.e2e.command import checkpoints, tiny, tutti
from tests.faults.processes import until
from tests.scale import SOAK
from tests.smalldisk import full
from tests.stack.observed import trains
from tests.stack.remote import HEALED_SECONDS, SETTINGS, remote_platform, servers

__all__ = ["disk"]
pytestmark = [
    pytest.mark.timeout(1800),
    pytest.mark.skipif(not SOAK, reason="a soak row; tests/e2e/fulldisk_test.py fills the disk of a platform"),
]
FULL_SECONDS = 10.0
OVERRIDES = ("input.limit=9", "train.steps=400", "train.checkpoint_every=25")


# Of each the words of the doctor. A server that ends because it cannot write is away.
@pytest.mark.parametrize(
    ("name", "words"),
    [("kafka", ()), ("postgres", ("the server's disk is full",)), ("s3", ("no space left in s3://",))],
    ids=["kafka", "postgres", "s3"],
)
def test_a_run_goes_on_after_the_disk_of_a_server_was_full(
    name: str,
    words: tuple[str, ...],
    disk: Path,
    programs: None,
    pages: Path,
    embedded: Callable[..., Any],
    tmp_path: Path,
) -> None:
    others = [each for each in SETTINGS if each != name]
    with (
        kept_server(name, "600m", disk) as (url, seen),
        servers(tmp_path / "servers", *others) as urls,
        remote_platform(tmp_path / "data", {**urls, name: url}) as remote,
    ):
        begun = tutti(*tiny(remote.data_dir, pages, *OVERRIDES, output=("--detach",)))
        assert begun.code == 0, begun.err
        run = begun.out.strip()
        until(lambda: trains(remote.data_dir, run, 5), seconds=HEALED_SECONDS, what=f"the training of {run}")
        with full(seen):
            remote.await_word(*words, f"the setting {SETTINGS[name]} names")
            threading.Event().wait(FULL_SECONDS)
        result = tutti("runs", "follow", run, "--data-dir", remote.data_dir, "-o", "json", seconds=600)
        assert result.code == 0, result.err
        assert checkpoints(result.json()) == checkpoints(embedded(*OVERRIDES))
        remote.await_health()
