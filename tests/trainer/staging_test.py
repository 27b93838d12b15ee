"""Staging: what a job reads beside token shards is brought, verified and refused like them."""

from pathlib import Path

import pytest

from tutti.backbone.embedded.blobs import EmbeddedBlobs
from tutti.backbone.files import RealFiles
from tutti.corpus.conversations.conversations import Conversation, Message, Role, to_lines
from tutti.records.canonical import JsonValue, bytes_digest
from tutti.records.manifest import Kind, Manifest
from tutti.tokenization.bpe import train_bpe
from tutti.trainer.io.staging import LINES, Cache, StagingError

LINES_KEY, MANIFEST_KEY = "ingest/lines/a.jsonl", "ingest/manifests/a.json"
TALK = Conversation((Message(Role.USER, "a b"), Message(Role.ASSISTANT, "b a")))


@pytest.fixture
def blobs(tmp_path: Path) -> EmbeddedBlobs:
    return EmbeddedBlobs(tmp_path / "blobs")


@pytest.fixture
def cache(tmp_path: Path, blobs: EmbeddedBlobs) -> Cache:
    return Cache(tmp_path / "cache", blobs, RealFiles())


def published(blobs: EmbeddedBlobs) -> str:
    """The content digest of a manifest of one conversation."""
    data = to_lines([TALK])
    lines: dict[str, JsonValue] = {
        "blob": LINES_KEY,
        "bytes": len(data),
        "bytes_digest": bytes_digest(data),
        "count": 1,
    }
    manifest = Manifest(Kind.CONVERSATIONS, {"lines": lines}, (), "test")
    blobs.put_if_absent(LINES_KEY, data)
    blobs.put_if_absent(MANIFEST_KEY, manifest.encode())
    return manifest.content_digest


def test_conversations_are_staged_as_their_lines_and_brought_once(cache: Cache, blobs: EmbeddedBlobs) -> None:
    wanted = {published(blobs): MANIFEST_KEY}
    (folder,) = cache.datasets(wanted)
    assert (folder / LINES).read_bytes() == to_lines([TALK])
    brought = cache.brought_bytes
    assert cache.datasets(wanted) == [folder]
    assert (cache.brought_bytes, cache.found_bytes) == (brought, brought)


def test_lines_with_a_flipped_byte_are_refused(cache: Cache, blobs: EmbeddedBlobs, tmp_path: Path) -> None:
    digest = published(blobs)
    path = next(path for path in (tmp_path / "blobs").rglob("a.jsonl"))
    data = bytearray(path.read_bytes())
    data[3] ^= 1
    path.chmod(0o644)
    path.write_bytes(bytes(data))
    with pytest.raises(StagingError, match=r"the file of lines .* is damaged: .*run its stage again"):
        cache.datasets({digest: MANIFEST_KEY})


def test_another_manifest_than_the_one_of_the_job_is_refused(cache: Cache, blobs: EmbeddedBlobs) -> None:
    published(blobs)
    with pytest.raises(StagingError, match="was the job given another"):
        cache.datasets({f"blake3:{'e' * 64}": MANIFEST_KEY})


def test_a_tokenizer_is_staged_by_its_version_and_no_other(cache: Cache, blobs: EmbeddedBlobs) -> None:
    tokenizer, other = train_bpe(["a b a b"], vocabulary=260), train_bpe(["c d c d"], vocabulary=260)
    blobs.put_if_absent("tokenization/tokenizers/a.json", tokenizer.artefact)
    path = cache.tokenizer("tokenization/tokenizers/a.json", tokenizer.version)
    assert path.read_bytes() == tokenizer.artefact
    with pytest.raises(StagingError, match="the tokenizer is damaged"):
        cache.tokenizer("tokenization/tokenizers/a.json", other.version)
    with pytest.raises(StagingError, match="cannot be staged"):
        cache.tokenizer("tokenization/tokenizers/gone.json", tokenizer.version)
