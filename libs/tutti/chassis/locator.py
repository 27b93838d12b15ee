"""Where services answer: by name, from the settings and the data directory.

Promises: asked before every attempt of a call, so a service that came back at another port is found.
"""

from collections.abc import Callable, Mapping
from pathlib import Path

from tutti.chassis.channel import Unreachable
from tutti.chassis.datadir import endpoint_in


def nowhere(service: str) -> str:
    return ""


def locate(service: str, addresses: Mapping[str, str], data_dir: Path, own: Callable[[str], str] = nowhere) -> str:
    """The address of a service: its own in the settings, this process (`own`, empty if elsewhere), or the directory's.

    Raises Unreachable.
    """
    address = addresses.get(service) or own(service) or endpoint_in(data_dir, service)
    if not address:
        raise Unreachable(
            f"{service}: nobody serves {data_dir}; start it with `tutti up --data-dir {data_dir}`, "
            f"or say where it is with services.{service}"
        )
    return address
