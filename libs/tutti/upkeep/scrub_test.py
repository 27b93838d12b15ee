"""Every blob is compared with its digest: flipped, cut off and missing ones are named; none is changed."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tutti.backbone.embedded.blobs import EmbeddedBlobs
from tutti.chassis.work.work import put_named
from tutti.records.canonical import bytes_digest
from tutti.records.manifest import Kind, Manifest
from tutti.upkeep.scrub import look, scrub

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
    assert found.bytes == sum(stat.size for stat in store.list("")) - len(b"{}")


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
    assert line.startswith(f"{SHARD}: it is missing, expected blake3:")


def test_a_blob_that_went_with_its_manifest_while_others_were_read_is_not_missing(store: EmbeddedBlobs) -> None:
    looks = look(store, "", lambda key: True)
    found = [next(looks)]  # its manifest
    store.delete(SHARD)
    store.delete(MANIFEST)
    assert [each.damages for each in [*found, *looks] if each.damages] == []


def test_what_an_earlier_scrub_read_is_not_read_again(store: EmbeddedBlobs, tmp_path: Path) -> None:
    (named,) = store.list("dedup/clusters/")
    flip(tmp_path / named.key)
    flip(tmp_path / SHARD)
    places = [each.after for each in look(store, "", lambda key: True) if each.after is not None]
    assert places == [" ", named.key, "trainer/reports/j.0.1.1.0.json", SHARD]
    rest = list(look(store, "", lambda key: True, after=named.key))
    assert [damage.what for each in rest for damage in each.damages] == [SHARD]
    assert sum(each.blobs for each in rest) == 2


def test_a_service_reads_what_it_wrote_and_what_its_manifests_say_of_agents(
    store: EmbeddedBlobs, tmp_path: Path
) -> None:
    put_named(store, "committer/more", b"more", ".json")
    flip(tmp_path / SHARD)
    for owner, blobs, damaged in (("committer", 3, [SHARD]), ("dedup", 1, [])):
        own = (f"{owner}/", "trainer/")
        looks = list(look(store, own[0], lambda key, own=own: key.startswith(own)))  # type: ignore[misc]
        assert sum(each.blobs for each in looks) == blobs
        assert [damage.what for each in looks for damage in each.damages] == damaged
