"""Guests: the platform that a command started is not stopped under another, and nobody joins one that stops."""

from pathlib import Path

import pytest

from tutti.cli import interrupt
from tutti.cli.guests import Door, guest


class Gave(Exception):
    """What ends a wait."""


def test_the_door_stays_open_while_there_are_guests_and_is_opened_at_the_end(tmp_path: Path) -> None:
    with Door(tmp_path) as door:
        with guest(tmp_path), guest(tmp_path):
            assert not door.close()
        assert door.close()
        assert door.close()
    with guest(tmp_path):
        pass


def test_nobody_becomes_a_guest_of_a_platform_that_stops(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def looked() -> None:
        raise Gave

    monkeypatch.setattr(interrupt, "check", looked)
    with Door(tmp_path) as door:
        assert door.close()
        with pytest.raises(Gave), guest(tmp_path):
            pass
        door.open()
        with guest(tmp_path):
            pass


def test_a_command_makes_nothing_where_there_is_no_directory(tmp_path: Path) -> None:
    with guest(tmp_path / "none"):
        pass
    assert list(tmp_path.iterdir()) == []
