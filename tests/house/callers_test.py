"""Which machines may call a method; `make lint` checks that each role of machines has a caller."""

from tools.callers import every_method

from tutti.chassis.identity.auth import Role


def test_what_agents_do_is_open_to_them_and_runs_are_not() -> None:
    roles = {method.name: method.roles for method in every_method()}
    assert Role.AGENT in roles["Heartbeat"]
    assert {Role.AGENT, Role.SERVICE}.isdisjoint(roles["CheckRecipe"])
