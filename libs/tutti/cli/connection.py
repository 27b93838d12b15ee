"""Where the platform is: by data directory, or by address and token."""

import contextlib
import shlex
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import click

from tutti.cli.output import patiently
from tutti.cli.record import restarts
from tutti.client import Client, Unreachable, connect

RESTART_SECONDS, LOOK_SECONDS = 60.0, 0.1
DEFAULT_DATA_DIR = Path(".tutti")


def typed(command: str, data_dir: Path) -> str:
    """A command as it is typed for a data directory."""
    return command if data_dir == DEFAULT_DATA_DIR else f"{command} --data-dir {shlex.quote(str(data_dir))}"


def sampling(checkpoint: str, data_dir: Path) -> str:
    """Return the command that lets a checkpoint continue a text, ready to be pasted."""
    return typed(f'tutti sample {checkpoint} --prompt "The"', data_dir)


def tries(models: Sequence[tuple[str, str]], data_dir: Path) -> list[tuple[str, str]]:
    """Return a label and the command to sample each of a run's models, given as stage and checkpoint."""
    alone = len(models) == 1
    return [("to try it" if alone else f"to try {stage}", sampling(name, data_dir)) for stage, name in models]


def data_dir_option(command: Callable[..., Any]) -> Callable[..., Any]:
    return click.option(
        "--data-dir", type=click.Path(path_type=Path, file_okay=False), default=DEFAULT_DATA_DIR, show_default=True,
        envvar="TUTTI_DATA_DIR", help="Data directory of the platform.",
    )(command)  # fmt: skip


def connection_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """--data-dir, --address."""
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
                return connect(data_dir=data_dir)
            except Unreachable:
                if not restarts(data_dir) or time.monotonic() > deadline:
                    raise
            time.sleep(LOOK_SECONDS)


@contextlib.contextmanager
def connected(data_dir: Path, address: str | None = None) -> Iterator[Client]:
    """A client of the platform; a host that is started again is waited for. Raises Unreachable."""
    client = connect(address=address) if address else _awaited(data_dir)
    try:
        yield client
    finally:
        client.close()
