"""The platform that a command started for itself stops once no other command's run needs it."""

from pathlib import Path

import pytest

from tutti.chassis.errors import PermissionDenied
from tutti.chassis.rpc.channel import Unreachable
from tutti.cli import INTERRUPTED
from tutti.cli.failures import Failure
from tutti.cli.guests import Door, guest
from tutti.cli.handover import await_others, needs


class Looks:
    """What is unfinished, look by look; an exception is raised. Looking once more is a mistake."""

    def __init__(self, *looks: set[str] | BaseException) -> None:
        self.left = list(looks)

    def __call__(self) -> set[str]:
        found = self.left.pop(0)
        if isinstance(found, BaseException):
            raise found
        return found


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tutti.cli.handover.POLL_SECONDS", 0.0)


def test_without_another_run_nothing_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    await_others(Looks(set()))
    assert capsys.readouterr().err == ""


def test_runs_of_others_are_waited_for_and_named_once(capsys: pytest.CaptureFixture[str]) -> None:
    looks = Looks({"runs/b", "runs/c"}, {"runs/b", "runs/c"}, {"runs/c"}, set())
    await_others(looks)
    assert not looks.left
    said = capsys.readouterr().err.splitlines()
    assert [line.partition(" stays up for ")[2] for line in said] == [
        "runs/b, runs/c; Ctrl-C stops it now",
        "runs/c; Ctrl-C stops it now",
    ]


def test_runs_are_waited_for_and_then_commands_but_not_what_an_earlier_platform_left(tmp_path: Path) -> None:
    with Door(tmp_path) as door:
        with guest(tmp_path):
            assert needs(lambda: {"runs/old", "runs/b"}, {"runs/old"}, door) == {"runs/b"}
            assert needs(lambda: {"runs/old"}, {"runs/old"}, door) == {"another command"}
        assert needs(lambda: {"runs/b"}, set(), door) == {"runs/b"}
        with guest(tmp_path):  # it is open again
            pass
        assert needs(lambda: {"runs/old"}, {"runs/old"}, door) == set()


def test_a_hiccup_is_waited_out_and_a_refusal_is_not() -> None:
    looks = Looks(Unreachable("restarts"), {"runs/b"}, Unreachable("restarts"), set())
    await_others(looks)
    assert not looks.left
    with pytest.raises(PermissionDenied):
        await_others(Looks(PermissionDenied("no")))


def test_an_interrupt_stops_it_under_them_and_says_so() -> None:
    with pytest.raises(Failure, match="stops under runs/b; the same commands resume them") as caught:
        await_others(Looks({"runs/b"}, KeyboardInterrupt()))
    assert caught.value.code == INTERRUPTED
