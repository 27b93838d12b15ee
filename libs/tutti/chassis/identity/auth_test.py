"""Tokens: those of roles, and those of one node."""

import pytest

from tutti.chassis.identity.auth import HELD, PEOPLE, Role, Tokens

TOKENS = Tokens.random()


@pytest.mark.parametrize("role", [Role.JOINER, Role.SIMULATOR])
def test_a_data_directory_holds_no_token_of_machines_that_join_and_of_simulators(role: Role) -> None:
    assert role not in HELD
    assert role.value not in TOKENS.text()
    with pytest.raises(ValueError, match="line 1 is not `role token`"):
        Tokens.parse(f"{role.value} tutti-{role.value}-a\n", [])


def test_the_token_of_a_node_is_good_for_that_node_and_has_no_role_of_its_own() -> None:
    token = TOKENS.for_node("gpu-7.rack_1")
    assert TOKENS.node_of(token) == "gpu-7.rack_1"
    assert TOKENS.role_of(token) is None
    assert Tokens.random().node_of(token) is None
    assert Tokens.random().for_service().node_of(token) is None


@pytest.mark.parametrize(
    "forged",
    [
        TOKENS.for_node("a").replace("tutti-node-a.", "tutti-node-b."),
        TOKENS.for_node("a")[:-1],
        "tutti-node-a.",
        "tutti-node-.",
        TOKENS.of(Role.AGENT),
        TOKENS.for_node("a").replace("tutti-node-", ""),
        "tutti-node-A b." + TOKENS.for_node("a").rpartition(".")[2],
    ],
    ids=["another node", "cut off", "no proof", "nothing", "of a role", "no prefix", "no name"],
)
def test_a_token_that_was_not_made_for_a_node_is_none(forged: str) -> None:
    assert TOKENS.node_of(forged) is None


def test_a_service_knows_whose_a_token_is_without_having_it() -> None:
    file = TOKENS.for_service().text()
    known = Tokens.parse(file)
    assert [known.role_of(TOKENS.of(role)) for role in PEOPLE] == [*PEOPLE]
    assert known.of(Role.SERVICE) == TOKENS.of(Role.SERVICE)
    assert known.door_secret == TOKENS.door_secret
    assert known.node_of(TOKENS.for_node("a")) == "a"
    assert not [role for role in HELD if role is not Role.SERVICE and TOKENS.of(role) in file]


@pytest.mark.parametrize("role", [role for role in HELD if role is not Role.SERVICE])
def test_what_a_service_has_of_others_is_no_token(role: Role) -> None:
    known = TOKENS.for_service()
    (line,) = [line for line in known.text().splitlines() if line.startswith(f"{role.value} ")]
    word = line.partition(" ")[2]
    for given in (word, word.partition(":")[2]):
        assert known.role_of(given) is None
        assert TOKENS.role_of(given) is None
    with pytest.raises(ValueError, match=f"the token of the role {role.value} is not here"):
        known.of(role)


def test_a_service_makes_no_token_of_a_node() -> None:
    with pytest.raises(ValueError, match="the token of the role agent is not here"):
        TOKENS.for_service().for_node("a")
