"""Machines may call no method that no machine calls."""

from tools.callers import every_method, uncalled

from tutti.chassis.identity.auth import Role


def test_each_role_of_machines_has_a_caller() -> None:
    assert [(method.path, role.value) for method, role in uncalled()] == []


def test_what_agents_do_is_open_to_them_and_runs_are_not() -> None:
    roles = {method.name: method.roles for method in every_method()}
    assert Role.AGENT in roles["Heartbeat"]
    assert {Role.AGENT, Role.SERVICE}.isdisjoint(roles["CheckRecipe"])
