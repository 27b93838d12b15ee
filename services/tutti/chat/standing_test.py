"""The state of a deployment by what its replicas do."""

from hypothesis import given
from hypothesis import strategies as st

from tutti.chat.standing import View, state_of
from tutti.contracts.chat.v1 import DEPLOYMENT_STATE_READY, DEPLOYMENT_STATE_STARTING, DeploymentState

READY, STARTING = DEPLOYMENT_STATE_READY, DEPLOYMENT_STATE_STARTING
SERVES, STARTS = View("a", True), View("b", False, "starts")


def test_a_deployment_is_ready_when_all_replicas_serve_and_until_none_does() -> None:
    for before, replicas, after in (
        (STARTING, [SERVES, STARTS], STARTING),
        (STARTING, [SERVES, SERVES], READY),
        (READY, [SERVES, STARTS], READY),
        (READY, [STARTS, STARTS], STARTING),
        (STARTING, [], STARTING),
    ):
        assert state_of(before, replicas)[0] == after


@given(st.lists(st.booleans(), min_size=1, max_size=5), st.sampled_from([READY, STARTING]))
def test_every_replica_that_does_not_serve_is_named(serving: list[bool], before: "DeploymentState.ValueType") -> None:
    replicas = [View(f"r{number}", serves, "starts") for number, serves in enumerate(serving)]
    _, reason = state_of(before, replicas)
    assert [each.name in reason for each in replicas] == [not each for each in serving]
