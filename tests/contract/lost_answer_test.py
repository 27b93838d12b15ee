"""An S3 server whose answers get lost: what the store holds is what counts."""

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from urllib.parse import urlsplit

import pytest

from tutti.backbone import Blobs
from tutti.backbone.blobs import BlobExists, BlobsUnavailable, Put
from tutti.backbone.connect import open_blobs


class Proxy:
    """Forwards each request to the server; of those that `loses` chooses it swallows the answer, and hangs up."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self.loses: Callable[[bytes], bool] = lambda request: False
        self.lost = 0
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._listener.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with closing(client), closing(socket.create_connection(("127.0.0.1", self._port))) as server, suppress(OSError):
            while request := _message(client):
                server.sendall(request)
                answer = _message(server, has_body=not request.startswith(b"HEAD"))
                if self.loses(request):
                    self.lost += 1
                    return
                client.sendall(answer)


def _message(source: socket.socket, *, has_body: bool = True) -> bytes:
    """One HTTP message with a Content-Length."""
    data = b""
    while b"\r\n\r\n" not in data:
        if not (piece := source.recv(1 << 16)):
            return b""
        data += piece
    head, _, body = data.partition(b"\r\n\r\n")
    lengths = [line.split(b":")[1] for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:")]
    while has_body and len(body) < int(lengths[0] if lengths else 0):
        if not (piece := source.recv(1 << 16)):
            return b""
        body += piece
    return head + b"\r\n\r\n" + body


@pytest.fixture
def proxy(s3_url: str) -> Iterator[Proxy]:
    port = urlsplit(s3_url).port
    assert port is not None
    with closing(Proxy(port)) as started:
        yield started


@pytest.fixture
def blobs(s3_url: str, proxy: Proxy) -> Iterator[Blobs]:
    parts = urlsplit(s3_url)
    url = parts._replace(netloc=f"{parts.username}:{parts.password}@127.0.0.1:{proxy.port}").geturl()
    with closing(open_blobs(url)) as opened:
        yield opened


def a_put(request: bytes) -> bool:
    return request.startswith(b"PUT")


def test_a_put_whose_first_answer_was_lost_has_succeeded(blobs: Blobs, proxy: Proxy) -> None:
    """The client asks again and is told that the key is taken: by itself."""
    proxy.loses = lambda request: a_put(request) and proxy.lost == 0
    assert blobs.put_if_absent("owner/kind/a", b"ours") in (Put.CREATED, Put.SAME)
    assert proxy.lost == 1
    assert blobs.get("owner/kind/a") == b"ours"


def test_a_put_whose_every_answer_was_lost_is_settled_by_reading_back(blobs: Blobs, proxy: Proxy) -> None:
    proxy.loses = a_put
    assert blobs.put_if_absent("owner/kind/a", b"ours") is Put.CREATED
    assert proxy.lost > 1


def test_a_lost_answer_never_hides_other_bytes(blobs: Blobs, proxy: Proxy) -> None:
    blobs.put_if_absent("owner/kind/a", b"theirs")
    proxy.loses = a_put
    with pytest.raises(BlobExists):
        blobs.put_if_absent("owner/kind/a", b"ours")
    assert blobs.get("owner/kind/a") == b"theirs"


def test_nothing_is_claimed_when_nothing_can_be_read_back(blobs: Blobs, proxy: Proxy) -> None:
    proxy.loses = lambda request: True
    with pytest.raises(BlobsUnavailable, match="cannot be reached"):
        blobs.put_if_absent("owner/kind/a", b"ours")
