"""The cache before a store: what it keeps, what it never believes, and when things go."""

import os
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from blake3 import blake3
from hypothesis import given
from hypothesis import strategies as st

from tutti.backbone.blobs import BlobMissing
from tutti.backbone.cached import AHEAD, CachedBlobs
from tutti.backbone.embedded.blobs import EmbeddedBlobs

ROOM = 1000


@pytest.fixture
def store(tmp_path: Path) -> Iterator[EmbeddedBlobs]:
    with closing(EmbeddedBlobs(tmp_path / "far")) as opened:
        yield opened


@pytest.fixture
def blobs(store: EmbeddedBlobs, tmp_path: Path) -> Iterator[CachedBlobs]:
    with closing(CachedBlobs(store, tmp_path / "near", most_bytes=ROOM)) as opened:
        yield opened


def put(store: EmbeddedBlobs, data: bytes, *, digest: str = "") -> str:
    key = f"owner/kind/{digest or blake3(data).hexdigest()}.bin"
    store.put_if_absent(key, data)
    return key


def fetched(blobs: CachedBlobs, key: str, to: Path) -> bytes:
    blobs.fetch(key, to)
    return to.read_bytes()


def kept(tmp_path: Path) -> set[str]:
    return {path.name for path in (tmp_path / "near").iterdir()}


def test_what_was_fetched_is_here_the_next_time(store: EmbeddedBlobs, blobs: CachedBlobs, tmp_path: Path) -> None:
    key = put(store, b"twelve bytes")
    assert fetched(blobs, key, tmp_path / "one") == b"twelve bytes"
    assert (blobs.found_bytes, blobs.brought_bytes) == (0, 12)
    store.delete(key)
    assert fetched(blobs, key, tmp_path / "deep" / "two") == b"twelve bytes"
    (tmp_path / "one").unlink()
    (tmp_path / "one").write_bytes(b"what was there goes")
    assert fetched(blobs, key, tmp_path / "one") == b"twelve bytes"
    assert (blobs.found_bytes, blobs.brought_bytes) == (24, 12)
    blobs.delete(key)
    with pytest.raises(BlobMissing):
        blobs.fetch(key, tmp_path / "three")


def test_a_name_without_a_digest_is_fetched_each_time(store: EmbeddedBlobs, blobs: CachedBlobs, tmp_path: Path) -> None:
    store.put_if_absent("owner/kind/newest", b"a")
    assert fetched(blobs, "owner/kind/newest", tmp_path / "one") == b"a"
    store.delete("owner/kind/newest")
    store.put_if_absent("owner/kind/newest", b"b")
    assert fetched(blobs, "owner/kind/newest", tmp_path / "one") == b"b"
    assert kept(tmp_path) == set()


def test_what_was_damaged_here_is_brought_again(store: EmbeddedBlobs, blobs: CachedBlobs, tmp_path: Path) -> None:
    key = put(store, b"right")
    blobs.fetch(key, tmp_path / "one")
    (held,) = (tmp_path / "near").iterdir()
    held.chmod(0o644)
    held.write_bytes(b"wrong")
    assert fetched(blobs, key, tmp_path / "two") == b"right"
    assert blobs.found_bytes == 0


def test_what_is_damaged_where_it_comes_from_is_handed_on_and_not_kept(
    store: EmbeddedBlobs, blobs: CachedBlobs, tmp_path: Path
) -> None:
    key = put(store, b"wrong", digest=blake3(b"right").hexdigest())
    assert fetched(blobs, key, tmp_path / "one") == b"wrong"
    assert kept(tmp_path) == set()


def test_what_was_used_longest_ago_goes_when_there_is_no_room(
    store: EmbeddedBlobs, blobs: CachedBlobs, tmp_path: Path
) -> None:
    keys = [put(store, bytes([number]) * 400) for number in range(3)]
    for at, key in enumerate((keys[0], keys[1], keys[0])):
        blobs.fetch(key, tmp_path / "one")
        for path in (tmp_path / "near").iterdir():
            if path.name in key:
                os.utime(path, (at, at))
    blobs.fetch(keys[2], tmp_path / "one")
    assert kept(tmp_path) == {blake3(bytes([number]) * 400).hexdigest() for number in (0, 2)}
    large = put(store, b"x" * (ROOM + 1))
    assert fetched(blobs, large, tmp_path / "one") == b"x" * (ROOM + 1)
    assert len(kept(tmp_path)) == 2


def test_a_full_disk_takes_the_cache_first(
    store: EmbeddedBlobs, blobs: CachedBlobs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = put(store, b"first"), put(store, b"second")
    blobs.fetch(first, tmp_path / "one")
    really = store.fetch

    def fetch(key: str, to: Path) -> None:
        if to.parent.name == "near":
            raise OSError(28, "No space left on device")
        really(key, to)

    monkeypatch.setattr(store, "fetch", fetch)
    assert fetched(blobs, second, tmp_path / "two") == b"second"
    assert kept(tmp_path) == set()


def test_what_is_wanted_soon_comes_by_itself(store: EmbeddedBlobs, blobs: CachedBlobs, tmp_path: Path) -> None:
    contents = [b"%d" % number for number in range(3 * AHEAD)]
    keys = [put(store, data) for data in contents]
    blobs.prefetch([*keys, "owner/kind/unnamed", put(store, b"never asked for")])
    for key, data in zip(keys, contents, strict=True):
        assert fetched(blobs, key, tmp_path / "one") == data
    assert blobs.found_bytes == 0  # none of it was here before
    assert blobs.brought_bytes >= sum(map(len, contents))
    blobs.prefetch(["owner/kind/" + "0" * 64])  # there is no such blob
    with pytest.raises(BlobMissing):
        blobs.fetch("owner/kind/" + "0" * 64, tmp_path / "one")


@given(data=st.data())
def test_it_never_changes_what_a_store_says(data: st.DataObject, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Whatever is prefetched, fetched, deleted and put again, by two caches of one folder, in any order."""
    folder = tmp_path_factory.mktemp("any")
    store = EmbeddedBlobs(folder / "far")
    caches = [CachedBlobs(store, folder / "near", most_bytes=150) for _ in range(2)]
    contents = [bytes([number]) * size for number, size in enumerate((10, 40, 60, 90, 200))]
    keys = [put(store, each) for each in contents]
    steps = st.tuples(st.sampled_from(["fetch", "prefetch"]), st.integers(0, 1), st.integers(0, len(keys) - 1))
    for what, which, at in data.draw(st.lists(steps, max_size=12)):
        if what == "prefetch":
            caches[which].prefetch(keys[at:])
        else:
            assert fetched(caches[which], keys[at], folder / "to") == contents[at]
    for each in caches:
        each.close()
