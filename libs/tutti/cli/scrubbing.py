"""`tutti scrub`: read every blob back before somebody needs it, and what the doctor says of the last time."""

import json
import time
from datetime import UTC, datetime
from pathlib import Path

import click

from tutti.cli.connection import data_dir_option, typed
from tutti.cli.failures import Failure
from tutti.cli.numbers import FiniteRange
from tutti.cli.output import JSON, output_option, print_json, say
from tutti.cli.stack import settled
from tutti.contracts.admin.v1 import DoctorResponse

RECORD = "scrub.json"
WORD_SECONDS = 10.0
MEBI = 1 << 20


@click.command("scrub", short_help="Read every blob and compare it with its digest.")
@click.option(
    "--rate",
    type=FiniteRange(min=0),
    default=0.0,
    metavar="MIB",
    help="Read at most MIB MiB a second; 0: no limit.",
)
@output_option
@data_dir_option
def scrub(rate: float, output: str, data_dir: Path) -> None:
    """Read every blob of the store and compare it with its digest.

    The digest is in a manifest or in the name of the blob. The command changes nothing: the next run of a recipe makes
    a damaged result again, and `tutti checkpoints verify` quarantines a damaged checkpoint. The platform may run at the
    same time. The result is stored in the data directory, for `tutti doctor`.
    """
    from tutti.backbone.connect import open_blobs
    from tutti.chassis.store import scrub as scrubs

    told = time.monotonic()

    def progress(done: int, total: int) -> None:
        nonlocal told
        if time.monotonic() - told > WORD_SECONDS:
            told = time.monotonic()
            say(f"read {done / MEBI:,.0f} of {total / MEBI:,.0f} MiB")

    with settled(data_dir) as (folder, values):
        blobs = open_blobs(values.blobs.url or folder.blobs_url)
        try:
            found = scrubs.scrub(blobs, bytes_per_second=rate * MEBI, progress=progress)
        finally:
            blobs.close()
        record = {
            "at": datetime.now(UTC).isoformat(timespec="seconds"),
            "blobs": found.blobs,
            "bytes": found.bytes,
            "unstated": found.unstated,
            "damaged": list(found.damaged),
        }
        folder.write(RECORD, json.dumps(record, indent=1).encode())
    if output == JSON:
        print_json(record)
    else:
        for line in found.damaged:
            click.echo(f"BAD  {line}")
        read = f"{found.blobs:,} blobs, {found.bytes / MEBI:,.1f} MiB"
        click.echo(f"{read}: {len(found.damaged)} damaged, {found.unstated} without a digest to compare with")
    if found.damaged:
        raise Failure(f"{len(found.damaged)} of {found.blobs} blobs are damaged")


def newest(data_dir: Path) -> DoctorResponse.Finding:
    """Return what the doctor says of the last scrub."""
    try:
        record = json.loads((data_dir / RECORD).read_text())
        damaged, words = len(record["damaged"]), f"{record['blobs']} blobs were read at {record['at']}"
    except (OSError, ValueError, KeyError, TypeError):
        damaged, words = 0, f"no blob was read back yet; {typed('tutti scrub', data_dir)} reads all"
    if damaged:
        words += f", {damaged} are damaged; {typed('tutti scrub', data_dir)} names them"
    return DoctorResponse.Finding(service="platform", check="scrub", ok=not damaged, message=words)
