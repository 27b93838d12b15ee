"""Troubles: what keeps the committer from deciding is told at the line, and cleared when it goes on."""

from pathlib import Path
from typing import Any

from tutti.backbone import Blobs
from tutti.chassis.work.reconciler import ATTEMPTS
from tutti.committer.rehearsal_test import Rehearsal


class Defective:
    """Blobs that take no manifest while `broken` is set."""

    def __init__(self, blobs: Blobs) -> None:
        self._blobs, self.broken = blobs, True

    def put_if_absent(self, key: str, data: Any) -> None:
        if self.broken and key.startswith("committer/manifests/"):
            raise ValueError("a defect")
        self._blobs.put_if_absent(key, data)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._blobs, name)


def test_a_defect_in_publishing_is_told_at_the_line_until_it_goes_on(tmp_path: Path) -> None:
    world = Rehearsal(tmp_path, wrap_blobs=Defective)  # type: ignore[arg-type]
    try:
        world.open_epoch(1, 2)
        world.snapshot(5, dp=2, epoch=1)
        world.settle()
        assert (world.line(0).reason, world.line(0).stuck) == ("commits: retrying: ValueError: a defect", False)
        for _ in range(ATTEMPTS):
            world.clock.advance(30)
            world.settle()
        reason = f"commits: gave up after {ATTEMPTS} attempts: ValueError: a defect"
        assert (world.line(0).reason, world.line(0).stuck) == (reason, True)
        world.blobs.broken = False  # type: ignore[attr-defined]
        world.clock.advance(30)
        world.settle()
        assert (world.line(0).reason, world.line(0).stuck, world.line(0).head) == ("", False, 5)
    finally:
        world.close()
