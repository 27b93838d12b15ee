"""What every blob store promises, with the same test ids on every adapter."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from tutti.backbone import Blobs
from tutti.backbone.blobs import BadKey, BlobError, BlobExists, BlobMissing, BlobsUnavailable, Put, Stat
from tutti.backbone.cached import CachedBlobs
from tutti.backbone.connect import open_blobs
from tutti.backbone.embedded.blobs import EmbeddedBlobs

LARGE = 24 << 20  # in parts of 5 MiB, the smallest that S3 allows


class Embedded:
    def __init__(self, folder: Path) -> None:
        self._folder = folder / "blobs"

    def open(self) -> Blobs:
        return open_blobs(f"file://{self._folder}")

    def unreachable(self) -> Blobs:
        taken = self._folder.with_name("a file")
        taken.write_text("")
        return EmbeddedBlobs(taken)

    def crash(self, key: str) -> None:
        """Put in another process that is killed."""
        program = (
            "import os, signal, sys; from tutti.backbone.connect import open_blobs\n"
            "open_blobs(sys.argv[1]).put_if_absent(sys.argv[2], b'kept')\n"
            "os.kill(os.getpid(), signal.SIGKILL)"
        )
        done = subprocess.run([sys.executable, "-c", program, f"file://{self._folder}", key], timeout=400, check=False)
        assert done.returncode == -signal.SIGKILL


class S3:
    def __init__(self, url: str, own_server: Callable[[str], Any]) -> None:
        self._url, self._own_server = url, own_server

    def open(self) -> Blobs:
        from tutti.backbone.s3.blobs import S3Blobs

        parts = urlsplit(self._url)
        assert parts.username
        assert parts.password
        return S3Blobs(
            f"{parts.hostname}:{parts.port}",
            access_key=parts.username,
            secret_key=parts.password,
            bucket=parts.path.strip("/"),
            prefix="some/where",
            secure=False,
            part_size=5 << 20,
        )

    def unreachable(self) -> Blobs:
        return open_blobs("s3://key:secret@127.0.0.1:9/bucket?secure=false")

    def crash(self, key: str) -> None:
        server = self._own_server("s3")
        self._url = server.up()
        with closing(self.open()) as blobs:
            blobs.put_if_absent(key, b"kept")
            server.kill()
            restart = threading.Thread(target=server.up)
            restart.start()
            restart.join()
            assert blobs.get(key) == b"kept"


class CachedS3(S3):
    def __init__(self, url: str, own_server: Callable[[str], Any], folder: Path) -> None:
        super().__init__(url, own_server)
        self._folder = folder

    def open(self) -> Blobs:
        return CachedBlobs(super().open(), self._folder, most_bytes=LARGE)


Place = Embedded | S3


@pytest.fixture(params=["embedded", "s3", "cached"])
def place(request: pytest.FixtureRequest, tmp_path: Path, own_server: Callable[[str], Any]) -> Place:
    if request.param == "embedded":
        return Embedded(tmp_path)
    if request.param == "cached":
        return CachedS3(request.getfixturevalue("s3_url"), own_server, tmp_path / "cache")
    return S3(request.getfixturevalue("s3_url"), own_server)


@pytest.fixture
def blobs(place: Place) -> Iterator[Blobs]:
    with closing(place.open()) as opened:
        yield opened


def test_what_was_put_comes_back_whole(blobs: Blobs) -> None:
    for n, data in enumerate((b"", b"x", bytes(range(256)) * 99)):
        assert blobs.put_if_absent(f"owner/kind/{n}", data) is Put.CREATED
        assert blobs.get(f"owner/kind/{n}") == data
        assert blobs.stat(f"owner/kind/{n}") == Stat(f"owner/kind/{n}", len(data))


def test_bytes_views_and_files_can_be_put(blobs: Blobs, tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.write_bytes(b"0123456789")
    blobs.put_if_absent("owner/kind/file", source)
    blobs.put_if_absent("owner/kind/view", memoryview(b"0123456789")[2:5])
    assert (blobs.get("owner/kind/file"), blobs.get("owner/kind/view")) == (b"0123456789", b"234")


def test_equal_bytes_are_the_same_and_others_refused(blobs: Blobs, tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.write_bytes(b"one")
    blobs.put_if_absent("owner/kind/a", b"one")
    assert blobs.put_if_absent("owner/kind/a", b"one") is Put.SAME
    assert blobs.put_if_absent("owner/kind/a", source) is Put.SAME
    for other in (b"two", b"", b"one and more"):
        with pytest.raises(BlobExists, match=r"blake3 [0-9a-f]{64}"):
            blobs.put_if_absent("owner/kind/a", other)
    assert blobs.get("owner/kind/a") == b"one"


def test_of_many_that_race_one_creates_and_none_overwrites(place: Place) -> None:
    stores = [place.open() for _ in range(4)]
    for round_ in range(6):
        start = threading.Barrier(8)

        def put(n: int, start: threading.Barrier = start, key: str = f"owner/race/{round_}") -> Put | str:
            start.wait()
            try:
                return stores[n % 4].put_if_absent(key, b"even" if n % 2 == 0 else b"odd!")
            except BlobExists:
                return "refused"

        with ThreadPoolExecutor(8) as pool:
            found = list(pool.map(put, range(8)))
        assert sorted(str(one) for one in found) == ["Put.CREATED"] + ["Put.SAME"] * 3 + ["refused"] * 4
        winner = stores[0].get(f"owner/race/{round_}")
        assert found[0 if winner == b"even" else 1] in (Put.CREATED, Put.SAME)
    for store in stores:
        store.close()


def test_ranges_are_exact(blobs: Blobs) -> None:
    blobs.put_if_absent("owner/kind/a", b"0123456789")
    assert blobs.get_range("owner/kind/a", 0, 10) == b"0123456789"
    assert blobs.get_range("owner/kind/a", 3, 4) == b"3456"
    assert blobs.get_range("owner/kind/a", 9, 1) == b"9"
    assert blobs.get_range("owner/kind/a", 10, 0) == b""
    for start, length in ((5, 6), (10, 1), (-1, 2), (2, -1)):
        with pytest.raises(BlobError):
            blobs.get_range("owner/kind/a", start, length)


def test_a_missing_blob_is_named(blobs: Blobs, tmp_path: Path) -> None:
    asked: list[Callable[[], object]] = [
        lambda: blobs.get("owner/kind/none"),
        lambda: blobs.get_range("owner/kind/none", 0, 1),
        lambda: blobs.stat("owner/kind/none"),
        lambda: blobs.fetch("owner/kind/none", tmp_path / "none"),
    ]
    for ask in asked:
        with pytest.raises(BlobMissing, match="owner/kind/none"):
            ask()
    assert list(tmp_path.glob("*none*")) == []


def test_bad_keys_are_refused(blobs: Blobs) -> None:
    for bad in ("", "a", "a/b", "/a/b/c", "a//c", "a/b/../c", "a/b/.c", "a/b/c d", "a/b/ü", "a/b/" + "c" * 201):
        with pytest.raises(BadKey):
            blobs.put_if_absent(bad, b"")
        with pytest.raises(BadKey):
            blobs.get(bad)
    for bad in ("/a", "a/../b", ".staging", "a b"):
        with pytest.raises(BadKey):
            list(blobs.list(bad))


def test_list_is_in_the_order_of_the_keys(blobs: Blobs) -> None:
    keys = ["a/b/c", "a/b/c-d/e", "a/b/c.d", "a/b/c0/x", "a/b/d", "a/b2/c", "a/c/d", "b/a/z", "b/a/zz"]
    for key in reversed(keys):
        blobs.put_if_absent(key, key.encode())
    assert [stat.key for stat in blobs.list("")] == sorted(keys)
    assert [stat.size for stat in blobs.list("")] == [len(key) for key in sorted(keys)]
    for prefix in ("a/", "a/b", "a/b/", "a/b/c", "b/a/z", "b/a/zz", "c"):
        assert [stat.key for stat in blobs.list(prefix)] == sorted(key for key in keys if key.startswith(prefix))


def test_list_goes_over_more_than_a_page(blobs: Blobs) -> None:
    keys = [f"owner/many/{n:04}" for n in range(1100)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda key: blobs.put_if_absent(key, b""), keys))
    assert [stat.key for stat in blobs.list("owner/many/")] == keys


def test_delete_is_idempotent_and_frees_the_key(blobs: Blobs) -> None:
    blobs.put_if_absent("owner/kind/a", b"one")
    blobs.delete("owner/kind/a")
    blobs.delete("owner/kind/a")
    blobs.delete("owner/never/was")
    with pytest.raises(BlobMissing):
        blobs.get("owner/kind/a")
    assert list(blobs.list("")) == []
    assert blobs.put_if_absent("owner/kind/a", b"two") is Put.CREATED


def test_fetch_replaces_the_target_whole_and_leaves_nothing_else(blobs: Blobs, tmp_path: Path) -> None:
    target = tmp_path / "deep" / "down" / "target"
    for name, data in (("a", b"first"), ("b", os.urandom(3 << 20))):
        blobs.put_if_absent(f"owner/kind/{name}", data)
        blobs.fetch(f"owner/kind/{name}", target)
        assert target.read_bytes() == data
    with pytest.raises(BlobMissing):
        blobs.fetch("owner/kind/none", target)
    assert target.read_bytes() == data
    assert list(target.parent.iterdir()) == [target]


def test_a_large_blob_is_written_once_too(blobs: Blobs, tmp_path: Path) -> None:
    source = tmp_path / "large"
    data = os.urandom(LARGE)
    source.write_bytes(data)
    assert blobs.put_if_absent("owner/large/a", source) is Put.CREATED
    assert blobs.put_if_absent("owner/large/a", data) is Put.SAME
    with pytest.raises(BlobExists):
        blobs.put_if_absent("owner/large/a", data[:-1] + bytes([data[-1] ^ 1]))
    assert blobs.get_range("owner/large/a", LARGE - 5, 5) == data[-5:]
    blobs.fetch("owner/large/a", tmp_path / "copy")
    assert (tmp_path / "copy").read_bytes() == data


def test_large_blobs_that_race_are_not_mixed(place: Place) -> None:
    stores = [place.open() for _ in range(3)]
    contents = [bytes([n]) * (11 << 20) for n in range(3)]

    def put(n: int) -> str:
        try:
            return stores[n].put_if_absent("owner/large/race", contents[n]).value
        except BlobExists:
            return "refused"

    with ThreadPoolExecutor(3) as pool:
        found = list(pool.map(put, range(3)))
    assert sorted(found) == ["created", "refused", "refused"]
    assert stores[0].get("owner/large/race") == contents[found.index("created")]
    for store in stores:
        store.close()


def test_what_was_put_survives_kill_9(place: Place) -> None:
    place.crash("owner/kind/a")
    with closing(place.open()) as blobs:
        assert blobs.get("owner/kind/a") == b"kept"
        assert [stat.key for stat in blobs.list("")] == ["owner/kind/a"]


def test_a_store_that_cannot_be_had_says_so(place: Place) -> None:
    with pytest.raises(BlobError, match=r"a file|127\.0\.0\.1:9") as raised:
        place.unreachable()
    assert isinstance(place, Embedded) or isinstance(raised.value, BlobsUnavailable)
