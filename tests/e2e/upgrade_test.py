"""Data directories that earlier releases left, and one of today: restored from what is kept, they show the same.

Each was kept by `tools/fixture.py` when its version was released, with its canonical export beside it.
"""

import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from tests.e2e.command import ROOT, checkpoints, platform, tiny, tutti

FOLDER = Path(__file__).parent / "releases"
VERSIONS = sorted(path.name.removesuffix(".tar.xz") for path in FOLDER.glob("*.tar.xz"))
THIS = "this"


@pytest.fixture(params=[*VERSIONS, THIS])
def kept(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """The archive of a release, or one made now: what is kept of a data directory is enough to restore it."""
    if request.param != THIS:
        return FOLDER / f"{request.param}.tar.xz"
    command = [
        sys.executable,
        str(ROOT / "tools" / "fixture.py"),
        THIS,
        "--folder",
        str(tmp_path),
        "--recipe",
        "tiny.yaml",
    ]
    made = subprocess.run(command, capture_output=True, text=True, check=False)
    assert made.returncode == 0, made.stderr
    return tmp_path / f"{THIS}.tar.xz"


def test_a_kept_data_directory_is_seen_as_it_was_and_serves_new_work(kept: Path, tmp_path: Path, pages: Path) -> None:
    data_dir = tmp_path / "data"
    with tarfile.open(kept) as archive:
        archive.extractall(data_dir, filter="data")
    with platform(data_dir):
        exported = tutti("export", "--canonical", "--data-dir", data_dir)
        assert exported.out == kept.with_name(kept.name.replace(".tar.xz", ".export.jsonl")).read_text(), exported.err

        seen = tutti("checkpoints", "ls", "--data-dir", data_dir, "-o", "json").json()
        assert {3, 6} <= {each["step"] for each in seen}
        for each in seen:
            verified = tutti("checkpoints", "verify", each["name"], "--data-dir", data_dir)
            assert verified.code == 0, verified.err

        ran = tutti(*tiny(data_dir, pages, "train.steps=5"))
        assert ran.code == 0, ran.err
        assert list(checkpoints(ran.json())) == [5]
        status = tutti("status", "--data-dir", data_dir)
        assert (status.code, status.out.splitlines()[0].split()) == (0, ["status", "ok"]), status.out
