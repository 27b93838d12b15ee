"""Quarantine records: what was found damaged, as blobs that are never overwritten.

The record says what was seen and what was expected. Damaged bytes of a decided checkpoint stay where they are, as
evidence; those of a step that was never decided go with the garbage of its epoch.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from tutti.backbone.blobs import BlobExists, Blobs
from tutti.checkpoints.keys import checkpoint_name, quarantine_key
from tutti.records.canonical import canonical_json

MAX_REASON = 2000
_log = logging.getLogger(__name__)


def record(blobs: Blobs, job: str, line: int, step: int, *, found_by: str, problems: Sequence[str]) -> str:
    """Write the record, once for the same finding; its key. Raises BlobError from the store."""
    name = checkpoint_name(job, line, step)
    content = canonical_json({"checkpoint": name, "found_by": found_by, "problems": list(problems)})
    number = 0
    while True:
        key = quarantine_key(job, line, step, number)
        try:
            blobs.put_if_absent(key, content)
        except BlobExists:
            number += 1
            continue
        _log.error("%s is quarantined (%s): %s", name, key, reason(problems))
        return key


def reason(problems: Sequence[str]) -> str:
    """In words, short enough for an event."""
    shown = "; ".join(problems[:3]) + (f"; and {len(problems) - 3} more" if len(problems) > 3 else "")
    return shown[:MAX_REASON]
