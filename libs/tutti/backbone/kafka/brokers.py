"""The addresses and credentials in a URL `kafka://[user:password@]host:port[,host:port]`.

Promises: users authenticate by SCRAM-SHA-512; a password that the cluster does not accept is told apart from a cluster
that is away, which the client library does not do.
"""

import socket
import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote, urlsplit

from kafka.net.sasl.scram import ScramClient

MECHANISM = "SCRAM-SHA-512"
_HANDSHAKE, _AUTHENTICATE = 17, 36  # keys of the requests in Kafka's protocol
_VERSION = 1


@dataclass(frozen=True)
class Brokers:
    """`addresses` are `host:port`; no user where the cluster has no users."""

    addresses: Sequence[str]
    user: str = ""
    password: str = field(default="", repr=False)

    @classmethod
    def parse(cls, url: str) -> "Brokers":
        """Raises ValueError for a URL that names no broker."""
        parts = urlsplit(url)
        addresses = parts.netloc.rpartition("@")[2]
        if not addresses:
            raise ValueError("it names no broker")
        return cls(addresses.split(","), unquote(parts.username or ""), unquote(parts.password or ""))

    def __str__(self) -> str:
        return ",".join(self.addresses)

    def settings(self) -> dict[str, Any]:
        """Return the settings of a kafka-python client."""
        found: dict[str, Any] = {"bootstrap_servers": list(self.addresses)}
        if self.user:
            found |= {
                "security_protocol": "SASL_PLAINTEXT",
                "sasl_mechanism": MECHANISM,
                "sasl_plain_username": self.user,
                "sasl_plain_password": self.password,
            }
        return found

    def refusal(self, seconds: float) -> str:
        """Return why the cluster refuses our password; empty if it accepts it, or if nobody answers in `seconds`."""
        for address in self.addresses if self.user else ():
            try:
                return self._asked(address, seconds / len(self.addresses))
            except (OSError, EOFError, struct.error):
                continue
        return ""

    def _asked(self, address: str, seconds: float) -> str:
        host, _, port = address.rpartition(":")
        scram = ScramClient(self.user, self.password, MECHANISM)
        with socket.create_connection((host.strip("[]"), int(port)), timeout=seconds) as connection:
            code, _ = _exchange(connection, _HANDSHAKE, _text(MECHANISM))
            if code:
                return f"it does not offer {MECHANISM}"
            code, answer = _exchange(connection, _AUTHENTICATE, _bytes(scram.first_message()))
            if code:
                return _reason(answer)
            reason_length = struct.unpack_from(">h", answer)[0]
            at = 2 + max(reason_length, 0)
            length = struct.unpack_from(">i", answer, at)[0]
            scram.process_server_first_message(answer[at + 4 : at + 4 + length])
            code, answer = _exchange(connection, _AUTHENTICATE, _bytes(scram.final_message()))
            return _reason(answer) if code else ""


def _exchange(connection: socket.socket, key: int, body: bytes) -> tuple[int, bytes]:
    """The error code and the rest of the answer to one request."""
    request = struct.pack(">hhi", key, _VERSION, 1) + _text("tutti") + body
    connection.sendall(struct.pack(">i", len(request)) + request)
    (length,) = struct.unpack(">i", _read(connection, 4))
    answer = _read(connection, length)[4:]  # after the correlation id
    return struct.unpack_from(">h", answer)[0], answer[2:]


def _read(connection: socket.socket, length: int) -> bytes:
    found = b""
    while len(found) < length:
        piece = connection.recv(length - len(found))
        if not piece:
            raise EOFError("the broker closed the connection")
        found += piece
    return found


def _reason(answer: bytes) -> str:
    length = struct.unpack_from(">h", answer)[0]
    return answer[2 : 2 + length].decode() if length > 0 else "authentication failed"


def _text(text: str) -> bytes:
    return struct.pack(">h", len(text)) + text.encode()


def _bytes(value: bytes) -> bytes:
    return struct.pack(">i", len(value)) + value
