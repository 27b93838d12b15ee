"""The addresses of services, by name, from the settings and the data directory.

Promises: asked before every attempt of a call, so a service that came back at another port is found.
"""

import shlex
from collections.abc import Callable, Mapping
from pathlib import Path

from tutti.chassis.config.datadir import endpoint_in
from tutti.chassis.rpc.channel import Unreachable


def nowhere(service: str) -> str:
    return ""


def locate(service: str, addresses: Mapping[str, str], data_dir: Path, own: Callable[[str], str] = nowhere) -> str:
    """The address of a service: its own in the settings, this process (`own`, empty if elsewhere), or the directory's.

    Raises Unreachable.
    """
    address = addresses.get(service) or own(service) or endpoint_in(data_dir, service)
    if not address:
        raise Unreachable(f"{nobody(data_dir)}, or say where {service} is with the setting services.{service}")
    return address


def nobody(data_dir: Path, service: str = "") -> str:
    """A message that says that no platform, or not this service, runs in this directory, and what to do."""
    whose, place = f"{service} of " if service else "", data_dir.absolute()
    command = f"tutti up --detach --data-dir {shlex.quote(str(place))}"
    return f"nobody serves {whose}{place}: start the platform with `{command}`"
