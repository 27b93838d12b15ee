"""A connection to Postgres whose every wait for the server ends.

Promises: a server that hangs (stopped, or behind a network that drops packets) is reported by NoAnswer after the
connection's deadline, and the connection is closed, so that nobody waits on it again. Keepalives do not help there: the
kernel of a stopped server still answers them.
"""

from typing import Any, TypeVar
from urllib.parse import urlsplit

import psycopg
from psycopg.abc import PQGen
from sqlalchemy.engine import URL, make_url

RV = TypeVar("RV")


class NoAnswer(psycopg.OperationalError):
    """The server did not answer in time; whether it did what was asked is unknown."""


class BoundedConnection(psycopg.Connection[Any]):
    """`answer_seconds` bounds each exchange: a statement with its rows, a begin, a commit."""

    answer_seconds: float = 0.0

    def wait(self, gen: PQGen[RV], interval: float = 0.1, timeout: float | None = None) -> RV:
        try:
            return super().wait(gen, interval, self.answer_seconds if timeout is None else timeout)
        except psycopg.errors._WaitTimeout as error:
            if timeout is not None:  # the caller's own wait, for notifications
                raise
            self.pgconn.finish()
            raise NoAnswer(f"no answer within {self.answer_seconds:g} s: the server hangs, or is cut off") from error


def bounded(seconds: float) -> type[BoundedConnection]:
    """Connections with this deadline."""
    return type("Bounded", (BoundedConnection,), {"answer_seconds": seconds})


def engine_url(url: str) -> URL:
    """Return the URL as SQLAlchemy reads it, which names several hosts by parameters."""
    parts = urlsplit(url)
    user, at, hosts = parts.netloc.rpartition("@")
    if "," in hosts:
        named = [*([parts.query] if parts.query else []), *(f"host={host}" for host in hosts.split(","))]
        url = parts._replace(netloc=user + at, query="&".join(named)).geturl()
    return make_url(url).set(drivername="postgresql+psycopg")


def place(url: str) -> str:
    """Return the hosts and the database of a URL, for messages."""
    parts = urlsplit(url)
    hosts = parts.netloc.rpartition("@")[2]
    return f"{','.join(host if ':' in host else f'{host}:5432' for host in hosts.split(','))}{parts.path}"


def has_several_hosts(url: str) -> bool:
    """Return whether a URL names several servers."""
    return "," in urlsplit(url).netloc.rpartition("@")[2]
