"""`tutti backup` and `tutti restore`: copy a platform that works to a folder, and bring it back to empty stores."""

import contextlib
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click

from tutti.cli.connection import connected, data_dir_option
from tutti.cli.failures import Failure
from tutti.cli.output import JSON, output_option, print_json, say
from tutti.cli.stack import settled
from tutti.records.sizes import size
from tutti.report.hints import typed

WORD_SECONDS = 10.0
COPY_SECONDS = 600.0


@click.command("backup", short_help="Copy the platform to a folder while it works.")
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--dry-run", is_flag=True, help="Print what would be copied.")
@output_option
@data_dir_option
def backup(folder: Path, dry_run: bool, output: str, data_dir: Path) -> None:
    """Copy databases and blobs to FOLDER, which must be new or empty.

    The platform continues to work. All databases are copied at one point in time, with every blob that their rows name.
    Secrets, settings, logs and caches of agents are not copied.
    """
    from tutti.backbone.connect import open_blobs
    from tutti.backbone.embedded.blobs import EmbeddedBlobs
    from tutti.upkeep.backup import taking
    from tutti.upkeep.backup.archive import Archive, BackupError
    from tutti.upkeep.scrub import scrub

    with settled(data_dir) as (home, values), contextlib.ExitStack() as held:
        blobs = open_blobs(values.blobs.url or home.blobs_url)
        held.callback(blobs.close)
        if dry_run:
            sizes = [stat.size for stat in blobs.list("")]
            say(f"would copy the databases and {len(sizes):,} blobs of {size(sum(sizes))} to {folder}")
            return
        copy = held.enter_context(_databases(home, values, data_dir))
        try:
            taken = taking.take(blobs, copy, folder, _progress("copied"))
        except BackupError as error:
            raise Failure(str(error)) from None
        with contextlib.closing(EmbeddedBlobs(Archive(folder).blobs)) as copies:
            damaged = scrub(copies, progress=_progress("read back")).damaged
    manifest = taken.manifest
    if output == JSON:
        print_json({"folder": str(folder), "seconds": taken.seconds, "damaged": list(damaged), **vars(manifest)})
    else:
        for line in damaged:
            click.echo(f"BAD  {line}")
        rows = sum(manifest.rows.values())
        click.echo(
            f"{folder}: {len(manifest.rows)} databases with {rows:,} rows, copied in {taken.seconds:.1f} s; "
            f"{manifest.blobs:,} blobs of {size(manifest.bytes)}, {taken.late_blobs} of them written during "
            "the backup"
        )
    if damaged:
        raise Failure(f"{len(damaged)} blobs were damaged before they were copied; `tutti scrub` says what to do")


@click.command("restore", short_help="Restore a backup to empty stores.")
@click.argument("folder", type=click.Path(path_type=Path, exists=True, file_okay=False))
@click.option("--dry-run", is_flag=True, help="Verify the backup and that the stores are empty; write nothing to them.")
@output_option
@data_dir_option
def restore(folder: Path, dry_run: bool, output: str, data_dir: Path) -> None:
    """Fill the empty stores of a data directory, or of the servers that its settings name, from FOLDER.

    Every file is compared with its checksum first. The platform must not run; start it afterwards, and unfinished runs
    continue. A backup of an embedded platform can be restored to Kafka, Postgres and S3, and vice versa.
    """
    from tutti.backbone.connect import open_blobs, open_log
    from tutti.chassis.config.datadir import DataDir
    from tutti.upkeep.backup import restoring
    from tutti.upkeep.backup.archive import Archive, BackupError

    archive = Archive(folder)
    try:
        archive.manifest()
    except BackupError as error:
        raise Failure(str(error)) from None
    DataDir(data_dir)  # it may be new
    with settled(data_dir) as (home, values), contextlib.ExitStack() as held:
        held.callback(home.lock("tutti restore").release)
        blobs = open_blobs(values.blobs.url or home.blobs_url)
        held.callback(blobs.close)
        log = open_log(values.log.url or home.log_url)
        held.callback(log.close)
        target = restoring.Target(blobs, log, values.database.url or home.database_url, home.path / "db")
        work = restoring.check if dry_run else restoring.restore
        try:
            manifest = work(archive, target, _progress("read" if dry_run else "restored"))
        except BackupError as error:
            raise Failure(str(error)) from None
    if output == JSON:
        print_json({"dry_run": dry_run, **vars(manifest)})
        return
    done = "would restore" if dry_run else "restored"
    rows = sum(manifest.rows.values())
    say(
        f"{done} stack {manifest.stack} of {manifest.at}: {len(manifest.rows)} databases with {rows:,} rows, "
        f"{manifest.blobs:,} blobs of {size(manifest.bytes)}"
    )
    if not dry_run:
        server = target.database != home.database_url
        say("start its services" if server else f"start it: {typed('tutti up', data_dir)}")


@contextlib.contextmanager
def _databases(home: Any, values: Any, data_dir: Path) -> Iterator[Callable[[Path], None]]:
    """Yield what copies the databases: on a server, in a platform that runs, or in files that nobody serves."""
    from tutti.chassis.config.datadir import InUse
    from tutti.upkeep.backup import databases

    url = values.database.url or home.database_url
    if databases.on_server(url):
        yield databases.copy_server(url)
        return
    try:
        lock = home.lock("tutti backup")
    except InUse:
        yield lambda to: _from_platform(data_dir, to)
        return
    try:
        yield databases.copy_files(home.path / "db")
    finally:
        lock.release()


def _from_platform(data_dir: Path, to: Path) -> None:
    from tutti.contracts.admin.v1 import CopyDatabasesRequest

    with connected(data_dir) as client:
        made = data_dir / client.admin.CopyDatabases(CopyDatabasesRequest(), timeout=COPY_SECONDS).folder
    try:
        for file in sorted(made.iterdir()):
            shutil.copyfile(file, to / file.name)
    finally:
        shutil.rmtree(made, ignore_errors=True)


def _progress(verb: str) -> Callable[[int, int], None]:
    told = time.monotonic()

    def tell(done: int, total: int) -> None:
        nonlocal told
        if time.monotonic() - told > WORD_SECONDS:
            told = time.monotonic()
            say(f"{verb} {size(done)} of {size(total)}")

    return tell
