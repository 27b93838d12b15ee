"""`tutti scrub` on a data directory, and what the doctor says of it."""

import json
from pathlib import Path

import pytest

from tutti.backbone.embedded.blobs import EmbeddedBlobs
from tutti.chassis.config.datadir import DataDir
from tutti.chassis.work.work import put_named
from tutti.cli.scrubbing import newest
from tutti.cli.stack_test import tutti


def test_a_scrub_names_what_is_damaged_and_the_doctor_remembers_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data_dir = DataDir(tmp_path)
    key = put_named(EmbeddedBlobs(tmp_path / "blobs"), "dedup/clusters", b"content", ".json")
    assert (newest(tmp_path).ok, "no blob was read back yet" in newest(tmp_path).message) == (True, True)
    code, out, _ = tutti(capsys, "scrub", "--data-dir", str(tmp_path))
    assert (code, out) == (0, "1 blobs, 0.0 MiB: 0 damaged, 0 without a digest to compare with\n")
    assert newest(tmp_path).message.startswith("1 blobs were read at ")
    path = data_dir.path / "blobs" / key
    path.chmod(0o644)
    path.write_bytes(b"other")
    code, out, err = tutti(capsys, "scrub", "-o", "json", "--data-dir", str(tmp_path))
    assert (code, err) == (1, "tutti: 1 of 1 blobs are damaged\n")
    assert json.loads(out)["damaged"][0].startswith(f"{key}: its bytes have digest ")
    found = newest(tmp_path)
    assert (found.ok, "1 are damaged" in found.message) == (False, True)
