"""The platform that a command asks. Only `tutti run` and `tutti serve` start one; others need one that is up."""

import contextlib
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from tutti.chassis.config.datadir import config_in
from tutti.cli.connection import connected
from tutti.cli.failures import MISUSE, Failure
from tutti.cli.platform import Platform, running
from tutti.cli.record import owner_of
from tutti.client import Client

if TYPE_CHECKING:
    from tutti.platform.inprocess import InProcessServices

T = TypeVar("T")


@contextlib.contextmanager
def reached(data_dir: Path, address: str | None = None) -> Iterator[Platform]:
    """The platform at an address, or the one of a data directory that is up, for a command that waits for its work.

    Raises Unreachable.
    """
    with connected(data_dir, address) as client:
        yield Platform(client, data_dir=None if address else data_dir)


def upheld(data_dir: Path, address: str | None, *, detach: bool) -> contextlib.AbstractContextManager[Platform]:
    """The platform for lasting work: the one at an address, or, to `detach` from, one that is up; else that of the
    data directory, which is started where none is, and stopped at the end.

    Raises Unreachable.
    """
    return reached(data_dir, address) if address or detach else running(data_dir)


@contextlib.contextmanager
def consulted(data_dir: Path, address: str | None = None) -> Iterator[Platform]:
    """The platform that answers questions about a recipe, or the services in this process if there never was one.

    Raises Unreachable if the platform of the directory is stopped: the answer depends on its results.
    """
    if address or _exists(data_dir):
        with reached(data_dir, address) as platform:
            yield platform
    else:
        with in_process(data_dir) as services:
            yield Platform(Client.of_channels(services.channel))


def consulted_soon(data_dir: Path, address: str | None, ask: Callable[[Platform], T], doubts: Callable[[T], bool]) -> T:
    """Return the answer to a question about a recipe, from a platform that is up, or else from this process.

    Raises Unreachable if the platform is stopped and the question is about something that it may have: a resource was
    not found, or the answer `doubts` because of one.
    """
    if not address and not is_up(data_dir):
        with in_process(data_dir) as services:
            failure: Failure | None = None
            try:
                answer = ask(Platform(Client.of_channels(services.channel)))
            except Failure as error:
                failure = error
            doubtful = services.missed or (failure is None and doubts(answer))
            if not doubtful or not _exists(data_dir):
                if failure is not None:
                    raise failure
                return answer
    with reached(data_dir, address) as platform:
        return ask(platform)


@contextlib.contextmanager
def in_process(data_dir: Path) -> "Iterator[InProcessServices]":
    """The services over empty stores, with the settings of a data directory. Raises Failure for wrong settings."""
    # It brings the services, for which few commands wait.
    from tutti.chassis.config.settings import SettingsError, load
    from tutti.platform.inprocess import InProcessServices

    try:
        settings = load(config_in(data_dir))
    except SettingsError as error:
        raise Failure(str(error), MISUSE) from error
    with tempfile.TemporaryDirectory(prefix="tutti-") as folder, InProcessServices(Path(folder), settings) as services:
        yield services


def _exists(data_dir: Path) -> bool:
    """Return whether a platform has ever used the directory."""
    return (data_dir / "version").exists()


def is_up(data_dir: Path) -> bool:
    """Return whether a platform of the directory runs, starts or stops."""
    owner = owner_of(data_dir)
    return owner is not None and owner.alive()
