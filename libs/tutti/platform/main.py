"""The program of a host: `python -P -m tutti.<service>`; `tutti.platform.main` runs several services.

Promises: SIGTERM, SIGINT and the end of its supervisor drain it; what keeps it from starting is one line on stderr and
an exit code.
"""

import argparse
import gc
import logging
import os
import sys
from collections.abc import Sequence
from typing import NoReturn

from tutti.backbone.ours import close_to_others
from tutti.chassis.config.arguments import add_overrides, add_places
from tutti.chassis.config.datadir import MOST_COPIES, DataDir, part_of
from tutti.chassis.config.settings import SettingsError, installed_services, load
from tutti.chassis.rpc.eventloop import event_loop
from tutti.chassis.rpc.methods import BadService
from tutti.chassis.rpc.server import CannotListen
from tutti.chassis.runtime.signals import Signals, Stop
from tutti.chassis.store.stack import ForeignStore
from tutti.platform import heartbeatpipe, logs
from tutti.platform.failures import guarded
from tutti.platform.garbage import collect_seldom, collect_until, kept
from tutti.platform.host import HostProcess
from tutti.platform.installed import find
from tutti.platform.opening import NotReady
from tutti.upkeep.upgrades import StoppedWaiting

log = logging.getLogger(__name__)


def main(service: str | None = None) -> NoReturn:
    """Serve until told to stop; exits."""
    arguments = parser(service).parse_args()
    close_to_others()
    names = [service] if service else arguments.services or installed_services()
    code = guarded(
        lambda: serve(names, arguments, alone=service),
        mistakes=(BadService, ForeignStore),
        troubles=(CannotListen, NotReady, RuntimeError),
    )
    logging.shutdown()
    sys.stdout.flush()
    os._exit(code)  # a thread that was cut off must not keep the process


def parser(service: str | None) -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(prog=f"python -P -m tutti.{service or 'chassis.main'}", description=__doc__)
    add_places(made)
    add_overrides(made)
    if service is not None:
        made.add_argument("--copy", type=int, choices=range(1, MOST_COPIES + 1), default=1,
                          help="number of this replica among those that share the data directory")  # fmt: skip
    if service is None:
        made.add_argument("services", nargs="*", help="names, or name=package.module:build; all that are installed")
    return made


def serve(names: Sequence[str], arguments: argparse.Namespace, *, alone: str | None = None) -> int:
    with kept():
        builds = dict(find(name) for name in names)
    if not builds:
        raise SettingsError("no service is installed: install Tutti with its services, or name them as module:build")
    data_dir = DataDir(arguments.data_dir)
    loaded = load(
        arguments.config or data_dir.config,
        overrides=arguments.set,
        services={*installed_services(), *builds},
    )
    copy = getattr(arguments, "copy", 1)
    logs.configure(part_of(alone, copy) or "host", loaded.values.telemetry.level)
    stop = Stop()
    _beat(heartbeatpipe.hold(lambda: stop.set("its supervisor is gone")))
    Signals(stop)
    host = HostProcess(builds, data_dir, loaded, alone=alone, copy=copy)
    try:
        address = host.start(stop)
    except StoppedWaiting:
        log.info("stopping: %s", stop.reason)
        return 0
    _keep_what_the_start_made()
    log.info("ready at %s with %s", address, ", ".join(builds))
    collect_until(stop.wait)
    log.info("stopping: %s", stop.reason)
    host.stop()
    return 0


def _keep_what_the_start_made() -> None:
    """Look for garbage among what is made from now on, and less often: to look took a twentieth of a traced call."""
    gc.collect()
    gc.freeze()
    collect_seldom()


def _beat(heartbeat: heartbeatpipe.Heartbeat) -> None:
    """Give the supervisor a word for as long as the event loop turns."""
    loop = event_loop()

    def again() -> None:
        heartbeat.beat()
        loop.call_later(heartbeatpipe.BEAT_SECONDS, again)

    loop.call_soon_threadsafe(again)


if __name__ == "__main__":
    main()
