"""Which machines may call a method; `make lint` checks that each role of machines has a caller."""

from dataclasses import replace

import pytest
from tools.callers import every_method, uncalled

from tutti.chassis.identity.auth import Role
from tutti.chassis.rpc.methods import Method

MACHINES = frozenset({Role.AGENT, Role.SERVICE})


@pytest.fixture(scope="module")
def methods() -> dict[str, Method]:
    return {method.name: method for method in every_method()}


def test_what_agents_do_is_open_to_them_and_runs_are_not(methods: dict[str, Method]) -> None:
    assert Role.AGENT in methods["Heartbeat"].roles
    assert MACHINES.isdisjoint(methods["CheckRecipe"].roles)


def test_a_method_that_no_machine_calls_is_found_for_each_role(methods: dict[str, Method]) -> None:
    planted = replace(methods["CheckRecipe"], roles=frozenset({*MACHINES, Role.OPERATOR}))
    assert [role for _, role in uncalled([planted])] == [Role.AGENT, Role.SERVICE]


@pytest.mark.parametrize("name", ["ReportShard", "ReportExperience", "RegisterNode", "Heartbeat", "ReportRank"])
def test_a_call_of_an_agent_is_no_call_of_a_service(methods: dict[str, Method], name: str) -> None:
    assert [role for _, role in uncalled([replace(methods[name], roles=MACHINES)])] == [Role.SERVICE]


def test_a_call_of_a_service_is_no_call_of_an_agent(methods: dict[str, Method]) -> None:
    assert [role for _, role in uncalled([replace(methods["OpenEpoch"], roles=MACHINES)])] == [Role.AGENT]
