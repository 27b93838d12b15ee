"""Tokens and blobs that a host opens, and the deadline of its start."""

import time
from pathlib import Path

from tutti.backbone import Blobs
from tutti.backbone.cached import CachedBlobs
from tutti.backbone.connect import open_blobs
from tutti.chassis.config.datadir import DataDir, tokens_at
from tutti.chassis.config.sections import BlobSettings, RpcSettings
from tutti.chassis.identity.auth import Tokens


class NotReady(Exception):
    """The start took longer than allowed, or a part of it failed; the message names the part."""


def tokens_of(settings: RpcSettings, data_dir: DataDir) -> Tokens:
    """The tokens in the file of the settings, or those of the data directory. Raises NotUsable."""
    return tokens_at(Path(settings.tokens)) if settings.tokens else data_dir.tokens()


def blobs_of(settings: BlobSettings, data_dir: DataDir) -> Blobs:
    blobs = open_blobs(settings.url or data_dir.blobs_url)
    if not settings.url.startswith("s3://") or not settings.cache_bytes:
        return blobs
    return CachedBlobs(blobs, data_dir.path / "cache" / "blobs", most_bytes=settings.cache_bytes)


def check_deadline(deadline: float, what: str) -> None:
    if time.monotonic() > deadline:
        raise NotReady(
            f"the start took too long: {what} had not started; look at the log, or raise lifecycle.start_seconds"
        )
