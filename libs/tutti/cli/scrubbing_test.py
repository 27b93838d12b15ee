"""`tutti scrub` asks the services, and shows what came of it."""

import json
from pathlib import Path

import pytest

from tutti.backbone.embedded.blobs import EmbeddedBlobs
from tutti.chassis.demo_test import running
from tutti.chassis.work.work import put_named
from tutti.cli.stack_test import tutti


def test_a_scrub_names_what_is_damaged_and_its_result_is_kept(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    where = ("--data-dir", str(tmp_path))
    key = put_named(EmbeddedBlobs(tmp_path / "blobs"), "ingest/anything", b"content", ".json")
    with running(tmp_path):
        code, out, err = tutti(capsys, "scrub", "--last", *where)
        assert (code, err) == (0, "nothing was read back yet of ingest\n")
        code, out, _ = tutti(capsys, "scrub", *where)
        read = "0 rows, 0 log records, 1 blobs of 7 B"
        assert (code, out) == (0, f"{read}: 0 damaged, 0 repaired, 0 without a digest to compare with\n")
        path = tmp_path / "blobs" / key
        path.chmod(0o644)
        path.write_bytes(b"other")
        code, out, err = tutti(capsys, "scrub", "-o", "json", *where)
        assert (code, err) == (1, "tutti: 1 things are damaged\n")
        (found,) = json.loads(out)
        assert found["damaged"][0].startswith(f"{key}: its bytes have digest ")
        code, out, _ = tutti(capsys, "scrub", "--last", *where)
        assert (code, out.splitlines()[0]) == (1, f"BAD  ingest: {found['damaged'][0]}")
        code, out, _ = tutti(capsys, "doctor", *where)
        assert "1 are damaged" in out
