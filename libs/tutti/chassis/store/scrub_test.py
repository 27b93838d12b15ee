"""Every blob is compared with its digest: flipped, cut off and missing ones are named; none is changed."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tutti.backbone.embedded.blobs import EmbeddedBlobs
from tutti.chassis.store.scrub import scrub
from tutti.chassis.work.work import put_named
from tutti.corpus.manifest import Kind, Manifest
from tutti.records.canonical import bytes_digest

SHARD = "trainer/shards/j.0.1.1.0.bin"
MANIFEST = "committer/manifests/j.0.1.json"


@pytest.fixture
def store(tmp_path: Path) -> EmbeddedBlobs:
    """A blob named by its digest, one that a manifest states the digest of, and one that nothing is known of."""
    blobs = EmbeddedBlobs(tmp_path)
    put_named(blobs, "dedup/clusters", b"named", ".json")
    blobs.put_if_absent(SHARD, b"shard")
    body = {"blobs": [{"key": SHARD, "bytes_digest": bytes_digest(b"shard")}]}
    manifest = Manifest(kind=str(Kind.CHECKPOINT), body=body, parents=(), producer="test")
    blobs.put_if_absent(MANIFEST, manifest.encode())
    blobs.put_if_absent("trainer/reports/j.0.1.1.0.json", b"{}")
    return blobs


def test_an_intact_store_has_nothing_damaged(store: EmbeddedBlobs) -> None:
    found = scrub(store)
    assert (found.blobs, found.unstated, found.damaged) == (4, 1, ())
    assert found.bytes == sum(stat.size for stat in store.list(""))


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.chmod(0o644)
    path.write_bytes(data)


@pytest.mark.parametrize("damage", [flip, lambda path: path.write_bytes(path.read_bytes()[:-1])], ids=["flip", "cut"])
@pytest.mark.parametrize("key", [SHARD, MANIFEST, "dedup/clusters/"])
def test_a_damaged_blob_is_named_and_left_as_it_is(
    store: EmbeddedBlobs, tmp_path: Path, key: str, damage: Callable[[Path], None]
) -> None:
    (stat,) = store.list(key)
    (tmp_path / stat.key).chmod(0o644)
    damage(tmp_path / stat.key)
    before = (tmp_path / stat.key).read_bytes()
    (line,) = scrub(store).damaged
    assert line.startswith(f"{stat.key}: ")
    assert (tmp_path / stat.key).read_bytes() == before


def test_a_blob_that_a_manifest_states_and_that_is_gone_is_named(store: EmbeddedBlobs) -> None:
    store.delete(SHARD)
    (line,) = scrub(store).damaged
    assert line.startswith(f"{SHARD}: its bytes have digest none: it is missing")


def test_no_more_is_read_than_the_rate_allows(store: EmbeddedBlobs) -> None:
    waits: list[float] = []
    found = scrub(store, bytes_per_second=1, wait=waits.append)
    # Nothing was really waited for, so the last wait is that for all that was read.
    assert waits[-1] == pytest.approx(found.bytes - len(b"{}"), abs=1)
