"""Stores that do not accept our credentials: said so by name, and never read as missing, damaged or away."""

import json
import shutil
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from tutti.backbone import Blobs
from tutti.backbone.blobs import BlobsRefused, BlobsUnavailable
from tutti.backbone.connect import open_blobs


def every_call(blobs: Blobs, folder: Path) -> list[Callable[[], object]]:
    return [
        lambda: blobs.stat("owner/kind/a"),
        lambda: blobs.get("owner/kind/a"),
        lambda: blobs.get_range("owner/kind/a", 0, 1),
        lambda: blobs.fetch("owner/kind/a", folder / "fetched"),
        lambda: list(blobs.list("owner/")),
        lambda: blobs.put_if_absent("owner/kind/b", b"b"),
        lambda: blobs.delete("owner/kind/a"),
    ]


def test_an_access_key_that_the_s3_server_does_not_know_is_named(s3_url: str) -> None:
    parts = urlsplit(s3_url)
    stranger = parts._replace(netloc=f"stranger:{parts.password}@{parts.hostname}:{parts.port}").geturl()
    with pytest.raises(BlobsRefused, match=r"check the access key in blobs\.url"):
        open_blobs(stranger)
    forger = parts._replace(netloc=f"{parts.username}:wrong@{parts.hostname}:{parts.port}").geturl()
    with pytest.raises(BlobsRefused, match=r"check the secret in blobs\.url|AccessDenied"):
        open_blobs(forger)


def test_a_key_that_is_revoked_and_a_bucket_that_is_gone_are_no_missing_blobs(
    own_server: Callable[[str], Any], tmp_path: Path
) -> None:
    server = own_server("s3")
    with closing(open_blobs(server.up())) as blobs:
        blobs.put_if_absent("owner/kind/a", b"a")
        record = server.folder / "s3" / "server.json"
        settings = json.loads(record.read_text())
        record.write_text(json.dumps(settings | {"access": "another"}))
        server.restart()
        for call in every_call(blobs, tmp_path):
            with pytest.raises(BlobsRefused, match="check the access key"):
                call()
        record.write_text(json.dumps(settings))
        server.restart()
        assert blobs.get("owner/kind/a") == b"a"
        shutil.rmtree(server.folder / "s3" / "data" / "tutti")
        for call in every_call(blobs, tmp_path):
            with pytest.raises(BlobsUnavailable, match="NoSuchBucket"):
                call()
    assert list(tmp_path.glob("fetched*")) == []
