"""Ports from URLs: which adapter stands behind each is a matter of settings.

Promises: an adapter's client library is imported only when its URL is used; a missing one is named with the command
that installs it.
"""

import importlib
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING
from urllib.parse import SplitResult, parse_qs, unquote, urlsplit

from tutti.backbone.blobs import Blobs
from tutti.backbone.clock import Clock
from tutti.backbone.eventlog import EventLog

if TYPE_CHECKING:  # a rank opens blobs and imports no SQL
    from tutti.backbone.database import Database


class BadUrl(ValueError):
    """The URL names no adapter, or lacks a part."""


class MissingExtra(ImportError):
    """The client library of an adapter is not installed."""


def open_log(url: str, *, clock: Clock | None = None) -> EventLog:
    """`sqlite:///path/events.db` or `kafka://[user:password@]host:port[,host:port]`."""
    parts = urlsplit(url)
    if parts.scheme == "sqlite":
        from tutti.backbone.embedded.eventlog import EmbeddedEventLog

        return EmbeddedEventLog(_path(parts, url), clock=clock)
    if parts.scheme == "kafka":
        brokers = _adapter("kafka.brokers", "kafka").Brokers
        try:
            log: EventLog = _adapter("kafka.eventlog", "kafka").KafkaEventLog(brokers.parse(url))
        except ValueError as error:
            raise BadUrl(f"{hidden(url)!r}: {error}; expected kafka://[user:password@]host:port") from None
        return log
    raise BadUrl(f"{hidden(url)!r} is not an event log: expected sqlite:///path or kafka://host:port")


def open_database(url: str, service: str, *, clock: Clock | None = None, connections: int = 8) -> "Database":
    """The database of one service: `sqlite:///folder` (a file a service) or `postgresql://…` (a schema a service).

    `connections` are opened to a server at most, as they are needed.
    """
    parts = urlsplit(url)
    if parts.scheme == "sqlite":
        from tutti.backbone.embedded.database import EmbeddedDatabase

        return EmbeddedDatabase(_path(parts, url) / f"{service}.db", clock=clock)
    if parts.scheme == "postgresql":
        adapter = _adapter("postgres.database", "postgres").PostgresDatabase
        database: Database = adapter(url, schema=service, pool_size=connections)
        return database
    raise BadUrl(f"{hidden(url)!r} is not a database: expected sqlite:///folder or postgresql://host/name")


def open_blobs(url: str) -> Blobs:
    """`file:///folder` or `s3://key:secret@host:port/bucket[/prefix][?secure=false&region=us-east-1]`."""
    parts = urlsplit(url)
    if parts.scheme == "file":
        from tutti.backbone.embedded.blobs import EmbeddedBlobs

        return EmbeddedBlobs(_path(parts, url))
    if parts.scheme == "s3":
        bucket, _, prefix = parts.path.strip("/").partition("/")
        if not (parts.hostname and parts.username and parts.password and bucket):
            raise BadUrl(f"{hidden(url)!r} is incomplete: expected s3://key:secret@host:port/bucket")
        options = parse_qs(parts.query, strict_parsing=bool(parts.query))
        if unknown := set(options) - {"secure", "region"}:
            raise BadUrl(f"{hidden(url)!r}: unknown option {sorted(unknown)[0]!r}; known: region, secure")
        secure = options.get("secure", ["true"])[0]
        if secure not in ("true", "false"):
            raise BadUrl(f"{hidden(url)!r}: secure is true or false, not {secure!r}")
        blobs: Blobs = _adapter("s3.blobs", "s3").S3Blobs(
            f"{parts.hostname}:{parts.port}" if parts.port else parts.hostname,
            access_key=unquote(parts.username),
            secret_key=unquote(parts.password),
            bucket=bucket,
            prefix=prefix,
            secure=secure == "true",
            region=options.get("region", ["us-east-1"])[0],
        )
        return blobs
    raise BadUrl(f"{hidden(url)!r} is not a blob store: expected file:///folder or s3://key:secret@host:port/bucket")


def _path(parts: SplitResult, url: str) -> Path:
    if parts.netloc or len(parts.path) < 2:
        raise BadUrl(f"{url!r} names no absolute path: expected {parts.scheme}:///absolute/path")
    return Path(unquote(parts.path))


def _adapter(module: str, extra: str) -> ModuleType:
    try:
        return importlib.import_module(f"tutti.backbone.{module}")
    except ModuleNotFoundError as error:
        if error.name and error.name.startswith("tutti"):
            raise
        raise MissingExtra(f"{error.name} is not installed: pip install 'tutti[{extra}]'", name=error.name) from None


def hidden(url: str) -> str:
    """Return the URL without its password, for messages."""
    parts = urlsplit(url)
    if parts.password is None:
        return url
    return parts._replace(netloc=parts.netloc.replace(f":{parts.password}@", ":***@")).geturl()
