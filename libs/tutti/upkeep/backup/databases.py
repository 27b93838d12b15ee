"""The databases of a platform, wherever they are: how they are copied to an archive and filled from one.

Promises: a copy has the tables of this version; one of a newer version is refused, one of an older is upgraded as it is
filled in; a database that has tables already is refused.
"""

import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, closing
from importlib.metadata import entry_points
from importlib.util import find_spec
from pathlib import Path

from sqlalchemy import MetaData

from tutti.backbone import Database
from tutti.backbone.connect import open_database
from tutti.backbone.embedded.copies import copy_together
from tutti.backbone.embedded.database import EmbeddedDatabase
from tutti.backbone.files import RealFiles, chunks, publish
from tutti.backbone.migrations import History
from tutti.chassis.store import stack
from tutti.chassis.store.histories import histories
from tutti.upkeep.backup.archive import BackupError

SERVER = "postgresql://"


def on_server(url: str) -> bool:
    return url.startswith(SERVER)


def is_paired(url: str) -> bool:
    """Return whether a URL names several servers, which are a primary and its standby."""
    if not on_server(url):
        return False
    from tutti.backbone.postgres.connection import has_several_hosts

    return has_several_hosts(url)


def installed() -> dict[str, tuple[History, ...]]:
    """Return the histories of the database of each service of this installation."""
    found = {}
    for entry in entry_points(group="tutti.services"):
        spec = find_spec(entry.module.rpartition(".")[0])
        if spec is not None and spec.submodule_search_locations:
            found[entry.name] = histories(entry.name, Path(spec.submodule_search_locations[0]) / "migrations")
    return found


def copy_files(folder: Path) -> Callable[[Path], None]:
    """Copies the SQLite files of a folder that no platform serves."""

    def copy(to: Path) -> None:
        with ExitStack() as stack:
            opened = {
                file.stem: stack.enter_context(closing(EmbeddedDatabase(file))) for file in sorted(folder.glob("*.db"))
            }
            copy_together(opened, to)

    return copy


def copy_server(url: str) -> Callable[[Path], None]:
    """Copies the schemas of a Postgres database, in one snapshot. `url` may read all of them."""

    def copy(to: Path) -> None:
        from tutti.backbone.postgres import copies

        known = installed()
        services = copies.filled(url, sorted(known))
        files = {service: to / f"{service}.db" for service in services}
        for service, file in files.items():
            with closing(EmbeddedDatabase(file)) as database:
                _create(database, known[service])
            Path(f"{file}.lock").unlink(missing_ok=True)
        copies.dump(url, files)

    return copy


def held(url: str, folder: Path) -> list[str]:
    """Return the services that have tables there. Raises DatabaseError."""
    if on_server(url):
        from tutti.backbone.postgres import copies

        return copies.filled(url, sorted(installed()))
    return sorted(file.stem for file in folder.glob("*.db"))


def fill(url: str, folder: Path, files: Mapping[str, Path]) -> None:
    """Fill databases that are empty, or that an earlier call filled in part. Raises DatabaseError, BackupError.

    A server's schemas are filled all or none, files one after another.
    """
    known = installed()
    if missing := sorted(set(files) - set(known)):
        raise BackupError(f"the backup has a database of {missing[0]}, which is not installed: install this service")
    if not on_server(url):
        for service, file in sorted(files.items()):
            if (folder / f"{service}.db").exists():
                continue
            temporary = folder / f".{service}.restored"
            temporary.unlink(missing_ok=True)
            publish(RealFiles(), temporary, folder / f"{service}.db", chunks(RealFiles(), file))
        return
    from tutti.backbone.postgres import copies

    with tempfile.TemporaryDirectory() as scratch:
        upgraded = {}
        for service, file in files.items():
            upgraded[service] = Path(scratch) / f"{service}.db"
            shutil.copyfile(file, upgraded[service])
            with closing(EmbeddedDatabase(upgraded[service])) as database:
                _create(database, known[service])

        def create(service: str, url: str) -> None:
            with closing(open_database(url, service)) as database:
                _create(database, known[service])

        copies.load(url, upgraded, create)


def _create(database: Database, known: Sequence[History]) -> None:
    database.create(MetaData(), known)
    database.create(stack.METADATA)
