"""Kafka, Postgres and S3 servers whose disk fills up: the refusal names the server, and the disk; what was acknowledged
is there afterwards, and writing goes on once there is room.
"""

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from tests.contract.network_test import LONGEST, PATIENCE, PORTS, Writer
from tests.faults.processes import until
from tests.lacking import lacking
from tests.scale import SOAK
from tests.smalldisk import full, mountable, said, started

pytestmark = [
    pytest.mark.skipif(not SOAK, reason="a soak row; tests/e2e/fulldisk_test.py fills the disk of a platform"),
]
KEPT = Path(__file__).with_name("keptserver.py")
NO_ROOM = "No space left on device"


@pytest.fixture
def disk() -> Iterator[Path]:
    """Where a tmpfs can be mounted that the account of Postgres reaches."""
    if os.geteuid():
        lacking("needs root: Postgres has an account of its own, which reaches no disk that others mount")
    with tempfile.TemporaryDirectory(prefix="tutti-disk-") as folder:
        Path(folder).chmod(0o755)
        yield mountable(Path(folder))


@contextmanager
def kept_server(name: str, size: str, disk: Path) -> Iterator[tuple[str, Path]]:
    """The URL of a server with its data on a small disk, and where that disk can be seen. It is kept running."""
    command = [sys.executable, str(KEPT), name, f"{disk}/own"]
    with started(size, disk, command, dict(os.environ)) as (process, seen):
        printed = disk.parent / f"{size}.out"
        until(
            lambda: "\n" in printed.read_text() or process.poll() is not None or said(disk, size) != "",
            seconds=2 * LONGEST,
            what=f"a server on a disk of {size}",
        )
        if "xattr" in said(disk, size):
            lacking(f"needs a tmpfs with extended attributes: {said(disk, size)}")
        assert printed.read_text(), said(disk, size)
        yield printed.read_text().splitlines()[0], seen


# Of each the room for it, and the words of a refusal. Kafka ends when it cannot write: it is away then.
@pytest.mark.parametrize(
    ("name", "size", "words"),
    [
        ("kafka", "400m", "is the broker up, and is there room on its disk?"),
        ("postgres", "200m", "the server's disk is full; nothing was written"),
        ("s3", "64m", "no space left in s3://"),
    ],
    ids=["kafka", "postgres", "s3"],
)
def test_a_server_whose_disk_was_full_has_lost_nothing_and_goes_on(
    name: str, size: str, words: str, disk: Path, unique: str, request: pytest.FixtureRequest
) -> None:
    request.getfixturevalue(f"{name}_url")  # its program is on this machine
    with kept_server(name, size, disk) as (url, seen):
        parts = urlsplit(url)
        with closing(PORTS[name](url, unique, PATIENCE)) as port:
            port.write(0)
            writer = Writer(port)
            writer.start()
            writer.goes_on()
            with full(seen):
                until(lambda: any(words in each for each in writer.refused), seconds=LONGEST, what="a refusal")
                if name == "kafka":  # its keeper reports why it cannot be started
                    until(lambda: NO_ROOM in said(disk, size), seconds=LONGEST, what="a reason")
            writer.goes_on()
            writer.stop()
            assert set(range(writer.acknowledged + 1)) - port.read() == set()
        assert [each for each in writer.refused if f"{parts.hostname}:{parts.port}" not in each] == []
        print(f"count of writes acknowledged on a small disk of {name}: {writer.acknowledged}, none lost")
