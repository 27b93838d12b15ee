"""Blobs of 64 MiB in S3: written once, read and compared with their digest, beside the bare SDK.

Ours hashes each blob before it is put, and again what was got; the peer only moves the bytes. The server is on the same
machine, so that both share its cores.
"""

from io import BytesIO
from itertools import count
from pathlib import Path
from random import Random
from urllib.parse import parse_qs, urlsplit

from minio import Minio

from benchmarks.pairs import Pairs, alternate, timed
from benchmarks.program import WentWrong, main, scratch
from benchmarks.realservers import real_servers
from benchmarks.table import Row, ratio_at_least
from tutti.backbone.connect import open_blobs
from tutti.records.canonical import bytes_digest

GOAL = ratio_at_least(0.9)
SIZE = 64 << 20
PAIRS, QUICK_PAIRS = 40, 8


class Bare:
    """The SDK alone, on the same bucket."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        options = {name: values[0] for name, values in parse_qs(parts.query).items()}
        self._bucket = parts.path.strip("/").partition("/")[0]
        self._client = Minio(
            f"{parts.hostname}:{parts.port}",
            access_key=parts.username,
            secret_key=parts.password,
            secure=options.get("secure", "true") == "true",
            region=options.get("region", "us-east-1"),
        )

    def put(self, name: str, data: bytes) -> None:
        """Write an object."""
        self._client.put_object(self._bucket, name, BytesIO(data), len(data), part_size=len(data))

    def get(self, name: str) -> bytes:
        """Read an object."""
        answer = self._client.get_object(self._bucket, name)
        try:
            return bytes(answer.read())
        finally:
            answer.close()
            answer.release_conn()


def measure(quick: bool) -> list[Row]:
    """Raises WentWrong where other bytes come back."""
    data = Random(0).randbytes(SIZE)
    digest = bytes_digest(data)
    pairs, numbers = QUICK_PAIRS if quick else PAIRS, count()
    with scratch("stack-blobs") as name, real_servers(Path(name) / "servers", "s3") as urls:
        ours, bare = open_blobs(urls["s3"]), Bare(urls["s3"])

        def put() -> None:
            ours.put_if_absent(f"bench/ours/{next(numbers)}-{bytes_digest(data).partition(':')[2]}", data)

        def get() -> None:
            if bytes_digest(ours.get("bench/ours/read")) != digest:
                raise WentWrong("a blob has other bytes than were put")

        ours.put_if_absent("bench/ours/read", data)
        puts = alternate(timed(put), timed(lambda: bare.put(f"bench/bare/{next(numbers)}", data)), pairs=pairs)
        gets = alternate(timed(get), timed(lambda: bare.get("bench/ours/read")), pairs=pairs)
    return [_row("put", puts), _row("get", gets)]


def _row(verb: str, found: Pairs) -> Row:
    note = "peer: minio-py without a digest and without a condition"
    return Row.of_speed(f"S3 {verb} of 64 MiB", unit="MiB/s", amount=SIZE / 2**20, pairs=found, goal=GOAL, note=note)


if __name__ == "__main__":
    main("stack_blobs", __doc__, measure)
