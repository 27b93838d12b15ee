"""A Ray cluster, for services that can work on one: whether they may, joining it, and what its tasks raised.

Promises: nothing of Ray is imported before a cluster is joined, and nothing is told to those who make it.
"""

import importlib.util
import logging
import os
import socket
from collections.abc import Callable
from urllib.parse import urlsplit

from tutti.chassis.errors import InvalidField

LOCAL, RAY = "local", "ray"
CONNECT_SECONDS = 5.0


class ClusterUnreachable(Exception):
    """The Ray cluster cannot be joined."""


def require_engine(engine: str, lacking: Callable[[], str]) -> None:
    """Raise InvalidField unless this engine can be used here; `lacking`: what is missing for a cluster, "" nothing."""
    if engine not in ("", LOCAL, RAY):
        raise InvalidField("spec.engine", seen=engine, expected=f"{LOCAL} or {RAY}")
    if engine == RAY and (lacks := lacking()):
        raise InvalidField("spec.engine", seen=RAY, expected=f"{LOCAL}, since {lacks}")


def uninstalled(service: str, *modules: str) -> str:
    """A message that names the modules among these that a service lacks to use a cluster, and how to get them; "" for
    none.
    """
    for name in modules:
        if importlib.util.find_spec(name) is None:
            return f"{name} is not installed where {service} runs: pip install 'tutti[cluster]'"
    return ""


def join(address: str, setting: str) -> int:
    """Make this process one of the Ray cluster whose head is at host:port, as `setting` says; the cores that it has.

    This machine is one of its nodes. Raises ClusterUnreachable.
    """
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"  # before it is imported
    import ray
    from ray.job_config import JobConfig

    imports_no_folder = JobConfig(_client_job=True)  # of others, workers import from this process's working directory

    parts = urlsplit(f"//{address}")
    try:
        socket.create_connection((parts.hostname, parts.port), CONNECT_SECONDS).close()
        ray.init(
            address,
            job_config=imports_no_folder,
            log_to_driver=False,
            logging_level=logging.ERROR,
            ignore_reinit_error=True,
        )
    except (OSError, ConnectionError) as error:
        raise ClusterUnreachable(
            f"the Ray cluster at {address} cannot be joined: {error}; start it, or set {setting} to where it is"
        ) from error
    return int(ray.cluster_resources().get("CPU", 1))  # type: ignore[no-untyped-call]


def cause(error: BaseException) -> BaseException:
    """The exception that a task raised, without the errors of Ray around it."""
    from ray.exceptions import RayTaskError

    while isinstance(error, RayTaskError):
        error = error.cause
    return error
