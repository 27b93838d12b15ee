"""Blobs in an S3 bucket, with any server that honours `If-None-Match: *` on PUT and on CompleteMultipartUpload.

Promises: as the port; exclusivity is the server's (the final step of a multipart upload is conditional too); an answer
that was lost is settled by reading the blob back; parts of uploads that nobody ended are removed at a later opening.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from io import BytesIO
from pathlib import Path
from typing import BinaryIO, TypeVar
from uuid import uuid4
from xml.etree.ElementTree import Element, SubElement, tostring

import urllib3
from blake3 import blake3
from urllib3 import BaseHTTPResponse

from tutti.backbone.blobs import (
    BlobError,
    BlobExists,
    BlobMissing,
    BlobsRefused,
    BlobsUnavailable,
    Put,
    Stat,
    StoreFull,
    check_key,
    check_prefix,
)
from tutti.backbone.files import READ_SIZE, Files, RealFiles, make_folders, overwrite
from tutti.backbone.s3.largebytes import read_whole
from tutti.backbone.s3.sdk import InvalidResponseError, Minio, MinioException, S3Error, ServerError

T = TypeVar("T")
PART_SIZE = 64 << 20  # a blob of one part costs one request, and the server puts nothing together
LARGE = 8 << 20
ABANDONED_SECONDS = 24 * 3600.0  # no upload lasts so long
_MISSING = ("NoSuchKey", "NoSuchObject", "NotFound", "ResourceNotFound")
_TAKEN = ("PreconditionFailed", "ConditionalRequestConflict")
# Some servers answer these with the status 404: an error is classified by its code, never by its status alone.
_REFUSED = {
    "InvalidAccessKeyId": "check the access key in blobs.url",
    "XAdminUserNotFound": "check the access key in blobs.url",
    "SignatureDoesNotMatch": "check the secret in blobs.url",
    "AccessDenied": "check the access key in blobs.url, and its rights",
    "RequestTimeTooSkewed": "check the clocks of this machine and of the server",
}
_FULL = ("XMinioStorageFull", "InsufficientStorage", "QuotaExceeded", "XMinioAdminBucketQuotaExceeded")


class _Taken(Exception):
    """The key holds a blob, perhaps the one that this call wrote."""


class S3Blobs:
    def __init__(
        self,
        endpoint: str,
        *,
        access_key: str,
        secret_key: str,
        bucket: str,
        prefix: str = "",
        secure: bool = True,
        region: str = "us-east-1",
        deadline_seconds: float = 30,
        part_size: int = PART_SIZE,
        abandoned_seconds: float = ABANDONED_SECONDS,
        files: Files | None = None,
    ) -> None:
        self._where = f"s3://{endpoint}/{bucket}"
        self._bucket, self._prefix = bucket, f"{prefix}/" if prefix else ""
        self._part_size = part_size
        self._files = files or RealFiles()
        self._http = urllib3.PoolManager(
            maxsize=16,
            timeout=urllib3.Timeout(connect=min(5, deadline_seconds), read=deadline_seconds),
            retries=urllib3.Retry(total=3, backoff_factor=0.2, status_forcelist=[500, 502, 503, 504]),
        )
        self._client = Minio(
            endpoint, access_key=access_key, secret_key=secret_key, secure=secure, region=region, http_client=self._http
        )
        self._asked("open", bucket, self._make_bucket)
        self._sweep(timedelta(seconds=abandoned_seconds))

    def put_if_absent(self, key: str, data: bytes | memoryview | Path) -> Put:
        name = self._name(key)
        try:
            with _open(data) as stream:
                first = stream.read(self._part_size)
                following = stream.read(1)
                if following:
                    stream.seek(0)
                    self._asked("put", key, lambda: self._put_parts(name, stream))
                else:
                    self._asked("put", key, lambda: self._put_whole(name, first))
            return Put.CREATED
        except _Taken:
            self._require_same(key, data)
            return Put.SAME
        except BlobsUnavailable:
            # The request may have been carried out: the answer is what the store holds now.
            try:
                self._require_same(key, data)
            except BlobMissing:
                pass
            else:
                return Put.CREATED
            raise

    def get(self, key: str) -> bytes:
        return self._read(key)

    def get_range(self, key: str, start: int, length: int) -> bytes:
        if start < 0 or length < 0:
            raise BlobError(f"{key}: a range starts at 0 or later and has no negative length, got {start}, {length}")
        size = self.stat(key).size if length == 0 else None
        data = b"" if size is not None else self._read(key, start, length)
        if len(data) != length or (size is not None and start > size):
            raise BlobError(f"{key}: bytes {start} to {start + length} were asked for, it has {self.stat(key).size}")
        return data

    def fetch(self, key: str, to: Path) -> None:
        make_folders(self._files, to.parent)
        beside = to.with_name(f".{to.name}.{uuid4().hex}")
        overwrite(self._files, beside, to, self._stream(key))

    def stat(self, key: str) -> Stat:
        name = self._name(key)
        return Stat(key, self._asked("stat", key, lambda: self._size(name)))

    def list(self, prefix: str) -> Iterator[Stat]:
        check_prefix(prefix)
        objects = self._client.list_objects(self._bucket, prefix=self._prefix + prefix, recursive=True)
        while (found := self._asked("list", prefix, lambda: next(objects, None))) is not None:
            name = found.object_name or ""
            if not name.endswith("/"):
                yield Stat(name.removeprefix(self._prefix), found.size or 0)

    def delete(self, key: str) -> None:
        name = self._name(key)
        try:
            self._asked("delete", key, lambda: self._client.remove_object(self._bucket, name))
        except BlobMissing:
            return

    def close(self) -> None:
        self._http.clear()

    def _name(self, key: str) -> str:
        check_key(key)
        return self._prefix + key

    def _size(self, name: str) -> int:
        try:
            return self._client.stat_object(self._bucket, name).size or 0
        except S3Error as error:
            if error.response.status != 404:
                raise
        # The answer to HEAD has no body: 404 may be about the blob, the bucket or the access key. GET gives the code.
        response = self._client.get_object(self._bucket, name)
        response.close()
        response.release_conn()
        return int(response.headers["content-length"])

    def _make_bucket(self) -> None:
        try:
            if not self._client.bucket_exists(self._bucket):
                self._client.make_bucket(self._bucket)
        except S3Error as error:
            if error.code not in ("BucketAlreadyOwnedByYou", "BucketAlreadyExists"):
                raise

    # The SDK has no public way to send a condition with a PUT or with the last step of a multipart upload.

    def _put_whole(self, name: str, data: bytes) -> None:
        self._client._execute("PUT", self._bucket, name, body=data, headers={"If-None-Match": "*"}, no_body_trace=True)

    def _put_parts(self, name: str, stream: BinaryIO) -> None:
        upload = self._client._create_multipart_upload(self._bucket, name, {})
        try:
            parts = Element("CompleteMultipartUpload")
            number = 0
            while piece := stream.read(self._part_size):
                number += 1
                tag = self._client._upload_part(self._bucket, name, piece, None, upload, number)
                part = SubElement(parts, "Part")
                SubElement(part, "PartNumber").text = str(number)
                SubElement(part, "ETag").text = f'"{tag}"'
            self._client._execute(
                "POST",
                self._bucket,
                name,
                body=tostring(parts),
                headers={"If-None-Match": "*", "Content-Type": "application/xml"},
                query_params={"uploadId": upload},
            )
        except BaseException:
            self._abort(name, upload)
            raise

    def _abort(self, name: str, upload: str) -> None:
        try:
            self._client._abort_multipart_upload(self._bucket, name, upload)
        except (MinioException, urllib3.exceptions.HTTPError):
            return  # a later opening removes what is left

    def _sweep(self, age: timedelta) -> None:
        """Remove the parts of uploads that began so long ago: whoever began them is gone."""
        try:
            found = self._client._list_multipart_uploads(self._bucket, prefix=self._prefix)
        except (MinioException, urllib3.exceptions.HTTPError):
            return  # some stores do not list them; they cost room and nothing else
        for upload in found.uploads:
            began = upload.initiated_time
            if began is not None and upload.upload_id and began < datetime.now(UTC) - age:
                self._abort(upload.object_name, upload.upload_id)

    def _read(self, key: str, start: int = 0, length: int = 0) -> bytes:
        with self._opened(key, start, length) as response:
            size = int(response.headers.get("content-length", 0))
            if size < LARGE:
                return self._asked("get", key, response.read)
            return self._asked("get", key, lambda: read_whole(size, response.readinto))

    def _stream(self, key: str) -> Iterator[bytes]:
        """The blob in pieces."""
        with self._opened(key) as response:
            # read1 gives what is there without copying it into a buffer of its own first.
            while piece := self._asked("get", key, lambda: response.read1(READ_SIZE)):
                yield piece

    @contextmanager
    def _opened(self, key: str, start: int = 0, length: int = 0) -> Iterator[BaseHTTPResponse]:
        """A response to read; a connection that breaks on the way is an error, never a short blob."""
        name = self._name(key)
        response = self._asked("get", key, lambda: self._client.get_object(self._bucket, name, start, length))
        try:
            yield response
        finally:
            response.close()
            response.release_conn()

    def _require_same(self, key: str, data: bytes | memoryview | Path) -> None:
        ours, theirs = blake3(), blake3()
        with _open(data) as stream:
            while piece := stream.read(READ_SIZE):
                ours.update(piece)
        for piece in self._stream(key):
            theirs.update(piece)
        if ours.digest() != theirs.digest():
            raise BlobExists(
                f"{key} is written once and holds blake3 {theirs.hexdigest()}; refused to replace it by "
                f"{ours.hexdigest()}"
            )

    def _asked(self, verb: str, what: str, call: Callable[[], T]) -> T:
        """Run one request and turn its failure into the port's error."""
        try:
            return call()
        except S3Error as error:
            code, status = error.code or "", error.response.status
            if code in _TAKEN or status == 412:
                raise _Taken from error
            if code in _MISSING:
                raise BlobMissing(f"no blob {what} in {self._where}") from error
            if code in _FULL or status == 507:
                raise StoreFull(f"no space left in {self._where} to {verb} {what}; nothing was written") from error
            if code in _REFUSED:
                raise BlobsRefused(
                    f"{self._where} refused to {verb} {what}: {code} {error.message}; {_REFUSED[code]}"
                ) from error
            if code == "InvalidRange":
                raise BlobError(f"cannot {verb} {what}: {error.message}") from error
            raise BlobsUnavailable(f"{self._where} refused to {verb} {what}: {code} {error.message}") from error
        except (ServerError, InvalidResponseError, MinioException) as error:
            raise BlobsUnavailable(f"{self._where} failed to {verb} {what}: {error}") from error
        except (urllib3.exceptions.HTTPError, ConnectionError, EOFError) as error:
            raise BlobsUnavailable(
                f"{self._where} cannot be reached to {verb} {what}: {error}; is the server up?"
            ) from error


def _open(data: bytes | memoryview | Path) -> BinaryIO:
    return open(data, "rb") if isinstance(data, Path) else BytesIO(data)
