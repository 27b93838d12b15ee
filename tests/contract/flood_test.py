"""Clients without a credential take up neither the descriptors nor the memory of a host.

They send the beginnings of requests for pages and for metrics, of bodies and messages, of each as many as the host has
descriptors, and wait.
"""

import contextlib
import re
import resource
import selectors
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from tests.faults.processes import until

from tutti.chassis.config.datadir import DataDir, endpoint_in, pages_in
from tutti.client import connect
from tutti.contracts.common.v1 import ListRequest
from tutti.contracts.pipeline.v1.pipeline_pb2 import DESCRIPTOR

DESCRIPTORS = 2048
EACH = DESCRIPTORS  # of each kind
ANSWER_SECONDS, CALM_SECONDS = 5.0, 60.0
MOST_BYTES = 16 << 20
HALF_SENT = b"GET /runs HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Slow: "
BODY = (
    b"POST /login HTTP/1.1\r\nHost: 127.0.0.1\r\nSec-Fetch-Site: same-origin\r\n"
    b"Content-Type: application/x-www-form-urlencoded\r\nContent-Length: 16000\r\n\r\ntoken=" + b"x" * 8000
)


def frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    """A frame of HTTP/2 (RFC 9113, section 4.1)."""
    return len(payload).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + payload


def field(name: bytes, value: bytes) -> bytes:
    """A header of HPACK: a literal that is not indexed (RFC 7541, section 6.2.2)."""
    return b"\x00" + bytes([len(name)]) + name + bytes([len(value)]) + value


PATH = f"/{DESCRIPTOR.services_by_name['PipelineService'].full_name}/CreateRun".encode()
HEADERS = b"".join(
    field(name, value)
    for name, value in (
        (b":method", b"POST"),
        (b":scheme", b"http"),
        (b":path", PATH),
        (b":authority", b"x"),
        (b"content-type", b"application/grpc"),
        (b"te", b"trailers"),
    )
)
MESSAGE = (
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
    + frame(4, 0, 0, b"")
    + frame(1, 4, 1, HEADERS)
    + frame(0, 0, 1, b"\x00" + (8 << 20).to_bytes(4, "big") + b"x" * 16_000)
)


class Host:
    """A host in a process with few descriptors."""

    def __init__(self, folder: Path) -> None:
        self.data_dir = DataDir(folder)
        program = (
            f"import resource, runpy, sys; resource.setrlimit(resource.RLIMIT_NOFILE, ({DESCRIPTORS}, {DESCRIPTORS})); "
            "sys.argv = ['host', '--data-dir', sys.argv[1], 'access', 'pipeline']; "
            "runpy.run_module('tutti.platform.main', run_name='__main__')"
        )
        with (folder / "logs" / "host.log").open("wb") as log:
            self.process = subprocess.Popen([sys.executable, "-P", "-c", program, str(folder)], stdout=log, stderr=log)
        until(lambda: endpoint_in(folder) is not None, seconds=180, what="the host")

    def memory(self) -> int:
        """Bytes of it that are in memory."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.search(r"VmRSS:\s+(\d+)", status)[1]) << 10  # type: ignore[index]

    def descriptors(self) -> int:
        return len(list(Path(f"/proc/{self.process.pid}/fd").iterdir()))

    def answers(self) -> float:
        """Seconds that a call with a credential takes on a new connection."""
        began = time.monotonic()
        with connect(self.data_dir.path, deadline_seconds=30) as client:
            client.access.ListUsers(ListRequest(page_size=1))
        return time.monotonic() - began


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Host]:
    made = Host(tmp_path)
    yield made
    made.process.send_signal(signal.SIGTERM)
    with contextlib.suppress(subprocess.TimeoutExpired):
        made.process.wait(30)
    made.process.kill()
    made.process.wait()


@contextlib.contextmanager
def flood(address: tuple[str, int], sent: bytes, count: int) -> Iterator[None]:
    """So many connections that have sent something and wait; those that the server closes stay closed."""
    with contextlib.ExitStack() as stack, selectors.DefaultSelector() as ready:
        for _ in range(count):
            made = stack.enter_context(socket.socket())
            made.setblocking(False)
            made.connect_ex(address)
            ready.register(made, selectors.EVENT_WRITE)
        deadline = time.monotonic() + 10
        while ready.get_map() and time.monotonic() < deadline:
            for key, _ in ready.select(0.1):
                ready.unregister(key.fileobj)
                with contextlib.suppress(OSError):
                    key.fileobj.send(sent)  # type: ignore[union-attr]
        yield


def test_a_call_is_answered_while_strangers_hold_all_that_they_can_and_memory_is_given_back(host: Host) -> None:
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    if hard < 5 * EACH:
        pytest.skip(f"needs {5 * EACH} descriptors, {hard} may be had")
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    grpc_at = host.data_dir.endpoint() or ""
    pages = urlsplit(pages_in(host.data_dir.path, "pipeline") or "")
    web, rpc = (pages.hostname or "", pages.port or 0), ("127.0.0.1", int(grpc_at.rpartition(":")[2]))
    scraped = ("127.0.0.1", int((host.data_dir.path / "metrics").read_text().rpartition(":")[2]))
    for _ in range(20):
        host.answers()
    before = host.memory()
    begun = ((web, HALF_SENT), (web, BODY), (rpc, MESSAGE), (scraped, HALF_SENT))
    with contextlib.ExitStack() as stack:
        for address, sent in begun:
            stack.enter_context(flood(address, sent, EACH))
        took = [host.answers() for _ in range(5)]
        assert host.descriptors() < DESCRIPTORS * 3 // 4
    assert max(took) < ANSWER_SECONDS
    until(lambda: host.memory() - before <= MOST_BYTES, seconds=CALM_SECONDS, what="memory that is given back")
