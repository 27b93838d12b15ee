"""The ways to write a file durably."""

from pathlib import Path

import pytest

from tutti.backbone.files import RealFiles, overwrite
from tutti.backbone.recording import Crashed, RecordingFiles


def test_what_a_crash_left_beside_a_file_does_not_stop_its_writer(tmp_path: Path) -> None:
    (tmp_path / "journal.tmp").write_bytes(b"half of some")
    overwrite(RealFiles(), tmp_path / "journal.tmp", tmp_path / "journal", [b"whole"])
    assert (tmp_path / "journal").read_bytes() == b"whole"
    assert not (tmp_path / "journal.tmp").exists()


def test_after_a_crash_at_any_operation_the_old_or_the_new_content_is_there_and_can_be_replaced(tmp_path: Path) -> None:
    target, temporary = tmp_path / "journal", tmp_path / "journal.tmp"
    for moment in range(1, 20):
        target.write_bytes(b"old")
        try:
            overwrite(RecordingFiles(RealFiles(), crash_at=moment), temporary, target, [b"new"])
        except Crashed:
            assert target.read_bytes() in (b"old", b"new")
            overwrite(RealFiles(), temporary, target, [b"newer"])
            assert target.read_bytes() == b"newer"
        else:
            assert moment > 3
            return
    pytest.fail("no end of operations")
