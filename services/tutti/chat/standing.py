"""The standing of a deployment: what its replicas are, and what follows for its state and its reason. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

from tutti.chassis.errors import InvalidField
from tutti.contracts.chat.v1 import DEPLOYMENT_STATE_READY, DEPLOYMENT_STATE_STARTING, DeploymentSpec, DeploymentState

MOST_REPLICAS = 16
MOST_FAILURES = 5
"""A deployment fails when a replica ended so often in a row before it served."""


@dataclass(frozen=True)
class View:
    """A replica as it is seen now: `doing` is what it does, unless it serves."""

    name: str
    serves: bool
    doing: str = ""


def check(spec: DeploymentSpec) -> None:
    """Raises InvalidField naming what cannot work."""
    if not spec.checkpoint.startswith("checkpoints/"):
        raise InvalidField("spec.checkpoint", seen=spec.checkpoint or "nothing", expected="checkpoints/JOB/LINE/STEP")
    if not 1 <= spec.replicas <= MOST_REPLICAS:
        raise InvalidField("spec.replicas", seen=spec.replicas, expected=f"1 to {MOST_REPLICAS}")


def state_of(before: "DeploymentState.ValueType", replicas: Sequence[View]) -> tuple["DeploymentState.ValueType", str]:
    """The state and the reason of a deployment that is to serve.

    It becomes ready when all of its replicas serve, and stays so for as long as one of them does.
    """
    missing = [each for each in replicas if not each.serves]
    words = "; ".join(f"replica {each.name} {each.doing}" for each in missing)
    reason = f"{len(replicas) - len(missing)} of {len(replicas)} replicas serve: {words}" if missing else ""
    enough = bool(replicas) and (not missing or (before == DEPLOYMENT_STATE_READY and len(missing) < len(replicas)))
    return DEPLOYMENT_STATE_READY if enough else DEPLOYMENT_STATE_STARTING, reason
