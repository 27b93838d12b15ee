"""Faults of a container: killed, paused, cut off; each is over when every container is healthy again."""

import contextlib
import json
import os
import signal
import time
from collections.abc import Callable
from enum import Enum

from tests.trials.docker.engine import TrialError
from tests.trials.docker.project import Project

FAULT_SECONDS = 12.0  # longer than the deadline of a call
HEAL_SECONDS = 90.0
FREEZES = 5
Meanwhile = Callable[[], None]


class Fault(Enum):
    KILL = "kill"
    PAUSE = "pause"
    DISCONNECT = "disconnect"


def cause(
    project: Project, service: str, fault: Fault, *, seconds: float = FAULT_SECONDS, meanwhile: Meanwhile | None = None
) -> float:
    """Cause a fault and wait until it healed; the seconds from its end until every container was healthy.

    A pause or a cut lasts `seconds`; `meanwhile` is called as it begins. Raises TrialError, which names the container
    that did not heal.
    """
    container = project.container(service)
    match fault:
        case Fault.KILL:
            before = project.started_at(container)
            os.kill(int(project.inspect(container, "{{.State.Pid}}")), signal.SIGKILL)
            ended = time.monotonic()
            project.wait(
                lambda: project.started_at(container) != before, HEAL_SECONDS, lambda: f"{service} to start again"
            )
        case Fault.PAUSE:
            ended = _around(
                lambda: _pause(project, container),
                lambda: project.engine.run("unpause", container),
                seconds,
                meanwhile,
            )
        case Fault.DISCONNECT:
            networks = _networks(project, container)
            ended = _around(
                lambda: [project.engine.run("network", "disconnect", each, container) for each in networks],
                lambda: [
                    project.engine.run("network", "connect", *names, each, container)
                    for each, names in networks.items()
                ],
                seconds,
                meanwhile,
            )
    project.wait(
        lambda: not project.unhealthy(),
        HEAL_SECONDS,
        lambda: f"{', '.join(project.unhealthy())} to be healthy after {fault.value} of {service}",
    )
    return time.monotonic() - ended


def _networks(project: Project, container: str) -> dict[str, list[str]]:
    """The options with the names of a container in each of its networks."""
    found = json.loads(project.inspect(container, "{{json .NetworkSettings.Networks}}"))
    return {
        network: [
            word for alias in each["Aliases"] or [] if not container.startswith(alias) for word in ("--alias", alias)
        ]
        for network, each in found.items()
    }


def _pause(project: Project, container: str) -> None:
    """Raises TrialError. The engine gives up on processes that it cannot freeze at once, so it is asked again."""
    for _ in range(FREEZES - 1):
        with contextlib.suppress(TrialError):
            project.engine.run("pause", container)
            return
    project.engine.run("pause", container)


def _around(
    begin: Callable[[], object], end: Callable[[], object], seconds: float, meanwhile: Meanwhile | None
) -> float:
    begin()
    until = time.monotonic() + seconds
    try:
        if meanwhile is not None:
            meanwhile()
        time.sleep(max(until - time.monotonic(), 0))
    finally:
        end()
    return time.monotonic()
