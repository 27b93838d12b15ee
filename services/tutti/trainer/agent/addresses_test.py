"""The address of a node: given or resolved, and no longer true after a move."""

import pytest

from tutti.trainer.agent.addresses import moved, of_this_machine, resolved

LOOPBACK = ["127.0.0.1", "::1", "00:00:00:00:00:00"]


def test_an_address_stays_as_it_is_and_a_name_is_resolved() -> None:
    assert resolved("10.0.0.7") == "10.0.0.7"
    assert resolved("localhost") == "127.0.0.1"
    with pytest.raises(ValueError, match=r"'no\.such\.invalid': expected an IP address of this machine"):
        resolved("no.such.invalid")


def test_a_node_has_moved_once_it_has_another_address_instead() -> None:
    assert moved("172.18.0.5", [*LOOPBACK, "172.18.0.9"])
    assert not moved("172.18.0.5", [*LOOPBACK, "172.18.0.5", "172.18.0.9"])


def test_a_node_without_any_address_is_cut_off_and_has_not_moved() -> None:
    assert not moved("172.18.0.5", [*LOOPBACK, "fe80::1%eth0", "169.254.1.1"])


def test_this_machine_has_loopback() -> None:
    assert "127.0.0.1" in of_this_machine()
