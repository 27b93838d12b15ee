"""A byte that flipped on the disk costs the stage that made it, never the recipe."""

from pathlib import Path

import pytest

from tests.e2e.command import checkpoints, tiny, tutti

pytestmark = pytest.mark.xdist_group("e2e-damage")


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("damage")


@pytest.fixture(scope="module")
def first(data_dir: Path, pages: Path) -> dict:  # type: ignore[type-arg]
    result = tutti(*tiny(data_dir, pages))
    assert result.code == 0, result.err
    return result.json()  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    ("kind", "stage"),
    [
        ("ingest/document-shards", "ingest"),
        ("ingest/manifests", "ingest"),
        ("tokenization/token-shards", "tokenization"),
    ],
)
def test_a_flipped_byte_is_found_and_mended_by_the_next_run(
    first: dict,  # type: ignore[type-arg]
    kind: str,
    stage: str,
    data_dir: Path,
    pages: Path,
) -> None:
    damaged = min((data_dir / "blobs" / kind).iterdir())
    whole = damaged.read_bytes()
    middle = len(whole) // 2
    damaged.write_bytes(whole[:middle] + bytes([whole[middle] ^ 1]) + whole[middle + 1 :])
    again = tutti(*tiny(data_dir, pages))
    assert again.code == 0, again.err
    summary = again.json()
    assert summary["run"]["state"] == "done"
    assert {each["name"]: each["reused"] for each in summary["run"]["stages"]} == {
        name: name != stage for name in ("ingest", "dedup", "tokenization", "train")
    }
    assert checkpoints(summary) == checkpoints(first)
    assert damaged.read_bytes() == whole
