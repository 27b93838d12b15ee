"""The connection to the platform: by data directory, or by address and token."""

import contextlib
import json
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tutti.chassis.config.datadir import DEFAULT, config_in, named
from tutti.chassis.errors import DeadlineExceeded, Problem
from tutti.chassis.runtime.healthfile import awaits_upgrade
from tutti.cli.failures import MISUSE, UNREACHABLE, Failure
from tutti.cli.output import patiently
from tutti.cli.record import restarts
from tutti.client import Client, Unreachable, connect
from tutti.contracts.admin.v1 import DoctorRequest

if TYPE_CHECKING:
    from tutti.chassis.rpc.tls import Tls

RESTART_SECONDS, LOOK_SECONDS = 60.0, 0.1
STORE_SECONDS = 60.0
"""For the checks of all stores, which are longer than the deadlines of those that hang."""
AUTHORITY, PROXY = "tutti.tls-ca", "tutti.proxy"


def data_dir_option(command: Callable[..., Any]) -> Callable[..., Any]:
    return click.option(
        "--data-dir", type=click.Path(path_type=Path, file_okay=False), default=DEFAULT, show_default=True,
        envvar="TUTTI_DATA_DIR", callback=_as_named, help="Data directory of the platform.",
    )(command)  # fmt: skip


def _as_named(context: click.Context, parameter: click.Parameter, value: Path) -> Path:
    """Return the directory, so that one which somebody gave is never one that was found."""
    source = context.get_parameter_source(parameter.name or "")
    return value if source is click.core.ParameterSource.DEFAULT else named(value)


def _remember(key: str) -> Callable[[click.Context, click.Parameter, str | None], None]:
    """A callback that keeps the value of an option, for the connection to the platform."""

    def keep(context: click.Context, _: click.Parameter, value: str | None) -> None:
        context.meta[key] = value or ""

    return keep


def _proxy() -> str:
    context = click.get_current_context(silent=True)
    return context.meta.get(PROXY, "") if context else ""


def trusted(data_dir: Path | None) -> "Tls | None":
    """TLS as the option, the environment and the settings of a data directory say; None for none. Raises Failure."""
    context = click.get_current_context(silent=True)
    given = (context.meta.get(AUTHORITY) if context else "") or os.environ.get("TUTTI_TLS__CA", "")
    config = config_in(data_dir) if data_dir else None
    if not given and (config is None or b"tls" not in config.read_bytes()):
        return None
    # It brings pydantic, for which few commands wait.
    from tutti.chassis.config.settings import SettingsError, load
    from tutti.chassis.rpc.tls import tls_of

    try:
        return tls_of(load(config, overrides=[f"tls.ca={json.dumps(given)}"] if given else []).values.tls)
    except SettingsError as error:
        raise Failure(str(error), MISUSE) from error


def _remember_proxy(context: click.Context, parameter: click.Parameter, value: str | None) -> None:
    """Keep the value of --proxy; Failure if it is a secret that every user of this machine can read."""
    source = context.get_parameter_source(parameter.name or "")
    if value and "@" in value and source is click.core.ParameterSource.COMMANDLINE:
        raise Failure(
            "the URL of --proxy has a password, and every user of this machine can read the arguments of a process: "
            "set TUTTI_PROXY instead",
            MISUSE,
        )
    _remember(PROXY)(context, parameter, value)


def connection_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """--data-dir, --address, --proxy, --tls-ca."""
    command = click.option(
        "--tls-ca", type=click.Path(dir_okay=False), default=None, envvar="TUTTI_TLS__CA", expose_value=False,
        callback=_remember(AUTHORITY),
        help="PEM file of the authority that certified the platform, if it speaks TLS.",
    )(command)  # fmt: skip
    command = click.option(
        "--proxy", default=None, metavar="URL", envvar="TUTTI_PROXY", expose_value=False, callback=_remember_proxy,
        help="HTTP proxy that connects to --address; http_proxy and similar variables have no effect.",
    )(command)  # fmt: skip
    command = click.option(
        "--address", default=None, envvar="TUTTI_ADDRESS",
        help="host:port of a platform elsewhere; its token is read from TUTTI_TOKEN.",
    )(command)  # fmt: skip
    return data_dir_option(command)


def _awaited(data_dir: Path) -> Client:
    """Return a client once there is an address, while a supervisor may start the host again. Raises Unreachable."""
    deadline = time.monotonic() + RESTART_SECONDS
    with patiently(f"waits for the host of {data_dir.absolute()}, which is being restarted"):
        while True:
            try:
                return connect(data_dir=data_dir, tls=trusted(data_dir))
            except Unreachable:
                if waits := awaits_upgrade(data_dir):
                    raise Failure(waits, UNREACHABLE) from None
                if not restarts(data_dir) or time.monotonic() > deadline:
                    raise
            time.sleep(LOOK_SECONDS)


def store_trouble(client: Client) -> str:
    """Return the first store that does not answer the platform, and the remedy; "" if all do or it is not known."""
    # It brings the framework of services, for which few commands wait.
    from tutti.chassis.runtime.dependencies import STORES

    with contextlib.suppress(Problem):
        for each in client.admin.Doctor(DoctorRequest(), timeout=STORE_SECONDS).findings:
            if not each.ok and each.check in STORES:
                return f"the {each.check} does not answer the platform: {each.message}"
    return ""


@contextlib.contextmanager
def connected(data_dir: Path, address: str | None = None) -> Iterator[Client]:
    """A client of the platform; a host that is started again is waited for. Raises Unreachable.

    A call that has no answer in time raises Failure if a store is the cause.
    """
    client = connect(address=address, tls=trusted(None), proxy=_proxy()) if address else _awaited(data_dir)
    try:
        yield client
    except DeadlineExceeded as problem:
        if trouble := store_trouble(client):
            raise Failure(f"{problem.message} [{problem.reason}]; {trouble}", UNREACHABLE) from problem
        raise
    finally:
        client.close()
