"""Uploads to an S3 server that nobody ended: their parts are no blob and cost room, until they are removed."""

from collections.abc import Callable
from contextlib import closing
from urllib.parse import urlsplit

import pytest
from minio import Minio

from tutti.backbone.s3.blobs import S3Blobs


@pytest.fixture
def opened(s3_url: str) -> Callable[[float], S3Blobs]:
    parts = urlsplit(s3_url)

    def open_again(abandoned_seconds: float) -> S3Blobs:
        return S3Blobs(
            f"{parts.hostname}:{parts.port}",
            access_key=parts.username or "",
            secret_key=parts.password or "",
            bucket=parts.path.strip("/"),
            secure=False,
            prefix="ours",
            abandoned_seconds=abandoned_seconds,
        )

    return open_again


@pytest.fixture
def uploads(s3_url: str, opened: Callable[[float], S3Blobs]) -> Callable[[], set[str]]:
    """Names of the uploads under way; two have begun, by processes that are gone."""
    parts = urlsplit(s3_url)
    bucket = parts.path.strip("/")
    client = Minio(f"{parts.hostname}:{parts.port}", parts.username, parts.password, secure=False)
    opened(3600).close()
    for name in ("ours/owner/kind/a", "theirs/owner/kind/a"):
        upload = client._create_multipart_upload(bucket, name, {})
        client._upload_part(bucket, name, b"half of it", None, upload, 1)
    return lambda: {each.object_name for each in client._list_multipart_uploads(bucket).uploads}


def test_parts_of_an_upload_that_nobody_ended_are_removed(
    opened: Callable[[float], S3Blobs], uploads: Callable[[], set[str]]
) -> None:
    with closing(opened(3600)):
        assert uploads() == {"ours/owner/kind/a", "theirs/owner/kind/a"}
    with closing(opened(-3600)) as blobs:
        assert uploads() == {"theirs/owner/kind/a"}
        assert list(blobs.list("owner/")) == []
