"""The platform that a command asks: one that is up, or one that is started for as long as the command takes.

Promises: who only reads starts no agent, so that no training goes on meanwhile, and starts nothing where there was no
platform before; who only asks about a recipe leaves nothing behind.
"""

import contextlib
import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

from tutti.cli.connection import connected
from tutti.cli.failures import MISUSE, Failure
from tutti.cli.guests import guest
from tutti.cli.output import patiently
from tutti.cli.platform import Platform, running, serving
from tutti.cli.record import owner_of
from tutti.cli.turns import turn
from tutti.client import Client
from tutti.contracts.common.v1 import ListRequest
from tutti.report.hints import typed

T = TypeVar("T")
NO_AGENTS = ("--agents", "0")


@contextlib.contextmanager
def reached(data_dir: Path, address: str | None, *, anew: bool = False) -> Iterator[Platform]:
    """The platform at an address, or of a data directory, which is started when nobody serves it.

    Raises Unreachable where there never was one, unless it may be made `anew`.
    """
    if address or not (anew or owner_of(data_dir)):
        with connected(data_dir, address) as client:
            yield Platform(client)
    else:
        with running(data_dir) as platform:
            yield platform


@contextlib.contextmanager
def upheld(data_dir: Path, address: str | None = None, *, detach: bool, anew: bool = True) -> Iterator[Platform]:
    """The platform that carries a run out: the one at `address`, which goes on without us, or that of a data directory:
    to `detach` from, one that is up; else one is started where none is.

    Raises Unreachable, also where there never was one unless it may be made `anew`.
    """
    if address:
        with connected(data_dir, address) as client:
            yield Platform(client)
    elif detach:
        with connected(data_dir) as client:
            client.pipeline.ListRuns(ListRequest(page_size=1))  # whoever was up may be gone
            yield Platform(client, data_dir=data_dir)
    else:
        with reached(data_dir, None, anew=anew) as platform:
            yield platform


@contextlib.contextmanager
def served(data_dir: Path, address: str | None = None) -> Iterator[Client]:
    """A client of the platform at an address, or of a data directory, for a command that is soon done.

    A platform that was stopped is started for it. Raises Unreachable where there never was one.
    """
    if address or owner_of(data_dir) is None:
        with connected(data_dir, address) as client:
            yield client
    else:
        with _meanwhile(data_dir) as platform:
            yield platform.client


@contextlib.contextmanager
def consulted(data_dir: Path, address: str | None = None) -> Iterator[Platform]:
    """The platform at an address or of a data directory, to ask about a recipe; where a directory has none, or cannot
    be written, an empty one that is gone afterwards."""
    if address:
        with connected(data_dir, address) as client:
            yield Platform(client)
        return
    if (data_dir / "version").exists() and os.access(data_dir, os.W_OK):
        with _meanwhile(data_dir) as platform:
            yield platform
        return
    with tempfile.TemporaryDirectory(prefix="tutti-") as folder, serving(Path(folder), *NO_AGENTS) as platform:
        yield platform


def consulted_soon(data_dir: Path, address: str | None, ask: Callable[[Platform], T], doubts: Callable[[T], bool]) -> T:
    """Return the answer to a question about a recipe, by a platform that is up, else in this process.

    A platform that was stopped is started only if the question is about something that may be in it: where a resource
    was not found, or where the answer `doubts` because of one.
    """
    if not address and not _is_up(data_dir):
        # It brings the services, for which few commands wait.
        from tutti.chassis.config.datadir import config_in
        from tutti.chassis.config.settings import SettingsError, load
        from tutti.platform.inprocess import InProcessServices

        try:
            settings = load(config_in(data_dir))
        except SettingsError as error:
            raise Failure(str(error), MISUSE) from error
        with (
            tempfile.TemporaryDirectory(prefix="tutti-") as folder,
            InProcessServices(Path(folder), settings) as services,
        ):
            failure: Failure | None = None
            try:
                answer = ask(Platform(Client.of_channels(services.channel)))
            except Failure as error:
                failure = error
            doubtful = services.missed or (failure is None and doubts(answer))
            if not doubtful or not (data_dir / "version").exists():
                if failure is not None:
                    raise failure
                return answer
    with consulted(data_dir, address) as platform:
        return ask(platform)


def _is_up(data_dir: Path) -> bool:
    owner = owner_of(data_dir)
    return owner is not None and owner.alive()


@contextlib.contextmanager
def _meanwhile(data_dir: Path) -> Iterator[Platform]:
    """The platform that is up, or else one without agents for as long as this takes."""
    with contextlib.ExitStack() as stay:
        with turn(data_dir):
            stay.enter_context(guest(data_dir))
            owner = owner_of(data_dir)
            if owner is None or not owner.alive():
                stay.close()
                up = typed("tutti up --detach", data_dir)
                with contextlib.ExitStack() as started:
                    words = f"starts the platform of {data_dir} for this command alone; `{up}` leaves one running"
                    with patiently(words):
                        platform = started.enter_context(serving(data_dir, *NO_AGENTS))
                    yield platform
                return
        with connected(data_dir) as client:
            yield Platform(client, data_dir=data_dir)
