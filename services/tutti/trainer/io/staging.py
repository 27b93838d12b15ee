"""Staging: what a job reads on the local disk, verified before anybody reads it.

What lies there with the right digest is used again; the cache keeps a bounded number of each kind.
"""

import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from tutti.backbone.blobs import BlobMissing, Blobs
from tutti.backbone.files import Files, make_folders
from tutti.checkpoints.reader import stage
from tutti.corpus.conversations.conversationset import Lines
from tutti.corpus.tokens.dataset import DatasetBody, Split
from tutti.records.canonical import file_digest, is_digest
from tutti.records.errors import CorpusError
from tutti.records.manifest import Kind, Manifest

MANIFEST = "manifest.json"
LINES = "lines.jsonl"
TOKENIZER = "tokenizer.json"
OF_LINES = (Kind.CONVERSATIONS, Kind.PREFERENCES)
"""Manifests of one blob of JSON lines."""


class StagingError(Exception):
    """The requested data is not available: missing or damaged at its source."""


def shard_file(bytes_digest: str) -> str:
    """The local name of a token shard."""
    return f"{bytes_digest.removeprefix('blake3:')}.bin"


class Cache:
    """Folders by digest; the ones used longest ago go when there are more than `keep` of a kind (or wanted at once).

    `found_bytes` of token shards were here when they were wanted, `brought_bytes` had to be fetched.
    """

    def __init__(self, folder: Path, blobs: Blobs, files: Files, *, keep: int = 4) -> None:
        self.found_bytes = self.brought_bytes = 0
        self._folder, self._blobs, self._files, self._keep = folder, blobs, files, keep

    def datasets(self, wanted: Mapping[str, str]) -> list[Path]:
        """The folders of datasets that are wanted at once: each with its manifest, and its token shards or its lines.

        `wanted`: the key of the manifest by digest. Raises StagingError, BlobError.
        """
        keep = max(self._keep, len(wanted))
        folders = [self._enter("datasets", digest, keep) for digest in wanted]
        for folder, (digest, manifest_key) in zip(folders, wanted.items(), strict=True):
            self._stage(folder, manifest_key, digest)
        return folders

    def _stage(self, folder: Path, manifest_key: str, digest: str) -> None:
        try:
            data = self._blobs.get(manifest_key)
            manifest = Manifest.decode(data, expected=(Kind.DATASET, *OF_LINES))
            if manifest.content_digest != digest:
                raise StagingError(
                    f"{manifest_key} is dataset {manifest.content_digest}; expected {digest}: "
                    "was the job given another?"
                )
            if manifest.kind == Kind.DATASET:
                body = DatasetBody.read(manifest)
                for split in (body.train, body.validation):
                    self._shards(folder, split)
            else:
                lines = Lines.of(manifest)
                self._file(folder / LINES, lines.blob, lines.bytes_digest, "the file of lines")
            self._blobs.fetch(manifest_key, folder / MANIFEST)
        except (BlobMissing, CorpusError) as error:
            raise StagingError(f"dataset {digest} cannot be staged: {error}") from error

    def checkpoints(self, wanted: Mapping[str, str]) -> list[Path]:
        """The folders that `open_staged` opens, of checkpoints that are wanted at once.

        `wanted`: the key of the manifest by state digest. Raises StagingError, BlobError.
        """
        keep = max(self._keep, len(wanted))
        folders = [self._enter("checkpoints", digest, keep) for digest in wanted]
        for folder, (digest, manifest_key) in zip(folders, wanted.items(), strict=True):
            try:
                stage(self._blobs, manifest_key, folder, identity=digest, files=self._files)
            except (BlobMissing, CorpusError) as error:
                raise StagingError(f"checkpoint {manifest_key} cannot be staged: {error}") from error
        return folders

    def tokenizer(self, key: str, version: str) -> Path:
        """The file of a tokenizer. Raises StagingError, BlobError."""
        # Ranks import this module before they are forked, and the tokenizer's libraries start threads.
        from tutti.corpus.tokens.tokenizer import BytePairTokenizer, TokenizerError

        path = self._enter("tokenizers", version, self._keep) / TOKENIZER
        try:
            self._blobs.fetch(key, path)
            BytePairTokenizer.load(path.read_bytes(), expected_version=version)
        except (BlobMissing, TokenizerError) as error:
            raise StagingError(f"tokenizer {key} cannot be staged: {error}") from error
        return path

    def _shards(self, folder: Path, split: Split) -> None:
        for entry in split.shards:
            path = folder / shard_file(entry.bytes_digest)
            self._file(path, entry.blob, entry.bytes_digest, "token shard")

    def _file(self, path: Path, blob: str, digest: str, what: str) -> None:
        """Bring a blob unless it is here, and compare its digest. Raises StagingError, BlobError."""
        if path.exists() and file_digest(path) == digest:
            self.found_bytes += self._files.size(path)
            return
        self._blobs.fetch(blob, path)
        self.brought_bytes += self._files.size(path)
        if (seen := file_digest(path)) != digest:
            self._files.unlink(path)
            raise StagingError(
                f"{what} {blob} is damaged: seen {seen}, expected {digest}; delete the blob and run its stage again"
            )

    def _enter(self, kind: str, digest: str, keep: int) -> Path:
        if not is_digest(digest):
            raise StagingError(f"{digest!r} is no digest; expected blake3:<64 hexadecimal digits>")
        parent = self._folder / kind
        folder = parent / digest.removeprefix("blake3:")
        make_folders(self._files, folder)
        os.utime(folder)
        others = sorted((path for path in parent.iterdir() if path != folder), key=lambda path: path.stat().st_mtime)
        for path in others[: max(0, len(others) + 1 - keep)]:
            shutil.rmtree(path, ignore_errors=True)
        return folder
