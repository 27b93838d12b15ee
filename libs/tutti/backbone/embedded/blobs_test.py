"""What the embedded blobs add to their port; the port itself is tested in tests/contract."""

import multiprocessing
from contextlib import closing
from pathlib import Path

import pytest

from tutti.backbone.blobs import BadKey, BlobError, BlobMissing
from tutti.backbone.embedded.blobs import EmbeddedBlobs


def _names(blobs: EmbeddedBlobs, results: "multiprocessing.SimpleQueue[list[str]]") -> None:
    results.put([str(blobs._temporary()) for _ in range(3)])


def test_a_forked_child_stages_under_other_names(tmp_path: Path) -> None:
    context = multiprocessing.get_context("fork")
    results: multiprocessing.SimpleQueue[list[str]] = context.SimpleQueue()
    with closing(EmbeddedBlobs(tmp_path)) as blobs:
        child = context.Process(target=_names, args=(blobs, results))
        child.start()
        theirs = results.get()
        child.join(30)
        assert not set(theirs) & {str(blobs._temporary()) for _ in range(3)}


def test_a_key_is_never_a_folder_of_another(tmp_path: Path) -> None:
    with closing(EmbeddedBlobs(tmp_path)) as blobs:
        blobs.put_if_absent("owner/kind/a", b"x")
        blobs.put_if_absent("owner/kind/b/c", b"x")
        with pytest.raises(BadKey, match="holds a blob"):
            blobs.put_if_absent("owner/kind/a/b", b"y")
        with pytest.raises(BadKey, match="folder of other keys"):
            blobs.put_if_absent("owner/kind/b", b"y")
        with pytest.raises(BlobMissing):
            blobs.stat("owner/kind/b")
        with pytest.raises(BlobMissing):
            blobs.get("owner/kind/b")


def test_a_root_that_is_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("")
    with pytest.raises(BlobError, match="taken"):
        EmbeddedBlobs(tmp_path / "taken")


def test_fetch_to_an_unwritable_place_says_where(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with closing(EmbeddedBlobs(tmp_path / "store")) as blobs:
        blobs.put_if_absent("owner/kind/a", b"x")
        with pytest.raises(BlobError, match="file"):
            blobs.fetch("owner/kind/a", tmp_path / "file" / "below")
