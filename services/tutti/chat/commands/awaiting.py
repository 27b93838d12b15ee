"""Waiting for a deployment, with a deadline that names what is missing."""

import time
from collections.abc import Callable, Collection

from tutti.cli.failures import Failure
from tutti.cli.waiting import answers
from tutti.client import Client
from tutti.client.plain import plain
from tutti.contracts.chat.v1 import Deployment
from tutti.contracts.common.v1 import GetRequest


def awaited(
    client: Client, name: str, states: Collection[int], seconds: float, gone: Callable[[], bool] = lambda: False
) -> Deployment:
    """Return a deployment once it has one of these states. Raises Failure after `seconds`, and Problem."""
    deadline = time.monotonic() + seconds
    for found in answers(lambda: client.chat.GetDeployment(GetRequest(name=name)), gone):
        if found.state in states:
            return found
        if time.monotonic() > deadline:
            state, why = plain(found)["state"], found.reason or "no reason was recorded; look into the logs"
            raise Failure(f"{name} is {state} after {seconds:g} s: {why}")
    raise AssertionError
