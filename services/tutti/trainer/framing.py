"""Messages over a stream socket, each preceded by its length (uint32, little-endian).

A message arrives whole or not at all; a length beyond the limit or an end inside a message is an error that says so.
"""

import contextlib
import select
import socket
import struct
import threading
import time
from collections.abc import Callable
from typing import Generic, Self, TypeVar

from google.protobuf.message import Message

LENGTH = struct.Struct("<I")
MAX_MESSAGE = 32 << 20
_READ = 1 << 16


class FramingError(Exception):
    """The stream is not a sequence of messages, or the message does not fit; the socket is of no more use."""


M = TypeVar("M", bound=Message)


def encode(message: Message, *, limit: int = MAX_MESSAGE) -> bytes:
    """The bytes of one frame. Raises FramingError when the message is longer than `limit`."""
    body = message.SerializeToString()
    if len(body) > limit:
        raise FramingError(f"a message of {len(body)} bytes; expected at most {limit}")
    return LENGTH.pack(len(body)) + body


class Unframer:
    """Cuts a stream of bytes into messages, however it arrives."""

    def __init__(self, *, limit: int = MAX_MESSAGE) -> None:
        self._data = bytearray()
        self._limit = limit

    def feed(self, data: bytes) -> list[bytes]:
        """The messages that are whole now. Raises FramingError."""
        self._data += data
        found, start = [], 0
        while len(self._data) - start >= LENGTH.size:
            (length,) = LENGTH.unpack_from(self._data, start)
            if length > self._limit:
                raise FramingError(f"a message of {length} bytes is announced; expected at most {self._limit}")
            end = start + LENGTH.size + length
            if len(self._data) < end:
                break
            found.append(bytes(self._data[start + LENGTH.size : end]))
            start = end
        del self._data[:start]
        return found

    def end(self) -> None:
        """The stream is over. Raises FramingError when it ended inside a message."""
        if self._data:
            raise FramingError(f"the stream ended {len(self._data)} bytes into a message")


class BlockingChannel(Generic[M]):
    """One end of a conversation, for threads that may wait. Many may send, one receives."""

    def __init__(self, sock: socket.socket, make: Callable[[], M], *, limit: int = MAX_MESSAGE) -> None:
        sock.setblocking(True)
        self._socket, self._make, self._limit = sock, make, limit
        self._unframer = Unframer(limit=limit)
        self._ready: list[bytes] = []
        self._sending = threading.Lock()

    def send(self, message: M) -> None:
        """Wait until the message is handed over. Raises OSError when the other end is gone."""
        data = encode(message, limit=self._limit)
        with self._sending:
            self._socket.sendall(data)

    def try_send(self, message: M) -> bool:
        """Send unless another thread is sending or the other end does not read; whether it was sent."""
        if not self._sending.acquire(blocking=False):
            return False
        try:
            if not select.select([], [self._socket], [], 0)[1]:
                return False
            self._socket.sendall(encode(message, limit=self._limit))
            return True
        finally:
            self._sending.release()

    def receive(self, seconds: float | None = None) -> M | None:
        """The next message; None when none came in time. Raises EOFError at the end, FramingError."""
        deadline = None if seconds is None else time.monotonic() + seconds
        while not self._ready:
            left = None if deadline is None else max(0.0, deadline - time.monotonic())
            if not select.select([self._socket], [], [], left)[0]:
                return None
            try:
                data = self._socket.recv(_READ)
            except ConnectionResetError:
                data = b""
            if not data:
                self._unframer.end()
                raise EOFError("the other end closed the socket")
            self._ready += self._unframer.feed(data)
        message = self._make()
        message.ParseFromString(self._ready.pop(0))
        return message

    def close(self) -> None:
        self._socket.close()


class PolledChannel(Generic[M]):
    """One end of a conversation, for a loop that never waits: what cannot be sent now is sent by the next call."""

    def __init__(self, sock: socket.socket, make: Callable[[], M], *, limit: int = MAX_MESSAGE) -> None:
        sock.setblocking(False)
        self._socket, self._make, self._limit = sock, make, limit
        self._unframer = Unframer(limit=limit)
        self._unsent = bytearray()
        self.ended = False

    def fileno(self) -> int:
        return self._socket.fileno()

    def send(self, message: M) -> None:
        """Silent when the other end is gone: `ended` tells."""
        self._unsent += encode(message, limit=self._limit)
        self.flush()

    def flush(self) -> None:
        try:
            while self._unsent and not self.ended:
                del self._unsent[: self._socket.send(self._unsent)]
        except BlockingIOError:
            if len(self._unsent) > self._limit:
                self.ended = True
        except OSError:
            # What the other end still said can be read; its end shows there.
            self._unsent.clear()

    def receive(self) -> list[M]:
        """The messages that are here; after the last one `ended` is set. Raises FramingError."""
        found: list[M] = []
        while not self.ended:
            try:
                data = self._socket.recv(_READ)
            except BlockingIOError:
                break
            except OSError:
                data = b""
            if not data:
                self.ended = True
                # A killed writer may leave half a message: its death is the news, not the half.
                break
            for body in self._unframer.feed(data):
                message = self._make()
                message.ParseFromString(body)
                found.append(message)
        self.flush()
        return found

    def close(self) -> None:
        self.ended = True
        with contextlib.suppress(OSError):
            self._socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()
